"""`pykcoord serve --cluster LOCATION`: one node of a cluster over a shared folder or object store.

Only puts options and the node together; what the node does is in `pykcoord.cluster.member`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

import click

from pykcoord.addresses import address_text
from pykcoord.cli.end_offsets import following
from pykcoord.cli.log_queue import LineQueue
from pykcoord.cli.serving import (
    NOWHERE,
    Address,
    Options,
    config_texts,
    end_in_time,
    new_runner,
    watch_lag,
    when_asked_to_end,
)
from pykcoord.cluster.member import MemberOptions, Serving, Shown, serve_member
from pykcoord.cluster.watched_store import WatchedStore
from pykcoord.config import Config
from pykcoord.errors import KcoordError
from pykcoord.log.shared import open_store
from pykcoord.log.shared.store import is_folder
from pykcoord.server.addresses import naming_address
from pykcoord.web import WebOptions
from pykcoord.web.options import is_loopback

if TYPE_CHECKING:
    from pykcoord.server.cluster_metrics import ClusterMetrics

__all__ = ["serve_in_cluster"]

logger = logging.getLogger("pykcoord.serve")


def serve_in_cluster(
    config: Config,
    options: Options,
    location: str,
    control: Address | None,
    control_advertise: Address | None,
    secret: str | None,
    lines: LineQueue,
) -> int:
    """Serve as a node of the cluster at `location` until a signal ends it; returns the exit code.
    Raises UsageError for options that a node of a cluster does not have."""
    for name, given in (
        ("--flush", options.flush != "commit"),
        ("--on-corruption", options.on_corruption != "refuse"),
    ):
        if given:
            raise click.UsageError(f"{name} and --cluster: a node of a cluster has no such option")
    control = control or (options.listen[0], 0)
    _check_control(control, control_advertise, secret)
    member = MemberOptions(
        location,
        options.listen,
        control,
        options.advertise,
        dict(options.topics),
        secret,
        control_advertise,
        config_texts(config),
    )
    store = WatchedStore(open_store(location), config.node_id)
    with _metrics(store, options, lines) as metrics, new_runner() as runner:
        runner.run(_serve(config, member, store, metrics, options, lines))
    return 0


def _check_control(control: Address, advertise: Address | None, secret: str | None) -> None:
    host = control[0]
    if host in NOWHERE and advertise is None:
        raise click.UsageError(
            f"the other nodes cannot connect to {host}: give --control HOST:PORT, or "
            "--control-advertise"
        )
    if secret is None and not is_loopback(host):
        raise click.UsageError(
            f"--control {address_text(*control)} can be reached from other machines, which could "
            "give this node orders: give all nodes of the cluster the same --secret-file, or take "
            "127.0.0.1"
        )


@contextlib.contextmanager
def _metrics(
    store: WatchedStore, options: Options, lines: LineQueue
) -> Iterator[ClusterMetrics | None]:
    if options.metrics is None and options.web is None:
        yield None
        return
    from pykcoord.server.cluster_metrics import ClusterMetrics
    from pykcoord.server.metrics_listener import serve_metrics

    metrics = ClusterMetrics(store, lines)
    with contextlib.ExitStack() as stack:
        if options.metrics is not None:
            with naming_address("--metrics", options.metrics):
                url = stack.enter_context(serve_metrics(metrics.registry, options.metrics))
            logger.info("metrics on %s", url, extra={"event": "metrics", "url": url})
        yield metrics


async def _serve(
    config: Config,
    options: MemberOptions,
    store: WatchedStore,
    metrics: ClusterMetrics | None,
    given: Options,
    lines: LineQueue,
) -> None:
    asked = when_asked_to_end(signal.SIGHUP)

    def ready(address: Address, shards: int) -> None:
        node = config.node_id
        click.echo(f"pykcoord ready node={node} listen={address_text(*address)} shards={shards}")

    with _naming_store(options.location):
        await serve_member(
            config, options, asked, ready, store=store, metrics=metrics,
            shown=_shown(options.location, config.node_id, given, metrics),
            failing=lambda: end_in_time(options.location, lines),
        )  # fmt: skip


@contextlib.contextmanager
def _naming_store(location: str) -> Iterator[None]:
    """What an object store says of an address or of keys names the store, too. What a folder says
    names a file."""
    try:
        yield
    except OSError as error:
        if is_folder(location) or error.filename is not None or isinstance(error, KcoordError):
            raise
        raise KcoordError(
            f"{location}: {error}; is it reachable, and are its keys in the environment?"
        ) from error


def _shown(location: str, node_id: int, given: Options, metrics: ClusterMetrics | None) -> Shown:
    """Ends of partitions, lag and the console, where these are wanted."""

    @contextlib.asynccontextmanager
    async def shown(serving: Serving) -> AsyncIterator[None]:
        engine = serving.engine
        if metrics is not None:
            watch_lag(metrics.server, engine)
        async with contextlib.AsyncExitStack() as stack:
            # SIGHUP hands the shards over.
            stack.enter_context(following(given.end_offsets, engine.catalogue, on_sighup=False))
            if given.web is not None and metrics is not None:
                page = _console(location, node_id, serving, given.web, metrics)
                await stack.enter_async_context(page)
            yield

    return shown


@contextlib.asynccontextmanager
async def _console(
    location: str, node_id: int, serving: Serving, web: WebOptions, metrics: ClusterMetrics
) -> AsyncIterator[None]:
    from pykcoord.cli.cluster_web import MemberSource
    from pykcoord.cli.web import console_beside

    source = MemberSource(location, serving, metrics, node_id)
    async with console_beside(source, web):
        hearing = asyncio.create_task(source.hearing.run())
        try:
            yield
        finally:
            hearing.cancel()
            await asyncio.gather(hearing, return_exceptions=True)
