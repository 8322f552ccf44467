"""A member of a group that coordinates through ZooKeeper, as the consumers of Kafka 0.8 did.

    python examples/zookeeper_member.py localhost:2181 billing orders

Start it twice, or beside an old consumer of the same group. Ctrl-C leaves the group.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import threading

from pykcoord import TopicPartition
from pykcoord.zookeeper import ZooKeeperMember


def assigned(partitions: frozenset[TopicPartition]) -> None:
    print("assigned:", *(f"{one.topic}-{one.partition}" for one in sorted(partitions)))


def revoked(partitions: frozenset[TopicPartition]) -> None:
    # The place to stop reading, and to commit: the claims are given back after this.
    print("revoked:", *(f"{one.topic}-{one.partition}" for one in sorted(partitions)))


def main(hosts: str, group_id: str, *topics: str) -> None:
    logging.basicConfig(level=logging.INFO)
    with (
        contextlib.suppress(KeyboardInterrupt),
        ZooKeeperMember(
            hosts, group_id, topics, safe=True, on_assigned=assigned, on_revoked=revoked
        ) as member,
    ):
        print(member.member_id, "reads from", member.committed())
        threading.Event().wait()


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
