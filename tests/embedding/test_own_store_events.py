"""A coordinator over a store of one's own keeps what happens to groups where it is told to."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.memory_log import MemoryLog

from pykcoord import ArgumentError, Coordinator, LogLockedError
from pykcoord.keeping import Events
from pykcoord.log import Taken
from pykcoord.log.events import read_events
from pykcoord.log.shared import FolderStore
from pykcoord.log.shared.events import flushes

TOPICS = {"orders": 2}


class Fenced(MemoryLog):
    """Whose epochs rise with each take."""

    epoch = 0

    def take(self, shard: int, new_loader: object) -> Taken:
        self.epoch += 1
        return super().take(shard, new_loader)._replace(epoch=self.epoch)  # type: ignore[arg-type]


def life(log: MemoryLog, events: Events) -> list[str]:
    """A member comes and goes: what is told of the group then."""
    with Coordinator(log, topics=TOPICS, events=events) as coordinator:
        with coordinator.join("billing", topics=["orders"], client_id="app") as member:
            member.wait()
        told = coordinator.explain("billing")
    return [line["text"] for line in told["story"]]


@pytest.mark.parametrize("kind", ["files", "objects"])
def test_what_happened_is_told_over_restarts(tmp_path: Path, kind: str) -> None:
    log = Fenced(4)
    events: Events = tmp_path / "events" if kind == "files" else FolderStore(tmp_path / "events")
    first = life(log, events)
    assert any("joined" in text for text in first)
    second = life(log, events)
    assert len(second) > len(first)
    assert second[: len(first)] == first
    if kind == "files":
        records = [one for of in read_events(tmp_path / "events").values() for one in of]
        assert any(record.key == b"billing" for record in records)
    else:
        assert isinstance(events, FolderStore)
        assert flushes(events) == [], "what it had flushed became pieces"


def test_without_a_place_nothing_is_kept_and_explain_says_so() -> None:
    with (
        Coordinator(MemoryLog(4), topics=TOPICS) as coordinator,
        pytest.raises(ArgumentError, match="keeps no events"),
    ):
        coordinator.explain("billing")


def test_a_directory_of_events_is_one_process_s(tmp_path: Path) -> None:
    with (
        Coordinator(MemoryLog(4), topics=TOPICS, events=tmp_path),
        pytest.raises(LogLockedError),
        Coordinator(MemoryLog(4), events=tmp_path),
    ):
        pass
    with Coordinator(MemoryLog(4), topics=TOPICS, events=tmp_path):
        pass  # it was given up


def test_a_directory_keeps_them_beside_its_log_alone(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="beside its log"):
        Coordinator(tmp_path, events=tmp_path / "other")
