"""The files of a log are readable for its owner and its group, whenever and by whatever code they
are made."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest
from support import segments
from support.compacting import compaction

from pykcoord._native import Node
from pykcoord.config import Config
from pykcoord.log import Append, LogDirectory, Snapshots
from pykcoord.log.transfer import Batch, Target

USUAL_UMASK = 0o022


@pytest.fixture(autouse=True)
def umask() -> Iterator[None]:
    before = os.umask(USUAL_UMASK)
    yield
    os.umask(before)


def assert_private(directory: Path, *names: str) -> None:
    """All of it, and that files of these names (patterns) are among it."""
    paths = [directory, *directory.rglob("*")]
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in paths}
    assert modes == {path: 0o750 if path.is_dir() else 0o640 for path in paths}
    for name in names:
        assert any(path.match(name) for path in paths), name


def append(log: LogDirectory, offset: int) -> None:
    done: Future[object] = Future()
    record = Append(0, offset, 1, 1000, 1001, bytes(80))
    log.append([record], lambda committed, failed: done.set_result((committed, failed)))
    assert done.result(30) == ([(0, offset + 1)], [])


def test_a_new_directory_and_what_is_written_there(tmp_path: Path) -> None:
    with LogDirectory.open(tmp_path / "log", partitions=2, segment_bytes=100) as log:
        for offset in range(3):
            append(log, offset)
        log.state_file("catalogue.json").write({})
    assert_private(
        tmp_path / "log",
        ".lock",
        "catalogue.json",
        "pykcoord.properties",
        "leader-epoch-checkpoint",
        "partition.metadata",
        "00000000000000000000.log",
        "00000000000000000002.log",
    )


def test_snapshots_and_compacted_segments(tmp_path: Path) -> None:
    data = segments.unpack(segments.OWN / "compacted-1", tmp_path / "data")
    for path in [data, *data.rglob("*")]:
        path.chmod(0o750 if path.is_dir() else 0o640)
    node = Node(Config().native(), 3, bytes(32))
    with LogDirectory.open(data, partitions=3, new_loader=node.loader) as log:
        assert log.write_snapshots(Snapshots(node.loader, 1000, 0))
        assert log.compact(compaction())
    assert_private(data, "pykcoord.state", "cleaner-offset-checkpoint")


def test_what_was_cut_as_damaged(tmp_path: Path) -> None:
    data = segments.unpack(segments.OWN / "torn-1-flipped-middle", tmp_path / "data")
    for path in [data, *data.rglob("*")]:
        path.chmod(0o750 if path.is_dir() else 0o640)
    LogDirectory.open(data, partitions=1, on_corruption="truncate").close()
    assert_private(data, "*.corrupt-1")


def test_a_directory_that_is_carried_over(tmp_path: Path) -> None:
    target = Target(tmp_path / "new", 2, bytes(16), 1 << 20)
    target.append(0, [Batch(-1, -1, 1, 1000, 1001, bytes(80))])
    target.seal(own=True)
    target.publish()
    assert_private(tmp_path / "new", "00000000000000000000.log", "pykcoord.properties")


def test_a_stricter_umask_stays_stricter(tmp_path: Path) -> None:
    os.umask(0o077)
    with LogDirectory.open(tmp_path / "log", partitions=1) as log:
        append(log, 0)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "log").rglob("*")}
    assert modes == {0o700, 0o600}


def test_a_directory_that_is_there_keeps_its_permissions(tmp_path: Path) -> None:
    """They are the operator's."""
    (tmp_path / "log").mkdir(0o755)
    with LogDirectory.open(tmp_path / "log", partitions=1):
        assert stat.S_IMODE((tmp_path / "log").stat().st_mode) == 0o755
