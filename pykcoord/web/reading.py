"""Groups, members and offsets as Kafka's requests tell them, for one page at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest
from kio.schema.describe_groups.v5.request import DescribeGroupsRequest
from kio.schema.list_groups.v5.request import ListGroupsRequest
from kio.schema.offset_fetch.v9.request import OffsetFetchRequest, OffsetFetchRequestGroup
from kio.schema.types import GroupId

from pykcoord._native import decode_assignment, decode_subscription
from pykcoord.errors import KafkaError
from pykcoord.protocol import decode_response, encode_request
from pykcoord.web.index import IndexBuilder
from pykcoord.web.source import NodeAddress, Source

__all__ = ["CLIENT_ID", "Group", "Member", "Place", "Reading", "Reads"]

T = TypeVar("T")

CLIENT_ID = "pykcoord-console"
# Groups in one request: what one answer costs to be taken apart.
_AT_ONCE = 25
_GROUP_ID_NOT_FOUND = 69

Place = tuple[str, int]
"""A topic and a partition."""


@dataclass(slots=True)
class Member:
    """One member. `owned` and `target` have partitions by topic; `target` is None in a classic
    group. `unreadable`: bytes of an assignment that is none of Kafka's consumers."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    owned: dict[str, list[int]]
    topics: list[str]
    rack_id: str | None = None
    epoch: int | None = None
    is_classic: bool = True
    topic_regex: str | None = None
    target: dict[str, list[int]] | None = None
    unreadable: int = 0


@dataclass(slots=True)
class Group:
    """One group as it is described. `type` is classic or consumer."""

    group_id: str
    type: str
    state: str
    protocol_type: str
    protocol: str
    members: list[Member] = field(default_factory=list)
    epoch: int | None = None
    assignment_epoch: int | None = None


class Reads(Protocol):
    """What pages ask for. On the console's loop only."""

    async def ask(self, node: NodeAddress, request: object) -> Any:
        """The response to a request."""

    async def list_into(self, builder: IndexBuilder, node: NodeAddress) -> int:
        """Put all groups of a node into a list, and how many they are."""

    async def groups(self, wanted: Mapping[str, str | None]) -> dict[str, Group]:
        """Those groups that are there. `wanted`: ids, with their types where they are known."""

    async def offsets(self, group_ids: Sequence[str]) -> dict[str, dict[Place, tuple[int, str]]]:
        """Committed offsets with their metadata, by group and partition."""


