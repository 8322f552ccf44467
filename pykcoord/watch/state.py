"""The state of watched groups, made by replay of `__consumer_offsets` alone: one machine for each
partition, which is fed what the log says and never asked to decide anything.

What changes is told as it comes to those that `observe`: batches with their offsets, and partitions
that begin anew. That is the whole of what a recorder of history needs.
"""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from pykcoord._native import Node, ReplayError, decode_log
from pykcoord.config import Config
from pykcoord.errors import CorruptLogError
from pykcoord.record_fields import assignment_of, subscription_of
from pykcoord.watch import other_groups
from pykcoord.watch.model import WatchedGroup, WatchedMember, WatchedOffset

__all__ = ["Change", "WatchedPartition", "WatchedState"]

logger = logging.getLogger("pykcoord.watch")

# Group ids are hashed by it; what is shown never depends on that.
_SEED = bytes(32)
_CONFIG = Config().native()
_HAS_ARROW = importlib.util.find_spec("pyarrow") is not None


class Change(NamedTuple):
    """News of a partition. `chunk` holds whole uncompressed batches up to `next_offset`, or is None
    where the partition begins anew: all that was told of it before does not hold any more.
    `is_live`: the log's end had been reached before."""

    partition: int
    chunk: bytes | None
    next_offset: int
    is_live: bool


Heard = Callable[[int, bytes | None], None]
"""A partition's number, and a chunk of it; None: the partition begins anew."""


class WatchedPartition:
    """One partition of `__consumer_offsets`. `broken` says why its records are not followed any
    more, if one cannot be read: its groups are as they were then."""

    def __init__(self, number: int, heard: Heard | None = None) -> None:
        self.number = number
        self._heard = heard
        self.version = 0
        self.broken: str | None = None
        self.others: dict[bytes, bytes] = {}
        self._node = Node(_CONFIG, 1, _SEED)
        self._groups: tuple[int, list[WatchedGroup]] = (-1, [])
        self._offsets: tuple[int, list[WatchedOffset]] = (-1, [])

    def replay(self, chunk: bytes) -> None:
        """Applies whole, checked, uncompressed batches. Never raises for what they hold."""
        self.version += 1
        if self.broken is not None:
            return
        try:
            self._node.replay(0, chunk)
            self._keep_others(chunk)
            if self._heard is not None:
                self._heard(self.number, chunk)
        except (ReplayError, CorruptLogError) as error:
            self.broken = str(error)
            logger.error(
                "__consumer_offsets-%d: a record cannot be read: %s; its groups are shown as they "
                "were before it",
                self.number,
                error,
                extra={"event": "broken", "partition": self.number},
            )

    def groups(self, names: Mapping[bytes, str]) -> list[WatchedGroup]:
        """Its groups; `names`: topics by their ids."""
        if self._groups[0] != self.version:
            rows = self._node.groups(0)
            kept = other_groups.by_group(self.others)
            self._groups = self.version, [_group(row, kept.get(row[0], {}), names) for row in rows]
        return self._groups[1]

    def offsets(self) -> list[WatchedOffset]:
        """Its committed offsets."""
        if self._offsets[0] != self.version:
            pending = set(self._node.unstable(0))
            self._offsets = (
                self.version,
                [
                    WatchedOffset(
                        group, topic, index, offset, epoch, metadata, committed_ms, topic_id,
                        (group, topic, index) in pending,
                    )
                    for group, topic, index, offset, epoch, metadata, committed_ms, _, topic_id
                    in self._node.offsets(0)
                ],
            )  # fmt: skip
        return self._offsets[1]

    def forget_rows(self) -> None:
        """What was made of the state is made again, as when names of topics change."""
        self._groups = (-1, [])

    def _keep_others(self, chunk: bytes) -> None:
        """Records of share and streams groups, which the machine does not interpret. Finding them
        wants pyarrow: without it such groups are shown without their members."""
        if not _HAS_ARROW:
            return
        kinds = decode_log(self.number, [chunk], 0, 2**63 - 1, ["kind"])["kind"]
        if not any(map(other_groups.is_other, kinds.unique().to_pylist())):
            return
        columns = ["kind", "key", "value"]
        rows = decode_log(self.number, [chunk], 0, 2**63 - 1, columns)
        for kind, key, value in zip(*(rows[name].to_pylist() for name in columns), strict=True):
            if not other_groups.is_other(kind):
                continue
            if value is None:
                self.others.pop(key, None)
            else:
                self.others[key] = value


