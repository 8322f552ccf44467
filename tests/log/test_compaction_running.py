"""Compaction beside a writer and readers: what is acknowledged stays, and the disk is bounded."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.batches import Batch, data, decode
from support.compacting import compaction, meaning, partition

from pykcoord.clock import monotonic_seconds
from pykcoord.log import Append, LogDirectory, LogReader, verify
from pykcoord.log._disk import write_files
from pykcoord.log.checkpoint import read_cleaner_offsets
from pykcoord.log.compaction import LogCleaner
from pykcoord.log.compaction.files import Files
from pykcoord.log.folders import TOPIC

HEADER_BYTES = 61
APPENDS = 1500


def records(*pairs: tuple[bytes, bytes | None]) -> bytes:
    return data(0, pairs, timestamp=0).encode()[HEADER_BYTES:]


def append(log: LogDirectory, shard: int, key: bytes, value: bytes | None) -> int:
    """The offset behind the record, once it is durable."""
    done: list[tuple[list[tuple[int, int]], list[object]]] = []
    finished = threading.Event()

    def note(committed, failed):
        done.append((committed, failed))
        finished.set()

    offset = log.next_offset(shard)
    log.append([Append(shard, offset, 1, 0, 0, records((key, value)))], note)
    assert finished.wait(30)
    assert done == [([(shard, offset + 1)], [])]
    return offset


@pytest.fixture
def reading() -> Iterator[Callable[[Path, list[BaseException]], None]]:
    """Reads the log over and over, as another process would, until the test ends."""
    ended = threading.Event()
    threads: list[threading.Thread] = []

    def read(path: Path, errors: list[BaseException]) -> None:
        while not ended.is_set():
            try:
                for shard in (0, 1):
                    found = list(decode(LogReader.open(path).read(shard)))
                    meaning(found)  # checks that offsets ascend
            except BaseException as error:
                errors.append(error)
                return

    def start(path: Path, errors: list[BaseException]) -> None:
        threads.append(threading.Thread(target=read, args=(path, errors)))
        threads[-1].start()

    yield start
    ended.set()
    for thread in threads:
        thread.join()


@pytest.mark.timeout(300)
def test_appends_and_readers_beside_it_lose_nothing(tmp_path, reading):
    path = tmp_path / "data"
    chosen = random.Random(3)
    written: dict[int, dict[bytes, tuple[int, bytes]]] = {0: {}, 1: {}}
    errors: list[BaseException] = []
    how = compaction(monotonic=monotonic_seconds, backoff_ms=0)
    clean_below: set[int] = set()
    with LogDirectory.open(path, partitions=2, segment_bytes=4000, flush="os") as log:
        log.start_compaction(how)
        reading(path, errors)
        started = monotonic_seconds()
        for number in itertools.count():
            if number >= APPENDS and len(clean_below) > 2:  # it was at work
                break
            assert monotonic_seconds() - started < 60
            shard, key = chosen.randrange(2), b"key-%d" % chosen.randrange(40)
            value = None if chosen.random() < 0.1 else b"%d" % number
            offset = append(log, shard, key, value)
            if value is None:
                written[shard].pop(key, None)
            else:
                written[shard][key] = (offset, value)
            clean_below.add(read_cleaner_offsets(path, TOPIC).get(0, 0))
        assert [str(error) for error in errors] == []
        started = monotonic_seconds()
        while log.size_bytes > (number * 70) / 2:
            assert monotonic_seconds() - started < 30
    assert verify(path).sound
    for shard, values in written.items():
        assert meaning(list(decode(LogReader.open(path).read(shard)))).values == values
    # Stopped in the middle, it leaves nothing that another start must put right.
    names = {file.suffix for file in (path / f"{TOPIC}-0").iterdir()}
    assert names <= {".log", ".metadata", ""}


def test_a_file_that_goes_while_a_reader_lists_them_does_not_fail_it(tmp_path):
    path = tmp_path / "data"
    with LogDirectory.open(path, partitions=1, segment_bytes=200, flush="os") as log:
        for number in range(8):
            append(log, 0, b"key-%d" % number, b"value")
    folder = path / f"{TOPIC}-0"
    assert len(list(folder.glob("*.log"))) > 2
    # Its name is listed, and it is gone when it is looked at.
    (folder / f"{0:020}.log.deleted").symlink_to(tmp_path / "gone")
    found = meaning(list(decode(LogReader.open(path).read(0))))
    assert len(found.values) == 8


@pytest.mark.timeout(300)
def test_the_disk_holds_twice_what_is_live_and_two_segments_at_most(tmp_path):
    segment_bytes, keys = 5000, 300
    peak = 0

    def measure() -> None:
        nonlocal peak
        peak = max(peak, sum(file.stat().st_size for file in folder.glob("*.log*")))

    class Measured(Files):
        def write(self, descriptor, data):
            super().write(descriptor, data)
            measure()

        def rename(self, path, name):
            super().rename(path, name)
            measure()

    folder = tmp_path / f"{TOPIC}-0"
    folder.mkdir()
    opened = partition(tmp_path, segment_bytes)
    opened.leader_epoch = 0
    cleaner = LogCleaner(tmp_path, TOPIC, {0: opened}, segment_bytes, compaction(), Measured())
    chosen = random.Random(5)
    batch = records((b"key-%04d" % 0, b"x" * 40))
    live = keys * (HEADER_BYTES + len(batch))
    rolled: list[bool] = []
    opened.rolled = lambda: rolled.append(True)
    for _ in range(4000):
        key = b"key-%04d" % chosen.randrange(keys)
        area = records((key, b"x" * 40))
        opened.prepare([Append(0, opened.next_offset, 1, 0, 0, area)])
        (outcome,) = write_files([opened.request()], False)
        opened.finish(outcome, False)
        measure()
        if rolled:  # as the thread is woken
            rolled.clear()
            while cleaner.clean_dirtiest():
                measure()
    opened.close()
    assert 1.5 * live < peak <= 2 * live + 2 * segment_bytes
    found: list[Batch] = list(decode(LogReader.open(tmp_path).read(0)))
    assert len(meaning(found).values) == keys


def test_a_partition_that_is_read_is_cleaned_afterwards(tmp_path):
    (tmp_path / f"{TOPIC}-0").mkdir()
    opened = partition(tmp_path, 300)
    opened.leader_epoch = 0
    for number in range(20):
        area = records((b"key", b"%d" % number))
        opened.prepare([Append(0, number, 1, 0, 0, area)])
        opened.sync()
    reader = opened.read()
    first = next(reader)
    cleaner = LogCleaner(tmp_path, TOPIC, {0: opened}, 300, compaction())
    cleaning = threading.Thread(target=cleaner.clean_all)
    cleaning.start()
    cleaning.join(0.3)
    assert cleaning.is_alive()
    read = [batch.base_offset for batch in decode([first, *reader])]
    assert read == list(range(20))
    cleaning.join(30)
    assert not cleaning.is_alive()
    assert len(list(decode(opened.read()))) < 20
    opened.close()


def test_closing_gives_up_what_is_under_way(tmp_path):
    """The cleaner may wait for its throttle, or for a reader: it is stopped there too."""
    (tmp_path / f"{TOPIC}-0").mkdir()
    with LogDirectory.open(tmp_path, partitions=1, segment_bytes=3000, flush="os") as log:
        for number in range(200):
            append(log, 0, b"key", b"%d" % number)
        slow = compaction(monotonic=monotonic_seconds, io_max_bytes_per_second=10.0)
        started = monotonic_seconds()
        log.start_compaction(slow)
        while not any(thread.name == "pykcoord-log-cleaner" for thread in threading.enumerate()):
            assert monotonic_seconds() - started < 10
    assert monotonic_seconds() - started < 10
    assert len(list(decode(LogReader.open(tmp_path).read(0)))) == 200
