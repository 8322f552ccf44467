"""Members that join, heartbeat and commit as fast as they are answered, a connection each.

Must stay bounded: one request in flight a connection, and an end after at most the given time.
"""

from __future__ import annotations

import asyncio
import random
import struct
from typing import NamedTuple

from crash import frames

TOPIC = "orders"
PARTITIONS_EACH = 3
MEMBERS_EACH = 2
SESSION_TIMEOUT_MS = 600_000  # no member is expelled while the rounds last
# Kafka's error codes, as the load meets them.
_COORDINATOR_NOT_READY = {14, 15, 16}
_ILLEGAL_GENERATION, _UNKNOWN_MEMBER_ID = 22, 25
_REBALANCE_IN_PROGRESS, _MEMBER_ID_REQUIRED = 27, 79


class Member(asyncio.Protocol):
    """One member on one connection, with its last request and the answers so far."""

    def __init__(self, load: Load, group: str, index: int) -> None:
        self.load = load
        self.group = group
        self.partitions = range(index * PARTITIONS_EACH, (index + 1) * PARTITIONS_EACH)
        self.member_id = ""
        self.generation = -1
        self.is_stable = False
        self.attempted = 0
        self.acknowledged = 0
        self._asked = 0
        self._buffer = b""
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport
        self._join()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if len(self._buffer) < 4:
            return
        (length,) = struct.unpack_from(">i", self._buffer)
        if len(self._buffer) < 4 + length:
            return
        response, self._buffer = self._buffer[4 : 4 + length], self._buffer[4 + length :]
        self._answered(response)

    def connection_lost(self, exception: Exception | None) -> None:
        self.load.lost(self)

    def _answered(self, response: bytes) -> None:
        if self._asked == frames.JOIN_GROUP:
            self._joined(frames.joined(response))
        elif self._asked == frames.SYNC_GROUP:
            self._went_on(frames.error_after_throttle(response), stable=True)
        elif self._asked == frames.HEARTBEAT:
            self._went_on(frames.error_after_throttle(response))
        else:
            errors = frames.commit_errors(response)
            if errors == {0}:
                self.acknowledged = self.attempted
                self.load.acknowledged += 1
            self._went_on(max(errors))

    def _joined(self, answer: frames.Joined) -> None:
        if answer.error == _MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            self._join()
        elif answer.error == 0:
            self.member_id, self.generation = answer.member_id, answer.generation
            members = answer.members if answer.leader == answer.member_id else []
            self._ask(frames.SYNC_GROUP, frames.sync_group(
                self.group, self.generation, self.member_id, members))  # fmt: skip
        else:
            self._went_on(answer.error)

    def _went_on(self, error: int, *, stable: bool = False) -> None:
        if error == 0:
            self.is_stable |= stable
            self._work()
        elif error in (_REBALANCE_IN_PROGRESS, _ILLEGAL_GENERATION):
            self._join()
        elif error in _COORDINATOR_NOT_READY | {_UNKNOWN_MEMBER_ID}:
            self.member_id = ""
            self._join()
        else:
            raise AssertionError(f"{self.group}: API {self._asked} was answered with error {error}")

    def _work(self) -> None:
        """Four commits to a heartbeat."""
        if self.load.random.random() < 0.2:
            request = frames.heartbeat(self.group, self.generation, self.member_id)
            self._ask(frames.HEARTBEAT, request)
            return
        self.attempted += 1
        self._ask(frames.OFFSET_COMMIT, frames.offset_commit(
            self.group, self.generation, self.member_id, TOPIC, self.partitions, self.attempted,
        ))  # fmt: skip

    def _join(self) -> None:
        self.is_stable = False
        request = frames.join_group(self.group, self.member_id, SESSION_TIMEOUT_MS)
        self._ask(frames.JOIN_GROUP, request)

    def _ask(self, api: int, request: bytes) -> None:
        assert self._transport is not None
        self._asked = api
        self._transport.write(request)


