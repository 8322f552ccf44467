"""The real consumer of Kafka 0.8.2.2 in a JVM of its own, told what to do by lines.

It coordinates and reads nothing, so that no broker is needed.
"""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

from support import orphans

from pykcoord.cli.lab.jars import library_directory
from pykcoord.cli.lab.servers import LOGGING

PROGRAM = Path(__file__).parent / "java" / "OldConsumer.java"


class OldConsumers:
    """One JVM with any number of members. Use as a context manager."""

    def __init__(self, connect: str, directory: Path) -> None:
        logging = directory / "log4j.properties"
        logging.write_text(LOGGING)
        command = [
            "java", "-cp", f"{library_directory('kafka082')}/*", "-Xmx256m", "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1", f"-Dlog4j.configuration=file:{logging}", str(PROGRAM),
            connect,
        ]  # fmt: skip
        with (directory / "old-consumer.log").open("wb") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
                start_new_session=True,
            )  # fmt: skip
        orphans.started(self._process)

    def ask(self, *words: object) -> str:
        """One command; returns its answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(" ".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()

    def owned(self, consumer_id: str) -> set[str]:
        """What a member believes that it owns."""
        return set(self.ask("owned", consumer_id).split()[2:])

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()
        orphans.ended(self._process)

    def __enter__(self) -> OldConsumers:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()
