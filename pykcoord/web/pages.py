"""What the pages show, as JSON: groups by the page, one group, the cluster."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pykcoord._native import partition_of
from pykcoord.errors import KcoordError
from pykcoord.web.briefly import Briefly
from pykcoord.web.group_page import group_page
from pykcoord.web.history import History, newest_generation
from pykcoord.web.index import Entry, Index
from pykcoord.web.listing import Listing
from pykcoord.web.past import Pasts
from pykcoord.web.reading import Group, Place, Reads
from pykcoord.web.source import Ends, Figures, Source

__all__ = ["MOST_SORTED", "SORTS", "Pages", "lag_of"]

SORTS = ("group", "members", "lag", "rebalances")
MOST_SORTED = 3_000
"""Of more groups none are sorted by what only a description of each one says."""
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
        """A page of groups: by `sort` "group" those beyond the id `after`, otherwise those behind
        the first `skip`."""
        key = (size, search, state, kind, sort, descending, after, skip)

        async def compute() -> Page:
            index = await self._listing.get()
            if sort == "group":
                rows, more = await self._by_id(index, size, search, state, kind, descending, after)
                sorted_by = "group"
            else:
                rows, more, sorted_by = await self._by_figure(
                    index, size, search, state, kind, sort, descending, skip
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
                "rebalances_are_all": self._source.tells_all,
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
            page["offsets"] = _with_ends(page.pop("places"), committed, ends, page["owners"])
            del page["owners"]
            page["lag"] = _sum(one["lag"] for one in page["offsets"])
            shard = partition_of(group_id, self._source.shards)
            return page | {
                "shard": shard,
                "node": self._source.node_of(shard),
                "generation": page["epoch"] or newest_generation(events),
                "rebalances": self._history.rebalances(group_id),
                "events_since_ms": since_ms,
                "events_are_all": self._source.tells_all,
                "at_ms": self._now_ms(),
            }

        page: Page | None = await self._kept.get(("group", group_id), compute)
        return page

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
                rows, more = await self._by_id(index, size, search, state, kind, False, None)
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

    async def _lags(self, group_ids: list[str]) -> dict[str, tuple[int | None, int]]:
        """Lag and number of committed partitions, by group. None where that is too much to read."""
        partitions = sum(topic.partitions for topic in self._source.topics().values())
        if partitions * len(group_ids) > _MOST_OFFSETS:
            return {}
        offsets = await self._reading.offsets(group_ids)
        ends = await self._ends({place for of in offsets.values() for place in of})
        return {group_id: (lag_of(of, ends), len(of)) for group_id, of in offsets.items()}

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


def _sum(figures: Iterable[int | None]) -> int | None:
    known = [one for one in figures if one is not None]
    return sum(known) if known else None


def _row(entry: Entry, group: Group, lag: tuple[int | None, int] | None, rebalances: int) -> Page:
    return {
        "id": entry.group_id,
        "type": group.type if group.protocol_type or group.members else "simple",
        "state": group.state,
        "protocol": group.protocol,
        "members": len(group.members),
        "lag": lag[0] if lag else None,
        "committed": lag[1] if lag else None,
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
                "owners": owners.get(place, []),
            }
        )
    return rows
