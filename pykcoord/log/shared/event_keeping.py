"""Keeps events of the shards that a node leads in a store that nodes share, and has them become
few and large objects: see `pykcoord.log.shared.events`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence

from pykcoord.log.event_keeping import Cut
from pykcoord.log.event_shares import EventShares
from pykcoord.log.events import (
    EventLimits,
    EventRecord,
    Kept,
    Merge,
    Records,
    batches_from,
    decode_batches,
    encode_batches,
    merged,
)
from pykcoord.log.shared.events import Flush, Piece, flushes, pieces, read_parts
from pykcoord.log.shared.rounds import Part, Round
from pykcoord.log.shared.store import Store

__all__ = ["ObjectKeeper"]

# So many flushes become pieces, and so many small pieces a larger one.
_FLUSHES = 16
_SMALL_PIECES = 8
_FLUSHED_BYTES = 4 << 20
# A flush that waits for so long becomes pieces all the same, also one of a node that is gone.
_OWN_MS = 5 * 60_000
_ANY_MS = 10 * 60_000
_LOOK_MS = 10 * 60_000
_MOST_PIECES = 1_000
_EPOCH_BITS = 32


class ObjectKeeper:
    """See `pykcoord.log.event_keeping.EventKeeper`. `incarnation` is of this process alone, and
    epochs of a shard rise with each of its leaders. `merge` puts pieces together."""

    is_shared = True

    def __init__(
        self,
        name: str,
        store: Store,
        incarnation: int,
        limits: EventLimits,
        merge: Merge,
        linger_seconds: float,
    ) -> None:
        self.name = name
        self.linger_seconds = linger_seconds
        self._store = store
        self._incarnation = incarnation
        self._limits = limits
        self._merging = merge
        self._epochs: dict[int, int] = {}
        self._next: dict[int, int] = {}
        self._index = 0
        self._flushed: dict[Flush, Sequence[Part]] = {}
        # Those that were written here, of which it is known what they have.
        self._pieces: dict[int, list[Piece]] = {}
        self._shares: dict[int, EventShares] = {}
        self._looked_ms = 0
        self._over_group = self._over_shard = 0

    def leads(self, shard: int, epoch: int) -> None:
        """See `EventKeeper`. For any thread."""
        self._epochs[shard] = epoch

    def append(self, records: Mapping[int, Sequence[Kept | Records]]) -> dict[int, Exception]:
        """See `EventKeeper`: all of them are one object."""
        parts = [self._part(shard, of) for shard, of in records.items() if of]
        if not parts:
            return {}
        newest_ms = max(_newest_ms(one) for of in records.values() for one in of)
        flush = Flush(self._incarnation, self._index, newest_ms)
        self._index += 1
        try:
            self._store.create(flush.name, Round(parts).encode())
        except Exception as error:  # the store says so itself, and groups are served on
            return dict.fromkeys(records, error)
        self._flushed[flush] = parts
        size = sum(len(part.batches) for of in self._flushed.values() for part in of)
        if len(self._flushed) >= _FLUSHES or size >= _FLUSHED_BYTES:
            self._try(lambda: self._fold(self._flushed))
        return {}

    def expire(self, now_ms: int) -> dict[int, Exception]:
        """See `EventKeeper`."""
        oldest_ms = min((flush.newest_ms for flush in self._flushed), default=now_ms)
        if oldest_ms < now_ms - _OWN_MS:
            self._try(lambda: self._fold(self._flushed))
        if now_ms - self._looked_ms >= _LOOK_MS:
            self._looked_ms = now_ms
            self._try(lambda: self._fold_others(now_ms))
            for shard in list(self._epochs):
                self._try(lambda shard=shard: self._expire(shard, now_ms))  # type: ignore[misc]
        return {}

    def take_cut(self) -> Cut:
        """See `EventKeeper`."""
        cut = self._over_group, self._over_shard
        self._over_group = self._over_shard = 0
        return cut

    def close(self) -> None:
        """See `EventKeeper`."""
        self._try(lambda: self._fold(self._flushed))

    @staticmethod
    def _try(work: Callable[[], None]) -> None:
        """What is not done is done later, here or by another node."""
        with contextlib.suppress(Exception):
            work()

    def _part(self, shard: int, records: Sequence[Kept | Records]) -> Part:
        base = max(self._next.get(shard, 0), self._epochs.get(shard, 0) << _EPOCH_BITS)
        batches, count = encode_batches(base, records)
        self._next[shard] = base + count
        return Part(shard, base >> _EPOCH_BITS, base, count, batches)

    def _fold(self, flushed: dict[Flush, Sequence[Part]]) -> None:
        """Write pieces of what these have, and remove them."""
        of_stretch: dict[tuple[int, int], list[tuple[Part, int]]] = {}
        for flush, parts in flushed.items():
            for part in parts:
                of_stretch.setdefault(part[:2], []).append((part, flush.newest_ms))
        for (shard, _), found in of_stretch.items():
            found.sort(key=lambda one: one[0].base_offset)
            batches = b"".join(part.batches for part, _ in found)
            base, end = found[0][0].base_offset, found[-1][0].next_offset
            piece = Piece(base, end, max(at for _, at in found), len(batches))
            self._put(shard, piece, batches)
            if flushed is self._flushed:
                self._pieces.setdefault(shard, []).append(piece)
        for flush in list(flushed):
            self._store.delete(flush.name)
            del flushed[flush]
        for shard in {shard for shard, _ in of_stretch} & self._pieces.keys():
            self._merge(shard)

    def _put(self, shard: int, piece: Piece, batches: bytes) -> None:
        part = Part(shard, 0, piece.base, piece.end - piece.base, batches)
        self._store.create(piece.name(shard), Round([part]).encode())

    def _merge(self, shard: int) -> None:
        """Make one of the newest pieces, where they are many and small: of one leadership, since
        another node may have events between two."""
        known = self._pieces[shard]
        epoch = known[-1].base >> _EPOCH_BITS
        small: list[Piece] = []
        for piece in reversed(known):
            if piece.base >> _EPOCH_BITS != epoch or piece.size >= self._limits.segment_bytes // 2:
                break
            small.insert(0, piece)
        if len(small) < _SMALL_PIECES:
            return
        whole, sizes = self._write_anew(shard, small, self._limits.group_bytes)
        known[-len(small) :] = [whole]
        if whole.size >= self._limits.segment_bytes // 2:
            self._share(shard, whole, sizes)

    def _share(self, shard: int, whole: Piece, sizes: Mapping[bytes, int]) -> None:
        """It is full: what a group has too much of goes from the oldest pieces."""
        most = self._limits.group_bytes
        shares = self._shares.setdefault(shard, EventShares(None, (), most))
        known = self._pieces[shard]
        for key in shares.put(whole.base, {key: min(size, most) for key, size in sizes.items()}):
            for base, left in shares.to_cut(key, most):
                at = next((at for at, one in enumerate(known) if one.base == base), None)
                if at is not None:
                    known[at], _ = self._write_anew(shard, [known[at]], left, key)
                shares.cut(base, key, left)

    def _write_anew(
        self, shard: int, old: Sequence[Piece], most: int, only: bytes | None = None
    ) -> tuple[Piece, dict[bytes, int]]:
        """One piece of them, and the bytes of each group in it."""
        found = (batch for piece in old for batch in self._batches(shard, piece))
        batches, sizes, dropped = merged(self._merging, found, most, only)
        self._over_group += dropped
        newest_ms = max(piece.newest_ms for piece in old)
        whole = Piece(old[0].base, old[-1].end, newest_ms, len(batches))
        self._put(shard, whole, batches)
        for piece in old:
            if piece != whole:
                self._store.delete(piece.name(shard))
        return whole, sizes

    def _batches(self, shard: int, piece: Piece) -> Iterator[bytes]:
        for part in read_parts(self._store, piece.name(shard)) or ():
            yield from batches_from(part.batches, 0)

    def _read(self, shard: int, piece: Piece) -> list[EventRecord]:
        parts = read_parts(self._store, piece.name(shard)) or ()
        return [
            record
            for part in parts
            for _, records in decode_batches(part.batches)
            for record in records
        ]

    def _fold_others(self, now_ms: int) -> None:
        """Flushes that wait for too long: those of nodes that are gone."""
        by_node: dict[int, dict[Flush, Sequence[Part]]] = {}
        for flush in flushes(self._store):
            if flush.newest_ms < now_ms - _ANY_MS and flush not in self._flushed:
                parts = read_parts(self._store, flush.name)
                if parts is not None:
                    by_node.setdefault(flush.incarnation, {})[flush] = parts
        for flushed in by_node.values():
            self._fold(flushed)

    def _expire(self, shard: int, now_ms: int) -> None:
        found = sorted(pieces(self._store, shard))
        total = sum(piece.size for piece in found)
        gone: set[Piece] = set()
        for piece in found[:-1]:
            is_old = piece.newest_ms < now_ms - self._limits.retention_ms
            are_many = len(found) - len(gone) > _MOST_PIECES
            if not is_old and not are_many and total <= self._limits.retention_bytes:
                break
            if not is_old:
                self._over_shard += len(self._read(shard, piece))
            self._store.delete(piece.name(shard))
            total -= piece.size
            gone.add(piece)
        if shard in self._pieces:
            self._pieces[shard] = [one for one in self._pieces[shard] if one not in gone]
            if shares := self._shares.get(shard):
                for piece in gone:
                    shares.forget(piece.base)


def _newest_ms(one: Kept | Records) -> int:
    return one.newest_ms if isinstance(one, Records) else one[0]
