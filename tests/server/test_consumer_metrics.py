"""Metrics of consumer groups: states, epochs, and members that were refused."""

from __future__ import annotations

import datetime
import secrets
from typing import Any

from support.kio_client import ask

from pykcoord._native import Node
from pykcoord.config import Config

from .conftest import serving

FENCED_MEMBER_EPOCH = 110
STATES = ("empty", "assigning", "reconciling", "stable")


def test_states_epochs_and_fenced_members(run):
    async def main():
        node = Node(Config().native(), 2, secrets.token_bytes(32))
        async with serving(node) as rig:
            client = await rig.connect()
            value = rig.metrics.registry.get_sample_value

            async def beat(member_id: str, epoch: int) -> Any:
                return await ask(
                    client, 68, 1, group_id="g", member_id=member_id, member_epoch=epoch,
                    rebalance_timeout=datetime.timedelta(seconds=30),
                    subscribed_topic_names=["orders"], topic_partitions=[],
                )  # fmt: skip

            def groups() -> dict[str, float | None]:
                found = {of: value("pykcoord_consumer_groups", {"state": of}) for of in STATES}
                return {state: count for state, count in found.items() if count}

            assert groups() == {}
            assert (await beat("a", 0)).error_code == 0
            assert groups() == {"stable": 1}
            assert value("pykcoord_consumer_group_rebalances_total") == 1
            assert (await beat("b", 0)).error_code == 0
            assert groups() == {"assigning": 1}, "the next target has to wait for its interval"
            assert value("pykcoord_members") == 2
            assert value("pykcoord_members_fenced_total") == 0
            assert (await beat("a", 9)).error_code == FENCED_MEMBER_EPOCH
            assert value("pykcoord_members_fenced_total") == 1
            assert (await beat("a", -1)).error_code == 0
            assert (await beat("b", -1)).error_code == 0
            assert groups() == {"empty": 1}
            assert value("pykcoord_consumer_group_rebalances_total") == 4
            assert value("pykcoord_groups", {"state": "empty"}) == 0

    run(main())
