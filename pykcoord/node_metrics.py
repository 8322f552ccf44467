"""What only the node can count (`_native.Node.stats`), as Prometheus has it. Names are promises
(docs/operating)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

__all__ = ["metrics_of"]

_CONSUMER_GROUP_STATES = ("empty", "assigning", "reconciling", "stable")
_GROUP_STATES = ("empty", "preparing_rebalance", "completing_rebalance", "stable", "dead")


def metrics_of(stats: Mapping[str, Any]) -> Iterable[Metric]:
    """Groups, members, offsets, rebalances, findings, from the node's `stats`."""
    groups = GaugeMetricFamily("pykcoord_groups", "Groups by state.", labels=("state",))
    for state in _GROUP_STATES:
        if f"groups_{state}" in stats:
            groups.add_metric((state,), stats[f"groups_{state}"])
    yield groups
    consumers = GaugeMetricFamily(
        "pykcoord_consumer_groups", "Consumer groups (KIP-848) by state.", labels=("state",)
    )
    for state in _CONSUMER_GROUP_STATES:
        if f"consumer_groups_{state}" in stats:
            consumers.add_metric((state,), stats[f"consumer_groups_{state}"])
    yield consumers
    for name, text in (("members", "Members of groups."), ("offsets", "Committed offsets.")):
        if name in stats:
            yield GaugeMetricFamily(f"pykcoord_{name}", text, value=stats[name])
    rebalances = CounterMetricFamily(
        "pykcoord_rebalances", "Rebalances by what caused them.", labels=("cause",)
    )
    for cause, count in stats.get("rebalances_total", {}).items():
        rebalances.add_metric((cause,), count)
    yield rebalances
    for name, text, label in (
        (
            "coordinator_assignments",
            "Assignments that the coordinator computed, by strategy.",
            "strategy",
        ),
        (
            "findings",
            "What was wrong with assignments of clients, or kept the coordinator from its own.",
            "kind",
        ),
        ("joins_held", "JoinGroups of newcomers that were held, by cause.", "cause"),
        ("events_not_kept", "Events of groups that the recorder keeps no more, by why.", "why"),
    ):
        family = CounterMetricFamily(f"pykcoord_{name}", text, labels=(label,))
        for value, count in stats.get(f"{name}_total", {}).items():
            family.add_metric((value,), count)
        yield family
    yield CounterMetricFamily(
        "pykcoord_events_dropped",
        "Events of groups that were dropped, because too many waited.",
        value=stats.get("events_dropped_total", 0),
    )
    yield CounterMetricFamily(
        "pykcoord_consumer_group_rebalances",
        "Epochs that consumer groups came to.",
        value=stats.get("consumer_rebalances_total", 0),
    )
    yield CounterMetricFamily(
        "pykcoord_members_fenced",
        "Heartbeats of members of consumer groups that were refused for their epoch.",
        value=stats.get("members_fenced_total", 0),
    )
    yield CounterMetricFamily(
        "pykcoord_removals_put_off",
        "Members that left or expired, and stayed until their group might rebalance.",
        value=stats.get("removals_put_off_total", 0),
    )
    yield CounterMetricFamily(
        "pykcoord_members_expired",
        "Members removed because their session ended.",
        value=stats.get("members_expired_total", 0),
    )
