"""One process with up to a million groups: `make bench-scale`, or `python -m benches.scale`.

For each number of groups of one member: how long they take to come up, heartbeats at a fixed rate
in random order of their groups, a second member for a tenth of the groups on top of that, and the
start of a server on the log that all this wrote. Figures are told, and drawn with --docs; nothing
is gated on. Must only touch folders that it made.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console

from benches import cold_start
from benches.counts import write_table
from benches.workload import (
    NOW_MS,
    Frame,
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
from pykcoord.log import Append, LogDirectory

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "build" / "bench" / "scale.json"
PICTURE = ROOT / "docs" / "scale.svg"
MARK = "<!-- make bench-scale -->\n"
SLICE = 1_000
SIZES = [1_000, 10_000, 100_000, 1_000_000]
BEATS_PER_S = 333_000
TICK_S = 0.01
# The storm comes at the end, so that no session ends before the run.
STORM_AFTER = 0.75
STORM_SHARE = 0.1
STORM_GROUPS_A_TICK = 250

console = Console(width=None if sys.stdout.isatty() else 120)


@dataclass
class Point:
    """`late` is how far a tick of 10 ms was behind its time when it was done."""

    groups: int
    fill_s: float = 0.0
    beats_per_s: float = 0.0
    cpu_share: float = 0.0
    p99_late_ms: float = 0.0
    storm_groups: int = 0
    storm_s: float = 0.0
    storm_p99_late_ms: float = 0.0
    start_s: float = 0.0
    snapshot_start_s: float = 0.0
    resident_mb: int = 0


def fill(host: Host, log: LogDirectory, groups: int) -> list[Member]:
    """Groups of one, with a commit each, and their records in the log. Sessions begin when they do:
    all at once would have all timers due at once."""
    members: list[Member] = []
    began = time.perf_counter()
    for first in range(0, groups, SLICE):
        host.now_ms = NOW_MS + round((time.perf_counter() - began) * 1000)
        some = one_member_groups(host, min(SLICE, groups - first), f"billing-{first // SLICE:04d}")
        assert all(host.ask(offset_commit(member, 1, count=1) for member in some))
        _write(host, log)
        members += some
    return members


def _write(host: Host, log: LogDirectory) -> None:
    log.append([Append(*append) for append in host.appends], lambda *_: None)
    host.appends.clear()


def storm(host: Host, log: LogDirectory, members: list[Member]) -> Iterator[int]:
    """A second member for each group, some groups at a time; yields how many have it."""
    for first in range(0, len(members), STORM_GROUPS_A_TICK):
        some = members[first : first + STORM_GROUPS_A_TICK]
        ids = [_handed_out(reply) for reply in host.ask(join_group(m[0], "") for m in some)]
        pairs = list(zip(some, ids, strict=True))
        joins = [(m[0], each) for m, new in pairs for each in (new, m[1])]
        assert len(list(host.ask(join_group(*join) for join in joins))) == len(joins)
        rejoined = [(m[0], each, m[2] + 1) for m, new in pairs for each in (m[1], new)]
        for reply in host.ask(sync_group(member) for member in rejoined):
            assert reply[4:6] == b"\0\0", reply
        _write(host, log)
        yield first + len(some)


def _handed_out(reply: bytes) -> str:
    """The member id of a JoinGroup v5 that was answered MEMBER_ID_REQUIRED (KIP-394)."""
    at = 10
    for _ in range(2):  # protocol, leader
        at += 2 + max(0, int.from_bytes(reply[at : at + 2], signed=True))
    return reply[at + 2 : at + 2 + int.from_bytes(reply[at : at + 2])].decode()


def beat(
    host: Host, log: LogDirectory, members: list[Member], point: Point, seconds: float
) -> None:
    """Heartbeats at their rate, on the clock, and the storm in the last quarter."""
    frames = [heartbeat(member) for member in shuffled(members)]
    a_tick = max(1, round(BEATS_PER_S * TICK_S))
    turns = itertools.cycle(batches(frames, a_tick, host.next_ticket()))
    host.skip_tickets(len(frames))
    stormed = members[: max(1, int(len(members) * STORM_SHARE))]
    storming = storm(host, log, stormed)
    # Millions of requests that were made before: to look through them is no work of the node.
    gc.collect()
    gc.freeze()
    late: list[float] = []
    late_in_storm: list[float] = []
    beats, storm_began, done, begun_ms = 0, 0.0, 0, host.now_ms
    in_storm = False
    began, began_cpu = time.perf_counter(), time.process_time()
    for tick in range(1, round(seconds / TICK_S) + 1):
        due = began + tick * TICK_S
        early_s = due - time.perf_counter()
        time.sleep(max(0.0, early_s))
        host.now_ms = begun_ms + round(tick * TICK_S * 1000)
        beats += _beats(host, next(turns), a_tick)
        is_storm = tick * TICK_S >= seconds * STORM_AFTER and done < len(stormed)
        if is_storm:
            storm_began = storm_began or time.perf_counter()
            done = next(storming)
            point.storm_s = time.perf_counter() - storm_began
        # Ticks that the storm held up count as the storm's, until they have caught up.
        in_storm = is_storm or (in_storm and early_s <= 0)
        (late_in_storm if in_storm else late).append((time.perf_counter() - due) * 1e3)
    elapsed = time.perf_counter() - began
    gc.unfreeze()
    point.beats_per_s = beats / elapsed
    point.cpu_share = (time.process_time() - began_cpu) / elapsed
    point.p99_late_ms, point.storm_p99_late_ms = _p99(late), _p99(late_in_storm)
    point.storm_groups = done


def _beats(host: Host, frames: list[Frame], a_tick: int) -> int:
    """A tick's heartbeats: where groups are few, each beats more than once."""
    sent = 0
    while sent < a_tick:
        sent += host.turn(frames[: a_tick - sent])
    return sent


