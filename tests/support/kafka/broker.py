"""A single-node KRaft broker on 127.0.0.1. Must never outlive the test session that started it."""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from support import orphans
from support.kafka.tools import java
from support.ports import free_port
from support.server import SETTINGS, ServerError

_LOGGING = Path(__file__).with_name("log4j2-broker.properties")
_READY_TIMEOUT_S = 90.0
_READY = "Kafka Server started"
_FIXED = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "auto.create.topics.enable": "false",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "num.network.threads": "2",
    "num.io.threads": "2",
    "log.cleaner.dedupe.buffer.size": "4194304",
}


def new_cluster_id() -> str:
    """An id as Kafka makes them, without a dash at its start."""
    return base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=").replace("-", "A")


class KafkaBroker:
    """One data directory and the broker on it; the same surface as `PykcoordServer`."""

    name = "kafka"

    def __init__(
        self,
        directory: Path,
        *,
        topics: Mapping[str, int] | None = None,
        settings: Mapping[str, str] | None = None,
        heap: str = "512m",
        cluster_id: str | None = None,
    ) -> None:
        self.directory = directory
        self.cluster_id = cluster_id
        self.topics = dict(topics or {})
        self.settings = {**SETTINGS, **(settings or {})}
        self.heap = heap
        self.port = free_port(adjacent=1)
        self.address = f"127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None, "the broker was not started"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None

    def start(self) -> KafkaBroker:
        """Formats the directory on first use, starts the broker and waits until it serves."""
        assert self._process is None, "the broker already runs"
        self.directory.mkdir(parents=True, exist_ok=True)
        properties = self._write_properties()
        is_new = not (self.directory / "data" / "meta.properties").exists()
        if is_new:
            self._format(properties)
        log = self.directory / "broker.log"
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                java("kafka.Kafka", os.fspath(properties), heap=self.heap, logging=_LOGGING),
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip
        orphans.started(self._process)
        self._await_ready(log)
        if is_new:
            self._create_topics()
        return self

    def stop(self) -> int:
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def restart(self) -> KafkaBroker:
        self.kill()
        return self.start()

    def __enter__(self) -> KafkaBroker:
        return self if self._process is not None else self.start()

    def __exit__(self, *exception: object) -> None:
        if self._process is not None:
            self.stop()

    def _write_properties(self) -> Path:
        controller = self.port + 1
        properties = {
            **_FIXED,
            "listeners": f"PLAINTEXT://{self.address},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.address}",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "log.dirs": os.fspath(self.directory / "data"),
            **self.settings,
        }
        path = self.directory / "server.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in sorted(properties.items())))
        return path

    def _format(self, properties: Path) -> None:
        cluster = self.cluster_id or new_cluster_id()
        command = java("kafka.tools.StorageTool", "format", "--ignore-formatted",
                       "-t", cluster, "-c", os.fspath(properties))  # fmt: skip
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise ServerError(f"format failed:\n{result.stdout}{result.stderr}")

    def _create_topics(self) -> None:
        topics = [NewTopic(name, partitions, 1) for name, partitions in self.topics.items()]
        if topics:
            admin = AdminClient({"bootstrap.servers": self.address})
            for future in admin.create_topics(topics).values():
                future.result(60)

    def _await_ready(self, log: Path) -> None:
        """The broker's log is polled: it has no other sign of being ready."""
        assert self._process is not None
        deadline = time.monotonic() + _READY_TIMEOUT_S
        while _READY not in log.read_text(errors="replace"):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self._end(signal.SIGKILL)
                raise ServerError(f"the broker did not start:\n{log.read_text()[-4000:]}")
            time.sleep(0.1)

    def _end(self, number: signal.Signals) -> int:
        process, self._process = self._process, None
        assert process is not None, "the broker does not run"
        process.send_signal(number)
        status = process.wait(60)
        orphans.ended(process)
        return status
