"""Snapshots: a start with one ends in the same state as a start without. A snapshot that is
damaged, stale or of another log is not used, and one line says so."""

from __future__ import annotations

import contextlib
import importlib
import json
import logging
import os
import shutil
import struct
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pykcoord.errors import CorruptLogError
from pykcoord.log import Append, LogDirectory, Snapshots, durable, snapshotter, verify
from pykcoord.log import snapshot as file
from pykcoord.log._record_batch import crc32c, frame
from pykcoord.log.reader import segment_files
from pykcoord.log.snapshot import SNAPSHOT_FILE, SnapshotError

FOLDER = "__consumer_offsets-0"


class Kept:
    """A loader that keeps its input: its state is the log."""

    def __init__(self) -> None:
        self.restored: list[bytes] = []
        self.replayed: list[bytes] = []
        self._written = 0

    def replay(self, chunk: bytes) -> None:
        self.replayed.append(chunk)

    def restore(self, chunk: bytes) -> None:
        assert not self.replayed
        self.restored.append(chunk)

    def snapshot_chunk(self) -> bytes | None:
        chunks = [*self.restored, *self.replayed]
        self._written += 1
        return chunks[self._written - 1] if self._written <= len(chunks) else None

    @property
    def content(self) -> bytes:
        return b"".join(self.restored + self.replayed)


DUE = Snapshots(Kept, 3_600_000, 1)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshotter, "_PAUSE_SECONDS", 0)


def opened(root: Path, **options: object) -> LogDirectory:
    fixed = {"partitions": 1, "new_loader": Kept, "segment_bytes": 400}
    return LogDirectory.open(root, **{**fixed, **options})  # type: ignore[arg-type]


def append(log: LogDirectory, count: int = 1) -> None:
    """Batches of 2 records and 161 bytes."""
    for _ in range(count):
        log.append([Append(0, log.next_offset(0), 2, 1, 2, bytes(100))], lambda *_: None)
        log.sync()


def read(root: Path, **options: object) -> Kept:
    with opened(root, **options) as log:
        loader = log.take(0, Kept).loader
        assert isinstance(loader, Kept)
        assert loader.content == b"".join(log.read(0))
        return loader


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Three segments of two batches each, the last with one more behind the snapshot."""
    with opened(tmp_path) as log:
        append(log, 5)
        assert log.write_snapshots(DUE) == [0]
        append(log)
    return tmp_path


def await_true(condition: Callable[[], bool]) -> None:
    """Waits for the thread in the background."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "nothing came of it"
        time.sleep(0.01)


def covered(root: Path) -> file.Covered:
    return file.read_covered(root / FOLDER)


def ignored(root: Path, caplog: pytest.LogCaptureFixture, reason: str) -> None:
    """The log is read whole, and one line says why."""
    caplog.clear()
    assert read(root).restored == []
    (line,) = [record.getMessage() for record in caplog.records]
    assert reason in line, line
    assert str(root / FOLDER / SNAPSHOT_FILE) in line


def test_only_what_follows_is_read(root: Path):
    assert (covered(root).offset, len(covered(root).closed)) == (10, 2)
    loader = read(root)
    assert (len(loader.restored), len(b"".join(loader.replayed))) == (3, 161)


def test_it_stays_good_while_the_log_grows(root: Path):
    with opened(root) as log:
        append(log, 9)
    assert len(b"".join(read(root).replayed)) == 10 * 161


def test_the_next_one_is_made_of_the_one_before(root: Path, monkeypatch: pytest.MonkeyPatch):
    made: list[Kept] = []
    with opened(root) as log:
        append(log, 4)
        again = Snapshots(lambda: made.append(Kept()) or made[-1], 1, 1)
        assert log.write_snapshots(again) == [0]
        assert log.write_snapshots(DUE) == []
    assert [len(b"".join(one.replayed)) for one in made] == [5 * 161]
    assert (covered(root).offset, read(root).replayed) == (20, [])


def test_nothing_is_written_for_little(root: Path):
    with opened(root) as log:
        size = (root / FOLDER / SNAPSHOT_FILE).stat().st_size
        assert log.write_snapshots(Snapshots(Kept, 1, 162)) == []
        assert size // 2 > 161
        assert log.write_snapshots(DUE) == []


def test_not_wanted(root: Path, caplog: pytest.LogCaptureFixture):
    assert read(root, use_snapshots=False).restored == []
    with LogDirectory.open(root, partitions=1) as log:
        loader = Kept()
        assert log.take(0, lambda: loader).loader is loader
    assert caplog.records == []


