"""What the pages show, as JSON: groups by the page, one group, the cluster."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pykcoord._native import partition_of
from pykcoord.errors import KcoordError
from pykcoord.lag import Behind
from pykcoord.web.briefly import Briefly
from pykcoord.web.group_page import group_page
from pykcoord.web.history import History, newest_generation
from pykcoord.web.index import Entry, Index
from pykcoord.web.listing import Listing
from pykcoord.web.past import Pasts
from pykcoord.web.reading import Group, Place, Reads
from pykcoord.web.source import Ends, Figures, Source

__all__ = ["MOST_CURVES", "MOST_SORTED", "SORTS", "Pages", "lag_of", "lag_over_time"]

SORTS = ("group", "members", "lag", "rebalances")
MOST_SORTED = 3_000
"""Of more groups none are sorted by what only a description of each one says."""
MOST_CURVES = 200
"""Partitions of a group whose lag over time is told: those that are furthest behind."""
MOST_SAMPLES = 240
"""Of the lag of a group over time."""
# Offsets that are read at most for the lags of one page.
_MOST_OFFSETS = 200_000
_KEPT_SECONDS = 0.4
_SORTED_SECONDS = 3.0

Page = dict[str, Any]


class Pages:
    """Answers for the pages, each kept for a moment. On the console's loop only."""

    def __init__(
        self,
        source: Source,
        reading: Reads,
        listing: Listing,
        history: History,
        pasts: Pasts,
        now_ms: Callable[[], int],
    ) -> None:
        self._source = source
        self._reading = reading
        self._listing = listing
        self._history = history
        self._pasts = pasts
        self._now_ms = now_ms
        self._kept = Briefly(_KEPT_SECONDS)
        self._kept_rows = Briefly(_SORTED_SECONDS)

    def forget(self) -> None:
        """Read everything anew: something was changed."""
        self._kept.forget()
        self._kept_rows.forget()

    async def groups(
        self,
        *,
        size: int,
        search: str,
        state: str | None,
        kind: str | None,
        sort: str,
        descending: bool,
        after: str | None,
        skip: int,
    ) -> Page:
        """A page of groups: by `sort` "group", and where `sorted_by` says so, those beyond the id
        `after`, otherwise those behind the first `skip`."""
        key = (size, search, state, kind, sort, descending, after, skip)

        async def compute() -> Page:
            index = await self._listing.get()
            if sort == "group":
                rows, more = await self._by_id(index, size, search, state, kind, descending, after)
                sorted_by = "group"
            else:
                rows, more, sorted_by = await self._by_figure(
                    index, size, search, state, kind, sort, descending, after, skip
                )
            return {
                "groups": rows,
                "more": more,
                "total": index.total,
                "counts": index.counts(),
                "listed_at_ms": index.at_ms,
                "sorted_by": sorted_by,
                "most_sorted": MOST_SORTED,
                "is_whole": index.is_whole,
                "rebalances_since_ms": self._history.counts_since_ms,
                "rebalances_are_all": self._source.hears_all,
                "unreachable": self._unreachable(),
                "at_ms": self._now_ms(),
            }

        page: Page = await self._kept.get(key, compute)
        return page

    async def group(self, group_id: str) -> Page | None:
        """One group; None: there is none."""

        async def compute() -> Page | None:
            described, offsets = await asyncio.gather(
                self._reading.groups({group_id: None}), self._reading.offsets([group_id])
            )
            events, since_ms = await self._pasts.of(group_id)
            committed = offsets.get(group_id, {})
            group = described.get(group_id)
            if group is None and not any(event.group_id for event in events):
                return None
            topics = self._source.topics()
            page = group_page(group_id, group, committed, topics, events)
            ends = await self._ends(page["places"])
            rows = _with_ends(page.pop("places"), committed, ends, page["owners"])
            await self._put_behind(rows)
            page["offsets"] = rows
            del page["owners"]
            page["lag"] = _sum(one["lag"] for one in rows)
            late = max(rows, key=lambda one: one["behind_ms"] or -1, default=None)
            page["behind_ms"] = _most(one["behind_ms"] for one in rows)
            page["behind_is_at_least"] = late is not None and late["behind_is_at_least"]
            shard = partition_of(group_id, self._source.shards)
            return page | {
                "shard": shard,
                "node": self._source.node_of(shard),
                "generation": page["epoch"] or newest_generation(events),
                "rebalances": self._history.rebalances(group_id),
                "events_since_ms": since_ms,
                "events_are_all": self._source.hears(group_id),
                "at_ms": self._now_ms(),
            }

        page: Page | None = await self._kept.get(("group", group_id), compute)
        return page

    async def lag(self, group_id: str) -> Page:
        """The lag of a group over time: of its partitions, those that are furthest behind, and of
        all together."""

        async def compute() -> Page:
            found = await self._source.lag_history(group_id)
            shown = heapq.nsmallest(MOST_CURVES, found, key=lambda at: (-found[at][-1][1], at))
            return {
                "lag": lag_over_time(found.values()),
                "partitions": [
                    {"topic": topic, "partition": partition, "lag": found[topic, partition]}
                    for topic, partition in sorted(shown)
                ],
                "at_ms": self._now_ms(),
            }

        page: Page = await self._kept.get(("lag", group_id), compute)
        return page

    async def _put_behind(self, rows: list[Page]) -> None:
        """Since when each is behind; 0 where it is not."""
        late = [one for one in rows if one["lag"]]
        told = await self._source.behind(
            [((one["topic"], one["partition"]), one["offset"]) for one in late]
        )
        for row, behind in zip(late, told, strict=True):
            row["behind_ms"], row["behind_is_at_least"] = behind

    async def cluster(self) -> Page:
        """Nodes, shards, counts."""

        async def compute() -> Page:
            index, figures = await asyncio.gather(
                self._listing.get(), asyncio.to_thread(self._figures)
            )
            shards = range(self._source.shards)
            return {
                "name": self._source.name,
                "nodes": [
                    {
                        "node_id": node.node_id,
                        "address": f"{node.host}:{node.port}" if node.host else None,
                        "answers": node.node_id not in self._listing.unreachable,
                        "error": self._listing.unreachable.get(node.node_id),
                        "groups": self._listing.by_node.get(node.node_id),
                    }
                    for node in self._source.nodes()
                ],
                "controller": self._source.controller,
                "shards": [self._source.node_of(shard) for shard in shards],
                "topics": len(topics := self._source.topics()),
                "partitions": sum(topic.partitions for topic in topics.values()),
                "total": index.total,
                "counts": index.counts(),
                "figures": figures,
                "at_ms": self._now_ms(),
            }

        page: Page = await self._kept.get("cluster", compute)
        return page

    def _figures(self) -> Figures:
        try:
            return self._source.figures()
        except (KcoordError, OSError) as error:
            return {"error": str(error) or type(error).__name__}

    def _unreachable(self) -> list[Page]:
        return [{"node_id": one, "error": why} for one, why in self._listing.unreachable.items()]

    async def _by_id(
        self,
        index: Index,
        size: int,
        search: str,
        state: str | None,
        kind: str | None,
        descending: bool,
        after: str | None,
    ) -> tuple[list[Page], bool]:
        found = await index.page(
            size + 1, search=search, state=state, kind=kind, after=after, descending=descending
        )
        return await self._rows(found[:size]), len(found) > size

    async def _by_figure(
        self,
        index: Index,
        size: int,
        search: str,
        state: str | None,
        kind: str | None,
        sort: str,
        descending: bool,
        after: str | None,
        skip: int,
    ) -> tuple[list[Page], bool, str]:
        """Sorted by what a listing does not say: each group that matches is described for it."""
        if sort == "rebalances" and descending:
            known = self._history.rebalanced()
            top = heapq.nsmallest(skip + size + 1, known.items(), key=lambda one: (-one[1], one[0]))
            entries = [Entry(one, of) for one, _ in top if (of := index.kind_of(one)) is not None]
            entries = [
                one
                for one in entries
                if search in one.group_id
                and state in (None, one.kind.state)
                and kind in (None, one.kind.type)
            ]
            if len(entries) > skip + size or index.total > MOST_SORTED:
                rows = await self._rows(entries[skip : skip + size])
                return rows, len(entries) > skip + size, sort
        matching: list[Entry] = []
        async for some in index.matching(search, state, kind):
            matching += some
            if len(matching) > MOST_SORTED:
                rows, more = await self._by_id(index, size, search, state, kind, False, after)
                return rows, more, "group"
        ids = tuple(sorted(one.group_id for one in matching))
        rows = await self._kept_rows.get(
            (ids, sort == "lag"), lambda: self._rows(matching, with_lag=sort == "lag")
        )

        def order(row: Page) -> tuple[bool, int, str]:
            figure = row[sort]
            return (figure is None, -figure if descending and figure else figure or 0, row["id"])

        ordered = sorted(rows, key=order)[skip : skip + size + 1]
        kinds = {one.group_id: one for one in matching}
        shown = [kinds[row["id"]] for row in ordered[:size]]
        return await self._rows(shown), len(ordered) > size, sort

    async def _rows(self, entries: list[Entry], *, with_lag: bool = True) -> list[Page]:
        """Rows of a page; without those that are gone by now."""
        wanted = {one.group_id: one.kind.type or None for one in entries}
        described = await self._reading.groups(wanted)
        lags = await self._lags(list(described)) if with_lag else {}
        return [
            _row(entry, group, lags.get(entry.group_id), self._history.rebalances(entry.group_id))
            for entry in entries
            if (group := described.get(entry.group_id)) is not None
        ]

    async def _lags(self, group_ids: list[str]) -> dict[str, _Lag]:
        """By group; none where that is too much to read."""
        partitions = sum(topic.partitions for topic in self._source.topics().values())
        if partitions * len(group_ids) > _MOST_OFFSETS:
            return {}
        offsets = await self._reading.offsets(group_ids)
        ends = await self._ends({place for of in offsets.values() for place in of})
        late = [
            (group_id, place, offset)
            for group_id, of in offsets.items()
            for place, (offset, _) in of.items()
            if ends.get(place, 0) > offset
        ]
        told = await self._source.behind([one[1:] for one in late])
        behind: dict[str, Behind] = {}
        for (group_id, *_), one in zip(late, told, strict=True):
            longest = behind.setdefault(group_id, one)
            if (one.ms or 0) > (longest.ms or 0):
                behind[group_id] = one
        found = {}
        for group_id, of in offsets.items():
            lag = lag_of(of, ends)
            longest = behind.get(group_id, Behind(lag and None, False))
            found[group_id] = _Lag(lag, len(of), longest)
        return found

    async def _ends(self, places: Iterable[Place]) -> Ends:
        topics = self._source.topics()
        wanted: dict[str, list[int]] = {}
        for topic, partition in places:
            known = topics.get(topic)
            if known is not None and partition < known.partitions:
                wanted.setdefault(topic, []).append(partition)
        return await self._source.ends(wanted) if wanted else {}


