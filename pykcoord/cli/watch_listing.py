"""What `pykcoord watch` shows: groups with their lag, and the members and offsets of some."""

from __future__ import annotations

import contextlib
import heapq
from types import TracebackType
from typing import Self

from pykcoord.cli.listing import Listing, framed
from pykcoord.cli.plain import counted, time_text
from pykcoord.ranges import ranges
from pykcoord.watch import GroupRow, OffsetRow, Tables, Watcher

__all__ = ["Screen", "listings"]

_GROUP_COLUMNS = (
    "group", "type", "state", "epoch", "members", "offsets", "lag", "end age", "note"
)  # fmt: skip
_MEMBER_COLUMNS = ("group", "member", "client id", "host", "epoch", "owns")
_OFFSET_COLUMNS = (
    "group", "topic", "partition", "offset", "end", "lag", "end age", "owner", "committed", "note"
)  # fmt: skip
# Lines of a terminal that are not rows of the groups.
_FRAME_LINES = 8


def listings(watcher: Watcher, tables: Tables, *, with_members: bool) -> list[Listing]:
    """Tables for people; with the members and offsets of the groups if they were asked for."""
    found = [Listing(_title(watcher), _GROUP_COLUMNS, [_group_cells(one) for one in tables.groups])]
    if with_members:
        members = [cells for row in tables.groups for cells in _member_cells(row)]
        offsets = [_offset_cells(one) for row in tables.groups for one in row.offsets]
        found.append(Listing("Members", _MEMBER_COLUMNS, members))
        found.append(Listing("Offsets", _OFFSET_COLUMNS, offsets))
    return found


class Screen:
    """A terminal whose picture is drawn again and again, within a `with`."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._console = Console(highlight=False)
        self._live = Live(console=self._console, auto_refresh=False, vertical_overflow="crop")

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with contextlib.suppress(OSError):
            self._live.stop()

    def show(self, watcher: Watcher, tables: Tables, with_members: bool) -> None:
        """Draws the groups with most lag, as many as fit, or all that was asked for."""
        from rich.console import Group
        from rich.text import Text

        shown = listings(watcher, tables, with_members=with_members)
        room = max(1, self._console.height - _FRAME_LINES)
        rest = 0
        if not with_members and len(tables.groups) > room:
            rest = len(tables.groups) - room
            most = heapq.nlargest(room, tables.groups, key=lambda row: row.lag or 0)
            shown[0] = shown[0]._replace(rows=[_group_cells(row) for row in most])
        more = (
            f"and {counted(rest, 'group')} with less lag; --group shows any of them; "
            if rest
            else ""
        )
        trouble = _trouble(watcher)
        hint = Text(f"{more}{trouble}Ctrl-C ends")
        self._live.update(Group(*map(framed, shown), hint), refresh=True)


def _title(watcher: Watcher) -> str:
    how = (
        "" if watcher.mode == "log" else ", polled: coordinators are asked, the log may not be read"
    )
    return f"Groups of cluster {watcher.cluster.view.cluster_id}{how}"


def _trouble(watcher: Watcher) -> str:
    if watcher.follower is None:
        return ""
    followed = watcher.follower.partitions.values()
    troubled = [one for one in followed if one.trouble is not None or not one.as_of]
    if not troubled:
        return ""
    count = counted(len(troubled), "partition")
    reason = troubled[0].trouble or "no leader"
    return f"{count} of __consumer_offsets not read now: {reason}; "


def _group_cells(row: GroupRow) -> list[str]:
    group = row.group
    note = f"lag of {row.unknown} not known" if row.unknown else ""
    return [
        group.group_id, group.type, group.state,
        "" if group.epoch is None else str(group.epoch),
        str(len(group.members)), str(len(row.offsets)),
        "" if row.lag is None else str(row.lag), _age(row.end_age_ms), note,
    ]  # fmt: skip


def _member_cells(row: GroupRow) -> list[list[str]]:
    return [
        [
            row.group.group_id,
            member.instance_id or member.member_id,
            member.client_id,
            member.client_host,
            "" if member.epoch is None else str(member.epoch),
            " ".join(
                f"{topic}:{ranges(list(of))}" for topic, of in sorted(member.owned.items()) if of
            ),
        ]
        for member in row.group.members
    ]


def _offset_cells(row: OffsetRow) -> list[str]:
    of = row.committed
    note = "; ".join(filter(None, (row.why, "transaction open" if of.is_pending else "")))
    return [
        of.group_id, of.topic, str(of.partition), str(of.offset),
        "" if row.end is None else str(row.end), "" if row.lag is None else str(row.lag),
        _age(row.end_age_ms), row.owner,
        time_text(of.commit_timestamp) if of.commit_timestamp >= 0 else "", note,
    ]  # fmt: skip


def _age(age_ms: int | None) -> str:
    return "" if age_ms is None else f"{age_ms / 1000:.1f}s"
