"""Kafka's own logs: read as Kafka read them, never changed by reading, written on by pykcoord."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykcoord.errors import ConfigError, CorruptLogError, LogError
from pykcoord.log import Append, LogDirectory, LogReader, verify
from pykcoord.log._record_batch import Header, Stop, header, scan


def contents(path: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def log_bytes(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(folder.glob("*.log")))


def headers(chunks: Iterator[bytes]) -> list[Header]:
    found: list[Header] = []
    for chunk in chunks:
        position = 0
        while position < len(chunk):
            found.append(header(chunk, position))
            position += found[-1].size
    return found


def test_a_log_holds_what_kafka_says(scenario):
    before = contents(scenario.path)
    log = LogReader.open(scenario.path, on_corruption="truncate")
    for name, about in scenario.expected.get("logs", {}).items():
        shard = int(name.rpartition("-")[2])
        found = headers(log.read(shard))
        assert log.next_offset(shard) == about["endOffset"]
        assert len(found) == about["batches"]
        assert sum(batch.record_count for batch in found) == about["records"]
        control = [batch for batch in found if batch.attributes & 0x20]
        assert sum(batch.record_count for batch in control) == about["controlRecords"]
        if found:
            assert (
                found[0].base_offset
                <= about["firstOffset"]
                <= found[0].base_offset + (found[0].last_offset_delta)
            )
    assert contents(scenario.path) == before


def test_compressed_batches_come_out_plain_and_sound(scenario):
    log = LogReader.open(scenario.path, on_corruption="truncate")
    for shard in log.partitions:
        for chunk in log.read(shard):
            found = scan(chunk, 0, 0)
            assert (found.stop, found.end, found.compressed) == (Stop.END, len(chunk), 0)


def test_a_folder_and_a_segment_file_read_alike(unpacked):
    path = unpacked("classic-1").path
    whole = LogReader.open(path)
    for shard in whole.partitions:
        folder = path / f"__consumer_offsets-{shard}"
        one = LogReader.open(folder)
        assert one.partitions == [shard]
        assert list(one.read(shard)) == list(whole.read(shard))
        segment = LogReader.open(folder / f"{0:020d}.log")
        assert segment.partitions == [shard]
        assert list(segment.read(shard)) == list(whole.read(shard))


def test_kafkas_log_can_be_written_on(unpacked):
    path = unpacked("restarts-1").path
    folder = path / "__consumer_offsets-0"
    (folder / f"{0:020d}.index").write_bytes(b"stale")
    with LogDirectory.open(path, partitions=1) as log:
        assert log.leader_epoch == 5
        end = log.next_offset(0)
        finished = threading.Event()
        log.append([Append(0, end, 1, 7, 7, b"record")], lambda *_: finished.set())
        assert finished.wait(60)
        assert headers(log.read(0))[-1].partition_leader_epoch == 5
    epochs = (folder / "leader-epoch-checkpoint").read_text()
    assert epochs == f"0\n4\n0 0\n2 722\n4 743\n5 {end}\n"
    assert not (folder / f"{0:020d}.index").exists()
    assert verify(path).sound


def test_another_number_of_partitions_is_refused(unpacked):
    path = unpacked("gzip-1").path
    with pytest.raises(ConfigError, match="made with 3 partitions, not 50; set it to 3"):
        LogDirectory.open(path, partitions=50)
    LogDirectory.open(path, partitions=3).close()
    with pytest.raises(ConfigError, match="made with 3 partitions, not 4"):
        LogDirectory.open(path, partitions=4)


def test_a_torn_log_is_cut_where_kafka_cuts_it(torn):
    name, about = next(iter(torn.expected["logs"].items()))
    shard, partitions = int(name.rpartition("-")[2]), torn.expected["offsets_topic_num_partitions"]
    whole = log_bytes(torn.path / name)
    kept = torn.expected.get("bytes_after_recovery", len(whole))
    report = verify(torn.path)
    with LogDirectory.open(torn.path, partitions=partitions, on_corruption="truncate") as log:
        assert log_bytes(torn.path / name) == whole[:kept]
        assert b"".join(log.read(shard)) == whole[:kept]
        assert log.next_offset(shard) == about["endOffset"]
        assert sum(cut.cut_bytes for cut in log.cuts) == len(whole) - kept
    assert report.sound == (kept == len(whole))
    with LogDirectory.open(torn.path, partitions=partitions) as log:
        assert log.cuts == []


def test_damage_before_sound_batches_is_refused(torn):
    name, about = next(iter(torn.expected["logs"].items()))
    partitions = torn.expected["offsets_topic_num_partitions"]
    size = len(log_bytes(torn.path / name))
    kept = torn.expected.get("bytes_after_recovery", size)
    if not kept < torn.expected.get("last_batch_at", size) < size:
        LogReader.open(torn.path)
        LogDirectory.open(torn.path, partitions=partitions).close()
        return
    before = contents(torn.path)
    for opens in (LogReader.open, lambda path: LogDirectory.open(path, partitions=partitions)):
        with pytest.raises(CorruptLogError, match="--on-corruption truncate") as refused:
            opens(torn.path)
        assert refused.value.file.parent == torn.path / name
        assert (refused.value.position, refused.value.offset) == (kept, about["endOffset"])
    (torn.path / ".lock").unlink()
    assert contents(torn.path) == before


def test_flipped_middle_is_among_the_refused(unpacked):
    with pytest.raises(CorruptLogError, match="sound batches follow at byte 52401"):
        LogReader.open(unpacked("torn-1-flipped-middle").path)


@pytest.mark.parametrize(("suffix", "way_out"), [("gz", "gunzip"), ("zst", "unzstd --rm")])
def test_a_log_in_compressed_files_is_not_taken_for_an_empty_one(
    tmp_path, batches, suffix, way_out
):
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    segment = folder / "00000000000000000000.log"
    packed = folder / f"{segment.name}.{suffix}"
    packed.write_bytes(b"packed")
    expected = (
        f"{folder}: no segment (.log) here, but 1 in compressed files, such as {packed.name}; "
        f"unpack them first: {way_out} {folder}/*.log.{suffix}"
    )
    for look in (verify, LogReader.open, lambda path: LogDirectory.open(path, partitions=1)):
        with pytest.raises(LogError) as caught:
            look(tmp_path)
        assert str(caught.value) == expected
    segment.write_bytes(b"".join(batches))  # a copy beside the log says nothing of it
    assert verify(tmp_path).batches == len(batches)