def test_empty_partitions_have_none(tmp_path: Path):
    with opened(tmp_path, partitions=2) as log:
        assert log.write_snapshots(DUE) == []
        assert log.take(1, Kept).next_offset == 0


def test_every_flipped_bit(root: Path, caplog: pytest.LogCaptureFixture):
    path = root / FOLDER / SNAPSHOT_FILE
    sound = path.read_bytes()
    assert len(list(file.chunks(root / FOLDER))) == 3
    for at in range(len(sound)):
        path.write_bytes(sound[:at] + bytes([sound[at] ^ 0x10]) + sound[at + 1 :])
        with pytest.raises(SnapshotError):
            list(file.chunks(root / FOLDER))
    for at, reason in ((3, "not a snapshot"), (99, "head is damaged"), (-1, "damaged before")):
        broken = bytearray(sound)
        broken[at] ^= 0x10
        path.write_bytes(broken)
        ignored(root, caplog, reason)


def test_cut_anywhere(root: Path, caplog: pytest.LogCaptureFixture):
    path = root / FOLDER / SNAPSHOT_FILE
    sound = path.read_bytes()
    for size in range(len(sound)):
        path.write_bytes(sound[:size])
        with pytest.raises(SnapshotError):
            list(file.chunks(root / FOLDER))
    for content, reason in ((sound[:-9], "damaged before"), (sound + b"\0", "behind its end")):
        path.write_bytes(content)
        ignored(root, caplog, reason)


def test_a_disk_that_does_not_give_it_back(root: Path, caplog: pytest.LogCaptureFixture):
    path = root / FOLDER / SNAPSHOT_FILE
    path.unlink()
    path.mkdir()
    ignored(root, caplog, "it cannot be read (Is a directory)")
    (problem,) = verify(root).problems
    assert (problem.file, problem.reason) == (path, "it cannot be read (Is a directory)")


def test_another_version(root: Path, caplog: pytest.LogCaptureFixture):
    path = root / FOLDER / SNAPSHOT_FILE
    sound = path.read_bytes()
    path.write_bytes(sound[:8] + struct.pack(">H", 3) + sound[10:])
    ignored(root, caplog, "version 3; only versions up to 2 are read")


def test_a_head_that_makes_no_sense(root: Path, caplog: pytest.LogCaptureFixture):
    path = root / FOLDER / SNAPSHOT_FILE
    for text in (b"[]", b"{}", b"\xff", json.dumps({"offset": 1}).encode()):
        head = struct.pack(">8sHI", b"pykstate", 1, len(text)) + text
        path.write_bytes(head + struct.pack(">I", crc32c(head)))
        ignored(root, caplog, "its head makes no sense")


def test_of_another_partition(root: Path, caplog: pytest.LogCaptureFixture):
    properties = root / "pykcoord.properties"
    text = properties.read_text().replace("partitions=1", "partitions=2")
    properties.write_text(text)
    shutil.copytree(root / FOLDER, root / "__consumer_offsets-1")
    with opened(root, partitions=2) as log:
        loaders = [log.take(shard, Kept).loader for shard in range(2)]
        assert [bool(one.restored) for one in loaders] == [True, False]
    (record,) = caplog.records
    assert "another partition" in record.getMessage()


def test_of_another_topic(root: Path, caplog: pytest.LogCaptureFixture):
    (root / "pykcoord.properties").unlink()
    ignored(root, caplog, "another topic")


Change = Callable[[Path], object]


def _touch(path: Path) -> None:
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))


def _cut_last(folder: Path) -> None:
    os.truncate(folder / f"{8:020d}.log", 0)


def _other_history(folder: Path) -> None:
    """The log of a broker that cut it and wrote on, under the next epoch."""
    path = folder / f"{8:020d}.log"
    path.write_bytes(frame(bytes(100), 2, 8, 1, 2, 1) + frame(bytes(100), 2, 10, 1, 2, 1))


def _other_records(folder: Path) -> None:
    path = folder / f"{8:020d}.log"
    path.write_bytes(frame(b"1" * 100, 2, 8, 1, 2, 0) + frame(bytes(100), 2, 10, 1, 2, 0))


