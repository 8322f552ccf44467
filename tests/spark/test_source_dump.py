"""`consumer_offsets` beside Kafka's own dump of the same segments, record for record."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support import segments
from support.kafka import jars
from support.kafka.tools import ToolError, tool

pytest.importorskip("pyspark")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.java, pytest.mark.spark_all, pytest.mark.timeout(900)]

_STRIDE = 1000
_FILE = re.compile(r"^Dumping (.*)$", re.MULTILINE)
_BATCH = re.compile(
    r"^baseOffset: .* producerId: (-?\d+) producerEpoch: (-?\d+) .* isvalid: (true|false)$"
)
_RECORD = re.compile(
    r"^\| offset: (\d+) CreateTime: (\d+) keySize: (-?\d+) valueSize: (-?\d+) .*? headerKeys: \[\] "
    r"(?:endTxnMarker: (?P<marker>\w+) .*|key: (?P<key>\{.*?\}\}) payload: (?P<payload>.*))$"
)
# Kafka's CoordinatorRecordType, of the kinds that have columns.
_KINDS = {"0": "LegacyOffsetCommit", "1": "OffsetCommit", "2": "GroupMetadata"}
_EPOCHS = {"3": "ConsumerGroupMetadata", "11": "ShareGroupMetadata", "17": "StreamsGroupMetadata"}

Rows = dict[tuple[str, int, int], dict[str, Any]]


@pytest.fixture(scope="module")
def directories(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> list[Path]:
    if (reason := jars.missing_tool_chain()) is not None:
        pytest.skip(reason)
    root = tmp_path_factory.mktemp("segments")
    folders = segments.folders(request.config)
    return [segments.unpack(of, root / f"{n}-{of.name}") for n, of in enumerate(folders)]


def test_rows_are_those_of_kafkas_dump(
    spark: SparkSession, directories: list[Path], tmp_path: Path
) -> None:
    """Up to the first batch that is not sound: there the tool goes on, and Kafka does not."""
    theirs: Rows = {}
    files = [file for of in directories for file in sorted(of.rglob("*.log"))]
    for file, printed in _dumped([file for file in files if file.stat().st_size]):
        of, number = file.parents[1].name, int(file.parent.name.rpartition("-")[2])
        theirs |= {(of, number, row["offset"]): row for row in _parsed(printed)}
    ours = _rows_of_spark(spark, directories, tmp_path)
    compared = (_comparable(row, theirs[place]) for place, row in ours.items() if place in theirs)
    wrong = [(found, told) for found, told in compared if found != told]
    assert wrong[:3] == []
    assert ours.keys() == theirs.keys()
    assert len(ours) > 20_000


def _rows_of_spark(spark: SparkSession, directories: list[Path], root: Path) -> Rows:
    """Of all directories in one job: as partitions of one directory."""
    for n, of in enumerate(directories):
        for folder in of.glob("__consumer_offsets-*"):
            number = int(folder.name.rpartition("-")[2])
            (root / f"__consumer_offsets-{n * _STRIDE + number}").symlink_to(folder)
    reader = spark.read.format("consumer_offsets").option("on_corruption", "truncate")
    found: Rows = {}
    for row in reader.load(str(root)).toArrow().to_pylist():
        n, number = divmod(row["partition"], _STRIDE)
        found[directories[n].name, number, row["offset"]] = row
    return found


def _dumped(files: list[Path]) -> Iterator[tuple[Path, str]]:
    """The output of the tool for each file. It ends at some damaged ones; the next begins anew."""
    while files:
        arguments = ["--offsets-decoder", "--print-data-log", "--files"]
        try:
            printed = tool("dump-log", *arguments, ",".join(map(str, files)))
        except ToolError as error:
            printed = str(error)
        parts = _FILE.split(printed)[1:]
        yield from ((Path(name), text) for name, text in zip(parts[::2], parts[1::2], strict=True))
        assert parts, printed
        files = files[len(parts) // 2 :]


def _parsed(printed: str) -> Iterator[dict[str, Any]]:
    """The records of a file as far as its batches are sound, in columns of the source."""
    producer_id = producer_epoch = -1
    for line in printed.splitlines():
        if batch := _BATCH.match(line):
            if batch[3] == "false":
                return
            producer_id, producer_epoch = int(batch[1]), int(batch[2])
        elif line.startswith("| "):
            record = _RECORD.match(line)
            assert record, line
            yield {
                "offset": int(record[1]),
                "timestamp": int(record[2]),
                "key_size": int(record[3]),
                "value_size": int(record[4]),
                "producer_id": None if producer_id == -1 else producer_id,
                "producer_epoch": None if producer_id == -1 else producer_epoch,
                **_content(record["marker"], record["key"], record["payload"]),
            }


def _content(marker: str | None, key: str | None, payload: str | None) -> dict[str, Any]:
    if marker is not None:
        return {"kind": marker, "group_id": None, "tombstone": False}
    assert key is not None
    assert payload is not None
    decoded = json.loads(key)
    of, data = decoded["type"], decoded["data"]
    value = None if payload == "<DELETE>" else json.loads(payload)["data"]
    content = {"group_id": data.get("group", data.get("groupId")), "tombstone": value is None}
    if of in ("0", "1"):
        content |= {"topic": data["topic"], "topic_partition": data["partition"]}
        names = {"committed": "offset", "metadata": "metadata", "leader_epoch": "leaderEpoch"}
        content |= {ours: value and value.get(theirs) for ours, theirs in names.items()}
        content["leader_epoch"] = None if content["leader_epoch"] == -1 else content["leader_epoch"]
    if of in _KINDS:
        content["kind"] = _KINDS[of]
    if of in _EPOCHS:
        content |= {"kind": _EPOCHS[of], "generation": value and value["epoch"]}
    elif of == "2":
        content["generation"] = value and value["generation"]
    return content


def _comparable(row: dict[str, Any], told: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the tool tells, of both."""
    sizes = {
        "key_size": len(row["key"]),
        "value_size": -1 if row["value"] is None else len(row["value"]),
    }
    return {name: (row | sizes)[name] for name in told}, told
