"""Hosts as Spark tasks: one job of one task for each, which runs until the host ends.

Only the DataFrame API, so that Spark Connect works. Never in barrier mode: one host that dies must
not end the others.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import re
import socket
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from pykcoord.errors import KcoordError
from pykcoord_spark.hosting.host import HostOptions, run_host

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import SparkSession

__all__ = ["SparkSettingError", "check_settings", "is_local", "reason_of", "spark_launcher"]

# Before this, Spark gives a task whole CPUs only.
_FRACTIONAL = (4, 3)
_LOCAL = re.compile(r"local(\[.*)?$")
# An exception in the text of another.
_RAISED = re.compile(r"[A-Za-z_][\w.]*(Error|Exception): .")


class SparkSettingError(KcoordError):
    """A setting of the Spark session with which hosts cannot run. `setting` names it."""

    def __init__(self, setting: str, value: str, reason: str) -> None:
        super().__init__(f"{setting}={value}: {reason}")
        self.setting = setting


def check_settings(spark: SparkSession) -> None:
    """Refuse a session that would end hosts, or run each twice. Raises SparkSettingError."""
    speculation = _setting(spark, "spark.speculation", "false")
    if speculation == "true":
        raise SparkSettingError(
            "spark.speculation", speculation, "a host would run twice; set it to false"
        )
    kills = _setting(spark, "spark.sql.execution.pyspark.udf.killOnIdleTimeout", "false")
    name = "spark.sql.execution.pyspark.udf.idleTimeoutSeconds"
    idle_seconds = _setting(spark, name, "0")
    if kills == "true" and idle_seconds != "0":
        raise SparkSettingError(name, idle_seconds, "a host looks idle and is killed; set it to 0")


def is_local(spark: SparkSession) -> bool:
    """Whether the driver is the only executor."""
    return _LOCAL.match(_setting(spark, "spark.master", "")) is not None


def spark_launcher(
    spark: SparkSession, options_of: Callable[[int], HostOptions], *, cpus: float, tag: str
) -> Callable[[int], str]:
    """For a `Supervisor`: runs the host of a slot as a job under `tag`, with so many CPUs."""
    profile = _profile(spark, cpus)

    def launch(slot: int) -> str:
        spark.addTag(tag)
        task = functools.partial(host_task, options_of(slot).to_json())
        hosts = spark.range(0, 1, 1, 1).mapInArrow(task, "outcome string", profile=profile)
        return str(hosts.collect()[0]["outcome"])

    return launch


def reason_of(error: Exception) -> str:
    """The reason of a job's failure, for people: Spark's errors go on for pages. It is the
    exception at the end of a worker's traceback, or else the first that Java threw."""
    lines = [line.strip(" :\t") for line in str(error).splitlines()]
    raised = [line for line in lines if _RAISED.match(line)]
    python = [line for line in raised if not line.startswith(("org.", "java.", "py4j."))]
    return python[-1] if python else raised[0] if raised else str(error)


def host_task(
    options: str, batches: Iterator[pyarrow.RecordBatch]
) -> Iterator[pyarrow.RecordBatch]:
    """The task: a host in this worker, until it ends."""
    import pyarrow

    for _ in batches:
        pass
    given = HostOptions.of_json(options)
    if given.bind == "executor":
        given = dataclasses.replace(given, bind=_own_address())
    outcome = run_host(given)
    yield pyarrow.RecordBatch.from_pydict({"outcome": [outcome]})


def _own_address() -> str:
    """The address of this machine: as Spark's setting has it, or as its name says."""
    return os.environ.get("SPARK_LOCAL_IP") or socket.gethostbyname(socket.gethostname())


def _profile(spark: SparkSession, cpus: float) -> Any:
    """So that hosts, which mostly wait, take no slot from other jobs. None: Spark cannot, before
    4.3 and in local mode: a host takes a slot then."""
    import pyspark
    from pyspark.resource import ResourceProfileBuilder, TaskResourceRequests

    version = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
    if is_local(spark) or (version < _FRACTIONAL and cpus < 1):
        return None
    return ResourceProfileBuilder().require(TaskResourceRequests().cpus(cpus)).build


def _setting(spark: SparkSession, name: str, default: str) -> str:
    return str(spark.conf.get(name, default)).lower()
