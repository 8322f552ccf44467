"""`Cluster`: Kafka's group coordinator on the executors of a Spark application.

The driver starts hosts, which are the nodes of a cluster over the log; it serves no clients and
decides nothing about shards. When the driver ends, hosts end with their executors, and the next
cluster on the same log goes on from there.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pykcoord.cluster import (
    ClusterFollower,
    SharedTopics,
    Supervisor,
    is_cluster,
    open_topics,
    require_no_shard_log,
)
from pykcoord.config import Config
from pykcoord.errors import ArgumentError, KcoordError
from pykcoord.log.shared import open_store
from pykcoord_spark.hosting.host import HostOptions
from pykcoord_spark.hosting.registry import HostEntry, Registry
from pykcoord_spark.hosting.spark_hosts import check_settings, is_local, reason_of, spark_launcher
from pykcoord_spark.hosting.watching import Watch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Cluster", "ClusterError"]

_STOP_SECONDS = 20.0
_KILL_SECONDS = 10.0
_CHECK_SECONDS = 0.5
# Polling an object store costs money for each request.
_FOLDER_POLL_SECONDS, _URL_POLL_SECONDS = 0.2, 3.0
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


class ClusterError(KcoordError):
    """A cluster does not serve, or not any more: the text says why, and what to do."""


class Cluster:
    """`hosts` hosts in the tasks of `spark`, which share `shards` shards over `log`.

    `log` is a folder that all executors and the driver see, or a URL of an object store; a log of
    another number of shards is refused. `topics`: name to number of partitions, added to those
    that the log remembers. `config`: Kafka's settings by Kafka's names. `cpus`: the share of an
    executor's CPUs for a host (Spark 4.3 and newer; before, a whole task slot). `bind`: the address
    that hosts listen on, or "executor" for that of the executor's machine; `ports` where a free one
    is looked for, any where there are none. Hosts that are not on loopback prove to each other that
    they know a secret, which is kept beside the log.

    A context manager: inside, every shard is led. The later of two clusters on one log wins: the
    hosts of the earlier one give their shards to its hosts and end, and its `check` raises.
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
        self._watch: Watch | None = None
        self._term = 0
        self._supervisor: Supervisor | None = None

    def start(self) -> None:
        """Start the hosts and wait until every shard is led. If that ends otherwise, interrupted
        say, they are stopped.

        Raises ArgumentError for a log of another number of shards or a topic that cannot be,
        ClusterError if it is not ready in `start_seconds`, and what the store raises.
        """
        if self._watch is not None:
            raise ArgumentError("cluster", "it was started before; make another one")
        store = open_store(self._log)
        require_no_shard_log(self._log, store)
        found = ClusterFollower(self._log, store).read().shards if is_cluster(store) else None
        if found not in (None, self._shards):
            reason = f"{self._log} has {found} shards: ask for as many, or another log"
            raise ArgumentError("shards", reason)
        open_topics(SharedTopics(store), self._topics)
        launch = spark_launcher(self._spark, self._options, cpus=self._cpus, tag=self._tag)
        # In local mode there is one executor only.
        together = None if is_local(self._spark) else -(-self._hosts // 2)
        self._registry = Registry(store)
        # From here on another cluster on this log is superseded.
        self._term = self._registry.begin_application(self._tag)
        self._forget_hosts(self._registry, ClusterFollower(self._log, store))
        self._watch = Watch(self._log, self._term, self._poll_seconds / 2, together)
        self._supervisor = Supervisor(launch, self._hosts, reason_of)
        try:
            self._supervisor.start()
            self._watch.start()
            self._wait_led(self._watch, self._supervisor)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End the hosts: what is being written is made durable, connections are closed. A host
        that does not end in time is killed; nothing acknowledged is lost by that."""
        registry, watch, supervisor = self._registry, self._watch, self._supervisor
        if registry is None or watch is None or supervisor is None:
            return
        supervisor.quit()
        watch.stop()
        registry.stop_application(self._term)
        if not supervisor.join(_STOP_SECONDS):
            self._spark.interruptTag(self._tag)
            supervisor.join(_KILL_SECONDS)

    @property
    def bootstrap(self) -> str:
        """`host:port` of every host that answers, for `bootstrap.servers`."""
        return ",".join(f"{host.host}:{host.port}" for host in self.hosts())

    def hosts(self) -> list[HostEntry]:
        """The hosts that belong to the cluster, by slot. One that has just died is among them for
        a moment."""
        return [*self._running().seen.hosts]

    def led(self) -> dict[int, int]:
        """Each shard that is led now, with the node id of its host."""
        return dict(self._running().seen.led)

    def check(self) -> None:
        """Raise ClusterError if another cluster has taken over the log."""
        if self._running().is_superseded:
            raise ClusterError(f"{self._log}: {_SUPERSEDED}")

    def wait(self) -> None:
        """Serve until interrupted. Raises as `check`."""
        while True:
            self.check()
            time.sleep(_CHECK_SECONDS)

    @property
    def _poll_seconds(self) -> float:
        return _URL_POLL_SECONDS if "://" in self._log else _FOLDER_POLL_SECONDS

    def _running(self) -> Watch:
        if self._watch is None:
            raise ClusterError("the cluster was not started: use `with`, or call start()")
        return self._watch

    def _forget_hosts(self, registry: Registry, cluster: ClusterFollower) -> None:
        """Those of earlier applications that are gone."""
        try:
            there = {node.node_id for node in cluster.read().nodes}
        except KcoordError:
            there = set()
        for node_id in registry.hosts().keys() - there:
            registry.remove_host(node_id)

    def _wait_led(self, watch: Watch, supervisor: Supervisor) -> None:
        began = time.monotonic()
        if not watch.wait_led(
            self._hosts, self._shards, self._start_seconds, supervisor.is_hopeless
        ):
            raise self._not_ready(watch, supervisor, time.monotonic() - began)

    def _options(self, slot: int) -> HostOptions:
        return HostOptions(
            log=self._log,
            shards=self._shards,
            application=self._term,
            slot=slot,
            bind=self._bind,
            ports=self._ports,
            config=self._config,
            poll_seconds=self._poll_seconds,
            has_secret=self._bind not in _LOOPBACK,
        )

    def _not_ready(self, watch: Watch, supervisor: Supervisor, seconds: float) -> ClusterError:
        if watch.is_superseded:
            return ClusterError(f"{self._log}: {_SUPERSEDED}")
        waited = f"{self._log}: after {seconds:.0f} s"
        hosts, failures = len(watch.seen.hosts), supervisor.failures()
        if failures:
            return ClusterError(f"{waited} hosts fail: {next(iter(failures.values()))}")
        return ClusterError(
            f"{waited} {hosts} of {self._hosts} hosts are there and {len(watch.seen.led)} of "
            f"{self._shards} shards are led: does Spark have room for so many hosts, and can this "
            "machine reach them?"
        )

    def __enter__(self) -> Cluster:
        self.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self.stop()


_SUPERSEDED = "another cluster was started on this log later, and serves its groups now"
