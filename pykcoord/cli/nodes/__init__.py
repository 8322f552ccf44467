"""`pykcoord serve --nodes N`: N processes that serve one directory, and a supervisor.

Each node has a port of its own and leads the shards s with s mod N = its number; clients connect to
the one that FindCoordinator names. Nothing on disk says how many there were.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
from collections.abc import Iterator
from functools import partial

import click

from pykcoord.addresses import address_text
from pykcoord.cli.log_queue import LineQueue
from pykcoord.cli.logs import LogFormat, LogLevel
from pykcoord.cli.nodes.supervisor import Slot, Supervisor
from pykcoord.cli.serving import Address, Options
from pykcoord.config import Config
from pykcoord.errors import KcoordError
from pykcoord.log import Holding
from pykcoord.server import Broker
from pykcoord.server.addresses import AddressTakenError, KeptAddresses, naming_address

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
        kept = partial(_kept, nodes=nodes, first_id=config.node_id)
        listen = stack.enter_context(kept("--listen", options.listen))
        metrics: list[Address | None] = [None] * nodes
        if options.metrics is not None:
            metrics[:] = stack.enter_context(kept("--metrics", options.metrics))
        web: list[Address | None] = [None] * nodes
        if options.web is not None:
            web[:] = stack.enter_context(kept("--web", options.web.listen))
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
def _kept(option: str, first: Address, nodes: int, first_id: int) -> Iterator[list[Address]]:
    """An address for each node. An error names the node that cannot have its own."""
    with naming_address(option, first):
        try:
            kept = KeptAddresses(*first, nodes)
        except AddressTakenError as error:
            raise KcoordError(_cannot_have(option, first, nodes, first_id, error)) from error
    with contextlib.closing(kept):
        yield kept.addresses


def _cannot_have(
    option: str, first: Address, nodes: int, first_id: int, error: AddressTakenError
) -> str:
    last = first[1] + nodes - 1
    node = first_id + (error.address[1] - first[1] if first[1] else 0)
    text = f"{option} {address_text(*first)} with --nodes {nodes}: node {node} cannot have "
    if error.errno != errno.EADDRINUSE or not first[1]:
        return f"{text}{address_text(*error.address)}: {error.strerror}"
    return (
        f"{text}port {error.address[1]}: it is in use. End what listens there, or give another "
        f"first port (the nodes take {first[1]} to {last}), or 0 for free ones"
    )


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
