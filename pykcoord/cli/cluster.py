"""`pykcoord cluster`: a cluster looked at from outside, and what operators want of it.

It asks no node: all is read from the cluster's log, and put there. `pykcoord serve --cluster` is in
`member.py`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable

import click

from pykcoord._native import partition_of
from pykcoord.cli.plain import counted
from pykcoord.clock import monotonic_seconds
from pykcoord.cluster import wanting
from pykcoord.cluster.looking import ClusterFollower, ClusterState, read_cluster
from pykcoord.errors import KcoordError

_LOOK_SECONDS = 0.1
_ANY = "any"

_wait = click.option(
    "--wait",
    "seconds",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    help="Seconds to wait for it; 0: not at all.",
)
_dry = click.option("--dry-run", is_flag=True, help="Only say what would move.")


@click.group(short_help="Look at a cluster of nodes over a shared folder, and move its shards.")
def command() -> None:
    """Look at a cluster, and move its shards: the nodes that were started with `pykcoord serve
    --cluster LOCATION`.

    \b
    Example:
      pykcoord cluster state /mnt/groups
      pykcoord cluster move /mnt/groups 3,7 2
      pykcoord cluster drain /mnt/groups 2
    """


@command.command(short_help="Print the nodes of a cluster, and what each leads.")
@click.argument("location")
@click.option("--json", "as_json", is_flag=True, help="JSON instead of text.")
@click.option("--group", metavar="GROUP", help="Only the shard of this group, and who leads it.")
def state(location: str, as_json: bool, group: str | None) -> int:
    """Print the nodes of the cluster at LOCATION, and the shards that each is to lead.

    By the cluster log alone: a node that has just died is there until the others have noticed.

    \b
    Example:
      pykcoord cluster state /mnt/groups
      pykcoord cluster state /mnt/groups --json
      pykcoord cluster state /mnt/groups --group billing
    """
    found = read_cluster(location)
    if group is not None:
        shard = partition_of(group, found.shards)
        leader = found.leader(shard)
        if as_json:
            click.echo(json.dumps({"group": group, "shard": shard, "node_id": leader}))
        else:
            click.echo(f"group {group}: shard {shard}, led by {_node_text(leader)}")
    elif as_json:
        nodes = [{**one._asdict(), "incarnation": f"{one.incarnation:016x}"} for one in found.nodes]
        click.echo(json.dumps({**found._asdict(), "nodes": nodes}))
    else:
        for line in _lines(found):
            click.echo(line)
    return 0


@command.command(short_help="Carry a log of Spark's earlier hosts over.")
@click.argument("source")
@click.argument("location")
def convert(source: str, location: str) -> int:
    """Make the cluster at LOCATION, a new place, of the log at SOURCE: of hosts on Spark before
    they had journals, with objects for each shard. Groups, offsets and topics are carried over.

    Stop the hosts first. SOURCE stays as it is, but for an entry of each shard that keeps its old
    hosts from writing on.

    \b
    Example:
      pykcoord cluster convert groups-log groups
    """
    from pykcoord.cluster.converting import convert as carry_over

    made = carry_over(source, location)
    shards = counted(made.shards, "shard")
    click.echo(f"{location}: {shards}, {made.with_records} with records; nodes may be started")
    return 0


class _Shards(click.ParamType[list[int]]):
    name = "shards"

    def convert(self, value: object, param: object, ctx: object) -> list[int]:
        try:
            return sorted({int(one) for one in str(value).split(",")})
        except ValueError:
            self.fail(f"{value!r} is not a shard's number, or several with commas between")


class _Node(click.ParamType[int | None]):
    name = "node"

    def convert(self, value: object, param: object, ctx: object) -> int | None:
        if value == _ANY:
            return None
        try:
            return int(str(value))
        except ValueError:
            self.fail(f"{value!r} is neither a node.id nor {_ANY!r}")


@command.command(short_help="Have a node lead a shard.")
@click.argument("location")
@click.argument("shards", metavar="SHARD", type=_Shards())
@click.argument("node_id", metavar="NODE", type=_Node())
@_dry
@_wait
def move(
    location: str, shards: list[int], node_id: int | None, dry_run: bool, seconds: float
) -> int:
    """Have the node with the id NODE lead SHARD (or several: 3,7), now and whenever it is there.

    The node that leads it lets it go, and the other goes on where that one ended: the shard's
    groups wait some tenths of a second, and no member notices more. While NODE is gone, others
    lead the shard. NODE `any` leaves it to the controller again. Which shard a group is in:
    `pykcoord cluster state LOCATION --group GROUP`.

    \b
    Example:
      pykcoord cluster move /mnt/groups 3 2
      pykcoord cluster move /mnt/groups 3,7 any
    """
    cluster = ClusterFollower(location)
    before = wanting.move(cluster, shards, node_id, dry_run=dry_run)
    if node_id is None:
        click.echo(f"{_shards_text(shards)}: wherever the controller likes")
        return 0
    for shard in shards:
        leader = before.leader(shard)
        way = f"{_node_text(leader)} -> node {node_id}"
        click.echo(f"shard {shard}: {f'node {node_id} leads it' if leader == node_id else way}")
    if dry_run:
        return 0
    to_move = wanting.still_to_move(before, shards, node_id)
    return _watch(
        cluster,
        lambda now: wanting.still_to_move(now, to_move, node_id),
        to_move,
        seconds,
        f"{'it stays' if len(shards) == 1 else 'they stay'} there while node {node_id} is there",
    )


@command.command(short_help="Have a node lead nothing.")
@click.argument("location")
@click.argument("node_id", metavar="NODE", type=int)
@click.option("--undo", is_flag=True, help="It may lead again, and gets its share.")
@_dry
@_wait
def drain(location: str, node_id: int, undo: bool, dry_run: bool, seconds: float) -> int:
    """Have the node with the id NODE lead nothing from now on, also after a restart.

    Its shards go to the other nodes as with `move`. It serves on what any node serves, such as
    topics and where groups are; SIGTERM to it then moves nothing more. `--undo` ends it.

    \b
    Example:
      pykcoord cluster drain /mnt/groups 2
      pykcoord cluster drain /mnt/groups 2 --undo
    """
    cluster = ClusterFollower(location)
    before = wanting.drain(cluster, node_id, undo=undo, dry_run=dry_run)
    node = before.node(node_id)
    if undo:
        click.echo(f"node {node_id} may lead again; the controller gives it its share")
        return 0
    led = sorted(node.shards) if node is not None else []
    click.echo(f"node {node_id}: {counted(len(led), 'shard')} to move")
    if dry_run:
        return 0
    return _watch(
        cluster,
        lambda now: [one for one in led if now.leader(one) in (node_id, None)],
        led,
        seconds,
        f"node {node_id} leads nothing until --undo",
    )


def _watch(
    cluster: ClusterFollower,
    left_in: Callable[[ClusterState], list[int]],
    shards: list[int],
    seconds: float,
    then: str,
) -> int:
    """Say how many have moved until all have, or the time is over."""
    if seconds == 0:
        return 0
    began, said = monotonic_seconds(), 0
    while left := left_in(now := cluster.read()):
        if (moved := len(shards) - len(left)) > said:
            said = moved
            click.echo(f"{moved} of {counted(len(shards), 'shard')} moved", err=True)
        if monotonic_seconds() > began + seconds:
            nodes = ", ".join(sorted({_node_text(now.leader(one)) for one in left}))
            raise KcoordError(
                f"{_shards_text(left)} not moved within {seconds:g} s, led by {nodes}; it stays "
                f"wanted. Does a controller run? See `pykcoord cluster state {cluster.location}`"
            )
        threading.Event().wait(_LOOK_SECONDS)
    click.echo(
        f"moved {counted(len(shards), 'shard')} in {monotonic_seconds() - began:.1f} s; {then}"
    )
    return 0


def _lines(state: ClusterState) -> Iterable[str]:
    shards, nodes = counted(state.shards, "shard"), counted(len(state.nodes), "node")
    yield f"{shards}, {nodes}, term {state.term}"
    for node in state.nodes:
        role = ", controller" if node.is_controller else ""
        role += ", drained" if node.is_drained else ""
        led = f"{counted(len(node.shards), 'shard')}: {_numbers(node.shards)}"
        at = f"{node.host}:{node.port}"
        yield f"node {node.node_id} at {at}{role}: {led if node.shards else 'no shard'}"
    for node_id in sorted({*state.pins.values()}):
        pinned = [shard for shard, node in state.pins.items() if node == node_id]
        yield f"kept at node {node_id}: {_numbers(pinned)}"
    for node_id in state.drained:
        if state.node(node_id) is None:
            yield f"node {node_id} is not there, and drained"
    if state.unled:
        yield f"without a leader: {_numbers(state.unled)}"


def _node_text(node_id: int | None) -> str:
    return "no node" if node_id is None else f"node {node_id}"


def _shards_text(shards: list[int]) -> str:
    return f"shard{'s' if len(shards) != 1 else ''} {_numbers(shards)}"


def _numbers(shards: Iterable[int]) -> str:
    return ", ".join(map(str, shards))
