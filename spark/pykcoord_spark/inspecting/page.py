"""A report as one HTML page that needs nothing else: styles and plots are in it. Must escape
all that comes from the log: ids of groups are anything that a client sent.
"""

from __future__ import annotations

import html
import importlib.util
import io
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pykcoord.errors import ArgumentError
from pykcoord_spark.inspecting.report import Report, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["TITLES", "cell", "check_plots", "page", "time_of"]

TITLES = {
    "groups": "Groups",
    "rewinds": "Commits that went back",
    "stuck": "Partitions that are stuck",
    "flaps": "Groups that flap",
    "offsets": "Offsets at the chosen time",
}
_NOTES = {
    "groups": "By number of commits in this history. Compaction removes commits that were "
    "overwritten.",
    "rewinds": "A commit below the one before it: a reset, or two members that both believe they "
    "own the partition.",
    "stuck": "“same offset”: the newest commits all say the same; so they do where nothing is "
    "written. “no commits”: the group goes on with other partitions of the topic.",
    "flaps": "Most rebalances within the stretch of time that was asked for, and when it ended.",
    "offsets": "What each group would have resumed from.",
}
_TIMES = {"first", "last", "since", "timestamp"}
_NUMBERS = {
    "commits", "deleted", "topics", "partitions", "rebalances", "topic_partition", "before",
    "committed", "by", "most", "generation",
}  # fmt: skip
# Distinct also in print and for most people with colour blindness (Okabe and Ito); the last is for
# the rest.
_COLOURS = (
    "#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#8c6d00", "#5b3f8c",
)  # fmt: skip
_REST = "#b8bec7"
# Of the highest bar: two pixels of a plot.
_VISIBLE = 0.01
_STYLE = """
:root { color-scheme: light; --ink: #1c2430; --faint: #5d6875; --line: #dde2e8; }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); max-width: 1100px;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; margin-bottom: .2rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
p { color: var(--faint); margin: .3rem 0 .8rem; max-width: 75ch; }
dl { display: grid; grid-template-columns: repeat(5, 1fr); gap: .8rem; }
@media (max-width: 700px) { dl { grid-template-columns: 1fr; } }
dl div { border: 1px solid var(--line); border-radius: 6px; padding: .6rem .8rem; }
dt { color: var(--faint); font-size: .8rem; } dd { margin: 0; font-size: 1.25rem; }
.table { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: .88rem; }
th, td { text-align: left; padding: .3rem .7rem; border-bottom: 1px solid var(--line);
  white-space: nowrap; }
th { color: var(--faint); font-weight: 600; } .n { text-align: right;
  font-variant-numeric: tabular-nums; }
figure { margin: 1rem 0; } svg { width: 100%; height: auto; }
"""


def check_plots() -> None:
    """Raises ArgumentError if the library that draws them is not installed. Reading may take long:
    check first."""
    if importlib.util.find_spec("matplotlib") is None:
        needed = "its plots need matplotlib: pip install 'pykcoord-spark[plots]'"
        raise ArgumentError("page", needed)


def page(report: Report) -> str:
    """The whole page. Raises as `check_plots`."""
    check_plots()
    source = html.escape(report.source)
    parts = [
        f"<h1>Offset history</h1><p>{source}, {_span(report)}</p>",
        _overview(report),
        _figure("Commits", _bars, report.activity, report),
        _section("groups", report),
        _section("rewinds", report),
        _figure("What was committed where offsets went back", _lines, report.trails, report),
        _section("stuck", report),
        _section("flaps", report),
        _figure("Rebalances", _bars, report.rebalances, report),
        _section("offsets", report),
    ]
    body = "\n".join(part for part in parts if part)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Offset history of {source}</title><style>{_STYLE}</style></head>\n"
        f"<body>{body}</body></html>\n"
    )


def cell(column: str, value: Any) -> str:
    """A value as people read it."""
    if value is None:
        return ""
    if column in _TIMES:
        return time_of(value)
    if column in ("topic_partition", "generation"):
        return str(value)
    return f"{value:,}" if column in _NUMBERS else str(value)


def time_of(timestamp_ms: int) -> str:
    """UTC, to the second."""
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(timestamp_ms)
    return moment.isoformat(sep=" ", timespec="seconds").replace("+00:00", "Z")


def _overview(report: Report) -> str:
    counts = {name: table.total for name, table in report.tables.items() if name != "offsets"}
    facts = {"records": report.records, **{_SHORT[name]: count for name, count in counts.items()}}
    shown = "".join(
        f"<div><dt>{name}</dt><dd>{value:,}</dd></div>" for name, value in facts.items()
    )
    kinds = ", ".join(f"{html.escape(kind)} {count:,}" for kind, count in report.kinds)
    return f"<dl>{shown}</dl><p>Records by kind: {kinds or 'none'}.</p>"


