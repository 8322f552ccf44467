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
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pykcoord.clock import monotonic_seconds
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
from pykcoord.node.leader import Eligible, LedPartition
from pykcoord.node.producers import Producers

__all__ = ["Led", "NodeLog"]

logger = logging.getLogger("pykcoord.node")

_SYNCERS = 8


class Led:
    """A partition that is led: its log, what is known of its replicas, and who waits. `producers`:
    None until its log was read."""

    def __init__(self, number: int, log: ReplicaLog, partition: LedPartition) -> None:
        self.number = number
        self.log = log
        self.partition = partition
        self.producers: Producers | None = None
        self.waiting: deque[tuple[int, Done]] = deque()
        self.failure: Failure | None = None
        self.reached = asyncio.Condition()

    @property
    def stable(self) -> int:
        """The last stable offset; the high watermark until the log was read."""
        high_watermark = self.partition.high_watermark
        return high_watermark if self.producers is None else self.producers.stable(high_watermark)


class NodeLog:
    """See `pykcoord.log.protocol.Log`. `eligible` says of a broker and its epoch whether it may be
    in an ISR; `on_progress(number)` is called when a follower, the disk or an append moved
    something."""

    def __init__(self, directory: ReplicaDirectory, shards: int, eligible: Eligible) -> None:
        self.shards = shards
        self.directory = directory
        self.led: dict[int, Led] = {}
        self.on_progress: Callable[[int], None] = lambda number: None
        self.on_watermark: Callable[[int], None] = lambda number: None
        self._eligible = eligible
        self._dirty: set[int] = set()
        self._syncing: asyncio.Task[None] | None = None
        self._threads = ThreadPoolExecutor(_SYNCERS, thread_name_prefix="pykcoord-sync")

    def lead(self, number: int, partition: LedPartition) -> Led:
        """Appends to it go to its log from now on, once it is taken."""
        self.release(number)
        log = self.directory.logs[number]
        log.begin_epoch(partition.leader_epoch)
        led = self.led[number] = Led(number, log, partition)
        self._advance(led)
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
        led.producers = producers
        return Taken(loader, led.log.next_offset, led.partition.leader_epoch)

    def release(self, shard: int) -> None:
        """See `Log.release`."""
        led = self.led.pop(shard, None)
        if led is not None:
            self._fail(led, ShardReleasedError(shard))

    def append(self, appends: Sequence[Append], done: Done) -> None:
        """See `Log.append`. Followers may have the records before they are synced here."""
        refused: list[tuple[int, Failure]] = []
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
            led.partition.end = led.log.next_offset
            led.waiting.append((led.log.next_offset, done))
            self._dirty.add(shard)
            self.on_progress(shard)
        if refused:
            done([], refused)
        if self._dirty and self._syncing is None:
            self._syncing = asyncio.get_running_loop().create_task(self._sync())

    def fetched(self, number: int, broker: int, broker_epoch: int, offset: int) -> None:
        """A follower of a led partition has all below `offset`."""
        led = self.led.get(number)
        if led is not None:
            led.partition.fetched(broker, broker_epoch, offset, monotonic_seconds())
            self._advance(led)

    def placed(self, number: int) -> None:
        """The ISR of a led partition is another."""
        if (led := self.led.get(number)) is not None:
            self._advance(led)

    async def all_has_reached(self, led: Led, offset: int) -> bool:
        """Waits until the high watermark is at `offset`; False: it is not led any more."""
        async with led.reached:
            await led.reached.wait_for(
                lambda: (
                    self.led.get(led.number) is not led or led.partition.high_watermark >= offset
                )
            )
        return self.led.get(led.number) is led

    def close(self) -> None:
        """Ends the syncing; what waits is not acknowledged."""
        for shard in list(self.led):
            self.release(shard)
        if self._syncing is not None:
            self._syncing.cancel()
        self._threads.shutdown()

    async def _sync(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._dirty:
                round_ = [
                    (self.led[one], self.led[one].log) for one in self._dirty & self.led.keys()
                ]
                self._dirty.clear()
                ends = [(led, log.next_offset, log.sync_job()) for led, log in round_]
                results = await asyncio.gather(
                    *(loop.run_in_executor(self._threads, job) for _, _, job in ends if job),
                    return_exceptions=True,
                )
                outcome = iter(results)
                for led, end, job in ends:
                    error = next(outcome) if job else None
                    if isinstance(error, BaseException):
                        self._broken(led, error)
                    elif self.led.get(led.number) is led:
                        led.partition.synced = max(led.partition.synced, end)
                        self._advance(led)
        finally:
            self._syncing = None

    def _advance(self, led: Led) -> None:
        moved = led.partition.advance(monotonic_seconds(), self._eligible)
        if moved:
            high_watermark = led.partition.high_watermark
            while led.waiting and led.waiting[0][0] <= high_watermark:
                end, done = led.waiting.popleft()
                done([(led.number, end)], [])
            self._wake(led)
            self.on_watermark(led.number)

    def _wake(self, led: Led) -> None:
        async def tell() -> None:
            async with led.reached:
                led.reached.notify_all()

        task = asyncio.get_running_loop().create_task(tell())
        _running.add(task)
        task.add_done_callback(_running.discard)

    def _broken(self, led: Led, error: BaseException) -> None:
        """The disk took nothing: this process does not lead it any more."""
        lost = ShardLostError(led.number, f"append failed: {error}", fenced=False)
        lost.__cause__ = error
        led.failure = lost
        self._fail(led, lost)

    def _fail(self, led: Led, failure: Failure) -> None:
        waiting, led.waiting = led.waiting, deque()
        for _, done in waiting:
            done([], [(led.number, failure)])
        self._wake(led)


_running: set[asyncio.Task[None]] = set()
