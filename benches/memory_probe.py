"""How much a process grows by groups and offsets: `python -m benches.memory_probe WAY GROUPS
OFFSET_GROUPS`.

Prints, as JSON, resident bytes for each one-member group, for each committed offset at 100 a group,
and (of the node) for the only one of a group. WAY is `node` or `dicts` (the plain coordinator). A
process of its own, because memory that was freed before would hide the growth. (`kcoord-bench
weigh` shows allocated bytes.)
"""

from __future__ import annotations

import gc
import json
import os
import sys
from pathlib import Path

from benches.plain import PlainCoordinator
from benches.workload import (
    PARTITIONS,
    TOPIC,
    Host,
    Member,
    offset_commit,
    one_member_groups,
)

WARM_UP = 500


def weigh() -> int:
    """Resident bytes of this process."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def of_node(groups: int, offset_groups: int) -> dict[str, float]:
    host = Host()
    _commit_all(host, one_member_groups(host, WARM_UP, "warm-up"))
    before = weigh()
    # In portions: what only builds the requests must not weigh in.
    for portion in range(0, groups, WARM_UP):
        one_member_groups(host, WARM_UP, f"billing-{portion // WARM_UP}")
        host.appends.clear()
    with_groups = weigh()
    for portion in range(0, offset_groups, WARM_UP):
        simple = [(f"offsets-{portion + index:06d}", "", -1) for index in range(WARM_UP)]
        _commit_all(host, simple)
    with_offsets = weigh()
    members: list[Member] = []
    for portion in range(0, groups, WARM_UP):
        members += one_member_groups(host, WARM_UP, f"single-{portion // WARM_UP}")
        host.appends.clear()
    without_single = weigh()
    for portion in range(0, groups, WARM_UP):
        _commit_all(host, members[portion : portion + WARM_UP], 1)
    single = (weigh() - without_single) / len(members)
    return {**_told(before, with_groups, with_offsets, groups, offset_groups), "single": single}


def of_dicts(groups: int, offset_groups: int) -> dict[str, float]:
    """Members with the bytes that a join and a sync leave behind, and offsets as tuples."""
    before = weigh()
    coordinator = PlainCoordinator(
        [(f"billing-0-{index:06d}", f"consumer-{index:042d}", 1) for index in range(groups)]
    )
    for group in coordinator.groups.values():
        group.metadata = (bytes(bytearray(64)), bytes(bytearray(48)))
    with_groups = weigh()
    members = [(f"offsets-{index:06d}", "", -1) for index in range(offset_groups)]
    holders = PlainCoordinator(members)
    for group in holders.groups.values():
        for partition in range(PARTITIONS):
            group.offsets[TOPIC, partition] = (1_000_000 + partition, -1, b"")
    with_offsets = weigh()
    return _told(before, with_groups, with_offsets, groups, offset_groups)


def _told(
    before: int, with_groups: int, with_offsets: int, groups: int, offset_groups: int
) -> dict[str, float]:
    offsets = offset_groups * PARTITIONS
    return {
        "group": (with_groups - before) / groups,
        "offset": (with_offsets - with_groups) / offsets,
    }


def _commit_all(host: Host, members: list[Member], partitions: int = PARTITIONS) -> None:
    """So many offsets for each."""
    for reply in host.ask(offset_commit(member, 7, 0, partitions) for member in members):
        assert reply[-2:] == b"\0\0", reply
    host.appends.clear()


if __name__ == "__main__":
    way, counts = sys.argv[1], [int(count) for count in sys.argv[2:4]]
    weights = {"node": of_node, "dicts": of_dicts}[way](counts[0], counts[1])
    sys.stdout.write(json.dumps(weights) + "\n")