def _span(report: Report) -> str:
    return f"{time_of(report.first_ms)} to {time_of(report.last_ms)}"


_SHORT = {
    "groups": "groups",
    "rewinds": "commits that went back",
    "stuck": "stuck partitions",
    "flaps": "groups that flap",
}


def _section(name: str, report: Report) -> str:
    if name not in report.tables:
        return ""
    table = report.tables[name]
    title, note = TITLES[name], _NOTES[name]
    return f"<h2>{title}</h2><p>{note}</p>{_rows(table)}"


def _rows(table: Table) -> str:
    if not table.rows:
        return "<p>None.</p>"
    head = "".join(
        f"<th{_aligned(name)}>{html.escape(name.replace('_', ' '))}</th>" for name in table.columns
    )
    body = "".join(
        "<tr>"
        + "".join(
            f"<td{_aligned(name)}>{html.escape(cell(name, value))}</td>"
            for name, value in zip(table.columns, row, strict=True)
        )
        + "</tr>\n"
        for row in table.rows
    )
    more = table.total - len(table.rows)
    rest = f"<p>And {more:,} more.</p>" if more else ""
    return f"<div class='table'><table><tr>{head}</tr>\n{body}</table></div>{rest}"


def _aligned(column: str) -> str:
    return ' class="n"' if column in _NUMBERS else ""


def _figure(title: str, draw: Any, series: dict[str, list[tuple[int, int]]], report: Report) -> str:
    if not series:
        return ""
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with rc_context({"svg.hashsalt": title, "text.parse_math": False, "font.size": 9}):
        figure = Figure(figsize=(11, 3.2), layout="constrained")
        axes = figure.add_subplot()
        draw(axes, series, report)
        axes.set_xlim(_moment(report.first_ms), _moment(report.last_ms + report.bucket_ms))  # type: ignore[arg-type]
        _finish(axes)
        out = io.StringIO()
        FigureCanvasSVG(figure).print_svg(out, metadata={"Date": None, "Creator": None})  # type: ignore[no-untyped-call]
    svg = out.getvalue()
    return f"<h2>{title}</h2><figure>{svg[svg.index('<svg') :]}</figure>"


def _bars(axes: Axes, series: dict[str, list[tuple[int, int]]], report: Report) -> None:
    below: Counter[int] = Counter()
    width = report.bucket_ms / 86_400_000
    for label, colour, points in _visible(series):
        times = [_moment(at + report.bucket_ms // 2) for at, _ in points]
        bottoms = [below[at] for at, _ in points]
        heights = [count for _, count in points]
        axes.bar(times, heights, width, bottom=bottoms, color=colour, label=label)  # type: ignore[arg-type]
        below.update(dict(points))
    axes.set_ylabel(f"per {_duration(report.bucket_ms)}")


def _visible(series: dict[str, list[tuple[int, int]]]) -> list[tuple[str, str, Any]]:
    """Label, colour and points: of groups with a bar that can be seen beside the highest of all,
    and of all others together."""
    heights: Counter[int] = Counter()
    for points in series.values():
        heights.update(dict(points))
    least = max(heights.values(), default=0) * _VISIBLE
    shown: list[tuple[str, str, Any]] = []
    rest: Counter[int] = Counter()
    for group, points in series.items():
        if group and max((count for _, count in points), default=0) >= least:
            shown.append((_shortened(group), _COLOURS[len(shown) % len(_COLOURS)], points))
        else:
            rest.update(dict(points))
    if rest:
        label = "all others" if max(rest.values()) >= least else "others, too few to see"
        shown.append((label, _REST, sorted(rest.items())))
    return shown


def _lines(axes: Axes, series: dict[str, list[tuple[int, int]]], report: Report) -> None:
    for position, (name, points) in enumerate(series.items()):
        times = [_moment(at) for at, _ in points]
        axes.step(
            times, [offset for _, offset in points], where="post",  # type: ignore[arg-type]
            color=_COLOURS[position % len(_COLOURS)], label=_shortened(name), linewidth=1.3,
        )  # fmt: skip
    axes.set_ylabel("committed offset")


def _finish(axes: Axes) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
    from matplotlib.ticker import MaxNLocator

    locator = AutoDateLocator()  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    # Counts and offsets are whole numbers: half of one would be shown as another.
    axes.yaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#e6eaef")
    axes.set_axisbelow(True)
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)


def _moment(timestamp_ms: int) -> datetime:
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC)


def _shortened(name: str) -> str:
    return name if len(name) <= 40 else f"{name[:18]}…{name[-18:]}"


def _duration(of_ms: int) -> str:
    for unit, size in (("days", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000)):
        if of_ms >= size:
            return f"{of_ms / size:.3g} {unit}"
    return f"{of_ms} ms"
