"""The Spark session of a job: the options that say where it runs, and the session itself.

Never changes the settings of a session that is there already: they are its maker's.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import click
from pyspark.sql import SparkSession

__all__ = ["opened", "session_options"]

# Settings for which Spark's defaults are wrong here. Results are matched to columns by position:
# without the check of the schema, a wrong type ends in the JVM with a message that names no column.
_CONFIGURATION = {
    "spark.sql.execution.arrow.pyspark.validateSchema.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
}
# Of a driver that only works for seconds, compiling for speed is half of the CPU, and collecting
# garbage in many threads a tenth. `defaultJavaOptions` leaves the user's `extraJavaOptions` alone.
_BRIEF = {
    "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "1",
}
_BAR = "spark.ui.showConsoleProgress"


def session_options(job: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a job the options `--master`, `--remote` and `--conf`, arguments of `opened`."""
    for option in (
        click.option(
            "--conf",
            "configuration",
            multiple=True,
            metavar="KEY=VALUE",
            help="A setting of Spark; may be given several times.",
        ),
        click.option("--remote", metavar="URL", help="Spark Connect server: sc://HOST:PORT."),
        click.option(
            "--master",
            metavar="URL",
            help="Spark master, as local[2] or spark://HOST:7077. Under spark-submit, its own; "
            "else local[*].",
        ),
    ):
        job = option(job)
    return job


@contextlib.contextmanager
def opened(
    name: str,
    *,
    master: str | None = None,
    remote: str | None = None,
    configuration: Sequence[str] | Mapping[str, str] = (),
    bar: bool = True,
    brief: bool = False,
) -> Iterator[SparkSession]:
    """A session for one job, stopped at its end; one that was there before is used, and stays.

    `name` is what Spark shows; the next three are the values of `session_options`, and
    `configuration` wins over all else. `bar`: Spark may write its progress over the line of a
    terminal; not for a job that writes lines meanwhile. `brief`: there is little to do, so that a
    local master starts with less rather than runs fast.
    """
    if master and remote:
        raise click.UsageError("--master and --remote exclude each other")
    there = _active(remote)
    if there is not None:
        yield there
        return
    brief = brief and not remote and not _submitted() and (master or "local").startswith("local")
    wanted = _wanted(configuration, bar and sys.stderr.isatty(), brief)
    if remote:
        builder = SparkSession.builder.remote(remote)
        wanted = {key: value for key, value in wanted.items() if key.startswith("spark.sql.")}
    else:
        builder = SparkSession.builder.appName(name)
        if master or not _submitted():
            builder = builder.master(master or "local[*]")
        # Workers on this machine must be of the same Python, whatever `python3` is on the PATH.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    for key, value in wanted.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    try:
        yield session
    finally:
        session.stop()


def _wanted(
    configuration: Sequence[str] | Mapping[str, str], bar: bool, brief: bool
) -> dict[str, str]:
    given = _settings(configuration)
    return {**_CONFIGURATION, _BAR: str(bar).lower(), **(_BRIEF if brief else {}), **given}


def _active(remote: str | None) -> SparkSession | None:
    return None if remote else SparkSession.getActiveSession()


def _submitted() -> bool:
    """Whether `spark-submit` started this process, or the environment names a master."""
    return any(each in os.environ for each in ("PYSPARK_GATEWAY_PORT", "MASTER", "SPARK_REMOTE"))


def _settings(configuration: Sequence[str] | Mapping[str, str]) -> dict[str, str]:
    if isinstance(configuration, Mapping):
        return dict(configuration)
    settings = {}
    for each in configuration:
        key, equals, value = each.partition("=")
        if not equals or not key.startswith("spark."):
            raise click.UsageError(f"--conf {each}: not of the form spark.KEY=VALUE")
        settings[key] = value
    return settings
