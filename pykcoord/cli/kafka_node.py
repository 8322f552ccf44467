"""`pykcoord serve DIR --kafka HOST:PORT --as node`: a node of an existing cluster.

Only puts options and the node together; what it does is in `pykcoord.node`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any

import click

from pykcoord.addresses import address_text
from pykcoord.cli.log_queue import LineQueue
from pykcoord.cli.serving import Options, new_runner, watch_lag, when_asked_to_end
from pykcoord.clock import monotonic_seconds
from pykcoord.config import Config
from pykcoord.node.member import KafkaNode, NodeOptions
from pykcoord.server.addresses import naming_address

if TYPE_CHECKING:
    from pykcoord.server.metrics import ServerMetrics

__all__ = ["serve_as_node"]

logger = logging.getLogger("pykcoord.serve")


def serve_as_node(config: Config, options: Options, bootstrap: str, lines: LineQueue) -> int:
    """Be a node of the cluster at `bootstrap` until a signal ends it; returns the exit code. Raises
    UsageError for options that such a node does not have."""
    for name, given in (
        ("--flush", options.flush != "commit"),
        ("--on-corruption", options.on_corruption != "refuse"),
        ("--end-offsets", options.end_offsets is not None),
        ("--topic", bool(options.topics)),
    ):
        if given:
            raise click.UsageError(f"{name} and --kafka: a node of a cluster has no such option")
    with new_runner() as runner:
        runner.run(_serve(config, options, bootstrap, lines))
    return 0


async def _serve(config: Config, options: Options, bootstrap: str, lines: LineQueue) -> None:
    asked = when_asked_to_end()
    started = monotonic_seconds()
    metrics = _new_metrics(options, lines)
    at = NodeOptions(options.directory, bootstrap, options.listen, options.advertise)
    try:
        opening = asyncio.ensure_future(KafkaNode.open(at, config, metrics))
    except ValueError as error:
        raise click.UsageError(f"--kafka: {error}") from None
    if not await _done(opening, asked):
        return
    node = opening.result()
    try:
        async with contextlib.AsyncExitStack() as stack:
            stack.enter_context(_metrics(node, metrics, options))
            joining = asyncio.ensure_future(node.join())
            if not await _done(joining, asked):
                await node.close()  # it leads nothing yet
                return
            joining.result()
            await stack.enter_async_context(_console(node, metrics, options))
            click.echo(
                f"pykcoord ready listen={address_text(*node.server.address)} node={node.node_id} "
                f"cluster={node.cluster.view.cluster_id} shards={node.partitions} "
                f"replicas={len(node.directory.on_disk())} "
                f"load_ms={round(1000 * (monotonic_seconds() - started))}"
            )
            ended = asyncio.ensure_future(node.wait_ended())
            await asyncio.wait((ended, asked), return_when=asyncio.FIRST_COMPLETED)
            if ended.done():
                ended.result()
            logger.info("%s: ending", asked.result(), extra={"event": "stop"})
            ended.cancel()
    except BaseException:
        await node.close()
        raise
    await node.leave()


async def _done(beginning: asyncio.Future[Any], asked: asyncio.Future[str]) -> bool:
    """Whether it was done before somebody asked for the end. If not it is given up."""
    await asyncio.wait((beginning, asked), return_when=asyncio.FIRST_COMPLETED)
    if beginning.done():
        return True
    logger.info("%s: ending before it has joined", asked.result(), extra={"event": "stop"})
    beginning.cancel()
    await asyncio.gather(beginning, return_exceptions=True)
    return False


def _new_metrics(options: Options, lines: LineQueue) -> ServerMetrics | None:
    if options.metrics is None and options.web is None:
        return None
    from pykcoord.server.metrics import ServerMetrics

    metrics = ServerMetrics()
    metrics.watch_lines(lines)
    return metrics


@contextlib.contextmanager
def _metrics(node: KafkaNode, metrics: ServerMetrics | None, options: Options) -> Iterator[None]:
    if metrics is None:
        yield
        return
    from pykcoord.node.metrics import watch_node

    watch_node(metrics.registry, node)
    watch_lag(metrics, node.engine)
    if options.metrics is None:
        yield
        return
    from pykcoord.server.metrics_listener import serve_metrics

    with contextlib.ExitStack() as stack:
        with naming_address("--metrics", options.metrics):
            url = stack.enter_context(serve_metrics(metrics.registry, options.metrics))
        logger.info("metrics on %s", url, extra={"event": "metrics", "url": url})
        yield


@contextlib.asynccontextmanager
async def _console(
    node: KafkaNode, metrics: ServerMetrics | None, options: Options
) -> AsyncIterator[None]:
    if options.web is None or metrics is None:
        yield
        return
    from pykcoord.cli.kafka_node_web import KafkaNodeSource
    from pykcoord.cli.web import console_beside

    async with console_beside(KafkaNodeSource(node, metrics), options.web):
        yield
