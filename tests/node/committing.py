"""Clients of three kinds that commit all the time, and say what they saw."""

from __future__ import annotations

import json
import subprocess
import threading
import time

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from support import orphans
from support.kafka.tools import java

_WAIT_S = 120.0


class Committing:
    """A member of librdkafka in a group of its own, which commits rising numbers for partition 0 of
    `topic`. `acknowledged` is the last that a coordinator took; `failures` are commits that
    failed, `assignments` counts what it was given."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self.group = group
        self.acknowledged = 0
        self.slowest = 0.0
        self.failures: list[str] = []
        self.assignments = 0
        self._topic = topic
        self._ends = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False,
                "session.timeout.ms": 45_000, "auto.offset.reset": "earliest", "log_level": 0,
            }
        )  # fmt: skip
        self._consumer.subscribe([topic], on_assign=self._assigned)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.assignments += 1

    def _run(self) -> None:
        while not self._ends.is_set():
            self._consumer.poll(0.02)
            if not self.assignments:
                continue
            wanted = TopicPartition(self._topic, 0, self.acknowledged + 1)
            began = time.monotonic()
            try:
                self._consumer.commit(offsets=[wanted], asynchronous=False)
                self.acknowledged += 1
            except KafkaException as error:
                self.failures.append(str(error))
            self.slowest = max(self.slowest, time.monotonic() - began)

    def go_on(self, more: int = 20) -> None:
        """Returns once so many more commits were acknowledged."""
        wanted, deadline = self.acknowledged + more, time.monotonic() + _WAIT_S
        while self.acknowledged < wanted:
            assert time.monotonic() < deadline, (self.group, self.acknowledged, self.failures)
            time.sleep(0.05)

    def stop(self) -> int | None:
        """Commits no more; returns what the coordinator says is committed."""
        self._ends.set()
        self._thread.join(_WAIT_S)
        (found,) = self._consumer.committed([TopicPartition(self._topic, 0)], timeout=60)
        self._consumer.close()
        offset: int | None = found.offset
        return offset


class JavaConsumer:
    """Kafka's own VerifiableConsumer, which reads `topic` and commits what it read. Records come
    from `produce`."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self.commits = self.failed = self.assignments = 0
        self._producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
        self._topic = topic
        command = java(
            "org.apache.kafka.tools.VerifiableConsumer", "--bootstrap-server", bootstrap,
            "--topic", topic, "--group-id", group, "--session-timeout", "45000",
        )  # fmt: skip
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        orphans.started(self._process)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event = json.loads(line)
            if event["name"] == "offsets_committed":
                self.commits += event["success"]
                self.failed += not event["success"]
            self.assignments += event["name"] == "partitions_assigned"

    def go_on(self, more: int = 3) -> None:
        """Produces until so many more commits went well."""
        wanted, deadline = self.commits + more, time.monotonic() + _WAIT_S
        while self.commits < wanted:
            assert time.monotonic() < deadline, (self.commits, self.failed)
            self._producer.produce(self._topic, b"record")
            self._producer.flush(30)
            time.sleep(0.2)

    def stop(self) -> None:
        """Ends it."""
        self._process.kill()
        self._process.wait(60)
        orphans.ended(self._process)
