"""The state that rows of `consumer_offsets` give: committed and pending offsets, replayed by the
rules of Kafka's loader in plain Python. For tests; shares no code with pykcoord.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Row = dict[str, Any]
# group, topic, partition
_Slot = tuple[str, str, int]


def replayed(rows: Iterable[Row]) -> tuple[dict[str, Any], dict[str, Any]]:
    """`offsets` and `unstable` in the form of `expected.json`, of the rows of a whole topic."""
    offsets: dict[_Slot, Row] = {}
    pending: dict[tuple[int, int], dict[_Slot, Row]] = {}
    for row in sorted(rows, key=lambda row: (row["partition"], row["offset"])):
        owner = (row["partition"], row["producer_id"])
        if row["kind"] in ("COMMIT", "ABORT"):
            for slot, commit in pending.pop(owner, {}).items():
                before = offsets.get(slot)
                newer = before is None or commit["offset"] > before["offset"]
                if row["kind"] == "COMMIT" and newer:
                    offsets[slot] = commit
        elif row["kind"] in ("OffsetCommit", "LegacyOffsetCommit"):
            slot = (row["group_id"], row["topic"], row["topic_partition"])
            if row["tombstone"]:
                offsets.pop(slot, None)
                for of_producer in pending.values():
                    of_producer.pop(slot, None)
            elif row["producer_id"] is None:
                offsets[slot] = row
            else:
                pending.setdefault(owner, {})[slot] = row
    return _committed(offsets), _unstable(pending.values())


def _committed(offsets: dict[_Slot, Row]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for (group, topic, partition), row in offsets.items():
        found.setdefault(group, {}).setdefault(topic, {})[str(partition)] = {
            "offset": row["committed"],
            "leaderEpoch": -1 if row["leader_epoch"] is None else row["leader_epoch"],
            "metadata": row["metadata"],
        }
    return found


def _unstable(pending: Iterable[dict[_Slot, Row]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for group, topic, partition in sorted({slot for of in pending for slot in of}):
        found.setdefault(group, {}).setdefault(topic, []).append(partition)
    return found
