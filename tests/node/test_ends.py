"""Where partitions of the cluster end, as a node asks their leaders and tells its catalogue."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

import pytest
from support.scripted_broker import ScriptedCluster

from pykcoord.catalogue import TopicCatalogue
from pykcoord.kafka import ClientProperties
from pykcoord.node.ends import ClusterEnds

_WAIT_S = 60.0


def _properties(cluster: ScriptedCluster) -> ClientProperties:
    return ClientProperties.of({"bootstrap.servers": cluster.bootstrap})


def test_ends_of_what_groups_here_have_committed_are_asked_of_the_leaders() -> None:
    cluster = ScriptedCluster(brokers=2)
    for name in ("orders", "bills"):
        cluster.add_topic(name, 2)
    catalogue = TopicCatalogue({"orders": 2, "bills": 2, "gone": 1})

    def furthest(topic: str, partitions: Sequence[int]) -> list[int]:
        return [4 if topic in ("orders", "gone") else 0 for _ in partitions]

    async def run() -> None:
        async with asyncio.timeout(_WAIT_S), cluster.running():
            cluster.partition("orders", 0).start = 7
            cluster.partition("orders", 1).start = 9
            cluster.partition("bills", 0).start = 5
            ends = ClusterEnds(_properties(cluster), catalogue, furthest)
            await ends.refresh()
            known = catalogue.topics()
            assert known["orders"].end_offsets == {0: 7, 1: 9}
            assert known["bills"].end_offsets == {}
            cluster.partition("orders", 1).start = 12
            await cluster.stop(1)  # which leads partition 0
            await ends.refresh()
            assert catalogue.topics()["orders"].end_offsets == {0: 7, 1: 12}
            assert (await ends.of(["bills"])) == {("bills", 1): 0}
            await ends.close()

    asyncio.run(run())


def _often_asked(monkeypatch: pytest.MonkeyPatch) -> tuple[ScriptedCluster, TopicCatalogue]:
    """With one topic, of one partition."""
    cluster = ScriptedCluster()
    cluster.add_topic("orders", 1)
    monkeypatch.setattr("pykcoord.node.ends._SECONDS", 0.01)
    monkeypatch.setattr("pykcoord.node.ends._PAUSE_FACTOR", 0.0)
    return cluster, TopicCatalogue({"orders": 1})


def test_a_cluster_that_does_not_answer_is_asked_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, catalogue = _often_asked(monkeypatch)

    async def run() -> None:
        async with asyncio.timeout(_WAIT_S), cluster.running():
            properties = _properties(cluster)
            cluster.partition("orders", 0).start = 7
            await cluster.stop(1)
            ends = ClusterEnds(properties, catalogue, lambda topic, of: [1] * len(of))
            with caplog.at_level(logging.DEBUG, "pykcoord.node"):
                ends.start()
                while not caplog.records:
                    await asyncio.sleep(0.01)
                await cluster.start(1)
                while not catalogue.topics()["orders"].end_offsets:
                    await asyncio.sleep(0.01)
            await ends.close()

    asyncio.run(run())
    assert catalogue.topics()["orders"].end_offsets == {0: 7}


def test_a_fault_is_told_of_and_does_not_end_the_asking(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, catalogue = _often_asked(monkeypatch)

    def furthest(topic: str, partitions: Sequence[int]) -> list[int]:
        if not caplog.records:
            raise RuntimeError("a fault")
        return [1] * len(partitions)

    async def run() -> None:
        async with asyncio.timeout(_WAIT_S), cluster.running():
            cluster.partition("orders", 0).start = 7
            ends = ClusterEnds(_properties(cluster), catalogue, furthest)
            ends.start()
            while not catalogue.topics()["orders"].end_offsets:
                await asyncio.sleep(0.01)
            await ends.close()

    with caplog.at_level(logging.ERROR, "pykcoord.node"):
        asyncio.run(run())
    assert "a fault" in caplog.text
