"""A coordinator that starts from snapshots knows what one that reads the whole log knows."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import segments

from pykcoord import Config, Coordinator
from pykcoord._native import Node
from pykcoord.log import LogDirectory, Snapshots, snapshotter
from pykcoord.log.folders import partition_directories
from pykcoord.log.snapshot import SNAPSHOT_FILE, read_covered

SEEDS = (bytes(32), bytes(range(32)))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "recorded" in metafunc.fixturenames:
        folders = segments.folders(metafunc.config)
        metafunc.parametrize("recorded", folders, ids=lambda path: path.name)


def state_of(root: Path, shards: int, *, write: bool, use: bool) -> tuple[list[object], int]:
    """All that the log amounts to, and how many partitions were loaded by way of a snapshot."""
    node = Node({}, shards, SEEDS[write])
    with LogDirectory.open(
        root,
        partitions=shards,
        new_loader=node.loader,
        use_snapshots=use,
        on_corruption="truncate",
    ) as log:
        by_snapshot = sum(one.covered is not None for one in log._loaded.values())
        for shard in range(shards):
            taken = log.take(shard, node.loader)
            node.adopt(shard, taken.loader)
            node.loaded(shard, 1_800_000_000_000, taken.next_offset)
        if write:
            log.write_snapshots(Snapshots(Node({}, 1, SEEDS[0]).loader, 1, 1))
    views = (node.groups, node.offsets, node.unstable)
    return [view(shard) for shard in range(shards) for view in views], by_snapshot


def test_recorded_logs(recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshotter, "_PAUSE_SECONDS", 0)
    root = segments.unpack(recorded, tmp_path / "log")
    shards = max(partition_directories(root)) + 1
    filled = [path.parent for path in root.rglob("*.log") if path.stat().st_size]
    expected, _ = state_of(root, shards, write=True, use=False)
    found, by_snapshot = state_of(root, shards, write=False, use=True)
    assert found == expected
    written = {path.parent for path in root.rglob(SNAPSHOT_FILE)}
    assert by_snapshot == len(written) == len(set(filled))


@pytest.fixture
def committing(tmp_path: Path) -> Iterator[Coordinator]:
    """Writes snapshots all the time."""
    config = Config(
        group_initial_rebalance_delay_ms=0,
        offsets_topic_num_partitions=2,
        pykcoord_snapshot_interval_ms=1,
        pykcoord_snapshot_min_bytes=1,
    )
    with Coordinator(tmp_path, topics={"orders": 4}, config=config) as coordinator:
        yield coordinator


def test_while_it_serves(committing: Coordinator, tmp_path: Path) -> None:
    folders = [tmp_path / f"__consumer_offsets-{shard}" for shard in range(2)]
    offset = 0
    members = [committing.join(f"group-{number}", ["orders"]) for number in range(6)]
    for member in members:
        member.wait()
    while True:
        offset += 1
        for member in members:
            member.commit({("orders", 1): offset})
        known = [read_covered(path).offset for path in folders if (path / SNAPSHOT_FILE).exists()]
        if len(known) == 2 and min(known) > 30:
            break
    for member in members:
        member.close()
    expected = committing.groups(), committing.offsets()
    committing.close()
    again = Coordinator(tmp_path, config=committing.config)
    with again:
        assert (again.groups(), again.offsets()) == expected
        assert set(again.offsets()["offset"].to_pylist()) == {offset}
    assert "pykcoord-snapshot" not in {thread.name for thread in threading.enumerate()}


def test_never(tmp_path: Path) -> None:
    config = Config(pykcoord_snapshot_interval_ms=0, offsets_topic_num_partitions=1)
    with Coordinator(tmp_path, config=config):
        assert "pykcoord-snapshot" not in {thread.name for thread in threading.enumerate()}
