"""One server on a disk that may fail, a client, and the state that the client may expect.

It must stay independent of the product's code: it looks at everything through the wire, as a client
does.
"""

from __future__ import annotations

import itertools
import socket
import struct
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from support.server import PykcoordServer

from crash import frames
from crash.disk import Disk

TOPIC = "orders"
PARTITIONS = 6
SHARDS = 3
# A shard for operations that need a new segment, and for no others.
ROLLING_SHARD, USUAL_SHARD = 0, 1
SESSION_TIMEOUT_MS = 600_000
TIMEOUT_S = 60.0
SETTINGS = {
    "offsets.topic.num.partitions": str(SHARDS),
    "offsets.topic.segment.bytes": "12000",
    "log.cleaner.enable": "false",  # but for the operation that is about it
    "offsets.retention.check.interval.ms": "100",
    "group.consumer.max.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "group.consumer.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "group.events.enable": "false",  # its thread writes when it likes; calls are counted here
}
# COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR: clients ask again.
RETRIABLE = {14, 15, 16}
_UNKNOWN_MEMBER_ID, _MEMBER_ID_REQUIRED = 25, 79


class Member(NamedTuple):
    """A member, as of its acknowledged SyncGroup."""

    group: str
    member_id: str
    generation: int


class Seen(NamedTuple):
    """A group as a client sees it: whether it is listed, its offsets by partition, and the error
    code of a heartbeat of its last known member of each protocol (-1 where there was none)."""

    listed: bool
    offsets: dict[int, int]
    heartbeat: int
    consumer_heartbeat: int = -1


