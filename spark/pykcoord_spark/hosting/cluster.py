"""`Cluster`: Kafka's group coordinator on the executors of a Spark application.

The driver starts hosts and tells each which shards to lead; it serves no clients. When the driver
ends, hosts end with their executors, and the next cluster on the same log goes on from there.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pykcoord.cluster import (
    Controller,
    HostEntry,
    HostOptions,
    Registry,
    SharedTopics,
    Supervisor,
    open_topics,
)
from pykcoord.config import Config
from pykcoord.errors import ArgumentError, KcoordError
from pykcoord.log.shared import open_logs, open_store
from pykcoord_spark.hosting.spark_hosts import check_settings, is_local, reason_of, spark_launcher

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Cluster", "ClusterError"]

_STOP_SECONDS = 20.0
_KILL_SECONDS = 10.0
_CHECK_SECONDS = 0.5
# Polling an object store costs money for each request.
_POLL_SECONDS = {"folder": 0.1, "url": 1.0}


class ClusterError(KcoordError):
    """A cluster does not serve, or not any more: the text says why, and what to do."""


class Cluster:
    """`hosts` hosts in the tasks of `spark`, which share `shards` shards over `log`.

    `log` is a folder that all executors and the driver see, or a URL of an object store; a log of
    another number of shards is refused. `topics`: name to number of partitions, added to those
    that the log remembers. `config`: Kafka's settings by Kafka's names. `cpus`: the share of an
    executor's CPUs for a host (Spark 4.3 and newer; before, a whole task slot). `bind`: the address
    that hosts listen on, or "executor" for that of the executor's machine; `ports` where a free one
    is looked for, any where there are none.

    A context manager: inside, every shard is led. The later of two clusters on one log wins:
    clients of the earlier one hear NOT_COORDINATOR, and its `check` raises.
    """

    def __init__(
        self,
        spark: SparkSession,
        shards: int,
        hosts: int,
        log: str | Path,
        *,
        topics: Mapping[str, int] | None = None,
        config: Mapping[str, Any] | None = None,
        cpus: float = 0.1,
        bind: str = "127.0.0.1",
        ports: Sequence[int] = (),
        start_seconds: float = 120.0,
    ) -> None:
        if hosts < 1:
            raise ArgumentError("hosts", f"{hosts} is not at least 1")
        if cpus <= 0:
            raise ArgumentError("cpus", f"{cpus:g} is not more than 0")
        Config.of(dict(config or {}))
        check_settings(spark)
        self._spark = spark
        self._shards = shards
        self._hosts = hosts
        self._log = str(log) if "://" in str(log) else str(Path(log).absolute())
        self._topics = dict(topics or {})
        self._config = dict(config or {})
        self._cpus = cpus
        self._bind = bind
        self._ports = tuple(ports)
        self._start_seconds = start_seconds
        self._tag = f"pykcoord-{uuid.uuid4().hex}"
        self._registry: Registry | None = None
        self._controller: Controller | None = None
        self._supervisor: Supervisor | None = None

    def start(self) -> None:
        """Start the hosts and wait until every shard is led. If that ends otherwise, interrupted
        say, they are stopped.

        Raises ArgumentError for a log of another number of shards or a topic that cannot be,
        ClusterError if it is not ready in `start_seconds`, and what the store raises.
        """
        if self._controller is not None:
            raise ArgumentError("cluster", "it was started before; make another one")
        open_logs(self._log, self._shards)
        store = open_store(self._log)
        open_topics(SharedTopics(store), self._topics)
        launch = spark_launcher(self._spark, self._options, cpus=self._cpus, tag=self._tag)
        # In local mode there is one executor only.
        together = None if is_local(self._spark) else -(-self._hosts // 2)
        self._registry = Registry(store)
        # From here on another cluster on this log is superseded.
        term = self._registry.begin_application(self._tag)
        self._controller = Controller(store, self._shards, term, together)
        self._supervisor = Supervisor(launch, self._hosts, reason_of)
        try:
            self._supervisor.start()
            self._controller.start()
            self._wait_led(self._controller, self._supervisor)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End the hosts: what is being written is made durable, connections are closed. A host
        that does not end in time is killed; nothing acknowledged is lost by that."""
        registry, controller, supervisor = self._registry, self._controller, self._supervisor
        if registry is None or controller is None or supervisor is None:
            return
        supervisor.quit()
        controller.stop()
        registry.stop_application(controller.term)
        if not supervisor.join(_STOP_SECONDS):
            self._spark.interruptTag(self._tag)
            supervisor.join(_KILL_SECONDS)

    @property
    def bootstrap(self) -> str:
        """`host:port` of every host that answers, for `bootstrap.servers`."""
        return ",".join(f"{host.host}:{host.port}" for host in self.hosts())

    def hosts(self) -> list[HostEntry]:
        """The hosts that answer, by slot."""
        return sorted(self._running().hosts(), key=lambda host: host.slot)

    def led(self) -> dict[int, int]:
        """Each shard that is led now, with the node id of its host."""
        return self._running().led()

    def check(self) -> None:
        """Raise ClusterError if another cluster has taken over the log."""
        if self._running().superseded:
            raise ClusterError(f"{self._log}: {_SUPERSEDED}")

    def wait(self) -> None:
        """Serve until interrupted. Raises as `check`."""
        while True:
            self.check()
            time.sleep(_CHECK_SECONDS)

    def _running(self) -> Controller:
        if self._controller is None:
            raise ClusterError("the cluster was not started: use `with`, or call start()")
        return self._controller

    def _wait_led(self, controller: Controller, supervisor: Supervisor) -> None:
        began = time.monotonic()
        if not controller.wait_led(self._hosts, self._start_seconds, supervisor.is_hopeless):
            raise self._not_ready(time.monotonic() - began)

    def _options(self, slot: int) -> HostOptions:
        return HostOptions(
            log=self._log,
            shards=self._shards,
            application=self._running().term,
            slot=slot,
            bind=self._bind,
            ports=self._ports,
            config=self._config,
            poll_seconds=_POLL_SECONDS["url" if "://" in self._log else "folder"],
        )

    def _not_ready(self, seconds: float) -> ClusterError:
        assert self._controller is not None
        assert self._supervisor is not None
        if self._controller.superseded:
            return ClusterError(f"{self._log}: {_SUPERSEDED}")
        waited = f"{self._log}: after {seconds:.0f} s"
        shards = self._controller.failures()
        if shards:
            return ClusterError(f"{waited}: {next(iter(shards.values()))}")
        hosts, failures = len(self._controller.hosts()), self._supervisor.failures()
        if failures:
            return ClusterError(f"{waited} hosts fail: {next(iter(failures.values()))}")
        return ClusterError(
            f"{waited} {hosts} of {self._hosts} hosts answer and {len(self._controller.led())} of "
            f"{self._shards} shards are led: does Spark have room for so many hosts, and can this "
            "machine reach them?"
        )

    def __enter__(self) -> Cluster:
        self.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self.stop()


_SUPERSEDED = "another cluster was started on this log later, and serves its groups now"
