"""A shard and its clients in virtual time: members that behave, and ways in which they do not.

Members of classic groups join, sync, heartbeat and rejoin like a client library; those of consumer
groups heartbeat with what they own. Time jumps from one thing to do to the next.
"""

from __future__ import annotations

import heapq
import itertools
import struct
from collections.abc import Callable, Mapping
from datetime import timedelta
from io import BytesIO
from typing import Any

from kio.serial import entity_reader, entity_writer

from pykcoord.config import Config
from pykcoord.events import Event
from pykcoord.server.api.later import request_schema, response_schema
from pykcoord.session import Session
from pykcoord.shard import Request, Shard
from support.kio_client import build

START_MS = 1_795_000_000_000
JOIN, SYNC, HEARTBEAT, LEAVE, COMMIT, CONSUMER = 11, 14, 12, 13, 8, 68
VERSIONS = {JOIN: 9, SYNC: 5, HEARTBEAT: 4, LEAVE: 5, COMMIT: 8, CONSUMER: 1, 42: 2}
NONE, ILLEGAL, UNKNOWN, REBALANCING, ID_REQUIRED, FENCED = 0, 22, 25, 27, 79, 82
OUTSIDE_FENCED, UNRELEASED = 110, 111


class World:
    """One shard, the time, and what is to happen."""

    def __init__(self, topics: Mapping[str, int] | None = None, **settings: Any) -> None:
        values: dict[str, Any] = {"group_initial_rebalance_delay_ms": 0, **settings}
        self.config = Config(**values)
        self.topics = dict(topics or {"orders": 4})
        self.now_ms = START_MS
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

    def ask(self, key: int, client: Client, then: Callable[[Any], None], **fields: Any) -> None:
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
        from pykcoord.shard import record_batch

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


