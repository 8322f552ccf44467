"""The engine's log on a node: appends go into the replica that is led, and count as durable once
they are synced here and below the high watermark.

All on the loop, but for the syncing: what arrives while files are synced shares the next round.
Knows neither the metadata log nor a socket: the one who leads says so by `lead`, those who follow
by `fetched`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pykcoord.clock import monotonic_seconds
from pykcoord.log.copied import SyncJob, sync_all
from pykcoord.log.protocol import (
    Append,
    Done,
    Failure,
    ShardLostError,
    ShardReleasedError,
    Taken,
    by_shard,
)
from pykcoord.log.replica import ReplicaLog
from pykcoord.log.replicas import ReplicaDirectory
from pykcoord.node.leader import Eligible, Heard, LedPartition
from pykcoord.node.producers import Producers

__all__ = ["Led", "NodeLog"]

logger = logging.getLogger("pykcoord.node")


class Led:
    """A partition that is led: its log, what is known of its replicas, and who waits. `producers`:
    None until its log was read."""

    def __init__(self, number: int, log: ReplicaLog, partition: LedPartition) -> None:
        self.number = number
        self.log = log
        self.partition = partition
        self.producers: Producers | None = None
        # (end of a turn's batches, number of the turn, whom to tell).
        self.waiting: deque[tuple[int, int, Done]] = deque()
        self.failure: Failure | None = None
        self.moving: list[asyncio.Future[None]] = []

    @property
    def stable(self) -> int:
        """The last stable offset; the high watermark until the log was read."""
        high_watermark = self.partition.high_watermark
        return high_watermark if self.producers is None else self.producers.stable(high_watermark)


class NodeLog:
    """See `pykcoord.log.protocol.Log`. `eligible` says of a broker and its epoch whether it may be
    in an ISR. `on_append(numbers)` and `on_watermark(numbers)` are called when there are more
    records, and when high watermarks moved, `on_led(number)` when a partition is led or not any
    more, `on_outsider(number)` when one that is not in the ISR asked for records, and
    `on_failure(error)` when a log cannot be read, when what is not led any more cannot be synced,
    and by our own fault."""

    def __init__(self, directory: ReplicaDirectory, shards: int, eligible: Eligible) -> None:
        self.shards = shards
        self.directory = directory
        self.led: dict[int, Led] = {}
        self.on_append: Callable[[list[int]], None] = lambda numbers: None
        self.on_watermark: Callable[[list[int]], None] = lambda numbers: None
        self.on_led: Callable[[int], None] = lambda number: None
        self.on_outsider: Callable[[int], None] = lambda number: None
        self.on_failure: Callable[[Exception], None] = lambda error: None
        self._turn = 0
        self._eligible = eligible
        self._dirty: set[int] = set()
        self._syncing: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="pykcoord-sync")

    def lead(self, number: int, partition: LedPartition) -> Led:
        """Appends to it go to its log from now on, once it is taken."""
        self.release(number)
        log = self.directory.logs[number]
        log.begin_epoch(partition.leader_epoch)
        led = self.led[number] = Led(number, log, partition)
        if log.is_dirty or self._syncing is not None:
            partition.synced = 0  # it was led before, and not all of that is on the disk yet
            self._dirty.add(number)
            self._sync_soon()
        self._advance_all([led])
        self.on_led(number)
        return led

    def take(self, shard: int, new_loader: Callable[[], Any]) -> Taken:
        """See `Log.take`: of a partition that is led, and whose high watermark is at its end."""
        led = self.led.get(shard)
        if led is None:
            raise ShardLostError(shard, "another broker leads it", fenced=True)
        loader, producers = new_loader(), Producers()
        for chunk in led.log.read():
            loader.replay(chunk)
            producers.read(chunk)
        producers.reached(led.partition.high_watermark)
        led.producers = producers
        return Taken(loader, led.log.next_offset, led.partition.leader_epoch)

    def release(self, shard: int) -> None:
        """See `Log.release`."""
        led = self.led.pop(shard, None)
        if led is not None:
            self._fail(led, ShardReleasedError(shard))
            self.on_led(shard)

    def append(self, appends: Sequence[Append], done: Done) -> None:
        """See `Log.append`. Followers may have the records before they are synced here."""
        refused: list[tuple[int, Failure]] = []
        appended: list[int] = []
        self._turn += 1
        for shard, of_shard in by_shard(appends).items():
            led = self.led.get(shard)
            if led is None or led.failure is not None:
                reason = led.failure if led is not None else None
                refused.append((shard, reason or ShardReleasedError(shard)))
                continue
            try:
                led.log.lead(of_shard, led.partition.leader_epoch)
            except OSError as error:
                self._broken(led, error)
                refused.append((shard, led.failure or error))
                continue
            if led.producers is not None:
                for append in of_shard:
                    led.producers.wrote(append)
            end = led.log.next_offset
            led.partition.appended(end)
            led.waiting.append((end, self._turn, done))
            appended.append(shard)
        if appended:
            self._dirty.update(appended)
            self.on_append(appended)
        if refused:
            done([], refused)
        self._sync_soon()

    def fetched(
        self,
        broker: int,
        broker_epoch: int,
        ends: Iterable[tuple[int, int]],
        heard: Heard | None = None,
    ) -> None:
        """A follower has all below the end of each led partition in `ends`: (number, end). `heard`
        is when it said so; what its later requests leave out is as it was."""
        now, moved = monotonic_seconds(), []
        for number, end in ends:
            led = self.led.get(number)
            if led is None:
                continue
            led.partition.fetched(broker, broker_epoch, end, now, heard)
            moved.append(led)
            if broker not in led.partition.isr:
                self.on_outsider(number)
        self._advance_all(moved)

    def read(self, led: Led, offset: int, most_bytes: int) -> bytes:
        """See `ReplicaLog.batches_from`. Raises OSError, which ends the leading."""
        try:
            return led.log.batches_from(offset, most_bytes)
        except OSError as error:
            self._broken(led, error)
            self.on_failure(error)
            raise

    def placed(self, number: int) -> None:
        """The ISR of a led partition is another."""
        if (led := self.led.get(number)) is not None:
            self._advance_all([led])

    async def all_has_reached(self, led: Led, offset: int) -> bool:
        """Waits until the high watermark is at `offset`; False: it is not led any more."""
        while self.led.get(led.number) is led and led.partition.high_watermark < offset:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            led.moving.append(waiter)
            await waiter
        return self.led.get(led.number) is led

    def close(self) -> None:
        """Ends the syncing; what waits is not acknowledged."""
        for shard in list(self.led):
            self.release(shard)
        if self._syncing is not None:
            self._syncing.cancel()
        self._thread.shutdown()

    def _sync_soon(self) -> None:
        if self._dirty and self._syncing is None:
            self._syncing = asyncio.get_running_loop().create_task(self._sync())

    async def _sync(self) -> None:
        try:
            while self._dirty:
                dirty, self._dirty = self._dirty, set()
                try:
                    await self._sync_all(dirty)
                except Exception as error:  # nobody waits for this task
                    for number in dirty & self.led.keys():
                        self._broken(self.led[number], error)
                    self.on_failure(error)
        finally:
            self._syncing = None

    async def _sync_all(self, numbers: set[int]) -> None:
        """One round, also of those that are not led any more: who follows asks for what is behind
        what is safe here."""
        logs = {one: self.directory.logs[one] for one in numbers & self.directory.logs.keys()}
        before = {one: (self.led.get(one), log.next_offset) for one, log in logs.items()}
        jobs: dict[int, SyncJob] = {}
        errors: dict[int, OSError | None] = {}
        for number, log in logs.items():
            try:
                job = log.sync_job()
            except OSError as error:
                errors[number] = error
            else:
                if job is not None:
                    jobs[number] = job
        loop = asyncio.get_running_loop()
        done = await loop.run_in_executor(self._thread, sync_all, list(jobs.values()))
        errors.update(zip(jobs, done, strict=True))
        moved = []
        for number, (led, end) in before.items():
            is_led = led is not None and self.led.get(number) is led
            if (failed := errors.get(number)) is None:
                if led is not None and is_led:
                    led.partition.synced = max(led.partition.synced, end)
                    moved.append(led)
            elif led is not None and is_led:
                self._broken(led, failed)
            elif self.directory.logs.get(number) is logs[number]:  # not deleted meanwhile
                self.on_failure(failed)
        self._advance_all(moved)

    def _advance_all(self, moved: Iterable[Led]) -> None:
        """Moves high watermarks as far as they may go, and tells those whose records are below:
        each turn once, in the order of turns."""
        now = monotonic_seconds()
        told: dict[int, tuple[Done, list[tuple[int, int]]]] = {}
        numbers: list[int] = []
        for led in moved:
            if not led.partition.advance(now, self._eligible):
                continue
            high_watermark = led.partition.high_watermark
            if led.producers is not None:
                led.producers.reached(high_watermark)
            while led.waiting and led.waiting[0][0] <= high_watermark:
                end, turn, done = led.waiting.popleft()
                told.setdefault(turn, (done, []))[1].append((led.number, end))
            numbers.append(led.number)
            self._wake(led)
        if numbers:
            self.on_watermark(numbers)
        for turn in sorted(told):
            done, ends = told[turn]
            done(ends, [])

    def _wake(self, led: Led) -> None:
        if not led.moving:
            return
        moving, led.moving = led.moving, []
        for waiter in moving:
            if not waiter.done():
                waiter.set_result(None)

    def _broken(self, led: Led, error: BaseException) -> None:
        """The disk took nothing: this process does not lead it any more."""
        lost = ShardLostError(led.number, f"the disk failed: {error}", fenced=False)
        lost.__cause__ = error
        led.failure = lost
        self._fail(led, lost)

    def _fail(self, led: Led, failure: Failure) -> None:
        waiting, led.waiting = led.waiting, deque()
        for _, _, done in waiting:
            done([], [(led.number, failure)])
        self._wake(led)
