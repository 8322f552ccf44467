"""The gate on the cost of hot paths: `make bench-gate`, or `python -m benches.counts`.

Instructions of one operation of each axis (native/bench), counted by valgrind, against the bounds
in instructions.txt; then the ratios of benches/ in their small size. Counts do not depend on the
load of the machine, but they do on the compiler: a compiler other than that of the bounds gets more
room. A time must never fail the gate.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[1]
BOUNDS = Path(__file__).with_name("instructions.txt")
PROGRAM = ROOT / "target" / "counts" / "kcoord-bench"
PROFILES = ROOT / "build" / "bench" / "counts"
TOLERANCE = 0.10
# What telling events may cost more, by axis. A heartbeat in time never looks whether they are told;
# those of the bench's first round are late, so that many rounds are counted.
EVENTS_COST = {
    "heartbeat": 0.01, "consumer-heartbeat": 0.01, "commit-1": 0.01, "join-sync": 0.10,
    "storm": 0.15,
}  # fmt: skip
EVENTS_ROUNDS = {"heartbeat": ("--rounds", "64"), "consumer-heartbeat": ("--rounds", "64")}
# The room for code of another compiler than that of the bounds.
OTHER_COMPILER_TOLERANCE = 0.25
# Less than this share of its bound: an axis no longer does what it is there to measure.
LEAST_RATIO = 0.5
# The function of native/bench around what is measured.
MEASURED = "kcoord_bench_measured"
_HEAD = """\
# Instructions of one operation of each hot path, as `make bench-gate` counts them: {tolerance:.0%}
# more is a failure. `target/counts/kcoord-bench list` says what an operation is. Where more is the
# price of something worth it: `make bench-gate BENCH_ARGS=--set`, and say in the commit what for.
# compiler: {compiler}
"""

console = Console(width=None if sys.stdout.isatty() else 110)


class CannotCount(Exception):
    """This machine counts no instructions; the message says why."""


@dataclass(frozen=True)
class Bound:
    instructions: float
    commit: str


@dataclass
class Bounds:
    compiler: str
    by_axis: dict[str, Bound] = field(default_factory=dict)

    @classmethod
    def read(cls, text: str) -> Bounds:
        match = re.search(r"^# compiler: (.*)$", text, re.MULTILINE)
        bounds = cls(match[1] if match else "unknown")
        for line in text.splitlines():
            if line and not line.startswith("#"):
                axis, instructions, commit = line.split()
                bounds.by_axis[axis] = Bound(float(instructions.replace(",", "")), commit)
        return bounds

    def __str__(self) -> str:
        head = _HEAD.format(tolerance=TOLERANCE, compiler=self.compiler)
        rows = (
            f"{axis:<20} {bound.instructions:>12,.1f}  {bound.commit}\n"
            for axis, bound in self.by_axis.items()
        )
        return head + "".join(rows)


@dataclass(frozen=True)
class Verdict:
    axis: str
    found: float
    bound: Bound | None
    tolerance: float

    @property
    def ratio(self) -> float:
        return self.found / self.bound.instructions if self.bound else float("nan")

    @property
    def failure(self) -> str | None:
        """What is wrong and what to do, or None."""
        if self.bound is None:
            return (
                f"{self.axis}: {self.found:,.1f} instructions, and no bound: "
                "`make bench-gate BENCH_ARGS=--set` writes one"
            )
        if self.ratio < LEAST_RATIO:
            return (
                f"{self.axis}: {self.found:,.1f} instructions an operation, {self.ratio:.1%} of "
                f"the {self.bound.instructions:,.1f} of {self.bound.commit}: does it still do "
                "its work? If it does: make bench-gate BENCH_ARGS=--set"
            )
        if self.ratio <= 1 + self.tolerance:
            return None
        return (
            f"{self.axis}: {self.found:,.1f} instructions an operation, "
            f"{self.ratio - 1:.0%} over the {self.bound.instructions:,.1f} of {self.bound.commit}"
            f" (allowed: {self.tolerance:.0%})\n"
            f"  where they go: callgrind_annotate {_shown(_profile(self.axis))}\n"
            "  if that is the price of something worth it: make bench-gate BENCH_ARGS=--set"
        )


def compile_program(profile: str, root: Path = ROOT, *options: str) -> None:
    """Compiles native/bench with a profile of the project, whatever profile the caller has set."""
    asked = ("CARGO_PROFILE_", "RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS")
    environment = {name: text for name, text in os.environ.items() if not name.startswith(asked)}
    command = ["cargo", "build", "--quiet", f"--profile={profile}", "--locked"]
    command += ["-p", "kcoord-bench", *options]
    subprocess.run(command, cwd=root, check=True, env=environment)


def build_program(root: Path = ROOT) -> list[str]:
    """Compiles native/bench of `root`, optimized and as one unit, and returns its axes."""
    compile_program("counts", root)
    listed = subprocess.run([PROGRAM, "list"], stdout=subprocess.PIPE, text=True, check=True)
    return [line.split("\t")[0] for line in listed.stdout.splitlines()]


def weigh(groups: int, offset_groups: int) -> list[float]:
    """Allocated bytes of a group of one, of an offset at 100 a group, and of the only one of a
    group; of the program that was built."""
    command = [PROGRAM, "weigh", str(groups), str(offset_groups)]
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return [float(figure) for figure in result.stdout.split()]


def weigh_consumers(groups: int) -> float:
    """Allocated bytes of a consumer group of one; of the program that was built."""
    command = [PROGRAM, "weigh-consumers", str(groups)]
    return float(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)


def compiler() -> str:
    result = subprocess.run(["rustc", "--version"], stdout=subprocess.PIPE, text=True, check=True)
    return result.stdout.strip()


def require_counter() -> None:
    """Raises CannotCount where valgrind is missing, or its counts cannot be compared with the
    bounds."""
    if platform.machine() not in ("x86_64", "AMD64"):
        raise CannotCount(f"the bounds are of x86_64, this is {platform.machine()}")
    if shutil.which("valgrind") is None:
        raise CannotCount("no valgrind here: apt install valgrind")


def count(axis: str, arguments: tuple[str, ...] = ()) -> float:
    """Instructions of one operation, start-up and preparation left out."""
    profile = _profile(axis)
    profile.parent.mkdir(parents=True, exist_ok=True)
    command = ["valgrind", "--tool=callgrind", f"--toggle-collect={MEASURED}"]
    command += [f"--callgrind-out-file={profile}", os.fspath(PROGRAM), axis, *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    collected = re.search(r"Collected : (\d+)", result.stderr)
    if result.returncode != 0 or collected is None:
        raise RuntimeError(f"{' '.join(command)}:\n{result.stdout}{result.stderr}")
    operations = sum(int(line.split()[0]) for line in result.stdout.splitlines())
    return int(collected[1]) / operations


def count_all(axes: list[str], count: Callable[[str], float] = count) -> dict[str, float]:
    """Counts in the order of `axes`. They run at the same time, which does not change counts."""
    found: dict[str, float] = {}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for axis, each in zip(axes, pool.map(count, axes), strict=True):
            found[axis] = each
            if sys.stdout.isatty():
                console.print(f"{len(found)} of {len(axes)}: {axis} {each:,.1f}", end="\r")
    return found


def judge(found: dict[str, float], bounds: Bounds, made_by: str) -> list[Verdict]:
    tolerance = TOLERANCE if made_by == bounds.compiler else OTHER_COMPILER_TOLERANCE
    return [
        Verdict(axis, each, bounds.by_axis.get(axis), tolerance) for axis, each in found.items()
    ]


def renewed(bounds: Bounds, found: dict[str, float], made_by: str, commit: str) -> Bounds:
    """The new bounds: those that moved by more than 1 % get today's figure and commit."""
    by_axis = dict(bounds.by_axis)
    for axis, each in found.items():
        old = by_axis.get(axis)
        if old is None or abs(each / old.instructions - 1) > 0.01:
            by_axis[axis] = Bound(round(each, 1), commit)
    return Bounds(made_by, by_axis)


