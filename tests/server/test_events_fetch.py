"""Records of group events in the answers to Fetch: as much as a client has room for."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from support.kio_client import decode, encode

from pykcoord._native import merge_events
from pykcoord.catalogue import TopicCatalogue
from pykcoord.log.event_keeping import FileKeeper
from pykcoord.log.events import EventLimits
from pykcoord.recorded import EventFiles, Recorded
from pykcoord.server.api.events_topic import EventsTopic

from .test_fetch import MS
from .test_slices import Rig

_SHARDS = 40
_PARTITION_BYTES = 1 << 20
_VALUE_BYTES = 1 << 16


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> EventsTopic:
    """More than 1 MiB in each of 40 partitions."""
    path = tmp_path_factory.mktemp("events")
    keeper = FileKeeper(path, EventLimits(1 << 30, 1 << 40, 1 << 30, 1 << 30), merge_events)
    value = random.Random(1).randbytes(_VALUE_BYTES)
    records = [(at, b"billing", value) for at in range(1 + _PARTITION_BYTES // _VALUE_BYTES)]
    assert keeper.append(dict.fromkeys(range(_SHARDS), records)) == {}
    return EventsTopic(Recorded(EventFiles(path), _SHARDS))


def fetched(events: EventsTopic, max_bytes: int) -> list[Any]:
    """Each partition of the answer to a Fetch of all of them from the beginning."""

    async def main() -> list[Any]:
        rig = Rig(catalogue=TopicCatalogue({"orders": 1}))
        rig.dispatcher._cluster.events = events
        asked = [
            {"partition": one, "fetch_offset": 0, "partition_max_bytes": _PARTITION_BYTES}
            for one in range(_SHARDS)
        ]
        fields = {
            "replica_id": -1, "max_wait": 0 * MS, "min_bytes": 1, "max_bytes": max_bytes,
            "topics": [{"topic": events.topic.name, "partitions": asked}],
        }  # fmt: skip
        ticket = rig.send(encode(1, 4, **fields))
        reply = await rig.until_answered(ticket)
        assert ticket in rig.replies, rig.refused
        (topic,) = decode(1, 4, reply).responses
        return [*topic.partitions]

    return asyncio.run(main())


def test_who_has_room_for_all_gets_what_fits_into_an_answer(events: EventsTopic) -> None:
    """50 MiB, the usual room of a consumer: its connection was closed, each time."""
    partitions = fetched(events, 50 << 20)
    sizes = [len(one.records) for one in partitions]
    assert (16 << 20) <= sum(sizes) < (18 << 20)
    assert {one.error_code for one in partitions} == {0}
    assert 0 not in sizes[:15]
    assert sizes[20:] == [0] * 20


def test_who_has_room_for_little_gets_the_first_partition_that_has_any(
    events: EventsTopic,
) -> None:
    for max_bytes in (0, 1, _PARTITION_BYTES // 2):
        sizes = [len(one.records) for one in fetched(events, max_bytes)]
        assert sizes[0] > 0
        assert sum(sizes[1:]) == 0
