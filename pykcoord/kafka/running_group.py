"""A group of a running coordinator, pykcoord's or Kafka's, as an administrator changes it: members
removed, offsets set and removed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from kio.schema.consumer_group_describe.v0.request import ConsumerGroupDescribeRequest as DescribeV0
from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest as DescribeV1
from kio.schema.describe_groups.v5.request import DescribeGroupsRequest
from kio.schema.find_coordinator.v4.request import FindCoordinatorRequest
from kio.schema.offset_commit.v8.request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kio.schema.offset_delete.v0.request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kio.schema.offset_fetch.v8.request import OffsetFetchRequest, OffsetFetchRequestGroup
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i32, i64

from pykcoord.clock import monotonic_seconds
from pykcoord.errors import KafkaError, KcoordError
from pykcoord.expelling import consumer_leave, leave_group
from pykcoord.kafka.client_properties import ClientProperties
from pykcoord.kafka.cluster import Cluster
from pykcoord.kafka.errors import ClusterError, UnreachableError
from pykcoord.offset_history import CommittedOffset

__all__ = ["HAS_MEMBERS", "Member", "RunningGroup", "reason_of"]

_Place = tuple[str, int]
HAS_MEMBERS = frozenset({22, 25, 27, 68, 86, 110, 113})
"""What a change of a group hears that has members."""
# The coordinator moves, or loads the group: ask again.
_AGAIN = frozenset({14, 15, 16})
_AGAIN_SECONDS = 30.0
_PAUSE_SECONDS = 0.2
_UNKNOWN_MEMBER = 25
_NO_SUCH_GROUP = 69
# It has the request, and the protocol is switched off.
_UNSUPPORTED = 35
_LEAVE_GROUP, _CONSUMER_DESCRIBE = 13, 69
# In one request: a coordinator may bound them.
_PARTITIONS = 5_000
_WORDS = {
    3: "the topic or partition does not exist any more",
    30: "the principal may not READ the group",
    29: "the principal may not READ the topic",
}


class Member(NamedTuple):
    """A member of the group; `is_consumer`: of the consumer protocol (KIP-848)."""

    member_id: str
    instance_id: str | None
    client_id: str
    is_consumer: bool


class RunningGroup:
    """One group, through its coordinator, which is found again when it moves. Raises KcoordErrors
    that say which server."""

    def __init__(self, cluster: Cluster, group_id: str) -> None:
        self._cluster = cluster
        self._group_id = group_id
        self._servers = cluster.properties.bootstrap_servers
        self._node: int | None = None

    @classmethod
    @asynccontextmanager
    async def connected(
        cls, properties: ClientProperties, group_id: str
    ) -> AsyncIterator[RunningGroup]:
        """Within it, connected. Raises KcoordError where no server answers, or it refuses."""
        try:
            cluster = await Cluster.open(properties, topics=())
        except ValueError as error:
            raise KcoordError(f"--bootstrap-servers: {error}") from None
        except UnreachableError as error:
            raise KcoordError(f"{error}; is a server running there?") from None
        try:
            yield cls(cluster, group_id)
        finally:
            await cluster.close()

    async def offsets(self) -> dict[_Place, int]:
        """What it has committed now."""
        asked = OffsetFetchRequestGroup(group_id=GroupId(self._group_id), topics=None)
        answer = await self._ask(OffsetFetchRequest(groups=(asked,), require_stable=False))
        (group,) = answer.groups
        if group.error_code.value not in (0, _NO_SUCH_GROUP):
            raise self._refused(group.error_code.value)
        return {
            (str(topic.name), int(one.partition_index)): int(one.committed_offset)
            for topic in group.topics
            for one in topic.partitions
            if one.committed_offset >= 0
        }

    async def members(self) -> list[Member]:
        """Those that it has, of either protocol."""
        ids = (GroupId(self._group_id),)
        node = await self._coordinator()
        connection = await self._cluster.control(node)
        for version, request in ((1, DescribeV1), (0, DescribeV0)):
            if connection.has(_CONSUMER_DESCRIBE, version):
                asked = request(group_ids=ids, include_authorized_operations=False)
                (group,) = (await self._ask(asked)).groups
                code = group.error_code.value
                if code == 0:
                    return [_member(one) for one in group.members]
                if code not in (_NO_SUCH_GROUP, _UNSUPPORTED):
                    raise self._refused(code)
                break
        of_classic = DescribeGroupsRequest(groups=ids, include_authorized_operations=False)
        (group,) = (await self._ask(of_classic)).groups
        if group.error_code.value not in (0, _NO_SUCH_GROUP):
            raise self._refused(group.error_code.value)
        return [
            Member(one.member_id, one.group_instance_id or None, one.client_id, False)
            for one in group.members
        ]

    async def expel(self, members: Iterable[Member], reason: str) -> None:
        """Removes these; one that went meanwhile is as good. `reason`: what those of the classic
        protocol, and the coordinator, are told (KIP-800)."""
        classic: list[tuple[str, str | None]] = []
        for one in members:
            if one.is_consumer:
                answer = await self._ask(consumer_leave(self._group_id, one.member_id))
                self._check(answer.error_code.value)
            elif one.instance_id is not None:
                classic.append(("", one.instance_id))
            else:
                classic.append((one.member_id, None))
        if classic:
            connection = await self._cluster.control(await self._coordinator())
            said = reason if connection.has(_LEAVE_GROUP, 5) else None
            answer = await self._ask(leave_group(self._group_id, classic, said))
            for code in _codes(answer):
                self._check(code)

    async def commit(self, offsets: Mapping[_Place, CommittedOffset]) -> dict[_Place, int]:
        """Commits them; those that were refused, with Kafka's code."""
        refused: dict[_Place, int] = {}
        for some in _parts(sorted(offsets)):
            topics = tuple(
                OffsetCommitRequestTopic(
                    name=TopicName(topic),
                    partitions=tuple(
                        _committed(number, offsets[topic, number]) for number in numbers
                    ),
                )
                for topic, numbers in _by_topic(some).items()
            )
            request = OffsetCommitRequest(
                group_id=GroupId(self._group_id),
                generation_id_or_member_epoch=i32(-1),
                member_id="",
                topics=topics,
            )
            refused |= _refused_in(await self._ask(request))
        return refused

    async def remove(self, places: Sequence[_Place]) -> dict[_Place, int]:
        """Removes the offsets of these partitions; those that were refused, with Kafka's code."""
        refused: dict[_Place, int] = {}
        for some in _parts(places):
            topics = tuple(
                OffsetDeleteRequestTopic(
                    name=TopicName(topic),
                    partitions=tuple(
                        OffsetDeleteRequestPartition(partition_index=i32(number))
                        for number in numbers
                    ),
                )
                for topic, numbers in _by_topic(some).items()
            )
            request = OffsetDeleteRequest(group_id=GroupId(self._group_id), topics=topics)
            answer = await self._ask(request)
            code = answer.error_code.value
            refused |= dict.fromkeys(some, code) if code else _refused_in(answer)
        return refused

    async def _ask(self, request: Any) -> Any:
        """The coordinator's answer, once it is the coordinator and has loaded the group."""
        until = monotonic_seconds() + _AGAIN_SECONDS
        while True:
            try:
                answer = await self._cluster.ask(await self._coordinator(), request)
                again = next((code for code in _codes(answer) if code in _AGAIN), None)
                if again is None:
                    return answer
                last = _name(again)
            except UnreachableError as error:
                last = str(error)
            self._node = None
            if monotonic_seconds() > until:
                raise ClusterError(self._servers, f"group {self._group_id!r}: {last}")
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _coordinator(self) -> int:
        if self._node is not None:
            return self._node
        request = FindCoordinatorRequest(coordinator_keys=(self._group_id,))
        failure: ClusterError | None = None
        for node_id in sorted(self._cluster.view.brokers):
            try:
                (found,) = (await self._cluster.ask(node_id, request)).coordinators
            except UnreachableError as error:
                failure = error
                continue
            code = found.error_code.value
            if code == 0 and int(found.node_id) not in self._cluster.view.brokers:
                await self._cluster.refreshed()
            if code in _AGAIN:
                raise UnreachableError(self._servers, _name(code))
            self._check(code)
            self._node = int(found.node_id)
            return self._node
        raise failure or UnreachableError(self._servers, "it names no broker")

    def _check(self, code: int) -> None:
        """Of a member that went, and of a group, nothing is left to do."""
        if code not in (0, _UNKNOWN_MEMBER, _NO_SUCH_GROUP):
            raise self._refused(code)

    def _refused(self, code: int) -> KcoordError:
        return ClusterError(self._servers, f"group {self._group_id!r}: {reason_of(code)}")


