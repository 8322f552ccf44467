"""What happened to groups, in a store that several nodes share: written by who leads a shard, and
read by anybody.

    <cluster>/events/00f1e2d3c4b5a697-000000000042-1795000000000   what a node had lately: a flush
    <cluster>/shards/00012/events/<base>-<end>-<newest>-<bytes>     a piece of one shard

A flush has what came in a moment, of all shards of a node, as a round of its journal has. Some
flushes together become pieces, one for each shard, and go; small pieces become larger ones. Each is
written once and put under a name that says which offsets it has and how old it is. Offsets of a
leadership begin at its epoch times 2**32, so that no two leaders use the same, and what an old one
writes late is in its place. What several objects have is read once.

No group depends on it. Groups of a node that dies lose what it had not flushed yet.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from pykcoord.clock import monotonic_seconds
from pykcoord.log.events import EVENTS_TOPIC, EventRecord, batches_from, decode_batches
from pykcoord.log.shared.entry import CorruptEntryError
from pykcoord.log.shared.rounds import Part, Round
from pykcoord.log.shared.store import Store

__all__ = [
    "FLUSHES", "EventChain", "EventObjects", "Flush", "Piece", "flushes", "pieces", "pieces_name",
    "read_parts",
]  # fmt: skip

FLUSHES = "events"
"""The folder of flushes."""
_KEPT_BYTES = 16 << 20
_ATTEMPTS = 4

T = TypeVar("T")


class Flush(NamedTuple):
    """The flush `number` of a process of a node, whose newest event is of `newest_ms`."""

    incarnation: int
    number: int
    newest_ms: int

    @property
    def name(self) -> str:
        """The object."""
        return f"{FLUSHES}/{self.incarnation:016x}-{self.number:012}-{self.newest_ms}"


class Piece(NamedTuple):
    """A stretch of a shard's events: offsets from `base` on, below `end`, in batches of so many
    bytes. The newest is of `newest_ms`."""

    base: int
    end: int
    newest_ms: int
    size: int

    def name(self, shard: int) -> str:
        """The object."""
        of = f"{self.base:020}-{self.end:020}-{self.newest_ms}-{self.size}"
        return f"{pieces_name(shard)}/{of}"


class PieceGoneError(OSError):
    """It became part of another one since it was listed."""


def pieces_name(shard: int) -> str:
    """The folder of a shard's pieces."""
    return f"shards/{shard:05}/events"


def flushes(store: Store) -> list[Flush]:
    """All that there are. Raises what the store raises."""
    found = []
    for name in store.names(FLUSHES):
        incarnation, _, rest = name.partition("-")
        number, _, newest_ms = rest.partition("-")
        found.append(Flush(int(incarnation, 16), int(number), int(newest_ms)))
    return found


def pieces(store: Store, shard: int) -> list[Piece]:
    """All of a shard. Raises what the store raises."""
    names = store.names(pieces_name(shard))
    return [Piece(*map(int, name.split("-"))) for name in names]


def read_parts(store: Store, name: str) -> Sequence[Part] | None:
    """What a flush or a piece has; nothing where it is damaged, None where it is gone. Raises what
    the store raises."""
    content = store.read(name)
    try:
        return None if content is None else Round.decode(name, content).parts
    except (CorruptEntryError, ValueError):
        return ()


class _Link(NamedTuple):
    base: int
    end: int
    newest_ms: int
    name: str
    batches: bytes | None  # None: to be read


