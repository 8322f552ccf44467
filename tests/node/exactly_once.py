"""Loops that move records exactly once, killed and started again; and whether they did."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from clients import build
from confluent_kafka import Consumer, Producer, TopicPartition
from support import orphans
from support.kafka.tools import java

PARTITIONS = 3
_WAIT_S = 240.0


class Loop:
    """Runs a program that moves records of `source` to `target`, and starts it again whenever it
    ends, until `stop`. `starts` counts."""

    def __init__(self, command: list[str], source: str, target: str) -> None:
        self.source, self.target = source, target
        self.starts = 0
        self._command = command
        self._ends = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def kill(self) -> None:
        """SIGKILL, in the middle of whatever it does."""
        process = self._process
        assert process is not None
        process.kill()

    def stop(self) -> None:
        self._ends.set()
        if self._process is not None:
            self._process.kill()
        self._thread.join(60)

    def said(self) -> str:
        """The end of what it said of errors."""
        self._errors.seek(0)
        return self._errors.read()[-3000:].decode(errors="replace")

    def _run(self) -> None:
        while not self._ends.is_set():
            self.starts += 1
            with subprocess.Popen(
                self._command, stdout=subprocess.DEVNULL, stderr=self._errors
            ) as process:
                orphans.started(process)
                self._process = process
                if self._ends.is_set():
                    process.kill()
                process.wait()
                orphans.ended(process)


def librdkafka(bootstrap: str, name: str) -> Loop:
    program = os.fspath(Path(__file__).with_name("mover.py"))
    source, target = f"{name}-in", f"{name}-out"
    words = [sys.executable, program, bootstrap, f"{name}-group", f"{name}-id", source, target]
    return Loop(words, source, target)


def franz_go(bootstrap: str, name: str) -> Loop:
    client, _ = build.command("franz-go")
    source, target = f"{name}-in", f"{name}-out"
    words = [client, "move", bootstrap, f"{name}-group", f"{name}-id", source, target]
    return Loop(words, source, target)


def java_client(bootstrap: str, name: str) -> Loop:
    """Kafka's own TransactionalMessageCopier, which ends at the end of its input each time."""
    source, target = f"{name}-in", f"{name}-out"
    words = java(
        "org.apache.kafka.tools.TransactionalMessageCopier", "--broker-list", bootstrap,
        "--input-topic", source, "--output-topic", target, "--input-partition", "0",
        "--consumer-group", f"{name}-group", "--transactional-id", f"{name}-id",
        "--transaction-size", "20", "--transaction-timeout", "20000",
        "--group-mode", "--use-group-metadata",
    )  # fmt: skip
    return Loop(words, source, target)


class Moving:
    """Writes numbers to the input of a loop, and reads what committed transactions brought to its
    output."""

    def __init__(self, bootstrap: str, loop: Loop) -> None:
        self.loop = loop
        self.written = 0
        self.found: Counter[int] = Counter()
        self._ends = threading.Event()
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0}
        )
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap, "group.id": f"{loop.target}-reader",
                "isolation.level": "read_committed", "enable.auto.commit": False, "log_level": 0,
                "auto.offset.reset": "earliest",
            }
        )  # fmt: skip
        self._consumer.assign([TopicPartition(loop.target, one, 0) for one in range(PARTITIONS)])
        self._writing = threading.Thread(target=self._write, daemon=True)
        self._writing.start()

    def _write(self) -> None:
        while not self._ends.wait(0.02):
            self._producer.produce(
                self.loop.source, b"%d" % self.written, partition=self.written % PARTITIONS
            )
            self.written += 1
            self._producer.poll(0)

    def go_on(self, more: int = 60) -> None:
        """Returns once so many more records came out."""
        self._until(self.found.total() + more)

    def finish(self) -> None:
        """Writes no more, and returns once as many came out as went in."""
        self._ends.set()
        self._writing.join(60)
        assert self._producer.flush(60) == 0
        self._until(self.written)

    def _until(self, wanted: int) -> None:
        deadline = time.monotonic() + _WAIT_S
        while self.found.total() < wanted:
            assert time.monotonic() < deadline, (
                self.loop.target, self.found.total(), wanted, self.loop.starts, self.loop.said(),
            )  # fmt: skip
            self.poll(0.2)

    def poll(self, seconds: float) -> None:
        for record in self._consumer.consume(500, seconds):
            if record.error() is None:
                self.found[int(record.value())] += 1

    def close(self) -> None:
        self._ends.set()
        self._writing.join(60)
        self._consumer.close()
