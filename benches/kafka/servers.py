"""The servers that are compared, as processes. All are started, stopped and weighed in the same
way.

All run with their defaults, except for the settings named here; Kafka's JVM has the options of
Kafka's own scripts. No server may outlive the run that started it, or listen beyond 127.0.0.1.
"""

from __future__ import annotations

import base64
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Self

# The jars are those of the tests, fetched once.
sys.path.append(str(Path(__file__).parents[2] / "tests"))

from support.kafka.jars import VERSION, library_directory
from support.ports import free_port

TOPIC = "topic"
PARTITIONS = 100
_HERE = Path(__file__).parent
# KAFKA_JVM_PERFORMANCE_OPTS of kafka-run-class.sh, without -XX:+ExplicitGCInvokesConcurrent: it
# concerns only collections on request, and live_bytes() needs a full one.
_JVM_OPTIONS = (
    "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:MaxInlineLevel=15", "-Djava.awt.headless=true",
)  # fmt: skip
# Of all servers: nothing waits for a time that is no work.
_SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
}
_READY_TIMEOUT_S = 90.0
_STOP_TIMEOUT_S = 60.0


class ServerError(RuntimeError):
    """A server ended, or did not become ready in time; the message carries its output."""


class Loaded(NamedTuple):
    """A server's report of its start; records are None where it does not count them."""

    records: int | None
    seconds: float


class Server:
    """One data directory, and the process that serves it. Use as a context manager."""

    name: str

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.output = directory.parent / f"{directory.name}.out"
        self.port = free_port(adjacent=1)  # Kafka's controller has the one above
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server was not started"
        return self._process.pid

    def __enter__(self) -> Self:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start, and wait until it serves. Raises ServerError."""
        self.launch()
        assert self._process is not None
        deadline = time.monotonic() + _READY_TIMEOUT_S
        while not self.is_ready(self.output.read_text(errors="replace")):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self._process.kill()
                raise ServerError(f"{self.name} did not start:\n{self.output.read_text()[-4000:]}")
            time.sleep(0.05)

    def launch(self) -> None:
        """Start without waiting."""
        with self.output.open("wb") as output:
            self._process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def stop(self) -> None:
        """End it cleanly, as an operator would."""
        process, self._process = self._process, None
        if process is None or process.poll() is not None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise ServerError(f"{self.name} did not stop in {_STOP_TIMEOUT_S} s") from None

    def command(self) -> list[str]:
        raise AssertionError("each server has its own")

    def is_ready(self, output: str) -> bool:
        raise AssertionError("each server has its own")

    def loaded(self) -> Loaded:
        """The report of the last start."""
        raise AssertionError("each server has its own")


class Pykcoord(Server):
    """`pykcoord serve` with one flush policy."""

    def __init__(
        self,
        directory: Path,
        flush: str,
        *,
        one_core: bool = False,
        topics: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__(directory)
        self._topics = topics or {TOPIC: PARTITIONS}
        self.name = f"pykcoord --flush {flush}"
        self._flush = flush
        self._pin = ["taskset", "-c", "0"] if one_core else []

    def command(self) -> list[str]:
        return [
            *self._pin,
            *(sys.executable, "-m", "pykcoord", "serve", os.fspath(self.directory)),
            *("--listen", self.address, "--flush", self._flush),
            *(f"--topic={name}:{partitions}" for name, partitions in self._topics.items()),
            *(f"--set={name}={value}" for name, value in _SETTINGS.items()),
        ]

    def is_ready(self, output: str) -> bool:
        return "pykcoord ready " in output

    def loaded(self) -> Loaded:
        match = re.search(r"pykcoord ready .*load_ms=(\d+)", self.output.read_text())
        assert match is not None, self.output.read_text()
        return Loaded(None, int(match[1]) / 1000)


class Kafka(Server):
    """A single-node KRaft broker. `threads` is group.coordinator.threads."""

    name = f"Kafka {VERSION}"

    def __init__(self, directory: Path, threads: int = 4) -> None:
        super().__init__(directory)
        self.threads = threads

    def command(self) -> list[str]:
        properties = self._write_properties()
        if not (self.directory / "data" / "meta.properties").exists():
            self._format(properties)
        memory = ["-Xms1G", "-Xmx1G"]  # kafka-server-start.sh
        return [*_java([*memory, *_JVM_OPTIONS]), "kafka.Kafka", os.fspath(properties)]

    def is_ready(self, output: str) -> bool:
        return "Kafka Server started" in output

    def live_bytes(self) -> int:
        """The heap in use after a full collection; its growth is the cost of the state."""
        subprocess.run(["jcmd", str(self.pid), "GC.run"], check=True, capture_output=True)
        command = ["jcmd", str(self.pid), "GC.heap_info"]
        info = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        match = re.search(r"used (\d+)K", info)
        assert match is not None, info
        return 1024 * int(match[1])

    def loaded(self) -> Loaded:
        """Summed over the partitions of __consumer_offsets, without the wait for a thread."""
        pattern = re.compile(
            r"Finished loading of metadata from __consumer_offsets-\d+ .*?in (\d+)ms where "
            r"(\d+)ms .*?Loaded (\d+) records"
        )
        deadline = time.monotonic() + _READY_TIMEOUT_S
        while len(lines := pattern.findall(self.output.read_text(errors="replace"))) < 50:
            if time.monotonic() > deadline:
                raise ServerError(f"{len(lines)} of 50 partitions loaded")
            time.sleep(0.1)
        took_ms = sum(int(took) - int(waited) for took, waited, _ in lines)
        return Loaded(sum(int(records) for _, _, records in lines), took_ms / 1000)

    def _write_properties(self) -> Path:
        controller = f"127.0.0.1:{self.port + 1}"
        replicated = ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
        properties = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": f"PLAINTEXT://{self.address},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.address}",
            "controller.quorum.voters": f"1@{controller}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": os.fspath(self.directory / "data"),
            "num.partitions": str(PARTITIONS),
            **_SETTINGS,
            # 2,000 clients connect at once: the default of 50 has most of them wait for seconds.
            "socket.listen.backlog.size": "4096",
            "group.coordinator.threads": str(self.threads),
            **{f"{name}.replication.factor": "1" for name in replicated},
            **{f"{name}.min.isr": "1" for name in replicated[1:]},
        }
        path = self.directory / "server.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        return path

    def _format(self, properties: Path) -> None:
        cluster = "k" + base64.urlsafe_b64encode(os.urandom(16)).decode()[1:22]
        tool = ["kafka.tools.StorageTool", "format", "--ignore-formatted", "-t", cluster]
        command = [
            *_java(["-Xmx256m", "-XX:TieredStopAtLevel=1"]),
            *tool,
            "-c",
            os.fspath(properties),
        ]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise ServerError(f"format failed:\n{result.stdout}{result.stderr}")


class Kfake(Server):
    """franz-go's kfake, a Kafka in memory, in Go: it keeps no log."""

    name = "kfake"

    def __init__(self, directory: Path, program: Path) -> None:
        super().__init__(directory)
        self._program = program

    def command(self) -> list[str]:
        return [os.fspath(self._program), str(self.port), TOPIC, str(PARTITIONS)]

    def is_ready(self, output: str) -> bool:
        return "ready" in output