def reason_of(code: int) -> str:
    """A code of Kafka's in words that name the way out, or else by its name."""
    if code in HAS_MEMBERS:
        return "the group has members by now"
    return _WORDS.get(code) or _name(code)


def _name(code: int) -> str:
    return KafkaError(code).name


def _parts(places: Sequence[_Place]) -> Iterator[Sequence[_Place]]:
    for at in range(0, len(places), _PARTITIONS):
        yield places[at : at + _PARTITIONS]


def _codes(of: Any) -> Iterator[int]:
    """All codes of errors in an answer."""
    if (code := getattr(of, "error_code", None)) is not None:
        yield code.value
    for name in ("groups", "topics", "partitions", "members"):
        for one in getattr(of, name, None) or ():
            yield from _codes(one)


def _member(of: Any) -> Member:
    # Before version 1 it is not said which protocol they use; all may be asked to go alike.
    is_classic = getattr(of, "member_type", -1) == 0
    return Member(of.member_id, of.instance_id or None, of.client_id, not is_classic)


def _committed(partition: int, of: CommittedOffset) -> OffsetCommitRequestPartition:
    return OffsetCommitRequestPartition(
        partition_index=i32(partition),
        committed_offset=i64(of.offset),
        committed_leader_epoch=i32(of.leader_epoch),
        committed_metadata=of.metadata,
    )


def _by_topic(places: Iterable[_Place]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, partition in places:
        found.setdefault(topic, []).append(partition)
    return found


def _refused_in(answer: Any) -> dict[_Place, int]:
    return {
        (str(topic.name), int(one.partition_index)): one.error_code.value
        for topic in answer.topics
        for one in topic.partitions
        if one.error_code.value
    }
