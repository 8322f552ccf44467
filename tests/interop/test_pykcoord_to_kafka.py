"""Logs that pykcoord wrote, also compacted ones: Kafka's dump tool reads every segment without an
error, and a broker with these partitions in the place of its own serves the same groups and
offsets."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.asked import Asked
from support.consumer_groups import (
    SAYS_NOTHING,
    asked_epoch,
    beat,
    described_consumer_groups,
    drive_consumer_groups,
    name_topics,
    short_id,
)
from support.kafka import jars
from support.kafka.broker import KafkaBroker
from support.kafka.tools import tool
from support.server import PykcoordServer
from support.traffic import Answers, asked_of, drive

from pykcoord.log import verify

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]

_PARTITIONS = 3
_SETTINGS = {"offsets.topic.num.partitions": str(_PARTITIONS)}
_SMALL = {**_SETTINGS, "offsets.topic.segment.bytes": "1000"}
_AT_ONCE = {**_SMALL, "group.consumer.assignment.interval.ms": "0"}
_BATCH = re.compile(r"^baseOffset: \d+ .* count: (\d+) .* isvalid: (\w+)$", re.MULTILINE)


@pytest.fixture(autouse=True)
def _with_java() -> None:
    if (reason := jars.missing_tool_chain()) is not None:
        pytest.skip(reason)


@pytest.fixture(params=["as it was written", "compacted"])
def compacted(request: pytest.FixtureRequest) -> bool:
    return request.param == "compacted"


def _write(directory: Path, compacted: bool) -> Answers:
    """Groups of every kind in segments of 1 kB, killed, with a torn tail, and written on."""
    server = PykcoordServer(directory, topics={"orders": 4}, settings=_SMALL)
    with server, Asked(server.address) as asked:
        drive(asked, rounds=60)
    for folder in directory.glob("__consumer_offsets-*"):
        newest = max(folder.glob("*.log"))
        newest.write_bytes(newest.read_bytes() + newest.read_bytes()[:40])
    server.start().restart()
    with server, Asked(server.address) as asked:
        assert "40 bytes cut" in server.stderr()
        for number in range(12):
            asked.commit(f"later-{number}", [("orders", 0, number)], leader_epoch=1)
        answers = asked_of(asked)
    if compacted:
        _compact(directory)
    return answers


def _compact(directory: Path) -> None:
    before = verify(directory)
    command = [sys.executable, "-m", "pykcoord", "log", "compact", str(directory)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    assert verify(directory).records < before.records, "nothing was overwritten"


def test_kafkas_tool_reads_every_segment(tmp_path: Path, compacted: bool) -> None:
    _write(tmp_path / "data", compacted)
    files = sorted(tmp_path.glob("data/__consumer_offsets-*/*.log"))
    assert len(files) >= 2 * _PARTITIONS
    printed = tool(
        "dump-log", "--offsets-decoder", "--print-data-log", "--deep-iteration", "--files",
        ",".join(map(str, files)),
    )  # fmt: skip
    batches = _BATCH.findall(printed)
    assert {valid for _, valid in batches} == {"true"}
    report = verify(tmp_path / "data")
    assert len(batches) == report.batches
    assert sum(int(count) for count, _ in batches) == report.records
    complaints = [word for word in ("Mismatch", "Found", "Exception") if word in printed]
    assert complaints == []


def test_a_broker_serves_consumer_groups(tmp_path: Path, compacted: bool) -> None:
    """The same members, epochs, assignments, targets and expressions; Kafka's tool shows them. And
    a member goes on where it was."""
    with KafkaBroker(tmp_path / "broker", topics={"orders": 4}, settings=_SETTINGS) as broker:
        with Asked(broker.address) as asked:
            asked.ensure_coordinator("any")
            orders = asked.topic_id("orders")
        broker.stop()
        data = tmp_path / "data"
        data.mkdir()
        name_topics(data, {"topics": {"orders": {"id": short_id(orders), "partitions": 4}}})
        with PykcoordServer(data, settings=_AT_ONCE) as server, Asked(server.address) as asked:
            groups = drive_consumer_groups(asked, "orders")
            before = described_consumer_groups(asked, groups)
        if compacted:
            _compact(data)
        _put_in_place(data, broker)
        broker.start()
        with Asked(broker.address) as asked:
            asked.wait_loaded()
            assert described_consumer_groups(asked, groups) == before
            epoch = asked_epoch(asked, "by-range", "a")
            again = beat(asked, "by-range", "a", member_epoch=epoch, **SAYS_NOTHING)
            assert again.member_epoch == epoch
        shown = tool(
            "consumer-groups", "--bootstrap-server", broker.address,
            "--describe", "--members", "--verbose", "--all-groups",
        )  # fmt: skip
        assert "orders:0,1,2,3" in shown


def _put_in_place(data: Path, broker: KafkaBroker) -> None:
    """Our partitions instead of the broker's own, which is not running."""
    for number in range(_PARTITIONS):
        name = f"__consumer_offsets-{number}"
        target = broker.directory / "data" / name
        whose = (target / "partition.metadata").read_text()
        shutil.rmtree(target)
        shutil.copytree(data / name, target)
        (target / "partition.metadata").write_text(whose)


def test_a_broker_serves_them(tmp_path: Path, compacted: bool) -> None:
    before = _write(tmp_path / "data", compacted)
    with KafkaBroker(tmp_path / "broker", topics={"orders": 4}, settings=_SETTINGS) as broker:
        with Asked(broker.address) as asked:
            asked.ensure_coordinator("any")
        broker.stop()
        _put_in_place(tmp_path / "data", broker)
        broker.start()
        with Asked(broker.address) as asked:
            asked.wait_loaded()
            assert asked_of(asked) == before
            assert {e.name for e in asked.commit("later-3", [("orders", 2, 8)])} == {"none"}
