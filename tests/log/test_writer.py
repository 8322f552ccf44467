"""The writer thread: group commit, the flush policies, and a failing disk."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from pykcoord.errors import CoordinatorClosedError, CorruptLogError, LogFencedError
from pykcoord.log import Append, Failure, LogDirectory, partition, writer
from pykcoord.log._disk import Outcome
from pykcoord.log._record_batch import frame, scan

WAIT_SECONDS = 60
Answer = tuple[list[tuple[int, int]], list[tuple[int, Failure]]]


class Disk:
    """Stands for `write_files`: counted, broken on demand; remembers what was synced."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.syncs: list[str] = []
        self.synced_bytes: dict[str, int] = {}
        self.before_sync: Callable[[str], None] = lambda path: None
        self.write: Callable[[int, bytes, int], int] = os.pwrite
        for module in (partition, writer):
            monkeypatch.setattr(module, "write_files", self.write_files)

    def full_after(self, size: int) -> None:
        """Files take `size` bytes more, then the disk is full."""

        def write(descriptor: int, data: bytes, position: int) -> int:
            nonlocal size
            if size == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            written = os.pwrite(descriptor, data[:size], position)
            size -= written
            return written

        self.write = write

    def repaired(self) -> None:
        self.write = os.pwrite
        self.before_sync = lambda path: None

    def write_files(
        self,
        files: list[tuple[int, int, list[bytes]]],
        sync: bool,
        lock: tuple[bytes, int, int] | None = None,
    ) -> list[Outcome | None]:
        outcomes = [self._write(*file) for file in files]
        if sync:
            outcomes = [
                outcome if outcome.write_error else outcome._replace(sync_error=self._sync(file[0]))
                for file, outcome in zip(files, outcomes, strict=True)
            ]
        return [one if one.write_error or one.sync_error else None for one in outcomes]

    def _write(self, descriptor: int, size: int, batches: list[bytes]) -> Outcome:
        status = os.fstat(descriptor)
        if status.st_size != size or status.st_nlink == 0:
            return Outcome(status.st_size, status.st_nlink, errno.ESTALE, 0)
        data = b"".join(batches)
        try:
            while data:
                written = self.write(descriptor, data, size)
                size, data = size + written, data[written:]
        except OSError as error:
            return Outcome(status.st_size, status.st_nlink, error.errno or errno.EIO, 0)
        return Outcome(status.st_size, status.st_nlink, 0, 0)

    def _sync(self, descriptor: int) -> int:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        size = os.fstat(descriptor).st_size
        try:
            self.before_sync(path)
        except OSError as error:
            return error.errno or errno.EIO
        os.fdatasync(descriptor)
        self.syncs.append(path)
        self.synced_bytes[path] = size
        return 0


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[..., LogDirectory]]:
    logs: list[LogDirectory] = []

    def opens(**options) -> LogDirectory:
        logs.append(LogDirectory.open(tmp_path / "log", **{"partitions": 3, **options}))
        return logs[-1]

    yield opens
    for log in logs:
        log.close()


def submit(log: LogDirectory, *appends: Append) -> Future[Answer]:
    result: Future[Answer] = Future()
    log.append(appends, lambda committed, failed: result.set_result((committed, failed)))
    return result


def one(shard: int, offset: int, text: bytes = b"record", count: int = 1) -> Append:
    return Append(shard, offset, count, 1000, 1001, text)


def append(log: LogDirectory, *appends: Append) -> Answer:
    return submit(log, *appends).result(WAIT_SECONDS)


def fail_with(code: int) -> Callable[[str], None]:
    def fail(path: str) -> None:
        raise OSError(code, os.strerror(code), path)

    return fail


def segment(log: LogDirectory, shard: int) -> Path:
    return max((log.path / f"__consumer_offsets-{shard}").glob("*.log"))


def test_what_is_appended_is_there(opened):
    log = opened()
    assert append(log, one(0, 0), one(2, 0, b"two", 3), one(0, 1)) == ([(0, 2), (2, 3)], [])
    assert append(log, one(2, 3)) == ([(2, 4)], [])
    assert [log.next_offset(shard) for shard in range(3)] == [2, 0, 4]
    assert b"".join(log.read(0)) == frame(b"record", 1, 0, 1000, 1001, 0) + frame(
        b"record", 1, 1, 1000, 1001, 0
    )
    assert list(log.read(1)) == []
    log.close()
    again = opened()
    assert [again.next_offset(shard) for shard in range(3)] == [2, 0, 4]
    assert b"".join(again.read(2))[61:64] == b"two"


