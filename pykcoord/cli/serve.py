"""`pykcoord serve`: the server, from its configuration to its last synced byte.

Only puts the engine and the server together. It decides nothing that a group could notice.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import logging
import os
import resource
import signal
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pykcoord import config as configuration
from pykcoord._native import Node, ReplayError
from pykcoord.catalogue import InvalidPartitionsError
from pykcoord.cli import logs
from pykcoord.cli.end_offsets import following
from pykcoord.cli.log_queue import LineQueue
from pykcoord.cli.types import TopicType
from pykcoord.clock import monotonic_seconds
from pykcoord.config import Config
from pykcoord.engine import Directory, Engine
from pykcoord.errors import ConfigError, KcoordError, LogError
from pykcoord.log import Flush, OnCorruption
from pykcoord.server import Server

if TYPE_CHECKING:
    from pykcoord.server.metrics import ServerMetrics

logger = logging.getLogger("pykcoord.serve")

_NOWHERE = ("0.0.0.0", "::")
# How long a stop waits for connections and for the disk, all together.
_STOP_SECONDS = 10.0
# How long the ready line and the end wait for a stderr that takes nothing.
_LINES_SECONDS = 1.0


class _Address(click.ParamType[tuple[str, int]]):
    """HOST:PORT, or [HOST]:PORT for IPv6."""

    name = "HOST:PORT"

    def __init__(self, least_port: int = 0) -> None:
        self._least_port = least_port

    def convert(
        self, value: object, param: click.Parameter | None, context: click.Context | None
    ) -> tuple[str, int]:
        if isinstance(value, tuple):
            return value
        host, _, port = str(value).rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not host or not port.isascii() or not port.isdigit():
            self.fail(f"{value!r} is not HOST:PORT", param, context)
        if not self._least_port <= int(port) <= 65_535:
            self.fail(f"{value!r}: no port from {self._least_port} to 65535", param, context)
        return host, int(port)


@dataclass(frozen=True)
class _Options:
    directory: Path
    listen: tuple[str, int]
    advertise: tuple[str, int] | None
    metrics: tuple[str, int] | None
    topics: Sequence[tuple[str, int]]
    flush: Flush
    on_corruption: OnCorruption
    end_offsets: Path | None


@click.command(short_help="Serve Kafka clients, with a log in a directory.")
@click.argument(
    "directory", default="pykcoord-data", type=click.Path(file_okay=False, path_type=Path)
)
@click.option(
    "--listen",
    type=_Address(),
    default="127.0.0.1:9092",
    show_default=True,
    help="Where clients connect; port 0 takes a free one.",
)
@click.option(
    "--advertise",
    type=_Address(least_port=1),
    help="Where clients are told to connect, if not where the server listens.",
)
@click.option(
    "--topic",
    "topics",
    type=TopicType(),
    multiple=True,
    help="A topic that clients see; repeatable. Kept with the log.",
)
@click.option(
    "--end-offsets",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file of lines TOPIC PARTITION OFFSET: where partitions end. Read again on change.",
)
@click.option(
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file in the syntax and with the names of Kafka's server.properties.",
)
@click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="One such setting; repeatable."
)
@click.option(
    "--flush",
    type=click.Choice(["commit", "interval", "os"]),
    default="commit",
    show_default=True,
    help="When a commit is answered: once synced, or once written (synced every "
    "log.flush.interval.ms, or when the system likes).",
)
@click.option(
    "--on-corruption",
    type=click.Choice(["refuse", "truncate"]),
    default="refuse",
    show_default=True,
    help="Damage with sound batches behind it: do not start, or cut the log there as Kafka does.",
)
@click.option("--metrics", type=_Address(), help="Serve Prometheus metrics there.")
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="The form of the lines on stderr.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="The least level of the lines on stderr.",
)
def command(
    directory: Path,
    listen: tuple[str, int],
    advertise: tuple[str, int] | None,
    topics: Sequence[tuple[str, int]],
    config_file: Path | None,
    overrides: Sequence[str],
    flush: Flush,
    on_corruption: OnCorruption,
    metrics: tuple[str, int] | None,
    log_format: logs.LogFormat,
    log_level: logs.LogLevel,
    end_offsets: Path | None,
) -> int:
    """Serve Kafka clients, with the log in DIRECTORY (default: pykcoord-data).

    Ready is one line on stdout. SIGTERM and SIGINT end it, with everything written and synced.

    \b
    Example:
      pykcoord serve --topic orders:12 --set group.initial.rebalance.delay.ms=0
    """
    if advertise is None and listen[0] in _NOWHERE:
        raise click.UsageError(
            f"--listen {listen[0]} needs --advertise HOST:PORT: clients cannot connect to it"
        )
    for name, partitions in topics:
        if (last := dict(topics)[name]) != partitions:
            raise click.UsageError(f"--topic {name}:{partitions} and {name}:{last}: which of them?")
    options = _Options(
        directory, listen, advertise, metrics, topics, flush, on_corruption, end_offsets
    )
    with logs.to_stderr(log_format, log_level) as lines:
        config = _config(config_file, overrides)
        _raise_file_limit()
        with _runner() as runner:
            runner.run(_serve(config, options, lines))
    return 0


def _config(file: Path | None, overrides: Sequence[str]) -> Config:
    # As Java reads it: any byte is a character.
    text = file.read_text("latin-1") if file is not None else ""
    try:
        config, warnings = configuration.load(text, overrides, source=str(file))
    except ConfigError as error:
        if any(error.key in (one, one.partition("=")[0].strip()) for one in overrides):
            raise click.UsageError(f"--set {error}") from None
        raise
    for warning in warnings:
        logger.warning(warning, extra={"event": "config"})
    return config


async def _serve(config: Config, options: _Options, lines: LineQueue) -> None:
    asked = _when_asked_to_end()
    metrics = _metrics(options, lines)
    started = monotonic_seconds()
    with _open(config, options, metrics) as engine:
        load_ms = round(1000 * (monotonic_seconds() - started))
        server = Server(
            config,
            engine.runtime,
            engine.catalogue,
            cluster_id=engine.catalogue.cluster_id,
            listen=options.listen,
            advertise=options.advertise,
            metrics=metrics,
            broker_configs={name: _config_text(value) for name, value in config.values().items()},
        )
        await asyncio.sleep(0)  # a signal that came meanwhile is heard now
        if not asked.done():
            ready = _ready_fields(engine.node, load_ms)
            with following(options.end_offsets, engine.catalogue):
                await _run(server, metrics, options, ready, asked, lines)


async def _run(
    server: Server,
    metrics: ServerMetrics | None,
    options: _Options,
    ready_fields: str,
    asked: asyncio.Future[str],
    lines: LineQueue,
) -> None:
    """Serve until a signal, or the server's own failure, ends it."""
    with contextlib.ExitStack() as stack:
        if metrics is not None and options.metrics is not None:
            from pykcoord.server.metrics_listener import serve_metrics

            with _naming("--metrics", options.metrics):
                url = stack.enter_context(serve_metrics(metrics.registry, options.metrics))
            logger.info("metrics on %s", url, extra={"event": "metrics", "url": url})
        with _naming("--listen", options.listen):
            await server.start()
        # Objects of the start stay. To look for garbage among them takes 15 ms each time.
        gc.freeze()
        lines.flush_within(_LINES_SECONDS)  # they come before the ready line
        click.echo(f"pykcoord ready listen={_text(server.address)} {ready_fields}")
        ended = asyncio.ensure_future(server.wait_ended())
        await asyncio.wait((asked, ended), return_when=asyncio.FIRST_COMPLETED)
        _end_in_time(options.directory, lines)
        try:
            if not ended.done():
                logger.info("%s: ending", asked.result(), extra={"event": "stop"})
            await server.stop()
            await ended
        except RuntimeError as error:
            raise KcoordError(f"{error}; the log is as it was: start it again") from error


