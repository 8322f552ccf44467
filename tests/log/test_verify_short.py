"""`log verify` of a log that is rotten and ends below its snapshot: two verdicts."""

from __future__ import annotations

from pathlib import Path

from pykcoord.log import Append, LogDirectory, Snapshots, verify

FOLDER = "__consumer_offsets-0"


class Kept:
    """A loader that keeps nothing but what it must give to a snapshot."""

    def replay(self, chunk: bytes) -> None:
        pass

    def restore(self, chunk: bytes) -> None:
        pass

    def snapshot_chunk(self) -> bytes | None:
        return None


def test_rot_and_a_lost_end_are_told_apart(tmp_path: Path) -> None:
    """Sound batches behind the rot are counted: the log does not end at it."""
    opened = LogDirectory.open(tmp_path, partitions=1, new_loader=Kept, segment_bytes=400)
    with opened as log:
        for _ in range(5):  # of 161 bytes and two records, two in a segment
            log.append([Append(0, log.next_offset(0), 2, 1, 2, bytes(100))], lambda *_: None)
            log.sync()
        assert log.write_snapshots(Snapshots(Kept, 1, 1)) == [0]
    folder = tmp_path / FOLDER
    (folder / f"{8:020d}.log").unlink()
    data = bytearray((folder / f"{0:020d}.log").read_bytes())
    data[161 + 20] ^= 1  # the last byte of a CRC
    (folder / f"{0:020d}.log").write_bytes(data)
    rot, end = verify(tmp_path).problems
    assert (rot.file.name, rot.position, rot.offset) == (f"{0:020d}.log", 161, 2)
    assert (end.file.name, end.position, end.offset) == (f"{4:020d}.log", 2 * 161, 8)
    assert end.reason.startswith("the log ends here, and reached offset 10")