def lag_of(committed: Mapping[Place, tuple[int, str]], ends: Ends) -> int | None:
    """Records between what is committed and the ends that are known; None: none is."""
    return _sum(
        max(ends[place] - offset, 0) if place in ends else None
        for place, (offset, _) in committed.items()
    )


def lag_over_time(histories: Iterable[Sequence[tuple[int, int]]]) -> list[tuple[int, int]]:
    """The lag of several partitions together: at each time at which one was sampled, what was known
    of all then; those that begin later count from then on."""
    told = sorted((at, which, lag) for which, of in enumerate(histories) for at, lag in of)
    now: dict[int, int] = {}
    total = 0
    found: dict[int, int] = {}
    for at, which, lag in told:
        total += lag - now.get(which, 0)
        now[which] = lag
        found[at] = total
    every = list(found.items())
    return every[:: -(-len(every) // MOST_SAMPLES) or 1]


def _most(figures: Iterable[int | None]) -> int | None:
    return max((one for one in figures if one is not None), default=None)


def _sum(figures: Iterable[int | None]) -> int | None:
    known = [one for one in figures if one is not None]
    return sum(known) if known else None


class _Lag(NamedTuple):
    """Of a group: records, committed partitions, and how long the latest of them is behind."""

    records: int | None
    committed: int
    behind: Behind


def _row(entry: Entry, group: Group, lag: _Lag | None, rebalances: int) -> Page:
    return {
        "id": entry.group_id,
        "type": group.type if group.protocol_type or group.members else "simple",
        "state": group.state,
        "protocol": group.protocol,
        "members": len(group.members),
        "lag": lag.records if lag else None,
        "behind_ms": lag.behind.ms if lag else None,
        "behind_is_at_least": lag is not None and lag.behind.is_at_least,
        "committed": lag.committed if lag else None,
        "rebalances": rebalances,
    }


def _with_ends(
    places: Iterable[Place],
    committed: Mapping[Place, tuple[int, str]],
    ends: Ends,
    owners: Mapping[Place, list[int]],
) -> list[Page]:
    rows = []
    for place in places:
        offset, metadata = committed.get(place, (None, ""))
        end = ends.get(place)
        lag = max(end - offset, 0) if end is not None and offset is not None else None
        rows.append(
            {
                "topic": place[0],
                "partition": place[1],
                "offset": offset,
                "metadata": metadata,
                "end": end,
                "lag": lag,
                "behind_ms": lag if lag == 0 else None,
                "behind_is_at_least": False,
                "owners": owners.get(place, []),
            }
        )
    return rows
