"""A bounded run of the whole-server fuzzer; `make fuzz-server` is the same for longer."""

from __future__ import annotations

import asyncio
import random
import secrets
import struct
from pathlib import Path

import pytest
import uvloop
from attack.frames import NODE_LEVEL
from support.kio_client import decode, encode

from fuzz.bodies import KEYS, Bodies, versions
from fuzz.mutations import mutated
from fuzz.rounds import Found, learn, read_frames, run_again, run_in_child, write_frame
from fuzz.session import Finding, session
from pykcoord.server import TopicCatalogue

_SEED = 25
# With the first seed; each is some milliseconds.
_FRAMES_TO_MIX = 2_000
_ROUNDS, _FRESH_ROUNDS = 6, 4
# FindCoordinator v4, whose keys are 2^31 - 1 by its own account.
_LYING_COUNT = struct.pack(">hhih", 10, 4, 1, 1) + b"x\0\0\xff\xff\xff\xff\x0f" + bytes(7)
_DESCRIBE_G = encode(69, 1, group_ids=("g",), include_authorized_operations=False)[4:]
_METADATA = struct.pack(">hhihi", 3, 1, 1, -1, -1)  # all topics


def test_no_frame_of_fixed_seeds_ends_or_stalls_the_server(tmp_path: Path) -> None:
    assert run_in_child(_SEED, 0, tmp_path / "round.frames", rounds=_ROUNDS) == _ROUNDS


def test_no_frame_of_a_fresh_seed_ends_or_stalls_the_server(tmp_path: Path) -> None:
    seed = secrets.randbelow(2**31)
    try:
        done = run_in_child(seed, 0, tmp_path / "round.frames", rounds=_FRESH_ROUNDS)
    except Found as found:
        pytest.fail(f"make fuzz-server SEED={seed}: {found}")
    assert done == _FRESH_ROUNDS


def test_random_frames_make_consumer_groups_of_both_protocols() -> None:
    """The fuzzer itself: what it sends reaches groups of both protocols, and their end."""
    kinds: list[tuple[int, ...]] = []

    async def main() -> None:
        bodies = Bodies(random.Random(_SEED))
        async with session() as opened:
            for _ in range(_FRAMES_TO_MIX):
                frame = bodies.frame()
                learn(bodies, frame, await opened.send(frame))
                described = await opened.send(_DESCRIBE_G)
                assert described is not None
                [group] = decode(69, 1, described[4:]).groups
                found = {int(member.member_type) for member in group.members}
                kinds.append(tuple(sorted(found)))
                if (0, 1) in kinds and not found:
                    return

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
    assert (0, 1) in kinds, "no group had members of both protocols"
    assert kinds[-1] == (), "no such group ended"


def test_a_count_that_lies_is_refused_by_the_whole_server(tmp_path: Path) -> None:
    path = tmp_path / "one.frames"
    with path.open("wb") as file:
        write_frame(file, _LYING_COUNT)
    assert list(read_frames(path)) == [_LYING_COUNT]
    run_again(path)


def test_what_fails_inside_the_server_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fuzzer itself: an exception of a handler is no answer, and not lost in a log."""

    def fail(self: TopicCatalogue) -> None:
        raise RuntimeError("on purpose")

    async def main() -> None:
        async with session() as opened:
            monkeypatch.setattr(TopicCatalogue, "topics", fail)
            with pytest.raises(Finding, match="on purpose"):
                await opened.send(_METADATA)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


_TOPIC_OF_MANY_CONFIGS = (
    struct.pack(">hhihi", 19, 2, 1, -1, 1)
    + struct.pack(">h1sihii", 1, b"t", 1, 1, 0, 200_000)
    + b"\0\1k\0\0" * 200_000
    + struct.pack(">i?", 1000, False)
)
_EMPTY_TOPICS = struct.pack(">hhihii", 2, 1, 1, -1, -1, 50_000) + b"\0\4abcd\0\0\0\0" * 50_000
_OTHERS = {
    "ListOffsets, topics without partitions": _EMPTY_TOPICS,
    "CreateTopics, settings of one topic": _TOPIC_OF_MANY_CONFIGS,
}


@pytest.mark.parametrize("name", [*NODE_LEVEL, *_OTHERS])
def test_no_node_level_request_occupies_the_loop(name: str) -> None:
    """Counted in calls: `Session.send` raises where one frame makes too many without a break."""

    async def main() -> None:
        async with session() as opened:
            make = NODE_LEVEL.get(name)
            await opened.send(make(0.25) if make is not None else _OTHERS[name])
            assert opened.tally.answered + opened.tally.refused + opened.tally.waited == 1

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


def test_every_api_and_version_is_written(tmp_path: Path) -> None:
    bodies = Bodies(random.Random(1))
    frames = [bodies.frame() for _ in range(3_000)]
    seen = {struct.unpack_from(">hh", frame) for frame in frames}
    known = {(key, version) for key in KEYS for version in versions(key)}
    assert len(known & seen) > 0.9 * len(known)
    assert {key for key, _ in seen} > set(KEYS)  # and keys that Kafka has not
    rng = random.Random(2)
    changed = [mutated(rng, frame, frames[0]) != frame for frame in frames]
    assert sum(changed) > 0.9 * len(frames)
