"""Hosts of shards without Spark: which host leads, which is fenced, and nothing acknowledged is
lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.hosting import FaultyStore, InProcess

from pykcoord import ArrowShard
from pykcoord._native import Node, partition_of
from pykcoord.cluster.control import Answer, Ask, ControlClient, serve_control
from pykcoord.cluster.controller import Controller
from pykcoord.cluster.host import HostOptions, _Peers
from pykcoord.cluster.placement import place
from pykcoord.cluster.reading import load_into
from pykcoord.cluster.registry import HostEntry, Registry, ShardEntry
from pykcoord.cluster.snapshots import ShardSnapshots
from pykcoord.cluster.topics import SharedTopics, TopicsConflictError, open_topics
from pykcoord.config import Config
from pykcoord.errors import ArgumentError
from pykcoord.log.shared import FolderStore, ShardLog

LOAD_IN_PROGRESS, NOT_COORDINATOR = 14, 16
SHARDS = 2
GROUPS = ["g0", "g1", "g2", "g3"]


def run(main: Awaitable[Any], seconds: float = 60) -> Any:
    async def bounded() -> Any:
        async with asyncio.timeout(seconds):
            return await main

    return asyncio.run(bounded())


# Placement.


@given(
    st.integers(1, 60),
    st.sets(st.integers(0, 20), max_size=6),
    st.dictionaries(st.integers(0, 59), st.integers(0, 20)),
)
def test_shards_are_spread_and_stay_where_they_can(
    shards: int, hosts: set[int], current: dict[int, int]
) -> None:
    placed = place(shards, hosts, current)
    assert set(placed) == (set(range(shards)) if hosts else set())
    assert set(placed.values()) <= hosts
    stayed = [shard for shard in placed if current.get(shard) == placed[shard]]
    could = [shard for shard in placed if current.get(shard) in hosts]
    assert len(could) - len(stayed) <= 4
    for _ in range(60):
        placed = place(shards, hosts, placed)
    if hosts:
        load = [list(placed.values()).count(host) for host in hosts]
        assert max(load) - min(load) <= 1
        assert place(shards, hosts, placed) == placed


# Registry and topics.


@pytest.fixture(params=["folder", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return FolderStore(tmp_path / "log") if request.param == "folder" else FaultyStore()


def entry(node_id: int, application: int = 1) -> HostEntry:
    return HostEntry(node_id, "127.0.0.1", 1000 + node_id, 2000 + node_id, application, 0, 1)


def test_hosts_of_an_application_that_died_are_no_brokers(store: Any) -> None:
    registry, peers = Registry(store), _Peers(SHARDS)
    registry.begin_application("a")
    registry.announce_host(entry(7, 1))
    registry.begin_application("b")
    peers.show(registry.read())
    assert [broker.node_id for broker in peers.brokers()] == [7]
    registry.announce_host(entry(8, 2))
    peers.show(registry.read())
    assert [broker.node_id for broker in peers.brokers()] == [8]


def test_the_log_of_a_stream_is_not_led(store: Any) -> None:
    log = ShardLog(store, 0)
    assert log.claim("a stream", 0)
    shard = ArrowShard()
    shard.advance(0)
    log.snapshot(shard.checkpoint())
    with pytest.raises(ArgumentError, match="log: shard 0: its snapshot is a stream's"):
        load_into(ShardLog(store, 0), Node(Config().native(), 1, bytes(32)).loader())


def test_the_log_of_a_stream_that_has_just_begun_is_not_led(store: Any) -> None:
    assert ShardLog(store, 0).claim("a stream", 0, b"what it began as")
    with pytest.raises(ArgumentError, match="log: shard 0: entry 0 was written by a stream"):
        load_into(ShardLog(store, 0), Node(Config().native(), 1, bytes(32)).loader())


def test_the_registry_says_who_leads_and_the_highest_epoch_counts(store: Any) -> None:
    registry = Registry(store)
    assert registry.read().term == 0
    assert registry.begin_application("a") == 1
    registry.announce_host(entry(7))
    registry.announce_host(entry(8))
    registry.announce_shard(3, ShardEntry(5, 7))
    registry.announce_shard(3, ShardEntry(6, 8))
    registry.announce_shard(3, ShardEntry(5, 7))  # late: it slept
    view = Registry(store).read()
    assert view.shards == {3: ShardEntry(6, 8)}
    assert view.leader(3) == entry(8).broker
    registry.remove_host(8)
    assert registry.read().leader(3) is None
    assert registry.read().leader(4) is None
    assert registry.begin_application("b") == 2
    registry.stop_application(1)
    view = registry.read()
    assert (view.term, view.stopped) == (2, {1})


def test_a_change_of_the_topics_is_made_once_and_read_by_all(store: Any) -> None:
    first = open_topics(SharedTopics(store), {"orders": 2})
    shared = SharedTopics(store)
    second = open_topics(shared)
    assert second.topics() == first.topics()
    assert second.cluster_id == first.cluster_id
    first.create("bills", 1)
    with pytest.raises(TopicsConflictError):
        second.create("late", 1)
    assert "late" not in second.topics()
    assert shared.newest() > shared.version
    second.reload()
    assert second.topics() == first.topics()
    second.create("late", 1)
    assert [len(store.names("registry/topics")), len(second.topics())] == [2, 3]


def test_options_survive_the_way_to_another_machine() -> None:
    options = HostOptions("s3://b/log", 8, 3, 1, ports=(1, 2), config={"a": "b"}, bind="::1")
    assert HostOptions.of_json(options.to_json()).to_json() == options.to_json()
    assert HostOptions.of_json(options.to_json()).config == {"a": "b"}


# Control.


def test_a_host_obeys_its_own_application_only() -> None:
    asked: list[Ask] = []

    def answer(ask: Ask) -> Answer:
        asked.append(ask)
        return Answer(led={3: 4}, loading=(5,), refused={6: 7}, failed={8: "disk"})

    async def main() -> None:
        server = await serve_control("127.0.0.1", 2, answer)
        client = ControlClient("127.0.0.1", server.sockets[0].getsockname()[1])
        said = await client.ask(Ask(2, {3: -1}), 5)
        assert (said.led, said.refused, said.failed) == ({3: 4}, {6: 7}, {8: "disk"})
        refused = await client.ask(Ask(1, {}), 5)
        assert "application 2, not 1" in refused.error
        assert asked == [Ask(2, {3: -1})]
        lost = asyncio.ensure_future(client.lost())
        server.close()
        server.close_clients() if hasattr(server, "close_clients") else client.close()
        await lost
        with pytest.raises(ConnectionRefusedError):
            await client.ask(Ask(2, {}), 5)

    run(main())


async def announced(
    registry: Registry,
    term: int,
    node_id: int,
    answer: Callable[[Ask], Answer],
    executor: str = "",
) -> asyncio.Server:
    """A host that answers the controller so."""
    server = await serve_control("127.0.0.1", term, answer)
    port = server.sockets[0].getsockname()[1]
    registry.announce_host(HostEntry(node_id, "127.0.0.1", 1, port, term, node_id, 1, executor))
    return server


async def until(condition: Callable[[], Any]) -> None:
    while not condition():
        await asyncio.sleep(0.005)


def test_hosts_that_would_all_die_with_one_executor_are_spread() -> None:
    """The third in one executor leaves; one in another may stay."""
    store = FaultyStore()
    registry = Registry(store)
    term = registry.begin_application("tests")
    controller = Controller(store, 4, term, most_together=2)
    left: list[int] = []

    async def host(node_id: int, executor: str) -> asyncio.Server:
        def answer(ask: Ask) -> Answer:
            if ask.leave:
                left.append(node_id)
            return Answer(led=dict.fromkeys(ask.shards, 0))

        server = await announced(registry, term, node_id, answer, executor)
        await until(lambda: left or node_id in {h.node_id for h in controller.hosts()})
        return server

    async def main() -> None:
        controller.start()
        servers = [await host(1, "a"), await host(2, "a"), await host(3, "a")]
        assert left[0] == 3
        servers.append(await host(4, "b"))
        await until(lambda: len(controller.led()) == 4)
        await until(lambda: [host.node_id for host in controller.hosts()] == [1, 2, 4])
        assert 3 not in controller.led().values()
        for server in servers:
            server.close()

    try:
        run(main())
    finally:
        controller.stop()


def test_a_shard_that_moves_is_led_where_it_was_until_the_other_has_claimed_it() -> None:
    store = FaultyStore()
    registry = Registry(store)
    term = registry.begin_application("tests")
    controller = Controller(store, 4, term)
    asked: dict[int, list[set[int]]] = {1: [], 2: []}
    claimed = asyncio.Event()

    async def host(node_id: int, epoch: int) -> asyncio.Server:
        def answer(ask: Ask) -> Answer:
            asked[node_id].append(set(ask.shards))
            is_slow = node_id == 2 and not claimed.is_set()
            return Answer(led={} if is_slow else dict.fromkeys(ask.shards, epoch))

        return await announced(registry, term, node_id, answer)

    async def main() -> None:
        controller.start()
        servers = [await host(1, epoch=0)]
        await until(lambda: len(controller.led()) == 4)
        servers.append(await host(2, epoch=1))
        await until(lambda: len([ask for ask in asked[2] if ask]) >= 2)
        moving = asked[2][-1]
        assert len(moving) == 2
        assert asked[1][-1] == {0, 1, 2, 3}, "the first still leads what the second only reads"
        claimed.set()
        await until(lambda: asked[1][-1] == {0, 1, 2, 3} - moving)
        assert controller.led() == {shard: 2 if shard in moving else 1 for shard in range(4)}
        for server in servers:
            server.close()

    try:
        run(main())
    finally:
        controller.stop()


# Leading.


def hosted(main: Callable[[FaultyStore, InProcess, InProcess], Awaitable[None]]) -> None:
    """Two hosts over one store, in one process."""

    async def both() -> None:
        store = FaultyStore()
        first, second = InProcess(store, SHARDS, "first"), InProcess(store, SHARDS, "second")
        try:
            await main(store, first, second)
        finally:
            await first.close()
            await second.close()

    run(both())


def shard_of(group_id: str) -> int:
    return partition_of(group_id, SHARDS)


def test_a_shard_moves_with_its_offsets_and_the_old_leader_is_fenced() -> None:
    async def main(store: FaultyStore, first: InProcess, second: InProcess) -> None:
        shard = shard_of("g0")
        assert await first.commit("g0", 1) == NOT_COORDINATOR
        await first.lead(shard)
        assert await first.commit("g0", 1) == 0
        await second.lead(shard)
        assert second.leadership.led[shard] == first.leadership.led[shard] + 1
        assert await second.committed("g0") == (0, 1)
        assert await second.commit("g0", 2) == 0
        # The first does not know of the takeover, and must not acknowledge.
        assert await first.commit("g0", 3) == NOT_COORDINATOR
        assert shard not in first.leadership.led
        assert await first.committed("g0") == (NOT_COORDINATOR, -1)
        assert await second.committed("g0") == (0, 2)

    hosted(main)


def test_an_old_order_claims_nothing_that_was_led_since() -> None:
    async def main(store: FaultyStore, first: InProcess, second: InProcess) -> None:
        await first.lead(0)
        epoch = first.leadership.led[0]
        await second.lead(0)
        first.leadership.release(0)
        first.leadership.want({0: epoch})  # the controller's line from before
        while not (refused := first.leadership.want({0: epoch}).refused):
            await asyncio.sleep(0.001)
        assert refused == {0: second.leadership.led[0]}
        assert 0 not in first.leadership.led

    hosted(main)


def test_what_is_parked_hears_of_it_when_its_shard_goes() -> None:
    async def main(store: FaultyStore, first: InProcess, second: InProcess) -> None:
        await first.lead(shard_of("g0"))
        join = {
            "group_id": "g0",
            "session_timeout": _seconds(30),
            "rebalance_timeout": _seconds(30),
            "member_id": "",
            "group_instance_id": None,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b""}],
        }
        known = await first.ask(11, 5, **join)
        led = await first.ask(11, 5, **{**join, "member_id": known.member_id})
        assert led.generation_id == 1
        other = await first.ask(11, 5, **join)
        # The second member's join waits for the first, which does not come.
        waits = asyncio.ensure_future(first.ask(11, 5, **{**join, "member_id": other.member_id}))
        await asyncio.sleep(0.01)
        assert not waits.done()
        first.leadership.release(shard_of("g0"))
        assert (await waits).error_code == NOT_COORDINATOR

    hosted(main)


def test_storage_that_fails_acknowledges_nothing_and_the_shard_is_claimed_again() -> None:
    async def main(store: FaultyStore, first: InProcess, second: InProcess) -> None:
        shard = shard_of("g0")
        await first.lead(shard)
        assert await first.commit("g0", 1) == 0
        for fault, known in (("before", 1), ("after", 3)):
            store.faults = [fault]
            assert await first.commit("g0", known if fault == "before" else 3) == NOT_COORDINATOR
            failed = first.leadership.want({}).failed
            assert "append failed" in failed[shard]
            first.leadership._not_before.clear()
            await first.lead(shard)
            assert await first.committed("g0") == (0, known)

    hosted(main)


def _seconds(value: int) -> Any:
    import datetime

    return datetime.timedelta(seconds=value)


STEPS = st.one_of(
    st.tuples(st.just("lead"), st.integers(0, 1), st.integers(0, SHARDS - 1)),
    st.tuples(st.just("commit"), st.integers(0, 1), st.sampled_from(GROUPS)),
    st.tuples(st.just("commit"), st.integers(0, 1), st.sampled_from(GROUPS)),
    st.tuples(st.just("commits"), st.integers(0, 1), st.sampled_from(GROUPS)),
    st.tuples(st.just("all"), st.integers(0, 1), st.just("")),
    st.tuples(st.just("fault"), st.just(0), st.sampled_from(["before", "after"])),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(STEPS, max_size=20))
def test_no_acknowledged_commit_is_lost_whoever_leads(steps: list[tuple[str, int, Any]]) -> None:
    async def main(store: FaultyStore, *hosts: InProcess) -> None:
        acknowledged = dict.fromkeys(GROUPS, -1)
        tried = 0
        for action, at, what in steps:
            host = hosts[at]
            if action == "lead":
                host.leadership._not_before.clear()
                store.faults.clear()
                await host.lead(what)
            elif action == "fault":
                store.faults.append(what)
            else:
                groups = {"commit": [what], "commits": [what] * 5, "all": GROUPS * 2}[action]
                asked = list(zip(groups, range(tried, tried + len(groups)), strict=True))
                tried += len(groups)
                codes = await asyncio.gather(*(host.commit(*each) for each in asked))
                assert set(codes) <= {0, NOT_COORDINATOR, LOAD_IN_PROGRESS}
                for (group, offset), code in zip(asked, codes, strict=True):
                    if code == 0:
                        acknowledged[group] = max(acknowledged[group], offset)
        store.faults.clear()
        last = InProcess(store, SHARDS, "last")
        for group, offset in acknowledged.items():
            await last.lead(shard_of(group))
            error, found = await last.committed(group)
            assert error == 0
            assert found >= offset, group
        await last.close()

    hosted(main)


def test_a_claim_begins_at_the_snapshot_and_entries_before_it_go() -> None:
    async def main() -> None:
        store = FaultyStore()
        native = Config(group_initial_rebalance_delay_ms=0).native()
        snapshots = ShardSnapshots(store, native, every_entries=3)
        host = InProcess(store, SHARDS, "first", snapshots)
        shard = shard_of("g0")
        await host.lead(shard)
        for number in (1, 2):
            for offset in range(4 * number - 4, 4 * number):
                assert await host.commit("g0", offset) == 0
            # A snapshot that waits for the thread covers the same entries as the next would: there
            # is no second.
            while len(store.names(f"shard-{shard:05}/snapshots")) < number:
                await asyncio.sleep(0.001)
        await host.close()
        snapshots.close()
        log = ShardLog(store, shard)
        snapshot = log.load()
        assert snapshot is not None
        for index in range(log.next_index):
            store.delete(f"shard-{shard:05}/chunks/{index:012}")
        second = InProcess(store, SHARDS, "second")
        await second.lead(shard)
        assert await second.committed("g0") == (0, 7)
        assert await second.commit("g0", 8) == 0
        await second.close()

    run(main())
