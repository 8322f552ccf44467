"""docs/migration.md, command by command, with a real broker: what a reader pastes works, and every
group and offset is on the other side."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from support.asked import Asked
from support.kafka import jars
from support.kafka.broker import KafkaBroker
from support.kafka.tools import tool
from support.server import PykcoordServer
from support.traffic import asked_of, drive

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]

_PAGE = Path(__file__).parents[2] / "docs" / "migration.md"
_PARTITIONS = "50"
_SETTINGS = {"offsets.topic.num.partitions": _PARTITIONS}
_ADDRESS, _BROKER_DIRECTORY = "127.0.0.1:9092", "/var/lib/kafka/data"


def commands(heading: str) -> list[str]:
    """The indented lines of a section."""
    section = _PAGE.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    found = [line.strip() for line in section.splitlines() if line.startswith("       ")]
    assert found, heading
    return found


class _Operator:
    """A reader who pastes the commands of the page, on a machine with one broker."""

    def __init__(self, directory: Path, broker: KafkaBroker, stack: ExitStack) -> None:
        self.directory = directory
        self.broker = broker
        self.address = broker.address
        self.printed: list[str] = []
        self._stack = stack

    def paste(self, line: str) -> None:
        line = line.replace(_BROKER_DIRECTORY, str(self.broker.directory / "data"))
        line = line.replace(_ADDRESS, self.address)
        line, _, piped = line.partition(" | ")
        match shlex.split(line):
            case ["bin/kafka-server-stop.sh"]:
                self.broker.stop()
            case ["bin/kafka-server-start.sh", *_]:
                self.broker.start()
                wait_loaded(self.broker.address)
            case [script, *arguments] if script.startswith("bin/kafka-"):
                name = script.removeprefix("bin/kafka-").removesuffix(".sh")
                self.printed.append(tool(name, *arguments))
                if piped:
                    self._shell(piped, self.printed.pop())
            case ["pykcoord", "serve", directory, *options]:
                server = PykcoordServer(
                    self.directory / directory, settings=_SETTINGS, arguments=self._ends(options)
                )
                self._stack.enter_context(server)
                self.address = server.address
            case _:
                self._shell(line)

    def _ends(self, options: list[str]) -> list[str]:
        """Of the options of `serve` those that the test does not choose itself."""
        if "--end-offsets" not in options:
            return []
        file = options[options.index("--end-offsets") + 1]
        return ["--end-offsets", str(self.directory / file)]

    def _shell(self, line: str, given: str = "") -> None:
        python = shlex.quote(sys.executable)
        line = line.replace("pykcoord log", f"{python} -m pykcoord log")
        result = subprocess.run(
            line, shell=True, cwd=self.directory, capture_output=True, text=True, check=False,
            input=given,
        )  # fmt: skip
        assert result.returncode == 0, f"{line}\n{result.stdout}{result.stderr}"
        self.printed.append(result.stdout)


def wait_loaded(address: str) -> None:
    """A broker serves while it loads its groups, and answers 14 (COORDINATOR_LOAD_IN_PROGRESS)."""
    with Asked(address) as asked:
        asked.wait_loaded()


@pytest.fixture
def operator(tmp_path: Path) -> Iterator[_Operator]:
    if (reason := jars.missing_tool_chain()) is not None:
        pytest.skip(reason)
    with ExitStack() as stack:
        broker = KafkaBroker(tmp_path / "broker", topics={"orders": 4}, settings=_SETTINGS)
        yield _Operator(tmp_path, stack.enter_context(broker), stack)


def test_from_kafka_to_pykcoord(operator: _Operator) -> None:
    with Asked(operator.address) as asked:
        asked.ensure_coordinator("any")
        drive(asked)
        before = asked_of(asked)
    for line in commands("From Kafka to pykcoord"):
        operator.paste(line)
    with Asked(operator.address) as asked:
        assert asked_of(asked) == before
        errors = asked.commit("afterwards", [("orders", 3, 1)])
        assert {error.name for error in errors} == {"none"}
    _check_printed(operator, before)


def test_from_pykcoord_to_kafka(operator: _Operator) -> None:
    """The broker's topic has another number of partitions than pykcoord's log."""
    data = operator.directory / "pykcoord-data"
    with (
        PykcoordServer(data, topics={"orders": 4}) as server,
        Asked(server.address) as asked,
    ):
        drive(asked)
        before = asked_of(asked)
    for line in commands("From pykcoord to Kafka"):
        operator.paste(line)
    with Asked(operator.address) as asked:
        assert asked_of(asked) == before
        errors = asked.commit("afterwards", [("orders", 3, 1)])
        assert {error.name for error in errors} == {"none"}
    _check_printed(operator, before)
    # And it is there to stay: the broker's own start after a crash.
    operator.broker.restart()
    with Asked(operator.address) as asked:
        asked.wait_loaded()
        listed, described, offsets = asked_of(asked)
        assert offsets.pop("afterwards") is not None
        assert listed.pop("afterwards") is not None
        assert described.pop("afterwards") is not None
        assert (listed, described, offsets) == before


def _check_printed(operator: _Operator, before: tuple[Any, ...]) -> None:
    """The tool shows groups of consumers, and simple groups; not Connect's."""
    listing, describing = operator.printed[-2:]
    shown = {group for group, (_, _, protocol) in before[0].items() if protocol != "connect"}
    assert set(listing.split()) == shown
    assert all(group in describing for group in shown & before[2].keys())


def test_the_page_names_every_option_there_is() -> None:
    page = _PAGE.read_text()
    for option in ("--broker-log-dir", "--topic-id", "--partitions", "--source-partitions",
                   "--open-transactions", "--on-corruption"):  # fmt: skip
        assert option in page
