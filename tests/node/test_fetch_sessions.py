"""Fetch sessions of followers: what a request leaves out, and what an answer leaves out."""

from __future__ import annotations

import uuid
from types import SimpleNamespace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from pykcoord.node.fetch_sessions import FetchSessions, SessionError

_ID = uuid.UUID(int=5)


def _request(
    session_id: int, epoch: int, *asked: tuple[int, int], forgotten: tuple[int, ...] = ()
) -> Any:
    partitions = [SimpleNamespace(partition=number, fetch_offset=at) for number, at in asked]
    return SimpleNamespace(
        session_id=session_id,
        session_epoch=epoch,
        topics=[SimpleNamespace(topic_id=_ID, partitions=partitions)] if asked else [],
        forgotten_topics_data=[SimpleNamespace(topic_id=_ID, partitions=forgotten)],
    )


def _fields(**more: Any) -> dict[str, Any]:
    return {"error_code": ErrorCode.none, "high_watermark": 5, "log_start_offset": 0, **more}


def test_a_request_names_what_changed() -> None:
    sessions = FetchSessions()
    session = sessions.of(_request(0, 0, (0, 10), (1, 20)))
    assert session is not None
    again = sessions.of(_request(session.session_id, 1, (1, 25)))
    assert again is session
    asked = {number: one.fetch_offset for (_, number), (_, one) in session.asked.items()}
    assert asked == {0: 10, 1: 25}
    sessions.of(_request(session.session_id, 2, forgotten=(0,)))
    assert [number for _, number in session.asked] == [1]


def test_an_answer_names_what_is_new() -> None:
    session = FetchSessions().of(_request(0, 0, (0, 10)))
    assert session is not None
    key = (_ID, 0)
    assert session.is_news(key, _fields())
    assert not session.is_news(key, _fields())
    assert session.is_news(key, _fields(high_watermark=6))
    assert session.is_news(key, _fields(high_watermark=6, records=b"x"))
    assert not session.is_news(key, _fields(high_watermark=6))
    assert session.is_news(key, _fields(high_watermark=6, diverging=(1, 2)))
    refused = {"error_code": ErrorCode.fenced_leader_epoch}
    assert session.is_news(key, refused)
    assert session.is_news(key, refused)
    assert session.is_news(key, _fields(high_watermark=6)), "it is over"


def test_sessions_that_are_not_known_and_epochs_out_of_turn() -> None:
    sessions = FetchSessions()
    with pytest.raises(SessionError, match="70"):
        sessions.of(_request(123, 1))
    session = sessions.of(_request(0, 0, (0, 10)))
    assert session is not None
    with pytest.raises(SessionError, match="71"):
        sessions.of(_request(session.session_id, 2))
    assert sessions.of(_request(session.session_id, -1, (0, 10))) is None
    with pytest.raises(SessionError, match="70"):
        sessions.of(_request(session.session_id, 1))
    first = sessions.of(_request(0, 0, (0, 1)))
    assert first is not None
    for _ in range(64):
        sessions.of(_request(0, 0, (0, 1)))
    with pytest.raises(SessionError, match="70"):
        sessions.of(_request(first.session_id, 1))
