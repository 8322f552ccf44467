"""`pykcoord serve`: its options, checked, and one process or several that serve."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import click

from pykcoord import config as configuration
from pykcoord.cli import logs
from pykcoord.cli.serving import NOWHERE, Alone, Options, new_runner, raise_file_limit, serve
from pykcoord.cli.types import AddressType, TopicType
from pykcoord.cli.web_options import web_options
from pykcoord.config import Config
from pykcoord.errors import ConfigError
from pykcoord.log import Flush, OnCorruption
from pykcoord.log.copied_directory import is_copy

logger = logging.getLogger("pykcoord.serve")


@click.command(short_help="Serve Kafka clients, with a log in a directory.")
@click.argument(
    "directory", default="pykcoord-data", type=click.Path(file_okay=False, path_type=Path)
)
@click.option(
    "--listen",
    type=AddressType(),
    default="127.0.0.1:9092",
    show_default=True,
    help="Where clients connect; port 0 takes a free one.",
)
@click.option(
    "--advertise",
    type=AddressType(least_port=1),
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
@click.option(
    "--nodes",
    type=click.IntRange(min=1),
    help="Serve with so many processes, each with its part of the groups and a port of its own, "
    "from the --listen port on; likewise --advertise, --metrics and node.id.",
)
@click.option(
    "--cluster",
    metavar="LOCATION",
    help="Serve as a node of the cluster at this folder, which all its nodes see, or at s3://, "
    "gs://, az://. Each node has a node.id of its own.",
)
@click.option(
    "--kafka",
    "bootstrap",
    metavar="HOST:PORT,...",
    help="With --as node: join the Kafka cluster whose brokers are there.",
)
@click.option(
    "--as",
    "role",
    type=click.Choice(["node"]),
    help="node: a broker of that cluster which leads partitions of __consumer_offsets and nothing "
    "else. `pykcoord kafka take` gives it partitions.",
)
@click.option(
    "--control",
    type=AddressType(),
    help="With --cluster: where the other nodes reach this one. Any free port if not given.",
)
@click.option(
    "--control-advertise",
    type=AddressType(least_port=1),
    help="With --cluster: where the other nodes are told to connect, if not to --control.",
)
@click.option(
    "--secret-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="With --cluster: a file with the secret that all its nodes have; needed where --control "
    "is not on loopback.",
)
@click.option("--metrics", type=AddressType(), help="Serve Prometheus metrics there.")
@click.option(
    "--web",
    type=AddressType(),
    help="Serve the console there: pages, JSON, metrics. With --nodes each node has one, from "
    "this port on.",
)
@click.option(
    "--web-admin",
    is_flag=True,
    help="The console may reset offsets, delete groups and expel members.",
)
@click.option(
    "--web-token-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file with the token that the console wants; needed where --web is not on loopback.",
)
@logs.options
def command(
    directory: Path,
    listen: tuple[str, int],
    advertise: tuple[str, int] | None,
    topics: Sequence[tuple[str, int]],
    config_file: Path | None,
    overrides: Sequence[str],
    flush: Flush,
    on_corruption: OnCorruption,
    nodes: int | None,
    cluster: str | None,
    bootstrap: str | None,
    role: str | None,
    control: tuple[str, int] | None,
    control_advertise: tuple[str, int] | None,
    secret_file: Path | None,
    metrics: tuple[str, int] | None,
    web: tuple[str, int] | None,
    web_admin: bool,
    web_token_file: Path | None,
    log_format: logs.LogFormat,
    log_level: logs.LogLevel,
    end_offsets: Path | None,
) -> int:
    """Serve Kafka clients, with the log in DIRECTORY (default: pykcoord-data).

    Ready is one line on stdout. SIGTERM and SIGINT end it, with everything written and synced.
    With --nodes a node that dies or hangs is started again while the others serve, and SIGHUP
    restarts them one at a time; DIRECTORY can be served by another number of nodes next time.

    \b
    Example:
      pykcoord serve --topic orders:12 --set group.initial.rebalance.delay.ms=0
      pykcoord serve --topic orders:12 --web 127.0.0.1:8080
      pykcoord serve --nodes 3 --listen 127.0.0.1:9092 --topic orders:12
      pykcoord serve --cluster /mnt/groups --set node.id=1 --topic orders:12
      pykcoord serve node100 --kafka localhost:9092 --as node --listen 10.0.0.5:9092 \\
        --set node.id=100
    """
    if advertise is None and listen[0] in NOWHERE:
        raise click.UsageError(
            f"--listen {listen[0]} needs --advertise HOST:PORT: clients cannot connect to it"
        )
    if cluster is not None and nodes is not None:
        raise click.UsageError("--cluster and --nodes: start each node of a cluster by itself")
    if cluster is None and any((control, control_advertise, secret_file)):
        raise click.UsageError("--control... and --secret-file are options of --cluster")
    if (bootstrap is None) != (role is None):
        raise click.UsageError("--kafka HOST:PORT and --as node come together")
    if bootstrap is not None and (nodes is not None or cluster is not None):
        raise click.UsageError("--kafka with --nodes or --cluster: one or the other")
    for name, partitions in topics:
        if (last := dict(topics)[name]) != partitions:
            raise click.UsageError(f"--topic {name}:{partitions} and {name}:{last}: which of them?")
    options = Options(
        directory,
        listen,
        advertise,
        metrics,
        topics,
        flush,
        on_corruption,
        end_offsets,
        web_options(web, web_admin, web_token_file),
    )
    with logs.to_stderr(log_format, log_level) as lines:
        config = _config(config_file, overrides)
        raise_file_limit()
        if cluster is not None:
            from pykcoord.cli.member import serve_in_cluster

            secret = _secret(secret_file)
            return serve_in_cluster(
                config, options, cluster, control, control_advertise, secret, lines
            )
        if bootstrap is not None:
            from pykcoord.cli.kafka_node import serve_as_node

            return serve_as_node(config, options, bootstrap, lines)
        _warn_of_copy(directory)
        if nodes is not None:
            from pykcoord.cli import nodes as several

            return several.supervise(config, options, nodes, log_format, log_level, lines)
        with new_runner() as runner:
            runner.run(serve(config, options, lines, Alone()))
    return 0


def _warn_of_copy(directory: Path) -> None:
    if is_copy(directory):
        logger.warning(
            "%s: what `pykcoord watch` keeps of a cluster. What is written here from now on is not "
            "that cluster's, and watch will not go on with this directory: if it is to, end this "
            "and serve a copy of it",
            directory, extra={"event": "copy", "directory": str(directory)},
        )  # fmt: skip


def _secret(file: Path | None) -> str | None:
    """Raises ConfigError for a file that others can read, or without a secret."""
    if file is None:
        return None
    from pykcoord.cli.web_options import read_token
    from pykcoord.web.options import check_token

    secret = read_token(file, "--secret-file")
    check_token(secret, "--secret-file")
    return secret


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
