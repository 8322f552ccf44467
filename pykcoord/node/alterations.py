"""Changes of ISRs, asked for at the controller (AlterPartition): one request at a time, with all
partitions that have one.

Where it is not known what became of a request, the ISR that was asked for may hold: it counts for
the high watermark, and is asked for again (as Kafka's Partition does with its pending states).
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
from pykcoord.node.leader import Eligible, LedPartition
from pykcoord.node.quorum import Quorum
from pykcoord.node.registration import Registration
from pykcoord.node.store import NodeLog

__all__ = ["Alterations"]

logger = logging.getLogger("pykcoord.node")

# How often ISRs are looked at without news: who lags falls out then.
_LOOK_SECONDS = 1.0
_RETRY_SECONDS = 0.2
# What was asked for is not so, and will not be: OPERATION_NOT_ATTEMPTED, INELIGIBLE_REPLICA.
_REFUSED = frozenset({55, 107})
# The controller knows better, and the metadata log will say what: UNKNOWN_TOPIC_OR_PARTITION,
# INVALID_REQUEST, FENCED_LEADER_EPOCH, INVALID_UPDATE_VERSION, UNKNOWN_TOPIC_ID and
# NEW_LEADER_ELECTED.
_AHEAD = frozenset({3, 42, 74, 95, 100, 108})


class Alterations:
    """Looks at what is led, and asks. `eligible` says of a broker and its epoch whether it may be
    in an ISR."""

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
            partition = led.partition
            isr = partition.pending or partition.wanted_isr(now, self._eligible)
            if isr is not None:
                found[number] = led.partition.pending = isr
        return found

    async def _ask(self, wanted: dict[int, tuple[int, ...]]) -> bool:
        """Says whether nothing is to be asked again soon."""
        leds = {number: self._log.led[number] for number in wanted}
        answered: dict[int, Any] = {}
        self.asked += 1
        try:
            answer = await self._quorum.ask(self._request(wanted))
        except ClusterError as error:
            logger.warning("AlterPartition: %s", error, extra={"event": "isr"})
        else:
            if answer.error_code.value:
                name = answer.error_code.name
                logger.warning("AlterPartition: %s", name, extra={"event": "isr"})
            answered = {
                int(one.partition_index): one for topic in answer.topics for one in topic.partitions
            }
        is_well = True
        for number, led in leds.items():
            if self._log.led.get(number) is led:
                is_well &= self._take(number, led.partition, answered.get(number))
        return is_well

    def _take(self, number: int, partition: LedPartition, found: Any) -> bool:
        """Takes in an answer, None: there was none. Says whether it was one."""
        if found is None:
            return False
        code = found.error_code.value
        if code:
            logger.info(
                "__consumer_offsets-%d: the ISR stays %s: %s",
                number, list(partition.isr), found.error_code.name, extra={"event": "isr"},
            )  # fmt: skip
            if code in _REFUSED:
                partition.pending = None
            return code in _AHEAD
        if int(found.leader_epoch) == partition.leader_epoch:
            isr = tuple(int(one) for one in found.isr)
            if set(isr) != set(partition.isr):
                logger.info(
                    "__consumer_offsets-%d: the ISR is %s, was %s",
                    number, sorted(isr), sorted(partition.isr), extra={"event": "isr"},
                )  # fmt: skip
            partition.pending = None
            partition.placed((), isr, int(found.partition_epoch))
            self._log.placed(number)
        return True

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
