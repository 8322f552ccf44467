"""The self-check: sampled groups as the log tells them, beside what their coordinators answer.

The cluster goes on meanwhile, so a group is judged only if it did not change between before the
question and the end of its partition as it was after the answer.
"""

from __future__ import annotations

import asyncio
import logging

from pykcoord.kafka.cluster import Cluster
from pykcoord.kafka.ends import LATEST, offset_of
from pykcoord.kafka.errors import ClusterError
from pykcoord.records import partition_of
from pykcoord.watch import asking
from pykcoord.watch.comparing import differences, is_rebalancing
from pykcoord.watch.following import TOPIC, Follower
from pykcoord.watch.model import WatchedGroup, WatchedOffset
from pykcoord.watch.state import WatchedState

__all__ = ["Checker"]

logger = logging.getLogger("pykcoord.watch")

_REACH_SECONDS = 10.0
_SHOWN = 3


class Checker:
    """`counts` are totals: groups that were compared, of these that differed, and those about which
    nothing can be said, because they changed meanwhile or nobody answered."""

    def __init__(self, cluster: Cluster, state: WatchedState, follower: Follower) -> None:
        self.counts = {"equal": 0, "different": 0, "inconclusive": 0}
        self._cluster = cluster
        self._state = state
        self._follower = follower
        self._after = ""

    async def check_some(self, count: int) -> None:
        """The next `count` groups in the order of their ids, and round again."""
        groups = self._state.groups()
        later = [one for one in groups if one.group_id > self._after]
        chosen = (later + groups)[: min(count, len(groups))]
        for group in chosen:
            await self.check(group)
        if chosen:
            self._after = chosen[-1].group_id

    async def check(self, group: WatchedGroup) -> list[str]:
        """One group; returns what differs. Counted, and a line of log if anything does."""
        try:
            found = await self._compare(group)
        except (ClusterError, TimeoutError):
            found = None
        if found is None:
            self.counts["inconclusive"] += 1
            return []
        self.counts["different" if found else "equal"] += 1
        if found:
            more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
            logger.warning(
                "self-check: group %r is not as its coordinator says: %s%s; please report it",
                group.group_id,
                "; ".join(found[:_SHOWN]),
                more,
                extra={"event": "difference", "group": group.group_id},
            )
        return found

    async def _compare(self, group: WatchedGroup) -> list[str] | None:
        group_id = group.group_id
        number = partition_of(group_id, len(self._follower.partitions))
        node_id = self._cluster.view.leader(TOPIC, number).node_id
        before = self._known(number, group_id)
        described = await asking.describe(self._cluster, node_id, group.type, [group_id])
        offsets = await asking.fetch_offsets(self._cluster, node_id, [group_id])
        end = await offset_of(self._cluster, node_id, (TOPIC, number), LATEST)
        async with asyncio.timeout(_REACH_SECONDS):
            await self._follower.reached(number, end)
        told = described.get(group_id)
        if self._known(number, group_id) != before or is_rebalancing(told):
            return None
        logged, known = before
        answered = offsets.get(group_id, [])
        pending = {(of.topic, of.partition) for of in known if of.is_pending}
        known = [of for of in known if (of.topic, of.partition) not in pending]
        answered = [of for of in answered if (of.topic, of.partition) not in pending]
        # OffsetFetch leaves out topics that the principal may not DESCRIBE; Metadata, too.
        visible = self._cluster.view.topics.keys() | {of.topic for of in answered}
        known = [of for of in known if of.topic in visible]
        return differences(logged, told, known, answered)

    def _known(self, number: int, group_id: str) -> tuple[WatchedGroup | None, list[WatchedOffset]]:
        partition = self._state.partitions[number]
        groups = partition.groups(self._state.names)
        group = next((one for one in groups if one.group_id == group_id), None)
        return group, [of for of in partition.offsets() if of.group_id == group_id]
