"""What this node does with each partition of `__consumer_offsets`, as the metadata log says: it
leads it, follows it, or gives it up. Nothing here decides who leads.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pykcoord.clock import monotonic_seconds
from pykcoord.log.folders import TOPIC
from pykcoord.log.protocol import Failure, ShardLostError
from pykcoord.log.replicas import ReplicaDirectory
from pykcoord.node.following import Following, Source
from pykcoord.node.image import BROKER_KIND, TOPIC_KIND, Image, Placement
from pykcoord.node.joining import Timing
from pykcoord.node.leader import LedPartition
from pykcoord.node.quorum import Quorum
from pykcoord.node.store import NodeLog
from pykcoord.runtime import Runtime

__all__ = ["Leadership", "setting_of"]

logger = logging.getLogger("pykcoord.node")


def setting_of(image: Image, name: str, default: int) -> int:
    """A setting of `__consumer_offsets` that is a number: the topic's, else the brokers' default
    that was set for all."""
    for kind, resource in ((TOPIC_KIND, TOPIC), (BROKER_KIND, "")):
        value = image.configs.get((kind, resource), {}).get(name)
        if value is not None and value.isdigit():
            return int(value)
    return default


class Leadership:
    """`fenced(reason)` gives up all; `look` takes up what the image says. `serving` are the
    partitions whose groups are served."""

    def __init__(
        self,
        runtime: Runtime,
        log: NodeLog,
        directory: ReplicaDirectory,
        following: Following,
        quorum: Quorum,
        topic_id: uuid.UUID,
        node_id: int,
        timing: Timing,
    ) -> None:
        self.serving: set[int] = set()
        self.on_failure: Callable[[Exception], None] = lambda error: None
        self.on_settled: Callable[[], None] = lambda: None
        self._runtime = runtime
        self._log = log
        self._directory = directory
        self._following = following
        self._quorum = quorum
        self._topic_id = topic_id
        self._node_id = node_id
        self._timing = timing
        self._loading: dict[int, asyncio.Task[None]] = {}
        self._news = asyncio.Event()
        self._may_lead = False
        self._task: asyncio.Task[None] | None = None
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="pykcoord-load")
        runtime.on_shard_lost = self._lost

    def start(self) -> None:
        """Begins to do what the image says, on the running loop."""
        self._may_lead = True
        self._news.set()
        self._task = asyncio.create_task(self._run())

    def look(self) -> None:
        """The image is another one."""
        self._news.set()

    def allow(self, may_lead: bool) -> None:
        """Whether this node is registered, and may lead what the image says."""
        if may_lead != self._may_lead:
            self._may_lead = may_lead
            if not may_lead:
                for number in list(self._log.led):
                    self._give_up(number, "this node may not be registered any more")
            self._news.set()

    async def close(self) -> None:
        """Gives up everything, for good."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for number in list(self._log.led):
            self._give_up(number, "")
        self._threads.shutdown()

    async def _run(self) -> None:
        try:
            while True:
                await self._news.wait()
                self._news.clear()
                await self._settle()
                self.on_settled()
        except asyncio.CancelledError:
            raise
        except Exception as error:
            self.on_failure(error)

    def _placements(self) -> dict[int, Placement]:
        image = self._quorum.image
        if image.topics.get(TOPIC) != self._topic_id:
            return {}
        return dict(image.of(TOPIC))

    async def _settle(self) -> None:
        placements, own = self._placements(), self._node_id
        lead: dict[int, Placement] = {}
        sources: dict[int, Source] = {}
        for number, placement in placements.items():
            if own not in placement.replicas:
                continue
            if placement.leader == own:
                lead[number] = placement
            elif placement.leader >= 0:
                sources[number] = Source(placement.leader, placement.leader_epoch)
        if not self._may_lead:
            lead = {}
        min_isr = setting_of(self._quorum.image, "min.insync.replicas", self._timing.min_isr)
        for number, led in list(self._log.led.items()):
            known_as = lead.get(number)
            if known_as is None:
                self._give_up(number, self._why(placements.get(number)))
            elif known_as.leader_epoch != led.partition.leader_epoch:
                self._give_up(number, "")
            else:
                led.partition.min_isr = min_isr
                led.partition.placed(known_as.replicas, known_as.isr, known_as.epoch)
                self._log.placed(number)
        known = dict(self._following.high_watermarks)
        await self._following.follow(sources)
        for number, placement in lead.items():
            if number not in self._log.led:
                self._begin(number, placement, known.get(number, 0), min_isr)
        for number in self._directory.on_disk():
            if number not in placements or own not in placements[number].replicas:
                self._directory.drop(number)
                logger.info(
                    "%s-%d: not a replica any more, deleted here", TOPIC, number,
                    extra={"event": "dropped", "partition": number},
                )  # fmt: skip

    def _begin(self, number: int, placement: Placement, high_watermark: int, min_isr: int) -> None:
        log = self._directory.open_log(number)
        partition = LedPartition(
            node_id=self._node_id,
            replicas=placement.replicas,
            isr=placement.isr,
            leader_epoch=placement.leader_epoch,
            partition_epoch=placement.epoch,
            start=log.next_offset,
            min_isr=min_isr,
            lag_seconds=self._timing.lag_seconds,
            begun_at=monotonic_seconds(),
            high_watermark=high_watermark,
        )
        # Until it is loaded, who asks hears NOT_COORDINATOR and asks again: librdkafka fails a
        # commit that hears COORDINATOR_LOAD_IN_PROGRESS three times.
        self._log.lead(number, partition)
        task = asyncio.create_task(self._serve(number))
        self._loading[number] = task
        task.add_done_callback(lambda done: self._loaded(number, done))

    async def _serve(self, number: int) -> None:
        """Serves the groups once all that was inherited is below the high watermark: a follower
        may have had less, and then it has it now, or is out of the ISR."""
        led, started = self._log.led[number], monotonic_seconds()
        if not await self._log.all_has_reached(led, led.partition.start):
            return
        # Made here: the node is the loop's alone.
        made = functools.partial(_given, self._runtime.node.loader())
        take = functools.partial(self._log.take, number, made)
        loop = asyncio.get_running_loop()
        try:
            taken = await loop.run_in_executor(self._threads, take)
        except ShardLostError:
            return
        if self._log.led.get(number) is not led:
            return
        self._runtime.adopt(number, *taken)
        self.serving.add(number)
        logger.info(
            "%s-%d: led in epoch %d, groups are served after %.0f ms",
            TOPIC, number, taken.epoch, 1000 * (monotonic_seconds() - started),
            extra={"event": "led", "partition": number, "epoch": taken.epoch},
        )  # fmt: skip

    def _loaded(self, number: int, task: asyncio.Task[None]) -> None:
        if self._loading.get(number) is not task:
            return
        del self._loading[number]
        error = None if task.cancelled() else task.exception()
        if error is not None:
            logger.error("%s-%d cannot be led: %s", TOPIC, number, error)
            self.on_failure(error if isinstance(error, Exception) else RuntimeError(str(error)))
        if number not in self.serving and number not in self._log.led:
            self._runtime.release(number)

    def _give_up(self, number: int, reason: str) -> None:
        loading = self._loading.pop(number, None)
        if loading is not None:
            loading.cancel()
        self.serving.discard(number)
        self._runtime.leave(number)
        self._log.release(number)
        if reason:
            logger.info(
                "%s-%d: not led any more: %s", TOPIC, number, reason,
                extra={"event": "given_up", "partition": number},
            )  # fmt: skip

    def _why(self, placement: Placement | None) -> str:
        if placement is None:
            return "it is not there any more"
        if placement.leader < 0:
            return "nobody leads it"
        return f"broker {placement.leader} leads it"

    def _lost(self, number: int, error: Failure) -> None:
        """An append failed, and the runtime has released the shard. Whoever has a disk that takes
        nothing leads nothing: the node ends, and a broker leads."""
        self.serving.discard(number)
        if number in self._log.led:
            self.on_failure(error)


def _given(loader: Any) -> Any:
    return loader