class Load:
    """All members of one round."""

    def __init__(self, name: str, connections: int, seed: int) -> None:
        self.random = random.Random(seed)
        self.acknowledged = 0
        self.members = [
            Member(self, f"{name}-{number // MEMBERS_EACH}", number % MEMBERS_EACH)
            for number in range(connections)
        ]
        self._open = 0
        self._all_lost: asyncio.Future[None] | None = None

    async def connect(self, host: str, port: int) -> None:
        """Opens the connections, at most 100 at a time; each begins to work at once."""
        loop = asyncio.get_running_loop()
        await find_coordinator(host, port)
        self._all_lost = loop.create_future()
        gate = asyncio.Semaphore(100)

        async def connect(member: Member) -> None:
            async with gate:
                await loop.create_connection(lambda: member, host, port)
                self._open += 1

        await asyncio.gather(*(connect(member) for member in self.members))

    async def wait_lost(self) -> None:
        """Returns when the server has dropped every connection."""
        assert self._all_lost is not None
        await self._all_lost

    def lost(self, _member: Member) -> None:
        self._open -= 1
        if self._open == 0 and self._all_lost is not None and not self._all_lost.done():
            self._all_lost.set_result(None)

    def groups(self) -> dict[str, list[Member]]:
        groups: dict[str, list[Member]] = {}
        for member in self.members:
            groups.setdefault(member.group, []).append(member)
        return groups


class Finding(NamedTuple):
    """Something acknowledged that is not there."""

    group: str
    what: str


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> bytes:
    writer.write(request)
    (length,) = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(length)


async def find_coordinator(host: str, port: int) -> None:
    """A broker creates __consumer_offsets when it is first asked for a coordinator."""
    reader, writer = await asyncio.open_connection(host, port)
    request = frames.find_coordinator("any")
    while frames.error_after_throttle(await ask(reader, writer, request)) != 0:
        await asyncio.sleep(0.1)
    writer.close()
    await writer.wait_closed()


async def verify(load: Load, host: str, port: int) -> list[Finding]:
    """Compares the server's state with the acknowledged commits of the members of a round."""
    reader, writer = await asyncio.open_connection(host, port)
    findings = []
    for group, members in load.groups().items():
        error, offsets = await fetch_offsets(reader, writer, group)
        assert error == 0, f"{group}: OffsetFetch was answered with error {error}"
        for member in members:
            findings += [Finding(group, what) for what in lost_offsets(member, offsets)]
        if not all(member.is_stable for member in members):
            continue  # killed within a rebalance: either generation may be the one that is there
        for member in members:
            request = frames.heartbeat(group, member.generation, member.member_id)
            error = frames.error_after_throttle(await ask(reader, writer, request))
            if error != 0:
                findings.append(Finding(group, f"{member.member_id} hears error {error}"))
    listed = frames.listed_groups(await ask(reader, writer, frames.list_groups()))
    joined = {member.group for member in load.members if member.generation > 0}
    findings += [Finding(group, "is not listed") for group in sorted(joined - listed)]
    writer.close()
    await writer.wait_closed()
    return findings


async def fetch_offsets(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, group: str
) -> tuple[int, dict[int, int]]:
    """Asks again while a broker still loads the group's partition."""
    while True:
        answer = await ask(reader, writer, frames.offset_fetch(group))
        error, offsets = frames.fetched_offsets(answer)
        if error not in _COORDINATOR_NOT_READY:
            return error, offsets
        await asyncio.sleep(0.1)


def lost_offsets(member: Member, offsets: dict[int, int]) -> list[str]:
    """One request is one batch of the log: its partitions are kept or lost together."""
    kept = {offsets.get(partition, 0) for partition in member.partitions}
    if len(kept) != 1:
        return [f"{member.member_id} has a commit in parts: {sorted(kept)}"]
    (offset,) = kept
    if not member.acknowledged <= offset <= member.attempted:
        return [f"{member.member_id} has {offset}, acknowledged {member.acknowledged}, "
                f"attempted {member.attempted}"]  # fmt: skip
    return []
