"""Who may ask the console, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.console import Console

from pykcoord import Coordinator
from pykcoord.web import WebOptions
from pykcoord.web.app import ASSETS

TOKEN = "correct-horse-battery-staple"


def _console(tmp_path: Path, options: WebOptions) -> Iterator[Console]:
    with Coordinator(tmp_path, topics={"orders": 2}, web=options) as coordinator:
        assert coordinator.web_url is not None
        yield Console(coordinator.web_url)


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """Read-only, without a token."""
    yield from _console(tmp_path_factory.mktemp("data"), WebOptions(("127.0.0.1", 0)))


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """Allows changes."""
    yield from _console(
        tmp_path_factory.mktemp("data"), WebOptions(("127.0.0.1", 0), allows_changes=True)
    )


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """Wants a token."""
    yield from _console(tmp_path_factory.mktemp("data"), WebOptions(("127.0.0.1", 0), token=TOKEN))


@pytest.mark.parametrize(
    "path", ["/", "/group", "/cluster", "/login", "/assets/app.js", "/api/groups", "/nothing"]
)
def test_every_answer_binds_the_browser(reader: Console, path: str) -> None:
    _, headers, _ = reader.ask("GET", path)
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert "require-trusted-types-for 'script'" in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"


@pytest.mark.parametrize("name", ASSETS)
def test_assets_have_their_kind(reader: Console, name: str) -> None:
    kinds = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
    status, headers, body = reader.ask("GET", f"/assets/{name}")
    assert (status, headers["Content-Type"].partition(";")[0]) == (200, kinds[name.split(".")[-1]])
    assert body


@pytest.mark.parametrize("name", ["../app.py", "%2e%2e/app.py", "index.html", "nothing.js", ""])
def test_nothing_else_is_a_file(reader: Console, name: str) -> None:
    assert reader.ask("GET", f"/assets/{name}")[0] == 404


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", ""])
def test_another_name_that_leads_here_is_refused(reader: Console, host: str) -> None:
    """DNS rebinding: a page of another site that reads what is on loopback."""
    assert reader.ask("GET", "/api/groups", headers={"Host": host})[0] == 421


@pytest.mark.parametrize("path", ["/", "/api/groups", "/api/events", "/api/session", "/metrics"])
def test_a_token_is_wanted(guarded: Console, path: str) -> None:
    assert guarded.ask("GET", path)[0] == 401
    for given in (f"Bearer {TOKEN}x", "Bearer ", f"Basic {TOKEN}", "Bearer ü"):
        headers = {"Authorization": given.encode().decode("latin-1")}
        assert guarded.ask("GET", path, headers=headers)[0] == 401


def test_who_has_the_token_reads(guarded: Console) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    assert guarded.ask("GET", "/api/groups", headers=headers)[0] == 200
    assert guarded.ask("GET", "/metrics", headers=headers)[0] == 200
    for path in ("/healthz", "/readyz", "/login", "/assets/login.js"):
        assert guarded.ask("GET", path)[0] == 200
    status, found, _ = guarded.ask("GET", "/", headers={"Accept": "text/html"})
    assert (status, found["Location"]) == (303, "/login")


def test_a_browser_signs_in_and_out(guarded: Console) -> None:
    def sign(path: str, body: Any, **headers: str) -> Any:
        sent = {"Content-Type": "application/json", **headers}
        return guarded.ask("POST", path, headers=sent, body=json.dumps(body).encode())

    assert sign("/login", {"token": "wrong"})[0] == 401
    status, headers, _ = sign("/login", {"token": TOKEN})
    cookie = headers["Set-Cookie"]
    assert status == 204
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    assert TOKEN not in cookie
    sent = {"Cookie": cookie.partition(";")[0]}
    assert guarded.ask("GET", "/api/groups", headers=sent)[0] == 200
    # Cookies of whatever else is served at that name, at any port.
    for others in ('settings={"dark": true}', "a[0]=1", "nothing", 'half="'):
        beside = {"Cookie": f"{others}; {sent['Cookie']}"}
        assert guarded.ask("GET", "/api/groups", headers=beside)[0] == 200, others
    assert sign("/logout", {}, **sent)[0] == 204
    assert guarded.ask("GET", "/api/groups", headers=sent)[0] == 401


CHANGES = ["/api/group/delete", "/api/group/expel", "/api/group/reset"]


@pytest.mark.parametrize("path", CHANGES)
def test_a_console_is_read_only_unless_it_is_told(reader: Console, path: str) -> None:
    status, answer = reader.post(path, {"id": "billing", "confirm": "billing"})
    assert (status, "--web-admin" in answer["error"]) == (403, True)
    assert reader.get("/api/session")["change_token"] is None
    assert reader.ask("GET", path)[0] == 405


@pytest.mark.parametrize("path", CHANGES)
@pytest.mark.parametrize(
    "headers",
    [
        {"X_Pykcoord_Change": ""},
        {"X_Pykcoord_Change": "wrong"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://["},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ],
)
def test_another_site_changes_nothing(admin: Console, path: str, headers: dict[str, str]) -> None:
    status, _ = admin.post(path, {"id": "billing", "confirm": "billing"}, **headers)
    assert status == 403


@pytest.mark.parametrize("path", CHANGES)
@pytest.mark.parametrize("body", [{"id": "billing"}, {"id": "billing", "confirm": "other"}, {}, []])
def test_a_change_is_confirmed(admin: Console, path: str, body: Any) -> None:
    assert admin.post(path, body)[0] == 400


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"to": "nowhere"}, 400),
        ({"to": "offset"}, 400),
        ({"to": "offset", "offset": -1}, 400),
        ({"to": "offset", "offset": True}, 400),
        ({"to": "earliest", "partitions": []}, 400),
        ({"to": "earliest", "partitions": "orders"}, 400),
        ({"to": "earliest", "partitions": [{"topic": "orders", "partition": "0"}]}, 400),
        ({"to": "earliest", "partitions": [{"topic": 7, "partition": 0}]}, 400),
        ({"to": "earliest", "partitions": [{"topic": "none", "partition": 0}]}, 409),
        ({"to": "latest", "partitions": [{"topic": "none", "partition": 0}]}, 400),
    ],
)
def test_a_reset_says_what_it_means(admin: Console, change: Any, status: int) -> None:
    place = {"topic": "orders", "partition": 0}
    body = {"id": "billing", "confirm": "billing", "partitions": [place]}
    assert admin.post("/api/group/reset", body | change)[0] == status


@pytest.mark.parametrize(
    "parameters",
    [
        {"size": "0"}, {"size": "201"}, {"size": "x"}, {"size": "-1"}, {"size": "٣"}, {"sort": "x"},
        {"order": "up"}, {"skip": "99999999999999999999"}, {"search": "x" * 1_001},
    ],
)  # fmt: skip
def test_parameters_are_checked(reader: Console, parameters: dict[str, str]) -> None:
    status, _, body = reader.ask("GET", "/api/groups", parameters)
    assert status == 400
    assert json.loads(body)["error"]


def test_a_group_that_is_not_there(reader: Console) -> None:
    assert reader.ask("GET", "/api/group", {"id": "nothing"})[0] == 404
    assert reader.ask("GET", "/api/group")[0] == 400


@pytest.mark.parametrize(
    ("headers", "body", "status"),
    [
        ({"Content-Type": "text/plain"}, b"{}", 415),
        ({"Content-Type": "application/json"}, b"{", 400),
        ({"Content-Type": "application/json"}, b"[" * 100_000, 400),
        ({"Content-Type": "application/json"}, b"\xff", 400),
        ({"Content-Type": "application/json"}, b" " * (1 << 21), 413),
    ],
)
def test_bodies_are_checked(
    guarded: Console, headers: dict[str, str], body: bytes, status: int
) -> None:
    assert guarded.ask("POST", "/login", headers=headers, body=body)[0] == status
