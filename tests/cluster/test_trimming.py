"""The cluster log does not only grow: snapshots of it, entries that go, and who comes then."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from support.hosting import wait_until
from support.one_node import Manners, Node, serving

from pykcoord._native import ClusterView
from pykcoord.cluster.looking import ClusterFollower, read_cluster
from pykcoord.cluster.wanting import move
from pykcoord.errors import KcoordError

pytestmark = pytest.mark.client

ENTRIES = 12
"""So many make a snapshot due."""


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries go in seconds instead of hours."""
    monkeypatch.setattr("pykcoord.cluster.member._LOG_ENTRIES", ENTRIES)
    monkeypatch.setattr("pykcoord.cluster.member._TRIM_MS", 4_000)


def numbers(folder: Path) -> list[int]:
    found = [path.name for path in folder.iterdir()] if folder.exists() else []
    return sorted(int(name) for name in found if name.isdigit())


def grow(root: Path) -> None:
    """Have so many entries more as make a snapshot due."""
    cluster = ClusterFollower(str(root))
    for _ in range(ENTRIES):
        move(cluster, [0], 1)


def trimmed(root: Path) -> list[int]:
    """The numbers of the entries that stand, once those below the oldest snapshot are gone."""
    snapshots = root / "cluster-snapshots"

    def is_done() -> bool:
        return numbers(snapshots)[:1] == [gap_end(root)]

    while not is_done():
        before = numbers(snapshots)
        grow(root)
        wait_until(lambda before=before: numbers(snapshots) != before or is_done(), 60)
    return numbers(root / "cluster")


def gap_end(root: Path) -> int:
    """The first entry behind the gap; 0 if there is none."""
    stand = numbers(root / "cluster")
    return next((b for a, b in pairwise(stand) if b != a + 1), 0)


def test_entries_that_are_in_two_snapshots_go_and_nodes_begin_with_one_that_can_be_read(
    store: Manners, root: Path, lines: Callable[[], list[str]]
) -> None:
    with serving(store, root):
        stand = trimmed(root)
        head = stand[: stand.index(gap_end(root))]
        assert head == [*range(len(head))]
        assert "\ntrims\n" in (root / f"cluster/{head[-1]:012}").read_text()
        assert len(numbers(root / "cluster-snapshots")) > 1, "one may turn out to be unreadable"
        with Node(store, root, 2):
            wait_until(lambda: len(read_cluster(str(root)).nodes) == 2, 60)
    snapshots = root / "cluster-snapshots"
    newest = numbers(snapshots)[-1]
    path = snapshots / f"{newest:012}"
    path.write_bytes(path.read_bytes()[:-5])
    with Node(store, root, 3) as node:
        node.has_all(1)
    assert any(line.startswith(f"cluster-snapshots/{newest:012}: ") for line in lines())
    kept = {path: path.read_bytes() for path in snapshots.iterdir()}
    for path in kept:
        path.unlink()
    gone = numbers(root / "cluster").index(gap_end(root))
    with Node(store, root, 4) as node:
        assert isinstance(node.error, KcoordError)
        assert str(node.error).startswith(f"{root}: cluster/{gone:012} is gone, and there are")
    with pytest.raises(KcoordError, match="is gone, and there are entries"):
        read_cluster(str(root))
    for path, content in kept.items():
        path.write_bytes(content)
    with Node(store, root, 5) as node:
        node.has_all(1)


def test_a_snapshot_of_a_later_version_is_no_snapshot() -> None:
    with pytest.raises(ValueError, match="has format 99, this version reads"):
        ClusterView("pykcoord-cluster-snapshot 99\nnext 1\nend\n")


def test_a_node_that_did_not_read_the_log_for_long_begins_anew(
    store: Manners, root: Path, lines: Callable[[], list[str]]
) -> None:
    with serving(store, root) as node:
        silent_until = time.monotonic() + 3.0  # longer than half of what entries stay for

        def fails(kind: str, name: str) -> None:
            if name.startswith("cluster/") and time.monotonic() < silent_until:
                raise OSError("the store does not answer")

        store.fails = fails
        wait_until(lambda: any("may have missed entries" in line for line in lines()), 60)
        node.has_all(1)