def show(verdicts: list[Verdict]) -> None:
    table = Table(title="instructions an operation", title_justify="left", header_style="bold")
    for heading in ("axis", "found", "bound", "found / bound", "set by"):
        table.add_column(heading, justify="left" if heading in ("axis", "set by") else "right")
    for verdict in verdicts:
        bound = verdict.bound
        figures = [f"{verdict.found:,.1f}", f"{bound.instructions:,.1f}" if bound else ""]
        figures += [f"{verdict.ratio:.3f}" if bound else "", bound.commit if bound else ""]
        table.add_row(verdict.axis, *figures, style="red" if verdict.failure else None)
    console.print(table)


def gate_counts(options: argparse.Namespace) -> list[str]:
    """Returns the failures. Sets the bounds instead, if asked to."""
    try:
        require_counter()
    except CannotCount as reason:
        console.print(f"[yellow]instructions are not counted:[/] {reason}")
        return []
    axes = build_program()
    if unknown := sorted(set(options.only or ()) - set(axes)):
        sys.exit(f"no such axis: {', '.join(unknown)}; there are {', '.join(axes)}")
    bounds, made_by = Bounds.read(BOUNDS.read_text()), compiler()
    found = count_all(options.only or axes)
    if options.set:
        new = renewed(bounds, found, made_by, _commit())
        new.by_axis = {axis: new.by_axis[axis] for axis in axes if axis in new.by_axis}
        BOUNDS.write_text(str(new))
        show(judge(found, new, made_by))
        console.print(f"written to {_shown(BOUNDS)}")
        return []
    verdicts = judge(found, bounds, made_by)
    show(verdicts)
    if made_by != bounds.compiler:
        allowed = f"{OTHER_COMPILER_TOLERANCE:.0%} more is allowed here, not {TOLERANCE:.0%}"
        console.print(f"bounds are of {bounds.compiler}, this is {made_by}: {allowed}")
    return [verdict.failure for verdict in verdicts if verdict.failure] + gate_events(found)


