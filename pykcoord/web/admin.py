"""Changes, where they are allowed: Kafka's own requests, each told in a line of log."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from kio.schema.delete_groups.v2.request import DeleteGroupsRequest
from kio.schema.offset_commit.v9.request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i32, i64

from pykcoord.errors import ArgumentError, KafkaError
from pykcoord.expelling import consumer_leave, leave_group
from pykcoord.web.reading import Place, Reads
from pykcoord.web.source import Source

__all__ = ["Admin"]

logger = logging.getLogger("pykcoord.web")

_REASON = "expelled in the console"
_UNKNOWN_MEMBER, _GROUP_ID_NOT_FOUND = 25, 69
_NEXT = {
    _UNKNOWN_MEMBER: "it is no member any more",
    68: "the group has members; stop them first",
    _GROUP_ID_NOT_FOUND: "there is no such group any more",
}
_MEMBERS = {22, 25, 107, 110, 111, 113}  # what a commit hears in a group with members


class Admin:
    """Changes of groups. Each raises KafkaError with the coordinator's answer, where it refuses."""

    def __init__(self, source: Source, reading: Reads) -> None:
        self._source = source
        self._reading = reading

    async def delete(self, group_id: str, by: str) -> None:
        """Delete an empty group with its offsets."""
        request = DeleteGroupsRequest(groups_names=(GroupId(group_id),))
        answer = await self._ask(group_id, request)
        for result in answer.results:
            _check(result.error_code)
        _tell(by, group_id, "deleted")

    async def expel(self, group_id: str, member_id: str, by: str) -> None:
        """Remove a member: its partitions go to the others."""
        answer = await self._ask(group_id, leave_group(group_id, [(member_id, None)], _REASON))
        _check(answer.error_code)
        if any(one.error_code.value == _UNKNOWN_MEMBER for one in answer.members):
            # One of the consumer protocol is none for LeaveGroup.
            answer = await self._ask(group_id, consumer_leave(group_id, member_id))
            if answer.error_code.value == _GROUP_ID_NOT_FOUND:
                raise KafkaError(_UNKNOWN_MEMBER, _NEXT[_UNKNOWN_MEMBER])
            _check(answer.error_code)
        else:
            for one in answer.members:
                _check(one.error_code)
        _tell(by, group_id, f"member {member_id} expelled")

    async def reset(
        self, group_id: str, places: Sequence[Place], to: str, offset: int | None, by: str
    ) -> dict[Place, int]:
        """Set the offsets of an empty group for `places` to where they begin (`to` "earliest"), to
        where they end ("latest"), or to `offset` ("offset"); what was set. Raises ArgumentError for
        partitions whose end is not known."""
        wanted: dict[str, list[int]] = {}
        for topic, partition in places:
            wanted.setdefault(topic, []).append(partition)
        if to == "latest":
            offsets = await self._source.ends(wanted)
        else:
            at = 0 if to == "earliest" else offset
            assert at is not None
            offsets = dict.fromkeys(places, at)
        if unknown := [place for place in places if place not in offsets]:
            topic, partition = unknown[0]
            raise ArgumentError("to", f"the end of {topic}-{partition} is not known")
        topics = tuple(
            OffsetCommitRequestTopic(
                name=TopicName(topic),
                partitions=tuple(
                    OffsetCommitRequestPartition(
                        partition_index=i32(partition),
                        committed_offset=i64(offsets[topic, partition]),
                        committed_metadata="",
                    )
                    for partition in partitions
                ),
            )
            for topic, partitions in wanted.items()
        )
        request = OffsetCommitRequest(
            group_id=GroupId(group_id),
            generation_id_or_member_epoch=i32(-1),
            member_id="",
            topics=topics,
        )
        answer = await self._ask(group_id, request)
        for of in answer.topics:
            for one in of.partitions:
                code = int(one.error_code.value)
                if code in _MEMBERS:
                    raise KafkaError(
                        code, "the group has members, which would commit over it; stop them first"
                    )
                _check(one.error_code)
        _tell(by, group_id, f"{len(places)} offsets reset to {to if offset is None else offset}")
        return {place: offsets[place] for place in places}

    async def _ask(self, group_id: str, request: object) -> Any:
        return await self._reading.ask(self._source.coordinator(group_id), request)


def _check(error_code: Any) -> None:
    if (code := int(error_code.value)) != 0:
        raise KafkaError(code, _NEXT.get(code, ""))


def _tell(by: str, group_id: str, what: str) -> None:
    logger.warning(
        "console: group %r: %s, by %s",
        group_id,
        what,
        by,
        extra={"event": "web_admin", "group_id": group_id, "what": what, "by": by},
    )
