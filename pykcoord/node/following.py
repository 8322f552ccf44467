"""Following the leaders of partitions as a replica: Fetch with this node's id and broker epoch, so
that leaders count it, and may take it into the ISR.

What was fetched is synced before the next offset is asked for: to ask for it says that all before
is safe here.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import kio.schema.fetch.v17.request as version_17
from kio.schema.types import BrokerId
from kio.static.primitive import i64

from pykcoord.clock import monotonic_seconds
from pykcoord.kafka import ClusterError, Connection, Connector, Fetched, Fetcher, Position
from pykcoord.kafka.ends import EARLIEST, offset_at
from pykcoord.log.copied import SyncJob, UnfitBatchError, sync_all
from pykcoord.log.folders import TOPIC
from pykcoord.log.replica import ReplicaLog
from pykcoord.log.replicas import ReplicaDirectory
from pykcoord.node.errors import NodeError

__all__ = ["Following", "Source"]

logger = logging.getLogger("pykcoord.node")

_WAIT_MS, _MOST_BYTES = 500, 10 << 20
_LEAST_PAUSE, _MOST_PAUSE = 0.05, 2.0
_OUT_OF_RANGE, _NOT_LEADER, _FENCED, _UNKNOWN_EPOCH = 1, 6, 74, 75
_QUIET = frozenset({_NOT_LEADER, _FENCED, _UNKNOWN_EPOCH, 100, 3})


class Source(NamedTuple):
    """Whom a partition is followed from, and under which leader epoch."""

    leader: int
    leader_epoch: int


class _ReplicaFetcher(Fetcher):
    """A Fetcher that says which replica asks."""

    messages = version_17

    def __init__(
        self,
        connection: Connection,
        topic_id: uuid.UUID,
        node_id: int,
        broker_epoch: Callable[[], int],
        directory_id: uuid.UUID,
    ) -> None:
        super().__init__(connection, topic_id, _MOST_BYTES, _WAIT_MS)
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._directory_id = directory_id
        self.starts: Mapping[int, int] = {}

    def _asking(self) -> dict[str, Any]:
        epoch = i64(self._broker_epoch())
        return {
            "replica_state": version_17.ReplicaState(
                replica_id=BrokerId(self._node_id), replica_epoch=epoch
            )
        }

    def _asking_of(self, number: int) -> dict[str, Any]:
        return {
            "log_start_offset": i64(self.starts.get(number, 0)),
            "replica_directory_id": self._directory_id,
        }


class Following:
    """`address_of(broker)` is where a broker is reached, None: not known. `on_failure` hears of a
    disk that takes nothing."""

    def __init__(
        self,
        connector: Connector,
        directory: ReplicaDirectory,
        topic_id: uuid.UUID,
        node_id: int,
        directory_id: uuid.UUID,
        broker_epoch: Callable[[], int],
        address_of: Callable[[int], tuple[str, int] | None],
    ) -> None:
        self.on_failure: Callable[[Exception], None] = lambda error: None
        self.high_watermarks: dict[int, int] = {}
        self.counts = {"bytes": 0, "truncations": 0, "begun_anew": 0, "errors": 0}
        self._connector = connector
        self._directory = directory
        self._topic_id = topic_id
        self._node_id = node_id
        self._directory_id = directory_id
        self._broker_epoch = broker_epoch
        self._address_of = address_of
        self._sources: dict[int, Source] = {}
        self._not_before: dict[int, float] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._changed = asyncio.Event()
        self._busy: dict[int, asyncio.Lock] = {}
        self._threads = ThreadPoolExecutor(4, thread_name_prefix="pykcoord-follow")

    async def follow(self, sources: Mapping[int, Source]) -> None:
        """These and no others. When it returns, nothing writes to the logs of the others."""
        gone = [number for number in self._sources if number not in sources]
        self._sources = dict(sources)
        for number in sources:
            self._directory.open_log(number)
        for leader in {source.leader for source in sources.values()}:
            task = self._tasks.get(leader)
            if task is None or task.done():
                self._tasks[leader] = asyncio.create_task(self._run(leader))
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        for number in gone:
            async with self._busy.setdefault(number, asyncio.Lock()):
                self.high_watermarks.pop(number, None)

    async def close(self) -> None:
        """Ends it."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._threads.shutdown()

    def _positions(self, leader: int) -> dict[int, Position]:
        now, found = monotonic_seconds(), {}
        for number, source in self._sources.items():
            if source.leader == leader and self._not_before.get(number, 0.0) <= now:
                log = self._directory.logs[number]
                found[number] = Position(log.next_offset, log.last_epoch, source.leader_epoch)
        return found

    async def _run(self, leader: int) -> None:
        fetcher: _ReplicaFetcher | None = None
        pause = _LEAST_PAUSE
        try:
            while True:
                positions = self._positions(leader)
                if not positions:
                    if all(source.leader != leader for source in self._sources.values()):
                        return
                    await self._wait(_LEAST_PAUSE)
                    continue
                try:
                    if fetcher is None or not fetcher.connection.is_usable:
                        fetcher = await self._connected(leader)
                    fetcher.starts = {
                        number: self._directory.logs[number].start_offset for number in positions
                    }
                    fetched = await self._with_starts(
                        fetcher.connection, await fetcher.fetch(positions)
                    )
                    pause = _LEAST_PAUSE
                except ClusterError as error:
                    self.counts["errors"] += 1
                    logger.info("broker %d: %s", leader, error, extra={"event": "follow"})
                    if fetcher is not None:
                        fetcher.connection.close()
                    fetcher = None
                    await self._wait(pause)
                    pause = min(2 * pause, _MOST_PAUSE)
                    continue
                await self._take_all(positions, fetched)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            self.on_failure(error)
        finally:
            if fetcher is not None:
                fetcher.connection.close()

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            pass

    async def _connected(self, leader: int) -> _ReplicaFetcher:
        address = self._address_of(leader)
        if address is None:
            raise ClusterError(f"broker {leader}", "the cluster does not know it")
        connection = await self._connector.connect(*address)
        return _ReplicaFetcher(
            connection, self._topic_id, self._node_id, self._broker_epoch, self._directory_id
        )

    async def _with_starts(self, connection: Connection, fetched: list[Fetched]) -> list[Fetched]:
        """A leader does not say with OFFSET_OUT_OF_RANGE where its log begins: it is asked."""
        found = []
        for answer in fetched:
            if answer.error == _OUT_OF_RANGE and answer.log_start_offset < 0:
                place = (TOPIC, answer.partition)
                try:
                    start = await offset_at(connection, place, EARLIEST, self._node_id)
                except ClusterError:
                    if not connection.is_usable:
                        raise
                else:
                    answer = answer._replace(log_start_offset=start)
            found.append(answer)
        return found

    async def _take_all(self, positions: dict[int, Position], fetched: list[Fetched]) -> None:
        jobs: list[SyncJob] = []
        locks = [
            self._busy.setdefault(one.partition, asyncio.Lock())
            for one in sorted(fetched)
            if one.partition in positions
        ]
        for lock in locks:
            await lock.acquire()
        try:
            for answer in fetched:
                number, source = answer.partition, self._sources.get(answer.partition)
                asked = positions.get(number)
                if source is None or asked is None or asked.leader_epoch != source.leader_epoch:
                    continue  # it is led by another one, or here
                self._take(number, self._directory.logs[number], answer)
                if (job := self._directory.logs[number].sync_job()) is not None:
                    jobs.append(job)
            if jobs:
                loop = asyncio.get_running_loop()
                for error in await loop.run_in_executor(self._threads, sync_all, jobs):
                    if error is not None:
                        raise error
        finally:
            for lock in locks:
                lock.release()

    def _take(self, number: int, log: ReplicaLog, answer: Fetched) -> None:
        if answer.error == _OUT_OF_RANGE and answer.log_start_offset >= 0:
            self._begin_anew(number, log, answer.log_start_offset)
        elif answer.error:
            self.counts["errors"] += 1
            if answer.error not in _QUIET:
                logger.warning(
                    "%s-%d: its leader answers with error %d", TOPIC, number, answer.error,
                    extra={"event": "follow"},
                )  # fmt: skip
            self._not_before[number] = monotonic_seconds() + 2 * _LEAST_PAUSE
        elif answer.diverging is not None:
            self._diverged(number, log, *answer.diverging)
        else:
            try:
                self.counts["bytes"] += log.follow(answer.records)
            except UnfitBatchError as error:
                self.counts["errors"] += 1
                logger.warning("%s", error, extra={"event": "unfit"})
                self._not_before[number] = monotonic_seconds() + _MOST_PAUSE
                return
            self.high_watermarks[number] = min(answer.high_watermark, log.next_offset)

    def _diverged(self, number: int, log: ReplicaLog, epoch: int, end_offset: int) -> None:
        """The leader's log is another one above `end_offset`, the end of `epoch` there."""
        own_end = next((start for at, start in log.epochs if at > epoch), log.next_offset)
        target, before = min(end_offset, own_end), log.next_offset
        if target >= before and log.last_epoch > epoch:
            log.forget_empty_epochs()  # nothing was written under them
            return
        if target >= before:
            self._not_before[number] = monotonic_seconds() + _MOST_PAUSE
            logger.warning(
                "%s-%d: its leader says that epoch %d ends at %d, which cuts nothing",
                TOPIC, number, epoch, end_offset, extra={"event": "follow"},
            )  # fmt: skip
            return
        kept = log.truncate(target)
        self.counts["truncations"] += 1
        known = self.high_watermarks.get(number, -1)
        logger.log(
            logging.WARNING if log.next_offset < known else logging.INFO,
            "%s-%d: offsets from %d to %d are not in the leader's log%s%s",
            TOPIC, number, log.next_offset, before,
            " (an unclean election)" if log.next_offset < known else "",
            f"; they are kept in {kept[-1].name}" if kept else "",
            extra={"event": "truncated", "partition": number, "offset": log.next_offset},
        )  # fmt: skip

    def _begin_anew(self, number: int, log: ReplicaLog, start: int) -> None:
        if log.next_offset == start and not log.epochs:
            raise NodeError(f"{TOPIC}-{number}: offset {start} is its first, and out of range")
        logger.warning(
            "%s-%d: offset %d is not in the leader's log, which begins at %d: fetched again",
            TOPIC, number, log.next_offset, start, extra={"event": "begun_anew"},
        )  # fmt: skip
        self.counts["begun_anew"] += 1
        self._directory.begin_anew(number, start)
