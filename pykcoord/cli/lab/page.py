"""What the lab found, as pictures and as one HTML page without anything from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from pykcoord.cli.lab.charts import log_log, timeline
from pykcoord.cli.lab.herd import (
    CLASSIC,
    CONSUMER,
    COORDINATOR_ASSIGNED,
    SCHEMES,
    ZOOKEEPER,
    ZOOKEEPER_LIGHT,
)

__all__ = ["HERD_COLUMNS", "claims", "herd_rows", "html_page", "pictures", "split_rows"]

HERD_COLUMNS = (
    "members", "scheme", "notifications", "rebalanced", "for nothing", "requests", "settled (s)",
    "partition-seconds unowned",
)  # fmt: skip
SPLIT_COLUMNS = (
    "case", "failed attempts", "conflicts", "partition-seconds unowned",
    "owned by nobody at the end",
)  # fmt: skip
TWICE_COLUMNS = (
    "scheme", "cut (s)", "taken over after (s)", "messages read twice", "offsets that went back",
    "commits refused",
)  # fmt: skip


def herd_rows(found: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """A row of texts for each size and scheme."""
    return [
        (
            str(row["members"]), row["scheme"], str(row["notifications"]), str(row["rebalanced"]),
            str(row["needless"]), f"{row['requests']:,}", f"{row['settled_s']:.1f}",
            f"{row['unowned_partition_s']:.1f}",
        )
        for row in found.get("herd", [])
    ]  # fmt: skip


def _case(one: Mapping[str, Any]) -> str:
    if one["stop_s"]:
        return f"follower stopped for {one['stop_s']:g} s"
    return f"follower {one['lag_s']:g} s behind"


def split_rows(found: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """A row of texts for each way in which a follower is in the past."""
    return [
        (
            _case(one), str(one["failed_attempts"]), str(one["conflicts"]),
            f"{one['unowned_partition_s']:.1f} in {one['seconds']:g} s",
            str(one["orphaned_at_end"]),
        )
        for one in found.get("split_brain", {}).get("orphans", [])
    ]  # fmt: skip


def twice_rows(found: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """A row of texts for each scheme in the same cut."""
    return [
        (
            scheme, f"{one['cut_s']:.1f}",
            "never" if one["taken_over_after_s"] is None else f"{one['taken_over_after_s']:.1f}",
            f"{one['read_twice']:,} of {one['messages']:,}", str(one["offsets_that_went_back"]),
            str(one.get("commits_refused", "-")),
        )
        for scheme, one in found.get("split_brain", {}).get("read_by_two", {}).items()
    ]  # fmt: skip


def pictures(found: Mapping[str, Any]) -> dict[str, str]:
    """Name of a file to its SVG."""
    made: dict[str, str] = {}
    rows = found.get("herd", [])
    if rows:
        for name, key, title, unit in (
            ("schemes-requests.svg", "requests", "One member leaves: requests", "requests"),
            ("schemes-settled.svg", "settled_s", "One member leaves: time until settled", "s"),
        ):
            series = {
                scheme: line
                for scheme in SCHEMES
                if (line := [(r["members"], max(r[key], 0.01)) for r in rows
                             if r["scheme"] == scheme])
            }  # fmt: skip
            made[name] = log_log(title, "members", unit, series)
    split = found.get("split_brain", {})
    for number, one in enumerate(split.get("orphans", []), 1):
        title = f"Owned by nobody: x is on a {_case(one)}, z joins at 0 s"
        made[f"schemes-orphans-{number}.svg"] = timeline(title, one["spans"], one["seconds"])
    for scheme, one in split.get("read_by_two", {}).items():
        title = f"Read by two, {scheme}: a is cut off from its coordinator only"
        marks = [(0.0, "cut"), (one["cut_s"], "healed")]
        name = f"schemes-twice-{scheme.rpartition(' ')[2]}.svg"
        made[name] = timeline(title, one["spans"], one["seconds"], marks)
    return made


def claims(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What is usually claimed, beside what was seen in this run."""
    told: list[tuple[str, str]] = []
    rows = found.get("herd", [])
    if rows:
        largest = max(row["members"] for row in rows)
        at = {row["scheme"]: row for row in rows if row["members"] == largest}
        first = at.get(ZOOKEEPER) or at[ZOOKEEPER_LIGHT]
        classic, central, consumer = (at[one] for one in (CLASSIC, COORDINATOR_ASSIGNED, CONSUMER))
        told += [
            (
                "With ZooKeeper each change wakes everybody (herd effect).",
                f"Yes: of {largest - 1} members {first['rebalanced']} rebalanced, "
                f"{first['needless']} of them for nothing.",
            ),
            (
                "A coordinator ends the herd effect.",
                f"Not in classic groups: {classic['rebalanced']} of {largest - 1} joined again, "
                f"{classic['needless']} for nothing; with assignment by the coordinator "
                f"{central['rebalanced']}. In the consumer group a new "
                f"assignment was told to {consumer['rebalanced']}, and to "
                f"{consumer['needless']} for nothing.",
            ),
            (
                "A coordinator makes rebalances cheap.",
                f"It removes the square: {first['requests']:,} requests with ZooKeeper, "
                f"{classic['requests']:,} in the classic group, {consumer['requests']:,} in the "
                f"consumer group. Time is heartbeats then: {classic['settled_s']:.1f} s, beside "
                f"{first['settled_s']:.1f} s with ZooKeeper.",
            ),
        ]
    split = found.get("split_brain", {})
    if split:
        orphans = split["orphans"]
        worst = max(orphans, key=lambda one: (one["orphaned_at_end"], one["unowned_partition_s"]))
        conflicts = sum(one["conflicts"] for one in orphans)
        told.append(
            (
                "With ZooKeeper members see different groups (split brain); two own a partition.",
                f"The claim itself is safe: {conflicts} conflicting claims were refused. The harm "
                f"is another: {_case(worst)}, {worst['orphaned_at_end']} partitions were nobody's "
                f"at the end, after {worst['unowned_partition_s']:.0f} partition-seconds.",
            )
        )
        by_scheme = split["read_by_two"]
        told.append(
            (
                "A coordinator ends reading by two.",
                f"No: in the same cut {by_scheme['scheme 1']['read_twice']:,} messages were read "
                f"twice in scheme 1, {by_scheme['scheme 3']['read_twice']:,} in scheme 3. What it "
                f"ends is the commit of a member that has lost its place: "
                f"{by_scheme['scheme 3'].get('commits_refused', 0)} were refused. In "
                f"scheme 1 offsets went back: {by_scheme['scheme 1']['offsets_that_went_back']}.",
            )
        )
    return told


