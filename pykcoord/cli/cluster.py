"""`pykcoord cluster state`: a cluster looked at from outside. It asks no node and changes nothing.

`pykcoord serve --cluster` is in `member.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

import click

from pykcoord.cli.plain import counted
from pykcoord.cluster.looking import ClusterState, read_cluster


@click.group(short_help="Look at a cluster of nodes over a shared folder or object store.")
def command() -> None:
    """Look at a cluster: the nodes that were started with `pykcoord serve --cluster LOCATION`.

    \b
    Example:
      pykcoord cluster state /mnt/groups
    """


@command.command(short_help="Print the nodes of a cluster, and what each leads.")
@click.argument("location")
@click.option("--json", "as_json", is_flag=True, help="JSON instead of text.")
def state(location: str, as_json: bool) -> int:
    """Print the nodes of the cluster at LOCATION, and the shards that each is to lead.

    By the cluster log alone: a node that has just died is there until the others have noticed.

    \b
    Example:
      pykcoord cluster state /mnt/groups
      pykcoord cluster state /mnt/groups --json
    """
    found = read_cluster(location)
    if as_json:
        nodes = [{**one._asdict(), "incarnation": f"{one.incarnation:016x}"} for one in found.nodes]
        click.echo(json.dumps({**found._asdict(), "nodes": nodes}))
    else:
        for line in _lines(found):
            click.echo(line)
    return 0


def _lines(state: ClusterState) -> Iterable[str]:
    shards, nodes = counted(state.shards, "shard"), counted(len(state.nodes), "node")
    yield f"{shards}, {nodes}, term {state.term}"
    for node in state.nodes:
        role = ", controller" if node.is_controller else ""
        led = f"{counted(len(node.shards), 'shard')}: {_numbers(node.shards)}"
        at = f"{node.host}:{node.port}"
        yield f"node {node.node_id} at {at}{role}: {led if node.shards else 'no shard'}"
    if state.unled:
        yield f"without a leader: {_numbers(state.unled)}"


def _numbers(shards: Iterable[int]) -> str:
    return ", ".join(map(str, shards))
