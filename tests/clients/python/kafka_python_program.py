"""Consumers of kafka-python, steered over lines of JSON.

Must never poll with a short timeout: when one runs out between the leader's JoinGroup and its
SyncGroup, kafka-python 3.0.12 forgets the assignment of a rebalance that metadata had caused
(`need_rejoin` is false again, so the finished join is not looked at). Hence a poll lasts, and
requests are performed beside it: the library's I/O thread serialises them.

While the coordinator is away a poll may raise what it calls retriable: it is polled again.
"""

from __future__ import annotations

import time
from typing import Any

from assignors import find
from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata
from lines import PollingConsumer, reply, say, serve

POLL_MS = 600_000
RETRY_S = 0.1

DROP_INS = "pykcoord.clients.kafka_python"
ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}


class KafkaPythonConsumer(PollingConsumer, ConsumerRebalanceListener):
    def open(self) -> None:
        settings = self.settings
        self.starts: dict[tuple[str, int], int] = {}
        self.is_closing = False
        self.consumer = KafkaConsumer(
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
            reconnect_backoff_max_ms=500,
            enable_auto_commit=False,
        )
        if settings["pattern"]:
            self.consumer.subscribe(pattern=settings["pattern"], listener=self)
        else:
            self.consumer.subscribe(topics=settings["topics"], listener=self)

    def submit(self, request: dict[str, Any]) -> None:
        self.is_closing |= request["op"] == "close"
        reply(request, lambda: self.perform(request))

    def run(self) -> None:
        while not self.is_closing:
            try:
                for row, records in self.consumer.poll(timeout_ms=POLL_MS).items():
                    self.starts.setdefault((row.topic, row.partition), records[0].offset)
                    for record in records:
                        self.read.add(row.topic, row.partition, record.offset)
            except Exception as error:
                if isinstance(error, KafkaError) and error.retriable:
                    time.sleep(RETRY_S)
                    continue
                if not self.is_closing:
                    say(event="failed", consumer=self.owned.name, error=repr(error))
                return

    def do_commit(self, request: dict[str, Any]) -> None:
        self.consumer.commit(
            {TopicPartition(t, p): OffsetAndMetadata(o, "", -1) for t, p, o in request["offsets"]}
        )

    def do_committed(self, request: dict[str, Any]) -> list[list[Any]]:
        return [[*row, self.consumer.committed(TopicPartition(*row))]
                for row in request["partitions"]]  # fmt: skip

    def do_started(self, request: dict[str, Any]) -> list[list[Any]]:
        """The offset of the first record that came or, without any, the position."""
        return [[*row, self._start(tuple(row))] for row in request["partitions"]]

    def do_close(self, request: dict[str, Any]) -> None:
        self.consumer.close(autocommit=False)

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        self.owned.add([(row.topic, row.partition) for row in assigned])

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        self.owned.remove("revoked", [(row.topic, row.partition) for row in revoked])

    def on_partitions_lost(self, lost: set[TopicPartition]) -> None:
        self.owned.remove("lost", [(row.topic, row.partition) for row in lost])

    def _start(self, partition: tuple[str, int]) -> int | None:
        if partition not in self.starts:
            position = self.consumer.position(TopicPartition(*partition), timeout_ms=200)
            if position is not None:
                self.starts.setdefault(partition, position)
        return self.starts.get(partition)


if __name__ == "__main__":
    serve(KafkaPythonConsumer)
