"""A node of a cluster in a thread of this process, over a folder that can be bad."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pykcoord._native import partition_of
from pykcoord.cluster.member import MemberOptions, serve_member
from pykcoord.cluster.watched_store import WatchedStore
from pykcoord.config import Config
from pykcoord.log.shared import FolderStore, Store
from support.asked import Asked
from support.hosting import commit_fields, wait_until

__all__ = ["GROUPS", "NOT_COORDINATOR", "SHARDS", "Manners", "Node", "serving"]

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
            pending = asyncio.all_tasks(self._loop)
            for task in pending:
                task.cancel()
            if pending:
                self._loop.run_until_complete(asyncio.wait(pending))
            self._loop.close()

    def _ready(self, address: tuple[str, int], shards: int) -> None:
        self.address = f"{address[0]}:{address[1]}"

    def commit(self, group: str, offset: int) -> int:
        """The error code; that of a coordinator that is elsewhere while the node begins anew."""
        try:
            with Asked(self.address) as at:
                response = at.ask(8, 7, **commit_fields(group, offset))
        except OSError:
            return NOT_COORDINATOR
        return int(response.topics[0].partitions[0].error_code)

    def committed(self, group: str) -> int | None:
        """None: it does not answer for the group."""
        topics = [{"name": "orders", "partition_indexes": (0,)}]
        try:
            with Asked(self.address) as at:
                found = at.ask(9, 7, group_id=group, topics=topics, require_stable=False)
        except OSError:
            return None
        return None if found.error_code else found.topics[0].partitions[0].committed_offset

    def commit_all(self, offset: int) -> None:
        """Of a group of each shard, once it is served."""
        for group in GROUPS.values():
            wait_until(lambda group=group: self.commit(group, offset) == 0, 60)

    def has_all(self, offset: int) -> None:
        """So does each group say that it is."""
        for group in GROUPS.values():
            assert wait_until(lambda group=group: self.committed(group), 60) == offset


@contextmanager
def serving(store: Store, root: Path, **settings: object) -> Iterator[Node]:
    """A node that serves all groups, which have committed 1."""
    with Node(store, root, **settings) as node:
        assert node.error is None, node.error
        node.commit_all(1)
        yield node
