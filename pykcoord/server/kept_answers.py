"""Answers that are kept, because clients ask the same again: for all, or for one connection.

An answer holds until the cluster changes.
"""

from __future__ import annotations

from typing import NamedTuple

from pykcoord.server.budget import Budget

# Longer Fetch requests are parsed each time rather than kept for every connection.
_MEMO_BYTES = 16_384
# The memory of all memos.
_MEMOS_BYTES = 64 * 1024 * 1024
# The memory of answers that are kept for all connections; the longest of them, and the longest
# question.
_KNOWN_BYTES = 8 * 1024 * 1024
_KNOWN_ANSWER_BYTES = 1024 * 1024
_QUESTION_BYTES = 1_024
_ENTRY_BYTES = 300


class Memo:
    """A Fetch as it came, with its answer: consumers repeat the same request."""

    __slots__ = ("_budget", "_size", "body", "frame_bytes", "request", "version", "wait_ms")

    def __init__(
        self,
        request: tuple[bytes, bytes],  # the frame but for its correlation id
        version: tuple[int, int],  # of the cluster
        body: bytes,
        wait_ms: int,
        budget: Budget,
    ) -> None:
        self.request = request
        self.frame_bytes = 4 + sum(map(len, request))
        self.version = version
        self.body = body
        self.wait_ms = wait_ms
        self._budget = budget
        self._size = len(request[1]) + len(body) + _ENTRY_BYTES
        budget.take(self._size)

    def __del__(self) -> None:
        self._budget.give(self._size)


class Known(NamedTuple):
    """An answer to all who ask the same, and the software that the question named."""

    body: bytes
    software: tuple[str, str] | None


# API key, version, and the body of the request.
Question = tuple[int, int, bytes]


def question_of(key: int, version: int, frame: bytes, body_at: int) -> Question | None:
    """What a frame asks, whose body begins there; None: too long to be worth it. It is not copied
    then, which takes a millisecond for 2 MiB."""
    if len(frame) - body_at > _QUESTION_BYTES:
        return None
    return key, version, frame[body_at:]


class KeptAnswers:
    """Those of one server."""

    def __init__(self) -> None:
        self._known: dict[Question, Known] = {}
        self._known_bytes = 0
        self._known_version = (-1, -1)
        self._memos = Budget(_MEMOS_BYTES)

    def look_at(self, version: tuple[int, int]) -> None:
        """The cluster is of this version now: answers of another are gone."""
        if self._known_version != version or self._known_bytes > _KNOWN_BYTES:
            self._known.clear()
            self._known_bytes = 0
            self._known_version = version

    def find(self, question: Question) -> Known | None:
        """The answer to all: when a group starts, all of its members ask the same."""
        return self._known.get(question)

    def keep(
        self,
        question: Question,
        version: tuple[int, int],
        body: memoryview,
        software: tuple[str, str] | None,
    ) -> None:
        """Keep an answer for all, unless it is too long to be worth it."""
        if self._known_version == version and len(body) <= _KNOWN_ANSWER_BYTES:
            self._known[question] = Known(bytes(body), software)
            self._known_bytes += len(question[2]) + len(body) + _ENTRY_BYTES

    def memo(
        self, frame: bytes, version: tuple[int, int], body: memoryview, wait_ms: int
    ) -> Memo | None:
        """The answer to keep for the connection of a Fetch; None: too long, or no room."""
        if len(frame) > _MEMO_BYTES or not self._memos.has_room:
            return None
        return Memo((frame[:4], frame[8:]), version, bytes(body), wait_ms, self._memos)
