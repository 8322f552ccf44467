"""The log of what happened to groups: what is kept, what is left out, what damage does to it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from pykcoord._native import merge_events
from pykcoord.log import events
from pykcoord.log.events import (
    EVENTS_TOPIC,
    EventLimits,
    EventLog,
    EventRecord,
    decode_batch,
    encode_batch,
    event_shards,
    read_events,
)

NOW = 1_795_000_000_000


def event(number: int, group: str = "g") -> tuple[int, bytes, bytes]:
    """One as the native node gives it, of the usual size."""
    member = {
        "member_id": f"billing-worker-{number % 7}-6c1f0c9e-4d0e-4a1b-9a53-1f6f{number % 7:08x}",
        "client_id": f"billing-worker-{number % 7}",
        "client_host": f"/10.1.2.{number % 7}",
    }
    kinds = ("member_rejoined", "rebalance_started", "join_phase_completed", "group_stable")
    fields = {
        "kind": kinds[number % 4], "group_id": group, "timestamp_ms": NOW + 7 * number,
        "generation_id": number // 4, "count": 7, "member": member,
    }  # fmt: skip
    return NOW + 7 * number, group.encode(), json.dumps(fields, separators=(",", ":")).encode()


def segments(log: EventLog) -> list[Path]:
    return sorted(log.folder.glob("*.log"))


def test_a_batch_is_read_as_it_was_written() -> None:
    records = [event(number) for number in range(9)] + [(NOW - 5, b"", b"{}")]
    found = decode_batch(encode_batch(41, records))
    assert [one.offset for one in found] == list(range(41, 51))
    assert [tuple(one[1:]) for one in found] == records


def test_what_is_appended_is_there_again(tmp_path: Path) -> None:
    log = EventLog(tmp_path, 3, merge=merge_events)
    log.append([event(0), event(1)])
    log.append([event(2)])
    again = EventLog(tmp_path, 3, merge=merge_events)
    assert (again.start_offset, again.end_offset) == (0, 3)
    again.append([event(3)])
    assert event_shards(tmp_path) == [3]
    assert [one.offset for one in read_events(tmp_path)[3]] == [0, 1, 2, 3]
    data = again.read(2, 1)
    assert [one.offset for one in decode_batch(data)] == [2]


def test_full_segments_become_small_and_keep_their_offsets(tmp_path: Path) -> None:
    limits = EventLimits(segment_bytes=64 * 1024)
    log = EventLog(tmp_path, 0, limits, merge=merge_events)
    count = 10_000
    for number in range(0, count, 4):
        log.append([event(one) for one in range(number, number + 4)])
    assert [one.offset for one in log.records()] == list(range(count))
    assert len(segments(log)) > 2
    size = sum(path.stat().st_size for path in segments(log))
    assert size / count < 100, f"{size / count} bytes an event"
    for offset in (0, 1, 4_999, count - 1):
        batches = log.read(offset, 1)
        known = [one.offset for one in decode_batch(batches)]
        assert offset in known


def test_what_is_older_is_not_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = EventLog(tmp_path, 0, EventLimits(segment_bytes=16 * 1024), merge=merge_events)
    for number in range(0, 4_000, 4):
        log.append([event(one) for one in range(number, number + 4)])
    decoded: list[int] = []

    def decode(batch: bytes) -> list[EventRecord]:
        decoded.append(len(batch))
        return decode_batch(batch)

    monkeypatch.setattr(events, "decode_batch", decode)
    since_ms = event(3_990)[0]
    assert [one.offset for one in log.records(since_ms)][-10:] == list(range(3_990, 4_000))
    assert log.offset_at(since_ms - 1) == (3_990, since_ms)
    assert log.offset_at(since_ms + 10**6) is None
    assert sum(decoded) < sum(path.stat().st_size for path in segments(log)) / 4


def test_old_and_large_logs_lose_their_oldest_segments(tmp_path: Path) -> None:
    limits = EventLimits(segment_bytes=8_192, retention_bytes=30_000, retention_ms=60_000)
    log = EventLog(tmp_path, 0, limits, merge=merge_events)
    for number in range(2_000):
        log.append([event(number)])
    log.expire(0)
    assert sum(path.stat().st_size for path in segments(log)) <= 30_000
    assert log.start_offset > 0
    for path in segments(log):
        os.utime(path, (1, 1))
    log.expire(120_000_000)
    assert len(segments(log)) == 1
    assert [one.offset for one in log.records()][-1] == 1_999


def test_one_group_does_not_put_out_the_others(tmp_path: Path) -> None:
    limits = EventLimits(segment_bytes=16_384, group_bytes=8_192)
    log = EventLog(tmp_path, 0, limits, merge=merge_events)
    log.append([event(0, "quiet")])
    number = 0
    while len(segments(log)) < 2:
        number += 1
        log.append([event(number, "busy")])
    kept = [one for one in log.records() if one.offset < number]
    assert kept[0].key == b"quiet"
    dropped = json.loads(kept[1].value)
    assert dropped["kind"] == "events_dropped"
    busy = [one for one in kept[2:] if one.key == b"busy"]
    assert dropped["count"] + len(busy) + 1 == number
    assert busy[-1].offset == number - 1, "the newest are kept"


def test_a_group_is_bounded_over_all_segments_and_over_starts(tmp_path: Path) -> None:
    limits = EventLimits(segment_bytes=8_192, group_bytes=64_000)
    log = EventLog(tmp_path, 0, limits, merge=merge_events)
    number = over = 0
    for start in range(3):
        if start:
            over += log.over_group
            log = EventLog(tmp_path, 0, limits, merge=merge_events)
        log.append([event(number, f"quiet-{start}")])
        number += 1
        for _ in range(1_500):
            log.append([event(number, "busy"), event(number + 1, "other")])
            number += 2
    over += log.over_group
    full = sorted(log.folder.glob("*.log"))[:-1]
    sizes: dict[bytes, int] = {}
    told: dict[bytes, int] = {}
    known = list(log.records())
    for one in known:
        if json.loads(one.value)["kind"] == "events_dropped":
            told[one.key] = told.get(one.key, 0) + json.loads(one.value)["count"]
        elif one.offset < int(full[-1].stem) + 1:
            sizes[one.key] = sizes.get(one.key, 0) + len(one.value)
    assert {f"quiet-{start}".encode() for start in range(3)} <= {one.key for one in known}
    for key in (b"busy", b"other"):
        assert 32_000 < sizes[key] < 64_000
        left = sum(one.key == key for one in known) - sum(
            one.key == key and b"events_dropped" in one.value for one in known
        )
        assert told[key] + left == 4_500
        assert max(one.offset for one in known if one.key == key) >= number - 2
    assert over == sum(told.values())
    assert [one.offset for one in known] == sorted({one.offset for one in known})


def test_what_a_shard_has_too_much_of_is_counted(tmp_path: Path) -> None:
    limits = EventLimits(segment_bytes=8_192, retention_bytes=30_000)
    log = EventLog(tmp_path, 0, limits, merge=merge_events)
    for number in range(2_000):
        log.append([event(number)])
    log.expire(NOW)
    known = list(log.records())
    assert log.over_shard == known[0].offset > 0
    assert len(known) + log.over_shard == 2_000
    assert {path.stem for path in log.folder.glob("*.shares")} <= {
        path.stem for path in log.folder.glob("*.log")
    }


@pytest.mark.parametrize("damage", ["torn", "middle", "zeros", "noise"])
def test_damage_is_left_out_and_the_log_goes_on(tmp_path: Path, damage: str) -> None:
    log = EventLog(tmp_path, 0, merge=merge_events)
    for number in range(50):
        log.append([event(number)])
    (path,) = segments(log)
    data = bytearray(path.read_bytes())
    if damage == "torn":
        data = data[:-7]
    elif damage == "middle":
        data[len(data) // 2] ^= 0xFF
    elif damage == "zeros":
        data += bytes(100)
    else:
        data += os.urandom(300)
    path.write_bytes(data)
    again = EventLog(tmp_path, 0, merge=merge_events)
    before = [one.offset for one in again.records()]
    assert len(before) >= 49
    again.append([event(50)])
    after = [one.offset for one in EventLog(tmp_path, 0).records()]
    assert after[: len(before)] == before
    assert len(after) == len(before) + 1
    assert after == sorted(set(after))


def test_the_topic_has_the_name_of_the_folder(tmp_path: Path) -> None:
    assert EventLog(tmp_path, 7).folder == tmp_path / f"{EVENTS_TOPIC}-7"
