"""Stores of bad manners: full, forbidden, busy, late, forgetful. What is acknowledged is there
later, and a line names the node, the shard and the object."""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest
from support.asked import METADATA, Asked
from support.hosting import wait_until
from support.one_node import GROUPS, NOT_COORDINATOR, Manners, Node, serving

from pykcoord.cluster.looking import read_cluster
from pykcoord.cluster.timing import Timing
from pykcoord.cluster.topics import SharedTopics
from pykcoord.errors import KcoordError

pytestmark = pytest.mark.client

SILENCE_S = Timing.of("a folder").store_silence_ms / 1000

ANSWERS = {
    "full": OSError(errno.ENOSPC, "No space left on device"),
    "denied": PermissionError(errno.EACCES, "Permission denied"),
    "409": OSError("409 Conflict: ConditionalRequestConflict"),
    "503": OSError("503 Service Unavailable: SlowDown"),
}


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_store_that_takes_nothing_acknowledges_nothing_and_all_goes_on_later(
    answer: str, store: Manners, root: Path, lines: Callable[[], list[str]]
) -> None:
    def fails(kind: str, name: str) -> None:
        if kind == "create":
            raise ANSWERS[answer]

    with serving(store, root) as node:
        store.fails = fails
        for group in GROUPS.values():
            assert node.commit(group, 2) == NOT_COORDINATOR
        (line,) = [line for line in lines() if "fails" in line]
        assert line.startswith("the store of node 1 fails, no commit is acknowledged"), line
        assert "create nodes/" in line, line
        assert str(ANSWERS[answer]) in line, line
        store.fails = lambda kind, name: None
        node.has_all(1)  # and not 2, which nobody was told
        node.commit_all(3)
        wait_until(lambda: any("answers again" in line for line in lines()))
    with Node(store, root, 2) as later:
        later.has_all(3)


def test_a_read_that_hangs_is_not_the_silence_of_the_store(
    store: Manners, root: Path, lines: Callable[[], list[str]]
) -> None:
    """It is done a second time. Nobody asks the node for anything: it does nothing but read."""
    hung: list[float] = []

    def fails(kind: str, name: str) -> None:
        if kind == "read" and name.startswith("cluster/") and not hung:
            hung.append(time.monotonic())
            time.sleep(2 * SILENCE_S)

    def is_spread() -> bool:
        return [len(node.shards) for node in read_cluster(str(root)).nodes] == [1, 1]

    with Node(Manners(root), root, 1), Node(store, root, 2):
        wait_until(is_spread, 60)
        store.fails = fails
        wait_until(lambda: hung, 60)
        time.sleep(2 * SILENCE_S + 1)
        assert [line for line in lines() if "fenced" in line] == []


def test_a_node_that_cannot_write_leads_nothing_where_another_can(
    store: Manners, root: Path
) -> None:
    """It reads all, and is the controller. As over a folder that is read-only there."""

    def fails(kind: str, name: str) -> None:
        if kind == "create":
            raise ANSWERS["denied"]

    def is_spread() -> bool:
        return [len(node.shards) for node in read_cluster(str(root)).nodes] == [1, 1]

    with Node(store, root, 1) as first, Node(Manners(root), root, 2) as second:
        wait_until(is_spread, 60)
        store.fails = fails
        for group in GROUPS.values():
            assert first.commit(group, 2) != 0  # so that it has to write
        second.commit_all(3)
        second.has_all(3)
        store.fails = lambda kind, name: None
        wait_until(is_spread, 60)


def test_a_store_that_lists_late_hides_nothing_from_who_takes_over(
    store: Manners, root: Path
) -> None:
    store.is_late = True
    often = {"pykcoord_cluster_snapshot_interval_ms": 50}
    with serving(store, root, **often) as node:
        for offset in range(2, 9):
            node.commit_all(offset)
        assert store.unlisted
    with Node(store, root, 2, **often) as later:
        later.has_all(8)
        later.commit_all(9)
        later.has_all(9)


def test_a_round_that_is_lost_is_named_and_nothing_behind_it_is_served(
    store: Manners, root: Path, lines: Callable[[], list[str]]
) -> None:
    """Of all shards that its node led: nobody knows whose records were in it."""
    with serving(store, root) as node:
        (journal,) = (root / "nodes").iterdir()
        before = {path.name for path in journal.iterdir()}
        node.commit_all(2)
        node.commit_all(3)  # what is lost last leaves no trace
        written = [path for path in sorted(journal.iterdir()) if path.name not in before]
    lost = next(path for path in written if b"orders" in path.read_bytes())
    content = lost.read_bytes()
    lost.unlink()
    with Node(store, root, 2) as later:
        reason = f"nodes/{journal.name}/{lost.name}: there is no such object"
        named = {f"shard {shard} cannot be led: {reason}" for shard in GROUPS}
        wait_until(lambda: all(any(line.startswith(one) for line in lines()) for one in named))
        for group in GROUPS.values():
            assert later.committed(group) is None
            assert later.commit(group, 8) != 0
        lost.write_bytes(content)
        later.has_all(3)


