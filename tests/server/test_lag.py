"""How far groups are behind, in records and in time; who owns a partition is as of now."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from support.console import Console

from pykcoord import Config, Coordinator
from pykcoord.catalogue import TopicCatalogue
from pykcoord.consumer_protocol import encode_assignment
from pykcoord.lag import EndTimes, GroupLag, Lags, Owner, PartitionLag, Stalls
from pykcoord.lag_metrics import lag_metrics
from pykcoord.lag_watch import LagWatch

PLACE = ("orders", 0)
SECOND = 1_000


def sampled(*samples: tuple[int, int]) -> EndTimes:
    times = EndTimes()
    for at_s, end in samples:
        times.put(PLACE, end, at_s * SECOND)
    return times


def behind(times: EndTimes, offset: int, now_s: int) -> tuple[float | None, bool]:
    found, is_at_least = times.behind_ms(PLACE, offset, now_s * SECOND)
    return (None if found is None else found / SECOND), is_at_least


def test_time_behind_is_since_the_end_passed_what_is_committed() -> None:
    times = sampled((0, 100), (10, 200), (20, 200), (30, 300))
    assert behind(times, 300, 40) == (0, False)
    assert behind(times, 350, 40) == (0, False)
    # Passed 250 in the middle between 20 s, when it was still 200, and 30 s.
    assert behind(times, 250, 40) == (15, False)
    assert behind(times, 200, 40) == (20, False)
    assert behind(times, 150, 40) == (35, False)
    assert behind(times, 50, 40) == (40, True)
    assert behind(EndTimes(), 50, 40) == (None, False)


def test_before_the_first_sample_a_commit_says_how_long_at_least() -> None:
    times = EndTimes()
    times.seed(PLACE, 100, 5 * SECOND)
    times.put(PLACE, 200, 60 * SECOND)
    times.seed(PLACE, 10, 0)  # known by now
    assert behind(times, 50, 100) == (95, True)
    assert behind(times, 100, 100) == (40, True)
    assert behind(times, 150, 100) == (40, True)


def test_a_long_past_becomes_coarse_and_a_topic_that_is_made_again_begins_anew() -> None:
    times = sampled(*((at, 10 * at) for at in range(10_000)))
    seconds, is_at_least = behind(times, 5_000, 10_000)
    assert not is_at_least
    assert seconds is not None
    assert abs(seconds - 9_500) < 1
    times.put(PLACE, 3, 10_001 * SECOND)
    assert behind(times, 1, 10_003) == (2, True)
    times.keep([])
    assert len(times) == 0


class Rows:
    """A node of one shard, with a group whose only member can be changed."""

    shards = 1

    def __init__(self) -> None:
        self.committed = {0: 10, 1: 20}
        self.owner = "app-1"

    def stats(self) -> dict[str, Any]:
        return {"offsets": len(self.committed)}

    def offsets(self, shard: int) -> list[tuple[Any, ...]]:
        rest = (-1, "", 0, -1, bytes(16))
        return [("g", "orders", one, offset, *rest) for one, offset in self.committed.items()]

    def groups(self, shard: int) -> list[tuple[Any, ...]]:
        assignment = encode_assignment([("orders", 0)])
        member = (self.owner, None, "app", "/10.0.0.1", 1, 1, b"", assignment, None)
        return [("g", "classic", "Stable", "consumer", 1, "range", "", 0, [member], None)]


def test_partitions_that_are_gone_make_room_for_those_that_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Groups for an hour, each with another id."""
    monkeypatch.setattr("pykcoord.lag._MOST_PLACES", 100)
    stalls = Stalls()
    hour = 3_600_000
    for number in range(100):
        assert stalls.look((f"once-{number}", "orders", 0), 5, 10, number) is None
    for minute in range(3):
        at_ms = 2 * hour + minute * 120_000
        late = stalls.look(("g", "orders", 0), 5, 10 + 10 * minute, at_ms)
    assert late == 240_000


