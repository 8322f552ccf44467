"""The fault points by name: every way in which the server changes its disk.

Must stay whole: a change of the disk that no point names, or a cell that no operation passes,
fails test_matrix.py.
"""

from __future__ import annotations

import fnmatch
from typing import NamedTuple

_PARTITION = "data/__consumer_offsets-*"


class Point(NamedTuple):
    """A system call on a path (a shell pattern, see faults.c), and its purpose."""

    name: str
    call: str
    pattern: str
    about: str

    def rule(self, moment: str, action: str, nth: str = "1") -> str:
        return f"{nth} {self.call} {self.pattern} {moment} {action}"


def _replaced(name: str, path: str, about: str) -> list[Point]:
    """A small file that is written beside, synced and renamed."""
    return [
        Point(f"{name}.create", "create", f"{path}.tmp", f"{about}: a new file beside it"),
        Point(f"{name}.write", "write", f"{path}.tmp", f"{about}: its content"),
        Point(f"{name}.sync", "sync", f"{path}.tmp", f"{about}: the content made durable"),
        Point(f"{name}.rename", "rename", path, f"{about}: put in place"),
    ]


POINTS = {
    point.name: point
    for point in [
        Point("directory.create", "mkdir", "data", "the data directory"),
        Point("directory.sync", "sync-directory", "data", "names in the data directory"),
        Point("parent.sync", "sync-directory", ".", "the name of the data directory"),
        Point("lock.create", "create", "data/.lock", "the lock file"),
        Point("lock.truncate", "truncate", "data/.lock", "the last holder's process id goes"),
        Point("lock.write", "write", "data/.lock", "the holder's process id"),
        *_replaced("properties", "data/pykcoord.properties", "the leader epoch of this start"),
        *_replaced("catalogue", "data/catalogue.json", "topics and cluster id"),
        Point("partition.create", "mkdir", _PARTITION, "a partition's folder"),
        Point("partition.sync", "sync-directory", _PARTITION, "names of segments"),
        *_replaced("metadata", f"{_PARTITION}/partition.metadata", "the topic's id"),
        *_replaced("epochs", f"{_PARTITION}/leader-epoch-checkpoint", "epochs of the partition"),
        *_replaced("snapshot", f"{_PARTITION}/pykcoord.state", "the state beside the log"),
        Point("segment.create", "create", f"{_PARTITION}/{0:020d}.log", "the first segment"),
        Point("segment.write", "write", f"{_PARTITION}/*.log", "batches"),
        Point("segment.sync", "sync", f"{_PARTITION}/*.log", "batches made durable"),
        Point("segment.truncate", "truncate", f"{_PARTITION}/*.log", "what does not count is cut"),
        Point("roll.create", "create", f"{_PARTITION}/*[1-9]*.log", "the next segment"),
        Point("aside.create", "create", f"{_PARTITION}/*.log.corrupt-*", "a copy of damage"),
        Point("aside.write", "write", f"{_PARTITION}/*.log.corrupt-*", "a copy of damage"),
        Point("aside.sync", "sync", f"{_PARTITION}/*.log.corrupt-*", "a copy of damage"),
        Point("aside.rename", "rename", f"{_PARTITION}/*.log.corrupt-*", "segments behind damage"),
        Point("cleaned.create", "create", f"{_PARTITION}/*.log.cleaned", "a compacted segment"),
        Point("cleaned.write", "write", f"{_PARTITION}/*.log.cleaned", "what is left of batches"),
        Point("cleaned.sync", "sync", f"{_PARTITION}/*.log.cleaned", "it is durable"),
        Point("cleaned.rename", "rename", f"{_PARTITION}/*.log.swap", "it counts from now on"),
        Point("replaced.rename", "rename", f"{_PARTITION}/*.log.deleted", "what it replaces goes"),
        *_replaced("cleaner", "data/cleaner-offset-checkpoint", "how far compaction got"),
        Point("swap.rename", "rename", f"{_PARTITION}/*.log", "a compacted segment put in place"),
        Point("swap.unlink", "unlink", f"{_PARTITION}/*.log", "a segment that it replaces"),
        Point("leftover.unlink", "unlink", f"{_PARTITION}/*.log.*", "what a compaction left"),
        Point("index.unlink", "unlink", f"{_PARTITION}/*index*", "Kafka's indexes"),
        Point("clean-stop.unlink", "unlink", "data/.kafka_cleanshutdown", "Kafka's clean stop"),
    ]
}


def name_of(call: str, path: str) -> str | None:
    """The point that a change of the journal passed."""
    for point in POINTS.values():
        if point.call == call and fnmatch.fnmatchcase(path, point.pattern):
            return point.name
    return None