def test_a_node_that_was_ended_in_front_of_rounds_of_its_own_says_that_they_are_lost(
    store: Manners, root: Path, lines: Callable[[], list[str]]
) -> None:
    """As when a store comes back without what it had taken last: nobody else can know."""
    with serving(store, root) as node:
        (journal,) = (root / "nodes").iterdir()
        incarnation = int(journal.name, 16)
        # What it puts meanwhile comes behind the gap, and is lost with it.
        lost = max(journal.iterdir(), key=lambda path: path.name)
        lost.unlink()
        entry = f"pykcoord-cluster 1\nwriter {1:016x}\ngone {journal.name} {int(lost.name)}\nend\n"
        while not store.create(
            f"cluster/{len([*(root / 'cluster').iterdir()]):012}", entry.encode()
        ):
            pass
        name = f"nodes/{incarnation:016x}/{int(lost.name):012}"
        wait_until(lambda: [line for line in lines() if "has lost what stood there" in line], 60)
        (line,) = [line for line in lines() if "has lost what stood there" in line]
        assert line.startswith(f"the store of node 1 has lost what stood there: rounds {name} to ")
        assert node.error is None


def test_an_entry_of_the_cluster_log_that_is_lost_is_not_put_anew(
    store: Manners, root: Path
) -> None:
    with serving(store, root):
        pass
    entries = sorted((root / "cluster").iterdir())
    assert len(entries) > 1
    content = entries[0].read_bytes()
    entries[0].unlink()
    with Node(store, root, 2) as later:
        assert isinstance(later.error, KcoordError)
        assert str(later.error).startswith(
            f"{root}: cluster/{0:012} is gone, and there are entries"
        )
    assert not entries[0].exists()
    entries[0].write_bytes(content)
    with Node(store, root, 3) as later:
        later.has_all(1)


def test_a_folder_without_hard_links_is_refused(
    store: Manners, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_link(source: str, name: str, **_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted", source, None, name)

    monkeypatch.setattr(os, "link", no_link)
    with Node(store, root) as node:
        assert isinstance(node.error, OSError)
        assert "has no hard links (link(2))" in str(node.error)
        assert ".pykcoord-store" in str(node.error)
    assert [path.name for path in root.rglob("*") if path.is_file()] == []


def test_a_full_disk_leaves_nothing_behind(
    store: Manners, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.create("nodes/first", b"first")

    def no_space(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", no_space)
        with pytest.raises(OSError, match="No space left"):
            store.create("nodes/second", b"second")
    assert [path.name for path in (root / "nodes").iterdir()] == ["first"]
    assert store.create("nodes/second", b"second")


def test_a_node_makes_no_cluster_where_it_is_to_find_one(
    store: Manners, root: Path, lines: Callable[[], list[str]]
) -> None:
    root.mkdir()  # as an empty mount point
    found_only = {"pykcoord_cluster_create_enable": False}
    with Node(store, root, 2, **found_only) as node:
        assert isinstance(node.error, KcoordError)
        assert f"{root}: there is no cluster, and node 2 is to make none" in str(node.error)
    assert [*root.iterdir()] == []
    with serving(store, root):
        (line,) = [line for line in lines() if "there was no cluster" in line]
        assert line.startswith(f"there was no cluster at {root}, node 1 has made one"), line
    with Node(store, root, 2, **found_only) as node:
        node.has_all(1)


def test_an_entry_of_a_later_version_ends_a_node_with_a_line(
    store: Manners, root: Path, lines: Callable[[], list[str]]
) -> None:
    with serving(store, root) as node:
        while not store.folder.create(
            f"cluster/{len([*(root / 'cluster').iterdir()]):012}",
            b"pykcoord-cluster 99\nwriter 1\nfly\nend\n",
        ):
            pass
        wait_until(lambda: node.error, 60)
        assert "has format 99, this version reads" in str(node.error), node.error
    with Node(store, root, 2) as later:
        assert "has format 99, this version reads" in str(later.error), later.error


def test_topics_that_could_not_be_read_are_read_again_unasked(
    store: Manners, root: Path, lines: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the store gave counts as read there: nobody tells of it again."""
    waits = Timing.of(str(root))._replace(topics_seconds=0.3)
    monkeypatch.setattr(Timing, "of", staticmethod(lambda location: waits))
    with serving(store, root) as node:
        topics = SharedTopics(store.folder)
        document = topics.read()
        assert document is not None
        document["topics"]["bills"] = document["topics"]["orders"] | {"topic_id": str(uuid4())}
        newest = f"registry/topics/{topics.version + 1:012}"
        assert store.folder.create(newest, b'{"topics": {"bills": {"partitions": "many"}}}')
        wait_until(lambda: any("topics cannot be read" in line for line in lines()), 60)
        node.commit_all(2)
        store.folder.delete(newest)
        assert store.folder.create(newest, json.dumps(document).encode())
        with Asked(node.address) as asked:

            def is_known() -> bool:
                wanted = {"topics": [{"name": "bills"}], "allow_auto_topic_creation": False}
                (topic,) = asked.ask(METADATA, 4, **wanted).topics
                return topic.error_code.value == 0

            wait_until(is_known, 60)
        node.has_all(2)
