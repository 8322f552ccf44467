"""The library with unexpected arguments, in a process of its own: `python -m attack.library CASE
SEED TIMES`. It prints how many calls raised each exception; a panic or a signal ends it.
"""

from __future__ import annotations

import json
import random
import struct
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

import pykcoord
from pykcoord import _native
from pykcoord.arrow import REQUEST

Case = Callable[[random.Random, int], None]
ODD: list[Any] = [
    *(None, float("nan"), float("inf"), 2**63, -(2**63), 2**64, 2**31, -1, 0, True, 1.5, -(2**100)),
    *("", "x" * 70_000, "\ud800", b"", b"\xff" * 100, b"\0" * 32, [], {}, (), [None], [(1, 2, 3)]),
    *(object(), range(3), lambda: 1),
]
_PARTITION = ("orders", 0)
_SEED = bytes(32)
_raised: Counter[str] = Counter()


@contextmanager
def counted() -> Iterator[None]:
    """Any Exception is an answer; other exceptions, such as pyo3's panic, end the process."""
    try:
        yield
        _raised["nothing"] += 1
    except Exception as error:
        _raised[type(error).__name__] += 1


def native(rng: random.Random, times: int) -> None:
    """Every class and function of the native module, and every method of its objects."""
    for name in dir(_native):
        made = []
        thing = getattr(_native, name)
        if not callable(thing):
            continue
        for _ in range(times):
            with counted():
                made.append(thing(*_some(rng)))
        if isinstance(thing, type):
            for one in made[:10]:
                _call_methods(rng, one, max(1, times // 20))


def _call_methods(rng: random.Random, one: Any, times: int) -> None:
    for name in dir(one):
        if name.startswith("__"):
            continue
        for _ in range(times):
            with counted():
                method = getattr(one, name)
                if callable(method):
                    method(*_some(rng))


def shard(rng: random.Random, times: int) -> None:
    """Shards with odd arguments, from several threads, and with checkpoints that were changed."""
    threads = []
    for kind in (pykcoord.Shard, pykcoord.ArrowShard):
        _call_methods(rng, kind(seed=_SEED), times)
        shared = kind(seed=_SEED)
        threads += [
            threading.Thread(
                target=_call_methods, args=(random.Random(number), shared, times // 10)
            )
            for number in range(4)
        ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    source = pykcoord.ArrowShard(seed=_SEED)
    source.process(pa.RecordBatch.from_pylist(_rows(40), REQUEST))
    checkpoint = bytes(source.checkpoint())
    for _ in range(times):
        target = pykcoord.ArrowShard(seed=_SEED)
        with counted():
            target.restore(_changed(rng, checkpoint))
            target.advance(10**7)
            target.checkpoint()


def arrow(rng: random.Random, times: int) -> None:
    """ArrowShard.process with batches of other types; its results are sound."""
    for _ in range(times):
        with counted():
            batch = _odd_batch(rng)
        with counted():
            pykcoord.ArrowShard(seed=_SEED).process(batch).validate(full=True)


def coordinator(rng: random.Random, times: int) -> None:
    """A Coordinator and a Member with odd arguments; afterwards a commit works as before."""
    for odd in ODD:
        for name in ("topics", "config", "flush", "on_corruption"):
            with counted(), tempfile.TemporaryDirectory() as directory:
                pykcoord.Coordinator(directory, **{name: odd}).close()
    with (
        tempfile.TemporaryDirectory() as directory,
        pykcoord.Coordinator(directory, topics={"orders": 2}) as opened,
    ):
        member = opened.join("g", ["orders"])
        member.wait()
        for odd in ODD:
            for call in _calls(opened, member, odd):
                with counted():
                    call()
        member.commit({_PARTITION: 7})
        assert member.committed()[_PARTITION] == 7


def _calls(opened: Any, member: Any, odd: Any) -> list[Callable[[], Any]]:
    return [
        lambda: member.commit(odd),
        lambda: member.commit({odd: 1}),
        lambda: member.commit({("orders", odd): 1}),
        lambda: member.commit({(odd, 0): 1}),
        lambda: member.commit({_PARTITION: odd}),
        lambda: opened.add_topics(odd),
        lambda: opened.add_topics({odd: 1}),
        lambda: opened.add_topics({"t": odd}),
        lambda: opened.heartbeat_many(odd, odd, odd),
        lambda: opened.heartbeat_many(["g"], [odd], [1]),
        lambda: opened.commit_many(odd),
        lambda: opened.handle(odd).result(2),
        lambda: opened.set_end_offsets(odd),
        lambda: opened.set_end_offsets({_PARTITION: odd}),
    ]


def assign(rng: random.Random, times: int) -> None:
    """`pykcoord.assign` with odd groups."""
    topics = [{"orders": 3}, {"m": ["orders"]}, {"orders": 2**31}, {"orders": -5}, {"m": None}]
    for _ in range(times):
        with counted():
            pykcoord.assign(*(rng.choice(ODD + topics) for _ in range(rng.randrange(5))))


def _some(rng: random.Random) -> list[Any]:
    return [rng.choice(ODD) for _ in range(rng.randrange(6))]


def _text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def _rows(count: int) -> list[dict[str, Any]]:
    """Commits of seven groups, as OffsetCommit v2."""
    rows = []
    for number in range(count):
        group_id = f"g{number % 7}"
        payload = _text(group_id) + struct.pack(">i", -1) + _text("") + struct.pack(">qi", -1, 1)
        payload += _text("orders") + struct.pack(">iiq", 1, number % 12, number) + _text("")
        rows.append(
            {"seq": number, "ts": 1000 + number, "group_id": group_id, "api_key": 8,
             "api_version": 2, "payload": payload}
        )  # fmt: skip
    return rows


def _changed(rng: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.randrange(len(changed))
        kind = rng.randrange(4)
        if kind == 0:
            changed[at] = rng.randrange(256)
        elif kind == 1:
            changed[at : at + 4] = rng.choice((b"\xff" * 4, b"\x7f\xff\xff\xff", bytes(4)))
        elif kind == 2:
            del changed[at : at + rng.randrange(1, 20)]
        else:
            changed[at:at] = rng.randbytes(rng.randrange(1, 9))
    return bytes(changed)


_TYPES = (
    *(pa.int8(), pa.int32(), pa.int64(), pa.uint64(), pa.float64(), pa.string(), pa.large_string()),
    *(pa.binary(), pa.large_binary(), pa.binary(5), pa.string_view(), pa.binary_view(), pa.null()),
    *(pa.bool_(), pa.list_(pa.int32()), pa.dictionary(pa.int32(), pa.string()), pa.timestamp("ms")),
)
_BAD_UTF8 = (struct.pack("<3i", 0, 1, 3), b"\xff\xfe\xfd")


def _odd_batch(rng: random.Random) -> Any:
    rows = _rows(rng.randrange(60))
    column = rng.randrange(len(REQUEST))
    name = REQUEST.names[column]
    kind = rng.randrange(7)
    if kind == 0:
        for row in rows:
            row["payload"] = _changed(rng, row["payload"])
            row["api_key"] = rng.choice((-1, 0, 3, 8, 8, 8, 11, 13, 32767, -32768))
            row["api_version"] = rng.randrange(-2, 12)
            row["seq"] = rng.choice((row["seq"], 0, -1, 2**63 - 1, -(2**63)))
            row["ts"] = rng.choice((row["ts"], -1, 2**63 - 1, -(2**63)))
            row["group_id"] = rng.choice((row["group_id"], "", "x" * 40_000, "\0"))
    batch = pa.RecordBatch.from_pylist(rows, REQUEST)
    if kind == 1:
        batch = batch.set_column(column, name, pa.nulls(len(rows), rng.choice(_TYPES)))
    elif kind == 2:
        batch = batch.set_column(column, name, batch.column(column).dictionary_encode())
    elif kind == 3:
        chosen = rng.sample(range(len(REQUEST)), len(REQUEST) - 1)
        batch = pa.RecordBatch.from_arrays([batch.column(i) for i in chosen], REQUEST.names[:-1])
    elif kind == 4:
        batch = batch.append_column(name, batch.column(column))
    elif kind == 5:
        batch = batch.slice(rng.randrange(len(rows) + 1), rng.randrange(len(rows) + 1))
    elif kind == 6:
        offsets, data = map(pa.py_buffer, _BAD_UTF8)
        bad = pa.Array.from_buffers(pa.string(), 2, [None, offsets, data])
        batch = pa.RecordBatch.from_pylist(_rows(2), REQUEST).set_column(column, name, bad)
    return batch


CASES: dict[str, Case] = {
    case.__name__: case for case in (native, shard, arrow, coordinator, assign)
}


def main(name: str, seed: int, times: int) -> None:
    CASES[name](random.Random(seed), times)
    sys.stdout.write(json.dumps(_raised) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
