"""A start on a damaged log: a torn tail is cut; damage that may lose records is refused."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from pykcoord.errors import CorruptLogError, LogError
from pykcoord.log import LogDirectory, LogReader, segment, verify
from pykcoord.log._record_batch import Stop, crc32c, frame, scan


def partition(root: Path, segments: dict[int, bytes]) -> Path:
    folder = root / "__consumer_offsets-0"
    folder.mkdir(parents=True, exist_ok=True)
    for base_offset, content in segments.items():
        (folder / f"{base_offset:020d}.log").write_bytes(content)
    return root


def names(root: Path) -> list[str]:
    return sorted(path.name for path in (root / "__consumer_offsets-0").iterdir())


def recovered(root: Path, on_corruption="refuse") -> tuple[bytes, int, list[str]]:
    with LogDirectory.open(root, partitions=1, on_corruption=on_corruption) as log:
        return b"".join(log.read(0)), log.next_offset(0), [cut.reason for cut in log.cuts]


def test_the_last_batch_torn_at_every_byte(tmp_path: Path, batches: list[bytes]):
    before = b"".join(batches[:4])
    for size in range(len(batches[4])):
        root = partition(tmp_path / str(size), {0: before + batches[4][:size]})
        if size:
            assert [problem.position for problem in verify(root).problems] == [len(before)]
        content, next_offset, reasons = recovered(root)
        assert (content, next_offset, len(reasons)) == (before, 10, min(size, 1))
        assert recovered(root) == (before, 10, [])


@pytest.mark.parametrize("last", [False, True])
def test_one_flipped_bit_anywhere(tmp_path: Path, batches: list[bytes], last: bool):
    """In the last batch it is a torn tail; before sound batches nothing is cut unasked."""
    log = b"".join(batches if not last else batches[:3])
    start = len(batches[0]) + len(batches[1])
    for byte in range(len(batches[2])):
        broken = bytearray(log)
        broken[start + byte] ^= 0x41
        root = partition(tmp_path / str(byte), {0: bytes(broken)})
        if scan(broken, 0, 0).stop == Stop.END:
            assert 12 <= byte < 16 or (last and byte < 8)
            continue
        # A batch at a wrong offset is sound by itself: also the last is not thrown away.
        if last and byte >= 8:
            assert recovered(root)[0] == log[:start]
            continue
        with pytest.raises(CorruptLogError):
            recovered(root)
        assert (root / "__consumer_offsets-0" / f"{0:020d}.log").read_bytes() == bytes(broken)
        content, _, _ = recovered(root, "truncate")
        assert content in (log[:start], bytes(broken)[: start + len(batches[2])])


def test_truncation_keeps_what_it_cuts_beside_the_log(tmp_path: Path, batches: list[bytes]):
    broken = bytearray(b"".join(batches[:3]))
    broken[len(batches[0]) + 70] ^= 1
    segments = {0: bytes(broken), 6: batches[3], 10: batches[4]}
    root = partition(tmp_path, segments)
    folder = root / "__consumer_offsets-0"
    (folder / f"{6:020d}.index").touch()
    with LogDirectory.open(root, partitions=1, on_corruption="truncate") as log:
        (cut,) = log.cuts
    assert (cut.position, cut.offset) == (len(batches[0]), 1)
    assert cut.cut_bytes == sum(map(len, batches[1:]))
    assert [path.name for path in cut.kept_as] == [
        f"{0:020d}.log.corrupt-1",
        f"{6:020d}.log.corrupt-1",
        f"{10:020d}.log.corrupt-1",
    ]
    assert [path.read_bytes() for path in cut.kept_as] == [
        bytes(broken[len(batches[0]) :]),
        batches[3],
        batches[4],
    ]
    assert f"{6:020d}.index" not in names(root)
    assert (folder / f"{0:020d}.log").read_bytes() == batches[0]
    assert str(cut.kept_as[0]) in str(cut)
    assert recovered(root) == (batches[0], 1, [])


def test_a_torn_segment_with_nothing_sound_behind_it(tmp_path: Path, batches: list[bytes]):
    """A crash while rolling: the next segment is there and empty, or holds no whole batch."""
    for number, rest in enumerate((b"", b"noise", batches[4][:80])):
        segments = {0: batches[0] + batches[1][:-1], 3: rest}
        root = partition(tmp_path / str(number), segments)
        content, next_offset, reasons = recovered(root)
        assert (content, next_offset, len(reasons)) == (batches[0], 1, 1)
        assert (f"{3:020d}.log" in names(root)) is False


def test_a_segment_that_starts_too_low_is_refused(tmp_path: Path, batches: list[bytes]):
    root = partition(tmp_path, {0: b"".join(batches[:3]), 3: batches[2]})
    with pytest.raises(CorruptLogError, match="below the log's next offset, 6"):
        recovered(root)
    assert "below" in verify(root).problems[0].reason
    assert recovered(root, "truncate")[:2] == (b"".join(batches[:3]), 6)


def test_gaps_and_empty_batches_of_compaction_are_sound(tmp_path: Path, batches: list[bytes]):
    emptied = bytearray(frame(b"x", 1, 40, -1, -1, 0))
    del emptied[61:]
    emptied[8:12] = (49).to_bytes(4, "big")
    emptied[57:61] = bytes(4)
    emptied[17:21] = crc32c(emptied[21:]).to_bytes(4, "big")
    root = partition(tmp_path, {0: batches[0] + batches[3], 20: bytes(emptied)})
    assert recovered(root) == (batches[0] + batches[3] + bytes(emptied), 41, [])


def test_message_formats_before_record_batches_are_refused(tmp_path: Path):
    body = bytes([1, 0]) + bytes(8) + b"\xff\xff\xff\xff" + b"\x00\x00\x00\x01v"
    message = zlib.crc32(body).to_bytes(4, "big") + body
    old = bytes(8) + len(message).to_bytes(4, "big") + message
    root = partition(tmp_path, {0: old})
    with pytest.raises(CorruptLogError, match=r"magic 1, of Kafka before 0\.11"):
        recovered(root)


def test_deleted_and_cleaned_files_go(tmp_path: Path, batches: list[bytes]):
    root = partition(tmp_path, {0: batches[0], 1: batches[1]})
    folder = root / "__consumer_offsets-0"
    for name in (f"{0:020d}.log.deleted", f"{0:020d}.index.deleted", f"{0:020d}.log.cleaned"):
        (folder / name).write_bytes(b"left over")
    before = names(root)
    assert b"".join(LogReader.open(root).read(0)) == batches[0] + batches[1]
    assert names(root) == before
    assert recovered(root)[0] == batches[0] + batches[1]
    assert [name for name in names(root) if name.count(".") > 1] == []


def test_a_swap_replaces_the_segments_it_covers(tmp_path: Path, batches: list[bytes]):
    log = partition(tmp_path, {0: batches[0], 1: batches[1], 3: batches[2], 6: batches[3]})
    folder = log / "__consumer_offsets-0"
    (folder / f"{0:020d}.log.swap").write_bytes(batches[1] + batches[2])
    assert b"".join(LogReader.open(log).read(0)) == b"".join(batches[1:4])
    assert recovered(log) == (b"".join(batches[1:4]), 10, [])
    assert [name for name in names(log) if ".log" in name] == [f"{0:020d}.log", f"{6:020d}.log"]


def test_a_swap_whose_group_is_incomplete_is_dropped(tmp_path: Path, batches: list[bytes]):
    log = partition(tmp_path, {0: batches[0], 1: batches[1]})
    folder = log / "__consumer_offsets-0"
    (folder / f"{1:020d}.log.swap").write_bytes(batches[1])
    (folder / f"{0:020d}.log.cleaned").write_bytes(b"")
    assert recovered(log) == (batches[0] + batches[1], 3, [])


def test_a_damaged_swap_is_refused(tmp_path: Path, batches: list[bytes]):
    log = partition(tmp_path, {0: batches[0], 1: batches[1]})
    swap = log / "__consumer_offsets-0" / f"{0:020d}.log.swap"
    swap.write_bytes(batches[0][:-1])
    for on_corruption in ("refuse", "truncate"):
        with pytest.raises(CorruptLogError, match="delete it if the segments"):
            recovered(log, on_corruption)
    assert swap.exists()


def test_verify_names_every_place(tmp_path: Path, batches: list[bytes]):
    broken = bytearray(b"".join(batches))
    second, fourth = len(batches[0]), sum(map(len, batches[:3]))
    broken[second + 70] ^= 1
    broken[fourth + 16] = 9
    report = verify(partition(tmp_path, {0: bytes(broken), 15: b"torn"}))
    assert [problem.position for problem in report.problems] == [second, fourth, 0]
    assert [problem.offset for problem in report.problems] == [1, 6, 15]
    assert "--on-corruption truncate" in report.problems[1].advice
    assert "the next start cuts it" in report.problems[2].advice
    assert (report.files, report.batches, report.records) == (2, 3, 9)
    assert report.size_bytes == len(broken) + 4
    assert not report.sound


def test_chunks_are_bounded_and_batches_stay_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batches: list[bytes]
):
    root = partition(tmp_path, {0: b"".join(batches)})
    for chunk_bytes in range(1, 400):
        monkeypatch.setattr(segment, "CHUNK_BYTES", chunk_bytes)
        chunks = list(LogReader.open(root).read(0))
        assert b"".join(chunks) == b"".join(batches)
        assert all(scan(chunk, 0, 0).end == len(chunk) for chunk in chunks)


def test_no_log_is_said_so(tmp_path: Path):
    with pytest.raises(LogError, match="no log here"):
        LogReader.open(tmp_path)
    with pytest.raises(FileNotFoundError):
        verify(tmp_path / "absent")
