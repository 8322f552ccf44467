"""Fetch sessions of those who follow this node (KIP-227): a request names what changed, and an
answer what is new. As Kafka's FetchSession; pure.
"""

from __future__ import annotations

import secrets
from typing import Any

__all__ = ["FetchSession", "FetchSessions", "SessionError"]

_INITIAL, _FINAL = 0, -1
_MOST_SESSIONS = 64


class SessionError(Exception):
    """`code`: Kafka's, 70 for a session that is not known, 71 for an epoch out of turn."""

    def __init__(self, code: int) -> None:
        super().__init__(f"fetch session error {code}")
        self.code = code


class FetchSession:
    """`asked` are the topics and partitions, as they were asked for last, by id and number."""

    def __init__(self, session_id: int) -> None:
        self.session_id = session_id
        self.epoch = 1
        self.asked: dict[tuple[Any, int], tuple[Any, Any]] = {}
        self._told: dict[tuple[Any, int], tuple[int, int]] = {}

    def update(self, request: Any) -> None:
        """Takes in what a request names."""
        for topic in request.topics:
            for partition in topic.partitions:
                key = (topic.topic_id, int(partition.partition))
                self.asked[key] = (topic, partition)
                self._told.pop(key, None)
        for topic in request.forgotten_topics_data:
            for number in topic.partitions:
                self.asked.pop((topic.topic_id, int(number)), None)

    def is_news(self, key: tuple[Any, int], fields: dict[str, Any]) -> bool:
        """Whether an answer has to name the partition; it is told then."""
        marks = (int(fields.get("high_watermark", -1)), int(fields.get("log_start_offset", -1)))
        error = fields["error_code"].value
        known = self._told.get(key)
        self._told[key] = marks
        if error:
            self._told.pop(key)  # and again, until it is over
        return bool(error or fields.get("records") or "diverging" in fields or known != marks)


class FetchSessions:
    """Of all connections; the oldest go first."""

    def __init__(self) -> None:
        self._sessions: dict[int, FetchSession] = {}

    def of(self, request: Any) -> FetchSession | None:
        """The session of a request, brought up to date; None: it wants none. Raises
        SessionError."""
        session_id, epoch = int(request.session_id), int(request.session_epoch)
        if epoch in (_INITIAL, _FINAL):
            self._sessions.pop(session_id, None)
            if epoch == _FINAL:
                return None
            session = self._new()
        else:
            found = self._sessions.get(session_id)
            if found is None:
                raise SessionError(70)
            if found.epoch != epoch:
                raise SessionError(71)
            session = found
            session.epoch = epoch % 0x7FFF_FFFF + 1
        session.update(request)
        return session

    def _new(self) -> FetchSession:
        while True:
            session_id = 1 + secrets.randbelow(2**31 - 1)
            if session_id not in self._sessions:
                break
        while len(self._sessions) >= _MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        session = self._sessions[session_id] = FetchSession(session_id)
        return session
