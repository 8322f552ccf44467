"""ListOffsets beside OffsetCommit: an end is never below what a group has committed."""

from __future__ import annotations

from typing import Any

from support.kio_client import ask
from support.memory_log import MemoryLog

from .conftest import serving
from .test_node_apis import list_offsets
from .test_with_node import SHARDS, commit_error, made

LATEST, EARLIEST = -1, -2


async def offset(client: Any, timestamp: int, topic: str = "orders") -> int:
    asked = list_offsets(timestamp, topic, 0)
    response = await ask(client, 2, 7, **asked)
    (partition,) = response.topics[0].partitions
    assert partition.error_code == 0
    return partition.offset


def test_an_end_follows_the_highest_commit_of_any_group(run):
    async def main():
        async with serving(made()) as rig:
            client = await rig.connect()
            assert await offset(client, LATEST) == 0
            for number in range(20):  # so many groups are in all shards
                await commit_error(client, 10 + number % 7, group_id=f"g-{number}")
            assert await offset(client, LATEST) == 16
            assert await offset(client, EARLIEST) == 0
            await commit_error(client, 1_000, group_id="g-5")
            assert await offset(client, LATEST) == 1_000

    run(main())


def test_an_end_does_not_go_back_with_a_group_that_is_reset(run):
    async def main():
        async with serving(made()) as rig:
            client = await rig.connect()
            await commit_error(client, 42)
            await commit_error(client, 7)
            assert await offset(client, LATEST) == 42

    run(main())


def test_what_an_owner_says_counts_where_it_is_further(run):
    async def main():
        async with serving(made()) as rig:
            client = await rig.connect()
            await commit_error(client, 42)
            rig.catalogue.set_end_offsets({("orders", 0): 30})
            assert await offset(client, LATEST) == 42
            rig.catalogue.set_end_offsets({("orders", 0): 1_000})
            assert await offset(client, LATEST) == 1_000

    run(main())


def test_ends_are_known_again_after_a_start_from_the_log(run):
    async def main():
        log = MemoryLog(SHARDS)
        async with serving(made(), log=log) as rig:
            client = await rig.connect()
            for number in range(20):
                await commit_error(client, 100 + number, group_id=f"g-{number}")
        async with serving(made(), log=log) as rig:
            assert await offset(await rig.connect(), LATEST) == 119

    run(main())


def test_a_topic_that_was_made_anew_ends_at_0(run):
    async def main():
        async with serving(made()) as rig:
            client = await rig.connect()
            await commit_error(client, 5)
            rig.catalogue.delete("orders")
            rig.catalogue.create("orders", 1)
            await rig.until(lambda: rig.node.stats()["offsets"] == 0)
            assert await offset(client, LATEST) == 0

    run(main())
