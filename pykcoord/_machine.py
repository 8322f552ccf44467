"""What both kinds of shard are made of: a node of one shard, its topics, and what it found.

`pykcoord.shard.Shard` takes frames, `pykcoord.arrow_shard.ArrowShard` takes rows. Nothing here
knows which of them it serves.
"""

from __future__ import annotations

import os
import uuid
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pykcoord import _arguments as arguments
from pykcoord._native import Node, ReplayError
from pykcoord.config import Config
from pykcoord.errors import ArgumentError, ConfigError
from pykcoord.events import Event, EventRow

__all__ = ["Finding", "Machine"]

_MAX_FINDINGS = 1_000
_MAX_EVENTS = 10_000
_INT64 = range(2**63)


@dataclass(frozen=True, slots=True)
class Finding:
    """Something unusual about the assignment of `group_id` in its generation `generation_id`.
    Nothing failed.

    `kind` is that of the metric `pykcoord_findings_total` (docs/operating), `count` how many there
    were in this generation, `detail` one of them, or the reason.
    """

    group_id: str
    generation_id: int
    kind: str
    count: int
    detail: str

    @classmethod
    def of(cls, event: Event) -> Finding:
        """The same as an event of kind `finding`."""
        kind, count, detail = event.cause, event.count, event.detail
        assert kind is not None
        assert count is not None
        assert detail is not None
        return cls(event.group_id, event.generation_id, kind, count, detail)


class Machine:
    """One shard before its first request."""

    def __init__(
        self,
        config: Config | None,
        topics: Mapping[str, int] | None,
        seed: bytes | None,
        tells_events: bool,
    ) -> None:
        if seed is None:
            seed = os.urandom(32)
        if not isinstance(seed, bytes):
            raise ArgumentError("seed", f"bytes, not {type(seed).__name__}")
        if len(seed) != 32:
            raise ArgumentError("seed", f"32 bytes, not {len(seed)}")
        if config is not None and not isinstance(config, Config):
            raise ArgumentError("config", f"{config!r} is no pykcoord.Config")
        known = config or Config()
        if own := [word for word in known.group_consumer_assignors.split(",") if ":" in word]:
            reason = f"{own[0]}: nobody calls it here; a Coordinator or a server does"
            raise ConfigError("group.consumer.assignors", reason)
        self._node = Node(known.native(), 1, seed)
        self._next_offset = 0
        self._serves = False  # whether a request came
        self._dropped = False
        self._findings: deque[Finding] = deque(maxlen=_MAX_FINDINGS)
        self._events: deque[Event] | None = deque() if tells_events else None
        self._events_dropped = 0
        self._node.tell_events(tells_events)
        if topics is not None:
            self.set_topics(topics)

    def set_topics(
        self,
        topics: Mapping[str, int],
        end_offsets: Mapping[str, Mapping[int, int]] | None = None,
        racks: Mapping[str, Sequence[Sequence[str]]] | None = None,
    ) -> None:
        """All topics that exist from now on, name to number of partitions. `end_offsets`: where
        partitions end, topic to partition to offset, as far as it is known, for `lag-aware`.
        `racks`: topic to the racks of the replicas of each partition, for assignors that look at
        the racks of members (KIP-881); a topic has none unless all its partitions are named.

        The next request deletes the offsets of topics that are gone, and starts a rebalance of
        groups that the coordinator assigns and that subscribe to what changed.
        """
        counts = arguments.topics("topics", topics)
        native = [(name, _topic_id(name), partitions) for name, partitions in counts.items()]
        form = "{'orders': {0: 42}}"
        given = {} if end_offsets is None else arguments.mapping("end_offsets", end_offsets, form)
        ends = {
            arguments.text("end_offsets", name): {
                arguments.integer("end_offsets", partition, range(2**31)): arguments.integer(
                    "end_offsets", end, _INT64
                )
                for partition, end in arguments.mapping("end_offsets", offsets, form).items()
            }
            for name, offsets in given.items()
        }
        self._node.set_topics(native, ends, arguments.racks("racks", racks))

    def take_findings(self) -> list[Finding]:
        """What was noticed about assignments since the last call, for a log; the last 1,000."""
        self._gather()
        findings = list(self._findings)
        self._findings.clear()
        return findings

    def take_events(self) -> list[Event]:
        """What happened to groups since the last call, findings among it; the last 10,000. Each
        comes once what caused it is durable. Empty without `tells_events`."""
        self._gather()
        events = list(self._events or ())
        if self._events is not None:
            self._events.clear()
        return events

    @property
    def events_dropped(self) -> int:
        """Events that were lost, the oldest first, because 10,000 waited already."""
        return self._events_dropped

    def replay(self, chunk: bytes, next_offset: int) -> None:
        """Apply a chunk of the shard's log, in order, before the first request.

        `chunk`: whole RecordBatches v2, uncompressed, whose CRCs were checked; `next_offset`:
        the offset after its last record. Raises `ReplayError` with offset, byte and reason.
        """
        self._check_alive()
        if self._serves:
            raise ArgumentError("chunk", "replay comes before the first request")
        if not isinstance(chunk, bytes):
            raise ArgumentError("chunk", f"bytes, not {type(chunk).__name__}")
        arguments.integer("next_offset", next_offset, _INT64)
        if next_offset < self._next_offset:
            reason = f"{next_offset} is below {self._next_offset}, where the chunk before ended"
            raise ArgumentError("next_offset", reason)
        try:
            self._node.replay(0, chunk)
        except ReplayError:
            self._dropped = True
            raise
        self._next_offset = next_offset

    def _gather(self) -> None:
        """Fetch the events that wait elsewhere, if that is so."""

    def _tell(self, rows: Iterable[EventRow]) -> None:
        """Keep events, as the native code gives them, for who takes them."""
        for event in map(Event.of, rows):
            if event.kind == "finding":
                self._findings.append(Finding.of(event))
            if self._events is None:
                continue
            if len(self._events) == _MAX_EVENTS:
                self._events.popleft()
                self._events_dropped += 1
            self._events.append(event)

    def _check_alive(self) -> None:
        if self._dropped:
            raise ArgumentError("shard", "it was dropped, or could not be loaded: make a new one")


def _topic_id(name: str) -> bytes:
    """A stable id for a topic that has none of its own (UUID version 5 of its name)."""
    return uuid.uuid5(uuid.NAMESPACE_URL, f"pykcoord:topic:{name}").bytes