class Reading:
    """Asks all nodes of a source. On the console's loop only."""

    def __init__(self, source: Source) -> None:
        self._source = source

    async def ask(self, node: NodeAddress, request: object) -> Any:
        """The response to a request."""
        frame = encode_request(request, client_id=CLIENT_ID)
        return decode_response(request, await self._source.ask(node, frame))

    async def list_into(self, builder: IndexBuilder, node: NodeAddress) -> int:
        """Put all groups of a node into a list, and how many they are."""
        frame = encode_request(ListGroupsRequest(states_filter=()), client_id=CLIENT_ID)
        return await builder.add(self._source.parts(node, frame))

    async def groups(self, wanted: Mapping[str, str | None]) -> dict[str, Group]:
        """Those groups that are there. `wanted`: ids, with their types where they are known; of
        another type than was thought, a group is found all the same."""
        classic = [one for one, kind in wanted.items() if kind != "consumer"]
        consumer = [one for one, kind in wanted.items() if kind not in ("classic", "simple")]
        found: dict[str, Group] = {}
        for read, ids in ((self._classic, classic), (self._consumer, consumer)):
            found |= await self._in_batches(ids, read)
        late = [one for one, kind in wanted.items() if one not in found and kind is not None]
        was_consumer = [one for one in late if wanted[one] == "consumer"]
        was_classic = [one for one in late if wanted[one] != "consumer"]
        found |= await self._in_batches(was_consumer, self._classic)
        return found | await self._in_batches(was_classic, self._consumer)

    async def offsets(self, group_ids: Sequence[str]) -> dict[str, dict[Place, tuple[int, str]]]:
        """Committed offsets with their metadata, by group and partition."""
        return await self._in_batches(group_ids, self._offsets)

    async def _in_batches(self, group_ids: Iterable[str], read: Any) -> dict[str, Any]:
        by_node: dict[NodeAddress, list[str]] = {}
        for group_id in group_ids:
            by_node.setdefault(self._source.coordinator(group_id), []).append(group_id)

        async def from_node(node: NodeAddress, ids: list[str]) -> dict[str, Any]:
            found: dict[str, Any] = {}
            for at in range(0, len(ids), _AT_ONCE):
                found |= await read(node, ids[at : at + _AT_ONCE])
                await asyncio.sleep(0)
            return found

        parts = await asyncio.gather(*(from_node(*one) for one in by_node.items()))
        return {group_id: of for part in parts for group_id, of in part.items()}

    async def _classic(self, node: NodeAddress, ids: list[str]) -> dict[str, Group]:
        request = DescribeGroupsRequest(
            groups=tuple(map(GroupId, ids)), include_authorized_operations=False
        )
        answer = await self.ask(node, request)
        found = {}
        for of in answer.groups:
            if _refused(of.error_code) or of.group_state == "Dead":
                continue
            members = [_classic_member(one, of.protocol_type) for one in of.members]
            found[str(of.group_id)] = Group(
                of.group_id, "classic", of.group_state, of.protocol_type, of.protocol_data, members
            )
        return found

    async def _consumer(self, node: NodeAddress, ids: list[str]) -> dict[str, Group]:
        request = ConsumerGroupDescribeRequest(
            group_ids=tuple(map(GroupId, ids)), include_authorized_operations=False
        )
        answer = await self.ask(node, request)
        return {
            str(of.group_id): Group(
                of.group_id,
                "consumer",
                of.group_state,
                "consumer",
                of.assignor_name,
                [_consumer_member(one) for one in of.members],
                of.group_epoch,
                of.assignment_epoch,
            )
            for of in answer.groups
            if not _refused(of.error_code)
        }

    async def _offsets(
        self, node: NodeAddress, ids: list[str]
    ) -> dict[str, dict[Place, tuple[int, str]]]:
        groups = tuple(OffsetFetchRequestGroup(group_id=GroupId(one), topics=None) for one in ids)
        answer = await self.ask(node, OffsetFetchRequest(groups=groups))
        return {
            str(of.group_id): {
                (str(topic.name), one.partition_index): (one.committed_offset, one.metadata or "")
                for topic in of.topics
                for one in topic.partitions
                if one.committed_offset >= 0
            }
            for of in answer.groups
            if not _refused(of.error_code)
        }


def _refused(error_code: Any) -> bool:
    """Whether there is nothing to be read, as the group is not there or of the other type. Raises
    KafkaError where it could not be asked for."""
    code = int(error_code.value)
    if code in (0, _GROUP_ID_NOT_FOUND):
        return code != 0
    raise KafkaError(code)


def _classic_member(of: Any, protocol_type: str) -> Member:
    owned: dict[str, list[int]] = {}
    topics: list[str] = []
    unreadable = 0
    if protocol_type == "consumer":
        if (assigned := decode_assignment(of.member_assignment)) is not None:
            for topic, partitions in assigned[1]:
                owned.setdefault(topic, []).extend(partitions)
        else:
            unreadable = len(of.member_assignment)
        if (subscription := decode_subscription(of.member_metadata)) is not None:
            topics = sorted(set(subscription[1]))
    else:
        unreadable = len(of.member_assignment)
    return Member(
        of.member_id,
        of.group_instance_id,
        of.client_id,
        of.client_host,
        {topic: sorted(owned[topic]) for topic in sorted(owned)},
        topics,
        unreadable=unreadable,
    )


def _consumer_member(of: Any) -> Member:
    return Member(
        of.member_id,
        of.instance_id,
        of.client_id,
        of.client_host,
        _by_topic(of.assignment),
        sorted(map(str, of.subscribed_topic_names)),
        of.rack_id,
        of.member_epoch,
        of.member_type == 0,
        of.subscribed_topic_regex or None,
        _by_topic(of.target_assignment),
    )


def _by_topic(assignment: Any) -> dict[str, list[int]]:
    found = {
        str(of.topic_name): sorted(map(int, of.partitions)) for of in assignment.topic_partitions
    }
    return dict(sorted(found.items()))
