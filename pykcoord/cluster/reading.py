"""The records of a shard, in their order: of its newest snapshot, then of the rounds behind it."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from pykcoord.log.shared.entry import CorruptEntryError, Snapshot, decode_snapshot
from pykcoord.log.shared.rounds import Part, read_round, round_name, snapshots_name
from pykcoord.log.shared.store import Store

__all__ = ["Piece", "Stretch", "read_pieces", "read_shard"]

logger = logging.getLogger("pykcoord.cluster")


class Stretch(NamedTuple):
    """What one leadership of a shard wrote, in `epoch`: its records are in the rounds of the
    journal of `incarnation` from `start` on, below `end`; None: as far as it is written. Those that
    were in rounds below `needed` are in snapshots alone."""

    incarnation: int
    epoch: int
    start: int
    end: int | None
    needed: int = 0


class Piece(NamedTuple):
    """Whole RecordBatches, `content`, of the object `name`; the record behind them has
    `next_offset`. `is_snapshot`: they stand for all before them."""

    name: str
    content: bytes
    next_offset: int
    is_snapshot: bool


def read_pieces(
    store: Store,
    shard: int,
    lineage: Sequence[Stretch],
    parts_of: Callable[[int, int], Sequence[Part] | None],
) -> Iterator[Piece]:
    """All of a shard. `lineage` are its stretches, the oldest first; `parts_of` is what a round of
    a journal has, by incarnation and number, and None where the journal ends. Raises
    CorruptEntryError for what is not as it was written, and what the store raises."""
    offset, known = 0, _newest_snapshot(store, shard, lineage)
    if known is not None:
        snapshot, name, _ = known
        offset = snapshot.next_offset
        yield Piece(name, snapshot.content, offset, is_snapshot=True)
    for stretch in lineage:
        covered = 0
        if known is not None:
            if stretch.epoch < known[0].epoch:
                continue
            if stretch.epoch == known[0].epoch:
                covered = known[2]
        if covered < stretch.needed:
            raise CorruptEntryError(
                snapshots_name(shard),
                f"no snapshot that can be read has the records of epoch {stretch.epoch}, whose "
                f"rounds below {stretch.needed} are deleted",
            )
        for index in _numbers(max(stretch.start, covered), stretch.end):
            parts = parts_of(stretch.incarnation, index)
            if parts is None:
                break
            for part in parts:
                if (part.shard, part.epoch) != (shard, stretch.epoch):
                    continue
                name = round_name(stretch.incarnation, index)
                if part.base_offset != offset:
                    reason = f"shard {shard} goes on at offset {part.base_offset}, not at {offset}"
                    raise CorruptEntryError(name, reason)
                offset = part.next_offset
                yield Piece(name, part.batches, offset, is_snapshot=False)


def read_shard(store: Store, shard: int, lineage: Sequence[Stretch]) -> Iterator[Piece]:
    """All of a shard that is written by now, for who leads nothing. Raises as `read_pieces`."""
    ends = {one.incarnation: one.end for one in lineage}

    def parts_of(incarnation: int, index: int) -> Sequence[Part] | None:
        found = read_round(store, incarnation, index)
        if found is None and ends[incarnation] is not None:
            raise CorruptEntryError(round_name(incarnation, index), "there is no such object")
        return None if found is None or found.fenced_by is not None else found.parts

    return read_pieces(store, shard, lineage, parts_of)


def _numbers(start: int, end: int | None) -> Iterable[int]:
    return itertools.count(start) if end is None else range(start, end)


def _newest_snapshot(
    store: Store, shard: int, lineage: Sequence[Stretch]
) -> tuple[Snapshot, str, int] | None:
    """The newest snapshot that can be read, its name, and the number of the first round that is not
    in it."""
    epochs = {stretch.epoch for stretch in lineage}
    for of_folder in reversed(store.names(snapshots_name(shard))):
        epoch, _, index = of_folder.partition("-")
        name = f"{snapshots_name(shard)}/{of_folder}"
        content = store.read(name) if int(epoch) in epochs else None
        if content is None:
            continue
        try:
            return decode_snapshot(name, content), name, int(index)
        except CorruptEntryError as error:
            logger.error("%s", error)
    return None
