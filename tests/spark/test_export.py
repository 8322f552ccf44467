"""`export`: a shard log becomes a directory that pykcoord and Kafka read."""

from __future__ import annotations

import itertools
import json
import os
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

pytest.importorskip("pyspark")
from pykcoord_spark.__main__ import run
from pykcoord_spark.exporting import export
from support.segments import OWN, unpack

from pykcoord._native import Node
from pykcoord.cli import commands
from pykcoord.config import Config
from pykcoord.log import LogReader
from pykcoord.log.shared import ShardLog, open_logs, open_store

SHARDS = 50


def _log(tmp_path: Path, recorded: str) -> tuple[Path, Path]:
    """A recorded directory, and a shard log of the same records: an entry for each of its reads."""
    source, location = unpack(OWN / recorded, tmp_path / recorded), tmp_path / "log"
    reader = LogReader.open(source)
    for log in open_logs(location, SHARDS):
        chunks = list(reader.read(log.shard))
        if not chunks:
            continue
        assert log.claim("test", 1)
        for batch in itertools.chain.from_iterable(map(_batches, chunks)):
            log.append(batch, _end_offset(batch) - log.next_offset, now_ms=2)
    return source, location


def _batches(chunk: bytes) -> Iterator[bytes]:
    """Whole RecordBatches, one by one."""
    at = 0
    while at < len(chunk):
        end = at + 12 + int.from_bytes(chunk[at + 8 : at + 12], "big")
        yield chunk[at:end]
        at = end


def _end_offset(batch: bytes) -> int:
    """The offset behind the last record."""
    base, last_delta = struct.unpack_from(">q", batch), struct.unpack_from(">i", batch, 23)
    return int(base[0] + last_delta[0] + 1)


def _state(path: Path) -> dict[str, object]:
    """Without names of topics by id: `log state` takes those from folders that are not carried."""
    result = CliRunner().invoke(commands, ["log", "state", "--json", os.fspath(path)])
    assert result.exit_code == 0, result.output
    state: dict[str, object] = json.loads(result.output, object_pairs_hook=_nameless)
    return state


def _nameless(pairs: list[tuple[str, object]]) -> dict[str, object]:
    fields = dict(pairs)
    if "topicId" in fields:
        fields.pop("topicName", None)
    return fields


@pytest.mark.parametrize("recorded", ["classic-1", "consumer-1", "transactions-1"])
def test_a_log_is_carried_whole(
    tmp_path: Path, recorded: str, capsys: pytest.CaptureFixture[str]
) -> None:
    source, location = _log(tmp_path, recorded)
    assert run(["export", str(location), str(tmp_path / "out")]) == 0
    assert f"{SHARDS} partitions" in capsys.readouterr().out
    assert _state(tmp_path / "out") == _state(source)


def test_a_log_that_was_pruned_is_carried_from_its_snapshot(tmp_path: Path) -> None:
    source, location = _log(tmp_path, "classic-1")
    store = open_store(location)
    for shard in range(SHARDS):
        log = ShardLog(store, shard)
        entries = list(log.follow())
        if not entries:
            continue
        loader = Node(Config().native(), 1, bytes(32)).loader()
        for entry in entries[:-1]:
            if entry.batches:
                loader.replay(entry.batches)
        before = ShardLog(store, shard)
        assert len(list(itertools.islice(before.follow(), len(entries) - 1))) == len(entries) - 1
        before.leads = True
        before.snapshot(b"".join(iter(loader.snapshot_chunk, None)))
        store.delete(f"shard-{shard:05}/chunks/{0:012}")
    assert run(["export", str(location), str(tmp_path / "out")]) == 0
    assert _state(tmp_path / "out") == _state(source)


def test_a_log_that_is_pruned_meanwhile_is_carried_as_it_was_read(tmp_path: Path) -> None:
    """A busy log has another beginning when it is read for the second time."""
    source, location = _log(tmp_path, "classic-1")
    store, read = open_store(location), list[int]()

    def prune(shard: int, shards: int) -> None:
        if shard in read:
            for name in store.names(f"shard-{shard:05}/chunks"):
                store.delete(f"shard-{shard:05}/chunks/{name}")
        read.append(shard)

    export(location, tmp_path / "out", progress=prune)
    assert len(read) == 2 * SHARDS
    assert _state(tmp_path / "out") == _state(source)


def test_what_cannot_be_exported_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["export", str(tmp_path / "nothing"), str(tmp_path / "out")]) == 1
    assert "is no shard log" in capsys.readouterr().err
    _, location = _log(tmp_path, "classic-1")
    assert run(["export", str(location), str(tmp_path)]) == 1
    assert "is not empty" in capsys.readouterr().err
    assert run(["export", str(location), str(tmp_path / "out"), "--topic-id", "x"]) == 2
    log = ShardLog(open_store(location), 2)
    assert list(log.follow())
    log.leads = True
    log.snapshot(b"KCR1....")
    open_store(location).delete(f"shard-00002/chunks/{0:012}")
    assert run(["export", str(location), str(tmp_path / "out")]) == 1
    assert "shard 2: the first entries were pruned" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
