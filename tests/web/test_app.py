"""The console's application alone, of a source that fails, and of browsers that go."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from pykcoord.errors import KcoordError
from pykcoord.web import WebOptions
from pykcoord.web.app import Application

CHANGES = ["/api/group/delete", "/api/group/expel", "/api/group/reset"]
BODY = {
    "id": "billing", "confirm": "billing", "member_id": "app-1", "to": "earliest",
    "partitions": [{"topic": "orders", "partition": 0}],
}  # fmt: skip


class Away:
    """A coordinator that nobody leads now."""

    name = "away"
    shards = 1
    is_watched = False
    tells_all = True

    def nodes(self) -> list[Any]:
        return []

    def topics(self) -> dict[str, Any]:
        return {}

    def coordinator(self, group_id: str) -> Any:
        raise ConnectionError("no node coordinates that group now")

    def rebalanced_since(self, since_ms: int) -> Any:
        raise KcoordError("the events are damaged")


def _application() -> Application:
    source: Any = Away()
    return Application(source, WebOptions(("127.0.0.1", 0), allows_changes=True), lambda: 0)


def _answer(application: Application, path: str, messages: Iterable[Mapping[str, Any]]) -> int:
    """The status of the answer to a change whose body comes in these messages; 0: none is sent."""
    waiting = list(messages)
    sent: list[Any] = []
    token = application._sessions.change_token

    async def receive() -> Any:
        return waiting.pop(0) if waiting else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    headers = {"host": "127.0.0.1", "content-type": "application/json", "x-pykcoord-change": token}
    scope = {
        "type": "http", "method": "POST", "path": path, "raw_path": path.encode(),
        "query_string": b"", "scheme": "http", "server": ("127.0.0.1", 80), "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }  # fmt: skip
    asyncio.run(application.starlette(scope, receive, send))
    return next((one["status"] for one in sent if one["type"] == "http.response.start"), 0)


@pytest.mark.parametrize("path", CHANGES)
def test_a_change_that_nobody_takes_is_unavailable(path: str) -> None:
    body = {"type": "http.request", "body": json.dumps(BODY).encode(), "more_body": False}
    assert _answer(_application(), path, [body]) == 503


@pytest.mark.parametrize("path", CHANGES)
def test_a_browser_that_goes_in_the_middle_of_its_question_is_no_failure(path: str) -> None:
    half = {"type": "http.request", "body": b'{"id"', "more_body": True}
    assert _answer(_application(), path, [half]) < 500


def test_rebalances_of_before_that_cannot_be_read_are_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    asyncio.run(_application()._count_before())
    (line,) = [one.getMessage() for one in caplog.records]
    assert "the events are damaged" in line
