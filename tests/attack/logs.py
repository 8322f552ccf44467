"""Damaged data directories, in a process of its own: `python -m attack.logs DIRECTORY SEED TIMES`.

Each is read by `log verify`, `log state`, `log dump` and by a start. Whatever is wrong with it is
told: a command ends with 0 or 1, never by a traceback. Prints how often what ended how.
"""

from __future__ import annotations

import contextlib
import io
import json
import random
import shutil
import sys
import traceback
from collections import Counter
from pathlib import Path

import pykcoord
from pykcoord.cli import run
from pykcoord.errors import KcoordError

_CONFIG = pykcoord.Config(
    group_initial_rebalance_delay_ms=0,
    offsets_topic_num_partitions=2,
    offsets_topic_segment_bytes=8_000,
    pykcoord_snapshot_interval_ms=100,
    pykcoord_snapshot_min_bytes=1_000,
)
_COMMANDS = (
    ("log", "verify"),
    ("log", "state"),
    ("log", "dump"),
    ("log", "state", "--on-corruption", "truncate"),
)
_LOCK = ".lock"


def make(directory: Path) -> None:
    """A sound data directory of several segments, with a snapshot where one was due."""
    with pykcoord.Coordinator(directory, topics={"orders": 5}, config=_CONFIG) as coordinator:
        for number in range(20):
            with coordinator.join(f"g{number}", ["orders"]) as member:
                member.wait()
                for offset in range(6):
                    member.commit({("orders", partition): offset for partition in range(5)})


def damage(rng: random.Random, directory: Path) -> list[str]:
    """One to three changes of files; which, for people."""
    told = []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        files = sorted(p for p in directory.rglob("*") if p.is_file() and p.name != _LOCK)
        path = rng.choice(files)
        data = bytearray(path.read_bytes())
        at = rng.randrange(len(data)) if data else 0
        kind = rng.randrange(9)
        told.append(f"{path.relative_to(directory)}: {kind} at {at}")
        if kind == 0:
            path.unlink()
            continue
        _change(rng, data, at, kind)
        path.write_bytes(data)
    return told


def _change(rng: random.Random, data: bytearray, at: int, kind: int) -> None:
    if kind == 1 and data:
        data[at] ^= 1 << rng.randrange(8)
    elif kind == 2:
        del data[at:]
    elif kind == 3:
        data[at : at + 4] = rng.choice((b"\xff" * 4, b"\x7f\xff\xff\xff", bytes(4), b"\x80\0\0\0"))
    elif kind == 4:
        data += rng.choice((bytes(rng.randrange(1, 500)), rng.randbytes(rng.randrange(1, 500))))
    elif kind == 5:
        data[at:at] = data[at : at + rng.randrange(1, 400)]
    elif kind == 6:
        del data[at : at + rng.randrange(1, 400)]
    elif kind == 7:
        data[at : at + 100] = rng.randbytes(100)
    else:
        data.clear()


def read(directory: Path) -> Counter[str]:
    """Runs each command, and a start, on it. Raises what they must not raise."""
    ends: Counter[str] = Counter()
    for first, second, *more in _COMMANDS:
        told = io.StringIO()
        with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
            status = run([first, second, str(directory), *more])
        if status not in (0, 1) or "Traceback" in told.getvalue():
            raise AssertionError(f"{second} ended with {status}: {told.getvalue()}")
        ends[f"{second} {status}"] += 1
    try:
        with pykcoord.Coordinator(directory, topics={"orders": 5}, config=_CONFIG):
            ends["start"] += 1
    except (KcoordError, OSError) as error:
        ends[type(error).__name__] += 1
    return ends


def main(scratch: Path, seed: int, times: int) -> int:
    rng = random.Random(seed)
    sound, damaged = scratch / "sound", scratch / "damaged"
    make(sound)
    total: Counter[str] = Counter()
    for number in range(times):
        shutil.rmtree(damaged, ignore_errors=True)
        shutil.copytree(sound, damaged)
        told = damage(rng, damaged)
        try:
            total += read(damaged)
        except Exception:
            sys.stderr.write(f"number {number}: {told}\n{traceback.format_exc()}")
            return 1
    sys.stdout.write(json.dumps(total) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
