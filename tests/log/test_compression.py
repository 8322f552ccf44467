"""Compressed records areas: every codec and framing, and streams that mean harm."""

from __future__ import annotations

import gzip
from pathlib import Path

import cramjam
import pytest

from pykcoord.errors import CorruptLogError
from pykcoord.log import LogReader
from pykcoord.log._record_batch import crc32c, frame, header
from pykcoord.log.compression import decompress

PLAIN = bytes(range(256)) * 1000


def xerial(*blocks: bytes) -> bytes:
    framed = [len(block).to_bytes(4, "big") + block for block in blocks]
    return b"\x82SNAPPY\x00" + bytes([0, 0, 0, 1, 0, 0, 0, 1]) + b"".join(framed)


STREAMS = {
    "gzip": (1, gzip.compress(PLAIN)),
    "gzip of two members": (1, gzip.compress(PLAIN[:5000]) + gzip.compress(PLAIN[5000:])),
    "snappy, raw": (2, bytes(cramjam.snappy.compress_raw(PLAIN))),
    "snappy, xerial": (
        2,
        xerial(
            bytes(cramjam.snappy.compress_raw(PLAIN[:32768])),
            bytes(cramjam.snappy.compress_raw(PLAIN[32768:])),
        ),
    ),
    "lz4": (3, bytes(cramjam.lz4.compress(PLAIN))),
    "zstd": (4, bytes(cramjam.zstd.compress(PLAIN))),
}


@pytest.mark.parametrize("name", STREAMS)
def test_streams_expand(name: str):
    codec, stream = STREAMS[name]
    assert bytes(decompress(codec, memoryview(stream))) == PLAIN
    assert bytes(decompress(codec, memoryview(stream), len(PLAIN))) == PLAIN


@pytest.mark.parametrize("name", STREAMS)
def test_streams_are_bounded(name: str):
    codec, stream = STREAMS[name]
    with pytest.raises(ValueError, match="expands to more than"):
        decompress(codec, memoryview(stream), len(PLAIN) - 1)


@pytest.mark.parametrize("name", STREAMS)
def test_cut_streams_are_refused(name: str):
    codec, stream = STREAMS[name]
    with pytest.raises(ValueError, match="damaged stream"):
        decompress(codec, memoryview(stream)[: len(stream) // 2])


def test_lengths_in_snappy_are_not_believed():
    with pytest.raises(ValueError, match="snappy block of 2000000000 bytes, 3 are left"):
        decompress(2, memoryview(xerial()[:16] + (2_000_000_000).to_bytes(4, "big") + b"abc"))
    with pytest.raises(ValueError, match="snappy block of -1"):
        decompress(2, memoryview(xerial()[:16] + b"\xff\xff\xff\xff"))
    with pytest.raises(ValueError, match="more than 100 bytes"):
        decompress(2, memoryview(b"\xff\xff\xff\xff\x0f\x00"), 100)


def test_unknown_codecs_are_refused():
    for codec in (0, 5, 6, 7):
        with pytest.raises(ValueError, match=f"type {codec} is unknown"):
            decompress(codec, memoryview(b""))


def test_a_batch_that_cannot_be_expanded_is_named(tmp_path: Path):
    batch = bytearray(frame(b"no gzip stream", 1, 3, 0, 0, 0))
    batch[22] = 1
    batch[17:21] = crc32c(batch[21:]).to_bytes(4, "big")
    first = frame(b"x", 3, 0, 0, 0, 0)
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(first + batch)
    with pytest.raises(CorruptLogError, match="cannot be expanded \\(gzip") as refused:
        list(LogReader.open(path).read(0))
    assert (refused.value.file, refused.value.position) == (path, len(first))
    assert refused.value.offset == 3


def test_expanded_batches_keep_all_else(tmp_path: Path):
    batch = bytearray(frame(gzip.compress(b"records"), 4, 3, 50, 60, 2))
    batch[22] = 0x11
    batch[17:21] = crc32c(batch[21:]).to_bytes(4, "big")
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(batch)
    (chunk,) = LogReader.open(path).read(0)
    before, after = header(batch, 0), header(chunk, 0)
    assert chunk[61:] == b"records"
    assert after.attributes == 0x10
    assert after._replace(attributes=0x11, size=before.size, crc=before.crc) == before
