"""Decompression of records areas (log-format section 4.1): gzip, snappy, lz4 and zstd, by cramjam.

The input comes from a disk and its CRC was right, which says nothing about who wrote it: no output
ever grows beyond `limit_bytes`, and no length that is read from the input is believed before that.
"""

from __future__ import annotations

from collections.abc import Callable

import cramjam

__all__ = ["CODECS", "LIMIT_BYTES", "decompress"]

# By the low three bits of a batch's attributes (Kafka's CompressionType).
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

# Kafka bounds a batch by max.message.bytes (1 MiB by default); a real one expands to some MiB.
LIMIT_BYTES = 256 << 20

_XERIAL_MAGIC = b"\x82SNAPPY\x00"  # snappy-java's framing: magic, version, minimum version, blocks
_XERIAL_HEADER_BYTES = 16
_SMALLEST_OUTPUT_BYTES = 64 << 10

_Into = Callable[[memoryview, bytearray], int]
_INTO: dict[int, _Into] = {
    1: cramjam.gzip.decompress_into,
    3: cramjam.lz4.decompress_into,
    4: cramjam.zstd.decompress_into,
}


def decompress(codec: int, records: memoryview, limit_bytes: int = LIMIT_BYTES) -> memoryview:
    """The plain records area. `codec` is 1 to 4, as in `CODECS`.

    Raises ValueError if the stream is damaged, of an unknown codec, or larger than `limit_bytes`.
    """
    try:
        if codec == 2:
            return memoryview(_snappy(records, limit_bytes))
        into = _INTO[codec]
    except KeyError:
        raise ValueError(f"compression type {codec} is unknown") from None
    return _growing(into, records, limit_bytes)


def _growing(into: _Into, records: memoryview, limit_bytes: int) -> memoryview:
    """Tries ever larger outputs, so that a stream is bounded before it is expanded."""
    room = min(limit_bytes, max(_SMALLEST_OUTPUT_BYTES, 8 * len(records)))
    while True:
        output = bytearray(room)
        try:
            return memoryview(output)[: into(records, output)]
        except cramjam.DecompressionError as error:
            if "whole buffer" not in str(error):
                raise ValueError(f"damaged stream: {error}") from None
        if room == limit_bytes:
            raise ValueError(f"expands to more than {limit_bytes} bytes")
        room = min(limit_bytes, 4 * room)


def _snappy(records: memoryview, limit_bytes: int) -> bytes:
    if bytes(records[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _snappy_block(records, limit_bytes)
    blocks: list[bytes] = []
    left = limit_bytes
    position = _XERIAL_HEADER_BYTES
    while position < len(records):
        length = int.from_bytes(records[position : position + 4], "big", signed=True)
        position += 4
        if length < 0 or length > len(records) - position:
            left_bytes = len(records) - position
            raise ValueError(
                f"damaged stream: snappy block of {length} bytes, {left_bytes} are left"
            )
        blocks.append(_snappy_block(records[position : position + length], left))
        left -= len(blocks[-1])
        position += length
    return b"".join(blocks)


def _snappy_block(block: memoryview, limit_bytes: int) -> bytes:
    try:
        size = cramjam.snappy.decompress_raw_len(block)
        if size > limit_bytes:
            raise ValueError(f"expands to more than {limit_bytes} bytes")
        output = bytearray(size)
        written = cramjam.snappy.decompress_raw_into(block, output)
    except cramjam.DecompressionError as error:
        raise ValueError(f"damaged stream: {error}") from None
    return bytes(memoryview(output)[:written])
