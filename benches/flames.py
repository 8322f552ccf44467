"""Flame graphs of hot paths, by instructions: `make profile AXIS=storm`, or `python -m
benches.flames storm`.

valgrind counts an axis of native/bench, and each function apart by its callers. So stacks are
exact, not sampled, and the picture does not depend on the load of the machine. A function that the
compiler inlined is a part of its caller. The picture must not show paths of a machine.
"""

from __future__ import annotations

import argparse
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import escape

from rich.table import Table

from benches.counts import MEASURED, PROGRAM, ROOT, build_program, console, require_counter

FOLDER = ROOT / "build" / "bench" / "flames"
DOCS = ROOT / "docs"
LEAST_SHARE = 0.005  # narrower ones are not drawn
CALLERS = 60
TOLD = 12  # functions that the table has
WIDTH, ROW, CHARACTER, MARGIN = 1200, 17, 6.7, 8
COLOURS = {
    "kcoord_core": "#f4a261", "kcoord_wire": "#e9c46a", "kcoord_node": "#e9c46a",
    "kcoord_rows": "#e9c46a", "kcoord_bench": "#cfd8dc",
}  # fmt: skip
OTHERS = "#8ecae6"  # allocation, copying, comparing: libc and Rust's own

Stack = tuple[str, ...]  # from the function that is measured to the innermost


@dataclass
class Frame:
    name: str
    instructions: int = 0
    inner: dict[str, Frame] = field(default_factory=dict)

    def add(self, stack: Stack, instructions: int) -> None:
        self.instructions += instructions
        if stack:
            self.inner.setdefault(stack[0], Frame(stack[0])).add(stack[1:], instructions)

    @property
    def depth(self) -> int:
        return 1 + max((frame.depth for frame in self.inner.values()), default=0)

    def pruned(self, least: float) -> Frame:
        kept = {name: each for name, each in self.inner.items() if each.instructions >= least}
        inner = {name: kept[name].pruned(least) for name in sorted(kept)}
        return Frame(self.name, self.instructions, inner)


def count(axis: str, profile: Path) -> int:
    """Writes callgrind's profile; returns how many operations it is of."""
    profile.parent.mkdir(parents=True, exist_ok=True)
    command = ["valgrind", "--tool=callgrind", f"--toggle-collect={MEASURED}"]
    command += [f"--separate-callers={CALLERS}", f"--callgrind-out-file={profile}"]
    result = subprocess.run(
        [*command, str(PROGRAM), axis], capture_output=True, text=True, check=False
    )
    if result.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}:\n{result.stdout}{result.stderr}")
    return sum(int(line.split()[0]) for line in result.stdout.splitlines())


def stacks(profile: str) -> Iterator[tuple[Stack, int]]:
    """Each stack with the instructions of its innermost function."""
    names: dict[str, str] = {}
    stack: Stack = ()
    is_call = False
    for line in profile.splitlines():
        if match := re.match(r"(c?)fn=\((\d+)\)(?: (.*))?", line):
            called, number, name = match.groups()
            if name is not None:
                names[number] = name
            if not called:
                stack = _stack(names[number])
        elif line.startswith("calls="):
            is_call = True
        elif re.match(r"[+\-*\d]", line):
            # The cost of a called function stands behind its call, and again as its own.
            if not is_call and stack:
                yield stack, int(line.split()[-1])
            is_call = False


def _stack(name: str) -> Stack:
    """callgrind's `innermost'its caller'...`, cut at the function that is measured; a number is a
    recursion."""
    functions = [each for each in name.split("'") if not each.isdigit()]
    if MEASURED not in functions:
        return ()
    return tuple(reversed(functions[: functions.index(MEASURED)]))


def flame(profile: str) -> Frame:
    root = Frame("all")
    for stack, instructions in stacks(profile):
        root.add(stack, instructions)
    return root


