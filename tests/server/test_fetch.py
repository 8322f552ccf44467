"""Fetch: a long poll on empty partitions, exact in time and in bytes."""

from __future__ import annotations

import asyncio
import datetime
import struct
import uuid

import pytest
from support.kio_client import ask, decode, encode

from pykcoord.server.api.registry import APIS

from .conftest import serving

MS = datetime.timedelta(milliseconds=1)
VERSIONS = range(APIS[1].minimum, APIS[1].maximum + 1)
UNKNOWN_ID = uuid.UUID("00000000-0000-4000-8000-00000000dead")


def poll(rig, *partitions, topic="orders", topic_id=None, offset=42, wait_ms=0, **more) -> dict:
    known = rig.catalogue.topics().get(topic)
    asked = [
        {
            "partition": partition,
            "current_leader_epoch": -1,
            "fetch_offset": offset,
            "last_fetched_epoch": -1,
            "log_start_offset": -1,
            "partition_max_bytes": 1_048_576,
        }
        for partition in partitions
    ]
    topics = [
        {
            "topic": topic,
            "topic_id": topic_id or (known.topic_id if known else UNKNOWN_ID),
            "partitions": asked,
        }
    ]
    return {
        "replica_id": -1,
        "max_wait": wait_ms * MS,
        "min_bytes": 1,
        "max_bytes": 52_428_800,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "topics": topics if partitions else [],
        "forgotten_topics_data": [],
        "rack_id": "",
        **more,
    }


@pytest.mark.parametrize("v", VERSIONS)
def test_every_version_comes_back_empty_after_its_wait(run, v):
    async def main():
        async with serving() as rig:
            client = await rig.connect()
            loop = asyncio.get_running_loop()
            for _ in range(2):  # the second is answered from what the first was answered
                started = loop.time()
                response = await ask(client, 1, v, **poll(rig, 0, 11, wait_ms=60))
                assert 0.058 <= loop.time() - started < 1.0
                (topic,) = response.responses
                if v >= 13:
                    assert topic.topic_id == rig.catalogue.topics()["orders"].topic_id
                for partition in topic.partitions:
                    assert partition.error_code == 0
                    assert partition.records == b""
                    # A consumer that resumes at 42 has read everything up to 42.
                    assert partition.high_watermark == partition.last_stable_offset == 42
                if v >= 7:
                    assert (response.session_id, response.error_code) == (0, 0)

    run(main())


def test_two_polls_of_different_lengths_end_in_their_own_time(run):
    async def main():
        async with serving() as rig:
            loop = asyncio.get_running_loop()
            ended = {}

            async def one(wait_ms: int) -> None:
                client = await rig.connect()
                await ask(client, 1, 12, **poll(rig, 0, wait_ms=wait_ms))
                ended[wait_ms] = loop.time() - started

            started = loop.time()
            await asyncio.gather(*(one(wait_ms) for wait_ms in (120, 40, 80)))
            assert list(ended) == [40, 80, 120]
            assert all(seconds * 1000 >= wait_ms - 2 for wait_ms, seconds in ended.items())

    run(main())


@pytest.mark.parametrize(
    "more",
    [
        {"min_bytes": 0},
        {"max_wait": -5 * MS},
        {"max_wait": 0 * MS},
        {"topics": []},
    ],
)
def test_what_has_nothing_to_wait_for_is_answered_at_once(run, more):
    async def main():
        async with serving() as rig:
            client = await rig.connect()
            await ask(client, 1, 12, **{**poll(rig, 0, wait_ms=600_000), **more})

    run(main())


@pytest.mark.parametrize("v", [4, 12, 13, 18])
def test_errors_are_answered_at_once(run, v):
    async def main():
        async with serving() as rig:
            client = await rig.connect()

            async def errors(*partitions, **more):
                fields = poll(rig, *partitions, wait_ms=600_000, **more)
                response = await ask(client, 1, v, **fields)
                return [int(p.error_code) for p in response.responses[0].partitions]

            assert await errors(0, 12, -1) == [0, 3, 3]
            assert await errors(0, topic="nope") == [100 if v >= 13 else 3]
            assert await errors(0, offset=-1) == [1]

    run(main())


def test_a_session_that_was_never_given_is_unknown(run):
    async def main():
        async with serving() as rig:
            client = await rig.connect()
            fields = poll(rig, 0, wait_ms=600_000, session_id=77, session_epoch=3)
            response = await ask(client, 1, 12, **fields)
            assert (response.error_code, response.responses) == (70, ())

    run(main())


def test_the_end_offset_is_what_the_catalogue_says(run):
    async def main():
        async with serving() as rig:
            rig.catalogue.set_end_offsets({("orders", 0): 100})
            client = await rig.connect()
            response = await ask(client, 1, 12, **poll(rig, 0))
            assert response.responses[0].partitions[0].high_watermark == 100

    run(main())


def test_a_changed_catalogue_is_seen_by_the_next_poll(run):
    async def main():
        async with serving() as rig:
            client = await rig.connect()
            fields = poll(rig, 0)
            assert (await ask(client, 1, 12, **fields)).responses[0].partitions[0].error_code == 0
            rig.catalogue.delete("orders")
            assert (await ask(client, 1, 12, **fields)).responses[0].partitions[0].error_code == 3

    run(main())


def test_a_poll_of_a_client_that_is_gone_leaves_nothing_behind(run):
    async def main():
        async with serving() as rig:
            client = await rig.connect()
            client.send(encode(1, 12, **poll(rig, 0, wait_ms=600_000)))
            polls = rig.server._dispatcher._polls
            await rig.until(lambda: polls)
            client.writer.transport.abort()
            await rig.until(lambda: not polls)

    run(main())


def test_a_stop_ends_long_polls_with_an_answer(run):
    async def main():
        async with serving() as rig:
            client = await rig.connect()
            client.send(encode(1, 12, **poll(rig, 0, wait_ms=600_000)))
            await rig.until(lambda: rig.server.hub.in_flight)
            await rig.until(lambda: rig.server._dispatcher._polls)
            await rig.server.stop()
            assert decode(1, 12, await client.read()).responses[0].partitions[0].error_code == 0

    run(main())


def test_requests_behind_a_long_poll_wait_for_it(run):
    async def main():
        async with serving() as rig:
            client = await rig.connect()
            client.send(encode(1, 12, 1, **poll(rig, 0, wait_ms=80)) + encode(18, 0, 2))
            first = await client.read()
            second = await client.read()
            assert [struct.unpack_from(">i", reply)[0] for reply in (first, second)] == [1, 2]

    run(main())
