"""The records of a log, carried into another: what is left of each partition, placed by the hash of
its group, and the proof that both amount to the same. Must never write into the source.

`Source` and `Target` are the directories that `pykcoord log import` and `export` read and write;
what else has chunks of batches by partition is carried in the same way (`Chunks`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from pykcoord._native import LiveRecords, Node, ReplayError, partition_of
from pykcoord.config import Config
from pykcoord.errors import LogError
from pykcoord.log import LogReader
from pykcoord.log.transfer import Batch, Source, Target

__all__ = [
    "Amount", "Chunks", "NumberedChunks", "Source", "Target",
    "amount_at", "amount_of", "carry", "difference", "readable",
]  # fmt: skip

# Group ids are hashed by it; what is compared never depends on that.
_SEED = bytes(32)
_CARRIED_AT_ONCE = 64


class Chunks(Protocol):
    """What holds the records of partitions."""

    def read(self, partition: int, /) -> Iterator[bytes]:
        """Chunks of whole, checked, uncompressed batches, in order; each time the same."""


class NumberedChunks(Chunks, Protocol):
    """The same, of a topic with so many `partitions`."""

    @property
    def partitions(self) -> int:
        """The number of partitions of the topic."""


@dataclass
class Amount:
    """What a log amounts to: two logs of equal amounts give the same groups and offsets.

    `groups` maps a group id to a digest of its state, `types` a type of group to the number of
    such groups, `others` the key of a record that is not interpreted to a digest of its value,
    `pending` a group id to its offsets of open transactions. `members` and `offsets` are counts of
    all groups.
    """

    groups: dict[str, bytes] = field(default_factory=dict)
    types: dict[str, int] = field(default_factory=dict)
    others: dict[bytes, bytes] = field(default_factory=dict)
    members: int = 0
    offsets: int = 0
    pending: dict[str, int] = field(default_factory=dict)


def carry(
    source: NumberedChunks,
    target: Target,
    *,
    topic_ids: Iterable[bytes],
    keep_open: bool,
    progress: Callable[[int], None],
) -> None:
    """Writes what is left of `source` into `target`. `topic_ids` (16 bytes each): those that
    offsets keep. `keep_open`: whether offsets of transactions that have not ended are carried as
    pending.

    `progress` gets the size of each chunk in bytes. Raises LogError for a record that cannot be
    read.
    """
    kept_ids = list(topic_ids)
    for number in range(source.partitions):
        live = LiveRecords()
        for chunk in source.read(number):
            with readable(number):
                live.add(chunk)
            progress(len(chunk))
        unknown = number % target.partitions
        batches: dict[int, list[Batch]] = {}
        for run in live.take_runs(target.partitions, unknown, kept_ids, keep_open):
            partition = run[0]
            waiting = batches.setdefault(partition, [])
            waiting.append(Batch(*run[1:]))
            if len(waiting) == _CARRIED_AT_ONCE:
                target.append(partition, batches.pop(partition))
        for partition, rest in batches.items():
            target.append(partition, rest)


def amount_of(
    log: Chunks, partitions: int, with_pending: bool, progress: Callable[[int], None]
) -> Amount:
    """What the log amounts to after replay. Raises LogError for a record that cannot be applied,
    and for a group that lies in another partition than its own of `partitions`."""
    amount = Amount()
    config = Config().native()
    for number in range(partitions):
        node, live = Node(config, 1, _SEED), LiveRecords()
        for chunk in log.read(number):
            with readable(number):
                node.replay(0, chunk)
            live.add(chunk)
            progress(len(chunk))
        _add(amount, node, number, partitions, with_pending)
        for key, value in live.uninterpreted().items():
            amount.others[key] = hashlib.blake2b(value, digest_size=16).digest()
    return amount


def amount_at(path: Path, partitions: int, with_pending: bool) -> Amount:
    """What the directory at `path` amounts to, read from the disk. Raises as `amount_of`, and
    CorruptLogError."""
    return amount_of(LogReader.open(path), partitions, with_pending, lambda _: None)


def difference(source: Amount, target: Amount) -> str | None:
    """One thing that is not the same in both, or None."""
    for group in sorted(source.groups.keys() | target.groups.keys()):
        if source.groups.get(group) != target.groups.get(group):
            return f"group {group!r}"
    for key in sorted(source.others.keys() | target.others.keys()):
        if source.others.get(key) != target.others.get(key):
            return f"the record of key {key.hex()}"
    return None


def _add(amount: Amount, node: Node, number: int, partitions: int, with_pending: bool) -> None:
    rows = {row[0]: (row[1], [repr(row)]) for row in node.groups(0)}
    for group, *committed in node.offsets(0):
        rows[group][1].append(repr(committed[:-1]))  # without the topic id
        amount.offsets += 1
    for group, topic, partition in node.unstable(0):
        amount.pending[group] = amount.pending.get(group, 0) + 1
        if with_pending:
            rows[group][1].append(repr((topic, partition)))
    for group, (kind, parts) in rows.items():
        if kind == "simple" and len(parts) == 1:
            continue  # nothing in the log says that it is there
        if (right := partition_of(group, partitions)) != number:
            raise LogError(
                f"__consumer_offsets-{number}: holds group {group!r}, whose place is partition "
                f"{right} of {partitions}; the topic has another number of partitions: say "
                "which with --source-partitions"
            )
        digest = hashlib.blake2b("\n".join(parts).encode("utf-8", "surrogatepass"), digest_size=16)
        amount.groups[group] = digest.digest()
        shown = "classic" if kind == "simple" else kind
        amount.types[shown] = amount.types.get(shown, 0) + 1
    amount.members += sum(len(row[8]) for row in node.groups(0))


@contextmanager
def readable(number: int) -> Iterator[None]:
    """Within it, a record of this partition that cannot be read is a LogError that says where."""
    try:
        yield
    except ReplayError as error:
        raise LogError(
            f"__consumer_offsets-{number}: offset {error.offset}: {error.reason}; "
            "`pykcoord log dump` shows the records before it"
        ) from None