def _p99(values: list[float]) -> float:
    return statistics.quantiles(values, n=100)[98] if len(values) > 1 else 0.0


def measure(groups: int, seconds: float, starts: int) -> Point:
    point = Point(groups)
    with tempfile.TemporaryDirectory(prefix="pykcoord-scale-") as folder:
        root = Path(folder)
        with LogDirectory.open(root, partitions=cold_start.SHARDS, flush="os") as log:
            host = Host(cold_start.SHARDS)
            began = time.perf_counter()
            members = fill(host, log, groups)
            point.fill_s = time.perf_counter() - began
            console.print(f"  {groups:,} groups are up after {point.fill_s:.1f} s")
            beat(host, log, members, point, seconds)
            log.sync()
        del host, members
        console.print(f"  {point.beats_per_s:,.0f} heartbeats/s, {point.cpu_share:.0%} of a core")
        whole = [cold_start.start(root, "pykcoord.snapshot.interval.ms=0") for _ in range(starts)]
        cold_start.write_snapshots(root)
        short = [cold_start.start(root) for _ in range(starts)]
    assert f"groups={groups} " in whole[0][3], whole[0]
    point.start_s, _, point.resident_mb, _ = min(whole)
    point.snapshot_start_s = min(short)[0]
    return point


HEADS = [
    "groups", "come up, s", "heartbeats/s", "of a core", "99 % late by, ms", "storm, groups",
    "storm, s", "99 % late by, ms", "start, s", "with snapshots, s", "server's memory, MB",
]  # fmt: skip


def markdown(points: list[Point]) -> str:
    lines = [f"| {' | '.join(HEADS)} |", f"|{' ---: |' * len(HEADS)}"]
    for p in points:
        cells = [f"{p.groups:,}", f"{p.fill_s:.1f}", f"{p.beats_per_s:,.0f}"]
        cells += [f"{p.cpu_share:.0%}", f"{p.p99_late_ms:.1f}", f"{p.storm_groups:,}"]
        cells += [f"{p.storm_s:.2f}", f"{p.storm_p99_late_ms:.1f}", f"{p.start_s:.2f}"]
        cells += [f"{p.snapshot_start_s:.2f}", f"{p.resident_mb:,}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def draw(points: list[Point], file: Path) -> None:
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "pykcoord"  # the same points give the same file
    from matplotlib import pyplot

    groups = [point.groups for point in points]
    figure, panels = pyplot.subplots(1, 3, figsize=(10, 3), layout="constrained")
    panels[0].plot(groups, [p.cpu_share * 100 for p in points], marker="o")
    panels[0].set_title(f"{BEATS_PER_S:,} heartbeats/s: % of a core")
    panels[1].plot(groups, [p.start_s for p in points], marker="o", label="whole log")
    panels[1].plot(groups, [p.snapshot_start_s for p in points], marker="o", label="snapshots")
    panels[1].set_title("start of a server, s")
    panels[1].legend()
    panels[2].plot(groups, [p.resident_mb for p in points], marker="o")
    panels[2].set_title("its memory, MB")
    for panel in panels:
        panel.set_xscale("log")
        panel.set_ylim(bottom=0)
        panel.set_xlabel("groups")
    figure.savefig(file, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benches.scale",
        description="One process with up to a million groups.",
        epilog="example: make bench-scale BENCH_ARGS='--groups 1000 --groups 100000'",
    )
    parser.add_argument("--groups", type=int, action="append", help=f"default: {SIZES}")
    parser.add_argument("--seconds", type=float, default=60.0, help="of heartbeats (60)")
    parser.add_argument("--starts", type=int, default=3, help="in each way, the best is told")
    parser.add_argument("--docs", action="store_true", help="write docs/benchmarks.md and its plot")
    arguments = parser.parse_args()
    sizes = arguments.groups or SIZES
    if arguments.docs and sizes != SIZES:
        parser.error("--docs needs all sizes")
    points = []
    for groups in sizes:
        console.print(f"{groups:,} groups")
        points.append(measure(groups, arguments.seconds, arguments.starts))
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    RESULT.write_text(json.dumps([asdict(point) for point in points], indent=2) + "\n")
    draw(points, RESULT.with_suffix(".svg"))
    console.print(markdown(points), f"written to {RESULT.relative_to(ROOT)}, .svg beside it")
    if arguments.docs:
        draw(points, PICTURE)
        write_table(ROOT / "docs" / "benchmarks.md", MARK, markdown(points))


if __name__ == "__main__":
    main()
