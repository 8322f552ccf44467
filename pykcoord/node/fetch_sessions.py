"""Fetch sessions of those who follow this node (KIP-227): a request names what changed, and an
answer what is new. As Kafka's FetchSession; pure.

A session knows which of its partitions have to be looked at (`news`): all others are as they were
told, and cost a request nothing.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator

from pykcoord.node._fetch_frames import Asked
from pykcoord.node.leader import Heard
from pykcoord.node.store import Led

__all__ = ["FetchSession", "FetchSessions", "Followed", "Key", "SessionError"]

_INITIAL, _FINAL = 0, -1
_MOST_SESSIONS = 256
# Kafka's min.incremental.fetch.session.eviction.ms: whoever is silent for so long is gone.
_SILENT_SECONDS = 120.0

Key = tuple[bytes, int]
"""A topic's id and a partition."""


class SessionError(Exception):
    """`code`: Kafka's, 70 for a session that is not known, 71 for an epoch out of turn."""

    def __init__(self, code: int) -> None:
        super().__init__(f"fetch session error {code}")
        self.code = code


class Followed:
    """A partition as it was asked for last: under `leader_epoch` (-1: any), from `offset` on, the
    epoch of the batch before which is `last_epoch` (-1: not told), `most_bytes` at once. `told` are
    the high watermark, the last stable offset and the start of the log that were told last. `led`
    is what is led here, once it was seen that the follower's log is a part of it."""

    __slots__ = ("last_epoch", "leader_epoch", "led", "most_bytes", "offset", "told")

    def __init__(self, leader_epoch: int, offset: int, last_epoch: int, most_bytes: int) -> None:
        self.leader_epoch = leader_epoch
        self.offset = offset
        self.last_epoch = last_epoch
        self.most_bytes = most_bytes
        self.told: list[int] | None = None
        self.led: Led | None = None


class FetchSession:
    """`asked` are the partitions that are followed, `news` those of them that have to be looked at,
    in the order in which they are answered, `marks` those whose high watermark has moved. `heard`
    is when it was heard of last, `asked_at` (seconds) when its last request came, `answered_at`
    when it was answered, `marks_told_at` when it was told of marks alone."""

    def __init__(self, session_id: int) -> None:
        self.session_id = session_id
        self.epoch = 1
        self.heard = Heard()
        self.asked_at = self.answered_at = self.marks_told_at = float("-inf")
        self.asked: dict[Key, Followed] = {}
        self.news: dict[Key, None] = {}
        self.marks: dict[Key, None] = {}

    def update(self, asked: Asked) -> None:
        """Takes in what a request names."""
        for topic_id, number, *how in asked.named:
            key = (topic_id, number)
            known = self.asked.get(key)
            followed = self.asked[key] = Followed(*how)
            followed.told = None if known is None else known.told
            self.news[key] = None
        for key in asked.forgotten:
            self.asked.pop(key, None)
            self.news.pop(key, None)

    def look_at(self, keys: Iterable[Key]) -> bool:
        """Something of these partitions is new; says whether one of them is followed here."""
        found = {key: None for key in keys if key in self.asked}
        self.news |= found
        return bool(found)


class FetchSessions:
    """Of all connections; those of whom nothing is heard go, and of too many the oldest."""

    def __init__(self) -> None:
        self._sessions: dict[int, FetchSession] = {}

    def __iter__(self) -> Iterator[FetchSession]:
        return iter(self._sessions.values())

    def of(self, asked: Asked, now: float) -> FetchSession:
        """The session of a request, brought up to date; where it wants none, one that ends with the
        answer, of id 0. `now`: seconds. Raises SessionError."""
        session_id, epoch = asked.session_id, asked.session_epoch
        if epoch in (_INITIAL, _FINAL):
            self._sessions.pop(session_id, None)
            session = FetchSession(0) if epoch == _FINAL else self._new(now)
        else:
            found = self._sessions.get(session_id)
            if found is None:
                raise SessionError(70)
            if found.epoch != epoch:
                raise SessionError(71)
            session = found
            session.epoch = epoch % 0x7FFF_FFFF + 1
        session.asked_at = now
        session.update(asked)
        return session

    def _new(self, now: float) -> FetchSession:
        while True:
            session_id = 1 + secrets.randbelow(2**31 - 1)
            if session_id not in self._sessions:
                break
        for one, of in list(self._sessions.items()):
            if now - of.asked_at > _SILENT_SECONDS:
                del self._sessions[one]
        while len(self._sessions) >= _MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        session = self._sessions[session_id] = FetchSession(session_id)
        return session
