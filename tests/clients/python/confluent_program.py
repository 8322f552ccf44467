"""Consumers of confluent-kafka (librdkafka), steered over lines of JSON."""

from __future__ import annotations

import json
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from lines import PollingConsumer, serve


class ConfluentConsumer(PollingConsumer):
    def open(self) -> None:
        settings = self.settings
        configuration = {
            "bootstrap.servers": settings["bootstrap"],
            "client.id": settings["consumer"],
            "group.id": settings["group"],
            "auto.offset.reset": settings["reset"],
            "max.poll.interval.ms": settings["rebalance_timeout_ms"],
            "topic.metadata.refresh.interval.ms": settings["metadata_max_age_ms"],
            "enable.auto.commit": False,
            "allow.auto.create.topics": False,
            "reconnect.backoff.max.ms": 500,
            "statistics.interval.ms": 100,
            "stats_cb": self._statistics,
            "error_cb": lambda error: None,
        }
        if settings["protocol"] == "consumer":
            configuration["group.protocol"] = "consumer"
            if settings["server_assignor"] is not None:
                configuration["group.remote.assignor"] = settings["server_assignor"]
        else:
            configuration |= {
                "partition.assignment.strategy": settings["assignor"],
                "session.timeout.ms": settings["session_timeout_ms"],
                "heartbeat.interval.ms": settings["heartbeat_interval_ms"],
            }
        if settings["instance"] is not None:
            configuration["group.instance.id"] = settings["instance"]
        self.fetching: dict[tuple[str, int], int] = {}
        self.consumed: dict[tuple[str, int], int] = {}
        self.consumer = Consumer(configuration)
        topics = [settings["pattern"]] if settings["pattern"] else settings["topics"]
        self.consumer.subscribe(topics, on_assign=self._assigned, on_revoke=self._revoked,
                                on_lost=self._lost)  # fmt: skip

    def poll(self, timeout_s: float) -> None:
        message = self.consumer.poll(timeout_s)
        if message is None:
            return
        error = message.error()
        if error is None:
            self.consumed.setdefault((message.topic(), message.partition()), message.offset())
            self.read.add(message.topic(), message.partition(), message.offset())
        elif error.code() == KafkaError._FATAL:
            raise KafkaException(error)

    def do_commit(self, request: dict[str, Any]) -> None:
        offsets = [TopicPartition(*row) for row in request["offsets"]]
        for row in self.consumer.commit(offsets=offsets, asynchronous=False):
            if row.error is not None:
                raise KafkaException(row.error)

    def do_committed(self, request: dict[str, Any]) -> list[list[Any]]:
        rows = self.consumer.committed([TopicPartition(*row) for row in request["partitions"]], 30)
        return [[r.topic, r.partition, r.offset if r.offset >= 0 else None] for r in rows]

    def do_started(self, request: dict[str, Any]) -> list[list[Any]]:
        """The offset of the first record that came or, without any, the next one to fetch."""
        starts = {**self.fetching, **self.consumed}
        return [[*row, starts.get(tuple(row))] for row in request["partitions"]]

    def do_close(self, request: dict[str, Any]) -> None:
        self.consumer.close()

    def _statistics(self, text: str) -> None:
        for topic, entry in json.loads(text)["topics"].items():
            for partition in entry["partitions"].values():
                fetching = partition["fetch_state"] == "active" and partition["rxmsgs"] == 0
                if fetching and partition["next_offset"] >= 0:
                    self.fetching[topic, partition["partition"]] = partition["next_offset"]

    def _assigned(self, _consumer: Consumer, rows: list[TopicPartition]) -> None:
        self.owned.add([(row.topic, row.partition) for row in rows])

    def _revoked(self, _consumer: Consumer, rows: list[TopicPartition]) -> None:
        self.owned.remove("revoked", [(row.topic, row.partition) for row in rows])

    def _lost(self, _consumer: Consumer, rows: list[TopicPartition]) -> None:
        self.owned.remove("lost", [(row.topic, row.partition) for row in rows])


if __name__ == "__main__":
    serve(ConfluentConsumer)