class Client:
    """A process with a client: a member of one group at a time. `ends` are what it may be told."""

    def __init__(
        self, world: World, group: str, client_id: str, *, host: str = "10.0.0.1",
        session_ms: int = 30_000, rebalance_ms: int = 60_000, heartbeat_ms: int = 3_000,
        protocols: tuple[str, ...] = ("range",), topics: tuple[str, ...] = ("orders",),
        instance: str | None = None,
    ) -> None:  # fmt: skip
        self.world, self.group, self.client_id = world, group, client_id
        self.session = Session(f"/{host}", "PLAINTEXT")
        self.session_ms, self.rebalance_ms = session_ms, rebalance_ms
        self.heartbeat_ms = heartbeat_ms
        self.protocols, self.topics, self.instance = protocols, topics, instance
        self.member_id = ""
        self.generation = -1
        self.partitions: list[tuple[str, int]] = []
        self.is_up = False
        self.is_stable = False
        self.returns = True
        self.rejoin_delay_ms = 50
        self.sync_delay_ms = 20
        self.never_syncs = False
        self.codes: list[int] = []
        self._life = 0
        self._paused_until_ms = 0

    # What a process does.

    def start(self, reason: str | None = None) -> Client:
        """Join."""
        self.is_up = True
        self._life += 1
        self._join(reason)
        return self

    def die(self) -> None:
        """End without a word."""
        self.is_up = self.is_stable = False
        self._life += 1
        self.member_id = ""

    def leave(self, reason: str | None = None) -> None:
        """LeaveGroup, and end."""
        member = {"member_id": self.member_id, "group_instance_id": self.instance}
        self.world.ask(
            LEAVE, self, lambda answer: None, group_id=self.group,
            members=[{**member, "reason": reason}],
        )  # fmt: skip
        self.die()

    def pause(self, milliseconds: int) -> None:
        """Do nothing for so long, as in a long pause of its collector."""
        self._paused_until_ms = self.world.now_ms + milliseconds

    def subscribe(self, *topics: str, reason: str | None = None) -> None:
        """Another subscription, and join again."""
        self.topics = topics
        self._join(reason)

    def rejoin(self, reason: str | None = None) -> None:
        """Join again as it is, as a leader does."""
        self._join(reason)

    def commit(self, offset: int = 1) -> None:
        """Commit its first partition, or that of orders-0 if it has none."""
        topic, partition = self.partitions[0] if self.partitions else ("orders", 0)
        self.world.ask(
            COMMIT, self, self._committed, group_id=self.group,
            generation_id_or_member_epoch=self.generation, member_id=self.member_id,
            group_instance_id=self.instance,
            topics=[{"name": topic, "partitions": [
                {"partition_index": partition, "committed_offset": offset,
                 "committed_leader_epoch": -1, "committed_metadata": ""}]}],
        )  # fmt: skip

    # How it speaks.

    def _later(self, delay_ms: int, action: Callable[[], None]) -> None:
        life = self._life

        def act() -> None:
            if life != self._life:
                return
            if self.world.now_ms < self._paused_until_ms:
                self.world.at(self._paused_until_ms - self.world.now_ms, act)
                return
            action()

        self.world.at(delay_ms, act)

    def _committed(self, answer: Any) -> None:
        self.codes += [int(one.error_code) for of in answer.topics for one in of.partitions]

    def _join(self, reason: str | None = None) -> None:
        self.is_stable = False
        life = self._life
        metadata = _subscription(self.topics)
        self.world.ask(
            JOIN, self, lambda answer: self._joined(answer, reason, life), group_id=self.group,
            session_timeout=timedelta(milliseconds=self.session_ms),
            rebalance_timeout=timedelta(milliseconds=self.rebalance_ms),
            member_id=self.member_id, group_instance_id=self.instance, protocol_type="consumer",
            protocols=[{"name": name, "metadata": metadata} for name in self.protocols],
            reason=reason,
        )  # fmt: skip

    def _joined(self, answer: Any, reason: str | None, life: int) -> None:
        if life != self._life or not self.is_up:
            return
        code = int(answer.error_code)
        self.codes.append(code)
        if code == ID_REQUIRED:
            self.member_id = answer.member_id
            if self.never_syncs:
                self.is_up = False  # it dies between the two
                return
            self._join(reason)
        elif code in (UNKNOWN, FENCED):
            self._put_out(code)
        elif code == NONE:
            self.member_id, self.generation = answer.member_id, answer.generation_id
            assignments: list[dict[str, Any]] = []
            if answer.leader == answer.member_id:
                members = {one.member_id: one.metadata for one in answer.members}
                assignments = _assigned(self.world.topics, members)
            if not self.never_syncs:
                self._later(self.sync_delay_ms, lambda: self._sync(assignments, answer))

    def _sync(self, assignments: list[dict[str, Any]], joined: Any) -> None:
        self.world.ask(
            SYNC, self, self._synced, group_id=self.group, generation_id=self.generation,
            member_id=self.member_id, group_instance_id=self.instance, protocol_type="consumer",
            protocol_name=joined.protocol_name, assignments=assignments,
        )  # fmt: skip

    def _synced(self, answer: Any) -> None:
        code = int(answer.error_code)
        if not self.is_up:
            return
        if code == NONE:
            self.partitions = _partitions(answer.assignment)
            self.is_stable = True
            self._later(self.heartbeat_ms, self._beat)
        elif code == REBALANCING:
            self._later(self.rejoin_delay_ms, self._join)
        else:
            self._put_out(code)

    def _beat(self) -> None:
        if not self.is_stable:
            return
        self.world.ask(
            HEARTBEAT, self, self._beaten, group_id=self.group, generation_id=self.generation,
            member_id=self.member_id, group_instance_id=self.instance,
        )  # fmt: skip

    def _beaten(self, answer: Any) -> None:
        code = int(answer.error_code)
        if not self.is_up or not self.is_stable:
            return
        if code == NONE:
            self._later(self.heartbeat_ms, self._beat)
        elif code == REBALANCING:
            self.is_stable = False
            self._later(self.rejoin_delay_ms, self._join)
        else:
            self._put_out(code)

    def _put_out(self, code: int) -> None:
        self.codes.append(code)
        self.is_stable = False
        if code == FENCED or not self.returns:
            self.is_up = False
            return
        self.member_id, self.partitions = "", []
        self._later(self.rejoin_delay_ms, self._join)


