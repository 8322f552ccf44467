"""The clients of the check: those that commit without a group's members, members, and readers."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from cluster.check.history import NO_GENERATION, Commit, Fetch, Join, Seen, Share
from cluster.check.wire import Address, Coordinator, RefusedError, WireError
from kio.schema.errors import ErrorCode

from pykcoord.consumer_protocol import (
    TopicPartition,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)

__all__ = ["Clients"]

COMMIT, FETCH, JOIN, HEARTBEAT, LEAVE, SYNC = (8, 7), (9, 5), (11, 5), (12, 3), (13, 3), (14, 3)
PARTITIONS = 4
_COMMIT_PAUSE_S = 0.05
_READ_PAUSE_S = 0.05
_HEARTBEAT_S = 0.3
_AGAIN_S = 0.1
_SESSION = timedelta(seconds=6)
_REBALANCE = timedelta(seconds=10)
# Once in so many rounds of a member it leaves, or goes without a word, and comes again.
_LEAVES, _GOES = 200, 400


class Clients:
    """All clients of one check. `topic` exists and has at least `PARTITIONS` partitions."""

    def __init__(self, nodes: Sequence[Address], topic: str, seed: int) -> None:
        self.seen: list[Seen] = []
        self.errors: Counter[str] = Counter()
        self.acknowledged: dict[str, list[float]] = {}
        """When each group without members had a commit acknowledged."""
        self._nodes, self._topic = list(nodes), topic
        self._random = random.Random(seed)
        self._zero = time.monotonic()
        self._offsets: dict[tuple[str, int], itertools.count[int]] = {}
        self._stopped = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, committed: Sequence[str], joined: Sequence[str], members: int) -> None:
        """Groups that are only committed to, and groups with members; each has a reader at every
        node."""
        for group in committed:
            self._run(self._commit(group))
        for group in joined:
            for _ in range(members):
                self._run(self._join(group))
        for group in [*committed, *joined]:
            for at in range(len(self._nodes)):
                self._run(self._read(group, at))

    async def stop(self) -> None:
        """End all clients, and read every offset a last time."""
        self._stopped.set()
        await asyncio.gather(*self._tasks)
        groups = {group for group, _ in self._offsets}
        await asyncio.gather(*(self._read_once(self._coordinator(group)) for group in groups))

    @property
    def now(self) -> float:
        """Seconds since the check began."""
        return time.monotonic() - self._zero

    def _run(self, work: Any) -> None:
        self._tasks.append(asyncio.get_running_loop().create_task(work))

    def _coordinator(self, group: str, at: int | None = None) -> Coordinator:
        at = self._random.randrange(len(self._nodes)) if at is None else at
        return Coordinator(group, [*self._nodes[at:], *self._nodes[:at]], self.errors)

    async def _commit(self, group: str) -> None:
        coordinator, times = self._coordinator(group), self.acknowledged.setdefault(group, [])
        while not self._stopped.is_set():
            if await self._commit_once(coordinator, 0, NO_GENERATION, ""):
                times.append(self.now)
            await asyncio.sleep(_COMMIT_PAUSE_S)
        coordinator.close()

    async def _commit_once(
        self, coordinator: Coordinator, partition: int, generation: int, member: str
    ) -> bool:
        group = coordinator.group
        offset = next(self._offsets.setdefault((group, partition), itertools.count()))
        row = {"partition_index": partition, "committed_offset": offset, "committed_metadata": ""}
        began, ended = self.now, None
        try:
            answer = await coordinator.ask(
                COMMIT, group_id=group, generation_id_or_member_epoch=generation, member_id=member,
                topics=[{"name": self._topic, "partitions": [row]}],
            )  # fmt: skip
            self._accept(answer.topics[0].partitions[0].error_code)
            ended = self.now
        except WireError:
            return False
        except RefusedError as error:
            self._refused(coordinator, error)
            return False
        finally:
            seen = Commit(group, partition, offset, generation, began, ended, coordinator.by)
            self.seen.append(seen)
        return True

    async def _read(self, group: str, at: int) -> None:
        coordinator = self._coordinator(group, at)
        while not self._stopped.is_set():
            await self._read_some(coordinator)
            await asyncio.sleep(_READ_PAUSE_S)
        coordinator.close()

    async def _read_once(self, coordinator: Coordinator) -> None:
        while not await self._read_some(coordinator):
            await asyncio.sleep(_AGAIN_S)
        coordinator.close()

    async def _read_some(self, coordinator: Coordinator) -> bool:
        began = self.now
        topics = [{"name": self._topic, "partition_indexes": tuple(range(PARTITIONS))}]
        try:
            answer = await coordinator.ask(FETCH, group_id=coordinator.group, topics=topics)
            self._accept(answer.error_code)
        except WireError:
            return False
        except RefusedError as error:
            self._refused(coordinator, error)
            return False
        ended = self.now
        for row in answer.topics[0].partitions:
            group, partition = coordinator.group, row.partition_index
            offset = row.committed_offset
            self.seen.append(Fetch(group, partition, offset, began, ended, coordinator.by))
        return True

    async def _join(self, group: str) -> None:
        member_id = ""
        while not self._stopped.is_set():
            coordinator = self._coordinator(group)
            try:
                member_id = await self._be_member(coordinator, member_id)
            except WireError:
                pass
            except RefusedError as error:
                self._refused(coordinator, error)
                if error.code in (ErrorCode.unknown_member_id, ErrorCode.fenced_instance_id):
                    member_id = ""
            coordinator.close()
            await asyncio.sleep(_AGAIN_S)

    async def _be_member(self, coordinator: Coordinator, member_id: str) -> str:
        """Join, and stay until the generation is over: the member id to come again with."""
        group, began = coordinator.group, self.now
        joined = await self._joined(coordinator, member_id)
        member_id, generation = joined.member_id, joined.generation_id
        self.seen.append(Join(group, generation, member_id, began, self.now))
        members = sorted(member.member_id for member in joined.members)
        shares = {one: range(at, PARTITIONS, len(members)) for at, one in enumerate(members)}
        began = self.now
        synced = await coordinator.ask(
            SYNC, is_join=True, group_id=group, generation_id=generation, member_id=member_id,
            assignments=[
                {"member_id": one, "assignment": self._assignment(share)}
                for one, share in shares.items()
            ],
        )  # fmt: skip
        if synced.error_code == ErrorCode.rebalance_in_progress:
            return member_id
        self._accept(synced.error_code)
        given = decode_assignment(synced.assignment)
        mine = tuple(sorted(one.partition for one in given))
        self.seen.append(Share(group, generation, member_id, mine, began, self.now))
        return await self._stay(coordinator, generation, member_id, mine)

    async def _joined(self, coordinator: Coordinator, member_id: str) -> Any:
        while True:
            joined = await coordinator.ask(
                JOIN, is_join=True, group_id=coordinator.group, member_id=member_id,
                session_timeout=_SESSION, rebalance_timeout=_REBALANCE, protocol_type="consumer",
                protocols=[{"name": "range", "metadata": encode_subscription([self._topic])}],
            )  # fmt: skip
            if joined.error_code != ErrorCode.member_id_required:
                self._accept(joined.error_code)
                return joined
            member_id = joined.member_id

    async def _stay(
        self, coordinator: Coordinator, generation: int, member_id: str, mine: Sequence[int]
    ) -> str:
        heartbeat_at = self.now
        who = {"group_id": coordinator.group, "member_id": member_id}
        for turn in itertools.count():
            if self._stopped.is_set() or self._random.randrange(_LEAVES) == 0:
                left = [{"member_id": member_id}]
                await coordinator.ask(LEAVE, group_id=coordinator.group, members=left)
                return ""
            if self._random.randrange(_GOES) == 0:
                return ""
            if mine:
                # An error of a commit is no reason to go: others may have the partition by now,
                # and what such a member commits is what must be refused.
                at = mine[turn % len(mine)]
                await self._commit_once(coordinator, at, generation, member_id)
            if self.now >= heartbeat_at:
                heartbeat_at = self.now + _HEARTBEAT_S
                answer = await coordinator.ask(HEARTBEAT, **who, generation_id=generation)
                if answer.error_code == ErrorCode.rebalance_in_progress:
                    return member_id
                self._accept(answer.error_code)
            await asyncio.sleep(_COMMIT_PAUSE_S)
        raise AssertionError("there is always another turn")

    def _accept(self, code: int) -> None:
        if code != ErrorCode.none:
            raise RefusedError(ErrorCode(code))

    def _refused(self, coordinator: Coordinator, error: RefusedError) -> None:
        coordinator.failed(error.code.name)

    def _assignment(self, partitions: Sequence[int]) -> bytes:
        return encode_assignment(TopicPartition(self._topic, number) for number in partitions)
