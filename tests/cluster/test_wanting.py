"""`pykcoord cluster move` and `drain`: shards go where operators want them, and groups do not
notice more than a pause."""

from __future__ import annotations

import pytest
from click.testing import CliRunner, Result
from kafka import KafkaConsumer
from support.hosting import wait_until
from support.members import GROUPS, SHARDS, Members, gap, served_again, spread
from support.probe import Probe

from pykcoord._native import partition_of
from pykcoord.cli import commands
from pykcoord.cluster.looking import ClusterState, read_cluster

pytestmark = [pytest.mark.client, pytest.mark.crash]

# Of a gap in acknowledged commits where a shard is handed over, without what nodes and probes wait
# for a processor.
HANDOVER_S = 1.0
ORDERS = 6


def cluster(members: Members, command: str, *arguments: object) -> Result:
    whole = ["cluster", command, str(members.folder), *map(str, arguments)]
    return CliRunner().invoke(commands, whole)


def state(members: Members) -> ClusterState:
    return read_cluster(str(members.folder))


def joined(members: Members, group: str) -> KafkaConsumer:
    consumer = KafkaConsumer(
        "orders",
        bootstrap_servers=members.bootstrap.split(","),
        group_id=group,
        enable_auto_commit=False,
        retry_backoff_ms=20,
        reconnect_backoff_ms=20,
    )
    wait_until(lambda: consumer.poll(500) or len(consumer.assignment()) == ORDERS)
    return consumer


def heard(members: Members) -> list[str]:
    """What the others than node 1 have said."""
    return [line for node in (2, 3) for line in members.lines[node]]


def generation(consumer: KafkaConsumer) -> tuple[int, str]:
    held = consumer._coordinator.generation_if_stable()
    return held.generation_id, held.member_id


def test_a_shard_that_is_moved_is_led_there_with_all_that_its_groups_have(
    members: Members, probes: list[Probe]
) -> None:
    before = spread(members)
    shard = 3
    source = before.leader(shard)
    target = next(node.node_id for node in before.nodes if node.node_id != source)
    (probe,) = [one for one in probes if one.group_id == GROUPS[shard]]
    # Not the group that is committed to without being a member.
    group = next(f"h{n}" for n in range(100) if partition_of(f"h{n}", SHARDS) == shard)
    consumer = joined(members, group)
    try:
        held = generation(consumer)
        since = members.watched_from_now()
        told = cluster(members, "move", shard, target)
        assert told.exit_code == 0, told.output
        assert f"shard {shard}: node {source} -> node {target}" in told.output
        assert "moved 1 shard in" in told.output
        assert f"; it stays there while node {target} is there" in told.output
        served_again(members, probes)
        assert gap([probe], since) < HANDOVER_S
        consumer.poll(1000)
        assert generation(consumer) == held
        assert len(consumer.assignment()) == ORDERS
    finally:
        consumer.close(autocommit=False)
    assert state(members).leader(shard) == target
    members.wait(lambda: len(state(members).node(target).shards) == 2, "others make up for it")
    told = cluster(members, "move", shard, target)
    assert f"shard {shard}: node {target} leads it\n" in told.output
    assert f"kept at node {target}: {shard}" in cluster(members, "state").output
    told = cluster(members, "state", "--group", GROUPS[shard])
    assert told.output == f"group {GROUPS[shard]}: shard {shard}, led by node {target}\n"


def test_a_drained_node_leads_nothing_also_after_a_restart_until_it_may_again(
    members: Members, probes: list[Probe]
) -> None:
    spread(members)
    since = members.watched_from_now()
    told = cluster(members, "drain", 1)  # the controller
    assert told.exit_code == 0, told.output
    assert "node 1: 2 shards to move" in told.output
    assert "moved 2 shards in" in told.output
    served_again(members, probes)
    assert gap(probes, since) < HANDOVER_S
    assert ", controller, drained: no shard" in cluster(members, "state").output
    members.end(1)
    members.wait(lambda: any("node 1 at" in line for line in heard(members)), "it is missed")
    assert [line for line in heard(members) if "is silent or gone" in line] == []
    assert any("is gone, and led nothing" in line for line in heard(members))
    members.start(1)
    served_again(members, probes)
    assert state(members).node(1).shards == {}
    assert cluster(members, "drain", 1, "--undo").exit_code == 0
    spread(members)
    served_again(members, probes)


def test_what_is_kept_at_a_node_comes_back_with_it(members: Members, probes: list[Probe]) -> None:
    shards = sorted(spread(members).node(2).shards)
    wanted = ",".join(map(str, shards))
    assert cluster(members, "move", wanted, 2).exit_code == 0
    members.kill(2)
    served_again(members, probes)
    members.start(2)
    members.wait(lambda: sorted(state(members).node(2).shards) == shards, "they come back")
    assert cluster(members, "move", wanted, "any").exit_code == 0
    assert state(members).pins == {}


def test_what_cannot_be_is_refused_with_the_shard_and_the_node(members: Members) -> None:
    spread(members)
    store = str(members.folder)

    def refusal(command: str, *arguments: object) -> str:
        told = cluster(members, command, *arguments)
        assert told.exit_code != 0
        return str(told.exception) + told.output

    entries = state(members).entries
    assert f"shard 6: {store} has the shards 0 to 5" in refusal("move", 6, 1)
    assert f"node 9 is not there; {store} has the nodes: 1, 2, 3" in refusal("move", 0, 9)
    assert "node 9 is not there" in refusal("drain", 9)
    assert "'x' is not a shard's number" in refusal("move", "x", 1)
    assert "'x' is neither a node.id nor 'any'" in refusal("move", 0, "x")
    assert cluster(members, "move", 0, 3, "--dry-run").exit_code == 0
    assert cluster(members, "drain", 3, "--dry-run").exit_code == 0
    assert state(members).entries == entries
    assert cluster(members, "drain", 2).exit_code == 0
    assert "node 2 is drained: it is to lead nothing" in refusal("move", 0, 2)
    assert cluster(members, "drain", 3).exit_code == 0
    assert "node 1: no other node" in refusal("drain", 1)


def test_a_move_that_nobody_makes_says_so(members: Members) -> None:
    """All nodes are gone: what is wanted stays wanted."""
    source = spread(members).leader(0)
    target = 1 + source % 3
    for node in (1, 2, 3):
        members.kill(node)
    told = cluster(members, "move", 0, target, "--wait", 0.3)
    assert told.exit_code != 0
    said = str(told.exception) + told.output
    assert f"shard 0 not moved within 0.3 s, led by node {source}" in said
    assert state(members).pins == {0: target}
