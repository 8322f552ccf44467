"""`pykcoord log compact` on the data directory of a server that has stopped."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import pytest
from support.batches import decode

from pykcoord.cli import run
from pykcoord.log import Append, LogDirectory, LogReader

RECORDS = [
    bytes([2 * len(body)]) + body
    for body in (b"\0\0\0\x06\0\1a\x02" + value + b"\0" for value in (b"1", b"2", b"3"))
]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Three values of one key, in one batch each."""
    with LogDirectory.open(tmp_path / "data", partitions=2) as log:
        for offset, record in enumerate(RECORDS):
            done = threading.Event()
            log.append([Append(1, offset, 1, 5, 5, record)], lambda *_, d=done: d.set())
            assert done.wait(60)
    return tmp_path / "data"


def test_the_last_segment_is_compacted_too_and_written_on(directory, capsys):
    assert run(["log", "compact", str(directory)]) == 0
    told = capsys.readouterr().out
    assert "shard 1: 1 of 3 records stay" in told
    sizes = re.search(rf"{re.escape(str(directory))}: (\d+) bytes before, (\d+) bytes now", told)
    assert sizes is not None, told
    assert int(sizes[1]) > int(sizes[2]) > 0
    found = list(decode(LogReader.open(directory).read(1)))
    assert [record.value for batch in found for record in batch.records] == [b"3"]
    with LogDirectory.open(directory, partitions=2) as log:
        assert log.next_offset(1) == 3
    assert run(["log", "compact", str(directory)]) == 0
    assert "shard" not in capsys.readouterr().out
    assert list(decode(LogReader.open(directory).read(1))) == found


def test_a_directory_in_use_is_refused(directory, capsys):
    with LogDirectory.open(directory, partitions=2):
        assert run(["log", "compact", str(directory)]) == 1
    assert "in use" in capsys.readouterr().err


def test_what_is_no_data_directory_is_refused(tmp_path, capsys):
    assert run(["log", "compact", str(tmp_path)]) == 1
    assert "no data directory" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_number_of_partitions_that_nothing_tells_is_not_guessed(directory, capsys):
    (directory / "pykcoord.properties").unlink()
    (directory / "__consumer_offsets-0").rmdir()
    before = sorted(directory.rglob("*"))
    assert run(["log", "compact", str(directory)]) == 1
    assert "let `pykcoord serve` open it once" in capsys.readouterr().err
    assert sorted(directory.rglob("*")) == before
