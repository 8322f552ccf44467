"""The internal topic of group events, as the node-level APIs see it: hidden from lists, and the one
topic whose records are served. Files are read where they lie, also those of other nodes of this
machine; what is far away is read on a thread before a request is answered.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol

from pykcoord.catalogue import Topic

__all__ = [
    "EVENTS_TOPIC_ID", "EventFiles", "EventsTopic", "Question", "Stretch", "at_question",
    "ends_question", "read_question",
]  # fmt: skip

# Of all servers alike, so that a client may go from one node to another.
EVENTS_TOPIC_ID = uuid.UUID("9d4f2c5e-7a53-4b0e-8a57-6b1f0a3c7e11")
# Of one partition in one answer: it may be read on the loop.
_MOST_BYTES = 1 << 20
# Of all partitions of a request, where that is far away; and how many answers are kept.
_MOST_FAR_BYTES = 8 << 20
_MOST_TOLD = 4_096

Question = tuple[str, int, int, int]
"""What is asked (`ends`, `read`, `at`), of which partition, and two numbers."""


class Stretch(NamedTuple):
    """Records of a partition: its start, its end, and whole batches from the offset on."""

    start_offset: int
    end_offset: int
    records: bytes


class EventFiles(Protocol):
    """Where the records lie (`pykcoord.recorded.Recorded`). Raises OSError."""

    @property
    def topic(self) -> str: ...
    @property
    def shards(self) -> int: ...
    @property
    def is_far(self) -> bool: ...
    def ends(self, shard: int) -> tuple[int, int]: ...
    def read(self, shard: int, offset: int, max_bytes: int) -> bytes: ...
    def offset_at(self, shard: int, timestamp_ms: int) -> tuple[int, int] | None: ...


class EventsTopic:
    """That topic."""

    def __init__(self, files: EventFiles) -> None:
        self._files = files
        self.topic = Topic(files.topic, EVENTS_TOPIC_ID, files.shards)
        self.is_far = files.is_far
        """Whether `ask` has to be called before a question is answered."""
        self._threads = ThreadPoolExecutor(1, "pykcoord-events") if files.is_far else None
        self._told: dict[Question, Any] = {}
        self._told_bytes = 0

    def by_name(self, name: str | None) -> Topic | None:
        """The topic, if it is asked for by its name."""
        return self.topic if name == self.topic.name else None

    def by_id(self, topic_id: uuid.UUID | None) -> Topic | None:
        """The topic, if it is asked for by its id."""
        return self.topic if topic_id == EVENTS_TOPIC_ID else None

    def is_asked(self, name: str | None, topic_id: uuid.UUID | None) -> bool:
        """Whether the topic is asked for, by either."""
        return self.by_name(name) is not None or self.by_id(topic_id) is not None

    def ask(self, questions: Sequence[Question]) -> asyncio.Future[None] | None:
        """Have these answered before `ends`, `read` and `offset_at` are called; None: nothing is
        far."""
        if self._threads is None or not questions:
            return None
        asked = asyncio.get_running_loop().run_in_executor(self._threads, self._answers, questions)
        return asyncio.ensure_future(self._take(asked))

    async def _take(self, asked: asyncio.Future[dict[Question, Any]]) -> None:
        """Keep what was told until it is forgotten for what is newer: several may ask the same."""
        for question, answer in (await asked).items():
            self._told_bytes += _size(answer) - _size(self._told.pop(question, None))
            self._told[question] = answer
        while len(self._told) > _MOST_TOLD or self._told_bytes > 2 * _MOST_FAR_BYTES:
            self._told_bytes -= _size(self._told.pop(next(iter(self._told))))

    def _answers(self, questions: Sequence[Question]) -> dict[Question, Any]:
        found: dict[Question, Any] = {}
        left = _MOST_FAR_BYTES
        for question in questions:
            if question in found or (question[0] == "read" and left <= 0):
                continue
            answer = found[question] = self._answer(question)
            left -= _size(answer)
        return found

    def _answer(self, question: Question) -> Any:
        what, partition, first, second = question
        try:
            if what == "ends":
                return self._files.ends(partition)
            if what == "at":
                return self._files.offset_at(partition, first) or (-1, -1)
            return self._read(partition, first, second)
        except Exception:  # a store has said what is wrong with it
            return _NOTHING[what]

    def _of(self, question: Question) -> Any:
        if self._threads is None:
            return self._answer(question)
        return self._told.get(question, _NOTHING[question[0]])

    def _read(self, partition: int, offset: int, max_bytes: int) -> Stretch:
        start, end = self._files.ends(partition)
        if not start <= offset < end:
            return Stretch(start, end, b"")
        return Stretch(start, end, self._files.read(partition, offset, max_bytes))

    def ends(self, partition: int) -> tuple[int, int]:
        """Its first offset and its end; (0, 0) where they cannot be read."""
        found: tuple[int, int] = self._of(ends_question(partition))
        return found

    def read(self, partition: int, offset: int, max_bytes: int) -> Stretch | None:
        """What lies from an offset on; None where it cannot be read."""
        found: Stretch | None = self._of(read_question(partition, offset, max_bytes))
        return found

    def offset_at(self, partition: int, timestamp_ms: int) -> tuple[int, int]:
        """Offset and time of the first record of that time or later; (-1, -1): there is none."""
        found: tuple[int, int] = self._of(at_question(partition, timestamp_ms))
        return found


def ends_question(partition: int) -> Question:
    """What `EventsTopic.ends` asks."""
    return "ends", partition, 0, 0


def at_question(partition: int, timestamp_ms: int) -> Question:
    """What `EventsTopic.offset_at` asks."""
    return "at", partition, timestamp_ms, 0


def read_question(partition: int, offset: int, max_bytes: int) -> Question:
    """What `EventsTopic.read` asks."""
    return "read", partition, offset, min(max_bytes, _MOST_BYTES)


_NOTHING: dict[str, Any] = {"ends": (0, 0), "at": (-1, -1), "read": None}


def _size(answer: Any) -> int:
    return len(answer.records) if isinstance(answer, Stretch) else 0