def _merged(folder: Path) -> None:
    (folder / f"{4:020d}.log").replace(folder / f"{4:020d}.log.swap")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda folder: _touch(folder / f"{4:020d}.log"), "segment 4 was changed"),
        (lambda folder: os.truncate(folder / f"{4:020d}.log", 161), "segment 4 was changed"),
        (_other_history, "the log below offset 10 is another"),
        (_other_records, "the log below offset 10 is another"),
        (_merged, "a compaction has not finished"),
        (
            lambda folder: (folder / "leader-epoch-checkpoint").write_text("0\n1\n0 4\n"),
            "the leader epochs are others",
        ),
    ],
)
def test_stale(root: Path, caplog: pytest.LogCaptureFixture, change: Change, reason: str):
    change(root / FOLDER)
    ignored(root, caplog, reason)


def _rotten_tail(folder: Path) -> None:
    """Nothing sound follows: without the snapshot this would count as a torn tail."""
    path = folder / f"{8:020d}.log"
    data = bytearray(path.read_bytes()[:161])
    data[20] ^= 1  # the last byte of its CRC
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("change", "file", "position", "offset"),
    [
        (_cut_last, 8, 0, 8),
        (lambda folder: (folder / f"{8:020d}.log").unlink(), 4, 2 * 161, 8),
        (_rotten_tail, 8, 0, 8),
    ],
)
def test_a_log_that_is_shorter_than_its_snapshot_is_refused(
    root: Path,
    caplog: pytest.LogCaptureFixture,
    change: Change,
    file: int,
    position: int,
    offset: int,
):
    """Bytes that were on the disk are gone: that is no torn tail."""
    folder = root / FOLDER
    change(folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    said = (
        f"{file:020d}.log: byte {position}, offset {offset}: the log ends here, and reached "
        "offset 10"
    )
    with pytest.raises(CorruptLogError, match=said):
        opened(root)
    assert before == {path.name: path.read_bytes() for path in folder.iterdir()}
    assert any(problem.reason.startswith("the log ends here") for problem in verify(root).problems)
    caplog.clear()
    with opened(root, on_corruption="truncate") as log:
        assert log.next_offset(0) == offset
    assert "the snapshot is kept as" in caplog.records[-1].getMessage()
    aside = folder / f"{SNAPSHOT_FILE}.corrupt-1"
    assert aside.read_bytes() == before[SNAPSHOT_FILE]
    with opened(root) as log:
        assert log.next_offset(0) == offset


def test_verify_beside_a_server_that_writes_on(root: Path, monkeypatch: pytest.MonkeyPatch):
    """It saw the segments before one more, and the snapshot of that, were there."""
    seen = {number: files[:-1] for number, files in segment_files(root).items()}
    module = importlib.import_module("pykcoord.log.verify")
    monkeypatch.setattr(module, "segment_files", lambda _: seen)
    report = verify(root)
    assert (report.files, report.problems) == (2, [])


def test_a_state_that_cannot_be_restored(root: Path, caplog: pytest.LogCaptureFixture):
    class Refusing(Kept):
        def restore(self, chunk: bytes) -> None:
            raise ValueError("unknown key")

    with opened(root, new_loader=Refusing) as log:
        loader = log.take(0, Kept).loader
        assert isinstance(loader, Refusing)
        assert loader.content == b"".join(log.read(0))
    (record,) = caplog.records
    assert "its state cannot be used (unknown key)" in record.getMessage()


def test_a_torn_tail_behind_it_is_cut(root: Path):
    path = root / FOLDER / f"{8:020d}.log"
    os.truncate(path, 161 + 100)
    with opened(root) as log:
        (cut,) = log.cuts
        assert (cut.position, cut.offset, log.next_offset(0)) == (161, 10, 10)
        loader = log.take(0, Kept).loader
    assert isinstance(loader, Kept)
    assert (len(loader.restored), loader.replayed) == (3, [])


def test_damage_behind_it_is_refused(root: Path):
    with opened(root) as log:
        append(log)
    path = root / FOLDER / f"{8:020d}.log"
    data = bytearray(path.read_bytes())
    data[161 + 90] ^= 1
    path.write_bytes(data)
    before = {path.name: path.read_bytes() for path in (root / FOLDER).iterdir()}
    with pytest.raises(CorruptLogError, match=f"{8:020d}.log: byte 161, offset 10"):
        opened(root)
    assert before == {path.name: path.read_bytes() for path in (root / FOLDER).iterdir()}


def _rot(path: Path) -> None:
    """A bit that the disk flipped: the times of the file stay."""
    status = path.stat()
    data = bytearray(path.read_bytes())
    data[90] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def test_damage_below_it_is_found_after_the_start(root: Path, caplog: pytest.LogCaptureFixture):
    _rot(root / FOLDER / f"{4:020d}.log")
    with opened(root) as log:
        assert log.next_offset(0) == 12
        log.start_snapshots(Snapshots(Kept, 1, 1 << 30))
        await_true(lambda: len(caplog.records) > 0)
    (record,) = caplog.records
    assert f"{4:020d}.log: byte 0, offset 4: damaged (crc)" in record.getMessage()
    assert [problem.position for problem in verify(root).problems] == [0]


def test_damage_below_it_ends_in_no_snapshot(root: Path):
    """Without the snapshot before, the log must be read, and cannot be."""
    with opened(root) as log:
        (root / FOLDER / SNAPSHOT_FILE).unlink()
        _rot(root / FOLDER / f"{4:020d}.log")
        append(log, 9)
        with pytest.raises(CorruptLogError, match="not any more"):
            log.write_snapshots(DUE)
    assert not (root / FOLDER / SNAPSHOT_FILE).exists()


def test_verify_looks_at_it(root: Path):
    assert verify(root).problems == []
    path = root / FOLDER / SNAPSHOT_FILE
    path.write_bytes(path.read_bytes()[:-1])
    (problem,) = verify(root).problems
    assert (problem.file, problem.reason) == (path, "it ends too early")


def test_compacted_meanwhile(root: Path):
    class Slow(Kept):
        def replay(self, chunk: bytes) -> None:
            _touch(root / FOLDER / f"{0:020d}.log")
            super().replay(chunk)

    before = (root / FOLDER / SNAPSHOT_FILE).read_bytes()
    with opened(root) as log:
        append(log, 9)
        assert log.write_snapshots(Snapshots(Slow, 1, 1)) == []
    assert (root / FOLDER / SNAPSHOT_FILE).read_bytes() == before


class Crash(BaseException):
    pass


def _write_failing(
    root: Path, monkeypatch: pytest.MonkeyPatch, step: int, error: BaseException
) -> list[str]:
    """Writes the next snapshot, which fails at a step; returns the steps that were done."""
    steps: list[str] = []

    def failing(name: str, function: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object) -> object:
            if len(steps) == step:
                raise error
            steps.append(name)
            return function(*arguments)

        return call

    with opened(root) as log:
        append(log, 3)
        with monkeypatch.context() as patched:
            for name in ("fsync", "replace"):
                patched.setattr(os, name, failing(name, getattr(os, name)))
            patched.setattr(Kept, "snapshot_chunk", failing("chunk", Kept.snapshot_chunk))
            patched.setattr(durable, "sync_directory", failing("names", lambda _: None))
            with contextlib.suppress(type(error)):
                assert log.write_snapshots(DUE) == [0]
    return steps


STEPS = [*["fsync"] * 9, *["chunk"] * 7, "fsync", "replace", "names"]


def test_the_steps_are_all_there_are(root: Path, monkeypatch: pytest.MonkeyPatch):
    assert _write_failing(root, monkeypatch, -1, Crash()) == STEPS


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), Crash()])
@pytest.mark.parametrize("step", range(len(STEPS)))
def test_every_step_may_fail(
    root: Path, monkeypatch: pytest.MonkeyPatch, step: int, error: BaseException
):
    """The old one or the new one is there, whole; and the next try succeeds."""
    assert _write_failing(root, monkeypatch, step, error) == STEPS[:step]
    names = {path.name for path in (root / FOLDER).iterdir()}
    assert SNAPSHOT_FILE in names
    assert SNAPSHOT_FILE + ".tmp" not in names
    assert read(root).restored
    with opened(root) as log:
        append(log, 20)
        assert log.write_snapshots(DUE) == [0]
    assert read(root).replayed == []


def test_a_failure_is_told_and_tried_again(
    root: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.INFO)
    failures = iter([OSError(28, "No space left on device")])
    write = file.write

    def fail_once(*arguments: object) -> int:
        for error in failures:
            raise error
        return write(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(file, "write", fail_once)
    with opened(root) as log:
        append(log, 9)
        log.start_snapshots(Snapshots(Kept, 1, 1))
        await_true(lambda: "at offset 30" in caplog.text)
    lines = [record.getMessage() for record in caplog.records]
    assert ["tried again: [Errno 28]" in lines[0], "at offset 30" in lines[1]] == [True, True]


def test_left_over_from_a_crash(root: Path):
    (root / FOLDER / (SNAPSHOT_FILE + ".tmp")).write_bytes(b"half")
    assert read(root).restored
    with opened(root) as log:
        append(log, 9)
        assert log.write_snapshots(DUE) == [0]
    assert not (root / FOLDER / (SNAPSHOT_FILE + ".tmp")).exists()