class EventChain:
    """The events of one shard at a moment, each once. `start_offset` is the first one's,
    `end_offset` that behind the last. Raises PieceGoneError and what the store raises."""

    def __init__(self, links: Sequence[_Link], load: Callable[[str], bytes]) -> None:
        self._links = links
        self._load = load
        self.start_offset = links[0].base if links else 0
        self.end_offset = links[-1].end if links else 0

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Whole batches, the first with the record of `offset` or the next one; at least one if
        there is any."""
        out = b""
        for link in self._links:
            if link.end <= offset:
                continue
            for batch in batches_from(self._batches(link), offset):
                if out and len(out) + len(batch) > max_bytes:
                    return out
                out += batch
        return out

    def offset_at(self, timestamp_ms: int) -> tuple[int, int] | None:
        """The first record of that time or later: its offset and time; None: there is none."""
        for record in self.records(timestamp_ms):
            if record.timestamp_ms >= timestamp_ms:
                return record.offset, record.timestamp_ms
        return None

    def records(self, since_ms: int = 0) -> Iterator[EventRecord]:
        """All that can be read, in order; what is older than `since_ms` may be left out."""
        for link in self._links:
            if link.newest_ms < since_ms:
                continue
            for _, records in decode_batches(self._batches(link)):
                yield from (one for one in records if link.base <= one.offset < link.end)

    def _batches(self, link: _Link) -> bytes:
        return self._load(link.name) if link.batches is None else link.batches


class EventObjects:
    """The events of all shards of a store. Thread-safe; each call may block as long as the store
    takes, and sees what was there `fresh_seconds` ago or later."""

    topic = EVENTS_TOPIC
    is_far = True

    def __init__(self, store: Store, fresh_seconds: float) -> None:
        self._store = store
        self._fresh_seconds = fresh_seconds
        self._gate = threading.Lock()
        self._listed_at = float("-inf")
        self._flushes: dict[Flush, Sequence[Part]] = {}
        self._pieces: dict[int, list[Piece]] = {}
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._kept_bytes = 0

    def of(self, shard: int, work: Callable[[EventChain], T]) -> T:
        """What `work` makes of a shard's events; it may be called again, where they became other
        objects meanwhile. Raises OSError and what the store raises."""
        for _ in range(_ATTEMPTS):
            try:
                return work(self._chain(shard))
            except PieceGoneError:
                self.forget()
        raise PieceGoneError(f"events of shard {shard}: they change faster than they are read")

    def mark(self, shard: int) -> object:
        """See `pykcoord.recorded.EventPlace`: a store would have to be asked."""
        return None

    def forget(self) -> None:
        """List all anew."""
        with self._gate:
            self._listed_at = float("-inf")

    def _chain(self, shard: int) -> EventChain:
        with self._gate:
            if monotonic_seconds() >= self._listed_at + self._fresh_seconds:
                self._list()
            if shard not in self._pieces:
                # Behind the flushes: what became a piece since is in it.
                self._pieces[shard] = pieces(self._store, shard)
            links = [_Link(*piece[:3], piece.name(shard), None) for piece in self._pieces[shard]]
            links += [
                _Link(part.base_offset, part.next_offset, flush.newest_ms, "", part.batches)
                for flush, parts in self._flushes.items()
                for part in parts
                if part.shard == shard
            ]
        # Of what begins at one place the longest first, and of pieces of one stretch the smaller.
        links.sort(key=lambda one: (one.base, -one.end, one.name))
        chain: list[_Link] = []
        at = 0
        for link in links:
            if link.end > at:
                chain.append(link._replace(base=max(link.base, at)))
                at = link.end
        return EventChain(chain, self._load)

    def _list(self) -> None:
        began = monotonic_seconds()
        known: dict[Flush, Sequence[Part]] = {}
        for flush in flushes(self._store):
            parts = self._flushes.get(flush)
            if parts is None:
                parts = read_parts(self._store, flush.name)
            if parts is not None:
                known[flush] = parts
        self._flushes = known
        self._pieces.clear()
        self._listed_at = began

    def _load(self, name: str) -> bytes:
        with self._gate:
            if name in self._kept:
                self._kept.move_to_end(name)
                return self._kept[name]
        parts = read_parts(self._store, name)
        if parts is None:
            raise PieceGoneError(name)
        batches = b"".join(part.batches for part in parts)
        with self._gate:
            if name not in self._kept:
                self._kept[name] = batches
                self._kept_bytes += len(batches)
            while self._kept_bytes > _KEPT_BYTES:
                self._kept_bytes -= len(self._kept.popitem(last=False)[1])
        return batches
