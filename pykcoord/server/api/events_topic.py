"""The internal topic of group events, as the node-level APIs see it: hidden from lists, and the one
topic whose records are served. The files are read where they lie, also those of other nodes of
this machine.
"""

from __future__ import annotations

import uuid
from typing import NamedTuple, Protocol

from pykcoord.catalogue import Topic

__all__ = ["EVENTS_TOPIC_ID", "EventFiles", "EventsTopic", "Stretch"]

# Of all servers alike, so that a client may go from one node to another.
EVENTS_TOPIC_ID = uuid.UUID("9d4f2c5e-7a53-4b0e-8a57-6b1f0a3c7e11")
# Of one partition in one answer: it is read on the loop.
_MOST_BYTES = 1 << 20


class Stretch(NamedTuple):
    """Records of a partition: its start, its end, and whole batches from the offset on."""

    start_offset: int
    end_offset: int
    records: bytes


class EventFiles(Protocol):
    """Where the records lie (`pykcoord.recorder.RecordedFiles`). Raises OSError."""

    @property
    def topic(self) -> str: ...
    @property
    def shards(self) -> int: ...
    def ends(self, shard: int) -> tuple[int, int]: ...
    def read(self, shard: int, offset: int, max_bytes: int) -> bytes: ...
    def offset_at(self, shard: int, timestamp_ms: int) -> tuple[int, int] | None: ...


class EventsTopic:
    """That topic."""

    def __init__(self, files: EventFiles) -> None:
        self._files = files
        self.topic = Topic(files.topic, EVENTS_TOPIC_ID, files.shards)

    def by_name(self, name: str | None) -> Topic | None:
        """The topic, if it is asked for by its name."""
        return self.topic if name == self.topic.name else None

    def by_id(self, topic_id: uuid.UUID | None) -> Topic | None:
        """The topic, if it is asked for by its id."""
        return self.topic if topic_id == EVENTS_TOPIC_ID else None

    def ends(self, partition: int) -> tuple[int, int]:
        """Its first offset and its end; (0, 0) where its files cannot be read."""
        try:
            return self._files.ends(partition)
        except OSError:
            return 0, 0

    def read(self, partition: int, offset: int, max_bytes: int) -> Stretch:
        """What lies from an offset on."""
        start, end = self.ends(partition)
        if not start <= offset < end:
            return Stretch(start, end, b"")
        try:
            records = self._files.read(partition, offset, min(max_bytes, _MOST_BYTES))
        except OSError:
            records = b""
        return Stretch(start, end, records)

    def offset_at(self, partition: int, timestamp_ms: int) -> tuple[int, int]:
        """Offset and time of the first record of that time or later; (-1, -1): there is none."""
        try:
            return self._files.offset_at(partition, timestamp_ms) or (-1, -1)
        except OSError:
            return -1, -1
