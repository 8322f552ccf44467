"""A cluster watched: everything that runs together, from the first connection to the last sync.

Changes nothing at the cluster: it asks, and reads. A cluster that does not let `__consumer_offsets`
be read is polled instead, which shows less; `mode` says which it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Self

from kio.schema.metadata.v12.request import MetadataRequest, MetadataRequestTopic
from kio.schema.types import TopicName

from pykcoord.catalogue import INTERNAL_TOPICS, MAX_PARTITIONS, STATE_FILE, Topic, store_topics
from pykcoord.clock import Clock, monotonic_seconds
from pykcoord.events import Event, EventMember
from pykcoord.explain.text import counted
from pykcoord.kafka.cluster import Cluster
from pykcoord.kafka.ends import Ends
from pykcoord.kafka.errors import ClusterError, NotAllowedError
from pykcoord.lag import EndTimes, LagHistory, Place, Stalls, matching, widest
from pykcoord.log.copied_directory import CopiedDirectory
from pykcoord.log.lines import append_lines
from pykcoord.log.state_file import StateFile
from pykcoord.watch.checking import Checker
from pykcoord.watch.copies import Kept, NotKept
from pykcoord.watch.following import TOPIC, Follower
from pykcoord.watch.history import checked_origin
from pykcoord.watch.lags import keep_lags
from pykcoord.watch.model import Source
from pykcoord.watch.polling import Poller
from pykcoord.watch.settings import WatchSettings
from pykcoord.watch.state import WatchedState
from pykcoord.watch.tables import Tables
from pykcoord.watch.telling import Telling

__all__ = ["POLLED_FILE", "Watcher"]

logger = logging.getLogger("pykcoord.watch")

POLLED_FILE = "polled.jsonl"
_NOT_AUTHORIZED = 29
_PROGRESS_SECONDS = 2.0
# Groups of which the history of lag is kept.
_MOST_HISTORIES = 100


class Watcher:
    """Made by `open`, which reads all there is; `run` goes on until it is cancelled; then `close`.

    `state` is what was read of the log, `poller` what was asked instead (one of them is None),
    `follower` and `checker` are there once the topic is, `telling` where events are wanted.
    """

    def __init__(
        self, settings: WatchSettings, cluster: Cluster, directory: CopiedDirectory | None
    ) -> None:
        self.settings = settings
        self.cluster = cluster
        self.ends = Ends(cluster)
        self.end_times = EndTimes()
        self.lag_history = LagHistory()
        self._stalls = Stalls()
        self.state: WatchedState | None = WatchedState()
        self.telling: Telling | None = None
        self.poller: Poller | None = None
        self.follower: Follower | None = None
        self.checker: Checker | None = None
        self.wanted = matching(settings.patterns)
        self._directory = directory
        self._named_version = -1
        # It goes on where its waiter is cancelled.
        self._syncing: asyncio.Future[None] | None = None

    @classmethod
    async def open(
        cls, settings: WatchSettings, path: Path | None, *, tells_events: bool = False
    ) -> Self:
        """Connects, takes in what `path` holds, and reads the cluster's log to its end, or asks for
        everything once. `tells_events`: `telling` says what happened, as the log tells it. Raises
        ClusterError, ConfigError, LogError, OSError."""
        directory = CopiedDirectory.open(path) if path is not None else None
        servers = settings.client.bootstrap_servers
        logger.info("connecting to %s", servers, extra={"event": "connecting"})
        cluster = watcher = None
        try:
            expected = directory.origin.cluster_id if directory and directory.origin else None
            cluster = await Cluster.open(settings.client, expected)
            watcher = cls(settings, cluster, directory)
            if tells_events and watcher.state is not None:
                watcher.telling = Telling(watcher.state)
            await watcher._begin()
            return watcher
        except BaseException:
            if watcher is not None and watcher.follower is not None:
                await watcher.follower.close()
            if cluster is not None:
                await cluster.close()
            if directory is not None:
                directory.close()
            raise

    @property
    def mode(self) -> str:
        """`log` where the log is read, `poll` where coordinators are asked instead."""
        return "log" if self.poller is None else "poll"

    @property
    def source(self) -> Source:
        """Where groups and offsets come from."""
        source = self.poller or self.state
        assert source is not None
        return source

    def tables(self, wanted: Callable[[str], bool] | None = None) -> Tables:
        """Groups and offsets with lag, as of now. `wanted` narrows the groups by id."""
        return Tables(
            self.source, self.cluster.view, self.ends.known, self.settings.oldest_end_ms,
            wanted or self.wanted, self.end_times,
        )  # fmt: skip

    async def refresh_ends(self) -> None:
        """Asks where the partitions end in which wanted groups have offsets or members."""
        topics = {of.topic for of in self.source.offsets() if self.wanted(of.group_id)}
        for group in self.source.groups():
            if self.wanted(group.group_id):
                topics.update(topic for one in group.members for topic in one.owned)
        await self.ends.refresh(topics)
        self._sample_ends()

    def _sample_ends(self) -> None:
        """When partitions ended where; before the first time, by what had been committed when."""
        furthest: dict[tuple[str, int], tuple[int, int]] = {}
        for of in self.source.offsets():
            place = (of.topic, of.partition)
            furthest[place] = max(furthest.get(place, (-1, -1)), (of.offset, of.commit_timestamp))
        now_ms, now = Clock().now_ms(), monotonic_seconds()
        self.end_times.keep(self.ends.known)
        for place, end in self.ends.known.items():
            told_ms = now_ms - round((now - end.as_of) * 1000)
            if place in furthest and furthest[place][0] < end.offset:
                self.end_times.seed(place, *furthest[place])
            self.end_times.put(place, end.offset, told_ms)
        self.look_at_lags(now_ms)

    def look_at_lags(self, now_ms: int) -> None:
        """Note the lags of the groups that are furthest behind, and which partitions fall behind
        while their owner commits nothing."""
        lags: dict[str, dict[Place, tuple[int, int]]] = {}
        for of in self.source.offsets():
            end = self.ends.known.get((of.topic, of.partition))
            if end is not None and self.wanted(of.group_id):
                lag = max(0, end.offset - of.offset)
                lags.setdefault(of.group_id, {})[of.topic, of.partition] = (of.offset, lag)
        sums = ((group, sum(lag for _, lag in of.values())) for group, of in lags.items())
        for group in widest(sums, _MOST_HISTORIES)[0]:
            for place, (_, lag) in lags[group].items():
                self.lag_history.put((group, *place), lag, now_ms)
        late: dict[str, list[tuple[Place, int, int]]] = {}
        for group, committed in lags.items():
            for place, (offset, lag) in committed.items():
                still_ms = self._stalls.look((group, *place), offset, lag, now_ms)
                if still_ms is not None:
                    late.setdefault(group, []).append((place, lag, still_ms))
        if late:
            self._tell_late(late, now_ms)

    def _tell_late(self, late: dict[str, list[tuple[Place, int, int]]], now_ms: int) -> None:
        told: list[Event] = []
        for group in self.source.groups():
            owners = {
                (topic, one): member
                for member in group.members
                for topic, partitions in member.owned.items()
                for one in partitions
            }
            for place, lag, still_ms in late.get(group.group_id, ()):
                if (owner := owners.get(place)) is None:
                    continue  # nobody is there to commit
                self._stalls.told((group.group_id, *place), lag)
                member = EventMember(
                    owner.member_id, owner.instance_id, owner.client_id, owner.client_host, None
                )
                detail = f"{place[0]}-{place[1]}"
                of = group.group_id, group.epoch or -1, None, member, lag, detail, now_ms, still_ms
                told.append(Event("lag_grows", *of))
        if self.telling is not None:
            self.telling.tell(told)
        if self._directory is not None:
            keep_lags(self._directory.path, told)

    async def run(self) -> None:
        """Keeps everything up to date until it is cancelled. Raises what ends the watching:
        ClusterError (another cluster, a lost right), LogError, OSError."""
        self.cluster.on_change.append(self._took_metadata)
        settings = self.settings
        jobs = [self._every(settings.end_offsets_interval_ms, self.refresh_ends)]
        if self.poller is not None:
            jobs.append(self._every(settings.poll_interval_ms, self._poll))
        else:
            jobs += [self._follow(), self._every(settings.sync_interval_ms, self._sync)]
            if settings.check_interval_ms:
                jobs.append(self._every(settings.check_interval_ms, self._check))
        try:
            async with asyncio.TaskGroup() as group:
                for job in jobs:
                    group.create_task(job)
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None

    async def close(self) -> None:
        """Ends the reading, and syncs what was read."""
        try:
            if self.follower is not None:
                await self.follower.close()
            await self.cluster.close()
            if self._syncing is not None:
                await asyncio.wait({self._syncing})
            if self._directory is not None and self.follower is not None:
                self._directory.follow(self._followed_ms())
        finally:
            if self._directory is not None:
                self._directory.close()

    async def _begin(self) -> None:
        topic = self.cluster.view.topics.get(TOPIC)
        if topic is None:
            error = await self._why_missing()
            if error is not None:
                await self._begin_polling(error)
                return
            text = "cluster %s has no %s yet: it is waited for"
            logger.info(text, self.cluster.view.cluster_id, TOPIC, extra={"event": "waiting"})
            return
        await self._begin_following(topic.topic_id)

    async def _why_missing(self) -> NotAllowedError | None:
        """None where the topic is not there yet: no group has been, and none is missed."""
        asked = MetadataRequestTopic(topic_id=None, name=TopicName(TOPIC))
        request = MetadataRequest(
            topics=(asked,), allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        )  # fmt: skip
        answer = await self.cluster.ask(min(self.cluster.view.brokers), request)
        if any(one.error_code.value == _NOT_AUTHORIZED for one in answer.topics):
            return NotAllowedError(
                self.settings.client.bootstrap_servers,
                f"the principal lacks DESCRIBE on the topic {TOPIC}",
            )
        return None

    async def _begin_following(self, topic_id: uuid.UUID) -> None:
        assert self.state is not None
        copies: Kept | NotKept = NotKept()
        known = self._directory.origin if self._directory is not None else None
        if self._directory is not None:
            await checked_origin(self._directory, self.cluster, topic_id)
            copies = Kept(self._directory)
        self._name_topics()
        follower = Follower(self.cluster, topic_id, self.state, copies)
        self._say_reads(known is not None)
        follower.load()
        if self._directory is not None:
            self._directory.taken_over()
        follower.start()
        self.follower = follower
        self.checker = Checker(self.cluster, self.state, follower)
        saying = asyncio.create_task(_say_progress(follower))
        try:
            await self._catch_up(follower)
        finally:
            saying.cancel()
        if follower.denied is not None and follower.failure is None:
            await follower.close()
            self.follower = self.checker = None
            await self._begin_polling(follower.denied)
            return
        self._raise_failure()
        await self._sync()
        await self.refresh_ends()

    def _say_reads(self, has_copy: bool) -> None:
        view, copy = self.cluster.view, ""
        if self._directory is not None and has_copy:
            copy = f", after what {self._directory.path} has of them"
        logger.info(
            "reading %s of %s of cluster %s (%s)%s",
            counted(len(view.topics[TOPIC].leaders), "partition"), TOPIC, view.cluster_id,
            counted(len(view.brokers), "broker"), copy,
            extra={"event": "reading"},
        )  # fmt: skip

    async def _catch_up(self, follower: Follower) -> None:
        """Waits until all is read, or until nothing comes any more: a partition without a leader
        must not keep all others from being shown."""
        seconds = self.settings.client.request_timeout_ms / 1000
        while True:
            before = follower.counts["records"]
            try:
                async with asyncio.timeout(seconds):
                    await follower.caught_up()
                return
            except TimeoutError:
                if follower.counts["records"] > before:
                    continue
            unread = [one for one in follower.partitions.values() if not one.is_caught_up]
            logger.warning(
                "%d partitions of %s cannot be read now, such as %d (%s): what is shown lacks "
                "groups of theirs",
                len(unread),
                TOPIC,
                unread[0].number,
                unread[0].trouble or "it has no leader",
                extra={"event": "unread"},
            )
            return

    async def _begin_polling(self, why: NotAllowedError) -> None:
        logger.warning(
            "%s: groups are asked of their coordinators every %g s instead: what comes and goes "
            "between two rounds is not seen, and commits have no times",
            why,
            self.settings.poll_interval_ms / 1000,
            extra={"event": "polling"},
        )
        self.state, self.poller = None, Poller(self.cluster, self.wanted)
        self.telling = None
        await self._poll()
        await self.refresh_ends()

    async def _follow(self) -> None:
        """Waits for the topic, where it is not there yet, and for what ends the reading."""
        while self.follower is None:
            topic = self.cluster.view.topics.get(TOPIC)
            if topic is not None:
                await self._begin_following(topic.topic_id)
                break
            await self.cluster.refreshed()
            self._raise_failure()
        while True:
            if self.follower is None:
                raise self._lost_right()
            await self.follower.ended.wait()
            self._raise_failure()
            if self.follower.denied is not None:
                raise self.follower.denied

    def _lost_right(self) -> ClusterError:
        reason = f"the topic {TOPIC} may not be read; start again, to ask coordinators instead"
        return NotAllowedError(self.settings.client.bootstrap_servers, reason)

    def _raise_failure(self) -> None:
        failure = self.follower.failure if self.follower else self.cluster.failure
        if failure is not None:
            raise failure

    async def _poll(self) -> None:
        assert self.poller is not None
        self._raise_failure()
        changes = await self.poller.poll()
        if changes and self._directory is not None:
            now_ms = Clock().now_ms()
            documents = [{"time_ms": now_ms, **one} for one in changes]
            append_lines(self._directory.path / POLLED_FILE, documents)

    async def _check(self) -> None:
        if self.checker is not None and self.follower is not None and self.follower.is_caught_up:
            await self.checker.check_some(self.settings.check_groups)

    async def _sync(self) -> None:
        """Off the loop: the disk may take its time."""
        if self._directory is not None and self.follower is not None:
            job = self._directory.follow_job(self._followed_ms())
            self._syncing = asyncio.ensure_future(asyncio.to_thread(job))
            await asyncio.shield(self._syncing)

    def _followed_ms(self) -> int:
        """Until when nothing of the log was missed."""
        assert self._directory is not None
        assert self._directory.origin is not None
        if self.follower is not None and self.follower.is_caught_up:
            return Clock().now_ms()
        return self._directory.origin.followed_ms

    def _took_metadata(self) -> None:
        self._name_topics()

    def _name_topics(self) -> None:
        """The state, and those who look into the directory later, know topics by their names."""
        view = self.cluster.view
        if self.state is None or view.version == self._named_version:
            return
        self._named_version = view.version
        self.state.set_names({one.topic_id.bytes: one.name for one in view.topics.values()})
        if self._directory is not None and self._directory.origin is not None:
            topics = [
                Topic(one.name, one.topic_id, len(one.leaders))
                for one in view.topics.values()
                if one.name not in INTERNAL_TOPICS and 0 < len(one.leaders) <= MAX_PARTITIONS
            ]
            with contextlib.suppress(OSError):  # it is of use only beside the log, which says so
                store = StateFile(self._directory.path / STATE_FILE)
                store_topics(store, topics, view.cluster_id)

    async def _every(self, interval_ms: int, job: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(interval_ms / 1000)
            await job()


async def _say_progress(follower: Follower) -> None:
    while True:
        await asyncio.sleep(_PROGRESS_SECONDS)
        logger.info(
            "read %s of %s, %d to go", counted(follower.counts["records"], "record"), TOPIC,
            follower.behind_records, extra={"event": "reading"},
        )  # fmt: skip
