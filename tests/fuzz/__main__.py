"""`python -m fuzz`, in tests/: rounds of frames for a number of seconds, or a saved file again. A
failure is saved with the frames of its round, and reported with the command that sends them again.
"""

from __future__ import annotations

import argparse
import secrets
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from fuzz.rounds import (
    FRAMES_OF_A_ROUND,
    Found,
    limit_memory,
    replay_of_child,
    rounds_of_child,
    run_again,
    run_in_child,
)

_ROOT = Path(__file__).parents[2]
_SAVED = _ROOT / "build" / "fuzz-server"
_PROGRESS_SECONDS = 10
_ROUNDS_OF_A_CHILD = 400


def main() -> int:
    arguments = _parsed()
    if arguments.child:
        limit_memory()
        if arguments.frames is not None:
            return replay_of_child(arguments.frames)
        return rounds_of_child(arguments.seed, arguments.first, arguments.write, _limit(arguments))
    if arguments.frames is not None:
        return _again(arguments.frames.resolve())
    return _search(arguments.seed, arguments.seconds)


def _search(seed: int, seconds: float) -> int:
    _SAVED.mkdir(parents=True, exist_ok=True)
    path = _SAVED / f"{seed}.frames"
    _say(f"seed {seed}, {seconds:g} s; rounds of {FRAMES_OF_A_ROUND} frames")
    progress = _Progress()
    done, ends = 0, time.monotonic() + seconds
    while (left := ends - time.monotonic()) > 0:
        try:
            done += run_in_child(
                seed, done, path, rounds=_ROUNDS_OF_A_CHILD, seconds=left, told=progress
            )
        except Found as found:
            kept = _SAVED / f"{seed}-{done + progress.of_child}.frames"
            shutil.copy(found.frames, kept)
            _say(f"{found}\nagain: make fuzz-server FRAMES={kept.relative_to(_ROOT)}")
            return 1
        progress.of_child = 0
    progress.tell()
    _say(f"{done} rounds, nothing found")
    return 0


def _again(path: Path) -> int:
    try:
        run_again(path)
    except Found as found:
        _say(found)
        return 1
    _say("nothing found")
    return 0


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


class _Progress:
    """Adds up what the rounds say, and prints it every few seconds."""

    def __init__(self) -> None:
        self.of_child = 0
        self._sums: dict[str, int] = {}
        self._peaks: dict[str, float] = {}
        self._started = self._told = time.monotonic()

    def __call__(self, line: dict[str, Any]) -> None:
        if "found" in line:
            return
        self.of_child += 1
        for name in ("frames", "answered", "refused", "waited"):
            self._sums[name] = self._sums.get(name, 0) + line[name]
        for name in ("calls_at_once", "calls_per_byte", "longest_reply", "resident_bytes"):
            self._peaks[name] = max(self._peaks.get(name, 0), line[name])
        if time.monotonic() - self._told > _PROGRESS_SECONDS:
            self.tell()

    def tell(self) -> None:
        self._told = time.monotonic()
        sums = ", ".join(f"{count:,} {name}" for name, count in self._sums.items())
        peaks = ", ".join(f"{name} {value:,.6g}" for name, value in self._peaks.items())
        _say(f"{self._told - self._started:.0f} s: {sums}; most: {peaks}")


def _limit(arguments: argparse.Namespace) -> Any:
    ends = None if arguments.seconds is None else time.monotonic() + arguments.seconds
    rounds = arguments.rounds

    def go_on(done: int) -> bool:
        return (rounds is None or done < rounds) and (ends is None or time.monotonic() < ends)

    return go_on


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=None)
    parser.add_argument("--seed", type=int, default=None, help="a fresh one is printed")
    parser.add_argument("--frames", type=Path, help="a file that a failure left: send it again")
    for name, kind in (("first", int), ("rounds", int), ("write", Path)):
        parser.add_argument(f"--{name}", type=kind, default=None, help=argparse.SUPPRESS)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if not arguments.child:
        arguments.seconds = 60.0 if arguments.seconds is None else arguments.seconds
        arguments.seed = secrets.randbelow(2**31) if arguments.seed is None else arguments.seed
    return arguments


if __name__ == "__main__":
    sys.exit(main())
