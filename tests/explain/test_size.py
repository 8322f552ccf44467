"""A day of a busy group: how long explain takes, and what an event takes on disk."""

from __future__ import annotations

import json
import time
from pathlib import Path

from pykcoord._native import merge_events
from pykcoord.explain import explain
from pykcoord.explain.story import event_fields
from pykcoord.log.events import EventLog
from pykcoord.recorded import decode_events
from pykcoord.virtual import World

from .acts import MINUTE, settled

EVENTS = 10_000


def busy(tmp_path: Path) -> EventLog:
    """The log of ten thousand events of one group, in batches as a server writes them."""
    world = World({"orders": 12})
    members = settled(world, 6)
    while len(world.events) < EVENTS / 10:
        members[0].leave("restarts")
        world.run(5_000)
        members[0].start()
        world.run(MINUTE)
    log = EventLog(tmp_path, 0, merge=merge_events)
    length = world.events[-1].timestamp_ms - world.events[0].timestamp_ms + MINUTE
    count = 0
    while count < EVENTS:
        batch: list[tuple[int, bytes, bytes]] = []
        shift = count // len(world.events) * length
        for event in world.events:
            at_ms = event.timestamp_ms + shift
            if batch and at_ms > batch[0][0] + 250:
                log.append(batch)
                batch = []
            fields = {**event_fields(event), "group_id": "g", "timestamp_ms": at_ms}
            batch.append((at_ms, b"g", json.dumps(fields, separators=(",", ":")).encode()))
        log.append(batch)
        count += len(world.events)
    return log


def test_a_day_of_a_busy_group(tmp_path: Path) -> None:
    log = busy(tmp_path)
    started = time.process_time()
    events = [*decode_events(log.records())]
    report = explain(events, "g")
    seconds = time.process_time() - started
    size = sum(path.stat().st_size for path in log.folder.iterdir())
    assert len(events) >= EVENTS
    assert report.rebalances
    assert size / len(events) < 100, f"{size / len(events):.1f} bytes an event"
    # Of the processor, and with room for a machine that is slower: less than half a second here.
    assert seconds < 3, f"{seconds:.2f} s"
