"""Mutations of a good frame: flipped bits, false counts, cuts, splices."""

from __future__ import annotations

import random
from collections.abc import Callable

# Numbers that stand for counts of arrays, strings and tags, and the edges of their ranges.
_INT32 = (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\0\0\0", b"\xff\xff\xff\xfe", b"\0\1\0\0")
_VARINT = (
    b"\xff\xff\xff\xff\x0f",  # 2^32 - 1: 2^32 - 2 elements
    b"\x80\x80\x80\x80\x08",  # 2^31
    b"\xff\xff\xff\xff\x07",
    b"\xff\xff\xff\xff\xff\x01",  # a byte too many
    b"\xff\xff\xff\x7f",
    b"\x80\x80\x04",  # 65,536
    b"\x00",
)
_INT16 = (b"\x7f\xff", b"\xff\xff", b"\x80\0", b"\0\0")
_HEADER_BYTES = 8  # key, version, correlation id: mostly left alone, or few frames reach an API
_MOST_ROUNDS = (1, 1, 1, 2, 4, 12)


def mutated(rng: random.Random, frame: bytes, other: bytes) -> bytes:
    """`frame` after one to twelve mutations; `other` is what it may be spliced with."""
    data = bytearray(frame)
    for _ in range(rng.choice(_MOST_ROUNDS)):
        start = _HEADER_BYTES if rng.random() < 0.95 else 0
        if len(data) <= start + 1:
            break
        rng.choice(_KINDS)(rng, data, start, other)
    return bytes(data) or b"\0"


def _flip(rng: random.Random, data: bytearray, start: int, other: bytes) -> None:
    data[rng.randrange(start, len(data))] ^= 1 << rng.randrange(8)


def _byte(rng: random.Random, data: bytearray, start: int, other: bytes) -> None:
    data[rng.randrange(start, len(data))] = rng.randrange(256)


def _count(rng: random.Random, data: bytearray, start: int, other: bytes) -> None:
    """A small number becomes a count that lies. Most small numbers are counts."""
    short = [at for at in range(start, len(data)) if 1 <= data[at] <= 4]
    at = rng.choice(short) if short else rng.randrange(start, len(data))
    if at >= start + 3 and data[at - 3 : at] == b"\0\0\0":
        data[at - 3 : at + 1] = rng.choice(_INT32)
    else:
        data[at : at + 1] = rng.choice(_VARINT)


def _number(rng: random.Random, data: bytearray, start: int, other: bytes) -> None:
    at = rng.randrange(start, len(data))
    value = rng.choice((*_INT32, *_INT16))
    data[at : at + len(value)] = value


def _remove(rng: random.Random, data: bytearray, start: int, other: bytes) -> None:
    at = rng.randrange(start, len(data))
    del data[at : at + rng.randrange(1, 9)]


def _insert(rng: random.Random, data: bytearray, start: int, other: bytes) -> None:
    at = rng.randrange(start, len(data) + 1)
    data[at:at] = rng.randbytes(rng.randrange(1, 9))


def _truncate(rng: random.Random, data: bytearray, start: int, other: bytes) -> None:
    del data[rng.randrange(start, len(data)) :]


def _repeat(rng: random.Random, data: bytearray, start: int, other: bytes) -> None:
    at = rng.randrange(start, len(data))
    data[at:at] = data[at : at + rng.randrange(1, 40)] * rng.choice((1, 2, 50))


def _splice(rng: random.Random, data: bytearray, start: int, other: bytes) -> None:
    data[rng.randrange(start, len(data)) :] = other[rng.randrange(len(other) + 1) :]


_KINDS: tuple[Callable[[random.Random, bytearray, int, bytes], None], ...] = (
    *(_flip, _byte, _count, _count, _count, _number, _number),
    *(_remove, _insert, _truncate, _repeat, _splice),
)
