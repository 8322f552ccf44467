"""How a process serves a directory: from opening the log to its last synced byte.

`pykcoord serve` is one such process, or has several (`pykcoord.cli.nodes`). Only puts the engine
and the server together. It decides nothing that a group could notice.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import resource
import signal
import sys
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import click

from pykcoord._native import Node, ReplayError
from pykcoord.addresses import address_text
from pykcoord.catalogue import InvalidPartitionsError
from pykcoord.cli.end_offsets import following
from pykcoord.cli.log_queue import LineQueue
from pykcoord.clock import Clock, monotonic_seconds
from pykcoord.config import Config
from pykcoord.engine import Directory, Engine
from pykcoord.errors import KcoordError, LogError
from pykcoord.log import Flush, OnCorruption
from pykcoord.server import Peers, Server
from pykcoord.server._freeing import take_small_pages
from pykcoord.server.addresses import naming_address
from pykcoord.web import WebOptions

if TYPE_CHECKING:
    from pykcoord.server.metrics import ServerMetrics

__all__ = [
    "NOWHERE",
    "STOP_SECONDS",
    "Address",
    "Alone",
    "Options",
    "Ready",
    "Role",
    "config_texts",
    "end_in_time",
    "naming_topics",
    "new_runner",
    "raise_file_limit",
    "serve",
    "when_asked_to_end",
]

logger = logging.getLogger("pykcoord.serve")

NOWHERE = ("0.0.0.0", "::")
"""Where one listens, and where nobody can connect to."""
STOP_SECONDS = 10.0
"""How long a stop waits for connections and for the disk, all together."""
# How long the ready line and the end wait for a stderr that takes nothing.
_LINES_SECONDS = 1.0
# Python's own is 5 ms.
_SWITCH_SECONDS = 0.001

Address = tuple[str, int]
"""Host and port."""


@dataclass(frozen=True)
class Options:
    """What a process is to serve, and where: the options of `pykcoord serve`."""

    directory: Path
    listen: Address
    advertise: Address | None
    metrics: Address | None
    topics: Sequence[tuple[str, int]]
    flush: Flush
    on_corruption: OnCorruption
    end_offsets: Path | None
    web: WebOptions | None = None


class Ready(NamedTuple):
    """What is served, once it is: where, of how many shards, with what was in the log."""

    address: Address
    shards: int
    groups: int
    offsets: int
    load_ms: int

    def __str__(self) -> str:
        return (
            f"shards={self.shards} groups={self.groups} offsets={self.offsets} "
            f"load_ms={self.load_ms}"
        )


class Role(Protocol):
    """What the process is among others."""

    peers: Peers | None
    """The nodes that clients hear of; None: this process is alone."""

    def store(self, options: Options) -> Directory:
        """The log to open."""

    def began(self, asked: asyncio.Future[str]) -> None:
        """The loop runs, and a result of `asked` ends it."""

    def opened(self, engine: Engine, metrics: ServerMetrics | None) -> None:
        """The log is open and its state loaded."""

    def ready(self, ready: Ready) -> None:
        """Clients are served."""


class Alone:
    """One process that serves all of a directory."""

    peers: Peers | None = None

    def store(self, options: Options) -> Directory:
        """All of it."""
        return Directory(options.directory, options.flush, options.on_corruption)

    def began(self, asked: asyncio.Future[str]) -> None:
        """Nobody else asks."""

    def opened(self, engine: Engine, metrics: ServerMetrics | None) -> None:
        """Nothing to do."""

    def ready(self, ready: Ready) -> None:
        """One line on stdout."""
        click.echo(f"pykcoord ready listen={address_text(*ready.address)} {ready}")


async def serve(config: Config, options: Options, lines: LineQueue, role: Role) -> None:
    """Serve until a signal, or who else may ask, ends it. Raises what is wrong with the directory
    or the addresses, and what ended the server."""
    asked = when_asked_to_end()
    role.began(asked)
    metrics = _metrics(options, lines)
    started = monotonic_seconds()
    with _open(config, options, metrics, role) as engine:
        load_ms = round(1000 * (monotonic_seconds() - started))
        role.opened(engine, metrics)
        if metrics is not None:
            watch_lag(metrics, engine)
        server = Server(
            config,
            engine.runtime,
            engine.catalogue,
            cluster_id=engine.catalogue.cluster_id,
            listen=options.listen,
            advertise=options.advertise,
            metrics=metrics,
            broker_configs=config_texts(config),
            peers=role.peers,
            event_files=engine.event_files,
        )
        await asyncio.sleep(0)  # a signal that came meanwhile is heard now
        if not asked.done():
            with following(options.end_offsets, engine.catalogue):
                async with (
                    _listening(server, metrics, options, lines),
                    _console(config, server, engine, metrics, options, role),
                ):
                    lines.flush_within(_LINES_SECONDS)  # they come before the ready line
                    role.ready(_ready(server, engine.node, load_ms))
                    await _until_ended(server, options, asked, lines)


def watch_lag(metrics: ServerMetrics, engine: Engine) -> None:
    """Have the metrics tell the lag of an engine's groups, if that is measured."""
    if (lag := engine.lag) is not None:
        metrics.watch_lag(lambda: lag.lags(Clock().now_ms()), lag.limits.series)


