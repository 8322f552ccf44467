"""Rounds of frames in a child process with bounded memory: a crash ends only the child.

Each frame is written to a file before it is sent, so that the one that ended the process can be
sent again.
"""

from __future__ import annotations

import asyncio
import json
import random
import resource
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO

import uvloop
from support.kio_client import decode

from fuzz.bodies import Bodies
from fuzz.mutations import mutated
from fuzz.session import Finding, Tally, replay, resident_bytes, session

FRAMES_OF_A_ROUND = 250
FOUND = 3  # the exit status of a process that found something
_MUTATED = 0.65
_TO_SPARE_BYTES = (
    1 << 30
)  # beyond what the interpreter and the allocator have reserved at the start
_WARM_ROUNDS = 3
_GROWTH_BYTES = 128 << 20
_LAST_LINES = 12
_TESTS = Path(__file__).parents[1]


class Found(Exception):
    """A round ended badly; the text says how, `frames` is where its frames are."""

    def __init__(self, text: str, frames: Path) -> None:
        super().__init__(text)
        self.frames = frames


def run_in_child(
    seed: int,
    first: int,
    frames: Path,
    *,
    rounds: int | None = None,
    seconds: float | None = None,
    told: Callable[[dict[str, Any]], None] = lambda line: None,
) -> int:
    """Runs `rounds` rounds from `first` on, or as many as fit into the seconds; returns their
    number. Raises Found; the frames of the bad round are in `frames` then."""
    command = [sys.executable, "-m", "fuzz", "--child", "--seed", str(seed), "--first", str(first)]
    command += ["--write", str(frames)]
    command += ["--rounds", str(rounds)] if rounds is not None else []
    command += ["--seconds", str(seconds)] if seconds is not None else []
    return len(_output(command, frames, told))


def run_again(frames: Path) -> None:
    """Sends the frames of a file to a new server in a child. Raises Found."""
    _output([sys.executable, "-m", "fuzz", "--child", "--frames", str(frames)], frames)


def _output(
    command: list[str], frames: Path, told: Callable[[dict[str, Any]], None] = lambda line: None
) -> list[dict[str, Any]]:
    """The lines that a child printed, one for each round."""
    errors = frames.with_suffix(".stderr")
    lines = []
    with errors.open("w") as stderr:
        child = subprocess.Popen(
            command, cwd=_TESTS, stdout=subprocess.PIPE, stderr=stderr, text=True
        )
        assert child.stdout is not None
        try:
            with child.stdout:
                for text in child.stdout:
                    lines.append(json.loads(text))
                    told(lines[-1])
            status = child.wait()
        finally:
            child.kill()
            child.wait()
    if lines and "found" in lines[-1]:
        raise Found(lines[-1]["found"], frames)
    if status:
        last = errors.read_text(errors="replace").splitlines()[:_LAST_LINES]
        raise Found("\n  ".join([f"the process ended with {status}", *last]), frames)
    return lines


def limit_memory() -> None:
    """A reservation of a gigabyte fails from here on."""
    with open("/proc/self/status") as status:
        size = next(int(line.split()[1]) for line in status if line.startswith("VmSize:"))
    most = size * 1024 + _TO_SPARE_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def rounds_of_child(seed: int, first: int, path: Path, go_on: Callable[[int], bool]) -> int:
    """The work of the child, with one line of JSON for each round; returns the exit status."""
    settled = 0
    number = first
    while go_on(number - first):
        try:
            tally = _run(_round(seed, number, path))
        except Finding as finding:
            return _say(found=f"round {number}: {finding}") or FOUND
        resident = resident_bytes()
        _say(round=number, resident_bytes=resident, **asdict(tally))
        number += 1
        if number - first == _WARM_ROUNDS:
            settled = resident
        elif settled and resident > settled + _GROWTH_BYTES:
            return _say(found=f"{settled} bytes became {resident} and stay") or FOUND
    return 0


def replay_of_child(path: Path) -> int:
    """Sends the frames of a file; returns the exit status."""
    try:
        tally = _run(replay(read_frames(path)))
    except Finding as finding:
        return _say(found=str(finding)) or FOUND
    _say(**asdict(tally))
    return 0


def read_frames(path: Path) -> Iterator[bytes]:
    data = path.read_bytes()
    at = 0
    while at + 4 <= len(data):
        (size,) = struct.unpack_from(">I", data, at)
        yield data[at + 4 : at + 4 + size]
        at += 4 + size


def write_frame(file: BinaryIO, frame: bytes) -> None:
    file.write(struct.pack(">I", len(frame)) + frame)


async def _round(seed: int, number: int, path: Path) -> Tally:
    rng = random.Random(f"{seed}:{number}")
    bodies = Bodies(rng)
    other = bodies.frame()
    async with session() as opened:
        with path.open("wb", buffering=0) as file:  # what is written survives the process
            for _ in range(FRAMES_OF_A_ROUND):
                good = bodies.frame()
                sent = mutated(rng, good, other) if rng.random() < _MUTATED else good
                other = good
                write_frame(file, sent)
                reply = await opened.send(sent)
                learn(bodies, sent, reply)
        await opened.end()
        return opened.tally


def learn(bodies: Bodies, frame: bytes, reply: bytes | None) -> None:
    """Member ids that the server gives out, for later frames."""
    if reply is not None and frame[:2] == b"\0\x0b":
        member_id = decode(11, struct.unpack_from(">h", frame, 2)[0], reply[4:]).member_id
        bodies.member_ids = [*bodies.member_ids[-9:], member_id]


def _run(main: Any) -> Tally:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        tally: Tally = runner.run(main)
        return tally


def _say(**values: Any) -> None:
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()
