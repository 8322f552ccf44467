"""`pykcoord watch`: the groups of a Kafka that is there already, read only."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import click

from pykcoord.cli import logs
from pykcoord.cli.command_config import properties_of
from pykcoord.cli.listing import print_listings
from pykcoord.cli.serving import new_runner, when_asked_to_end
from pykcoord.cli.types import AddressType
from pykcoord.cli.watch_listing import Screen, listings
from pykcoord.cli.web_options import web_options
from pykcoord.clock import Clock, monotonic_seconds
from pykcoord.errors import KcoordError
from pykcoord.kafka.cluster import servers_of
from pykcoord.lag import matching
from pykcoord.server.addresses import naming_address
from pykcoord.watch import Watcher, WatchSettings
from pykcoord.watch.tables import Tables
from pykcoord.web import WebOptions

__all__ = ["command"]

logger = logging.getLogger("pykcoord.watch")


@click.command(short_help="Follow the groups of a Kafka that is there, read only.")
@click.argument("directory", required=False, type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--bootstrap-servers",
    "--bootstrap-server",
    "servers",
    metavar="HOST:PORT,...",
    help="Where to ask for the cluster.",
)
@click.option(
    "--config",
    "--command-config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file of Kafka's client properties (security.protocol, sasl.jaas.config, ...), as its "
    "own tools take, and of pykcoord's watch.*.",
)
@click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="One such property; repeatable."
)
@click.option("--group", "pattern", help="Only this group (* and ? match), with its members.")
@click.option("--once", is_flag=True, help="Print what is there now, and end.")
@click.option(
    "--json", "as_json", is_flag=True, help="JSON: one document, or without --once one a line."
)
@click.option(
    "--interval",
    type=click.FloatRange(min=0.2),
    default=2.0,
    show_default=True,
    help="Seconds between two pictures on a terminal, or two lines of JSON.",
)
@click.option("--metrics", type=AddressType(), help="Serve Prometheus metrics there.")
@click.option(
    "--web", type=AddressType(), help="Serve the console there: pages, JSON, metrics; read only."
)
@click.option(
    "--web-token-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file with the token that the console wants; needed where --web is not on loopback.",
)
@logs.options
def command(
    directory: Path | None,
    servers: str | None,
    config_file: Path | None,
    overrides: Sequence[str],
    pattern: str | None,
    once: bool,
    as_json: bool,
    interval: float,
    metrics: tuple[str, int] | None,
    web: tuple[str, int] | None,
    web_token_file: Path | None,
    log_format: logs.LogFormat,
    log_level: logs.LogLevel,
) -> int:
    """Follow the groups of an existing Kafka: members, owners, offsets and lag, from its own log.

    Nothing is changed there. With DIRECTORY all that is read is kept in it, in Kafka's own format
    (`pykcoord log dump DIRECTORY`), and the next start goes on from there; without, nothing is
    kept. On a terminal the groups are shown until Ctrl-C; elsewhere ready is one line on stdout.

    The cluster's principal needs READ on the topic __consumer_offsets, and DESCRIBE on the topics
    whose lag is to be known.

    \b
    Example:
      pykcoord watch --bootstrap-servers localhost:9092 --once
      pykcoord watch --bootstrap-servers localhost:9092 --group 'billing-*'
      pykcoord watch --bootstrap-servers localhost:9092 history --metrics 127.0.0.1:9465
      pykcoord watch --bootstrap-servers localhost:9092 history --web 127.0.0.1:8080
      pykcoord watch --config client.properties --once --json
    """
    settings = _settings(servers, config_file, overrides)
    console = web_options(web, False, web_token_file)
    wanted = matching((pattern,)) if pattern is not None else None
    with logs.to_stderr(log_format, log_level), new_runner() as runner:
        watching = _Watching(settings, directory, wanted, as_json, interval)
        runner.run(watching.once() if once else watching.run(metrics, console))
    return 0


class _Watching:
    def __init__(
        self,
        settings: WatchSettings,
        directory: Path | None,
        wanted: Callable[[str], bool] | None,
        as_json: bool,
        interval_seconds: float,
    ) -> None:
        self._settings = settings
        self._directory = directory
        self._wanted = wanted
        self._as_json = as_json
        self._interval_seconds = interval_seconds

    async def once(self) -> None:
        """What is there now, on stdout."""
        watcher = await Watcher.open(self._settings, self._directory)
        try:
            tables = watcher.tables(self._wanted)
        finally:
            await watcher.close()
        if self._as_json:
            click.echo(json.dumps(_document(watcher, tables), indent=1, ensure_ascii=False))
        else:
            print_listings(listings(watcher, tables, with_members=self._wanted is not None))

    async def run(self, metrics: tuple[str, int] | None, web: WebOptions | None) -> None:
        """Until a signal asks it to end."""
        asked = when_asked_to_end()
        began = monotonic_seconds()
        opening = asyncio.create_task(
            Watcher.open(self._settings, self._directory, tells_events=web is not None)
        )
        waited: set[asyncio.Future[Any]] = {opening, asked}
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        if not opening.done():
            opening.cancel()
            await asyncio.gather(opening, return_exceptions=True)
            return
        watcher = opening.result()
        try:
            async with _metrics(watcher, metrics), _console(watcher, web):
                tasks = [watcher.run(), self._show(watcher, monotonic_seconds() - began)]
                running = [asyncio.create_task(one) for one in tasks]
                waited = {*running, asked}
                await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
                for task in running:
                    task.cancel()
                for result in await asyncio.gather(*running, return_exceptions=True):
                    if isinstance(result, Exception):
                        raise result
        finally:
            await watcher.close()

    async def _show(self, watcher: Watcher, load_seconds: float) -> None:
        if self._as_json:
            while True:
                document = _document(watcher, watcher.tables(self._wanted))
                sys.stdout.write(json.dumps(document, ensure_ascii=False) + "\n")
                sys.stdout.flush()
                await asyncio.sleep(self._interval_seconds)
        elif sys.stdout.isatty():
            with Screen() as screen:
                while True:
                    began = monotonic_seconds()
                    screen.show(watcher, watcher.tables(self._wanted), self._wanted is not None)
                    # However large the cluster is: a tenth of the time is for looking.
                    took = monotonic_seconds() - began
                    await asyncio.sleep(max(self._interval_seconds, 10 * took))
        else:
            groups, offsets = watcher.source.groups(), watcher.source.offsets()
            click.echo(
                f"pykcoord ready watch={watcher.cluster.view.cluster_id} mode={watcher.mode} "
                f"groups={len(groups)} offsets={len(offsets)} load_ms={load_seconds * 1000:.0f}"
            )
            sys.stdout.flush()
            await asyncio.Event().wait()


@contextlib.asynccontextmanager
async def _metrics(watcher: Watcher, listen: tuple[str, int] | None) -> AsyncIterator[None]:
    if listen is None:
        yield
        return
    from pykcoord.server.metrics_listener import serve_metrics
    from pykcoord.watch.metrics import WatchMetrics

    with contextlib.ExitStack() as stack:
        with naming_address("--metrics", listen):
            url = stack.enter_context(serve_metrics(WatchMetrics(watcher).registry, listen))
        logger.info("metrics at %s", url, extra={"event": "metrics", "url": url})
        yield


@contextlib.asynccontextmanager
async def _console(watcher: Watcher, options: WebOptions | None) -> AsyncIterator[None]:
    if options is None:
        yield
        return
    try:
        from pykcoord.web.listener import serve_console
    except ModuleNotFoundError as error:
        raise KcoordError(f"--web: {error}") from None
    from pykcoord.watch.console import WatchReading, WatchSource
    from pykcoord.watch.metrics import WatchMetrics

    source = WatchSource(watcher, WatchMetrics(watcher))
    with contextlib.ExitStack() as stack:
        with naming_address("--web", options.listen):
            served = stack.enter_context(
                serve_console(source, options, Clock().now_ms, WatchReading(source))
            )
        stack.callback(source.end)
        logger.info("console on %s", served.url, extra={"event": "web", "url": served.url})
        yield


def _document(watcher: Watcher, tables: Tables) -> dict[str, object]:
    return {"mode": watcher.mode, **tables.document()}


def _settings(servers: str | None, file: Path | None, overrides: Sequence[str]) -> WatchSettings:
    found: dict[str, str] = {}
    if file is not None:
        found = properties_of(file)
    for one in overrides:
        name, equals, value = one.partition("=")
        if not equals:
            raise click.UsageError(f"--set {one}: write KEY=VALUE")
        found[name.strip()] = value.strip()
    if servers is not None:
        found["bootstrap.servers"] = servers
    if not found.get("bootstrap.servers"):
        raise click.UsageError("--bootstrap-servers HOST:PORT is missing: which cluster?")
    try:
        servers_of(found["bootstrap.servers"])
    except ValueError as error:
        raise click.UsageError(f"--bootstrap-servers: {error}") from None
    return WatchSettings.of(found)
