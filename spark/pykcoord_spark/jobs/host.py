"""`python -m pykcoord_spark host`: shards served by hosts in Spark tasks, until it is ended."""

from __future__ import annotations

import logging
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from pykcoord_spark.jobs.options import engine_config, engine_options, topic_option
from pykcoord_spark.session import opened, session_options

_PORT_MAX = 65_535


class _Ports(click.ParamType["range"]):
    """FIRST-LAST."""

    name = "FIRST-LAST"

    def convert(
        self, value: object, param: click.Parameter | None, context: click.Context | None
    ) -> range:
        if isinstance(value, range):
            return value
        first, _, last = str(value).partition("-")
        if not first.isdigit() or not (last or first).isdigit():
            self.fail(f"{value!r} is not FIRST-LAST, such as 9400-9500", param, context)
        ports = range(int(first), int(last or first) + 1)
        if not ports or ports.start < 1 or ports.stop > _PORT_MAX + 1:
            self.fail(f"{value!r} holds no port from 1 to {_PORT_MAX}", param, context)
        return ports


@click.command(
    short_help="Serve Kafka's consumer groups from executors.",
    epilog="Any of the addresses that it prints will do as bootstrap.servers. See docs/spark.md.",
)
@click.option(
    "--shards",
    type=click.IntRange(1),
    default=50,
    show_default=True,
    help="Shards of the log; fixed once the log is there.",
)
@click.option(
    "--hosts",
    type=click.IntRange(1),
    default=2,
    show_default=True,
    help="Host tasks to keep running.",
)
@click.option(
    "--log",
    required=True,
    metavar="DIR|URL",
    help="Where the log lies, for all machines: a folder, or s3://, gs://, az://.",
)
@topic_option("A topic that clients see; repeatable. Kept with the log.")
@engine_options
@click.option(
    "--bind",
    default="127.0.0.1",
    show_default=True,
    metavar="ADDRESS|executor",
    help="Where hosts listen; executor: on the address of their machine.",
)
@click.option(
    "--ports",
    type=_Ports(),
    help="Ports to listen on, the first that is free; any if not given.",
)
@click.option(
    "--cpus",
    type=click.FloatRange(0, min_open=True),
    default=0.1,
    show_default=True,
    help="CPUs of an executor that a host takes (Spark 4.3, not in local mode).",
)
@session_options
def command(
    shards: int,
    hosts: int,
    log: str,
    topics: Sequence[tuple[str, int]],
    config_file: Path | None,
    overrides: Sequence[str],
    bind: str,
    ports: range | None,
    cpus: float,
    master: str | None,
    remote: str | None,
    configuration: Sequence[str],
) -> None:
    """Keep --hosts hosts running that serve all shards of --log.

    Unmodified Kafka clients connect to any of them. A host that dies is replaced, and its shards
    are led by the others meanwhile. Ends with SIGINT or SIGTERM.

    \b
    Example:
      python -m pykcoord_spark host --shards 32 --hosts 3 --log groups-log \\
        --topic orders:12 --master 'local[4]'
    """
    from pykcoord_spark.hosting.cluster import Cluster

    config = engine_config(config_file, overrides)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    signal.signal(signal.SIGTERM, _interrupt)
    with opened(
        "pykcoord host", master=master, remote=remote, configuration=configuration, bar=False
    ) as spark:
        # Spark has a handler of its own for Ctrl-C, which would cut the hosts off.
        signal.signal(signal.SIGINT, _interrupt)
        click.echo(f"starting {hosts} hosts for {shards} shards of {log}", err=True)
        cluster = Cluster(
            spark,
            shards,
            hosts,
            log,
            topics=dict(topics),
            config=config.values(),
            cpus=cpus,
            bind=bind,
            ports=ports or (),
        )
        try:
            with cluster:
                click.echo(
                    f"pykcoord_spark ready bootstrap={cluster.bootstrap} shards={shards} "
                    f"hosts={hosts}"
                )
                cluster.wait()
        except KeyboardInterrupt:
            click.echo("ended: hosts are stopped, everything acknowledged is in the log", err=True)


def _interrupt(number: int, frame: Any) -> None:
    raise KeyboardInterrupt
