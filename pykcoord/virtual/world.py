"""One shard, the time, and what is to happen."""

from __future__ import annotations

import heapq
import itertools
import struct
from collections.abc import Callable, Mapping
from io import BytesIO
from typing import Any, Protocol

from kio.serial import entity_reader, entity_writer

from pykcoord.config import Config
from pykcoord.events import Event
from pykcoord.server.api.later import request_schema, response_schema
from pykcoord.session import Session
from pykcoord.shard import Request, Shard, record_batch
from pykcoord.virtual.messages import VERSIONS, build

START_MS = 1_795_000_000_000


class Asking(Protocol):
    """Who sends a request."""

    client_id: str
    session: Session


class World:
    """One shard, the time, and what is to happen."""

    def __init__(
        self, topics: Mapping[str, int] | None = None, *, start_ms: int = START_MS, **settings: Any
    ) -> None:
        values: dict[str, Any] = {"group_initial_rebalance_delay_ms": 0, **settings}
        self.config = Config(**values)
        self.topics = dict(topics or {"orders": 4})
        self.now_ms = start_ms
        self.events: list[Event] = []
        self._agenda: list[tuple[int, int, Callable[[], None]]] = []
        self._number = itertools.count()
        self._tickets: dict[int, tuple[int, Callable[[Any], None]]] = {}
        self.log: list[Any] = []
        self._due_ms: int | None = None
        self.shard = self._shard()

    def _shard(self) -> Shard:
        return Shard(self.config, topics=self.topics, seed=bytes(32), tells_events=True)

    def at(self, delay_ms: int, action: Callable[[], None]) -> None:
        """Have something done so much later."""
        heapq.heappush(self._agenda, (self.now_ms + delay_ms, next(self._number), action))

    def ask(self, key: int, client: Asking, then: Callable[[Any], None], **fields: Any) -> None:
        """A request, at once; its answer comes when it comes."""
        ticket = next(self._number)
        version = VERSIONS[key]
        schema = request_schema(key, version)
        frame = BytesIO()
        name = client.client_id.encode()
        frame.write(struct.pack(">hhih", key, version, 1, len(name)) + name)
        if schema.__flexible__:
            frame.write(b"\0")
        entity_writer(schema)(frame, build(schema, fields))
        self._tickets[ticket] = (key, then)
        self._step([Request(ticket, frame.getvalue(), client.session)])

    def run(self, milliseconds: int) -> None:
        """Let so much time pass."""
        until_ms = self.now_ms + milliseconds
        while True:
            next_ms = self._agenda[0][0] if self._agenda else until_ms + 1
            if self._due_ms is not None and self._due_ms < next_ms:
                next_ms = self._due_ms
            if next_ms > until_ms:
                self.now_ms = until_ms
                return
            self.now_ms = max(self.now_ms, next_ms)
            if self._due_ms is not None and self._due_ms <= self.now_ms:
                self._step([])
            while self._agenda and self._agenda[0][0] <= self.now_ms:
                heapq.heappop(self._agenda)[2]()

    def note(self, kind: str, **fields: Any) -> None:
        """What the recorder says of the whole coordinator."""
        self.events.append(Event.of_json({
            "kind": kind, "group_id": "", "timestamp_ms": self.now_ms, **fields
        }))  # fmt: skip

    def grow(self, topic: str, partitions: int) -> None:
        """A topic is created or gets more partitions."""
        before = self.topics.get(topic, 0)
        self.topics[topic] = partitions
        self.shard.set_topics(self.topics)
        self.note("topics_changed", detail=topic, partitions=partitions, partitions_before=before)
        self._step([])

    def fail_over(self) -> None:
        """The coordinator ends, and another loads the shard from its log; clients ask again."""
        self.note("coordinator_stopped")
        self.note("coordinator_started")
        self.shard.drop()
        self._tickets.clear()
        self.shard = self._shard()
        for append in self.log:
            self.shard.replay(record_batch(append), append.base_offset + append.record_count)
        self._step([])
        self.note("shard_loaded")

    def _step(self, requests: list[Request]) -> None:
        committed: int | None = None
        while True:
            step = self.shard.step(self.now_ms, requests, committed)
            requests = []
            self.events += self.shard.take_events()
            self._due_ms = step.next_timeout_ms
            for response in step.responses:
                self._answer(response.ticket, response.frame)
            if not step.appends:
                return
            self.log += step.appends
            committed = self.shard.next_offset

    def _answer(self, ticket: int, frame: bytes) -> None:
        if ticket not in self._tickets:
            return
        key, then = self._tickets.pop(ticket)
        schema = response_schema(key, VERSIONS[key])
        answer, _ = entity_reader(schema)(frame, 5 if schema.__flexible__ else 4)
        self.at(1, lambda: then(answer))
