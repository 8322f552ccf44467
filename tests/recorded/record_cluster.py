"""Writes the store of a cluster of which the oldest entries have gone, for later versions to open:
snapshots of its log and of shards, rounds beyond them, a journal that was pruned, fences.

    PYTHONPATH=tests python tests/recorded/record_cluster.py tests/recorded/0.1-cluster

Run once for each change of a format, never over a folder that is there: what was recorded stays.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from support.hosting import wait_until
from support.one_node import GROUPS, Node

from pykcoord.cluster import member
from pykcoord.cluster.cluster_log import LOG_SNAPSHOTS, snapshot_name
from pykcoord.cluster.looking import ClusterFollower
from pykcoord.cluster.wanting import drain, move
from pykcoord.log.shared import FolderStore
from pykcoord.log.shared.rounds import CLUSTER_LOG

OFTEN = {"pykcoord_cluster_snapshot_interval_ms": 150, "pykcoord_cluster_prune_rounds": 20}
LINES = ("controller", "member", "gone", "floor", "stretch", "pin", "drained", "end")
"""A snapshot of the cluster log has each of them."""


def record(root: Path) -> dict[str, int]:
    """What each group has committed in the end."""
    store, cluster = FolderStore(root), ClusterFollower(str(root))
    with Node(store, root, 1, **OFTEN) as one:
        one.commit_all(1)
        with Node(store, root, 2) as two:
            move(cluster, [0], 2)
            wait_until(lambda: two.commit(GROUPS[0], 2) == 0, 60)
        with Node(store, root, 2, **OFTEN) as two, Node(store, root, 3) as three:
            drain(cluster, 3)
            three.end()
            offset = 2
            while not is_done(store):
                offset += 1
                move(cluster, [1], 1)
                for node, shard in ((two, 0), (one, 1)):
                    commit(node, GROUPS[shard], offset)
                time.sleep(0.1)
            two.end()
            one.end()
    return dict.fromkeys(GROUPS.values(), offset)


def commit(node: Node, group: str, offset: int) -> None:
    wait_until(lambda: node.commit(group, offset) == 0, 60)


def is_done(store: FolderStore) -> bool:
    """Entries have gone, and each snapshot that stands has all kinds of lines."""
    snapshots = [store.read(snapshot_name(int(name))) for name in store.names(LOG_SNAPSHOTS)]
    entries = [int(name) for name in store.names(CLUSTER_LOG)]
    return (
        len(snapshots) > 1
        and entries[-1] >= len(entries)
        and all(f"\n{line}" in (text or b"").decode() for text in snapshots for line in LINES)
    )


def main() -> None:
    member._LOG_ENTRIES, member._TRIM_MS = 12, 4_000
    root = Path(sys.argv[1])
    root.mkdir(parents=True)
    committed = record(root / "cluster-store")
    state = ClusterFollower(str(root / "cluster-store")).read()
    expected = {
        "committed": committed,
        "entries": state.entries,
        "term": state.term,
        "shards": state.shards,
        "nodes": [one.node_id for one in state.nodes],
        "pins": {str(shard): node for shard, node in state.pins.items()},
        "drained": state.drained,
    }
    told = json.dumps({"cluster-store": expected}, indent=1, sort_keys=True)
    (root / "expected.json").write_text(told + "\n")


main()
