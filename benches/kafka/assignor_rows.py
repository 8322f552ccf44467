"""The rows of the comparison of assignors: the groups, what is to be reached, and the tables.

A goal is a ratio to Kafka's class in the same run. A row without a figure of Kafka's, since one
call takes over a minute, is held to a bound of its own. Must never measure anything.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

LIMIT_MS = 60_000.0
MOST_BYTES = 100
SERVER_SIDE = ("uniform", "server-range")


@dataclass(frozen=True)
class Row:
    """A generated group. `subscriptions`: same, but-one (all but one topic, another for each
    member) or random (half of the topics)."""

    strategy: str
    members: int
    partitions: int
    topics: int
    subscriptions: str
    one_more: bool = False
    least: float | None = None  # how many times as fast as Kafka's class
    least_python: float | None = None

    def arguments(self) -> list[str]:
        numbers = [str(self.members), str(self.partitions), str(self.topics)]
        what = "one-more" if self.one_more else "full"
        return [self.strategy, *numbers, self.subscriptions, what]

    @property
    def group(self) -> str:
        size = f"{self.members:,} / {self.partitions:,} / {self.topics:,}"
        return f"{size}, one more" if self.one_more else size

    @property
    def name(self) -> str:
        return f"{self.strategy} {self.group}, {self.subscriptions}"


class Times(NamedTuple):
    """The time of Kafka's class, in ms; None where one call took over a minute."""

    first: float | None
    warm: float | None
    checksum: str | None


@dataclass(frozen=True)
class Measured:
    """Milliseconds of each side, and their ratio."""

    row: Row
    java: Times
    build: float
    assign: float
    python: float
    bytes_each: int
    is_same: bool

    @property
    def native(self) -> float:
        """What stands beside Kafka's time: the consumer's classes are given names, as pykcoord
        is; the server's a group that is prepared."""
        return self.assign if self.row.strategy in SERVER_SIDE else self.build + self.assign

    @property
    def ratio(self) -> float:
        """At least that, where Kafka's class was not waited for."""
        return (self.java.warm or LIMIT_MS) / self.native

    @property
    def is_met(self) -> bool:
        if self.bytes_each > MOST_BYTES:
            return False
        if self.row.least is not None and self.ratio < self.row.least:
            return False
        least_python = self.row.least_python
        return least_python is None or (self.java.warm or LIMIT_MS) / self.python >= least_python

    def as_json(self) -> dict[str, object]:
        return {**asdict(self), "ratio": self.ratio, "is_met": self.is_met}

    def cells(self) -> list[str]:
        row, over = self.row, "over 60 s"
        warm = over if self.java.warm is None else _figure(self.java.warm)
        ratio = f"{'over ' if self.java.warm is None else ''}{_figure(self.ratio)}x"
        first = over if self.java.first is None else _figure(self.java.first)
        goal = "" if row.least is None else f"{row.least:g}x"
        if row.least_python is not None:
            goal += f", Python {row.least_python:g}x"
        met = "" if not goal else ("met" if self.is_met else "**missed**")
        times = [_figure(ms) for ms in (self.build, self.assign, self.python)]
        cells = [f"`{row.strategy}`", row.group, row.subscriptions, first, warm, *times]
        return [*cells, str(self.bytes_each), ratio, goal, met]


COOPERATIVE, STICKY = "cooperative-sticky", "sticky"
ROWS = [
    Row(COOPERATIVE, 1_000, 10_000, 100, "same", least=3, least_python=1),
    Row(COOPERATIVE, 1_000, 10_000, 100, "same", True, least=3, least_python=1),
    Row(COOPERATIVE, 10_000, 500_000, 1_000, "same", least=3),
    Row(COOPERATIVE, 10_000, 500_000, 1_000, "same", True, least=10),
    Row(COOPERATIVE, 1_000, 10_000, 100, "but-one", least=20),
    Row(COOPERATIVE, 1_000, 10_000, 100, "but-one", True, least=50),
    Row(STICKY, 1_000, 10_000, 100, "but-one", True, least=50),
    Row(COOPERATIVE, 1_000, 50_000, 1_000, "but-one", least=50),
    Row(COOPERATIVE, 5_000, 50_000, 100, "but-one", least=50),
    Row(COOPERATIVE, 10_000, 100_000, 10, "but-one", least=50),
    # Under a second, and over a minute in Java.
    Row(COOPERATIVE, 5_000, 50_000, 100, "but-one", True, least=60),
    Row(COOPERATIVE, 1_000, 10_000, 100, "random", least=20),
    Row(COOPERATIVE, 5_000, 50_000, 100, "random", True, least=60),
    Row("range", 10_000, 500_000, 1_000, "same", least=10),
    Row("roundrobin", 10_000, 500_000, 1_000, "same", least=10),
    Row("uniform", 10_000, 500_000, 1_000, "same", least=3),
    Row("uniform", 10_000, 500_000, 1_000, "same", True, least=3),
    Row("uniform", 10_000, 500_000, 1_000, "random", least=10),
    Row("server-range", 10_000, 500_000, 1_000, "same"),
]
SMOKE_ROWS = [
    Row(COOPERATIVE, 20, 200, 10, "but-one", True),
    Row(STICKY, 20, 200, 10, "random", True),
    Row("range", 20, 200, 10, "same"),
    Row("uniform", 20, 200, 10, "random", True),
]

_HEADS = ["strategy", "members / partitions / topics", "subscriptions"]
HEADS = [
    *_HEADS, "Kafka, first", "Kafka, warm", "build", "assign", "from Python", "bytes", "ratio",
    "goal", "",
]  # fmt: skip


def show(measured: list[Measured], console: Console) -> None:
    title = "ms; the fastest calls; bytes a partition held at once beside the input"
    table = Table(title=title, title_justify="left", header_style="bold")
    for at, head in enumerate(HEADS):
        table.add_column(head, justify="left" if at < len(_HEADS) else "right")
    for each in measured:
        cells = [cell.strip("`").replace("**", "") for cell in each.cells()]
        table.add_row(*cells, style=None if each.is_met and each.is_same else "red")
    console.print(table)


def markdown(measured: list[Measured]) -> str:
    rules = ["---" if at < len(_HEADS) else "---:" for at in range(len(HEADS))]
    rows = [HEADS, rules]
    rows += [each.cells() for each in measured]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _figure(value: float) -> str:
    if value >= 10:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 1 else f"{value:.2f}"
