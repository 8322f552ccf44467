"""Stores of bad manners: full, forbidden, busy, late, forgetful. What is acknowledged is there
later, and a line names the node, the shard and the object."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.asked import Asked
from support.hosting import commit_fields, wait_until

from pykcoord._native import partition_of
from pykcoord.cluster.member import MemberOptions, serve_member
from pykcoord.cluster.watched_store import WatchedStore
from pykcoord.config import Config
from pykcoord.errors import KcoordError
from pykcoord.log.shared import FolderStore, Store

pytestmark = pytest.mark.client

NOT_COORDINATOR = 16
SHARDS = 2
GROUPS = {partition_of(f"g{n}", SHARDS): f"g{n}" for n in range(20)}  # one of each shard


class Manners:
    """A folder that can be bad: `fails(kind, name)` raises, `unlisted` names are not listed."""

    def __init__(self, root: Path) -> None:
        self.folder = FolderStore(root)
        self.fails: Callable[[str, str], None] = lambda kind, name: None
        self.is_late = False
        self.unlisted: set[str] = set()

    def create(self, name: str, content: bytes) -> bool:
        self.fails("create", name)
        if self.is_late:
            self.unlisted.add(name)
        return self.folder.create(name, content)

    def read(self, name: str) -> bytes | None:
        self.fails("read", name)
        return self.folder.read(name)

    def names(self, folder: str) -> list[str]:
        self.fails("names", folder)
        return [
            name for name in self.folder.names(folder) if f"{folder}/{name}" not in self.unlisted
        ]

    def delete(self, name: str) -> None:
        self.fails("delete", name)
        self.folder.delete(name)


class Node:
    """A node in a thread of this process."""

    def __init__(self, store: Store, location: Path, node_id: int = 1, **settings: object) -> None:
        self.address = ""
        self.error: BaseException | None = None
        self._config = Config(
            group_initial_rebalance_delay_ms=0,
            offsets_topic_num_partitions=SHARDS,
            node_id=node_id,
            **settings,  # type: ignore[arg-type]
        )
        self._store = store
        self._location = str(location)
        self._loop = asyncio.new_event_loop()
        self._asked: asyncio.Future[str] = self._loop.create_future()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Node:
        self._thread.start()
        wait_until(lambda: self.address or self.error, 60)
        return self

    def __exit__(self, *raised: object) -> None:
        self.end()

    def end(self, how: str = "at once") -> None:
        """As a kill does: without giving anything to others."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._end, how)
        self._thread.join(60)
        assert not self._thread.is_alive()

    def _end(self, how: str) -> None:
        if not self._asked.done():
            self._asked.set_result(how)

    def _run(self) -> None:
        nowhere = ("127.0.0.1", 0)
        options = MemberOptions(self._location, nowhere, nowhere, topics={"orders": 1})
        store = WatchedStore(self._store, self._config.node_id)
        serving = serve_member(
            self._config, options, self._asked, self._ready, store=store, at_once=("at once",)
        )
        try:
            self._loop.run_until_complete(serving)
        except Exception as error:
            self.error = error
        finally:
            self._loop.close()

    def _ready(self, address: tuple[str, int], shards: int) -> None:
        self.address = f"{address[0]}:{address[1]}"

    def commit(self, group: str, offset: int) -> int:
        """The error code."""
        with Asked(self.address) as at:
            response = at.ask(8, 7, **commit_fields(group, offset))
            return int(response.topics[0].partitions[0].error_code)

    def committed(self, group: str) -> int | None:
        """None: it does not answer for the group."""
        topics = [{"name": "orders", "partition_indexes": (0,)}]
        with Asked(self.address) as at:
            found = at.ask(9, 7, group_id=group, topics=topics, require_stable=False)
        return None if found.error_code else found.topics[0].partitions[0].committed_offset

    def commit_all(self, offset: int) -> None:
        """Of a group of each shard, once it is served."""
        for group in GROUPS.values():
            wait_until(lambda group=group: self.commit(group, offset) == 0, 60)

    def has_all(self, offset: int) -> None:
        """So does each group say that it is."""
        for group in GROUPS.values():
            assert wait_until(lambda group=group: self.committed(group), 60) == offset


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def store(root: Path) -> Manners:
    return Manners(root)


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], list[str]]]:
    with caplog.at_level(logging.INFO, "pykcoord.cluster"):
        yield lambda: [record.getMessage() for record in caplog.records]


@contextmanager
def serving(store: Store, root: Path, **settings: object) -> Iterator[Node]:
    """A node that serves all groups, which have committed 1."""
    with Node(store, root, **settings) as node:
        assert node.error is None, node.error
        node.commit_all(1)
        yield node


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