def _metrics(options: _Options, lines: LineQueue) -> ServerMetrics | None:
    """None without `--metrics`: they cost a start and each turn of the loop some time."""
    if options.metrics is None:
        return None
    from pykcoord.server.metrics import ServerMetrics

    metrics = ServerMetrics()
    metrics.watch_lines(lines)
    return metrics


def _open(config: Config, options: _Options, metrics: ServerMetrics | None) -> Engine:
    """The engine over the directory. Its errors become those of `serve`."""
    store = Directory(options.directory, options.flush, options.on_corruption)
    told = logging.getLogger("pykcoord.groups").isEnabledFor(logging.INFO)
    try:
        return Engine.open(store, config, dict(options.topics), metrics, tells_events=told)
    except ReplayError as error:
        raise LogError(
            f"{options.directory}: offset {error.offset}: {error.reason}; "
            f"`pykcoord log state {options.directory}` names the partition"
        ) from None
    except InvalidPartitionsError as error:
        raise KcoordError(
            f"--topic: {options.directory}: {error.reason}; leave it out, or ask for no fewer"
        ) from None


def _ready_fields(node: Node, load_ms: int) -> str:
    stats = node.stats()
    groups = sum(count for name, count in stats.items() if name.startswith("groups_"))
    return f"shards={node.shards} groups={groups} offsets={stats['offsets']} load_ms={load_ms}"


def _end_in_time(directory: Path, lines: LineQueue) -> None:
    """End even where a disk hangs: Python waits at its end for the threads that wait for the
    disk."""

    def give_up() -> None:
        logger.critical(
            "%s: the disk did not take the last writes within %g s, ended without waiting for it; "
            "nothing that was acknowledged is lost, and the next start checks the log",
            directory,
            _STOP_SECONDS,
            extra={"event": "stop", "directory": str(directory)},
        )
        lines.flush_within(_LINES_SECONDS)
        os._exit(1)

    timer = threading.Timer(_STOP_SECONDS, give_up)
    timer.daemon = True
    timer.start()


def _when_asked_to_end() -> asyncio.Future[str]:
    """Done with the name of the signal, at the first SIGTERM or SIGINT."""
    loop = asyncio.get_running_loop()
    asked: asyncio.Future[str] = loop.create_future()

    def ask(name: str) -> None:
        if not asked.done():
            asked.set_result(name)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ask, number.name)
    return asked


@contextlib.contextmanager
def _naming(option: str, address: tuple[str, int]) -> Iterator[None]:
    """An error of an address names the option that asked for it."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            reason = "address already in use; take another port, or 0 for a free one"
        else:
            reason = error.strerror or str(error)
        raise KcoordError(f"{option} {_text(address)}: {reason}") from error


def _runner() -> asyncio.Runner:
    """uvloop where it is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.Runner()
    return asyncio.Runner(loop_factory=uvloop.new_event_loop)


def _raise_file_limit() -> None:
    """A connection is a file: take as many as the system lets this user have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _text(address: tuple[str, int]) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _config_text(value: int | float | str | bool) -> str:
    """As Java writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
