"""Consumers of aiokafka, steered over lines of JSON: one task each, on one event loop."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from assignors import find
from lines import Owned, Read, say

DROP_INS = "pykcoord.clients.aiokafka"
ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}


class AiokafkaConsumer(ConsumerRebalanceListener):
    def __init__(self, settings: dict[str, Any]) -> None:
        self.owned = Owned(settings["consumer"])
        self.starts: dict[tuple[str, int], int] = {}
        self.read = Read()
        self.settings = settings
        self.polling: asyncio.Task[None] | None = None
        self.consumer = AIOKafkaConsumer(
            bootstrap_servers=settings["bootstrap"],
            client_id=settings["consumer"],
            group_id=settings["group"],
            group_instance_id=settings["instance"],
            partition_assignment_strategy=[find(settings["assignor"], ASSIGNORS, DROP_INS)],
            auto_offset_reset=settings["reset"],
            session_timeout_ms=settings["session_timeout_ms"],
            heartbeat_interval_ms=settings["heartbeat_interval_ms"],
            max_poll_interval_ms=settings["rebalance_timeout_ms"],
            metadata_max_age_ms=settings["metadata_max_age_ms"],
            enable_auto_commit=False,
        )
        if settings["pattern"]:
            self.consumer.subscribe(pattern=settings["pattern"], listener=self)
        else:
            self.consumer.subscribe(topics=settings["topics"], listener=self)

    async def open(self) -> None:
        await self.consumer.start()
        self.polling = asyncio.create_task(self._poll())

    async def do_commit(self, request: dict[str, Any]) -> None:
        await self.consumer.commit(
            {TopicPartition(topic, partition): offset
             for topic, partition, offset in request["offsets"]}
        )  # fmt: skip

    async def do_committed(self, request: dict[str, Any]) -> list[list[Any]]:
        return [[*row, await self.consumer.committed(TopicPartition(*row))]
                for row in request["partitions"]]  # fmt: skip

    async def do_started(self, request: dict[str, Any]) -> list[list[Any]]:
        """The offset of the first record that came or, without any, the position."""
        return [[*row, await self._start(tuple(row))] for row in request["partitions"]]

    async def do_read(self, request: dict[str, Any]) -> list[list[Any]]:
        return self.read.rows()

    async def do_close(self, request: dict[str, Any]) -> None:
        if self.polling is not None:
            self.polling.cancel()
        await self.consumer.stop()

    async def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        self.owned.add([(row.topic, row.partition) for row in assigned])

    async def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        self.owned.remove("revoked", [(row.topic, row.partition) for row in revoked])

    async def _start(self, partition: tuple[str, int]) -> int:
        if partition not in self.starts:
            self.starts[partition] = await self.consumer.position(TopicPartition(*partition))
        return self.starts[partition]

    async def _poll(self) -> None:
        try:
            while True:
                for partition, records in (await self.consumer.getmany(timeout_ms=50)).items():
                    key = (partition.topic, partition.partition)
                    self.starts.setdefault(key, records[0].offset)
                    for record in records:
                        self.read.add(*key, record.offset)
        except Exception as error:
            say(event="failed", consumer=self.owned.name, error=repr(error))


async def perform(request: dict[str, Any], consumers: dict[str, AiokafkaConsumer]) -> Any:
    if request["op"] == "open":
        consumer = consumers[request["consumer"]] = AiokafkaConsumer(request)
        return await consumer.open()
    return await getattr(consumers[request["consumer"]], f"do_{request['op']}")(request)


async def answer(request: dict[str, Any], consumers: dict[str, AiokafkaConsumer]) -> None:
    try:
        say(id=request["id"], result=await perform(request, consumers))
    except Exception as error:
        say(id=request["id"], error=f"{type(error).__name__}: {error}")


async def main() -> None:
    consumers: dict[str, AiokafkaConsumer] = {}
    running: set[asyncio.Task[None]] = set()
    while line := await asyncio.to_thread(sys.stdin.readline):
        task = asyncio.create_task(answer(json.loads(line), consumers))
        running.add(task)
        task.add_done_callback(running.discard)


if __name__ == "__main__":
    asyncio.run(main())