class Native(Client):
    """A member of a consumer group (KIP-848)."""

    def __init__(self, world: World, group: str, client_id: str, **options: Any) -> None:
        super().__init__(world, group, client_id, **options)
        self.member_id = client_id
        self.epoch = 0
        self.owned: dict[Any, list[int]] = {}
        self.revoke_delay_ms = 20

    def start(self, reason: str | None = None) -> Native:
        self.is_up = self.is_stable = True
        self._life += 1
        self.epoch, self.owned = 0, {}
        self._beat()
        return self

    def die(self) -> None:
        super().die()
        self.member_id = self.client_id

    def leave(self, reason: str | None = None) -> None:
        self.epoch = -1
        self._beat()
        self.die()

    def subscribe(self, *topics: str, reason: str | None = None) -> None:
        self.topics = topics
        self._beat(says_all=True)

    def _beat(self, says_all: bool = False) -> None:
        if not self.is_up:
            return
        is_first = self.epoch == 0
        owned = [{"topic_id": of, "partitions": numbers} for of, numbers in self.owned.items()]
        names = self.topics if is_first or says_all else None
        life = self._life
        self.world.ask(
            CONSUMER, self, lambda answer: self._told(answer, life), group_id=self.group,
            member_id=self.member_id, member_epoch=self.epoch, instance_id=self.instance,
            rack_id=None,
            rebalance_timeout=timedelta(milliseconds=self.rebalance_ms if is_first else -1),
            subscribed_topic_names=names, subscribed_topic_regex=None, server_assignor=None,
            topic_partitions=owned,
        )  # fmt: skip

    def _told(self, answer: Any, life: int) -> None:
        code = int(answer.error_code)
        if life != self._life or not self.is_up:
            return
        self.codes.append(code)
        if code in (UNKNOWN, OUTSIDE_FENCED) and self.returns:
            self.epoch, self.owned = 0, {}
            self._later(self.rejoin_delay_ms, self._beat)
            return
        if code != NONE:
            self.is_up = False
            return
        self.epoch = answer.member_epoch
        delay_ms = self.heartbeat_ms
        if answer.assignment is not None:
            new = {of.topic_id: list(of.partitions) for of in answer.assignment.topic_partitions}
            if any(set(self.owned[of]) - set(new.get(of, [])) for of in self.owned):
                delay_ms = self.revoke_delay_ms

            def apply() -> None:
                self.owned = new
                self._beat()

            if new != self.owned:
                self._later(delay_ms if delay_ms != self.heartbeat_ms else 5, apply)
                return
        self._later(delay_ms, self._beat)


def _subscription(topics: tuple[str, ...]) -> bytes:
    """Version 1, without user data or owned partitions."""
    names = b"".join(struct.pack(">h", len(name)) + name.encode() for name in topics)
    return struct.pack(">hi", 1, len(topics)) + names + struct.pack(">ii", -1, 0)


def _assigned(topics: Mapping[str, int], members: Mapping[str, bytes]) -> list[dict[str, Any]]:
    """Round about, in the order of the ids' first letters."""
    shares: dict[str, dict[str, list[int]]] = {member: {} for member in sorted(members)}
    for topic, partitions in sorted(topics.items()):
        name = struct.pack(">h", len(topic)) + topic.encode()
        takers = [member for member in shares if name in members[member]]
        for partition in range(partitions if takers else 0):
            shares[takers[partition % len(takers)]].setdefault(topic, []).append(partition)
    return [{"member_id": of, "assignment": _assignment(share)} for of, share in shares.items()]


def _assignment(share: Mapping[str, list[int]]) -> bytes:
    out = struct.pack(">hi", 0, len(share))
    for topic, partitions in share.items():
        out += struct.pack(">h", len(topic)) + topic.encode() + struct.pack(">i", len(partitions))
        out += b"".join(struct.pack(">i", partition) for partition in partitions)
    return out + struct.pack(">i", -1)


def _partitions(assignment: bytes) -> list[tuple[str, int]]:
    if not assignment:
        return []
    found, at = [], 6
    for _ in range(struct.unpack_from(">i", assignment, 2)[0]):
        (length,) = struct.unpack_from(">h", assignment, at)
        topic = assignment[at + 2 : at + 2 + length].decode()
        (count,) = struct.unpack_from(">i", assignment, at + 2 + length)
        at += 6 + length
        found += [(topic, of) for of in struct.unpack_from(f">{count}i", assignment, at)]
        at += 4 * count
    return found
