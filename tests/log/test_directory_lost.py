"""A directory that is moved away or deleted while it is open: nothing is acknowledged that the
process that opens the next one under its name could contradict, and nothing of that one's touched.
"""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from queue import SimpleQueue

import pytest
from support.compacting import compaction
from support.hosting import wait_until

from pykcoord.errors import LogDirectoryLostError, LogError
from pykcoord.log import Append, Failure, LogDirectory, presence
from pykcoord.log.presence import Presence

WAIT_SECONDS = 60
MOVED = "was moved away or deleted"
REPLACED = "another directory stands here"
UNLOCKED = "the .lock file was deleted or replaced"
Answer = tuple[list[tuple[int, int]], list[tuple[int, Failure]]]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[..., LogDirectory]]:
    logs: list[LogDirectory] = []

    def opens(**options) -> LogDirectory:
        logs.append(LogDirectory.open(tmp_path / "log", **{"partitions": 3, **options}))
        return logs[-1]

    yield opens
    for log in logs:
        log.close()


def append(log: LogDirectory, shard: int, offset: int, text: bytes = b"record") -> Answer:
    result: Future[Answer] = Future()
    record = Append(shard, offset, 1, 1000, 1001, text)
    log.append([record], lambda committed, failed: result.set_result((committed, failed)))
    return result.result(WAIT_SECONDS)


def contents(directory: Path) -> dict[str, bytes]:
    files = (path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


def assert_lost(answer: Answer, reason: str) -> None:
    committed, [(_, error)] = answer
    assert committed == []
    assert isinstance(error, LogDirectoryLostError)
    assert reason in str(error)


def moved(log: LogDirectory) -> None:
    log.path.rename(log.path.with_name("elsewhere"))


def deleted(log: LogDirectory) -> None:
    shutil.rmtree(log.path)


def unlocked(log: LogDirectory) -> None:
    (log.path / ".lock").unlink()


def made_a_file(log: LogDirectory) -> None:
    moved(log)
    log.path.touch()


@pytest.mark.parametrize("flush", ["commit", "interval", "os"])
@pytest.mark.parametrize(
    ("take_away", "reason"),
    [(moved, MOVED), (deleted, MOVED), (made_a_file, REPLACED), (unlocked, UNLOCKED)],
)
def test_nothing_is_acknowledged_once_the_directory_is_gone(opened, take_away, reason, flush):
    log = opened(flush=flush)
    assert append(log, 0, 0) == ([(0, 1)], [])
    log.sync()  # its epoch is written behind the answer: `rmtree` wants no file to appear
    take_away(log)
    assert_lost(append(log, 0, 1), reason)  # a file that is open
    assert_lost(append(log, 1, 0), reason)  # one that is to be made
    for shard in range(2):
        with pytest.raises(LogDirectoryLostError, match=reason):
            log.reopen(shard)


def test_what_another_owner_made_under_the_name_is_left_alone(opened, tmp_path):
    """Every way in which the first one changes names: segments, epochs, compaction, documents."""
    first = opened(segment_bytes=200)
    for shard in range(2):
        assert append(first, shard, 0, bytes(150))[1] == []
    catalogue = first.state_file("catalogue.json")
    catalogue.write({"whose": "first"})
    moved(first)
    second = opened(segment_bytes=200)
    for shard in range(3):
        assert append(second, shard, 0, bytes(150))[1] == []
    second.state_file("catalogue.json").write({"whose": "second"})
    # They are written beside the appends.
    epochs = [second.path / f"__consumer_offsets-{n}/leader-epoch-checkpoint" for n in range(3)]
    wait_until(lambda: all(path.exists() for path in epochs))
    before = contents(second.path)
    assert_lost(append(first, 0, 1, bytes(150)), REPLACED)  # into a new segment
    assert_lost(append(first, 1, 1), REPLACED)
    assert_lost(append(first, 2, 0), REPLACED)  # the first record of a partition
    with pytest.raises(LogDirectoryLostError):
        first.compact(compaction())
    with pytest.raises(LogDirectoryLostError):
        catalogue.write({"whose": "first"})
    with pytest.raises(LogDirectoryLostError):
        first.reopen(1)
    first.close()
    assert contents(second.path) == before
    assert append(second, 0, 1) == ([(0, 2)], [])
    assert (tmp_path / "elsewhere/catalogue.json").read_bytes().count(b"first") == 1


def test_a_document_does_not_bring_a_deleted_directory_back(opened):
    log = opened()
    deleted(log)
    with pytest.raises(LogDirectoryLostError, match=MOVED):
        log.state_file("catalogue.json").write({})
    assert not log.path.exists()


def test_a_directory_that_is_put_back_in_time_goes_on(opened):
    log = opened()
    moved(log)
    log.path.with_name("elsewhere").rename(log.path)
    assert append(log, 0, 0) == ([(0, 1)], [])


def test_the_lock_is_looked_at_while_nothing_is_appended(opened, monkeypatch):
    monkeypatch.setattr(presence, "_INTERVAL_SECONDS", 0.01)
    log = opened()
    seen: SimpleQueue[LogError] = SimpleQueue()
    log.start_watching(seen.put)
    moved(log)
    error = seen.get(timeout=WAIT_SECONDS)
    assert isinstance(error, LogDirectoryLostError)
    assert MOVED in str(error)


def test_a_look_that_says_nothing_is_an_error_of_the_disk(tmp_path):
    (tmp_path / ".lock").touch()
    with (tmp_path / ".lock").open() as lock:
        failure = Presence(tmp_path, lock.fileno()).failure(errno.EACCES)
    assert isinstance(failure, OSError)
    assert (failure.errno, failure.filename) == (errno.EACCES, str(tmp_path / ".lock"))


def test_a_process_may_change_its_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with LogDirectory.open("log", partitions=1, segment_bytes=100) as log:
        (tmp_path / "other").mkdir()
        monkeypatch.chdir(tmp_path / "other")
        for offset in range(3):
            assert append(log, 0, offset, bytes(80))[1] == []
    assert list((tmp_path / "other").iterdir()) == []
    assert len(list((tmp_path / "log/__consumer_offsets-0").glob("*.log"))) == 3
