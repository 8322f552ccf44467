"""The directory of a node of a Kafka cluster: the replicas that it has, and `node.json`, which says
who it is there. Locked from `open` to `close`.
"""

from __future__ import annotations

import logging
import shutil
import uuid
from pathlib import Path
from typing import NamedTuple, Self

from pykcoord.errors import LogError
from pykcoord.log import checkpoint
from pykcoord.log.checkpoint import Properties
from pykcoord.log.durable import sync_directory
from pykcoord.log.folders import TOPIC, partition_directories
from pykcoord.log.lock import DirectoryLock, locked
from pykcoord.log.replica import ReplicaLog
from pykcoord.log.state_file import StateFile

__all__ = ["NodeState", "ReplicaDirectory"]

logger = logging.getLogger("pykcoord.log")

NODE_FILE = "node.json"


class NodeState(NamedTuple):
    """Who a node is: `broker_epoch` is that of its last registration, -1: never. `is_damaged`: a
    replica was cut at a start since then, and may lack what was acknowledged."""

    cluster_id: str
    node_id: int
    directory_id: str
    topic_id: str
    partitions: int
    broker_epoch: int = -1
    is_damaged: bool = False

    @property
    def kept_epoch(self) -> int:
        """The last broker epoch of which nothing was lost, -1: none (KIP-966)."""
        return -1 if self.is_damaged else self.broker_epoch


class ReplicaDirectory:
    """`state` is None until `begin`. `logs` are the replicas that are open."""

    def __init__(self, path: Path, lock: DirectoryLock, segment_bytes: int) -> None:
        self.path = path
        self.logs: dict[int, ReplicaLog] = {}
        self._lock = lock
        self._segment_bytes = segment_bytes
        self._file = StateFile(path / NODE_FILE)
        self.state = self._read()

    @classmethod
    def open(cls, path: Path, segment_bytes: int) -> Self:
        """Locks the directory, which is made if it is missing. Raises LogLockedError, LogError for
        one that is of something else, OSError."""
        return locked(path, lambda path, lock: cls(path, lock, segment_bytes))

    def check(self, cluster_id: str, node_id: int) -> None:
        """Raises LogError where the directory is of another cluster or node."""
        known = self.state
        if known is None:
            return
        for name, has, wanted in (
            ("cluster", known.cluster_id, cluster_id), ("node", known.node_id, node_id),
        ):  # fmt: skip
            if has != wanted:
                raise LogError(
                    f"{self.path}: it is of {name} {has}, not of {name} {wanted}: name another "
                    "directory"
                )

    def begin(
        self,
        cluster_id: str,
        node_id: int,
        topic_id: uuid.UUID,
        partitions: int,
        directory_id: str,
    ) -> None:
        """It is of this node from now on, or was already. Raises LogError where it is of another
        one, OSError."""
        self.check(cluster_id, node_id)
        known = self.state
        if known is not None and known.topic_id != str(topic_id):
            self._forget_replicas()
        fresh = NodeState(
            cluster_id, node_id, directory_id, str(topic_id), partitions,
            known.broker_epoch if known else -1, known is not None and known.is_damaged,
        )  # fmt: skip
        if fresh != known:
            self._write(fresh)
        properties = Properties(partitions, -1, topic_id.bytes)
        checkpoint.write_properties(self.path, properties)

    def keep_epoch(self, broker_epoch: int) -> None:
        """Writes down the epoch of the registration. Raises OSError."""
        assert self.state is not None
        self._write(self.state._replace(broker_epoch=broker_epoch, is_damaged=False))

    def open_log(self, number: int) -> ReplicaLog:
        """The replica's log, opened if it is not; what is damaged in it is cut, and fetched again.
        Raises LogError, OSError."""
        assert self.state is not None
        if (known := self.logs.get(number)) is not None:
            return known
        opened = ReplicaLog.open(
            self._folder(number), uuid.UUID(self.state.topic_id).bytes, self._segment_bytes, _pass
        )
        assert isinstance(opened, ReplicaLog)
        if opened.cut is not None:
            # A torn tail, which was never acknowledged, looks as a last batch that the disk lost.
            logger.warning("%s", opened.cut, extra={"event": "cut", "partition": number})
            self._write(self.state._replace(is_damaged=True))
        self.logs[number] = opened
        return opened

    def begin_anew(self, number: int, offset: int) -> ReplicaLog:
        """The replica without what it held, from `offset` on."""
        self.drop(number)
        log = self.open_log(number)
        log.next_offset = offset
        return log

    def drop(self, number: int) -> None:
        """Deletes a replica: the cluster has given it to others. Raises OSError."""
        if (known := self.logs.pop(number, None)) is not None:
            known.close()
        if (folder := self._folder(number)).exists():
            shutil.rmtree(folder)
            sync_directory(self.path)

    def on_disk(self) -> list[int]:
        """The numbers of the replicas that have a folder."""
        return sorted(partition_directories(self.path))

    def close(self) -> None:
        """Syncs, closes and unlocks. Raises OSError."""
        try:
            for log in self.logs.values():
                log.close()
            self.logs.clear()
        finally:
            self._lock.close()

    def _folder(self, number: int) -> Path:
        return self.path / f"{TOPIC}-{number}"

    def _forget_replicas(self) -> None:
        for number in self.on_disk():
            self.drop(number)

    def _write(self, state: NodeState) -> None:
        self._file.write(state._asdict())
        self.state = state

    def _read(self) -> NodeState | None:
        document = self._file.read()
        if document is None:
            if partition_directories(self.path) or checkpoint.read_properties(self.path):
                raise LogError(
                    f"{self.path}: a data directory that is not of a node of a Kafka cluster; name "
                    "another one"
                )
            return None
        try:
            return NodeState(**document)
        except TypeError:
            raise LogError(
                f"{self._file.path}: not what was written there; move the directory away, and the "
                "node fetches its replicas again"
            ) from None


def _pass(chunk: bytes) -> None:
    """What is read at the opening is checked, and not kept."""
