"""`pykcoord serve --nodes N`: N processes that serve one directory, and a supervisor.

Each node has a port of its own and leads the shards s with s mod N = its number; clients connect to
the one that FindCoordinator names. Nothing on disk says how many there were.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

import click

from pykcoord.cli.log_queue import LineQueue
from pykcoord.cli.logs import LogFormat, LogLevel
from pykcoord.cli.nodes.supervisor import Slot, Supervisor
from pykcoord.cli.serving import Address, Options, naming_address
from pykcoord.config import Config
from pykcoord.log import Holding
from pykcoord.server import Broker
from pykcoord.server.addresses import AddressTakenError, KeptAddresses

__all__ = ["supervise"]

_LARGEST_PORT = 65_535


def supervise(
    config: Config,
    options: Options,
    nodes: int,
    log_format: LogFormat,
    log_level: LogLevel,
    lines: LineQueue,
) -> int:
    """Serve with so many nodes until a signal ends it; returns the exit code. Raises UsageError for
    options that cannot be, and what is wrong with directory, addresses or nodes."""
    _check(config, options, nodes)
    directory = options.directory.absolute()
    shards = config.offsets_topic_num_partitions
    with contextlib.ExitStack() as stack:
        listen = stack.enter_context(_kept("--listen", options.listen, nodes))
        metrics: list[Address | None] = [None] * nodes
        if options.metrics is not None:
            metrics[:] = stack.enter_context(_kept("--metrics", options.metrics, nodes))
        web: list[Address | None] = [None] * nodes
        if options.web is not None:
            web[:] = stack.enter_context(_kept("--web", options.web.listen, nodes))
        holding = Holding.take(directory, shards, kept_by_children=True)
        stack.callback(holding.close)
        told = _advertised(options.advertise, listen)
        slots = [
            Slot(
                listen[number],
                metrics[number],
                web[number],
                Broker(config.node_id + number, *told[number]),
            )
            for number in range(nodes)
        ]
        supervisor = Supervisor(config, options, slots, holding, log_format, log_level, lines)
        asyncio.run(supervisor.run())
    return 0


@contextlib.contextmanager
def _kept(option: str, first: Address, nodes: int) -> Iterator[list[Address]]:
    try:
        kept = KeptAddresses(*first, nodes)
    except OSError as error:
        at = error.address if isinstance(error, AddressTakenError) else first
        with naming_address(option, at):
            raise
    with contextlib.closing(kept):
        yield kept.addresses


def _advertised(first: Address | None, listen: list[Address]) -> list[Address]:
    if first is None:
        return listen
    return [(first[0], first[1] + number) for number in range(len(listen))]


def _check(config: Config, options: Options, nodes: int) -> None:
    shards = config.offsets_topic_num_partitions
    if nodes > shards:
        raise click.UsageError(
            f"--nodes {nodes}: at most {shards}, a shard for each (offsets.topic.num.partitions)"
        )
    ports: dict[int, str] = {}
    for option, first in (
        ("--listen", options.listen),
        ("--metrics", options.metrics),
        ("--web", options.web.listen if options.web is not None else None),
        ("--advertise", options.advertise),
    ):
        if first is None or first[1] == 0:
            continue
        last = first[1] + nodes - 1
        if last > _LARGEST_PORT:
            raise click.UsageError(
                f"{option} {first[0]}:{first[1]}: {nodes} nodes need the ports up to {last}; "
                f"there are none beyond {_LARGEST_PORT}"
            )
        if option == "--advertise":
            continue
        for port in range(first[1], last + 1):
            if port in ports:
                raise click.UsageError(
                    f"{option} {first[0]}:{first[1]}: port {port} is one of {ports[port]}; "
                    f"{nodes} nodes take {nodes} ports each"
                )
            ports[port] = option
