"""The metrics: names, values, and the thread that may read them."""

from __future__ import annotations

import asyncio
import threading

from prometheus_client import generate_latest
from support.scripted_node import COMMIT, HEARTBEAT, ScriptedNode

from .conftest import frame, serving

STATS = {
    "groups_empty": 1, "groups_preparing_rebalance": 2, "groups_completing_rebalance": 3,
    "groups_stable": 4, "groups_dead": 5, "members": 6, "offsets": 7, "events_dropped_total": 13,
    "rebalances_total": {"join": 8, "leave": 9}, "members_expired_total": 10,
    "coordinator_assignments_total": {"sticky": 11}, "findings_total": {"unknown_member": 12},
}  # fmt: skip


class CountingNode(ScriptedNode):
    def stats(self):
        return STATS


def test_what_only_the_node_can_count(run):
    async def main():
        async with serving(CountingNode()) as rig:
            value = rig.metrics.registry.get_sample_value
            for state, groups in (("empty", 1), ("completing_rebalance", 3), ("dead", 5)):
                assert value("pykcoord_groups", {"state": state}) == groups
            assert value("pykcoord_members") == 6
            assert value("pykcoord_offsets") == 7
            assert value("pykcoord_rebalances_total", {"cause": "leave"}) == 9
            assert value("pykcoord_members_expired_total") == 10
            assert value("pykcoord_events_dropped_total") == 13
            assert value("pykcoord_coordinator_assignments_total", {"strategy": "sticky"}) == 11
            assert value("pykcoord_findings_total", {"kind": "unknown_member"}) == 12

    run(main())


def test_commits_appends_and_the_log(run):
    async def main():
        async with serving() as rig:
            client = await rig.connect()
            for _ in range(3):
                await client.ask(frame(COMMIT))
            value = rig.metrics.registry.get_sample_value
            assert value("pykcoord_append_seconds_count") == 3
            assert value("pykcoord_request_seconds_count", {"api": "OffsetCommit"}) == 3
            assert value("pykcoord_log_bytes") == rig.log.size_bytes > 0
            rig.log.fail[0] = OSError(28, "No space left on device")
            await client.ask(frame(COMMIT))
            assert value("pykcoord_append_failures_total") == 1
            rig.metrics.log_observer.appended(0, 1, 100)
            rig.metrics.log_observer.synced(1, 0.002)
            assert value("pykcoord_log_written_bytes_total") == 100
            assert value("pykcoord_fsync_seconds_count") == 1

    run(main())


def test_connections_and_refusals(run):
    async def main():
        async with serving(max_connections=1) as rig:
            client = await rig.connect()
            await client.ask(frame(HEARTBEAT))
            assert await (await rig.connect()).closed()
            value = rig.metrics.registry.get_sample_value
            assert value("pykcoord_connections") == 1
            assert value("pykcoord_connections_accepted_total") == 1
            assert value("pykcoord_refused_total") == 1
            assert value("pykcoord_received_bytes_total") == len(frame(HEARTBEAT))
            assert value("pykcoord_requests_in_flight") == 0

    run(main())


def test_a_scrape_on_another_thread_is_sampled_on_the_loop(run):
    async def main():
        threads: list[int] = []

        class Node(ScriptedNode):
            def stats(self):
                threads.append(threading.get_ident())
                return STATS

        async with serving(Node()) as rig:
            text = await asyncio.to_thread(generate_latest, rig.metrics.registry)
            assert b"pykcoord_members 6.0" in text
            assert set(threads) == {threading.get_ident()}

    run(main())