def test_what_arrives_during_a_sync_shares_the_next(opened, disk: Disk):
    log = opened()
    append(log, one(0, 0), one(1, 0))
    syncing, gate = threading.Event(), threading.Event()

    def hold(path: str) -> None:
        syncing.set()
        assert gate.wait(WAIT_SECONDS)

    disk.before_sync = hold
    disk.syncs.clear()
    first = submit(log, one(0, 1))
    assert syncing.wait(WAIT_SECONDS)
    rest = [submit(log, one(n % 2, n // 2 + 1 + (n + 1) % 2)) for n in range(100)]
    assert not first.done()
    gate.set()
    assert first.result(WAIT_SECONDS) == ([(0, 2)], [])
    for number, result in enumerate(rest):
        assert result.result(WAIT_SECONDS)[0][0][0] == number % 2
    assert len(disk.syncs) == 3
    assert sorted(set(disk.syncs)) == [str(segment(log, 0)), str(segment(log, 1))]


def test_committed_means_synced(opened, disk: Disk):
    """At each callback, what the last sync of each file covered holds all that is reported."""
    log = opened(segment_bytes=900)
    wrong: list[tuple[int, int]] = []
    finished = threading.Semaphore(0)
    sound: dict[str, int] = {}

    def check(committed: list[tuple[int, int]], failed: list[tuple[int, Failure]]) -> None:
        for path, size in disk.synced_bytes.items():
            base = int(Path(path).stem)
            sound[path] = scan(Path(path).read_bytes()[:size], 0, base, base).next_offset
        for shard, end in committed:
            folder = f"__consumer_offsets-{shard}/"
            if max(end for path, end in sound.items() if folder in path) < end:
                wrong.append((shard, end))
        finished.release()

    for offset in range(60):
        log.append([one(shard, offset, b"x" * 50) for shard in range(3)], check)
    for _ in range(60):
        assert finished.acquire(timeout=WAIT_SECONDS)
    assert wrong == []
    assert len(sound) > 9


@pytest.mark.parametrize("flush", ["interval", "os"])
def test_without_group_commit_written_is_committed(opened, disk: Disk, flush: str):
    log = opened(flush=flush, flush_interval_ms=3_600_000)
    disk.before_sync = fail_with(errno.EIO)
    assert append(log, one(0, 0)) == ([(0, 1)], [])
    assert disk.syncs == []
    disk.repaired()
    log.sync()
    assert disk.syncs == [str(segment(log, 0))]
    log.sync()
    assert len(disk.syncs) == 1


def test_the_flush_interval_syncs_by_itself(opened, disk: Disk):
    synced = threading.Event()
    disk.before_sync = lambda path: synced.set()
    log = opened(flush="interval", flush_interval_ms=20)
    append(log, one(1, 0))
    assert synced.wait(WAIT_SECONDS)


def test_segments_roll(opened, disk: Disk):
    log = opened(segment_bytes=200)
    appends = [one(0, offset, b"x" * 39) for offset in range(7)]
    assert append(log, *appends) == ([(0, 7)], [])
    folder = log.path / "__consumer_offsets-0"
    assert sorted(path.name for path in folder.glob("*.log")) == [
        f"{base:020d}.log" for base in (0, 2, 4, 6)
    ]
    assert [Path(path).name for path in disk.syncs] == [f"{base:020d}.log" for base in (0, 2, 4, 6)]
    assert scan(b"".join(log.read(0)), 0, 0).next_offset == 7
    assert append(log, one(0, 7, b"y" * 1000), one(0, 8)) == ([(0, 9)], [])
    log.close()
    assert opened().next_offset(0) == 9


def test_thousands_of_batches_in_one_round(opened):
    log = opened()
    appends = [one(0, offset, offset.to_bytes(4, "big")) for offset in range(2500)]
    assert append(log, *appends) == ([(0, 2500)], [])
    assert scan(b"".join(log.read(0)), 0, 0).batches == 2500


def test_a_full_disk_takes_back_the_part_that_was_written(opened, disk: Disk):
    log = opened()
    append(log, one(0, 0), one(1, 0))
    before = segment(log, 0).read_bytes()
    disk.full_after(100)
    committed, failed = append(log, one(0, 1), one(0, 2))
    assert committed == []
    assert [(shard, error.errno) for shard, error in failed] == [(0, errno.ENOSPC)]
    assert segment(log, 0).read_bytes() == before
    disk.repaired()
    again, refused = append(log, one(0, 3), one(1, 1))
    assert again == [(1, 2)]
    assert refused == failed
    log.reopen(0)
    assert log.next_offset(0) == 1
    assert append(log, one(0, 1, b"after")) == ([(0, 2)], [])
    log.close()
    assert b"after" in b"".join(opened().read(0))


def test_a_failed_sync_is_never_reported_committed(opened, disk: Disk):
    log = opened()
    append(log, one(0, 0), one(1, 0))
    kept = segment(log, 0).read_bytes()
    broken = str(segment(log, 0))

    def fail(path: str) -> None:
        if path == broken:
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    disk.before_sync = fail
    committed, failed = append(log, one(0, 1), one(1, 1), one(2, 0))
    assert sorted(committed) == [(1, 2), (2, 1)]
    assert [(shard, error.errno) for shard, error in failed] == [(0, errno.EIO)]
    assert segment(log, 0).read_bytes() == kept
    with pytest.raises(OSError, match="Input/output"):
        log.reopen(0)
    with pytest.raises(OSError, match="Input/output"):
        log.reopen(0)
    assert append(log, one(0, 2))[0] == []
    disk.repaired()
    log.reopen(0)
    assert segment(log, 0).read_bytes() == kept
    assert append(log, one(0, 1)) == ([(0, 2)], [])


def test_what_was_acknowledged_unsynced_is_written_again(opened, disk: Disk, monkeypatch):
    """After a failed fsync Linux may take pages for clean that never reached the disk."""
    log = opened(flush="os")
    append(log, one(0, 0))
    log.sync()
    synced = segment(log, 0).stat().st_size
    append(log, one(0, 1), one(0, 2))
    disk.before_sync = fail_with(errno.EIO)
    with pytest.raises(OSError, match="Input/output"):
        log.sync()
    assert append(log, one(0, 3))[1][0][0] == 0
    disk.repaired()
    written: list[int] = []
    pwrite = os.pwrite

    def noting(descriptor: int, data: bytes, position: int) -> int:
        written.append(position)
        return pwrite(descriptor, data, position)

    monkeypatch.setattr(os, "pwrite", noting)
    log.reopen(0)
    assert written == [synced]
    assert log.next_offset(0) == 3


def test_a_roll_that_fails_costs_the_partition_only(opened, disk: Disk, monkeypatch):
    log = opened(segment_bytes=100)
    append(log, one(0, 0, b"x" * 30))
    real = os.open

    def no_new_files(path, flags, *mode, **options):
        if flags & os.O_CREAT and str(path).endswith(".log"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return real(path, flags, *mode, **options)

    monkeypatch.setattr(os, "open", no_new_files)
    committed, failed = append(log, one(0, 1, b"y" * 30))
    assert (committed, failed[0][1].errno) == ([], errno.ENOSPC)
    monkeypatch.setattr(os, "open", real)
    log.reopen(0)
    assert append(log, one(0, 1, b"z" * 30)) == ([(0, 2)], [])


@pytest.mark.parametrize("flush", ["commit", "os"])
def test_a_round_without_memory_costs_its_partitions_and_not_the_thread(
    opened, disk: Disk, monkeypatch, flush: str
):
    log = opened(flush=flush)
    append(log, one(0, 0), one(1, 0))

    def no_memory(files, sync):
        raise MemoryError

    monkeypatch.setattr(writer, "write_files", no_memory)
    committed, failed = append(log, one(0, 1), one(1, 1))
    assert (committed, [(shard, error.errno) for shard, error in failed]) == (
        [],
        [(0, errno.EIO), (1, errno.EIO)],
    )
    monkeypatch.setattr(writer, "write_files", disk.write_files)
    assert append(log, one(2, 0)) == ([(2, 1)], [])
    log.reopen(0)
    log.reopen(1)
    assert append(log, one(0, 1), one(1, 1)) == ([(0, 2), (1, 2)], [])


def test_a_wrong_base_offset_is_an_assertion(opened):
    log = opened()
    with pytest.raises(AssertionError):
        log.append([one(0, 1)], lambda *_: None)
    assert append(log, one(0, 0)) == ([(0, 1)], [])


def test_a_newer_writer_fences_this_one(opened):
    log = opened()
    append(log, one(0, 0), one(1, 0))
    foreign = frame(b"theirs", 1, 1, 0, 0, log.leader_epoch + 1)
    with open(segment(log, 0), "ab") as file:
        file.write(foreign)
    committed, failed = append(log, one(0, 1), one(1, 1))
    assert committed == [(1, 2)]
    assert isinstance(failed[0][1], LogFencedError)
    assert failed[0][1].newer_epoch == log.leader_epoch + 1
    assert segment(log, 0).read_bytes().endswith(foreign)
    with pytest.raises(LogFencedError):
        log.reopen(0)


def test_a_fenced_writer_leaves_the_checkpoint_of_the_newer_one(opened):
    log = opened()
    append(log, one(0, 0))
    log.close()
    log = opened()
    with open(segment(log, 0), "ab") as file:
        file.write(frame(b"theirs", 1, 1, 0, 0, log.leader_epoch + 1))
    theirs = f"0\n2\n0 0\n{log.leader_epoch + 1} 1\n"
    checkpoint = segment(log, 0).with_name("leader-epoch-checkpoint")
    checkpoint.write_text(theirs)
    _, failed = append(log, one(0, 1))
    assert isinstance(failed[0][1], LogFencedError)
    assert checkpoint.read_text() == theirs
    log.close()
    assert checkpoint.read_text() == theirs


def test_an_epoch_of_which_there_is_no_batch_is_not_written_down(opened, disk):
    log = opened()
    append(log, one(0, 0))
    log.close()
    log = opened()
    checkpoint = segment(log, 0).with_name("leader-epoch-checkpoint")
    before = checkpoint.read_text()
    disk.full_after(0)
    assert append(log, one(0, 1))[0] == []
    assert checkpoint.read_text() == before
    disk.repaired()
    log.reopen(0)
    assert append(log, one(0, 1)) == ([(0, 2)], [])
    log.close()
    assert checkpoint.read_text() == f"0\n2\n0 0\n{log.leader_epoch} 1\n"


def test_a_log_that_somebody_else_changed_is_not_written_on(opened):
    log = opened()
    append(log, one(0, 0), one(1, 0))
    os.truncate(segment(log, 0), 10)
    segment(log, 1).unlink()
    committed, failed = append(log, one(0, 1), one(1, 1))
    assert committed == []
    assert all(isinstance(error, CorruptLogError) for _, error in failed)
    assert "it has 10 bytes" in str(failed[0][1])
    assert "it was deleted" in str(failed[1][1])
    for shard in (0, 1):
        with pytest.raises(CorruptLogError, match="acknowledged up to offset 1"):
            log.reopen(shard)
    assert segment(log, 0).stat().st_size == 10


def test_what_is_cut_when_it_is_read_again_is_told_once(opened, caplog: pytest.LogCaptureFixture):
    log = opened()
    append(log, one(0, 0))
    size = segment(log, 0).stat().st_size
    with open(segment(log, 0), "ab") as file:
        file.write(b"half a batch")
    assert append(log, one(0, 1))[0] == []
    caplog.clear()
    for _ in range(2):
        log.reopen(0)
        assert [(cut.position, cut.cut_bytes) for cut in log.cuts] == [(size, 12)]
    assert [record.getMessage() for record in caplog.records] == [str(log.cuts[0])]
    assert append(log, one(0, 1)) == ([(0, 2)], [])


def test_a_callback_that_raises_stops_nothing(opened, caplog: pytest.LogCaptureFixture):
    log = opened()
    log.append([one(0, 0)], lambda committed, failed: 1 // 0)
    assert append(log, one(0, 1)) == ([(0, 2)], [])
    assert "ZeroDivisionError" in caplog.text


def test_closing_finishes_what_was_handed_in(opened):
    log = opened()
    results = [submit(log, one(0, offset)) for offset in range(50)]
    log.close()
    assert [result.result(0)[0] for result in results] == [[(0, end)] for end in range(1, 51)]
    with pytest.raises(CoordinatorClosedError):
        log.append([one(0, 50)], lambda *_: None)
    with pytest.raises(CoordinatorClosedError):
        log.reopen(0)
    log.close()


def test_the_observer_is_told(opened):
    class Observer:
        def __init__(self) -> None:
            self.appends: list[tuple[int, int, int]] = []
            self.syncs: list[tuple[int, float]] = []

        def appended(self, shard: int, batches: int, size_bytes: int) -> None:
            self.appends.append((shard, batches, size_bytes))

        def synced(self, files: int, seconds: float) -> None:
            self.syncs.append((files, seconds))

    ticks = iter([10.0, 10.5])
    observer = Observer()
    log = opened(observer=observer, monotonic=lambda: next(ticks))
    append(log, one(0, 0, b"x" * 9), one(0, 1, b"x"), one(1, 0, b"x"))
    assert observer.appends == [(0, 2, 132), (1, 1, 62)]
    assert observer.syncs == [(2, 0.5)]


def test_an_observer_that_raises_ends_nothing(opened, caplog: pytest.LogCaptureFixture):
    class Observer:
        def appended(self, *_: object) -> None:
            raise ZeroDivisionError("of appended")

        def synced(self, *_: object) -> None:
            raise SystemExit("of synced")

    log = opened(observer=Observer())
    for offset in range(2):
        assert append(log, one(0, offset, b"x")) == ([(0, offset + 1)], [])
    assert "of appended" in caplog.text
    assert "of synced" in caplog.text
