"""Where partitions end, as a server's ListOffsets says it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from kio.schema.list_offsets.v7.request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i32, i64

from pykcoord.protocol import decode_response, encode_request
from pykcoord.web.source import Ends, NodeAddress

__all__ = ["list_ends"]

_LATEST = i64(-1)
# Partitions in one request: what one answer costs to be taken apart.
_AT_ONCE = 1_000


async def list_ends(
    ask: Callable[[NodeAddress, bytes], Awaitable[bytes]],
    node: NodeAddress,
    wanted: Mapping[str, Sequence[int]],
) -> Ends:
    """Ends by topic and partition; what is refused is missing."""
    places = [(topic, partition) for topic, of in wanted.items() for partition in of]
    ends: Ends = {}
    for at in range(0, len(places), _AT_ONCE):
        by_topic: dict[str, list[int]] = {}
        for topic, partition in places[at : at + _AT_ONCE]:
            by_topic.setdefault(topic, []).append(partition)
        request = ListOffsetsRequest(
            replica_id=BrokerId(-1),
            isolation_level=i8(0),
            topics=tuple(
                ListOffsetsTopic(
                    name=TopicName(topic),
                    partitions=tuple(
                        ListOffsetsPartition(partition_index=i32(one), timestamp=_LATEST)
                        for one in partitions
                    ),
                )
                for topic, partitions in by_topic.items()
            ),
        )
        answer = decode_response(request, await ask(node, encode_request(request)))
        ends |= {
            (str(topic.name), int(one.partition_index)): int(one.offset)
            for topic in answer.topics
            for one in topic.partitions
            if int(one.error_code.value) == 0 and one.offset >= 0
        }
    return ends
