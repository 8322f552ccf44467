"""The rows of the comparison: figures, goals, and whether the goals are met. Goals are ratios
between the two servers of one run. On purpose, the goals of memory over the wire (live bytes) and
of the two cold starts (seconds) are absolute: an operator waits for a start, however long another
server takes. No other goal may be absolute, least of all on a wall-clock figure.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from rich.console import Console
from rich.table import Table

from benches.kafka.servers import Kafka

# Name and unit of the rows that README.md shows, and their names there.
HEADLINES = {
    ("heartbeats", "/server CPU s"): "heartbeats for each CPU second of the server",
    (
        "commits of 5, synced",
        "/server CPU s",
    ): "commits of 5 offsets for each CPU second (pykcoord: synced)",
    ("memory of a one-member group", "B, live"): "bytes of memory for a group of one member",
    ("with 100,000 groups", "s"): "seconds from start to first answer, 100,000 groups",
}


@dataclass(frozen=True)
class Row:
    """One axis. `least` and `most` bound pykcoord / Kafka; `most_itself` pykcoord's own figure."""

    name: str
    unit: str
    kafka: float
    pykcoord: float
    least: float | None = None
    most: float | None = None
    most_itself: float | None = None
    note: str = ""
    spread: tuple[float, float] | None = None  # least and most ratio of a round

    @classmethod
    def of_rounds(
        cls, name: str, unit: str, kafka: Sequence[float], pykcoord: Sequence[float], **bounds: Any
    ) -> Row:
        """Medians of rounds in which both were measured one after the other."""
        ratios = [own / other for other, own in zip(kafka, pykcoord, strict=True)]
        medians = statistics.median(kafka), statistics.median(pykcoord)
        return cls(name, unit, *medians, spread=(min(ratios), max(ratios)), **bounds)

    @classmethod
    def of_json(cls, told: Mapping[str, Any]) -> Row:
        """The row of which `as_json` told."""
        row = cls(**{field.name: told[field.name] for field in fields(cls)})
        return replace(row, spread=tuple(row.spread)) if row.spread else row

    @property
    def ratio(self) -> float:
        return self.pykcoord / self.kafka if self.kafka else float("nan")

    @property
    def goal(self) -> str:
        if self.least is not None:
            return f">= {self.least:.3g}x"
        if self.most is not None:
            return f"<= {self.most:.3g}x"
        if self.most_itself is not None:
            return f"<= {self.most_itself:g} {self.unit}"
        return ""

    @property
    def told_spread(self) -> str:
        return f"{self.spread[0]:.2f}x to {self.spread[1]:.2f}x" if self.spread else ""

    @property
    def is_met(self) -> bool | None:
        """None where there is no goal."""
        if self.least is not None:
            return self.ratio >= self.least
        if self.most is not None:
            return self.ratio <= self.most
        if self.most_itself is not None:
            return self.pykcoord <= self.most_itself
        return None

    def as_json(self) -> dict[str, object]:
        return {**asdict(self), "ratio": self.ratio, "goal": self.goal, "is_met": self.is_met}


def show(rows: list[Row], title: str, console: Console) -> None:
    table = Table(title=title, title_justify="left", header_style="bold")
    table.add_column("axis")
    table.add_column("unit")
    for column in (Kafka.name, "pykcoord", "ratio", "of rounds", "goal"):
        table.add_column(column, justify="right")
    table.add_column("")
    table.add_column("note")
    verdicts = {True: "[green]met[/]", False: "[red]missed[/]", None: ""}
    for row in rows:
        cells = [row.name, row.unit, told_figure(row.kafka), told_figure(row.pykcoord)]
        cells += [f"{row.ratio:.2f}x", row.told_spread, row.goal]
        table.add_row(*cells, verdicts[row.is_met], row.note)
    console.print(table)


def markdown(rows: list[Row]) -> str:
    """All rows; those without a name belong to the one above."""
    lines = [f"| | | {Kafka.name} | pykcoord | ratio | of rounds | goal | | |"]
    lines.append("| --- | --- | ---: | ---: | ---: | ---: | ---: | --- | --- |")
    verdicts = {True: "met", False: "**missed**", None: ""}
    for row in rows:
        cells = [row.name, row.unit, told_figure(row.kafka), told_figure(row.pykcoord)]
        cells += [f"{row.ratio:.2f}x", row.told_spread, row.goal, verdicts[row.is_met], row.note]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def headlines(rows: list[Row]) -> str:
    """The few rows that README.md shows, in the words of its reader."""
    lines = [f"| | {Kafka.name} | pykcoord | ratio |", "| --- | ---: | ---: | ---: |"]
    for (name, unit), words in HEADLINES.items():
        # Of rows that share a name the first is meant: it was measured over the wire.
        row = next(row for row in rows if (row.name, row.unit) == (name, unit))
        figures = [told_figure(row.kafka), told_figure(row.pykcoord), f"{row.ratio:.2f}x"]
        lines.append(f"| {words} | {' | '.join(figures)} |")
    return "\n".join(lines) + "\n"


def told_figure(value: float) -> str:
    """As many digits as have a meaning."""
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.3f}"
