"""What Prometheus scrapes of a watcher. Names are promises (docs/kafka.md).

The number of series is bounded: lag is of the groups that have most of it.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Iterable

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from pykcoord.clock import monotonic_seconds
from pykcoord.lag import GroupLag, Lags, Owner, PartitionLag, widest
from pykcoord.lag_metrics import lag_metrics
from pykcoord.watch.model import WatchedMember
from pykcoord.watch.tables import Tables
from pykcoord.watch.watcher import Watcher

__all__ = ["WatchMetrics"]

_SAMPLE_SECONDS = 30.0


class WatchMetrics:
    """The metrics of one watcher in one registry; to be made on its loop."""

    def __init__(self, watcher: Watcher) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(_Collector(watcher, asyncio.get_running_loop()))


class _Collector(Collector):
    """Takes a sample on the watcher's loop at each scrape."""

    def __init__(self, watcher: Watcher, loop: asyncio.AbstractEventLoop) -> None:
        self._watcher = watcher
        self._loop = loop

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterable[Metric]:
        async def sample() -> list[Metric]:
            return list(_sample(self._watcher))

        return asyncio.run_coroutine_threadsafe(sample(), self._loop).result(_SAMPLE_SECONDS)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"pykcoord_watch_{name}", text, value=value)


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(f"pykcoord_watch_{name}", text, value=value)


def _sample(watcher: Watcher) -> Iterable[Metric]:
    tables = watcher.tables()
    yield from _of_groups(tables)
    settings = watcher.settings
    yield from _of_lag(tables, settings.metrics_groups)
    yield from lag_metrics(_lags(tables, settings.metrics_groups), settings.metrics_series)
    cluster = watcher.cluster
    yield _gauge("metadata_age_seconds", "Since the last answer to Metadata.", cluster.age_seconds)
    yield _counter("end_errors", "Partitions whose end was not told.", watcher.ends.errors)
    polls = watcher.poller is not None
    yield _gauge("polling", "1: coordinators are asked, since the log may not be read.", polls)
    if watcher.follower is not None:
        counts = watcher.follower.counts
        yield _counter(
            "records", "Records of __consumer_offsets that were read.", counts["records"]
        )
        yield _counter("read_bytes", "Bytes of their batches.", counts["bytes"])
        yield _counter("fetch_errors", "Answers to Fetch that were errors.", counts["errors"])
        text = "Times that the cluster took back what had been read."
        yield _counter("truncations", text, counts["truncations"])
        text = "Partitions that were read anew, since their log had lost what was read last."
        yield _counter("begun_anew", text, counts["begun_anew"])
        behind = watcher.follower.behind_records
        yield _gauge("behind_records", "Records that leaders have and were not read.", behind)
        now = monotonic_seconds()
        oldest = max((now - one.as_of for one in watcher.follower.partitions.values()), default=0.0)
        text = "Since the partition that was heard of longest ago was heard of."
        yield _gauge("silence_seconds", text, oldest)
        state = watcher.state
        parts = state.partitions.values() if state is not None else ()
        broken = sum(one.broken is not None for one in parts)
        yield _gauge("broken_partitions", "Partitions with a record that cannot be read.", broken)
    if watcher.checker is not None:
        checks = CounterMetricFamily(
            "pykcoord_watch_checks", "Groups that were compared.", labels=["result"]
        )
        for result, count in watcher.checker.counts.items():
            checks.add_metric([result], count)
        yield checks


def _of_groups(tables: Tables) -> Iterable[Metric]:
    found: dict[tuple[str, str], int] = {}
    members = offsets = 0
    for row in tables.groups:
        key = (row.group.type, row.group.state)
        found[key] = found.get(key, 0) + 1
        members += len(row.group.members)
        offsets += len(row.offsets)
    groups = GaugeMetricFamily(
        "pykcoord_watch_groups", "Groups that are watched.", labels=["type", "state"]
    )
    for key, count in sorted(found.items()):
        groups.add_metric(list(key), count)
    yield groups
    yield _gauge("members", "Their members.", members)
    yield _gauge("offsets", "Their committed offsets.", offsets)


def _lags(tables: Tables, most: int) -> Lags:
    """Of the groups furthest behind, with the owners of now."""
    known = {row.group.group_id: row for row in tables.groups if row.lag is not None}
    chosen, left_out = widest(((one, row.lag or 0) for one, row in known.items()), most)
    groups = []
    for group_id in chosen:
        partitions = [
            PartitionLag(
                of.committed.topic, of.committed.partition, of.lag, of.behind_ms, of.is_at_least,
                _owner(of.member),
            )
            for of in known[group_id].offsets
            if of.lag is not None
        ]  # fmt: skip
        groups.append(GroupLag(group_id, partitions))
    return Lags(groups, left_out)


def _owner(member: WatchedMember | None) -> Owner | None:
    if member is None:
        return None
    return Owner(member.member_id, member.instance_id, member.client_id, member.client_host)


def _of_lag(tables: Tables, most: int) -> Iterable[Metric]:
    lag = GaugeMetricFamily(
        "pykcoord_watch_group_lag",
        "Records between what a group has committed and the ends, of the groups with most.",
        labels=["group"],
    )
    unknown = GaugeMetricFamily(
        "pykcoord_watch_group_unknown_partitions",
        "Partitions of a group whose lag is not known.",
        labels=["group"],
    )
    age = GaugeMetricFamily(
        "pykcoord_watch_group_ends_age_seconds",
        "Age of the oldest end that the lag is counted to.",
        labels=["group"],
    )
    rows = [row for row in tables.groups if row.lag is not None or row.unknown]
    for row in heapq.nlargest(most, rows, key=lambda row: (row.lag or 0, row.unknown)):
        name = [row.group.group_id]
        if row.lag is not None:
            lag.add_metric(name, row.lag)
            age.add_metric(name, (row.end_age_ms or 0) / 1000)
        unknown.add_metric(name, row.unknown)
    yield from (lag, unknown, age)