def html_page(found: Mapping[str, Any]) -> str:
    """The whole page."""
    parts = ["<h1>Rebalancing schemes, measured</h1>", f"<p>{escape(found['about'])}</p>"]
    shown = pictures(found)

    def figures(*prefixes: str) -> None:
        parts.extend(f"<figure>{svg}</figure>" for name, svg in shown.items()
                     if name.startswith(prefixes))  # fmt: skip

    if found.get("herd"):
        parts.append("<h2>Herd effect</h2>")
        parts.append(
            "<p>N members in one group, half on topic A, half on B, a partition for each. One of B "
            "leaves. Members that rebalance <i>for nothing</i> are those of A. Heartbeats are "
            "every 3 s, and count as requests where they told of the rebalance.</p>"
        )
        parts.append(_table(HERD_COLUMNS, herd_rows(found)))
        figures("schemes-requests", "schemes-settled")
    if found.get("split_brain"):
        parts.append("<h2>Split brain: owned by nobody</h2>")
        parts.append(
            "<p>Three ZooKeeper servers. x is on a follower that lives in the past, y and z are on "
            "a current one. z joins. All settings are the defaults of 0.8.2.2. Red: no member "
            "believes that it owns the partition.</p>"
        )
        parts.append(_table(SPLIT_COLUMNS, split_rows(found)))
        figures("schemes-orphans")
        parts.append("<h2>Split brain: read by two</h2>")
        parts.append(
            "<p>a is cut off from its coordinator (ZooKeeper, or pykcoord), but not from the "
            "broker. Both go on reading. Half bars: two owners at a time.</p>"
        )
        parts.append(_table(TWICE_COLUMNS, twice_rows(found)))
        figures("schemes-twice")
    parts.append("<h2>What is claimed, and what was seen</h2>")
    parts.append(_table(("claimed", "seen in this run"), claims(found)))
    body = "\n".join(parts)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Rebalancing schemes, measured</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; color: #222; background: #fff; max-width: 900px;
  margin: 2em auto; padding: 0 1em }}
table {{ border-collapse: collapse; margin: 1em 0; width: 100% }}
th, td {{ border-bottom: 1px solid #ddd; padding: .35em .6em; text-align: left;
  vertical-align: top }}
td.n {{ text-align: right; font-variant-numeric: tabular-nums }}
figure {{ margin: 1.5em 0; overflow-x: auto }}
svg {{ max-width: 100%; height: auto }}
</style></head><body>
{body}
</body></html>
"""


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(one)}</th>" for one in columns)
    lines = []
    for row in rows:
        cells = "".join(
            f'<td class="n">{escape(one)}</td>' if one[:1].isdigit() else f"<td>{escape(one)}</td>"
            for one in row
        )
        lines.append(f"<tr>{cells}</tr>")
    return f"<table><tr>{head}</tr>{''.join(lines)}</table>"
