"""Heartbeats and commits as Arrow batches, in and out of one shard, on one core.

Compared with the same requests as frames through `Node.step`, on the same groups. A row's time is
that of its thousand: as a history of a million requests a second has it.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benches.gate import ROUNDS, Size, best_seconds, rates, told
from benches.workload import (
    HOST,
    NOW_MS,
    PARTITIONS,
    SEED,
    TOPIC,
    Host,
    Member,
    batches,
    heartbeat,
    join_group,
    offset_commit,
    one_member_groups,
    shuffled,
    sync_group,
)
from pykcoord import ArrowShard, Config
from pykcoord.arrow import REQUEST

# Share of the rate of `Node.step` with frames, per CPU second; here answers become columns, too.
# Both are some 0.9. Load on the machine has lowered it to 0.65; instructions are counted apart.
LEAST_HEARTBEATS = 0.55
LEAST_COMMITS = 0.5
# Few lie in the caches; of many each request finds its group in memory.
GROUPS = [1_000, 100_000]
REQUESTS = 100_000
ROWS_A_BATCH = 10_000
ROWS_A_MS = 1_000
TURN = 2_000
KINDS = ["heartbeats", "heartbeats without payload", "commits"]
_HEADER_BYTES = 8 + 2 + len("consumer-billing-1")


class Groups:
    """The same groups in a shard that takes rows and in a node that takes frames."""

    def __init__(self, count: int, requests: int) -> None:
        self.host = Host()
        self.framed = shuffled(one_member_groups(self.host, count))
        config = Config(group_initial_rebalance_delay_ms=0)
        self.shard = ArrowShard(config, topics={TOPIC: PARTITIONS}, seed=SEED)
        self.now_ms = NOW_MS
        self.offsets = itertools.count(1)
        self.members = shuffled(list(self._join([group for group, _, _ in self.framed])))
        self.times = requests // count
        self.requests = count * self.times

    def _join(self, groups: list[str]) -> Iterator[Member]:
        ids = self._ask([(group, join_group(group, "")) for group in groups], "member_id")
        pairs = list(zip(groups, ids, strict=True))
        frames = [(group, join_group(group, member_id)) for group, member_id in pairs]
        generations = self._ask(frames, "generation")
        members = [(*pair, one) for pair, one in zip(pairs, generations, strict=True)]
        self._ask([(member[0], sync_group(member)) for member in members], "error_code")
        yield from members

    def _ask(self, frames: list[tuple[str, bytes]], column: str) -> list[Any]:
        """One column of the answers, in the order of the frames."""
        answered: dict[int, Any] = {}
        batch = self._batch([(group, frame, None, None) for group, frame in frames])
        for envelope in (self.shard.process(batch), self.shard.advance(self.now_ms)):
            for row in envelope.select(["kind", "seq", column]).to_pylist():
                if row["kind"] == 0:
                    answered[row["seq"]] = row[column]
        return [answered[seq] for seq in range(len(frames))]

    def _batch(self, rows: list[tuple[str, bytes, str | None, int | None]]) -> pa.RecordBatch:
        """Rows of group, frame, member and generation."""
        count = len(rows)
        groups, frames, members, generations = zip(*rows, strict=True)
        heads = [int.from_bytes(frame[:2]) for frame in frames]
        versions = [int.from_bytes(frame[2:4]) for frame in frames]
        bodies = [frame[_HEADER_BYTES:] or None for frame in frames]
        first_ms, self.now_ms = self.now_ms, self.now_ms + 1 + count // ROWS_A_MS
        columns = {
            "seq": range(count),
            "ts": [first_ms + row // ROWS_A_MS for row in range(count)],
            "group_id": groups,
            "member_id": members,
            "api_key": heads,
            "api_version": versions,
            "generation": generations,
            "client_id": ["consumer-billing-1"] * count,
            "client_host": [HOST] * count,
            "payload": bodies,
        }
        arrays = [pa.array(columns[field.name], field.type) for field in REQUEST]
        return pa.RecordBatch.from_arrays(arrays, schema=REQUEST)

    def prepare(self, kind: str, way: str) -> Callable[[], int]:
        """The work of `requests`, of all groups in turn; returns how many were answered."""
        offset = next(self.offsets)
        if way == "frames":
            frames = [_frame(kind, member, offset) for member in self.framed * self.times]
            turns = batches(frames, TURN, self.host.next_ticket())
            self.host.skip_tickets(len(frames))
            return functools.partial(_sum, self.host.turn, turns)
        rows = []
        for group, member, generation in self.members * self.times:
            frame = _frame(kind, (group, member, generation), offset)
            if kind == "heartbeats without payload":
                frame = frame[:_HEADER_BYTES]
            rows.append((group, frame, member, generation))
        cut = [
            self._batch(rows[at : at + ROWS_A_BATCH]) for at in range(0, len(rows), ROWS_A_BATCH)
        ]
        return functools.partial(_sum, self.process, cut)

    def process(self, batch: pa.RecordBatch) -> int:
        """One batch in and one out; how many rows were answered."""
        envelope = self.shard.process(batch)
        assert envelope.num_rows >= batch.num_rows
        return batch.num_rows


def _frame(kind: str, member: Member, offset: int) -> bytes:
    return offset_commit(member, offset, count=1) if kind == "commits" else heartbeat(member)


def _sum(work: Callable[[Any], int], batches: list[Any]) -> int:
    return sum(work(batch) for batch in batches)


@pytest.fixture(scope="module", params=GROUPS, ids=[f"{count:,} groups" for count in GROUPS])
def groups(size: Size, request: pytest.FixtureRequest) -> Groups:
    return Groups(size.of(request.param, request.param // 100), size.of(REQUESTS, 1_000))


@pytest.mark.benchmark(group="Arrow batches")
@pytest.mark.parametrize("kind", KINDS)
def test_arrow(benchmark: BenchmarkFixture, groups: Groups, kind: str) -> None:
    answered = benchmark.pedantic(
        lambda work: work(), setup=lambda: ((groups.prepare(kind, "rows"),), {}), rounds=ROUNDS
    )
    assert answered == groups.requests


@pytest.mark.parametrize(
    ("kind", "least"), [("heartbeats", LEAST_HEARTBEATS), ("commits", LEAST_COMMITS)]
)
def test_gate_arrow(groups: Groups, size: Size, kind: str, least: float) -> None:
    ways = ["rows", "frames"]
    seconds = best_seconds(**{way: functools.partial(groups.prepare, kind, way) for way in ways})
    rate = rates(dict.fromkeys(ways, groups.requests), seconds)
    size.hold(rate["rows"] >= least * rate["frames"], told(rate, kind))


def test_what_is_timed_counts(groups: Groups) -> None:
    """Every request of the benchmark is answered without an error."""
    for kind in KINDS:
        prepared: Any = groups.prepare(kind, "rows")
        for batch in prepared.args[1]:
            rows = groups.shard.process(batch).to_pylist()
            assert {row["error_code"] for row in rows if row["kind"] == 0} == {0}
            records = sum(row["kind"] == 1 for row in rows)
            assert records == (batch.num_rows if kind == "commits" else 0)
