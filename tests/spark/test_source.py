"""`spark.read.format("consumer_offsets")` on directories: its rows for logs that Kafka wrote, and
its errors for those it cannot read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support import batches, segments
from support.consumer_tables import as_kafka_says, consumers_of

from pykcoord import Config, tables
from pykcoord.log import LogReader

from .offsets import replayed

pytest.importorskip("pyspark")
from pykcoord_spark.source import ConsumerOffsets, directory
from pykcoord_spark.source.options import Options
from pykcoord_spark.source.schema import DDL
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from pykcoord._native import Node, record_schema
from pykcoord.errors import ArgumentError, LogError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FORMAT = "consumer_offsets"
_STRIDE = 1000
# Small logs, with transactions and with a torn tail.
_FEW = [str(segments.OWN / name) for name in ("transactions-2", "torn-1-mid-batch")]

Rows = list[dict[str, Any]]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "scenario" in metafunc.fixturenames:
        folders = segments.folders(metafunc.config)
        metafunc.parametrize("scenario", [str(path) for path in folders], ids=lambda path: path)


@pytest.fixture(scope="module")
def unpacked(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("segments")
    folders = segments.folders(request.config)
    return {str(of): segments.unpack(of, root / str(n)) for n, of in enumerate(folders)}


@pytest.fixture(scope="module")
def rows(unpacked: dict[str, Path]) -> dict[str, Rows]:
    """The rows of every recorded log, as a task of Spark reads them, in this process."""
    return {name: read(path, on_corruption="truncate") for name, path in unpacked.items()}


@pytest.fixture(scope="module")
def rows_of_spark(
    spark: SparkSession,
    request: pytest.FixtureRequest,
    unpacked: dict[str, Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Rows]:
    """The rows that Spark gives of two recorded logs, or of all with --spark-all, read in one job:
    their partitions are renumbered to be those of one directory."""
    root = tmp_path_factory.mktemp("all")
    names = list(unpacked) if request.config.getoption("--spark-all") else _FEW
    for n, name in enumerate(names):
        for folder in unpacked[name].glob("__consumer_offsets-*"):
            number = int(folder.name.rpartition("-")[2])
            (root / f"__consumer_offsets-{n * _STRIDE + number}").symlink_to(folder)
    df = spark.read.format(_FORMAT).option("on_corruption", "truncate").load(str(root))
    found: dict[str, Rows] = {name: [] for name in names}
    for row in df.toArrow().to_pylist():
        n, row["partition"] = divmod(row["partition"], _STRIDE)
        found[names[n]].append(row)
    return found


def read(path: Path, *columns: StructField, **options: str) -> Rows:
    """The rows of the tasks of a read, one after the other, without Spark."""
    source = ConsumerOffsets({"path": str(path), **options})
    reader = source.reader(StructType(list(columns)))
    batches = (batch for part in reader.partitions() for batch in reader.read(part))
    return [row for batch in batches for row in batch.to_pylist()]


def in_order(rows: Rows) -> Rows:
    return sorted(rows, key=lambda row: (row["partition"], row["offset"]))


def test_spark_gives_what_its_tasks_read(
    rows: dict[str, Rows], rows_of_spark: dict[str, Rows]
) -> None:
    for name, found in rows_of_spark.items():
        assert in_order(found) == in_order(rows[name]) != []


def test_offsets_are_those_that_kafka_reads(
    scenario: str, unpacked: dict[str, Path], rows: dict[str, Rows]
) -> None:
    expected = segments.expected(unpacked[scenario])
    offsets, unstable = replayed(rows[scenario])
    assert offsets == expected["offsets"]
    assert unstable == expected["unstable"]


def test_groups_are_those_that_kafka_reads(
    scenario: str, unpacked: dict[str, Path], rows: dict[str, Rows]
) -> None:
    expected = segments.expected(unpacked[scenario])["groups"]
    newest: dict[tuple[str, bytes], dict[str, Any]] = {}
    for row in sorted(rows[scenario], key=lambda row: (row["partition"], row["offset"])):
        if row["group_id"] is not None:
            newest[row["group_id"], row["key"]] = row
    generations = {
        row["group_id"]: row["generation"]
        for row in newest.values()
        if row["kind"] == "GroupMetadata" and not row["tombstone"]
    }
    homes: dict[str, set[int]] = {}
    for (group_id, _), row in newest.items():
        homes.setdefault(group_id, set()).add(row["partition"])
    for group_id, group in expected.items():
        if group["type"] == "classic" and group["protocolType"]:
            assert group_id in generations
            assert group.get("generation", generations[group_id]) == generations[group_id]
        if group["type"] != "classic":
            assert group_id in homes
        assert homes.get(group_id, {group["partition"]}) == {group["partition"]}
    assert generations.keys() <= expected.keys()


def test_consumer_groups_are_those_that_kafka_reads(
    scenario: str, unpacked: dict[str, Path], rows: dict[str, Rows]
) -> None:
    """The rows alone, replayed: members, epochs, targets and expressions."""
    expected = segments.expected(unpacked[scenario])
    if not Path(scenario).name.startswith(("consumer-", "migration-")):
        return
    shards = expected["offsets_topic_num_partitions"]
    node = Node(Config(offsets_topic_num_partitions=shards).native(), shards, bytes(32))
    found: list[tuple[Any, ...]] = []
    for shard in range(shards):
        of = [row for row in in_order(rows[scenario]) if row["partition"] == shard]
        records = [
            batches.Record(row["offset"], row["timestamp"], row["key"], row["value"]) for row in of
        ]
        loader = node.loader()
        if records:
            first, last = records[0].offset, records[-1].offset
            loader.replay(batches.Batch(first, last, records).encode())
        node.adopt(shard, loader)
        node.loaded(shard, 0, of[-1]["offset"] + 1 if of else 0)
        found += node.groups(shard)
    names = segments.topic_names(expected)
    groups, members = tables.groups(found), tables.members(found, names)
    told = as_kafka_says(groups.to_pylist(), members.to_pylist(), shards)
    assert told == consumers_of(expected) != {}


def test_records_are_those_of_the_log(
    scenario: str, unpacked: dict[str, Path], rows: dict[str, Rows]
) -> None:
    """Every one, byte for byte, as another decoder finds them."""
    expected = []
    reader = LogReader.open(unpacked[scenario], on_corruption="truncate")
    for partition in reader.partitions:
        for batch in batches.decode(reader.read(partition)):
            producer = (None, None)
            if batch.producer_id >= 0:
                producer = (batch.producer_id, batch.producer_epoch)
            expected += [
                (partition, r.offset, r.timestamp, r.key, r.value, r.value is None, *producer)
                for r in batch.records
            ]
    columns = (
        "partition", "offset", "timestamp", "key", "value", "tombstone", "producer_id",
        "producer_epoch",
    )  # fmt: skip
    found = [tuple(row[name] for name in columns) for row in rows[scenario]]
    assert sorted(found, key=lambda row: row[:2]) == sorted(expected, key=lambda row: row[:2])


def test_the_schema_is_that_of_the_native_core(spark: SparkSession) -> None:
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    assert to_arrow_schema(StructType.fromDDL(DDL), timezone="UTC") == record_schema()


def test_no_filter_is_pushed_down() -> None:
    """Spark 4.3.0 gives wrong results with a reader that defines it."""
    import pykcoord_spark.source.cluster as cluster

    for reader in (directory.DirectoryReader, cluster.ClusterReader):
        assert "pushFilters" not in vars(reader)


@pytest.fixture
def classic(unpacked: dict[str, Path]) -> Path:
    return unpacked[str(segments.OWN / "classic-1")]


def test_some_partitions_and_groups(classic: Path, rows: dict[str, Rows]) -> None:
    everything = rows[str(segments.OWN / "classic-1")]
    group = next(row["group_id"] for row in everything if row["partition"] == 11)
    wanted = [
        row for row in everything if row["partition"] in (2, 11, 18) and row["group_id"] == group
    ]
    assert in_order(read(classic, partitions="2, 11, 18-18", groups=group)) == in_order(wanted)


def test_markers_stay_with_some_groups(unpacked: dict[str, Path], rows: dict[str, Rows]) -> None:
    """Also where neither the group nor the kind is among the columns."""
    log = str(segments.OWN / "transactions-1")
    markers = [row["offset"] for row in rows[log] if row["kind"] in ("COMMIT", "ABORT")]
    of_group = [row["offset"] for row in rows[log] if row["group_id"] == "tx-31uve"]
    offset = StructField("offset", LongType())
    assert len(markers) == 16
    for columns in ([], [offset]):
        found = read(unpacked[log], *columns, groups="tx-31uve")
        assert sorted(row["offset"] for row in found) == sorted(markers + of_group)


def test_some_columns(spark: SparkSession, classic: Path, rows: dict[str, Rows]) -> None:
    """In the order that was asked for; in Spark, of the types that were."""
    names = ["committed", "offset", "partition", "group_id"]
    wanted = [
        {name: row[name] for name in names}
        for row in in_order(rows[str(segments.OWN / "classic-1")])
    ]
    asked = "committed BIGINT, offset BIGINT NOT NULL, partition INT, group_id STRING"
    found = spark.read.format(_FORMAT).schema(asked).load(str(classic))
    assert found.columns == names
    assert in_order(found.toArrow().to_pylist()) == wanted
    group = wanted[0]["group_id"]
    of_group = {row["offset"] for row in wanted if row["group_id"] == group}
    read_alone = read(classic, StructField("offset", LongType()), groups=group)
    assert {row["offset"] for row in read_alone} == of_group
    assert all(row.keys() == {"offset"} for row in read_alone)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (StructField("ofset", LongType()), "there is no column ofset; there are partition,"),
        (StructField("offset", IntegerType()), "column offset is BIGINT, not INT"),
        (StructField("topic", StringType(), False), "column topic has NULLs: leave out NOT NULL"),
    ],
)
def test_columns_that_there_are_not_are_named(classic: Path, asked: StructField, said: str) -> None:
    with pytest.raises(ArgumentError, match=re.escape(said)):
        read(classic, asked)


def test_small_partitions_share_a_task(classic: Path) -> None:
    alone = directory.places(Options.parse({"path": str(classic)}))
    assert _tasks(classic) == [tuple(alone)]

    def size(*places: directory.Place) -> int:
        return sum(f.stat().st_size for place in places for f in Path(place.path).glob("*.log"))

    most = size(*alone) // 2
    tasks = _tasks(classic, most)
    assert 1 < len(tasks) < len(alone)
    assert [place for task in tasks for place in task] == alone
    assert all(size(*task) <= most or len(task) == 1 for task in tasks)


def _tasks(path: Path, most: int = 32 << 20) -> list[tuple[directory.Place, ...]]:
    asked = {"path": str(path), "task_bytes": str(most)}
    tasks = ConsumerOffsets(asked).reader(StructType()).partitions()
    return [task.places for task in tasks if isinstance(task, directory.Places)]


def test_no_partition_gives_no_rows(classic: Path) -> None:
    """Spark calls it so when there is nothing to read."""
    reader = ConsumerOffsets({"path": str(classic)}).reader(StructType())
    assert list(reader.read(InputPartition(None))) == []


def test_one_folder_and_one_file(classic: Path) -> None:
    folder = classic / "__consumer_offsets-11"
    (file,) = folder.glob("*.log")
    assert read(folder) == read(file) != []
    assert {row["partition"] for row in read(file)} == {11}


@pytest.fixture
def damaged(tmp_path: Path) -> Iterator[Path]:
    return segments.unpack(segments.OWN / "torn-1-flipped-middle", tmp_path / "log")


def test_a_damaged_segment_is_refused_and_named(spark: SparkSession, damaged: Path) -> None:
    file = next(damaged.glob("*/*.log"))
    with pytest.raises(Exception, match="CorruptLogError") as raised:
        spark.read.format(_FORMAT).load(str(damaged)).count()
    assert f"{file}: byte {segments.expected(damaged)['bytes_after_recovery']}" in str(raised.value)


def test_no_log_is_named(tmp_path: Path) -> None:
    for path, said in ((tmp_path, "no log here"), (tmp_path / "absent", "no such directory")):
        with pytest.raises(LogError, match=said) as raised:
            read(path)
        assert str(path) in str(raised.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, r"option path: neither is given: name a directory"),
        ({"path": "x", "kafka.bootstrap.servers": "y:9092"}, "option path: both are given"),
        ({"kafka.security.protocol": "ssl"}, r"option kafka\.bootstrap\.servers: is missing"),
        ({"path": "x", "partitoins": "1"}, "option partitoins: is unknown; did you mean part"),
        ({"path": "x", "partitions": "1,b"}, "option partitions: '1,b' is not of the form"),
        ({"path": "x", "partitions": "1-"}, "option partitions: '1-' is not of the form"),
        ({"path": "x", "partitions": "9-3"}, "option partitions: '9-3' is not of the form"),
        ({"path": "x", "partitions": "0-2,5-4"}, "option partitions: '0-2,5-4' is not of the form"),
        ({"path": "x", "on_corruption": "ignore"}, "option on_corruption: 'ignore' is neither"),
        ({"path": "x", "starting_offsets": "latest"}, "option starting_offsets: is unknown"),
    ],
)
def test_a_wrong_option_is_named(given: dict[str, str], said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        Options.parse(given)


def test_a_partition_that_is_not_there_is_named(classic: Path) -> None:
    source = ConsumerOffsets({"path": str(classic), "partitions": "2,3"})
    with pytest.raises(ArgumentError, match=r"option partitions: .* has no partition 3"):
        source.reader(StructType()).partitions()
