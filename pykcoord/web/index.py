"""All groups, for pages: ids with state and kind, in chunks that are small enough to be worked on
between two turns of anything else.

A million ids are never sorted at once: each chunk is, and pages are merged from their heads.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from bisect import bisect_left, bisect_right
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from typing import NamedTuple

__all__ = ["Entry", "Index", "IndexBuilder", "Kind", "listed", "tail"]

CHUNK = 1_000
_MOST_KINDS = 250
_CODE_AT = 4 + 1 + 4
# With a number of groups of five bytes; without groups it is shorter.
_HEAD_BYTES = _CODE_AT + 2 + 5


class Kind(NamedTuple):
    """What a listing says of a group beside its id."""

    protocol_type: str
    state: str
    type: str


class Entry(NamedTuple):
    """One group."""

    group_id: str
    kind: Kind


class _Chunk(NamedTuple):
    # UTF-8, ascending; for each the number of its kind.
    ids: list[bytes]
    kinds: bytes


def _length(data: bytes, at: int) -> tuple[int, int]:
    """A compact string's length in bytes, and where it begins."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return max(value - 1, 0), at
        shift += 7


async def listed(frame: AsyncIterator[bytes]) -> AsyncIterator[list[tuple[bytes, bytes]]]:
    """The groups of a ListGroups v5 response frame, which comes in parts, a chunk at a time, as
    soon as it is there: id, and the bytes of protocol type, state and type. Raises ValueError for
    one that says an error or is cut off."""
    data = b""
    # Correlation id, no tags, throttle time, error code, and the number of groups.
    while len(data) < _HEAD_BYTES and (part := await anext(frame, b"")):
        data += part
    if (code := int.from_bytes(data[_CODE_AT : _CODE_AT + 2], "big", signed=True)) != 0:
        raise ValueError(f"error {code}")
    left, at = _length(data, _CODE_AT + 2)
    while left:
        count = min(left, CHUNK)
        while (found := _some(data, at, count)) is None:
            if not (part := await anext(frame, b"")):
                raise ValueError("a list of groups that is cut off")
            data, at = data[at:] + part, 0
        chunk, at = found
        left -= len(chunk)
        yield chunk
        await asyncio.sleep(0)  # gives the interpreter to the engine's thread


def _some(data: bytes, at: int, count: int) -> tuple[list[tuple[bytes, bytes]], int] | None:
    """So many groups from there on, and where they end; None: they are not all there."""
    chunk: list[tuple[bytes, bytes]] = []
    try:
        for _ in range(count):
            size = data[at]
            if size < 0x80:
                begin = at + 1
                end = at + size if size else begin
            else:
                size, begin = _length(data, at)
                end = begin + size
            # Three short texts, and no tags: Kafka's own words, all below 127 bytes but for a
            # protocol type that a client chose.
            if data[end] < 0x80:
                tail = end + (data[end] or 1)
            else:
                size, tail = _length(data, end)
                tail += size
            tail += data[tail]
            tail += data[tail]
            chunk.append((data[begin:end], data[end:tail]))
            at = tail + 1
    except IndexError:
        return None
    return (chunk, at) if at <= len(data) else None


class IndexBuilder:
    """Takes the chunks of all nodes' listings. `has_some` is set with the first of them, and `rest`
    awaited after each."""

    def __init__(self, rest: Callable[[], Awaitable[None]] | None = None) -> None:
        self.has_some = asyncio.Event()
        self._rest = rest
        self._chunks: list[_Chunk] = []
        self._kinds: dict[bytes, int] = {}
        self._counts: list[int] = []
        self._small: list[tuple[bytes, bytes]] = []

    async def add(self, frame: AsyncIterator[bytes]) -> int:
        """All groups of one response to ListGroups, in parts, and how many they are."""
        return await self.put(listed(frame))

    async def put(self, chunks: AsyncIterator[list[tuple[bytes, bytes]]]) -> int:
        """Groups, some at a time: id, and the `tail` of its kind. How many they are."""
        count = 0
        async for chunk in chunks:
            count += len(chunk)
            if len(chunk) == CHUNK:
                self._put(chunk)
            else:
                self._small += chunk
                if len(self._small) >= CHUNK:
                    self._put(self._small)
                    self._small = []
            if self._rest is not None:
                await self._rest()
        return count

    def part(self, version: int, at_ms: int) -> Index:
        """What was taken so far."""
        kinds, counts = list(map(_kind, self._kinds)), list(self._counts)
        return Index(version, at_ms, list(self._chunks), kinds, counts, is_whole=False)

    def finish(self, version: int, at_ms: int, is_whole: bool = True) -> Index:
        """What was taken."""
        if self._small:
            self._put(self._small)
            self._small = []
        kinds = list(map(_kind, self._kinds))
        return Index(version, at_ms, self._chunks, kinds, self._counts, is_whole)

    def _put(self, chunk: list[tuple[bytes, bytes]]) -> None:
        chunk.sort()
        kinds = bytearray()
        for _, tail in chunk:
            number = self._kinds.get(tail)
            if number is None:
                # Clients choose protocol types: beyond so many kinds they are one.
                number = self._kinds.setdefault(tail, min(len(self._kinds), _MOST_KINDS))
                if number == len(self._counts):
                    self._counts.append(0)
            self._counts[number] += 1
            kinds.append(number)
        self._chunks.append(_Chunk([group_id for group_id, _ in chunk], bytes(kinds)))
        self.has_some.set()


def tail(kind: Kind) -> bytes:
    """A kind as a listing has it; of texts below 127 bytes."""
    texts = [text.encode()[:126] for text in kind]
    return b"".join(bytes([len(text) + 1]) + text for text in texts)


