"""Groups of a cluster that does not let `__consumer_offsets` be read: asked of their coordinators,
again and again. What came and went between two rounds is not seen.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from pykcoord.kafka.cluster import Cluster
from pykcoord.kafka.errors import ClusterError
from pykcoord.watch import asking
from pykcoord.watch.model import WatchedGroup, WatchedOffset

__all__ = ["Poller"]

logger = logging.getLogger("pykcoord.watch")

# Groups in one request: answers stay small, and coordinators are not held up.
_AT_ONCE = 100


class Poller:
    """A source that is as old as the last `poll`. `errors` counts brokers that did not answer, and
    groups that they did not tell of."""

    def __init__(self, cluster: Cluster, wanted: Callable[[str], bool]) -> None:
        self.version = 0
        self.errors = 0
        self._cluster = cluster
        self._wanted = wanted
        self._groups: dict[str, WatchedGroup] = {}
        self._offsets: dict[str, list[WatchedOffset]] = {}
        self._unlisted: set[str] = set()

    def groups(self) -> list[WatchedGroup]:
        """As `Source.groups`."""
        return [group for _, group in sorted(self._groups.items())]

    def offsets(self) -> list[WatchedOffset]:
        """As `Source.offsets`."""
        return [of for _, offsets in sorted(self._offsets.items()) for of in offsets]

    async def poll(self) -> list[dict[str, object]]:
        """Asks all brokers; returns what is another than before, one document for each group. A
        group whose coordinator did not answer stays as it was, and one that no broker lists is gone
        the second time: while a coordinator moves, nobody may list its groups."""
        rounds = [self._ask(node_id) for node_id in sorted(self._cluster.view.brokers)]
        groups: dict[str, WatchedGroup] = {}
        offsets: dict[str, list[WatchedOffset]] = {}
        is_whole = True
        for answer in await asyncio.gather(*rounds, return_exceptions=True):
            if isinstance(answer, ClusterError):
                self.errors += 1
                is_whole = False
                self._cluster.doubt()
                logger.warning("poll: %s", answer, extra={"event": "poll"})
            elif isinstance(answer, BaseException):
                raise answer
            else:
                groups |= answer[0]
                offsets |= answer[1]
        unlisted = self._groups.keys() - groups.keys()
        kept = unlisted - self._unlisted if is_whole else unlisted
        self._unlisted = unlisted if is_whole else set()
        groups |= {one: self._groups[one] for one in kept}
        offsets |= {one: self._offsets[one] for one in kept if one in self._offsets}
        changes: list[dict[str, object]] = [
            {
                "group": group_id,
                "was_there": group_id in self._groups,
                "is_there": group_id in groups,
                "state": groups[group_id].state if group_id in groups else None,
                "epoch": groups[group_id].epoch if group_id in groups else None,
                "members": [
                    {**one._asdict(), "owned": {t: list(p) for t, p in one.owned.items()}}
                    for one in (groups[group_id].members if group_id in groups else ())
                ],
                "offsets": [
                    [of.topic, of.partition, of.offset, of.metadata]
                    for of in offsets.get(group_id, ())
                ],
            }
            for group_id in sorted(groups.keys() | self._groups.keys())
            if groups.get(group_id) != self._groups.get(group_id)
            or offsets.get(group_id) != self._offsets.get(group_id)
        ]
        self.version += bool(changes)
        self._groups, self._offsets = groups, offsets
        return changes

    async def _ask(
        self, node_id: int
    ) -> tuple[dict[str, WatchedGroup], dict[str, list[WatchedOffset]]]:
        listed = await asking.list_groups(self._cluster, node_id)
        by_kind: dict[str, list[str]] = {}
        for group_id, kind in listed.items():
            if self._wanted(group_id):
                by_kind.setdefault(kind, []).append(group_id)
        groups: dict[str, WatchedGroup] = {}
        offsets: dict[str, list[WatchedOffset]] = {}
        for kind, ids in by_kind.items():
            for at in range(0, len(ids), _AT_ONCE):
                some = ids[at : at + _AT_ONCE]
                described = await asking.describe(self._cluster, node_id, kind, some)
                groups |= {one: of for one, of in described.items() if of is not None}
                if kind != "share":  # these have no committed offsets
                    offsets |= await asking.fetch_offsets(self._cluster, node_id, some)
        return groups, offsets
