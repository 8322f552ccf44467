"""Framing, headers, CRC-32C and scanning, one buffer at a time."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from pykcoord.log._record_batch import (
    Stop,
    choose_crc32c,
    crc32c,
    find_sound,
    frame,
    header,
    next_compressed,
    reframe,
    scan,
)

VECTORS = Path(__file__).parent.parent / "vectors" / "bytes.tsv"


@pytest.fixture(params=["cpu", "table"])
def by(request: pytest.FixtureRequest):
    choose_crc32c(request.param == "cpu")
    yield
    choose_crc32c(True)


def vector(name: str) -> bytes:
    lines = (line.split("\t") for line in VECTORS.read_text().splitlines())
    return next(bytes.fromhex(fields[1]) for fields in lines if fields[0] == name)


@pytest.mark.usefixtures("by")
def test_crc32c_is_castagnolis():
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"\xff" * 32) == 0x62A8AB43
    assert crc32c(b"") == 0


@pytest.mark.usefixtures("by")
def test_crc32c_of_any_length_and_alignment_continues():
    noise = random.Random(1).randbytes(100)
    for start in range(9):
        for end in range(start, 100):
            middle = (start + end) // 2
            whole = crc32c(memoryview(noise)[start:end])
            assert crc32c(noise[middle:end], crc32c(noise[start:middle])) == whole


def test_table_and_cpu_agree():
    noise = random.Random(2).randbytes(1001)
    choose_crc32c(False)
    by_table = [crc32c(noise[n:]) for n in range(1001)]
    choose_crc32c(True)
    assert by_table == [crc32c(noise[n:]) for n in range(1001)]


@pytest.mark.usefixtures("by")
@pytest.mark.parametrize(
    ("name", "next_offset", "records"),
    [
        ("RecordBatch plain base=10 leaderEpoch=5", 12, 2),
        ("RecordBatch transactional pid=77 epoch=2 seq=0", None, None),
        ("EndTxn COMMIT pid=77 epoch=2 coordEpoch=4 ts=1000", 1, 1),
        (
            "RecordBatch as the coordinator hands it to the log, snappy "
            "(base 0, leader epoch -1, seq 0)",
            None,
            None,
        ),
    ],
)
def test_kafkas_batches_are_sound(name: str, next_offset: int | None, records: int | None):
    batch = vector(name)
    found = scan(batch, 0, 0)
    assert (found.stop, found.end, found.batches) == (Stop.END, len(batch), 1)
    assert next_offset in (None, found.next_offset)
    assert records in (None, found.records)


def test_a_frame_is_what_kafkas_coordinator_writes():
    name = (
        "RecordBatch as the coordinator hands it to the log, none (base 0, leader epoch -1, seq 0)"
    )
    batch = vector(name)
    kafkas = header(batch, 0)
    ours = frame(
        batch[61:], kafkas.record_count, 0, kafkas.base_timestamp, kafkas.max_timestamp, -1
    )
    assert ours == batch


def test_header_fields():
    assert header(vector("EndTxn COMMIT pid=77 epoch=2 coordEpoch=4 ts=1000"), 0) == (
        *(0, 78, -1, 2, 0xBE9EC958, 0x30, 0, 1000, 1000, 77, 2, -1, 1),
    )
    with pytest.raises(ValueError, match="byte 1 of 61"):
        header(bytes(61), 1)
    with pytest.raises(ValueError, match="byte -1"):
        header(bytes(100), -1)


def test_frame_refuses_what_is_no_batch():
    for records, count, offset in ((b"", 1, 0), (b"x", 0, 0), (b"x", 1, -1)):
        with pytest.raises(AssertionError, match="not a batch"):
            frame(records, count, offset, 0, 0, 0)


def test_a_scan_counts_and_notes_epochs(batches: list[bytes]):
    log = b"".join(batches) + frame(b"x", 3, 20, 1, 9000, 4) + frame(b"y", 1, 23, 1, 2, 4)
    found = scan(log, 0, 0)
    assert found == (Stop.END, len(log), 24, 7, 19, 0, 0, 9000, 61, [(0, 0), (4, 20)])
    assert scan(log, 0, 0, 0, 3).epochs == [(4, 20)]
    assert scan(b"", 0, 7).next_offset == 7


def test_a_scan_stops_at_every_cut(batches: list[bytes]):
    log = b"".join(batches)
    ends = [sum(map(len, batches[:n])) for n in range(6)]
    for size in range(len(log) + 1):
        found = scan(log[:size], 0, 0)
        whole = max(end for end in ends if end <= size)
        assert found.end == whole
        assert found.stop == (Stop.END if size in ends else Stop.SHORT)
        if found.stop == Stop.SHORT:
            known = size - whole >= 12
            assert found.needed == (len(batches[ends.index(whole)]) if known else 61)


@pytest.mark.parametrize("bit", range(8))
def test_a_flipped_bit_is_seen_wherever_the_crc_or_the_frame_covers_it(
    batches: list[bytes], bit: int
):
    """All but the leader epoch (and offsets that still ascend), which Kafka leaves outside."""
    log = b"".join(batches[:3])
    start = len(batches[0])
    for byte in range(len(batches[1])):
        broken = bytearray(log)
        broken[start + byte] ^= 1 << bit
        found = scan(broken, 0, 0)
        if 12 <= byte < 16:
            assert found.stop == Stop.END
        elif byte < 8:
            assert found.stop == Stop.OFFSET
            assert found.end in (start, start + len(batches[1]))
        else:
            assert found.end == start
            assert found.stop in (Stop.LENGTH, Stop.SHORT, Stop.MAGIC, Stop.CRC)


def resealed(batch: bytes, at: int, value: bytes) -> bytes:
    """The batch with some bytes replaced, and the CRC put right."""
    changed = bytearray(batch)
    changed[at : at + len(value)] = value
    changed[17:21] = crc32c(changed[21:]).to_bytes(4, "big")
    return bytes(changed)


@pytest.mark.parametrize(
    ("at", "value", "stop"),
    [
        (23, (-1).to_bytes(4, "big", signed=True), Stop.COUNT),
        (57, (-1).to_bytes(4, "big", signed=True), Stop.COUNT),
        (57, (6).to_bytes(4, "big"), Stop.COUNT),
        (23, (2**31 - 1).to_bytes(4, "big"), Stop.OFFSET),
        (0, (2**63 - 5).to_bytes(8, "big"), Stop.OFFSET),
        (0, (-1).to_bytes(8, "big", signed=True), Stop.OFFSET),
        (0, (2**31).to_bytes(8, "big"), Stop.OFFSET),
    ],
)
def test_numbers_that_cannot_be_right_are_unsound_with_a_right_crc(
    batches: list[bytes], at: int, value: bytes, stop: Stop
):
    assert scan(resealed(batches[4], at, value), 0, 0).stop == stop


@pytest.mark.parametrize("length", [-1, 0, 13, 14, 48, 2**31 - 1, -(2**31)])
def test_impossible_lengths(batches: list[bytes], length: int):
    broken = bytearray(batches[0] + batches[1])
    broken[8:12] = length.to_bytes(4, "big", signed=True)
    found = scan(broken, 0, 0)
    assert found.end == 0
    assert found.stop == (Stop.SHORT if length > 1000 else Stop.LENGTH)


def test_noise_never_looks_sound_and_never_crashes():
    chance = random.Random(3)
    for _ in range(2000):
        noise = bytearray(chance.randbytes(chance.randrange(200)))
        if len(noise) > 16:
            noise[16] = 2
            noise[8:12] = chance.randrange(300).to_bytes(4, "big")
        assert scan(noise, 0, 0).end == 0
        assert find_sound(noise, 0, 0) == -1


def test_a_sound_batch_is_found_behind_noise(batches: list[bytes]):
    noise = random.Random(4).randbytes(333)
    log = noise + batches[2] + batches[3]
    assert find_sound(log, 0, 0) == 333
    assert find_sound(log, 334, 0) == 333 + len(batches[2])
    assert find_sound(log, 0, 4) == 333 + len(batches[2])
    assert find_sound(log, 0, 100) == -1
    assert find_sound(log[:-1], 334, 0) == -1
    assert find_sound(b"", 0, 0) == -1


def test_reframing_replaces_the_records_and_the_codec_only(batches: list[bytes]):
    compressed = resealed(batches[4], 22, b"\x14")
    plain = reframe(compressed, b"plain records")
    assert next_compressed(batches[0] + compressed + batches[1], 0) == len(batches[0])
    assert next_compressed(batches[0] + plain, 0) == len(batches[0] + plain)
    before, after = header(compressed, 0), header(plain, 0)
    assert after.attributes == 0x10
    assert after.size == 61 + 13
    assert after._replace(attributes=0x14, size=before.size, crc=before.crc) == before
    assert scan(plain, 0, 0).stop == Stop.END
