"""The commands of Kafka's tools in docs/consumer-groups.md, and those that it points to, as a
reader pastes them while two members read."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer
from support.kafka import jars
from support.kafka.tools import tool
from support.pages import ROOT
from support.server import PykcoordServer

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]

PAGES = ("consumer-groups.md", "operating.md")
GROUP, TOPIC, PARTITIONS = "billing", "orders", 6
SETTINGS = {
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "250",
}
# What a command of the page must show.
SHOWN = {
    "consumer-groups": ("orders:0,1,2", "orders:3,4,5"),
    "groups": (GROUP, "Consumer"),
    "configs": ("consumer.session.timeout.ms=60000",),
}


def commands() -> list[str]:
    """Every line of the pages that begins with a tool, and every piece of code in their text."""
    page, operating = ((ROOT / "docs" / name).read_text() for name in PAGES)
    settings = operating.split("\n## Settings of single groups\n")[1].split("\n## ")[0]
    text = (page + settings).replace("\\\n", " ")
    lines = re.findall(r"^    (kafka-[a-z-]+\.sh .*)$", text, re.MULTILINE)
    return lines + re.findall(r"`(kafka-[a-z-]+\.sh [^`]+)`", text)


def test_the_pages_name_what_is_run_here() -> None:
    named = {command.split()[0] for command in commands()}
    assert named >= {"kafka-consumer-groups.sh", "kafka-groups.sh", "kafka-configs.sh"}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server with the group of the page, of two members of three partitions each."""
    if (reason := jars.missing_tool_chain()) is not None:
        pytest.skip(reason)
    directory = tmp_path_factory.mktemp("page") / "groups-data"
    with PykcoordServer(directory, topics={TOPIC: PARTITIONS}, settings=SETTINGS) as server:
        members = [_joined(server.address, name) for name in ("first", "second")]
        deadline = time.monotonic() + 60
        while sorted(len(member.assignment()) for member in members) != [3, 3]:
            assert time.monotonic() < deadline, "the members have not come to their partitions"
            for member in members:
                member.poll(0.1)
        yield server.address
        for member in members:
            member.close()


def _joined(address: str, name: str) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": GROUP,
            "group.protocol": "consumer",
            "client.id": name,
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([TOPIC])
    return consumer


def test_every_command_of_the_page(address: str, subtests_of_commands: list[str]) -> None:
    for command in subtests_of_commands:
        script, *arguments = shlex.split(re.sub(r"127\.0\.0\.1:9092|HOST:PORT", address, command))
        name = script.removeprefix("kafka-").removesuffix(".sh")
        if "--bootstrap-server" not in arguments:
            arguments += ["--bootstrap-server", address]
        if name == "configs" and not {"--alter", "--describe"} & set(arguments):
            arguments += ["--describe"]
        printed = tool(name, *arguments)
        if "--alter" not in arguments:
            assert all(shown in printed for shown in SHOWN[name]), f"{command}\n{printed}"


@pytest.fixture
def subtests_of_commands() -> list[str]:
    """What changes something first: the others show it."""
    return sorted(commands(), key=lambda command: "--alter" not in command)