def gate_events(found: dict[str, float], count: Callable[..., float] = count) -> list[str]:
    """The failures of what the same costs while events are told, against `found`."""
    failures = []
    table = Table(title="with events told", title_justify="left", header_style="bold")
    for heading in ("axis", "without", "with", "with / without", "allowed"):
        table.add_column(heading, justify="left" if heading == "axis" else "right")
    for axis in [axis for axis in EVENTS_COST if axis in found]:
        rounds = EVENTS_ROUNDS.get(axis, ())
        untold = count(axis, rounds) if rounds else found[axis]
        told = count(axis, (*rounds, "--events"))
        ratio, allowed = told / untold, 1 + EVENTS_COST[axis]
        figures = f"{untold:,.1f}", f"{told:,.1f}", f"{ratio:.3f}", f"{allowed:.2f}"
        table.add_row(axis, *figures, style="red" if ratio > allowed else None)
        if ratio > allowed:
            failures.append(
                f"{axis}: {ratio - 1:.1%} more instructions while events are told "
                f"(allowed: {EVENTS_COST[axis]:.0%})"
            )
    if table.rows:
        console.print(table)
    return failures


def gate_ratios() -> bool:
    """The gates of benches/, by pytest, in small size."""
    command = [sys.executable, "-m", "pytest", "benches", "-q", "-k", "gate", "--size", "small"]
    command += ["-o", "addopts=--strict-markers --strict-config --import-mode=importlib"]
    # The first of them may compile an example of native/bench.
    command += ["-p", "no:cacheprovider", "-o", "timeout=900"]
    return subprocess.run(command, cwd=ROOT, check=False).returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benches.counts",
        description="Instruction counts of the hot paths against their bounds, then the ratios.",
        epilog="example: make bench-gate BENCH_ARGS='--only heartbeat --only commit-5'",
    )
    parser.add_argument("--set", action="store_true", help="make what is found the bounds")
    parser.add_argument("--only", action="append", metavar="AXIS", help="this axis; no ratios")
    parser.add_argument("--build", action="store_true", help="compile what is counted, and no more")
    options = parser.parse_args()
    if options.build:
        build_program()
        return 0
    failures = gate_counts(options)
    for failure in failures:
        console.print(f"[red]{failure}[/]", highlight=False, soft_wrap=True)
    partial = options.set or options.only
    return 1 if failures or not (partial or gate_ratios()) else 0


def write_table(page: Path, mark: str, table: str) -> None:
    """Replaces what stands between the mark and the next end mark of a page."""
    before, found, rest = page.read_text().partition(mark)
    _, end, after = rest.partition("<!-- end -->\n")
    assert found, f"{page.name} has lost the mark {mark.strip()}"
    assert end, f"{page.name} has lost the end mark of {mark.strip()}"
    page.write_text(f"{before}{mark}\n{table}\n{end}{after}")


def _commit() -> str:
    """HEAD, with a plus where native code differs from it."""
    git = ["git", "-C", os.fspath(ROOT)]
    head = subprocess.run(
        [*git, "rev-parse", "--short", "HEAD"], stdout=subprocess.PIPE, text=True, check=True
    ).stdout.strip()
    dirty = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", "native"], check=False)
    return f"{head}{'+' if dirty.returncode else ''}"


def _profile(axis: str) -> Path:
    return PROFILES / f"{axis}.callgrind"


def _shown(path: Path) -> Path:
    return path.relative_to(ROOT)


if __name__ == "__main__":
    sys.exit(main())