def _java(options: list[str]) -> list[str]:
    logging = (_HERE / "log4j2.properties").as_uri()
    classes = os.fspath(library_directory() / "*")
    return ["java", "-cp", classes, *options, f"-Dlog4j2.configurationFile={logging}"]


def build_load_generator(build: Path, name: str = "load") -> Path:
    """Compile a load generator, `load` or `consumer_load`, where its sources are newer than the
    program in `build`."""
    parts = ["client", "measure", *(["consumer_client"] if name == "consumer_load" else [])]
    sources = [_HERE / f"{part}.c" for part in (name, *parts)]
    program = build / name
    newest = max(path.stat().st_mtime for path in [*sources, *_HERE.glob("*.h")])
    if not program.exists() or program.stat().st_mtime < newest:
        build.mkdir(parents=True, exist_ok=True)
        compiler = shutil.which(os.environ.get("CC", "cc"))
        if compiler is None:
            raise ServerError("a C compiler is needed: apt install gcc")
        subprocess.run([compiler, "-O2", "-Wall", "-o", program, *sources], check=True)
    return program


def build_kfake(build: Path) -> Path | None:
    """Compile kfake/, as go does where anything changed; None where there is no Go."""
    if shutil.which("go") is None:
        return None
    program = build / "kfake"
    command = ["go", "build", "-o", os.fspath(program), "."]
    result = subprocess.run(
        command, cwd=_HERE / "kfake", capture_output=True, text=True, check=False
    )
    if result.returncode != 0:
        raise ServerError(f"{' '.join(command)} in benches/kafka/kfake:\n{result.stderr}")
    return program
