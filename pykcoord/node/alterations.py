"""Changes of ISRs, asked for at the controller (AlterPartition): one request at a time, with all
partitions that have one.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable
from typing import Any

from kio.schema.alter_partition.v3.request import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    TopicData,
)
from kio.schema.types import BrokerId
from kio.static.primitive import i32, i64

from pykcoord.clock import monotonic_seconds
from pykcoord.kafka import ClusterError
from pykcoord.node.leader import Eligible
from pykcoord.node.quorum import Quorum
from pykcoord.node.registration import Registration
from pykcoord.node.store import NodeLog

__all__ = ["Alterations"]

logger = logging.getLogger("pykcoord.node")

# How often ISRs are looked at without news: who lags falls out then.
_LOOK_SECONDS = 1.0
_RETRY_SECONDS = 0.2


class Alterations:
    """Looks at what is led, and asks. `epoch_of(broker)` is a broker's epoch, -1: not known."""

    def __init__(
        self,
        quorum: Quorum,
        registration: Registration,
        log: NodeLog,
        topic_id: uuid.UUID,
        eligible: Eligible,
    ) -> None:
        self.asked = 0
        self._quorum = quorum
        self._registration = registration
        self._log = log
        self._topic_id = topic_id
        self._eligible = eligible
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.on_failure: Callable[[Exception], None] = lambda error: None

    def start(self) -> None:
        """Begins, on the running loop."""
        self._task = asyncio.create_task(self._run())

    def look(self) -> None:
        """Something moved."""
        self._news.set()

    async def close(self) -> None:
        """Ends it."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        try:
            while True:
                try:
                    async with asyncio.timeout(_LOOK_SECONDS):
                        await self._news.wait()
                except TimeoutError:
                    pass
                self._news.clear()
                wanted = self._wanted()
                if wanted and not await self._ask(wanted):
                    await asyncio.sleep(_RETRY_SECONDS)
                    self._news.set()
        except asyncio.CancelledError:
            raise
        except Exception as error:
            self.on_failure(error)

    def _wanted(self) -> dict[int, tuple[int, ...]]:
        now, found = monotonic_seconds(), {}
        for number, led in self._log.led.items():
            self._log.placed(number)  # who lags does not hold the high watermark for ever
            isr = led.partition.wanted_isr(now, self._eligible)
            if isr is not None:
                found[number] = led.partition.pending = isr
        return found

    async def _ask(self, wanted: dict[int, tuple[int, ...]]) -> bool:
        """Says whether it was answered as asked."""
        leds = {number: self._log.led[number] for number in wanted}
        try:
            self.asked += 1
            answer = await self._quorum.ask(self._request(wanted))
        except ClusterError as error:
            logger.warning("AlterPartition: %s", error, extra={"event": "isr"})
            answer = None
        answered = {
            int(one.partition_index): one
            for topic in (answer.topics if answer is not None else ())
            for one in topic.partitions
        }
        is_well = bool(answered)
        for number, led in leds.items():
            partition = led.partition
            partition.pending = None
            found = answered.get(number)
            if found is None or self._log.led.get(number) is not led:
                continue
            if found.error_code.value:
                # The metadata log says what holds.
                is_well = False
                logger.info(
                    "__consumer_offsets-%d: the ISR stays %s: %s",
                    number, list(partition.isr), found.error_code.name, extra={"event": "isr"},
                )  # fmt: skip
                continue
            if int(found.leader_epoch) == partition.leader_epoch:
                isr = tuple(int(one) for one in found.isr)
                if set(isr) != set(partition.isr):
                    logger.info(
                        "__consumer_offsets-%d: the ISR is %s, was %s",
                        number, sorted(isr), sorted(partition.isr), extra={"event": "isr"},
                    )  # fmt: skip
                partition.placed((), isr, int(found.partition_epoch))
                self._log.placed(number)
        return is_well

    def _request(self, wanted: dict[int, tuple[int, ...]]) -> Any:
        brokers = self._quorum.image.brokers
        return AlterPartitionRequest(
            broker_id=BrokerId(self._registration.node_id),
            broker_epoch=i64(self._registration.broker_epoch),
            topics=(
                TopicData(
                    topic_id=self._topic_id,
                    partitions=tuple(
                        PartitionData(
                            partition_index=i32(number),
                            leader_epoch=i32(self._log.led[number].partition.leader_epoch),
                            new_isr_with_epochs=tuple(
                                BrokerState(
                                    broker_id=BrokerId(one),
                                    broker_epoch=i64(brokers[one].epoch if one in brokers else -1),
                                )
                                for one in isr
                            ),
                            partition_epoch=i32(self._log.led[number].partition.partition_epoch),
                        )
                        for number, isr in wanted.items()
                    ),
                ),
            ),
        )