@contextlib.asynccontextmanager
async def _listening(
    server: Server, metrics: ServerMetrics | None, options: Options, lines: LineQueue
) -> AsyncIterator[None]:
    with contextlib.ExitStack() as stack:
        if metrics is not None and options.metrics is not None:
            from pykcoord.server.metrics_listener import serve_metrics

            with naming_address("--metrics", options.metrics):
                url = stack.enter_context(serve_metrics(metrics.registry, options.metrics))
            logger.info("metrics on %s", url, extra={"event": "metrics", "url": url})
        with naming_address("--listen", options.listen):
            await server.start()
        # Objects of the start stay. To look for garbage among them takes 15 ms each time.
        gc.freeze()
        # What was loaded is in huge pages. To take more of them would stop the loop each time.
        take_small_pages()
        # The loop waits so long for the interpreter where another thread has it: the log's writer.
        sys.setswitchinterval(_SWITCH_SECONDS)
        yield


@contextlib.asynccontextmanager
async def _console(
    config: Config,
    server: Server,
    engine: Engine,
    metrics: ServerMetrics | None,
    options: Options,
    role: Role,
) -> AsyncIterator[None]:
    if options.web is None:
        yield
        return
    from pykcoord.cli.web import ServerSource, console

    assert metrics is not None
    source = ServerSource(
        options.directory, engine, metrics, config.node_id, server.address, role.peers
    )
    with contextlib.ExitStack() as stack:
        with naming_address("--web", options.web.listen):
            url = stack.enter_context(console(source, options.web))
        logger.info("console on %s", url, extra={"event": "web", "url": url})
        yield


async def _until_ended(
    server: Server, options: Options, asked: asyncio.Future[str], lines: LineQueue
) -> None:
    ended = asyncio.ensure_future(server.wait_ended())
    await asyncio.wait((asked, ended), return_when=asyncio.FIRST_COMPLETED)
    end_in_time(options.directory, lines)
    try:
        if not ended.done():
            logger.info("%s: ending", asked.result(), extra={"event": "stop"})
        await server.stop()
        await ended
    except RuntimeError as error:
        raise KcoordError(f"{error}; the log is as it was: start it again") from error


def _metrics(options: Options, lines: LineQueue) -> ServerMetrics | None:
    """None without `--metrics` or `--web`: they cost a start and each turn of the loop some
    time."""
    if options.metrics is None and options.web is None:
        return None
    from pykcoord.server.metrics import ServerMetrics

    metrics = ServerMetrics()
    metrics.watch_lines(lines)
    return metrics


def _open(config: Config, options: Options, metrics: ServerMetrics | None, role: Role) -> Engine:
    """The engine over the directory. Its errors become those of `serve`."""
    groups = logging.getLogger("pykcoord.groups")
    store = role.store(options)
    try:
        with naming_topics(options.directory):
            return Engine.open(
                store, config, dict(options.topics), metrics,
                tells_events=groups.isEnabledFor(logging.DEBUG),
                tells_starts=groups.isEnabledFor(logging.INFO),
            )  # fmt: skip
    except ReplayError as error:
        raise LogError(
            f"{options.directory}: offset {error.offset}: {error.reason}; "
            f"`pykcoord log state {options.directory}` names the partition"
        ) from None


def _ready(server: Server, node: Node, load_ms: int) -> Ready:
    stats = node.stats()
    groups = sum(count for name, count in stats.items() if name.startswith("groups_"))
    return Ready(server.address, node.shards, groups, stats["offsets"], load_ms)


def end_in_time(place: Path | str, lines: LineQueue) -> None:
    """End even where a disk hangs, or an object store: Python waits at its end for the threads that
    wait for it."""

    def give_up() -> None:
        logger.critical(
            "%s: the disk did not take the last writes within %g s, ended without waiting for it; "
            "nothing that was acknowledged is lost, and the next start checks the log",
            place,
            STOP_SECONDS,
            extra={"event": "stop", "directory": str(place)},
        )
        lines.flush_within(_LINES_SECONDS)
        os._exit(1)

    timer = threading.Timer(STOP_SECONDS, give_up)
    timer.daemon = True
    timer.start()


def when_asked_to_end(*others: signal.Signals) -> asyncio.Future[str]:
    """Done with the name of the signal, at the first SIGTERM, SIGINT or one of `others`."""
    loop = asyncio.get_running_loop()
    asked: asyncio.Future[str] = loop.create_future()

    def ask(name: str) -> None:
        if not asked.done():
            asked.set_result(name)

    for number in (signal.SIGTERM, signal.SIGINT, *others):
        loop.add_signal_handler(number, ask, number.name)
    return asked


@contextlib.contextmanager
def naming_topics(directory: Path) -> Iterator[None]:
    """A topic that cannot have so many partitions names the option that asked for it."""
    try:
        yield
    except InvalidPartitionsError as error:
        raise KcoordError(
            f"--topic: {directory}: {error.reason}; leave it out, or ask for no fewer"
        ) from None


def new_runner() -> asyncio.Runner:
    """uvloop where it is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.Runner()
    return asyncio.Runner(loop_factory=uvloop.new_event_loop)


def raise_file_limit() -> None:
    """A connection is a file: take as many as the system lets this user have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def config_texts(config: Config) -> dict[str, str]:
    """All settings, as DescribeConfigs shows them."""
    return {name: _config_text(value) for name, value in config.values().items()}


def _config_text(value: int | float | str | bool) -> str:
    """As Java writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
