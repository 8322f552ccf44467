"""What a log amounts to: groups, offsets and unstable offsets after replay, as plain data.

The form is that of DescribeGroups and ConsumerGroupDescribe in Kafka's own field names, with bytes
in base64. Share and streams groups are kept by the coordinator and named here, but not interpreted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pykcoord._native import Node
from pykcoord.cli import consumer_state
from pykcoord.cli.plain import base64_of, plain
from pykcoord.config import Config
from pykcoord.log import LogReader
from pykcoord.record_fields import assignment_of, subscription_of
from pykcoord.transfer import readable

State = dict[str, dict[str, Any]]

# Group ids are hashed by it; what is shown never depends on that.
_SEED = bytes(32)


def state_of(
    reader: LogReader, group_id: str | None = None, topic_names: Mapping[bytes, str] | None = None
) -> State:
    """`groups`, `offsets` and `unstable` of a log, each by group id, in the order of the ids; and
    `reconciliation`, what is known of consumer groups beyond Kafka's own description of them.

    `group_id` narrows all four. `topic_names`: names of topics by their ids, besides those that
    committed offsets tell. Raises LogError for a record that cannot be applied.
    """
    groups: dict[str, Any] = {}
    consumers: list[tuple[int, tuple[Any, ...]]] = []
    names: dict[bytes, str] = {}
    offsets: dict[str, Any] = {}
    unstable: dict[str, Any] = {}
    config = Config().native()
    for partition in reader.partitions:
        node = Node(config, 1, _SEED)
        _replay(node, partition, reader.read(partition))
        for row in node.groups(0):
            groups[row[0]] = _group(partition, row)
            if row[-1] is not None:
                consumers.append((partition, row))
        for group, topic, index, offset, leader_epoch, metadata, *_, topic_id in node.offsets(0):
            names[topic_id] = topic
            of_topic = offsets.setdefault(group, {}).setdefault(topic, {})
            of_topic[str(index)] = {
                "offset": offset,
                "leaderEpoch": leader_epoch,
                "metadata": metadata,
            }
        for group, topic, index in node.unstable(0):
            unstable.setdefault(group, {}).setdefault(topic, []).append(index)
    names |= topic_names or {}
    for partition, row in consumers:
        groups[row[0]] = consumer_state.described(partition, row, names)
    reconciliation = {row[0]: consumer_state.reconciling(row, names) for _, row in consumers}
    state = {"groups": groups, "offsets": offsets, "unstable": unstable}
    state["reconciliation"] = reconciliation
    return {name: _chosen(of, group_id) for name, of in state.items()}


def expirations_of(
    reader: LogReader, retention_minutes: int
) -> Iterator[tuple[str, str, int, int, int]]:
    """The committed offsets of a log that expire one day if their groups stay as they are: group,
    topic, partition, offset, and when, in ms since the epoch. Raises as `state_of`."""
    config = Config(offsets_retention_minutes=retention_minutes).native()
    for partition in reader.partitions:
        node = Node(config, 1, _SEED)
        _replay(node, partition, reader.read(partition))
        yield from node.expirations(0)


def _replay(node: Node, partition: int, chunks: Iterable[bytes]) -> None:
    for chunk in chunks:
        with readable(partition):
            node.replay(0, chunk)


def _chosen(by_group: dict[str, Any], group_id: str | None) -> dict[str, Any]:
    wanted = sorted(by_group) if group_id is None else [group_id]
    return {group: by_group[group] for group in wanted if group in by_group}


def _group(partition: int, group: tuple[Any, ...]) -> dict[str, Any]:
    _, kind, state, protocol_type, generation, protocol, leader, since_ms, members, _ = group
    if kind == "simple":
        return {
            "partition": partition,
            "type": "classic",
            "state": state,
            "protocolType": "",
            "protocolData": "",
            "members": [],
            "inLog": False,
        }
    if kind != "classic":
        return {"partition": partition, "type": kind, "interpreted": False}
    return {
        "partition": partition,
        "type": kind,
        "state": state,
        "protocolType": protocol_type,
        "members": [_member(member, protocol_type) for member in members],
        "inLog": True,
        "generation": generation,
        "protocol": protocol,
        "leader": leader,
        "currentStateTimestamp": since_ms,
    }


def _member(member: tuple[Any, ...], protocol_type: str | None) -> dict[str, Any]:
    member_id, instance_id, client_id, client_host, rebalance_ms, session_ms = member[:6]
    metadata, owned = member[6:8]
    shown = {
        "memberId": member_id,
        "groupInstanceId": instance_id,
        "clientId": client_id,
        "clientHost": client_host,
        "memberMetadata": base64_of(metadata),
        "memberAssignment": base64_of(owned),
        "rebalanceTimeoutMs": rebalance_ms,
        "sessionTimeoutMs": session_ms,
    }
    if protocol_type == "consumer":
        shown |= dict(_decoded(metadata, owned))
    return shown


def _decoded(metadata: bytes, owned: bytes) -> Iterator[tuple[str, Any]]:
    if (subscription := subscription_of(metadata)) is not None:
        yield "subscription", plain(subscription)
    if (assignment := assignment_of(owned)) is not None:
        yield "assignment", plain(assignment)
