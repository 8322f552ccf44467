"""A real ZooKeeper, alone or an ensemble, and a broker of Kafka 0.8.2.2, on 127.0.0.1.

Each is a child of this process, and ended by `close`. Ready when `start` returns. Tests use them
as well.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import subprocess
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import TypeVar

from pykcoord.cli.lab.jars import LabError, library_directory
from pykcoord.clock import monotonic_seconds

_READY_SECONDS = 60.0
_END_SECONDS = 20.0
_TICK_SECONDS = 0.05
_pause = threading.Event()

Popen = subprocess.Popen[bytes]


def free_ports(count: int) -> list[int]:
    """Ports of the loopback interface that nobody has at present."""
    with contextlib.ExitStack() as held:
        probes = [held.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


class _Java:
    """A JVM in a session of its own, whose output goes to a file."""

    def __init__(
        self, what: str, libraries: Path, arguments: list[str], log: Path, heap: str
    ) -> None:
        self.what = what
        self.log = log
        command = ["java", "-cp", f"{libraries}/*", f"-Xmx{heap}", "-XX:+UseSerialGC"]
        command += ["-XX:TieredStopAtLevel=1", *arguments]
        with log.open("wb") as output:
            self.process: Popen = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def await_ready(self, is_ready: Callable[[], bool]) -> None:
        deadline = monotonic_seconds() + _READY_SECONDS
        while not is_ready():
            if self.process.poll() is not None or monotonic_seconds() > deadline:
                self.end(signal.SIGKILL)
                tail = " | ".join(self.log.read_text(errors="replace").splitlines()[-5:])
                raise LabError(f"{self.what} did not start: {tail[-600:]}")
            _pause.wait(_TICK_SECONDS)

    def tell(self, number: signal.Signals) -> None:
        if self.process.poll() is None:
            self.process.send_signal(number)

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        self.tell(signal.SIGCONT)
        self.tell(number)
        try:
            self.process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class ZooKeeper:
    """One server, or an ensemble of `count`. Use as a context manager.

    `behind`: the number (from 0) of a server that reaches the others through `quorum_proxies`,
    which are ports of this machine by number of server. Settings are those of zoo.cfg.
    """

    def __init__(
        self,
        directory: Path,
        *,
        count: int = 1,
        behind: int | None = None,
        quorum_proxies: Callable[[list[int]], list[int]] | None = None,
        settings: Mapping[str, str] | None = None,
        on_start: Callable[[Popen], None] = lambda process: None,
        on_end: Callable[[Popen], None] = lambda process: None,
    ) -> None:
        self.directory = directory
        self.ports = free_ports(count)
        self._quorum = free_ports(2 * count) if count > 1 else []
        self._behind = behind
        self._proxies = quorum_proxies(self._quorum[:count]) if quorum_proxies else []
        self._settings = dict(settings or {})
        self._on_start = on_start
        self._on_end = on_end
        self._servers: list[_Java] = []

    @property
    def connect(self) -> str:
        """The connect string of all servers."""
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)

    def start(self) -> ZooKeeper:
        """Start all servers, and wait until they serve. Raises LabError."""
        libraries = library_directory("zookeeper")
        try:
            for number in range(len(self.ports)):
                self._servers.append(self._start_one(number, libraries))
            for server, port in zip(self._servers, self.ports, strict=True):
                server.await_ready(lambda port=port: "Mode: " in ask(port, "srvr"))  # type: ignore[misc]
        except BaseException:
            self.close()
            raise
        return self

    def modes(self) -> list[str]:
        """`leader`, `follower` or `standalone`, of each server."""
        answers = [ask(port, "srvr") for port in self.ports]
        return [answer.partition("Mode: ")[2].partition("\n")[0] for answer in answers]

    def pause(self, number: int) -> None:
        """Freeze a server (SIGSTOP)."""
        self._servers[number].tell(signal.SIGSTOP)

    def resume(self, number: int) -> None:
        """Let it go on."""
        self._servers[number].tell(signal.SIGCONT)

    def stop(self) -> None:
        """End all servers; what they hold stays."""
        for server in self._servers:
            server.end()
            self._on_end(server.process)
        self._servers = []

    close = stop

    def __enter__(self) -> ZooKeeper:
        return self.start()

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _start_one(self, number: int, libraries: Path) -> _Java:
        directory = self.directory / str(number + 1)
        data = directory / "data"
        data.mkdir(parents=True, exist_ok=True)
        settings = {
            "dataDir": str(data),
            "clientPort": str(self.ports[number]),
            "clientPortAddress": "127.0.0.1",
            "tickTime": "500",
            "initLimit": "20",
            "syncLimit": "20",
            "maxClientCnxns": "0",
            "maxSessionTimeout": "120000",
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "*",
            "forceSync": "no",
        }
        count = len(self.ports)
        if count > 1:
            (data / "myid").write_text(str(number + 1))
            for other in range(count):
                quorum = self._quorum[other]
                if number == self._behind and other != number:
                    quorum = self._proxies[other]
                election = self._quorum[count + other]
                settings[f"server.{other + 1}"] = f"127.0.0.1:{quorum}:{election}"
        settings |= self._settings
        config = directory / "zoo.cfg"
        config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        options = [
            "-Dzookeeper.jmx.log4j.disable=true",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
        ]
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        what = f"ZooKeeper server {number + 1}"
        server = _Java(what, libraries, [*options, main, str(config)], directory / "log", "512m")
        self._on_start(server.process)
        return server


class Broker082:
    """A broker of Kafka 0.8.2.2 with its znodes at `connect`. Use as a context manager."""

    def __init__(
        self,
        directory: Path,
        connect: str,
        *,
        on_start: Callable[[Popen], None] = lambda process: None,
    ) -> None:
        self.directory = directory
        self.connect = connect
        (self.port,) = free_ports(1)
        self._on_start = on_start
        self._server: _Java | None = None

    def start(self) -> Broker082:
        """Start it, and wait until it serves. Raises LabError."""
        data = self.directory / "data"
        data.mkdir(parents=True, exist_ok=True)
        settings = {
            "broker.id": "1",
            "host.name": "127.0.0.1",
            "advertised.host.name": "127.0.0.1",
            "port": str(self.port),
            "zookeeper.connect": self.connect,
            "zookeeper.session.timeout.ms": "10000",
            "log.dirs": str(data),
            "auto.create.topics.enable": "false",
            "offsets.topic.num.partitions": "5",
            "offsets.topic.replication.factor": "1",
            "controlled.shutdown.enable": "false",
            "log.cleaner.enable": "false",
        }
        config = self.directory / "server.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        logging = self.directory / "log4j.properties"
        logging.write_text(LOGGING)
        log = self.directory / "log"
        arguments = [f"-Dlog4j.configuration=file:{logging.resolve()}", "kafka.Kafka", str(config)]
        libraries = library_directory("kafka082")
        self._server = _Java("the 0.8.2.2 broker", libraries, arguments, log, "256m")
        self._on_start(self._server.process)
        self._server.await_ready(
            lambda: ", started (kafka.server" in log.read_text(errors="replace")
        )
        return self

    def close(self) -> None:
        """End it."""
        if self._server is not None:
            self._server.end()
            self._server = None

    def __enter__(self) -> Broker082:
        return self.start()

    def __exit__(self, *raised: object) -> None:
        self.close()


Server = TypeVar("Server", ZooKeeper, Broker082)


@contextlib.asynccontextmanager
async def running(server: Server) -> AsyncIterator[Server]:
    """Start a server and end it, on threads. It ends as well where it is cancelled while it
    starts. Raises LabError."""
    # Not a task: a cancelled one passes for ended, while its thread goes on to start servers.
    starting = asyncio.get_running_loop().run_in_executor(None, server.start)
    try:
        await asyncio.shield(starting)
        yield server
    finally:
        await asyncio.wait([starting])
        await asyncio.to_thread(server.close)


LOGGING = """log4j.rootLogger=WARN, stderr
log4j.logger.kafka.server.KafkaServer=INFO
log4j.logger.kafka.consumer=INFO
log4j.appender.stderr=org.apache.log4j.ConsoleAppender
log4j.appender.stderr.Target=System.err
log4j.appender.stderr.layout=org.apache.log4j.PatternLayout
log4j.appender.stderr.layout.ConversionPattern=%d %p %m (%c)%n
"""


def ask(port: int, word: str) -> str:
    """The answer to a four-letter word of ZooKeeper's; "" where none comes."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            connection.sendall(word.encode())
            answer = b""
            while chunk := connection.recv(65536):
                answer += chunk
            return answer.decode(errors="replace")
    except OSError:
        return ""
