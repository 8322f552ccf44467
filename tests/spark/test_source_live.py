"""`consumer_offsets` of a live cluster: Kafka itself, and the error where there is no topic."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pykcoord_spark.source.cluster import ClusterReader, Slice, offsets_of
from pykcoord_spark.source.options import Options
from support.asked import Asked
from support.kafka import jars
from support.kafka.broker import KafkaBroker
from support.server import PykcoordServer
from support.traffic import drive

from pykcoord.errors import ArgumentError, LogError

from .offsets import replayed

pytest.importorskip("pyspark")

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PARTITIONS = 3


def _options(address: str, **more: str) -> Options:
    return Options.parse({"kafka.bootstrap.servers": address, **more})


def test_pykcoords_own_server_says_where_its_records_are(tmp_path: Path) -> None:
    with (
        PykcoordServer(tmp_path / "data", topics={"orders": 1}) as server,
        pytest.raises(LogError, match="no topic __consumer_offsets there; pykcoord's own server"),
    ):
        offsets_of(_options(server.address))


def test_a_cluster_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykcoord_spark.source.cluster._REQUEST_TIMEOUT_S", 0.5)
    with pytest.raises(LogError, match=r"^127\.0\.0\.1:1: .*(transport|timed out|Local)"):
        offsets_of(_options("127.0.0.1:1"))


def test_a_setting_that_librdkafka_does_not_know_is_named() -> None:
    with pytest.raises(LogError, match="secrity"):
        offsets_of(_options("127.0.0.1:1", **{"kafka.secrity.protocol": "ssl"}))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A broker whose groups have joined, committed, left, and been deleted."""
    if (reason := jars.missing_tool_chain()) is not None:
        pytest.skip(reason)
    directory = tmp_path_factory.mktemp("kafka") / "broker"
    settings = {"offsets.topic.num.partitions": str(_PARTITIONS)}
    with KafkaBroker(directory, topics={"orders": 4}, settings=settings) as broker:
        with Asked(broker.address) as asked:
            asked.ensure_coordinator("any")
            asked.wait_loaded()
            drive(asked)
        yield broker


def _rows(df: DataFrame) -> list[dict[str, Any]]:
    found = df.drop("producer_id", "producer_epoch").toArrow().to_pylist()
    return sorted(found, key=lambda row: (row["partition"], row["offset"]))


@pytest.mark.java
@pytest.mark.spark_all
@pytest.mark.timeout(900)
def test_a_live_cluster_gives_what_its_directory_holds(
    spark: SparkSession, broker: KafkaBroker
) -> None:
    reader = spark.read.format("consumer_offsets")
    live = _rows(reader.option("kafka.bootstrap.servers", broker.address).load())
    directory = broker.directory / "data"
    held = spark.read.format("consumer_offsets").load(str(directory)).toArrow().to_pylist()
    offsets, _ = replayed(held)
    told, _ = replayed({**row, "producer_id": None} for row in live)
    assert told == offsets != {}
    plain = {(row["partition"], row["offset"]) for row in held if row["producer_id"] is None}
    assert plain <= {(row["partition"], row["offset"]) for row in live}
    with pytest.raises(ArgumentError, match="option partitions: __consumer_offsets has no part"):
        ClusterReader(_options(broker.address, partitions="3")).partitions()


@pytest.mark.java
@pytest.mark.spark_all
@pytest.mark.timeout(900)
def test_a_stream_of_a_live_cluster_goes_on_where_it_was(
    spark: SparkSession, broker: KafkaBroker, tmp_path: Path
) -> None:
    def run() -> list[dict[str, Any]]:
        stream = (
            spark.readStream.format("consumer_offsets")
            .option("kafka.bootstrap.servers", broker.address)
            .option("max_records_per_trigger", "20")
            .load()
        )
        query = (
            stream.writeStream.format("parquet")
            .option("path", str(tmp_path / "out"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(300)
        return _rows(spark.read.parquet(str(tmp_path / "out")))

    def live() -> list[dict[str, Any]]:
        reader = spark.read.format("consumer_offsets")
        return _rows(reader.option("kafka.bootstrap.servers", broker.address).load())

    assert run() == live()
    with Asked(broker.address) as asked:
        for number in range(30):
            asked.commit(f"later-{number}", [("orders", 0, number)], leader_epoch=1)
    assert run() == live()


@pytest.mark.java
@pytest.mark.spark_all
@pytest.mark.timeout(900)
def test_a_slice_ends_where_it_was_told(broker: KafkaBroker) -> None:
    options = _options(broker.address)
    number, (start, end) = max(offsets_of(options).items(), key=lambda item: item[1][1])
    middle = (start + end) // 2
    began = time.monotonic()
    (first, second) = (
        [row["offset"] for batch in ClusterReader(options).read(part) for row in batch.to_pylist()]
        for part in (Slice(number, start, middle), Slice(number, middle, end))
    )
    assert first
    assert second
    assert max(first) < middle <= min(second)
    assert time.monotonic() - began < 60
