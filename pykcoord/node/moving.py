"""Moving partitions of `__consumer_offsets` to a node, and back to brokers, by the cluster's own
reassignments. Nothing but that topic is ever named.

A node is added before the replicas that are there, which go on following; giving a partition back
takes it away again. So nothing has to be remembered for the way back.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NamedTuple

from kio.schema.alter_partition_reassignments.v0.request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kio.schema.describe_cluster.v2.request import DescribeClusterRequest
from kio.schema.elect_leaders.v2.request import ElectLeadersRequest, TopicPartitions
from kio.schema.incremental_alter_configs.v1.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kio.schema.list_groups.v5.request import ListGroupsRequest
from kio.schema.list_partition_reassignments.v0.request import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from kio.schema.metadata.v12.request import MetadataRequest, MetadataRequestTopic
from kio.schema.offset_fetch.v9.request import OffsetFetchRequest, OffsetFetchRequestGroup
from kio.schema.types import BrokerId, GroupId, TopicName
from kio.static.primitive import i8, i32, i32Timedelta

from pykcoord._native import partition_of
from pykcoord.addresses import address_text
from pykcoord.clock import monotonic_seconds
from pykcoord.kafka import Cluster, ClusterError, UnreachableError
from pykcoord.log.folders import TOPIC
from pykcoord.node.cordon import CORDON_SETTING
from pykcoord.node.errors import NodeError

__all__ = ["Move", "Mover", "Progress"]

_SERVED_TYPES = frozenset({"classic", "consumer", ""})
_SHARE_FETCH = 78
_NAME = TopicName(TOPIC)
_TIMEOUT = i32Timedelta.parse(timedelta(seconds=30))
_DESCRIBE_CLUSTER = (60, 2)
_ALL_BROKERS = DescribeClusterRequest(
    include_cluster_authorized_operations=False, include_fenced_brokers=True
)
_POLL_SECONDS, _OPEN_SECONDS = 0.2, 20.0
_LOOK_SECONDS, _LOAD_SECONDS, _KNOWN_SECONDS = 0.02, 30.0, 3.0
# It loads; it does not know yet that it leads.
_SOON = frozenset({14, 15, 16})
_BROKER_RESOURCE, _SET, _DELETE = 4, 0, 1
_NO_REASSIGNMENT, _NOT_NEEDED, _NOT_AVAILABLE = 85, 84, 80
_TOPIC_NOT_AUTHORIZED, _CLUSTER_NOT_AUTHORIZED = 29, 31


class Progress(NamedTuple):
    """How far a move is: of `total` partitions so many are `moved`, as the cluster sees it."""

    moved: int
    total: int
    seconds: float


@dataclass(slots=True)
class Move:
    """What is to become of one partition: its `replicas` in preferred order and its `leader` now,
    and the replicas `then`. `groups` are the ids of its groups, `kinds` counts them by their types.
    `refusal` says why it is not moved; None: it can be."""

    partition: int
    replicas: tuple[int, ...]
    leader: int
    then: tuple[int, ...]
    kinds: dict[str, int] = field(default_factory=dict)
    groups: list[str] = field(default_factory=list)
    refusal: str | None = None

    @property
    def is_needed(self) -> bool:
        """Whether it is not so already."""
        return self.replicas != self.then or self.leader != self.then[0]


class Mover:
    """Moves partitions of a cluster to and from the node `node_id`. Each call raises ClusterError
    and NodeError."""

    def __init__(self, cluster: Cluster, node_id: int) -> None:
        self._cluster = cluster
        self._node_id = node_id

    async def check_node(self) -> None:
        """Raises NodeError where the id is of no node of pykcoord. One that was started just now is
        waited for: brokers hear of it one after the other."""
        view, started = self._cluster.view, monotonic_seconds()
        while self._node_id not in view.brokers and self._cluster.failure is None:
            if monotonic_seconds() - started > _KNOWN_SECONDS:
                break
            await self._cluster.refreshed()
        if self._node_id not in view.brokers:
            raise NodeError(await self._why_missing())
        try:
            connection = await self._cluster.control(self._node_id)
        except UnreachableError as error:
            state = f"does not answer ({error.reason})"
            raise NodeError(self._down(error.address, state)) from error
        if connection.has(_SHARE_FETCH, 1):
            raise NodeError(
                f"broker {self._node_id} is a broker of Kafka, no node of pykcoord: name the "
                "node's id"
            )

    async def _why_missing(self) -> str:
        """Brokers name in Metadata those only that are up. It may be registered all the same."""
        brokers = sorted(self._cluster.view.brokers)
        for broker in brokers:
            with contextlib.suppress(ClusterError):
                if not (await self._cluster.control(broker)).has(*_DESCRIBE_CLUSTER):
                    continue
                for one in (await self._cluster.ask(broker, _ALL_BROKERS)).brokers:
                    if int(one.broker_id) == self._node_id:
                        return self._down(address_text(one.host, int(one.port)), "is not up")
                break
        known = ", ".join(map(str, brokers))
        return (
            f"the cluster has no node {self._node_id} (it has {known}): start it with {self._start}"
        )

    def _down(self, address: str, state: str) -> str:
        return (
            f"node {self._node_id} is registered ({address}) and {state}: start it with "
            f"{self._start} and the DIR that it had. If it is not to come back: `pykcoord kafka "
            f"return`, then `kafka-cluster.sh unregister --id {self._node_id}`"
        )

    @property
    def _start(self) -> str:
        return f"`pykcoord serve DIR --kafka HOST:PORT --as node --set node.id={self._node_id}`"

    async def plan(self, numbers: Collection[int] | None, *, takes: bool) -> list[Move]:
        """What is to be done for these partitions, all where None: to take them to the node, or to
        give them back. Raises NodeError for numbers that are not there."""
        moves = [
            Move(number, replicas, leader, self._then(replicas, takes))
            for number, (leader, replicas, _) in sorted((await self._placements()).items())
            if (numbers is None or number in numbers) and (takes or self._node_id in replicas)
        ]
        unknown = set(numbers or ()).difference(move.partition for move in moves)
        if unknown and takes:
            raise NodeError(f"{TOPIC} has no partition {min(unknown)}")
        if unknown:
            raise NodeError(f"{TOPIC}-{min(unknown)} is not at node {self._node_id}")
        if takes:
            await self._look_at_groups(moves)
        return moves

    async def take(self, moves: Sequence[Move], tell: Callable[[Progress], None]) -> None:
        """Has the node follow, enter the ISR and lead; returns when it leads all of them."""
        moves = [move for move in moves if move.refusal is None and move.is_needed]
        if not moves:
            return
        await self._open_node(False)  # what an interrupted move left opens nothing
        await self._open_node(True)
        try:
            await self._reassign_when_open(moves)
        finally:
            await self._open_node(False)
        await self._follow(moves, tell)

    async def give_back(self, moves: Sequence[Move], tell: Callable[[Progress], None]) -> None:
        """Has brokers enter the ISR and lead; returns when the node has no replica of them, and the
        brokers have loaded them. A broker is given one at a time: what it has not loaded yet it
        refuses to clients, and not all of them try again for long."""
        moves = [move for move in moves if move.is_needed]
        started, moved, told = monotonic_seconds(), 0, float("-inf")

        def tell_all(progress: Progress) -> None:
            nonlocal told
            seconds, all_moved = monotonic_seconds() - started, moved + progress.moved
            if seconds - told >= _POLL_SECONDS or all_moved == len(moves):
                told = seconds
                tell(Progress(all_moved, len(moves), seconds))

        for few in _one_of_each_broker(moves):
            self._raise_refused(await self._reassign(few))
            await self._follow(few, tell_all, _LOOK_SECONDS)
            await self._wait_for_loads([move.partition for move in few])
            moved += len(few)

    def _then(self, replicas: tuple[int, ...], takes: bool) -> tuple[int, ...]:
        others = tuple(one for one in replicas if one != self._node_id)
        if takes:
            return (self._node_id, *others)
        if others:
            return others
        brokers = sorted(set(self._cluster.view.brokers) - {self._node_id})
        return tuple(brokers[:3])

    async def _ask(self, request: Any) -> Any:
        """Any broker's answer, but not the node's: it only sends it on."""
        last: ClusterError | None = None
        for broker in sorted(self._cluster.view.brokers):
            if broker == self._node_id:
                continue
            try:
                return await self._cluster.ask(broker, request, seconds=60)
            except ClusterError as error:
                last = error
        raise last or NodeError("the cluster has no broker")

    async def _placements(self) -> dict[int, tuple[int, tuple[int, ...], tuple[int, ...]]]:
        """Of each partition its leader, replicas, and ISR."""
        request = MetadataRequest(
            topics=(MetadataRequestTopic(topic_id=None, name=_NAME),),
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        )
        answer = await self._ask(request)
        (topic,) = answer.topics
        if topic.error_code.value == _TOPIC_NOT_AUTHORIZED:
            raise NodeError(f"the principal needs DESCRIBE on the topic {TOPIC}")
        if topic.error_code.value:
            raise NodeError(f"{TOPIC}: {topic.error_code.name}")
        return {
            int(one.partition_index): (
                int(one.leader_id),
                tuple(int(of) for of in one.replica_nodes),
                tuple(int(of) for of in one.isr_nodes),
            )
            for one in topic.partitions
        }

    async def _look_at_groups(self, moves: list[Move]) -> None:
        """Groups of kinds that are not served."""
        count = len(await self._placements())
        by_number = {move.partition: move for move in moves}
        for broker in sorted(self._cluster.view.brokers):
            for group in await self._groups_of(broker):
                move = by_number.get(partition_of(str(group.group_id), count))
                if move is None:
                    continue
                move.groups.append(str(group.group_id))
                kind = str(group.group_type).lower()
                move.kinds[kind or "classic"] = move.kinds.get(kind or "classic", 0) + 1
                if kind not in _SERVED_TYPES:
                    move.refusal = f"{kind} group {group.group_id}, a kind that is not served"

    async def _groups_of(self, broker: int) -> Sequence[Any]:
        """All that it lists: while it loads some, it lists none."""
        started = monotonic_seconds()
        while True:
            answer = await self._cluster.ask(broker, ListGroupsRequest())
            if not answer.error_code.value:
                groups: Sequence[Any] = answer.groups
                return groups
            is_late = monotonic_seconds() - started > _LOAD_SECONDS
            if answer.error_code.value not in _SOON or is_late:
                raise NodeError(
                    f"broker {broker} does not list its groups: {answer.error_code.name}; whether "
                    "the partitions have groups of kinds that are not served is not known"
                )
            await asyncio.sleep(_POLL_SECONDS)

    async def _open_node(self, opens: bool) -> None:
        request = IncrementalAlterConfigsRequest(
            resources=(
                AlterConfigsResource(
                    resource_type=i8(_BROKER_RESOURCE),
                    resource_name=str(self._node_id),
                    configs=(
                        AlterableConfig(
                            name=CORDON_SETTING,
                            config_operation=i8(_SET if opens else _DELETE),
                            value="" if opens else None,
                        ),
                    ),
                ),
            ),
            validate_only=False,
        )
        answer = await self._cluster.ask(self._node_id, request)
        for one in answer.responses:
            if one.error_code.value:
                raise NodeError(
                    f"{CORDON_SETTING} of node {self._node_id} cannot be changed: "
                    f"{one.error_message or one.error_code.name}; ALTER_CONFIGS on the cluster is "
                    "needed"
                )

    async def _reassign_when_open(self, moves: Sequence[Move]) -> None:
        started = monotonic_seconds()
        while True:
            refused = await self._reassign(moves)
            is_cordoned = any("cordoned" in reason for reason in refused.values())
            if not is_cordoned or monotonic_seconds() - started > _OPEN_SECONDS:
                self._raise_refused(refused)
                return
            await asyncio.sleep(_POLL_SECONDS)

    async def _reassign(self, moves: Sequence[Move]) -> dict[int, str]:
        """Asks for it; returns what was refused, and why."""
        request = AlterPartitionReassignmentsRequest(
            timeout=_TIMEOUT,
            topics=(
                ReassignableTopic(
                    name=_NAME,
                    partitions=tuple(
                        ReassignablePartition(
                            partition_index=i32(move.partition),
                            replicas=tuple(BrokerId(one) for one in move.then),
                        )
                        for move in moves
                    ),
                ),
            ),
        )
        answer = await self._ask(request)
        self._raise_lacking(answer.error_code.value)
        if answer.error_code.value:
            raise NodeError(
                f"the reassignment is refused: {answer.error_message or answer.error_code.name}"
            )
        return {
            int(one.partition_index): one.error_message or one.error_code.name
            for topic in answer.responses
            for one in topic.partitions
            if one.error_code.value
        }

    def _raise_lacking(self, code: int) -> None:
        if code == _CLUSTER_NOT_AUTHORIZED:
            raise NodeError("the principal needs ALTER on the cluster")

    def _raise_refused(self, refused: dict[int, str]) -> None:
        for number, reason in refused.items():
            raise NodeError(f"the reassignment of {TOPIC}-{number} is refused: {reason}")

    async def _follow(
        self,
        moves: Sequence[Move],
        tell: Callable[[Progress], None],
        poll_seconds: float = _POLL_SECONDS,
    ) -> None:
        """Until all partitions are as they are to be, also their leaders."""
        started = monotonic_seconds()
        while True:
            placements = await self._placements()
            under_way = await self._under_way(move.partition for move in moves)
            unled, moved = [], 0
            for move in moves:
                leader, replicas, _ = placements[move.partition]
                if move.partition in under_way or set(replicas) != set(move.then):
                    continue
                if leader == move.then[0] or self._node_id not in move.then:
                    moved += leader >= 0
                else:
                    unled.append(move.partition)
            tell(Progress(moved, len(moves), monotonic_seconds() - started))
            if moved == len(moves):
                return
            if unled:
                await self._elect(unled)
            else:
                await asyncio.sleep(poll_seconds)

    async def _wait_for_loads(self, numbers: Iterable[int]) -> None:
        """Until the leaders of these partitions serve them. One that does not answer, or loads on
        and on, is not waited for: nothing depends on it."""
        placements = await self._placements()
        started = monotonic_seconds()
        for number in numbers:
            leader, _, _ = placements[number]
            group_id = _a_group_of(number, len(placements))
            group = OffsetFetchRequestGroup(group_id=group_id, topics=None)
            request = OffsetFetchRequest(groups=(group,))
            while monotonic_seconds() - started < _LOAD_SECONDS:
                try:
                    (answer,) = (await self._cluster.ask(leader, request)).groups
                except ClusterError:
                    break
                if answer.error_code.value not in _SOON:
                    break
                await asyncio.sleep(_LOOK_SECONDS)

    async def _under_way(self, numbers: Iterable[int]) -> set[int]:
        request = ListPartitionReassignmentsRequest(
            timeout=_TIMEOUT,
            topics=(
                ListPartitionReassignmentsTopics(
                    name=_NAME, partition_indexes=tuple(i32(one) for one in numbers)
                ),
            ),
        )
        answer = await self._ask(request)
        return {int(one.partition_index) for topic in answer.topics for one in topic.partitions}

    async def _elect(self, numbers: Sequence[int]) -> None:
        request = ElectLeadersRequest(
            election_type=i8(0),
            topic_partitions=(
                TopicPartitions(topic=_NAME, partitions=tuple(i32(one) for one in numbers)),
            ),
            timeout=_TIMEOUT,
        )
        answer = await self._ask(request)
        self._raise_lacking(answer.error_code.value)
        if answer.error_code.value:
            raise NodeError(f"no leader can be elected: {answer.error_code.name}")
        for one in (
            of for topic in answer.replica_election_results for of in topic.partition_result
        ):
            if one.error_code.value not in (0, _NOT_NEEDED, _NOT_AVAILABLE):
                raise NodeError(
                    f"{TOPIC}-{one.partition_id}: the node is not elected: "
                    f"{one.error_message or one.error_code.name}"
                )
        await asyncio.sleep(_POLL_SECONDS)


def _one_of_each_broker(moves: Sequence[Move]) -> Iterator[list[Move]]:
    """The moves in steps, in which each broker is to lead one more."""
    left: dict[int, list[Move]] = defaultdict(list)
    for move in reversed(moves):
        left[move.then[0]].append(move)
    while any(left.values()):
        yield [of.pop() for of in left.values() if of]


def _a_group_of(number: int, count: int) -> GroupId:
    """An id whose group, if there is one, is in that partition."""
    names = (f"moved-{at}" for at in itertools.count())
    return GroupId(next(name for name in names if partition_of(name, count) == number))
