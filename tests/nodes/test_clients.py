"""Real clients of `serve --nodes 3` while nodes are killed, hang and are started again."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest
from clients.fixtures import Crew, Programs
from clients.test_membership import partitions_of, wait_shared
from clients.test_restart import commit_shares, commit_until_taken, committed_by
from support.nodes import Nodes

from pykcoord._native import partition_of

pytestmark = [pytest.mark.client, pytest.mark.crash]

SHARDS, NODES = 5, 3
EVERYTHING = partitions_of("orders", 6)


def coordinator(group: str) -> int:
    """The id of the node that leads the shard of a group."""
    return 1 + partition_of(group, SHARDS) % NODES


@pytest.mark.parametrize("library", ["confluent", "kafka_python", "aiokafka"])
def test_a_group_carries_on_over_every_fault(
    library: str, new_nodes: Callable[..., Nodes], programs: Programs
) -> None:
    nodes = new_nodes({"pykcoord.node.hang.timeout.ms": "2500"}).start(NODES)
    crew = Crew(programs, nodes.bootstrap)
    try:
        settings = {"topics": ["orders"], "session_timeout_ms": 20_000}
        members = [crew.open(library, name, **settings) for name in ("first", "second")]
        wait_shared(members, EVERYTHING)
        commit_shares(members, dict.fromkeys(EVERYTHING, 1))
        node = coordinator(crew.group)

        since = nodes.kill(node)
        commit_until_taken(members, dict.fromkeys(EVERYTHING, 2))
        nodes.wait_started_again(node, since)

        nodes.send(node, signal.SIGSTOP)
        nodes.wait_started_again(node, since + 1)
        nodes.wait(lambda: bool(nodes.events("node_hangs", node)), "its log says so")
        assert committed_by(members[0], EVERYTHING) == dict.fromkeys(EVERYTHING, 2)
        commit_until_taken(members, dict.fromkeys(EVERYTHING, 3))

        assert nodes.supervisor is not None
        nodes.supervisor.send_signal(signal.SIGHUP)
        nodes.wait(lambda: bool(nodes.events("restarted")), "every node started again")
        assert committed_by(members[0], EVERYTHING) == dict.fromkeys(EVERYTHING, 3)
        commit_until_taken(members, dict.fromkeys(EVERYTHING, 4))

        third = crew.open(library, "third", **settings)
        wait_shared([*members, third], EVERYTHING)
        assert third.started(third.assignment) == dict.fromkeys(third.assignment, 4)
    finally:
        crew.close()
    assert nodes.end() == 0
