"""`__consumer_offsets` followed: from the leaders of its partitions, by long poll, batch by batch,
into a copy and into the state. One task and one connection for each broker that leads any.

A partition is read from whoever leads it now. Where a leader's log is another one than what was
read (an unclean election, a restored disk), what does not hold any more is cut from the copy, kept
beside it, and the state is made anew from what is left.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from dataclasses import dataclass
from pathlib import Path

from pykcoord.clock import monotonic_seconds
from pykcoord.errors import LogError
from pykcoord.kafka.cluster import Cluster
from pykcoord.kafka.ends import EARLIEST, offset_of
from pykcoord.kafka.errors import ClusterError, NotAllowedError, OtherClusterError
from pykcoord.kafka.fetching import Fetched, Fetcher, Position
from pykcoord.kafka.view import Leader
from pykcoord.log.copied import UnfitBatchError, checked
from pykcoord.watch.copies import Copy, Kept, NotKept
from pykcoord.watch.state import WatchedState

__all__ = ["TOPIC", "Followed", "Follower"]

logger = logging.getLogger("pykcoord.watch")

TOPIC = "__consumer_offsets"
_OUT_OF_RANGE, _NOT_AUTHORIZED = 1, 29
_OTHER_TOPIC = frozenset({3, 100, 103})
_LEAST_PAUSE, _MOST_PAUSE = 0.05, 2.0


@dataclass
class Followed:
    """A partition that is followed. `high_watermark` is the leader's as it was told last, `as_of`
    when (monotonic seconds; 0: never), `trouble` what keeps it from being read, if anything does,
    `last_timestamp` that of its newest record in ms."""

    number: int
    copy: Copy
    high_watermark: int = -1
    as_of: float = 0.0
    trouble: str | None = None
    last_timestamp: int = -1
    pause: float = 0.0
    not_before: float = 0.0
    told: str | None = None

    @property
    def is_caught_up(self) -> bool:
        """Whether all that the leader had when it was asked last was read."""
        return 0 <= self.high_watermark <= self.copy.next_offset


class Follower:
    """Made for the topic of one id. `counts` are totals since the start. `denied` is set where the
    principal may not read the topic, `failure` where it cannot be followed any more."""

    def __init__(
        self, cluster: Cluster, topic_id: uuid.UUID, state: WatchedState, copies: Kept | NotKept
    ) -> None:
        self.partitions: dict[int, Followed] = {}
        self.counts = {"records": 0, "bytes": 0, "truncations": 0, "begun_anew": 0, "errors": 0}
        self.failure: Exception | None = None
        self.denied: NotAllowedError | None = None
        self.ended = asyncio.Event()
        """Set with either of these."""
        self._cluster = cluster
        self._topic_id = topic_id
        self._state = state
        self._copies = copies
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._moved = asyncio.Event()
        self._progressed = asyncio.Event()

    def load(self) -> None:
        """Takes what is kept of all partitions into the state. Raises LogError, OSError."""
        for number in sorted(self._cluster.view.topics[TOPIC].leaders):
            self._open_partition(number)

    def start(self) -> None:
        """Begins to read."""
        self._cluster.on_change.append(self._changed)
        self._changed()

    @property
    def is_caught_up(self) -> bool:
        """Whether all that leaders had when they were asked last was read."""
        return bool(self.partitions) and all(one.is_caught_up for one in self.partitions.values())

    @property
    def behind_records(self) -> int:
        """Offsets that leaders have and that were not read, as far as is known."""
        return sum(
            max(0, one.high_watermark - one.copy.next_offset) for one in self.partitions.values()
        )

    async def caught_up(self) -> None:
        """Waits until `is_caught_up`, or until it cannot be read: see `failure` and `denied`."""
        while not self.is_caught_up and self.failure is None and self.denied is None:
            self._progressed.clear()
            await self._progressed.wait()

    async def reached(self, number: int, offset: int) -> None:
        """Waits until a partition is read up to `offset`, or the topic cannot be read."""
        while (
            self.partitions[number].copy.next_offset < offset
            and self.failure is None
            and self.denied is None
        ):
            self._progressed.clear()
            await self._progressed.wait()

    async def close(self) -> None:
        """Ends the reading."""
        if self._changed in self._cluster.on_change:
            self._cluster.on_change.remove(self._changed)
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _open_partition(self, number: int) -> None:
        self.partitions[number] = Followed(number, self._copies.take(number, self._state))

    def _changed(self) -> None:
        """The cluster's metadata is another."""
        if self._cluster.failure is not None:
            self._fail(self._cluster.failure)
            return
        topic = self._cluster.view.topics.get(TOPIC)
        if topic is not None and topic.topic_id != self._topic_id:
            reason = f"{TOPIC} was deleted, and made again with the id {topic.topic_id}"
            self._fail(OtherClusterError(self._cluster.properties.bootstrap_servers, reason))
            return
        try:
            for number in sorted(topic.leaders.keys() - self.partitions.keys()) if topic else ():
                self._open_partition(number)
        except (LogError, OSError) as error:
            self._fail(error)
            return
        for node_id in self._cluster.view.brokers:
            if node_id not in self._tasks or self._tasks[node_id].done():
                self._tasks[node_id] = asyncio.create_task(self._follow(node_id))
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()

    def _fail(self, error: Exception) -> None:
        self.failure = self.failure or error
        self.ended.set()
        self._progressed.set()

    async def _follow(self, node_id: int) -> None:
        fetcher: Fetcher | None = None
        pause = _LEAST_PAUSE
        try:
            while self.failure is None and node_id in self._cluster.view.brokers:
                positions = self._positions(node_id)
                if not positions:
                    await self._wait_for_change(node_id)
                    continue
                try:
                    if fetcher is not None and not fetcher.connection.is_usable:
                        fetcher.connection.close()
                        fetcher = None
                    fetcher = fetcher or await self._fetcher(node_id)
                    fetched = await fetcher.fetch(positions)
                    pause = _LEAST_PAUSE
                except ClusterError as error:
                    self._not_answered(positions, error)
                    if fetcher is not None:
                        fetcher.connection.close()
                    fetcher = None
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, _MOST_PAUSE)
                    continue
                await self._take_all(node_id, positions, fetched)
        except (asyncio.CancelledError, KeyboardInterrupt, SystemExit):
            raise
        except Exception as error:  # a disk that takes nothing; our own fault
            self._fail(error)
        except BaseException as error:  # pyo3's PanicException is no Exception
            self._fail(RuntimeError(f"the reading failed: {error}"))
        finally:
            if fetcher is not None:
                fetcher.connection.close()

    async def _fetcher(self, node_id: int) -> Fetcher:
        properties = self._cluster.properties
        connection = await self._cluster.connect(node_id)
        return Fetcher(
            connection, self._topic_id, properties.fetch_max_bytes, properties.fetch_max_wait_ms
        )

    def _positions(self, node_id: int) -> dict[int, Position]:
        """Partitions that this broker leads and that are not left alone for a while."""
        now = monotonic_seconds()
        found = {}
        for number, leader in self._leaders().items():
            one = self.partitions.get(number)
            if leader.node_id == node_id and one is not None and one.not_before <= now:
                copy = one.copy
                found[number] = Position(copy.next_offset, copy.last_epoch, leader.epoch)
        return found

    def _leaders(self) -> dict[int, Leader]:
        topic = self._cluster.view.topics.get(TOPIC)
        return dict(topic.leaders) if topic else {}

    async def _wait_for_change(self, node_id: int) -> None:
        """Until leaders move, or a partition of this broker may be asked for again."""
        now = monotonic_seconds()
        waiting = [
            one.not_before - now
            for number, one in self.partitions.items()
            if self._leaders().get(number, Leader(-1, -1)).node_id == node_id
        ]
        try:
            async with asyncio.timeout(max(0.0, min(waiting)) if waiting else None):
                await self._moved.wait()
        except TimeoutError:
            pass

    def _not_answered(self, positions: dict[int, Position], error: ClusterError) -> None:
        self.counts["errors"] += 1
        self._cluster.doubt()
        asked = [self.partitions[number] for number in positions]
        if all(one.trouble is None for one in asked):
            logger.warning(
                "%s; the %d partitions of %s that it led are read from who leads them next",
                error,
                len(asked),
                TOPIC,
                extra={"event": "unreachable"},
            )
        for one in asked:
            one.trouble = str(error)

    async def _take_all(
        self, node_id: int, positions: dict[int, Position], fetched: list[Fetched]
    ) -> None:
        now = monotonic_seconds()
        for number in positions:
            one = self.partitions[number]
            one.trouble, one.as_of = None, now
        for answer in fetched:
            if answer.partition not in positions:
                continue
            one = self.partitions[answer.partition]
            position = Position(
                one.copy.next_offset, one.copy.last_epoch, positions[one.number].leader_epoch
            )
            if position != positions[answer.partition]:
                continue  # it moved to another broker meanwhile, and is read there
            if answer.error:
                await self._refused(node_id, one, answer)
            elif answer.diverging is not None:
                self._diverged(one, *answer.diverging)
            else:
                self._take(one, answer)
        self._progressed.set()

    def _take(self, one: Followed, answer: Fetched) -> None:
        was_live = one.is_caught_up
        try:
            name = Path(f"{TOPIC}-{one.number}")
            copied = checked(name, answer.records, one.copy.next_offset, one.copy.last_epoch)
        except UnfitBatchError as error:
            self._set_back(one, str(error))
            return
        if copied is not None and (gap := copied.gap_above(answer.high_watermark)) is not None:
            # An offset is not covered by the CRC, and below a gap may be of a compaction. What
            # follows without one may be above: the log went on while the broker read it.
            self._set_back(one, f"its leader sent a batch of offset {gap}, above its log's end")
            return
        one.high_watermark, one.pause, one.told = answer.high_watermark, 0.0, None
        if copied is None:
            return
        one.copy.append(copied)
        self._state.apply(one.number, copied.chunks(), copied.next_offset, was_live)
        one.last_timestamp = max(one.last_timestamp, copied.max_timestamp)
        self.counts["records"] += copied.records
        self.counts["bytes"] += len(copied.data)

    def _diverged(self, one: Followed, epoch: int, end_offset: int) -> None:
        """The leader's log is another one above `end_offset`, the end of `epoch` there."""
        own_end = next((start for at, start in one.copy.epochs if at > epoch), one.copy.next_offset)
        target, before = min(end_offset, own_end), one.copy.next_offset
        if target >= before:  # nothing to cut: the leader contradicts itself
            self._set_back(one, f"diverging epoch {epoch} at {end_offset} cuts nothing")
            return
        kept = one.copy.truncate(target)
        partition = self._state.begin(one.number)
        for chunk in one.copy.read():
            partition.replay(chunk)
        one.high_watermark = -1
        self.counts["truncations"] += 1
        logger.warning(
            "%s-%d: the cluster took back the offsets from %d to %d (an unclean election, or a log "
            "that was restored): what was shown of them is corrected%s",
            TOPIC, one.number, one.copy.next_offset, before,
            f", and they are kept in {kept[-1]}" if kept else "",
            extra={"event": "truncated", "partition": one.number, "offset": target},
        )  # fmt: skip

    async def _refused(self, node_id: int, one: Followed, answer: Fetched) -> None:
        self.counts["errors"] += 1
        if answer.error == _NOT_AUTHORIZED:
            self.denied = NotAllowedError(
                self._cluster.properties.bootstrap_servers,
                f"the principal lacks READ on the topic {TOPIC}",
            )
            self.ended.set()
        elif answer.error == _OUT_OF_RANGE:
            await self._begin_anew(node_id, one)
        else:
            self._set_back(one, f"error {answer.error} of its leader, node {node_id}", quiet=True)

    def _set_back(self, one: Followed, reason: str, quiet: bool = False) -> None:
        """Leaves a partition alone for a while, which gets longer."""
        self._cluster.doubt()
        if one.told != reason and not quiet:
            logger.warning("%s-%d: %s", TOPIC, one.number, reason, extra={"event": "unfit"})
            one.told = reason
        one.trouble = reason
        one.pause = min(2 * one.pause, _MOST_PAUSE) or _LEAST_PAUSE
        one.not_before = monotonic_seconds() + one.pause

    async def _begin_anew(self, node_id: int, one: Followed) -> None:
        """What was read up to is not in the leader's log: it is read again from its start."""
        try:
            start = await offset_of(self._cluster, node_id, (TOPIC, one.number), EARLIEST)
        except ClusterError as error:
            self._set_back(one, str(error))
            return
        before = one.copy.next_offset
        if before == start and not one.copy.epochs:
            self._set_back(one, f"offset {start} is its first, and out of range")
            return
        one.copy, aside = self._copies.begin_anew(one.number, self._state, start)
        one.high_watermark = -1
        if before == 0:
            return  # the log begins above 0: nothing was read that is lost
        self.counts["begun_anew"] += 1
        where = f"; what was copied before is in {aside}" if aside else ""
        logger.warning(
            "%s-%d: offset %d is not in the cluster's log any more, which begins at %d: read anew "
            "from there%s",
            TOPIC, one.number, before, start, where,
            extra={"event": "begun_anew", "partition": one.number},
        )  # fmt: skip
