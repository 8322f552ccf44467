"""Hosts as Spark runs them, without Spark: what they answer, and one application after another.

With Spark: `test_hosting_spark.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark")
from pykcoord_spark.exporting import export
from pykcoord_spark.hosting.host import HostOptions
from pykcoord_spark.hosting.registry import HostEntry, Registry
from pykcoord_spark.hosting.watching import Crowds
from support.asked import Asked
from support.hosting import FaultyStore, commit_fields, wait_until
from support.hosts import hosts
from support.probe import Probe

from pykcoord._native import partition_of
from pykcoord.log import LogReader

NOT_COORDINATOR = 16
SHARDS = 4
GROUPS = {partition_of(f"g{n}", SHARDS): f"g{n}" for n in range(40)}  # one of each shard


def commit(at: Asked, offset: int) -> int:
    response = at.ask(8, 7, **commit_fields("g", offset))
    return int(response.topics[0].partitions[0].error_code)


def committed(at: Asked) -> tuple[int, int]:
    """Error code and offset."""
    topics = [{"name": "orders", "partition_indexes": (0,)}]
    found = at.ask(9, 7, group_id="g", topics=topics, require_stable=False)
    if found.error_code:
        return int(found.error_code), -1
    return 0, found.topics[0].partitions[0].committed_offset


@pytest.mark.client
@pytest.mark.crash
def test_a_host_that_is_cut_off_answers_nothing_that_another_has_overtaken(tmp_path: Path) -> None:
    """It reaches neither the log nor its driver, and its clients reach it still."""
    log, link = tmp_path / "log", tmp_path / "seen"
    log.mkdir()
    link.symlink_to(log)
    with hosts(log, 1, {"orders": 1}) as first:
        first.start(seen_by=link)
        (host,) = first.entries
        with Asked(f"{host.host}:{host.port}") as cut_off:
            wait_until(lambda: commit(cut_off, 1) == 0)
            assert committed(cut_off) == (0, 1)
            no_folder = tmp_path / "no-folder"
            no_folder.write_text("no folder")
            no_folder.replace(link)
            with hosts(log, 1, {}) as later:
                later.start()
                (other,) = later.entries
                with Asked(f"{other.host}:{other.port}") as there:
                    wait_until(lambda: commit(there, 2) == 0, 60)
                    assert committed(cut_off) == (NOT_COORDINATOR, -1)
                    assert committed(there) == (0, 2)
        joined = tmp_path / "joined"
        joined.symlink_to(log)
        joined.replace(link)
        assert first.outcome(0) == "superseded"


@pytest.mark.client
@pytest.mark.crash
def test_groups_are_served_over_a_host_that_comes_one_that_is_killed_and_a_later_application(
    tmp_path: Path,
) -> None:
    with hosts(tmp_path, SHARDS, {"orders": 2}) as first:
        first.start()
        addresses = [(host.host, host.port) for host in first.entries]
        probes = [Probe(group, lambda: [*addresses]) for group in GROUPS.values()]
        for probe in probes:
            probe.start()
        try:
            first.start()
            addresses += [(host.host, host.port) for host in first.entries]
            wait_until(lambda: len(set(first.watch.seen.led.values())) == 2)
            served_again(probes)
            first.processes[1].kill()
            served_again(probes)
            with hosts(tmp_path, SHARDS, {}) as later:
                later.start()
                addresses += [(host.host, host.port) for host in later.entries]
                assert first.outcome(0) == "superseded"
                assert first.watch.is_superseded
                only = {later.entries[0].node_id}
                wait_until(lambda: set(later.watch.seen.led.values()) == only)
                served_again(probes)
        finally:
            for probe in probes:
                probe.stop()
    assert [text for probe in probes for text in probe.lost] == []
    made = export(tmp_path, tmp_path / "exported")
    assert (made.shards, made.groups) == (SHARDS, SHARDS)
    assert LogReader.open(tmp_path / "exported").partitions == [*range(SHARDS)]


def served_again(probes: list[Probe]) -> None:
    before = [probe.acknowledged for probe in probes]
    wait_until(
        lambda: all(p.acknowledged > one + 2 for p, one in zip(probes, before, strict=True)), 60
    )


def entry(node_id: int, slot: int, executor: str) -> HostEntry:
    return HostEntry(node_id, "127.0.0.1", 1, 1, slot, 1, executor)


def test_hosts_that_would_all_die_with_one_executor_are_spread() -> None:
    """The third in one executor leaves; one in another may stay."""
    crowds = Crowds(2)
    there = [entry(1, 0, "a"), entry(2, 1, "a"), entry(3, 2, "a")]
    assert crowds.to_send_away(there) == [there[2]]
    assert crowds.to_send_away(there) == []  # it is on its way
    there = [*there[:2], entry(4, 2, "b")]
    assert crowds.to_send_away(there) == []


def test_where_there_is_one_executor_a_host_may_stay_in_the_end() -> None:
    crowds = Crowds(1)
    there = [entry(1, 0, "a")]
    assert crowds.to_send_away(there) == []
    attempts = 0
    while crowds.to_send_away([*there, entry(2 + attempts, 1, "a")]):
        attempts += 1
    assert attempts == 6


def test_the_registry_says_who_is_there_and_who_is_to_end() -> None:
    registry = Registry(FaultyStore())
    assert registry.orders().term == 0
    assert registry.begin_application("a") == 1
    registry.announce_host(entry(7, 0, "x"))
    registry.announce_host(entry(8, 1, "x"))
    assert registry.hosts() == {7: entry(7, 0, "x"), 8: entry(8, 1, "x")}
    registry.send_away(8)
    assert registry.orders().leaving == {8}
    registry.remove_host(8)
    assert (registry.hosts().keys(), registry.orders().leaving) == ({7}, frozenset())
    assert registry.begin_application("b") == 2
    registry.stop_application(1)
    orders = registry.orders()
    assert (orders.term, orders.stopped) == (2, {1})
    assert registry.secret() == registry.secret()


def test_options_survive_the_way_to_another_machine() -> None:
    options = HostOptions("s3://b/log", 8, 3, 1, ports=(1, 2), config={"a": "b"}, bind="::1")
    assert HostOptions.of_json(options.to_json()).to_json() == options.to_json()
    assert HostOptions.of_json(options.to_json()).config == {"a": "b"}