def short(name: str) -> str:
    """A function as one says it: `Shard::handle_batch`."""
    name = re.sub(r"^.*<impl [^>]*?(\w+)>::", r"\1::", name)
    name = re.sub(r"<([^<>]+) as [^<>]+>", r"\1", name)

    def last(match: re.Match[str]) -> str:
        *_, owner, function = match[0].split("::")
        return f"{owner}::{function}" if owner[0].isupper() else function

    return re.sub(r"\w+(?:::\w+)+", last, name)


def draw(root: Frame, operations: int, title: str) -> str:
    """An SVG. The full name of a function and its cost stand in its tool tip."""
    root = root.pruned(LEAST_SHARE * root.instructions)
    height = root.depth * ROW + 3 * ROW
    scale = (WIDTH - 2 * MARGIN) / root.instructions
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        'font-family="monospace" font-size="11">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="{MARGIN}" y="{ROW}" font-size="13">{escape(title)}</text>',
    ]

    def box(frame: Frame, at: float, level: int) -> None:
        width = frame.instructions * scale
        top = height - MARGIN - (level + 1) * ROW
        share = frame.instructions / root.instructions
        each = frame.instructions / operations
        colour = next((c for crate, c in COLOURS.items() if crate in frame.name), OTHERS)
        said = f"{frame.name}: {each:,.0f} instructions an operation, {share:.1%}"
        parts.append(
            f'<g><title>{escape(said)}</title><rect x="{at:.1f}" y="{top}" width="{width:.1f}" '
            f'height="{ROW - 1}" fill="{colour}" stroke="#ffffff" stroke-width="0.5"/>'
        )
        room = int((width - 6) / CHARACTER)
        label = short(frame.name)
        if room >= 3:
            label = label if len(label) <= room else label[: room - 1] + "…"
            parts.append(f'<text x="{at + 3:.1f}" y="{top + 12}">{escape(label)}</text>')
        parts.append("</g>")
        for inner in frame.inner.values():
            box(inner, at, level + 1)
            at += inner.instructions * scale

    box(root, MARGIN, 0)
    return "\n".join([*parts, "</svg>\n"])


def shares(root: Frame) -> list[tuple[str, float, float]]:
    """Functions with their own share and with that of their callees included, the largest first."""
    own: dict[str, int] = defaultdict(int)
    whole: dict[str, int] = defaultdict(int)

    def visit(frame: Frame, above: frozenset[str]) -> None:
        inside = sum(each.instructions for each in frame.inner.values())
        own[frame.name] += frame.instructions - inside
        if frame.name not in above:  # a recursion counts once
            whole[frame.name] += frame.instructions
        for each in frame.inner.values():
            visit(each, above | {frame.name})

    visit(root, frozenset())
    del whole[root.name]
    ordered = sorted(whole, key=lambda name: (-whole[name], name))
    total = root.instructions
    return [(short(name), own[name] / total, whole[name] / total) for name in ordered]


def show(root: Frame) -> None:
    table = Table("function", title="shares of the instructions", title_justify="left")
    table.add_column("own", justify="right")
    table.add_column("with what it calls", justify="right")
    for name, own, whole in shares(root)[: 2 * TOLD]:
        table.add_row(name, f"{own:.1%}", f"{whole:.1%}")
    console.print(table, markup=False)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benches.flames",
        description="Draws where the instructions of a hot path go.",
        epilog="example: make profile AXIS=commit-5",
    )
    parser.add_argument("axis", nargs="+", help="as `target/counts/kcoord-bench list` names them")
    parser.add_argument("--docs", action="store_true", help="into docs/, as flame-AXIS.svg")
    options = parser.parse_args()
    require_counter()
    axes = build_program()
    if unknown := [axis for axis in options.axis if axis not in axes]:
        parser.error(f"no axis {', '.join(unknown)}; there are {', '.join(axes)}")
    for axis in options.axis:
        profile = FOLDER / f"{axis}.callgrind"
        operations = count(axis, profile)
        root = flame(profile.read_text())
        each = root.instructions / operations
        title = f"{axis}: {each:,.0f} instructions an operation, by function"
        picture = DOCS / f"flame-{axis}.svg" if options.docs else profile.with_suffix(".svg")
        picture.write_text(draw(root, operations, title))
        show(root)
        console.print(f"drawn: {picture.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
