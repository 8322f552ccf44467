"""Fetch sessions of followers: what a request leaves out, and what has to be looked at."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pykcoord.node.fetch_sessions import FetchSessions, SessionError

_ID = bytes(16)


def _request(
    session_id: int, epoch: int, *asked: tuple[int, int], forgotten: tuple[int, ...] = ()
) -> Any:
    return SimpleNamespace(
        session_id=session_id,
        session_epoch=epoch,
        named=[(_ID, number, 3, at, 2, 1 << 20) for number, at in asked],
        forgotten=[(_ID, number) for number in forgotten],
    )


def test_a_request_names_what_changed() -> None:
    sessions = FetchSessions()
    session = sessions.of(_request(0, 0, (0, 10), (1, 20)), 0.0)
    assert sessions.of(_request(session.session_id, 1, (1, 25)), 0.0) is session
    assert {number: one.offset for (_, number), one in session.asked.items()} == {0: 10, 1: 25}
    sessions.of(_request(session.session_id, 2, forgotten=(0,)), 0.0)
    assert [number for _, number in session.asked] == [1]
    assert list(session.news) == [(_ID, 1)]


def test_what_is_named_or_has_moved_is_looked_at() -> None:
    sessions = FetchSessions()
    session = sessions.of(_request(0, 0, (0, 10), (1, 20)), 0.0)
    assert list(session.news) == [(_ID, 0), (_ID, 1)]
    session.news.clear()
    sessions.of(_request(session.session_id, 1, (1, 21)), 0.0)
    assert list(session.news) == [(_ID, 1)]
    assert session.look_at([(_ID, 0), (_ID, 2)])
    assert not session.look_at([(_ID, 2)])
    assert list(session.news) == [(_ID, 1), (_ID, 0)]


def test_what_was_told_is_known_until_it_is_forgotten() -> None:
    sessions = FetchSessions()
    session = sessions.of(_request(0, 0, (0, 10)), 0.0)
    session.asked[_ID, 0].told = [5, 5, 0]
    sessions.of(_request(session.session_id, 1, (0, 11)), 0.0)
    assert session.asked[_ID, 0].told == [5, 5, 0]
    sessions.of(_request(session.session_id, 2, forgotten=(0,)), 0.0)
    sessions.of(_request(session.session_id, 3, (0, 11)), 0.0)
    assert session.asked[_ID, 0].told is None


def test_sessions_begin_end_and_are_refused() -> None:
    sessions = FetchSessions()
    session = sessions.of(_request(0, 0, (0, 10)), 0.0)
    with pytest.raises(SessionError, match="71"):
        sessions.of(_request(session.session_id, 2), 0.0)
    assert sessions.of(_request(session.session_id, -1, (0, 10)), 0.0).session_id == 0
    assert not list(sessions)
    with pytest.raises(SessionError, match="70"):
        sessions.of(_request(session.session_id, 1), 0.0)
    first = sessions.of(_request(0, 0, (0, 1)), 0.0)
    for _ in range(256):
        sessions.of(_request(0, 0, (0, 1)), 0.0)
    with pytest.raises(SessionError, match="70"):
        sessions.of(_request(first.session_id, 1), 0.0)


def test_who_is_silent_is_given_up_when_another_comes() -> None:
    sessions = FetchSessions()
    silent = sessions.of(_request(0, 0, (0, 1)), 0.0)
    heard = sessions.of(_request(0, 0, (0, 1)), 0.0)
    sessions.of(_request(heard.session_id, 1), 100.0)
    assert list(sessions) == [silent, heard]
    sessions.of(_request(0, 0, (0, 1)), 121.0)
    assert silent not in list(sessions)
    assert heard in list(sessions)
