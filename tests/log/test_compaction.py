"""Kafka's rules of compaction: on small logs with a result worked out by hand; on random logs,
whose state after replay must stay the same; and on Kafka's own."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.batches import ABORT, COMMIT, CONTROL, HORIZON, Batch, data, decode, marker
from support.compacting import (
    DAY_MS,
    NOW_MS,
    compact,
    compact_all,
    compaction,
    meaning,
    read_log,
    write_log,
)

from pykcoord.cli.state import state_of
from pykcoord.errors import LogError
from pykcoord.log import LogDirectory, LogReader, verify
from pykcoord.log.checkpoint import read_cleaner_offsets
from pykcoord.log.folders import TOPIC

A, B, C = b"\0\1a", b"\0\7bb", b"\x7f\xffunknown"
ACTIVE = [data(1000, [(b"active", b"1")])]


def offsets(batches: list[Batch]) -> list[int]:
    return [record.offset for batch in batches for record in batch.records]


def test_the_last_record_of_each_key_stays_where_it_was(tmp_path):
    first = data(0, [(A, b"1"), (B, b"1"), (A, b"2")])
    second = data(3, [(A, b"3"), (C, b"1")])
    root = write_log(tmp_path, [[first], [second], ACTIVE])
    compact(root)
    found = read_log(root)
    assert offsets(found) == [1, 3, 4, 1000]
    # The batch keeps its range of offsets; its times are those of the records that are left.
    assert (found[0].base_offset, found[0].last_offset) == (0, 2)
    assert (found[0].base_timestamp, found[0].max_timestamp) == (1001, 1001)
    assert found[1] == second
    assert verify(root).sound
    assert [file.name for file in sorted((root / f"{TOPIC}-0").glob("*.log"))] == [
        f"{0:020d}.log", f"{1000:020d}.log",
    ]  # fmt: skip
    assert read_cleaner_offsets(root, TOPIC) == {0: 1000}


def test_a_batch_of_which_nothing_stays_goes(tmp_path):
    root = write_log(tmp_path, [[data(0, [(A, b"1")]), data(1, [(A, b"2")])], ACTIVE])
    compact(root)
    assert [batch.base_offset for batch in read_log(root)] == [1, 1000]


def test_the_active_segment_is_not_touched(tmp_path):
    active = [data(1, [(A, b"2")]), data(2, [(A, b"3")])]
    root = write_log(tmp_path, [[data(0, [(A, b"1")])], active])
    compact(root)
    assert offsets(read_log(root)) == [0, 1, 2]


def test_a_tombstone_stays_until_its_time_has_passed(tmp_path):
    root = write_log(tmp_path, [[data(0, [(A, b"1")]), data(1, [(B, b"1"), (A, None)])], ACTIVE])
    compact(root)
    cleaned = read_log(root)[0]
    assert offsets([cleaned]) == [1, 2]
    # KIP-534: the horizon stands in the base timestamp; the records' own times stay.
    assert cleaned.attributes & HORIZON
    assert cleaned.base_timestamp == NOW_MS + DAY_MS
    assert [record.timestamp for record in cleaned.records] == [1000, 1001]

    def again(now_ms: int) -> list[Batch]:
        (root / "cleaner-offset-checkpoint").unlink()
        compact(root, compaction(now_ms))
        return read_log(root)

    assert again(NOW_MS + DAY_MS - 1)[0] == cleaned
    last = again(NOW_MS + DAY_MS)[0]
    assert offsets([last]) == [1]
    assert last.attributes & HORIZON
    assert last.base_timestamp == NOW_MS + DAY_MS


def test_records_without_a_key_go(tmp_path):
    root = write_log(tmp_path, [[data(0, [(None, b"1"), (A, b"1")])], ACTIVE])
    compact(root)
    assert offsets(read_log(root)) == [1, 1000]


def test_what_was_aborted_goes_and_its_marker_a_retention_later(tmp_path):
    log = [data(0, [(A, b"1")]), data(1, [(A, b"2")], 7), marker(2, 7, ABORT)]
    root = write_log(tmp_path, [log, ACTIVE])
    compact(root)
    kept, ended, _ = read_log(root)
    assert offsets([kept]) == [0]
    assert ended.attributes & CONTROL
    assert not ended.attributes & HORIZON

    def again(now_ms: int) -> list[Batch]:
        (root / "cleaner-offset-checkpoint").unlink()
        compact(root, compaction(now_ms))
        return read_log(root)

    assert again(NOW_MS)[1].base_timestamp == NOW_MS + DAY_MS
    assert len(again(NOW_MS + DAY_MS - 1)[1].records) == 1
    # It is the last batch of its file, so its header stays for its offset.
    emptied = again(NOW_MS + DAY_MS)[1]
    assert (emptied.records, emptied.last_offset, emptied.base_timestamp) == ([], 2, -1)


def test_a_commit_marker_stays_with_its_records(tmp_path):
    log = [data(0, [(A, b"1")], 7), marker(1, 7, COMMIT), data(2, [(B, b"1")])]
    root = write_log(tmp_path, [log, ACTIVE])
    compact(root)
    (root / "cleaner-offset-checkpoint").unlink()
    compact(root, compaction(NOW_MS + 9 * DAY_MS))
    assert read_log(root)[:3] == log


def test_nothing_from_an_undecided_transaction_on_is_cleaned(tmp_path):
    before = [data(0, [(A, b"1")]), data(1, [(A, b"2")])]
    behind = [data(2, [(B, b"1")], 7), data(3, [(A, b"3")]), data(4, [(A, b"4")])]
    root = write_log(tmp_path, [before + behind, [data(5, [(C, b"1")])], ACTIVE])
    compact(root)
    assert offsets(read_log(root)) == [1, 2, 3, 4, 5, 1000]
    assert read_cleaner_offsets(root, TOPIC) == {0: 2}


def test_the_last_batch_of_a_producer_stays_empty_while_it_is_known(tmp_path):
    def log() -> list[list[Batch]]:
        now = NOW_MS - 1000
        first = replace(data(0, [(A, b"1")], 7, now), producer_epoch=0)
        return [[first, marker(1, 7, COMMIT, now), data(2, [(A, b"2")])], ACTIVE]

    root = write_log(tmp_path / "known", log())
    compact(root)
    assert [batch.base_offset for batch in read_log(root)] == [0, 1, 2, 1000]
    root = write_log(tmp_path / "forgotten", log())
    compact(root, compaction(NOW_MS + DAY_MS))
    assert [batch.base_offset for batch in read_log(root)] == [1, 2, 1000]


def test_segments_are_merged_up_to_the_segment_size(tmp_path):
    each = [[data(n, [(b"%d" % n, b"x" * 100)])] for n in range(10)]
    size = len(each[0][0].encode())
    root = write_log(tmp_path, [*each, ACTIVE])
    compact(root, segment_bytes=3 * size)
    names = [int(file.stem) for file in sorted((root / f"{TOPIC}-0").glob("*.log"))]
    assert names == [0, 3, 6, 9, 1000]
    assert offsets(read_log(root)) == [*range(10), 1000]


def test_keys_that_do_not_fit_take_several_passes(tmp_path):
    count = 4000
    old = [data(n, [(b"k%d" % n, b"1")]) for n in range(count)]
    new = [data(count + n, [(b"k%d" % n, b"2")]) for n in range(count)]
    root = write_log(tmp_path, [old, new, [data(2 * count, [(A, b"1")])]])
    compact(root, compaction(buffer_bytes=1000 * 24))
    assert offsets(read_log(root)) == [*range(count, 2 * count), 2 * count]
    assert read_cleaner_offsets(root, TOPIC) == {0: 2 * count}


def test_young_segments_wait(tmp_path):
    old, young = data(0, [(A, b"1")]), data(1, [(A, b"2")], timestamp=NOW_MS - 5)
    root = write_log(tmp_path, [[old], [young], ACTIVE])
    compact(root, compaction(min_compaction_lag_ms=10))
    assert read_cleaner_offsets(root, TOPIC) == {0: 1}
    compact(root, compaction(min_compaction_lag_ms=5))
    assert offsets(read_log(root)) == [1, 1000]


def test_what_kafka_wrote_of_other_topics_in_the_checkpoint_stays(tmp_path):
    root = write_log(tmp_path, [[data(0, [(A, b"1")])], ACTIVE])
    (root / "cleaner-offset-checkpoint").write_text(
        f"0\n2\n__transaction_state 3 77\n{TOPIC} 0 0\n"
    )
    compact(root)
    text = (root / "cleaner-offset-checkpoint").read_text()
    assert text == f"0\n2\n__transaction_state 3 77\n{TOPIC} 0 1000\n"


KEYS = st.sampled_from([b"\0\1k%d" % n for n in range(4)] + [b"\0\5k", b"\x7fk"])
VALUES = st.one_of(st.none(), st.binary(max_size=3))


@st.composite
def logs(draw) -> list[list[Batch]]:
    """Segments of batches, some of them in transactions of three producers."""
    offset, open_ = 0, set()
    batches: list[Batch] = []
    for _ in range(draw(st.integers(1, 25))):
        offset += draw(st.integers(0, 2))
        producer = draw(st.integers(-3, 2))
        if producer in open_ and draw(st.booleans()):
            open_.remove(producer)
            made = marker(offset, producer, draw(st.sampled_from([ABORT, COMMIT])))
        else:
            records = draw(st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=5))
            made = data(offset, records, max(producer, -1))
            if producer >= 0:
                open_.add(producer)
        batches.append(made)
        offset = made.last_offset + 1
    cuts = sorted(draw(st.sets(st.integers(0, len(batches)), max_size=5)))
    bounds = [0, *cuts, len(batches)]
    return [batches[start:end] for start, end in itertools.pairwise(bounds) if start < end]


@pytest.mark.timeout(300)
@given(logs(), st.integers(100, 2000), st.lists(st.integers(0, 2), min_size=1, max_size=4))
@settings(max_examples=60, deadline=None)
def test_a_random_log_means_the_same_after_any_cleanings(tmp_path_factory, log, size, days):
    root = write_log(tmp_path_factory.mktemp("log") / "x", log)
    before = meaning([batch for segment in log for batch in segment])
    now_ms = NOW_MS
    for passed in days:
        now_ms += passed * DAY_MS
        (root / "cleaner-offset-checkpoint").unlink(missing_ok=True)
        compact(root, compaction(now_ms), segment_bytes=size)
        found = read_log(root)
        assert meaning(found) == before
        assert verify(root).sound
    # No key is there twice, unless a marker is in the active segment.
    if not meaning([batch for segment in log[:-1] for batch in segment]).pending:
        closed = [batch for batch in found if batch.base_offset < log[-1][0].base_offset]
        keys = [one.key for b in closed for one in b.records if not b.attributes & CONTROL]
        assert len(keys) == len(set(keys))


def test_a_batch_with_too_many_keys_says_which_setting_to_raise(tmp_path):
    many = [(b"\0\1%d" % number, b"1") for number in range(2000)]
    root = write_log(tmp_path, [[data(0, many)], [data(2000, many[:1])]])
    before = read_log(root)
    with pytest.raises(LogError, match=r"at offset 0 alone .* log\.cleaner\.dedupe\.buffer\.size"):
        compact(root, compaction(buffer_bytes=64))
    assert read_log(root) == before


def assert_means_the_same(path: Path, partitions: int) -> None:
    """Before and after compaction; of a damaged log: the part that recovery keeps."""
    before = state_of(LogReader.open(path, on_corruption="truncate"), None)
    if not verify(path).sound:
        LogDirectory.open(path, partitions=partitions, on_corruption="truncate").close()
    compact_all(path, with_active=True)
    assert state_of(LogReader.open(path), None) == before


def test_kafkas_logs_mean_the_same(scenario):
    assert_means_the_same(scenario.path, scenario.expected["offsets_topic_num_partitions"])


def test_a_damaged_log_means_the_same_whatever_it_is_called(unpacked):
    scenario = unpacked("classic-2")
    largest = max(scenario.path.rglob("*.log"), key=lambda path: path.stat().st_size)
    damaged = bytearray(largest.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    largest.write_bytes(damaged)
    assert not verify(scenario.path).sound
    assert_means_the_same(scenario.path, scenario.expected["offsets_topic_num_partitions"])


# In the third partitions of both a transaction is pending in the first segment that is named here:
# Kafka cleaned the segments before it.
CLEAN_BELOW = {"compacted-1": [505, 492, 941], "compacted-2": [None, None, 802]}


@pytest.mark.parametrize("name", CLEAN_BELOW)
def test_what_kafka_has_cleaned_is_clean(unpacked, name):
    path = unpacked(name).path

    def batches() -> list[list[Batch]]:
        return [list(map(bare, decode(LogReader.open(path).read(shard)))) for shard in range(3)]

    def bare(batch: Batch) -> Batch:
        """A marker without records before it gets its horizon with the next cleaning."""
        if not batch.attributes & CONTROL or not batch.records:
            return batch
        return replace(batch, attributes=batch.attributes & ~HORIZON, base_timestamp=0)

    for shard, active in enumerate(CLEAN_BELOW[name]):
        for file in (path / f"{TOPIC}-{shard}").glob("*.log"):
            if active is not None and int(file.stem) > active:
                file.unlink()
    before = batches()
    compact_all(path)
    assert batches() == before
