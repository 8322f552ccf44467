"""A server's answers about its groups over TCP: the same requests to pykcoord and to Kafka.

Group ids, states, members and offsets in the form of `expected.json` under tests/segments. Nothing
here depends on the server.
"""

from __future__ import annotations

import base64
import socket
import struct
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from itertools import islice
from typing import Any, Self, TypeVar

from kio.schema.errors import ErrorCode

from .kio_client import decode, encode

JOIN_GROUP, SYNC_GROUP, OFFSET_COMMIT, OFFSET_FETCH = 11, 14, 8, 9
DESCRIBE_GROUPS, LIST_GROUPS, DELETE_GROUPS, OFFSET_DELETE = 15, 16, 42, 47
FIND_COORDINATOR, LEAVE_GROUP, HEARTBEAT, METADATA = 10, 13, 12, 3
_AT_ONCE = 500
# A ConsumerProtocolAssignment of no partition.
_NOTHING = b"\0\0\0\0\0\0\xff\xff\xff\xff"

_Item = TypeVar("_Item")
Offsets = dict[str, dict[str, dict[str, dict[str, Any]]]]
Unstable = dict[str, dict[str, list[int]]]


class Asked:
    """One connection; requests one at a time, each answered within `timeout_s`."""

    def __init__(self, address: str, timeout_s: float = 60) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout_s)
        self._file = self._socket.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._file.close()
        self._socket.close()

    def ask(self, key: int, version: int, /, **fields: Any) -> Any:
        """The response as kio's message class."""
        self._socket.sendall(encode(key, version, **fields))
        (size,) = struct.unpack(">i", self._read(4))
        return decode(key, version, self._read(size))

    def _read(self, size: int) -> bytes:
        data = self._file.read(size)
        if len(data) != size:
            raise ConnectionError("the server closed the connection")
        return data

    def ensure_coordinator(self, group: str) -> None:
        """Asks for the group's coordinator until there is one: a new broker makes the topic now."""
        self._until(
            lambda: (
                self.ask(FIND_COORDINATOR, 4, key_type=0, coordinator_keys=(group,))
                .coordinators[0]
                .error_code
            )
        )
        self.wait_loaded()

    def wait_loaded(self) -> None:
        """Until every partition is loaded: a broker serves before that. The ids that are asked for
        hash to all of them."""
        ids = tuple(f"probe-{number}" for number in range(_AT_ONCE))

        def worst() -> ErrorCode:
            response = self.ask(DESCRIBE_GROUPS, 5, groups=ids, include_authorized_operations=False)
            return max((group.error_code for group in response.groups), key=int)

        self._until(worst)

    def _until(self, ask: Callable[[], ErrorCode], timeout_s: float = 60) -> None:
        deadline = time.monotonic() + timeout_s
        while (code := ask()) is not ErrorCode.none:
            assert time.monotonic() < deadline, code
            time.sleep(0.05)

    def topic_id(self, topic: str) -> uuid.UUID:
        """Raises AssertionError for a topic that is not there."""
        response = self.ask(
            METADATA, 12, topics=({"topic_id": uuid.UUID(int=0), "name": topic},),
            include_topic_authorized_operations=False,
        )  # fmt: skip
        (found,) = response.topics
        assert found.error_code is ErrorCode.none, found
        return found.topic_id

    def listed(self) -> dict[str, tuple[str, str, str]]:
        """Type, state and protocol type of every group, by id."""
        response = self.ask(LIST_GROUPS, 5)
        assert response.error_code is ErrorCode.none
        return {
            str(group.group_id): (
                group.group_type.lower(),
                group.group_state,
                group.protocol_type,
            )
            for group in response.groups
        }

    def described(self, groups: Iterable[str]) -> dict[str, dict[str, Any]]:
        """The answers of DescribeGroups for classic groups, by id."""
        found: dict[str, dict[str, Any]] = {}
        for ids in _batched(sorted(groups), _AT_ONCE):
            response = self.ask(
                DESCRIBE_GROUPS, 5, groups=tuple(ids), include_authorized_operations=False
            )
            for group in response.groups:
                assert group.error_code is ErrorCode.none, group
                found[str(group.group_id)] = {
                    "state": group.group_state,
                    "protocolType": group.protocol_type,
                    "protocol": group.protocol_data,
                    "members": sorted(map(_member, group.members), key=lambda m: m["memberId"]),
                }
        return found

    def offsets(self, groups: Iterable[str]) -> Offsets:
        """All committed offsets of the groups; none of a group that has none."""
        found: Offsets = {}
        for group, topics in self._fetched((group, None) for group in sorted(groups)):
            of_group: dict[str, dict[str, dict[str, Any]]] = {}
            for topic in topics:
                of_topic = of_group.setdefault(str(topic.name), {})
                for partition in topic.partitions:
                    assert partition.error_code is ErrorCode.none, (group, topic.name, partition)
                    of_topic[str(partition.partition_index)] = {
                        "offset": partition.committed_offset,
                        "leaderEpoch": partition.committed_leader_epoch,
                        "metadata": partition.metadata,
                    }
            if of_group:
                found[group] = of_group
        return found

    def unstable(self, wanted: Unstable) -> Unstable:
        """Of the partitions named, those that RequireStable refuses (UNSTABLE_OFFSET_COMMIT)."""
        found: Unstable = {}
        asked = ((group, list(topics.items())) for group, topics in sorted(wanted.items()))
        for group, topics in self._fetched(asked, require_stable=True):
            for topic in topics:
                for partition in topic.partitions:
                    if partition.error_code is ErrorCode.unstable_offset_commit:
                        assert partition.committed_offset == -1
                        of_group = found.setdefault(group, {})
                        of_group.setdefault(str(topic.name), []).append(partition.partition_index)
        for topics in found.values():
            for partitions in topics.values():
                partitions.sort()
        return found

    def commit(
        self,
        group: str,
        offsets: Sequence[tuple[str, int, int]],
        *,
        generation_id: int = -1,
        member_id: str = "",
        leader_epoch: int = -1,
        metadata: str = "",
    ) -> set[ErrorCode]:
        """Commits (topic, partition, offset); the errors of all partitions."""
        topics = [
            {
                "name": topic,
                "partitions": [
                    {
                        "partition_index": partition,
                        "committed_offset": offset,
                        "committed_leader_epoch": leader_epoch,
                        "committed_metadata": metadata,
                    }
                ],
            }
            for topic, partition, offset in offsets
        ]
        response = self.ask(
            OFFSET_COMMIT, 8, group_id=group, generation_id_or_member_epoch=generation_id,
            member_id=member_id, topics=topics,
        )  # fmt: skip
        return {p.error_code for topic in response.topics for p in topic.partitions}

    def join(
        self,
        group: str,
        *,
        instance_id: str | None = None,
        protocol_type: str = "consumer",
        protocol: str = "range",
        metadata: bytes = b"\0\0\0\0\0\1\0\6orders\xff\xff\xff\xff",
        session_timeout_ms: int = 600_000,
        member_id: str = "",
    ) -> Any:
        """One JoinGroup, and another where the server hands out an id first (KIP-394)."""
        fields: dict[str, Any] = {
            "group_id": group, "group_instance_id": instance_id, "protocol_type": protocol_type,
            "protocols": [{"name": protocol, "metadata": metadata}],
            "session_timeout": timedelta(milliseconds=session_timeout_ms),
            "rebalance_timeout": timedelta(milliseconds=session_timeout_ms),
        }  # fmt: skip
        response = self.ask(JOIN_GROUP, 7, **fields, member_id=member_id)
        if response.error_code is ErrorCode.member_id_required:
            response = self.ask(JOIN_GROUP, 7, **fields, member_id=response.member_id)
        return response

    def join_alone(
        self, group: str, assignment: bytes = b"\0\0\0\0\0\0\xff\xff\xff\xff", **fields: Any
    ) -> Any:
        """The only member of a group, up to Stable: the answer to its JoinGroup."""
        joined = self.join(group, **fields)
        assert joined.error_code is ErrorCode.none, joined
        synced = self.ask(
            SYNC_GROUP, 5, group_id=group, generation_id=joined.generation_id,
            member_id=joined.member_id, protocol_type=joined.protocol_type,
            protocol_name=joined.protocol_name,
            group_instance_id=fields.get("instance_id"),
            assignments=[{"member_id": joined.member_id, "assignment": _NOTHING}],
        )  # fmt: skip
        assert synced.error_code is ErrorCode.none, synced
        return joined

    def _fetched(
        self,
        groups: Iterable[tuple[str, list[tuple[str, list[int]]] | None]],
        require_stable: bool = False,
    ) -> Iterator[tuple[str, Any]]:
        for some in _batched(groups, _AT_ONCE):
            wanted = [
                {
                    "group_id": group,
                    "topics": None
                    if topics is None
                    else [{"name": name, "partition_indexes": which} for name, which in topics],
                }
                for group, topics in some
            ]
            response = self.ask(OFFSET_FETCH, 9, groups=wanted, require_stable=require_stable)
            for group in response.groups:
                assert group.error_code is ErrorCode.none, group
                yield str(group.group_id), group.topics


def _member(member: Any) -> dict[str, Any]:
    return {
        "memberId": member.member_id,
        "groupInstanceId": member.group_instance_id,
        "clientId": member.client_id,
        "clientHost": member.client_host,
        "memberMetadata": base64.b64encode(member.member_metadata).decode(),
        "memberAssignment": base64.b64encode(member.member_assignment).decode(),
    }


def _batched(items: Iterable[_Item], size: int) -> Iterator[list[_Item]]:
    rest = iter(items)
    while some := list(islice(rest, size)):
        yield some