def _kind(tail: bytes) -> Kind:
    texts = []
    at = 0
    for _ in range(3):
        size, begin = _length(tail, at)
        at = begin + size
        texts.append(tail[begin:at].decode(errors="replace"))
    return Kind(*texts)


class Index:
    """All groups as they were listed at `at_ms`. `version`: another one for each. `is_whole`: False
    while the first listing goes on, and these are the groups that it has come to; or where no node
    could be asked for its groups."""

    def __init__(
        self, version: int, at_ms: int, chunks: list[_Chunk], kinds: list[Kind], counts: list[int],
        is_whole: bool = True,
    ) -> None:  # fmt: skip
        self.version = version
        self.at_ms = at_ms
        self.is_whole = is_whole
        self._chunks = chunks
        self._kinds = kinds
        self._counts = counts
        self.total = sum(counts)

    def counts(self) -> dict[str, dict[str, int]]:
        """How many groups there are, by `state` and by `type`."""
        states: dict[str, int] = {}
        types: dict[str, int] = {}
        for kind, count in zip(self._kinds, self._counts, strict=False):
            states[kind.state] = states.get(kind.state, 0) + count
            types[kind.type] = types.get(kind.type, 0) + count
        return {"states": states, "types": types}

    def kind_of(self, group_id: str) -> Kind | None:
        """That of one group."""
        wanted = group_id.encode()
        for chunk in self._chunks:
            at = bisect_left(chunk.ids, wanted)
            if at < len(chunk.ids) and chunk.ids[at] == wanted:
                return self._kinds[chunk.kinds[at]]
        return None

    async def matching(
        self, search: str, state: str | None, kind: str | None
    ) -> AsyncIterator[list[Entry]]:
        """The groups that match, in no order, some at a time."""
        chosen = self._chosen(state, kind)
        pattern = search.encode()
        for chunk in self._chunks:
            if found := _matching(chunk, pattern, chosen):
                yield [Entry(_text(one), self._kinds[number]) for one, number in found]
            await asyncio.sleep(0)

    async def page(
        self,
        size: int,
        *,
        search: str = "",
        state: str | None = None,
        kind: str | None = None,
        after: str | None = None,
        descending: bool = False,
    ) -> list[Entry]:
        """The first `size` that match beyond the id `after`, by id. Where nothing is searched for,
        it looks at the heads of chunks only."""
        chosen = self._chosen(state, kind)
        pattern = search.encode()
        mark = None if after is None else after.encode()
        runs: list[Iterator[tuple[bytes, int]]] = []
        for number, chunk in enumerate(self._chunks):
            if pattern:
                best = _best(_matching(chunk, pattern, chosen), size, mark, descending)
                if best:
                    runs.append(iter(best))
            else:
                runs.append(_run(chunk, mark, descending, chosen))
            if pattern and number % 8 == 7:
                await asyncio.sleep(0)
        merged = heapq.merge(*runs, reverse=descending)
        await asyncio.sleep(0)
        return [
            Entry(_text(one), self._kinds[number]) for one, number in itertools.islice(merged, size)
        ]

    def plus(self, group_ids: Iterable[str]) -> Index:
        """This one, with groups that came since, of which only the ids are known."""
        others = {one.encode() for one in group_ids}
        for chunk in self._chunks:
            if not others:
                return self
            _take_out(others, chunk.ids)
        if not others:
            return self
        unknown = sorted(others)
        number = len(self._kinds)
        chunk = _Chunk(unknown, bytes([min(number, _MOST_KINDS)]) * len(unknown))
        kinds, counts = [*self._kinds, Kind("", "", "")], [*self._counts, len(unknown)]
        chunks = [*self._chunks, chunk]
        return Index(self.version, self.at_ms, chunks, kinds, counts, self.is_whole)

    def _chosen(self, state: str | None, kind: str | None) -> Callable[[int], bool] | None:
        if state is None and kind is None:
            return None
        wanted = {
            number
            for number, one in enumerate(self._kinds)
            if state in (None, one.state) and kind in (None, one.type)
        }
        return wanted.__contains__


def _matching(
    chunk: _Chunk, pattern: bytes, chosen: Callable[[int], bool] | None
) -> list[tuple[bytes, int]]:
    pairs = zip(chunk.ids, chunk.kinds, strict=True)
    return [
        (one, number)
        for one, number in pairs
        if pattern in one and (chosen is None or chosen(number))
    ]


def _take_out(group_ids: set[bytes], ids: list[bytes]) -> None:
    """Those that are among `ids`, which ascend, go. To look at all of these costs what to search
    for some does."""
    if 16 * len(group_ids) > len(ids):
        group_ids.difference_update(ids)
        return
    for one in tuple(group_ids):
        at = bisect_left(ids, one)
        if at < len(ids) and ids[at] == one:
            group_ids.discard(one)


def _best(
    found: list[tuple[bytes, int]], size: int, mark: bytes | None, descending: bool
) -> list[tuple[bytes, int]]:
    if mark is not None:
        found = [one for one in found if (one[0] < mark if descending else one[0] > mark)]
    return found[-size:][::-1] if descending else found[:size]


def _run(
    chunk: _Chunk, mark: bytes | None, descending: bool, chosen: Callable[[int], bool] | None
) -> Iterator[tuple[bytes, int]]:
    ids, kinds = chunk
    if descending:
        start = len(ids) if mark is None else bisect_left(ids, mark)
        places: range = range(start - 1, -1, -1)
    else:
        start = 0 if mark is None else bisect_right(ids, mark)
        places = range(start, len(ids))
    return ((ids[at], kinds[at]) for at in places if chosen is None or chosen(kinds[at]))


def _text(group_id: bytes) -> str:
    return group_id.decode(errors="replace")