class WatchedState:
    """All partitions. `names` are topics by their ids, as the cluster has them."""

    def __init__(self) -> None:
        self.partitions: dict[int, WatchedPartition] = {}
        self.names: dict[bytes, str] = {}
        self.heard: Heard | None = None
        """Is told of each chunk that is replayed, also of what a directory holds: to be set before
        the first partition begins."""
        self._observers: list[Callable[[Change], None]] = []

    @property
    def version(self) -> tuple[int, ...]:
        """Equal as long as nothing changed."""
        return tuple(one.version for one in self.partitions.values())

    def observe(self, observer: Callable[[Change], None]) -> None:
        """Calls `observer` with each change from now on, after it was applied."""
        self._observers.append(observer)

    def begin(self, number: int) -> WatchedPartition:
        """A partition without any records, in place of what was there."""
        known = self.partitions.get(number)
        if self.heard is not None:
            self.heard(number, None)
        fresh = self.partitions[number] = WatchedPartition(number, self.heard)
        if known is not None:
            fresh.version = known.version + 1
            self._tell(Change(number, None, 0, False))
        self.partitions = dict(sorted(self.partitions.items()))
        return fresh

    def apply(self, number: int, chunks: Iterable[bytes], next_offset: int, is_live: bool) -> None:
        """Replays batches of a partition that end at `next_offset`, and tells of them."""
        partition = self.partitions[number]
        for chunk in chunks:
            partition.replay(chunk)
            if self._observers:
                self._tell(Change(number, chunk, next_offset, is_live))

    def set_names(self, names: dict[bytes, str]) -> None:
        """Takes the names of topics."""
        if names != self.names:
            self.names = names
            for partition in self.partitions.values():
                partition.forget_rows()

    def groups(self) -> list[WatchedGroup]:
        """All groups, in the order of their ids."""
        found = [one for part in self.partitions.values() for one in part.groups(self.names)]
        return sorted(found, key=lambda group: group.group_id)

    def offsets(self) -> list[WatchedOffset]:
        """All committed offsets, in the order of group, topic and partition."""
        found = [one for part in self.partitions.values() for one in part.offsets()]
        return sorted(found)

    def _tell(self, change: Change) -> None:
        for observer in self._observers:
            observer(change)


def _group(
    row: tuple[Any, ...], others: Mapping[bytes, bytes], names: Mapping[bytes, str]
) -> WatchedGroup:
    group_id, kind, state, _, generation, protocol, _, _, members, of = row
    if kind in ("share", "streams"):
        return other_groups.group_of(group_id, kind, state, others, names)
    if of is not None:
        shown = [_consumer(member, names) for member in members]
        return WatchedGroup(
            group_id, "consumer", state, of["group_epoch"], of["assignor_name"] or "", shown
        )
    epoch = None if kind == "simple" else generation
    return WatchedGroup(
        group_id, "classic", state, epoch, protocol or "", [_classic(one) for one in members]
    )


def _classic(member: tuple[Any, ...]) -> WatchedMember:
    member_id, instance_id, client_id, client_host, _, _, metadata, owned, _ = member
    assignment = assignment_of(owned) if owned else None
    subscription = subscription_of(metadata) if metadata else None
    return WatchedMember(
        member_id, instance_id, client_id, client_host, None,
        assignment["partitions"] if assignment else {},
        sorted(subscription["topics"]) if subscription else [],
    )  # fmt: skip


def _consumer(member: tuple[Any, ...], names: Mapping[bytes, str]) -> WatchedMember:
    member_id, instance_id, client_id, client_host, *_, of = member
    owned: dict[str, list[int]] = {}
    for topic_id, partitions in (*of["assigned"], *of["pending_revocation"]):
        name = names.get(topic_id, topic_id.hex())
        owned[name] = sorted([*owned.get(name, ()), *partitions])
    return WatchedMember(
        member_id, instance_id, client_id, client_host, of["member_epoch"], owned,
        sorted(of["subscribed_topic_names"] or ()),
    )  # fmt: skip
