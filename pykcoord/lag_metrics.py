"""Lag as Prometheus has it, of a coordinator and of a watched cluster alike. Names are promises
(docs/lag.md), and the number of series is bounded."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from prometheus_client.core import GaugeMetricFamily, Metric

from pykcoord.lag import Lags, PartitionLag

__all__ = ["lag_metrics"]


def lag_metrics(lags: Lags, most_series: int) -> Iterable[Metric]:
    """Families of groups, topics, members and partitions; of the last two at most so many series
    each, those with most lag."""
    groups = _gauge("group_lag", "Records that a group is behind.", "group")
    seconds = _gauge("group_lag_seconds", "For how long its last partition is behind.", "group")
    topics = _gauge("topic_lag", "Records that a group is behind in a topic.", "group", "topic")
    for group in lags.groups:
        groups.add_metric((group.group_id,), group.lag)
        behind = [one.behind_ms for one in group.partitions if one.behind_ms is not None]
        if behind:
            seconds.add_metric((group.group_id,), max(behind) / 1000)
        by_topic: dict[str, int] = {}
        for one in group.partitions:
            by_topic[one.topic] = by_topic.get(one.topic, 0) + one.lag
        for topic, lag in sorted(by_topic.items()):
            topics.add_metric((group.group_id, topic), lag)
    yield from (groups, seconds, topics)
    yield _members(lags, most_series)
    yield from _partitions(lags, most_series)
    yield GaugeMetricFamily(
        "pykcoord_lag_groups_left_out",
        "Groups whose lag is known, and that have no series.",
        value=lags.left_out,
    )


def _members(lags: Lags, most: int) -> Metric:
    """By who owns the partitions now; without a name where nobody does."""
    found: dict[tuple[str, str, str, str], int] = {}
    for group in lags.groups:
        for one in group.partitions:
            owner = one.owner
            who = (owner.instance_id or owner.member_id, owner.client_id, owner.client_host) \
                if owner is not None else ("", "", "")  # fmt: skip
            key = (group.group_id, *who)
            found[key] = found.get(key, 0) + one.lag
    family = _gauge(
        "member_lag", "Records that the partitions are behind that a member owns now.",
        "group", "member", "client_id", "client_host",
    )  # fmt: skip
    for key, lag in heapq.nsmallest(most, found.items(), key=lambda of: (-of[1], of[0])):
        family.add_metric(key, lag)
    return family


def _partitions(lags: Lags, most: int) -> Iterable[Metric]:
    labels = ("group", "topic", "partition")
    records = _gauge("partition_lag", "Records that a group is behind in a partition.", *labels)
    seconds = _gauge("partition_lag_seconds", "For how long it is behind there.", *labels)
    every = ((group.group_id, one) for group in lags.groups for one in group.partitions)

    def order(of: tuple[str, PartitionLag]) -> tuple[int, str, str, int]:
        return -of[1].lag, of[0], of[1].topic, of[1].partition

    for group_id, one in heapq.nsmallest(most, every, key=order):
        key = (group_id, one.topic, str(one.partition))
        records.add_metric(key, one.lag)
        if one.behind_ms is not None:
            seconds.add_metric(key, one.behind_ms / 1000)
    yield from (records, seconds)


def _gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"pykcoord_{name}", text, labels=labels)
