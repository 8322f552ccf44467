"""`pykcoord kafka`: which partitions of `__consumer_offsets` a node of pykcoord leads."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from pykcoord import properties
from pykcoord.cli.plain import counted
from pykcoord.errors import ConfigError
from pykcoord.kafka import ClientProperties, Cluster
from pykcoord.log.folders import TOPIC
from pykcoord.node.moving import Move, Mover, Progress

__all__ = ["command"]

# Groups of a partition that are named in a line.
_SHOWN = 3


class _Partitions(click.ParamType[frozenset[int]]):
    """Numbers and ranges: 3,5,10-19."""

    name = "N,N-N"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> frozenset[int]:
        found: set[int] = set()
        for part in str(value).split(","):
            first, dash, last = part.strip().partition("-")
            if not first.isdigit() or (dash and not last.isdigit()):
                self.fail(f"{part.strip()!r} is neither a number nor a range such as 3-7")
            found.update(range(int(first), int(last or first) + 1))
        return frozenset(found)


def _options(function: Callable[..., int]) -> Callable[..., int]:
    for option in (
        click.option(
            "--partitions",
            "--partition",
            "numbers",
            type=_Partitions(),
            help="Which partitions: numbers and ranges, 3,5,10-19. All if not given.",
        ),
        click.option(
            "--node", "node_id", type=click.IntRange(min=0), required=True,
            help="The node.id of the node.",
        ),
        click.option(
            "--command-config",
            "--config",
            "config_file",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="A file of Kafka's client properties, as its own tools take.",
        ),
        click.option(
            "--bootstrap-servers", "--bootstrap-server", "servers", metavar="HOST:PORT,...",
            required=True, help="Brokers of the cluster.",
        ),
    ):  # fmt: skip
        function = option(function)
    return function


@click.group(short_help="Move groups of a Kafka cluster to a node, and back.")
def command() -> None:
    """Move partitions of __consumer_offsets, and with them their groups, to a node of pykcoord that
    is part of the cluster (pykcoord serve DIR --kafka HOST:PORT --as node), and back to brokers.

    Clients notice a new coordinator: no group rebalances, and commits wait for a moment. Brokers
    that had a partition go on following it. If the node dies, one of them coordinates after the
    cluster's broker session (9 s), with every acknowledged commit.

    \b
    Example:
      pykcoord kafka plan   --bootstrap-servers localhost:9092 --node 100
      pykcoord kafka take   --bootstrap-servers localhost:9092 --node 100 --partitions 7
      pykcoord kafka return --bootstrap-servers localhost:9092 --node 100
    """


@command.command(short_help="Say what a take would do, and change nothing.")
@_options
@click.option("--json", "as_json", is_flag=True, help="JSON instead of a table.")
def plan(
    servers: str,
    config_file: Path | None,
    node_id: int,
    numbers: frozenset[int] | None,
    as_json: bool,
) -> int:
    """Show of each partition its groups by kind, its replicas now and after a take; and which
    partitions are refused, and why. Exit 1 where one is refused.

    \b
    Example:
      pykcoord kafka plan --bootstrap-servers localhost:9092 --node 100 --partitions 0-9
    """

    async def work(mover: Mover) -> int:
        moves = await mover.plan(numbers, takes=True)
        if as_json:
            click.echo(json.dumps([_document(move) for move in moves], indent=1))
        else:
            _print(moves)
        return int(any(move.refusal for move in moves))

    return asyncio.run(_with_mover(servers, config_file, node_id, work))


@command.command(short_help="Have the node lead partitions.")
@_options
@click.option(
    "--skip-refused", is_flag=True, help="Take the others where a partition cannot be taken."
)
def take(
    servers: str,
    config_file: Path | None,
    node_id: int,
    numbers: frozenset[int] | None,
    skip_refused: bool,
) -> int:
    """Have the node follow the partitions, enter their ISR, and lead them. Nothing is changed where
    a partition is refused (groups of kinds that are not served), unless --skip-refused.

    For some seconds the node is open for replicas (cordoned.log.dirs of its id is set and removed
    again): new topics should not be created meanwhile.

    \b
    Example:
      pykcoord kafka take --bootstrap-servers localhost:9092 --node 100 --partitions 7
    """

    async def work(mover: Mover) -> int:
        moves = await mover.plan(numbers, takes=True)
        refused = [move for move in moves if move.refusal]
        for move in refused:
            click.echo(f"{TOPIC}-{move.partition} is refused: {move.refusal}", err=True)
        if refused and not skip_refused:
            click.echo("nothing was changed; --skip-refused takes the others", err=True)
            return 1
        await mover.take(moves, _tell)
        click.echo(f"node {node_id} leads {_named(moves)}")
        return 0

    return asyncio.run(_with_mover(servers, config_file, node_id, work))


@command.command("return", short_help="Give partitions back to brokers.")
@_options
def give_back(
    servers: str, config_file: Path | None, node_id: int, numbers: frozenset[int] | None
) -> int:
    """Give the partitions back to the brokers that follow them, all that the node has if none are
    named; the node deletes its replicas. It can be ended then, and unregistered.

    \b
    Example:
      pykcoord kafka return --bootstrap-servers localhost:9092 --node 100
      kafka-cluster.sh unregister --bootstrap-server localhost:9092 --id 100
    """

    async def work(mover: Mover) -> int:
        moves = await mover.plan(numbers, takes=False)
        if not moves:
            click.echo(f"node {node_id} has no partition")
            return 0
        await mover.give_back(moves, _tell)
        click.echo(f"brokers lead {_named(moves)}")
        return 0

    return asyncio.run(_with_mover(servers, config_file, node_id, work, checks_node=False))


async def _with_mover(
    servers: str,
    config_file: Path | None,
    node_id: int,
    work: Callable[[Mover], Any],
    checks_node: bool = True,
) -> int:
    found: dict[str, str] = {}
    if config_file is not None:
        try:
            for _, name, value in properties.parse(config_file.read_text("latin-1")):
                found[name] = value
        except ValueError as error:
            raise ConfigError(str(config_file), str(error)) from None
    found["bootstrap.servers"] = servers
    try:
        cluster = await Cluster.open(ClientProperties.of(found), topics=(TOPIC,))
    except ValueError as error:
        raise click.UsageError(f"--bootstrap-servers: {error}") from None
    try:
        mover = Mover(cluster, node_id)
        if checks_node:
            await mover.check_node()
        done: int = await work(mover)
        return done
    finally:
        await cluster.close()


def _tell(progress: Progress) -> None:
    click.echo(
        f"{progress.seconds:6.1f} s  {progress.moved} of {counted(progress.total, 'partition')}",
        err=True,
    )


def _named(moves: Sequence[Move]) -> str:
    moved = [move.partition for move in moves if move.refusal is None]
    return f"{counted(len(moved), 'partition')}: {', '.join(map(str, moved))}"


def _print(moves: Sequence[Move]) -> None:
    click.echo(f"{'partition':>9}  {'leader':>6}  {'replicas':16}  {'then':16}  groups")
    for move in moves:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(move.kinds.items()))
        if move.groups:
            more = len(move.groups) - _SHOWN
            shown = [*sorted(move.groups)[:_SHOWN], *([f"{more} more"] if more > 0 else [])]
            kinds += f": {', '.join(shown)}"
        click.echo(
            f"{move.partition:>9}  {move.leader:>6}  {_ids(move.replicas):16}  "
            f"{_ids(move.then):16}  {kinds or 'none'}"
            + (f"  REFUSED: {move.refusal}" if move.refusal else "")
        )


def _ids(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers))


def _document(move: Move) -> dict[str, Any]:
    return {
        "partition": move.partition,
        "leader": move.leader,
        "replicas": list(move.replicas),
        "then": list(move.then),
        "groups": move.kinds,
        "group_ids": sorted(move.groups),
        "refusal": move.refusal,
    }
