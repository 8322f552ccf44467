"""The recorder between the loop and a place that is slow, or takes nothing."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from pykcoord._native import EventBatch
from pykcoord.log.event_keeping import Cut
from pykcoord.log.events import Kept, Records
from pykcoord.recorder import Recorder

NOW = 1_795_000_000_000


def batch(count: int = 1, shard: int = 0) -> EventBatch:
    value = b'{"kind":"member_joined","group_id":"g","timestamp_ms":1}'
    return EventBatch([(shard, NOW, b"g", value)] * count)


class Place:
    """Keeps by shard how many events came, and the notes beside them. `during` is called within
    each append."""

    name = "a place"
    linger_seconds = 0.0
    is_shared = False

    def __init__(self) -> None:
        self.counts: dict[int, int] = {}
        self.notes: list[tuple[int, dict[str, Any]]] = []
        self.failing: set[int] = set()
        self.appends = 0
        self.during: Any = lambda: None

    def leads(self, shard: int, epoch: int) -> None:
        pass

    def append(self, records: Mapping[int, Sequence[Kept | Records]]) -> dict[int, Exception]:
        self.appends += 1
        self.during()
        for shard, of in records.items():
            if shard in self.failing:
                continue
            for one in of:
                if isinstance(one, Records):
                    self.counts[shard] = self.counts.get(shard, 0) + one.number
                else:
                    self.notes.append((shard, json.loads(one[2])))
        return {shard: OSError("disk full") for shard in records if shard in self.failing}

    def expire(self, now_ms: int) -> dict[int, Exception]:
        return {}

    def take_cut(self) -> Cut:
        return 0, 0

    def close(self) -> None:
        pass


@pytest.fixture
def place() -> Place:
    return Place()


@pytest.fixture
def recorder(place: Place) -> Iterator[Recorder]:
    made = Recorder(place, lambda: NOW)
    yield made
    place.during = lambda: None
    made.close()


def test_who_wants_to_read_waits_for_what_was_before_and_not_for_what_comes(
    place: Place, recorder: Recorder
) -> None:
    """Events that come without end: something waits always."""
    place.during = lambda: recorder.take(batch())
    recorder.take(batch(5))
    assert recorder.flush(timeout_seconds=60)
    assert place.counts[0] >= 5


def test_it_waits_for_what_is_being_written(place: Place, recorder: Recorder) -> None:
    began, goes_on = threading.Event(), threading.Event()

    def during() -> None:
        began.set()
        assert goes_on.wait(60)

    place.during = during
    recorder.take(batch())
    assert began.wait(60)
    assert not recorder.flush(timeout_seconds=0.01)
    goes_on.set()
    assert recorder.flush(timeout_seconds=60)
    assert place.counts == {0: 1}


def test_what_the_disk_did_not_take_is_told_where_it_is_missing(
    place: Place, recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    place.failing = {0}
    recorder.shard_loaded(0, 1)
    for _ in range(2):
        recorder.take(batch(3, shard=0))
        recorder.take(batch(2, shard=1))
        assert recorder.flush(timeout_seconds=60)
    assert recorder.not_kept["disk"] == 6
    assert caplog.text.count("events of shard 0 are not kept: disk full") == 1
    place.failing = set()
    recorder.take(batch(1, shard=0))
    recorder.take(batch(1, shard=1))
    assert recorder.flush(timeout_seconds=60)
    kinds = [(shard, note["kind"], note.get("count")) for shard, note in place.notes]
    assert sorted(kinds) == [
        (0, "coordinator_started", None),
        (0, "events_dropped", 6),
        (0, "shard_loaded", None),
        (1, "coordinator_started", None),
    ]


def test_a_recorder_that_ended_makes_nobody_wait(place: Place) -> None:
    recorder = Recorder(place, lambda: NOW)
    recorder.lose()
    recorder.take(batch())
    assert recorder.flush(timeout_seconds=60)
    assert recorder.not_kept["behind"] == 1
    recorder.close()
    assert place.appends == 0
