"""Records as they lie in a batch (log-format section 4), for those that the core neither writes nor
reads.
"""

from __future__ import annotations

import functools

__all__ = ["encode_record", "read_varint"]

# Lengths and deltas are few; this many are not encoded twice.
_KEPT = 4_096


def encode_record(
    timestamp_delta: int, offset_delta: int, key: bytes | None, value: bytes
) -> bytes:
    """One record without headers; deltas are to the batch's base timestamp (ms) and base offset."""
    body = b"\0" + _varint(timestamp_delta) + _varint(offset_delta)
    body += _varint(-1) if key is None else _varint(len(key)) + key
    body += _varint(len(value)) + value + b"\0"
    return _varint(len(body)) + body


def read_varint(data: bytes | memoryview, position: int) -> tuple[int, int]:
    """The zigzag varint at the position, and where it ends. Raises IndexError where the data ends
    first, ValueError for one of more than 64 bits."""
    number = shift = 0
    while True:
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), position
        shift += 7
        if shift > 63:
            raise ValueError("a number that is too long")


@functools.lru_cache(maxsize=_KEPT)
def _varint(number: int) -> bytes:
    rest = (number << 1) ^ (number >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)
