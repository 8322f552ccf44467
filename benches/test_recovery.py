"""Reading a log back: CRC and frames (pykcoord.log), then the core's replay, one core.

Commits are compared with a short Python script that reads the same bytes, records of groups with
commits. Kafka 4.3.1 in a warm JVM was measured at 1.9 M commits/s and 0.25 M records of groups/s
(not measured here; `make bench-kafka` times a broker's start).
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benches import plain
from benches.gate import ROUNDS, Size, best_seconds, rates, told
from benches.workload import (
    COMMITTED,
    NOW_MS,
    PARTITIONS,
    SEED,
    Host,
    offset_commit,
    one_member_groups,
    shuffled,
)
from pykcoord._native import Node
from pykcoord.log import _record_batch

# Share of the records that the script reads, per CPU second; measured: 14 times.
LEAST = 8.0
# Records of groups for each commit in the same time; Kafka has 0.13.
LEAST_OF_GROUPS = 0.06


class Log:
    """The log of a node whose groups committed: batches of 5 records, as a server's are."""

    def __init__(self, groups: int, rounds: int) -> None:
        host = Host()
        members = shuffled(one_member_groups(host, groups))
        host.appends.clear()
        first_offset = None
        framed = []
        self.records = 0
        for offset in range(rounds):
            first = offset * COMMITTED % PARTITIONS
            commits = (offset_commit(member, offset, first) for member in members)
            assert all(host.ask(commits, size=1))
            for _, base, count, base_timestamp, max_timestamp, records, *_ in host.appends:
                first_offset = base if first_offset is None else first_offset
                at = base - first_offset
                framed.append(
                    _record_batch.frame(records, count, at, base_timestamp, max_timestamp, 0)
                )
                self.records += count
            host.appends.clear()
        self.data = b"".join(framed)
        self.offsets = groups * min(PARTITIONS, COMMITTED * rounds)

    def by_node(self) -> int:
        scan = _record_batch.scan(self.data, 0, 0)
        assert scan.stop == _record_batch.Stop.END, scan
        node = Node({}, 1, SEED)
        node.replay(0, self.data)
        node.loaded(0, NOW_MS, scan.next_offset)
        return scan.records

    def by_script(self) -> int:
        assert len(plain.replay(self.data)) == self.offsets
        return self.records


class GroupLog:
    """The log of a node in which groups of one member were made: twice as many records as
    groups."""

    def __init__(self, groups: int) -> None:
        host = Host()
        one_member_groups(host, groups)
        self.data = b"".join(
            _record_batch.frame(records, count, base, base_timestamp, max_timestamp, 0)
            for _, base, count, base_timestamp, max_timestamp, records, *_ in host.appends
        )
        self.records = sum(append[2] for append in host.appends)

    def by_node(self) -> int:
        scan = _record_batch.scan(self.data, 0, 0)
        assert scan.stop == _record_batch.Stop.END, scan
        loader = Node({}, 1, SEED).loader()
        loader.replay(self.data)
        return scan.records


@pytest.fixture(scope="module")
def group_log(size: Size) -> GroupLog:
    return GroupLog(groups=size.of(20_000, 20))


@pytest.mark.benchmark(group="recovery of a log of groups")
def test_recovery_of_groups(benchmark: BenchmarkFixture, group_log: GroupLog) -> None:
    records = benchmark.pedantic(group_log.by_node, rounds=ROUNDS)
    assert records == group_log.records


def test_gate_recovery_of_groups(log: Log, group_log: GroupLog, size: Size) -> None:
    works: dict[str, Callable[[], int]] = {"commits": log.by_node, "groups": group_log.by_node}
    seconds = best_seconds(
        **{name: functools.partial(_itself, work) for name, work in works.items()}
    )
    rate = rates({"commits": log.records, "groups": group_log.records}, seconds)
    size.hold(rate["groups"] >= LEAST_OF_GROUPS * rate["commits"], told(rate, "records"))


@pytest.fixture(scope="module")
def log(size: Size) -> Log:
    return Log(groups=size.of(2_000, 20), rounds=size.of(60, 5))


@pytest.mark.benchmark(group="recovery of a log of commits")
@pytest.mark.parametrize("way", ["by_node", "by_script"])
def test_recovery(benchmark: BenchmarkFixture, log: Log, way: str) -> None:
    records = benchmark.pedantic(getattr(log, way), rounds=ROUNDS)
    assert records == log.records


def test_gate_recovery(log: Log, size: Size) -> None:
    works: dict[str, Callable[[], int]] = {"node": log.by_node, "script": log.by_script}
    seconds = best_seconds(
        **{name: functools.partial(_itself, work) for name, work in works.items()}
    )
    rate = rates(dict.fromkeys(works, log.records), seconds)
    size.hold(rate["node"] >= LEAST * rate["script"], told(rate, "records"))


def _itself(work: Callable[[], int]) -> Callable[[], int]:
    return work