def test_a_new_owner_has_the_lag_as_soon_as_it_owns_the_partition() -> None:
    rows, catalogue = Rows(), TopicCatalogue({"orders": 2})
    watch = LagWatch(rows, catalogue, lambda recorded: None)
    assert asyncio.run(watch.lags(0)) == Lags([], 0)
    catalogue.set_end_offsets({("orders", 0): 110, ("orders", 1): 25})

    def owned() -> dict[int, tuple[int, str | None]]:
        (group,) = asyncio.run(watch.lags(0)).groups
        return {
            one.partition: (one.lag, one.owner.member_id if one.owner is not None else None)
            for one in group.partitions
        }

    assert owned() == {0: (100, "app-1"), 1: (5, None)}
    rows.owner = "app-2"
    watch.hear([0])
    assert owned() == {0: (100, "app-2"), 1: (5, None)}


class Fixed(Collector):
    def __init__(self, lags: Lags, most: int) -> None:
        self.lags, self.most = lags, most

    def collect(self) -> Any:
        return lag_metrics(self.lags, self.most)


def exposed(lags: Lags, most: int) -> dict[str, list[Any]]:
    """The samples by family, as a parser of OpenMetrics reads them."""
    registry = CollectorRegistry()
    registry.register(Fixed(lags, most))
    text = generate_latest(registry).decode()
    return {one.name: one.samples for one in text_string_to_metric_families(text)}


def test_metrics_are_valid_and_bounded() -> None:
    hostile = 'a"b\\c\n{d}'
    owner = Owner("app-1", None, hostile, "/10.0.0.1")
    partitions = [PartitionLag("orders", at, at, 1_500, False, owner) for at in range(100)]
    partitions += [PartitionLag("bills", 0, 7, None, False, None)]
    found = exposed(Lags([GroupLag(hostile, partitions), GroupLag("h", [])], 3), 5)
    (one, other) = found["pykcoord_group_lag"]
    assert (one.labels, one.value) == ({"group": hostile}, sum(range(100)) + 7)
    assert (other.labels, other.value) == ({"group": "h"}, 0)
    assert found["pykcoord_group_lag_seconds"][0].value == 1.5
    assert [one.value for one in found["pykcoord_partition_lag"]] == [99, 98, 97, 96, 95]
    members = {one.labels["member"]: one.value for one in found["pykcoord_member_lag"]}
    assert members == {"app-1": sum(range(100)), "": 7}
    assert found["pykcoord_lag_groups_left_out"][0].value == 3


def test_a_member_that_went_has_no_lag_at_the_next_scrape(tmp_path: Path) -> None:
    config = Config(
        group_initial_rebalance_delay_ms=0, offsets_topic_num_partitions=3,
        group_lag_metrics_groups=1, group_lag_metrics_include="bill*",
    )  # fmt: skip
    topics = {"orders": 4}
    with Coordinator(tmp_path, config=config, topics=topics, web="127.0.0.1:0") as coordinator:
        assert coordinator.web_url is not None
        console = Console(coordinator.web_url)
        coordinator.set_end_offsets({("orders", at): 100 for at in range(4)})

        def scraped() -> dict[str, dict[str, float]]:
            accept = {"Accept": "application/openmetrics-text; version=1.0.0"}
            text = console.ask("GET", "/metrics", headers=accept)[2].decode()
            families = {of.name: of.samples for of in text_string_to_metric_families(text)}
            return {
                name: {one.labels.get("client_id", ""): one.value for one in families[name]}
                for name in ("pykcoord_member_lag", "pykcoord_group_lag")
            }

        with coordinator.join("billing", ["orders"], client_id="a") as first:
            first.wait()
            first.commit({("orders", at): 10 for at in range(4)})
            assert scraped()["pykcoord_member_lag"] == {"a": 360}
            with coordinator.join("billing", ["orders"], client_id="b") as second:
                second.wait()
                first.wait()
                shared = scraped()["pykcoord_member_lag"]
                assert shared.keys() == {"a", "b"}
                assert sum(shared.values()) == 360
        with coordinator.join("billing", ["orders"], client_id="c") as third:
            third.wait()
            assert scraped() == {
                "pykcoord_member_lag": {"c": 360}, "pykcoord_group_lag": {"": 360},
            }  # fmt: skip
        with coordinator.join("other", ["orders"], client_id="d") as other:
            other.wait()
            other.commit({("orders", 0): 1})
            # Nobody has billing's partitions now; other is not among the patterns.
            assert scraped() == {
                "pykcoord_member_lag": {"": 360}, "pykcoord_group_lag": {"": 360},
            }  # fmt: skip