class World:
    """Groups that were acknowledged, in every shard, and one more for each operation."""

    def __init__(self, root: Path, library: Path, arguments: Sequence[str] = ()) -> None:
        self.disk = Disk(root, library)
        self.server = PykcoordServer(
            self.disk.data,
            topics={TOPIC: PARTITIONS},
            settings=SETTINGS,
            arguments=arguments,
            environment=self.disk.environment,
        )
        self.members: dict[str, Member] = {}
        self.consumers: dict[str, Member] = {}
        self.groups: list[str] = []
        self.expiring: set[str] = set()
        self._socket: socket.socket | None = None

    def close(self) -> None:
        """Ends the server, if it still runs."""
        self.disconnect()
        if self.server.running:
            self.server.kill()

    def populate(self) -> None:
        """In each shard a group with a member and a commit, offsets without a member, and a
        consumer group."""
        for shard in range(SHARDS):
            self.expect(self.join(self.new_group(shard)), 0)
            self.expect(self.commit(self.groups[-1], 0, 100 + shard), 0)
            self.expect(self.commit(self.new_group(shard, "plain"), 1, 200 + shard), 0)
            self.expect(self.commit(self.new_group(shard, "consumer"), 2, 300 + shard), 0)
            self.expect(self.join_as_consumer(self.groups[-1]), 0)

    def warm_up(self) -> None:
        """After this all shards have been written to since the last start: the second answer shows
        that the work after the first one is done, too. Groups that are due to expire are gone, so
        that none expires later."""
        deadline = time.monotonic() + TIMEOUT_S
        while late := self.expiring & frames.listed_groups(self.ask(frames.list_groups())):
            assert time.monotonic() < deadline, f"not expired: {late}"
            time.sleep(0.01)
        for shard in (ROLLING_SHARD, USUAL_SHARD):
            group = next(f"warm-{n}" for n in range(100) if _shard_of(f"warm-{n}") == shard)
            for _ in range(2):
                self.expect(self.commit(group, 0, 1), 0)

    def new_group(self, shard: int = USUAL_SHARD, prefix: str = "group") -> str:
        """A name that was not used before, of the shard."""
        names = (f"{prefix}-{number}" for number in itertools.count(len(self.groups)))
        self.groups.append(
            next(name for name in names if _shard_of(name) == shard and name not in self.groups)
        )
        return self.groups[-1]

    # Requests. Each returns the error code; OSError when the server is gone.

    def join(self, group: str) -> int:
        """Joins and syncs, and remembers the member when that is acknowledged."""
        known = self.members.get(group)
        member_id = known.member_id if known else ""
        joined = frames.joined(self.ask(frames.join_group(group, member_id, SESSION_TIMEOUT_MS)))
        if joined.error == _MEMBER_ID_REQUIRED:
            request = frames.join_group(group, joined.member_id, SESSION_TIMEOUT_MS)
            joined = frames.joined(self.ask(request))
        if joined.error == _UNKNOWN_MEMBER_ID and known is None:
            return self.join(group)  # the empty group expired meanwhile, and the new id with it
        if joined.error:
            return joined.error
        request = frames.sync_group(group, joined.generation, joined.member_id, [joined.member_id])
        error = frames.error_after_throttle(self.ask(request))
        if not error:
            self.members[group] = Member(group, joined.member_id, joined.generation)
        return error

    def join_as_consumer(self, group: str) -> int:
        """Joins by the consumer protocol, and remembers the member when that is acknowledged."""
        member_id = f"member-of-{group}"
        request = frames.consumer_heartbeat(group, member_id, 0, TOPIC, SESSION_TIMEOUT_MS)
        error, epoch = frames.consumer_beaten(self.ask(request))
        if not error:
            self.consumers[group] = Member(group, member_id, epoch)
        return error

    def leave_as_consumer(self, group: str) -> int:
        request = frames.consumer_heartbeat(group, self.consumers[group].member_id, -1)
        return frames.consumer_beaten(self.ask(request))[0]

    def commit(self, group: str, partition: int, offset: int, topic: str = TOPIC) -> int:
        return self._commit(group, topic, range(partition, partition + 1), offset)

    def commit_all(self, group: str, offset: int) -> int:
        """The same offset for all partitions of the topic."""
        return self._commit(group, TOPIC, range(PARTITIONS), offset)

    def ask(self, request: bytes) -> bytes:
        """One request, one answer. The connection is made where there is none."""
        if self._socket is None:
            self._socket = socket.create_connection(("127.0.0.1", self.server.port), TIMEOUT_S)
        try:
            self._socket.sendall(request)
            (length,) = struct.unpack(">i", self._exactly(4))
            return self._exactly(length)
        except OSError:
            self.disconnect()
            raise

    def disconnect(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def retried(self, request: Callable[[], int]) -> int:
        """Asks again as clients do, while the answer is that the coordinator is not there."""
        deadline = time.monotonic() + TIMEOUT_S
        while (error := request()) in RETRIABLE and time.monotonic() < deadline:
            time.sleep(0.01)
        return error

    # The state, as seen by the client.

    def expect(self, error: int, wanted: int) -> None:
        assert error == wanted, f"error {error}\n{self.server.stderr()}"

    def look(self) -> dict[str, Seen]:
        """Every group of any request so far, as a client sees it now."""
        listed = frames.listed_groups(self.ask(frames.list_groups()))
        return {group: self._look_at(group, listed) for group in self.groups}

    def topics(self) -> dict[str, int]:
        return frames.topics(self.ask(frames.metadata()))

    def _commit(self, group: str, topic: str, partitions: range, offset: int) -> int:
        _, member_id, generation = self.members.get(group, Member(group, "", -1))
        request = frames.offset_commit(group, generation, member_id, topic, partitions, offset)
        return max(frames.commit_errors(self.ask(request)))

    def _look_at(self, group: str, listed: set[str]) -> Seen:
        error, offsets = frames.fetched_offsets(self.ask(frames.offset_fetch(group)))
        assert error == 0, f"{group}: OffsetFetch was answered with error {error}"
        heartbeat = -1
        if member := self.members.get(group):
            request = frames.heartbeat(group, member.generation, member.member_id)
            heartbeat = frames.error_after_throttle(self.ask(request))
        consumer_heartbeat = -1
        if consumer := self.consumers.get(group):
            request = frames.consumer_heartbeat(group, consumer.member_id, consumer.generation)
            consumer_heartbeat, _ = frames.consumer_beaten(self.ask(request))
        return Seen(group in listed, offsets, heartbeat, consumer_heartbeat)

    def _exactly(self, size: int) -> bytes:
        assert self._socket is not None
        data = b""
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            if not more:
                raise ConnectionError("the server is gone")
            data += more
        return data


def _shard_of(group: str) -> int:
    """Utils.abs(group.hashCode()) % partitions, of Java's 32-bit integers."""
    value = 0
    for character in group:
        value = (31 * value + ord(character)) & 0xFFFFFFFF
    return min(value, 2**32 - value) % SHARDS
