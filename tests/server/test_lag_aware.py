"""`lag-aware` with real clients: the ends of partitions are known to this server alone."""

from __future__ import annotations

import asyncio
import secrets
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from pykcoord._native import Node
from pykcoord.config import Config

from .conftest import serving
from .test_admin_clients import bootstrap

pytestmark = pytest.mark.client
SECONDS = 60
LAGGING = {0: 5_000, 3: 4_000, 4: 4_800, 5: 600}


def made() -> Node:
    config = Config(
        group_initial_rebalance_delay_ms=0,
        group_assignment="coordinator",
        group_assignment_groups="*:lag-aware",
    )
    return Node(config.native(), 3, secrets.token_bytes(32))


def consumer(rig: Any) -> AIOKafkaConsumer:
    return AIOKafkaConsumer(
        "orders",
        bootstrap_servers=bootstrap(rig),
        group_id="billing",
        enable_auto_commit=False,
        heartbeat_interval_ms=100,
    )


def numbers(consumer: AIOKafkaConsumer) -> set[int]:
    return {partition.partition for partition in consumer.assignment()}


async def shared(consumers: list[AIOKafkaConsumer]) -> None:
    """Each has as many; before the others have joined, one has all."""

    def is_shared() -> bool:
        owned = [numbers(one) for one in consumers]
        is_whole = sorted(number for of in owned for number in of) == list(range(8))
        return is_whole and {len(of) for of in owned} == {8 // len(consumers)}

    async with asyncio.timeout(SECONDS):
        while not is_shared():
            await asyncio.sleep(0.01)


def test_what_lags_is_spread_over_consumers(run):
    async def main():
        async with serving(made(), topics={"orders": 8}) as rig:
            ends = {("orders", number): end for number, end in LAGGING.items()}
            rig.catalogue.set_end_offsets(ends)
            first = consumer(rig)
            await first.start()
            await shared([first])
            # All of partition 3 is read: it weighs nothing any more.
            await first.commit({TopicPartition("orders", 3): 4_000})
            second = consumer(rig)
            await second.start()
            await shared([first, second])
            owned = [numbers(first), numbers(second)]
            lags = [sum(LAGGING[n] for n in own & {0, 4, 5}) for own in owned]
            assert sorted(lags) == [5_000, 5_400]
            await first.stop()
            await second.stop()

    run(main())
