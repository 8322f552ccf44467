"""Does the gate notice? `python -m benches.slow_downs` makes every axis slower on purpose, counts,
and says whether each is caught.

The tree is copied to build/bench/slow-downs, one statement is put into the code behind each axis
there, and all is compiled once; the program does the one of the axis that it is asked for, and no
other. It is counted with none as well: an axis over its bound without a slow-down does not count as
caught. Writes the table of docs/benchmarks.md with --docs. It never touches the sources themselves.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benches import counts

ROOT = Path(__file__).parents[1]
COPY = ROOT / "build" / "bench" / "slow-downs"
MARK = "<!-- python -m benches.slow_downs -->\n"
# Set while the program is to do none of them.
NONE_OF_THEM = "KCOORD_NO_SLOW_DOWN"


def put_before(before: str, statement: str, text: str, path: str) -> str:
    """The text of `path` with a statement before the one line that starts with `before`."""
    lines = text.splitlines(keepends=True)
    places = [at for at, line in enumerate(lines) if line.strip().startswith(before)]
    assert len(places) == 1, (
        f"{path}: {len(places)} lines start with {before!r}, not one; "
        "benches/slow_downs.py names the line before which its work goes"
    )
    lines.insert(places[0], statement + "\n")
    return "".join(lines)


@dataclass(frozen=True)
class SlowDown:
    """`work` is put before the one line of `path` that starts with `before`, and done where the
    slow-down with its number is asked for."""

    axes: tuple[str, ...]
    what: str
    path: str
    before: str
    work: str

    def applied_to(self, text: str, number: int) -> str:
        crate = "crate" if self.path.startswith((CORE, TIMER)) else "kcoord_core"
        chosen = f"{crate}::SLOW_DOWN.load(core::sync::atomic::Ordering::Relaxed) == {number}"
        return put_before(self.before, f"if {chosen} {{ {self.work} }}", text, self.path)


@dataclass(frozen=True)
class Judged:
    slow_down: SlowDown
    slowed: counts.Verdict
    as_it_is: counts.Verdict

    @property
    def is_caught(self) -> bool:
        """Of an axis without a bound, neither is known."""
        allowed = 1 + self.slowed.tolerance
        return self.slowed.ratio > allowed and self.as_it_is.ratio <= allowed


def _copies(number: int, text: str) -> str:
    return f"for _ in 0..{number} {{ core::hint::black_box(String::from({text})); }}"


def _allocation(value: str) -> str:
    return f"core::hint::black_box(vec![{value}]);"


def _passes(number: int, count: str) -> str:
    return f"for at in 0..{number} * {count} {{ core::hint::black_box(at); }}"


CORE, TIMER, WIRE = "native/core/src", "native/timer/src", "native/wire/src"
NODE = "native/node/src"
MAIN = "native/bench/src/main.rs"
SLOW_DOWNS = [
    SlowDown(
        ("timer-add",), "an allocation", f"{TIMER}/wheel/mod.rs",
        "let id = self.entries.insert(deadline_ms, payload);", _allocation("deadline_ms"),
    ),
    SlowDown(
        ("timer-cancel",), "an allocation", f"{TIMER}/wheel/mod.rs",
        "let Entry { deadline_ms, spot, .. } = *self.entries.live(id)?;", _allocation("id"),
    ),
    SlowDown(
        ("timer-expire",), "an allocation", f"{TIMER}/wheel/mod.rs",
        "Some(self.entries.remove(index))", _allocation("index"),
    ),
    SlowDown(
        ("purgatory-1", "purgatory-100"), "3 allocations", f"{TIMER}/purgatory/mod.rs",
        "let Some(delayed) = self.wheel.payload_mut(id)", 3 * _allocation("id"),
    ),
    SlowDown(
        ("heartbeat", "heartbeat-many", "node-heartbeat", "node-heartbeat-many"),
        "the member id copied, 3 times",
        f"{CORE}/group/classic/heartbeat.rs",
        "let (state, generation_id) = (of.state, of.generation_id);",
        _copies(3, "request.member_id"),
    ),
    SlowDown(
        ("consumer-heartbeat",), "the member id copied, 3 times",
        f"{CORE}/group/consumer/at_rest.rs",
        "let own = match self.group_configs.is_empty() {", _copies(3, "request.member_id"),
    ),
    SlowDown(
        ("join-sync",), "the group id copied, 40 times", f"{CORE}/group/classic/sync.rs",
        "let (group, member) = match self.syncing_member(request)",
        _copies(40, "request.group_id"),
    ),
    SlowDown(
        ("storm",), "the group id copied, 40 times a join", f"{CORE}/group/classic/join.rs",
        "let joined = self.group_to_join(now_ms, context, request)",
        _copies(40, "request.group_id"),
    ),
    SlowDown(
        tuple(f"{way}commit-{each}" for way in ("", "node-", "sharded-") for each in (1, 5)),
        "the topic copied for each record, 8 times",
        f"{CORE}/offset/apply.rs",
        "let record_offset = outbox.emit_as(kind, now_ms, &key, Some(&encoded));",
        _copies(8, "topic"),
    ),
    SlowDown(
        ("fetch-5", "node-fetch-5", "sharded-fetch-5"), "the topic copied for each offset, twice",
        f"{CORE}/offset/fetch.rs",
        "let entry = self.offsets.entry_behind(&mut behind, key);",
        _copies(2, "wanted.name"),
    ),
    SlowDown(
        ("turn-join",), "a long answer leaves in one turn", f"{NODE}/leaving.rs",
        "let most = long.left_bytes.min(PART_BYTES);", "given = 0;",
    ),
    SlowDown(
        ("turn-expire", "turn-topic"), "all of them are removed in one turn",
        f"{CORE}/offset/sweep.rs",
        "self.looked >= LOOKED || self.tombstones >= TOMBSTONES", "return false;",
    ),
    SlowDown(
        ("turn-names",), "a list of all names is made", f"{NODE}/arrive/slices.rs",
        "let Some((checking, group_id)) = Checking::begin(api, version, &mut body)?",
        "core::hint::black_box(api::decode_request(api, version, &mut body.clone()).is_ok());",
    ),
    SlowDown(
        ("turn-describe", "turn-describe-many"), "a long description is encoded in one turn",
        f"{NODE}/gather.rs",
        "let steps = DescribedInSteps::new(version, authorized_operations, group);",
        "let mut out = Vec::new(); "
        "encode_group(&mut out, version, &*group, authorized_operations); "
        "core::hint::black_box(out);",
    ),
    SlowDown(
        ("turn-delete", "turn-fetch"), "a request is done in one turn", f"{NODE}/arrive/slices.rs",
        "left = left.saturating_sub(cost);", "left += cost;",
    ),
    SlowDown(
        ("turn-fetch-one",), "a long answer is encoded in one turn", f"{NODE}/gather.rs",
        "if bytes > COPIED_BYTES {",
        "let mut out = Vec::new(); offset_fetch::encode_group(&mut out, *version, &group); "
        "core::hint::black_box(out);",
    ),
    SlowDown(
        ("turn-target",), "100 passes more over all members", f"{CORE}/group/consumer/target.rs",
        "let is_own = matches!(assignor, ServerAssignor::Own(_));",
        _passes(100, "self.registry.consumer(group).members.len()"),
    ),
    SlowDown(
        ("turn-target-write",), "all targets are written in one turn",
        f"{CORE}/group/consumer/computing.rs",
        "let mut member_id = member_id;", "rest += MEMBER + partitions.len();",
    ),
    SlowDown(
        ("load-commits", "load-groups", "load-consumers"),
        "the key copied for each record, 4 times",
        f"{CORE}/group/replay.rs",
        "let before = recent.take();",
        "for _ in 0..4 { core::hint::black_box(record.key.map(<[u8]>::to_vec)); }",
    ),
    SlowDown(
        ("targets-100", "targets-50"), "30 passes more over all members for each topic",
        f"{CORE}/targets/compute.rs",
        "self.add_members(&mut builder, &by_id, hasher);",
        _passes(30, "self.members.len() * by_id.len()"),
    ),
    SlowDown(
        ("codec-heartbeat",), "an allocation", f"{WIRE}/api/heartbeat.rs",
        "let request = HeartbeatRequest {", _allocation("version"),
    ),
    SlowDown(
        ("codec-commit-5",), "an allocation for each partition", f"{WIRE}/api/offset_commit.rs",
        "let partition = OffsetCommitPartition {", _allocation("has_leader_epoch"),
    ),
    SlowDown(
        ("codec-fetch-5",), "the name copied, 4 times", f"{WIRE}/api/offset_fetch.rs",
        "Ok(OffsetFetchTopic { name, topic_id, partition_indexes })", _copies(4, "name"),
    ),
    SlowDown(
        ("rows-heartbeat", "rows-commit-1", "rows-commit-alone"), "the group id copied, 8 times",
        "native/rows/src/arriving.rs",
        "let home = shard_of(row.asked.group_id, shards);", _copies(8, "row.asked.group_id"),
    ),
    SlowDown(
        ("roundrobin",), "2 passes more over all partitions", f"{CORE}/assignor/round_robin.rs",
        "let ring = member_order(group, hash_order(group));",
        _passes(2, "group.partition_count()"),
    ),
    SlowDown(
        ("range", "server-range"), "the same", f"{CORE}/assignor/range/mod.rs",
        "let mut given: Vec<(u32, u32)>", _passes(2, "group.partition_count()"),
    ),
    SlowDown(
        ("sticky", "cooperative", "cooperative-differ"), "30 passes more",
        f"{CORE}/assignor/sticky/claims.rs",
        "let subscriptions_equal = subscriptions_equal(", _passes(30, "group.partition_count()"),
    ),
    SlowDown(
        ("uniform",), "4 passes more", f"{CORE}/assignor/uniform/homogeneous.rs",
        "let mut owners = current_owners(group, order, |_, _| true);",
        _passes(4, "group.partition_count()"),
    ),
    SlowDown(
        ("uniform-differ",), "8 passes more", f"{CORE}/assignor/uniform/heterogeneous.rs",
        "let subscribers = Subscribers::new(group, order);",
        _passes(8, "group.partition_count()"),
    ),
]  # fmt: skip


def copy_and_slow_down() -> None:
    """The native sources as they are now, with all slow-downs and a switch between them."""
    shutil.rmtree(COPY, ignore_errors=True)
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(
        [*listing, "Cargo.*", "native"],
        cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    for name in filter(None, listed.stdout.split("\0")):
        (COPY / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, COPY / name)
    with (COPY / CORE / "lib.rs").open("a") as library:
        library.write("pub use kcoord_timer::SLOW_DOWN;\n")
    with (COPY / TIMER / "lib.rs").open("a") as library:
        library.write("/// The one that is done.\n")
        library.write("pub static SLOW_DOWN: core::sync::atomic::AtomicUsize = ")
        library.write("core::sync::atomic::AtomicUsize::new(0);\n")
    for number, each in enumerate(SLOW_DOWNS, 1):
        path = COPY / each.path
        path.write_text(each.applied_to(path.read_text(), number))
    path = COPY / MAIN
    path.write_text(put_before("match run() {", chooser(), path.read_text(), MAIN))


def chooser() -> str:
    """The start of the program: it chooses the slow-down of its axis."""
    arms = ""
    for number, each in enumerate(SLOW_DOWNS, 1):
        arms += " | ".join(f'Some("{axis}")' for axis in each.axes) + f" => {number}, "
    number = f"match std::env::args().nth(1).as_deref() {{ {arms}_ => 0 }}"
    store = f"kcoord_core::SLOW_DOWN.store({number}, std::sync::atomic::Ordering::Relaxed);"
    return f'if std::env::var_os("{NONE_OF_THEM}").is_none() {{ {store} }}'


def judge() -> list[Judged]:
    """The result of the gate for each axis in the copy."""
    counts.PROGRAM = COPY / "target" / "counts" / "kcoord-bench"
    counts.PROFILES = COPY / "counts"
    axes = counts.build_program(COPY)
    bounds, made_by = counts.Bounds.read(counts.BOUNDS.read_text()), counts.compiler()

    def verdicts() -> dict[str, counts.Verdict]:
        return {v.axis: v for v in counts.judge(counts.count_all(axes), bounds, made_by)}

    slowed = verdicts()
    os.environ[NONE_OF_THEM] = "1"
    as_it_is = verdicts()
    return [Judged(each, slowed[axis], as_it_is[axis]) for each in SLOW_DOWNS for axis in each.axes]


def markdown(judged: list[Judged]) -> str:
    rows = ["| axis | made slower by | in | instructions | |", "| --- | --- | --- | ---: | --- |"]
    for each in judged:
        axis, of = each.slowed.axis, each.slow_down
        said = "caught" if each.is_caught else "**missed**"
        rows.append(f"| {axis} | {of.what} | `{of.path}` | {each.slowed.ratio - 1:+.0%} | {said} |")
    return "\n".join(rows) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benches.slow_downs",
        description="Makes every axis slower on purpose, and says whether the gate notices.",
    )
    parser.add_argument("--docs", action="store_true", help="write the table of docs/benchmarks.md")
    options = parser.parse_args()
    counts.require_counter()
    copy_and_slow_down()
    judged = judge()
    table = markdown(judged)
    counts.console.print(table, soft_wrap=True, markup=False)
    if options.docs:
        counts.write_table(ROOT / "docs" / "benchmarks.md", MARK, table)
    missed = [f"{each.slowed.axis} ({_told(each)})" for each in judged if not each.is_caught]
    if missed:
        counts.console.print(f"[red]not caught:[/] {', '.join(missed)}")
    return 1 if missed else 0


def _told(each: Judged) -> str:
    if each.slowed.bound is None:
        return "it has no bound"
    return f"{each.slowed.ratio:.2f} of its bound, {each.as_it_is.ratio:.2f} as it is"


if __name__ == "__main__":
    sys.exit(main())
