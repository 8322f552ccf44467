"""Every frame of a group API that a real client and a real broker exchanged is read, and written
back to the same bytes."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pykcoord import _native

#: API key to the highest version served.
OWNED = {8: 10, 9: 10, 11: 9, 12: 4, 13: 5, 14: 5, 15: 6, 16: 5, 42: 2, 47: 0}


def frames(trace: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line number and line of each frame of an owned API."""
    with gzip.open(trace, "rt") as lines:
        for number, line in enumerate(lines, 1):
            frame = json.loads(line)
            if frame.get("api") in OWNED:
                yield number, frame


def test_frames_are_read_and_written_back_byte_for_byte(trace: Path) -> None:
    for number, frame in frames(trace):
        data = bytes.fromhex(frame["hex"])
        again = _native.reencode(data, frame["api"], frame["v"], frame["dir"] == "req")
        assert again.hex() == frame["hex"], f"line {number}: {frame['name']} v{frame['v']}"


def test_the_traces_hold_every_owned_api() -> None:
    traces = Path(__file__).parent.parent / "traces"
    seen = {frame["api"] for trace in traces.glob("*.jsonl.gz") for _, frame in frames(trace)}
    assert seen == set(OWNED)


def test_a_frame_cut_short_is_an_error_that_names_the_field() -> None:
    heartbeat = bytes.fromhex("000c0004000000070003636c69000367310000000103")
    with pytest.raises(ValueError, match=r"member_id \(byte 22\) goes beyond the end of the frame"):
        _native.reencode(heartbeat, 12, 4, True)


def test_an_api_or_version_that_is_not_served_is_refused() -> None:
    for api_key, version in [(0, 3), (8, 1), (8, 11), (11, -1)]:
        with pytest.raises(ValueError, match="not served"):
            _native.reencode(b"", api_key, version, True)
