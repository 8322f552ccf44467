"""The lock of a directory, and children of fork, which do not hold it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pykcoord.errors import LogLockedError
from pykcoord.log import LogDirectory
from pykcoord.log.lock import DirectoryLock

# Locks the directory, forks a child that lives until its input ends, and gives the lock up, or is
# killed.
HOLDER = """
import os, signal, sys
from pathlib import Path
from pykcoord.log import LogDirectory
from pykcoord.log.lock import DirectoryLock
how, directory = sys.argv[1], Path(sys.argv[2])
if how == "log":
    holder = LogDirectory.open(directory, partitions=2)
else:
    holder = DirectoryLock.take(directory, kept_by_children=how == "kept")
forked, of_child = os.pipe()
child = os.fork()
if child:
    os.read(forked, 1)
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    holder.close()
    print("closed", flush=True)
    os.waitpid(child, 0)
else:
    os.write(of_child, b"x")
    if how == "log":
        holder.close()
    sys.stdin.read()
    os._exit(0)
"""
# Takes Kafka's lock alone, and says whether it got it.
BROKER = """
import fcntl, sys
try:
    fcntl.lockf(open(sys.argv[1], "r+b"), fcntl.LOCK_EX | fcntl.LOCK_NB)
    print("locked")
except BlockingIOError:
    print("refused")
"""
SECONDS = 60.0


def start(how: str, directory: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", HOLDER, how, str(directory)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    if how == "killed":
        assert process.wait(SECONDS) == -signal.SIGKILL
    else:
        assert process.stdout.readline() == b"closed\n"
    return process


@pytest.mark.parametrize("how", ["lock", "log"])
def test_a_child_of_fork_does_not_keep_the_lock(how: str, tmp_path: Path) -> None:
    process = start(how, tmp_path)
    try:
        LogDirectory.open(tmp_path, partitions=2).close()
    finally:
        process.communicate(timeout=SECONDS)
    assert process.returncode == 0


def test_a_child_of_fork_does_not_keep_the_lock_of_a_parent_that_was_killed(
    tmp_path: Path,
) -> None:
    process = start("killed", tmp_path)
    try:
        LogDirectory.open(tmp_path, partitions=2).close()
    finally:
        process.communicate(timeout=SECONDS)


def test_a_supervisor_can_leave_the_lock_to_its_children(tmp_path: Path) -> None:
    process = start("kept", tmp_path)
    try:
        with pytest.raises(LogLockedError) as refused:
            DirectoryLock.take(tmp_path)
        assert refused.value.pid == process.pid
    finally:
        process.communicate(timeout=SECONDS)
    DirectoryLock.take(tmp_path).close()


def test_a_child_that_ends_leaves_its_parent_the_lock(tmp_path: Path) -> None:
    """Closing a copy must not unlock what the parent holds."""
    script = """
import os, sys
from pathlib import Path
from pykcoord.errors import LogLockedError
from pykcoord.log.lock import DirectoryLock
held = DirectoryLock.take(Path(sys.argv[1]))
child = os.fork()
if not child:
    assert not held.held
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
try:
    DirectoryLock.take(Path(sys.argv[1]))
except LogLockedError:
    print("locked")
"""
    command = [sys.executable, "-c", script, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert ended.stdout == "locked\n", ended.stderr


def test_a_program_that_is_started_with_the_descriptor_holds_the_lock(tmp_path: Path) -> None:
    lock = DirectoryLock.take(tmp_path)
    child = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"],
        stdin=subprocess.PIPE,
        pass_fds=[lock.descriptor],
    )
    lock.kept_by_children = True
    lock.close()
    with pytest.raises(LogLockedError):
        DirectoryLock.take(tmp_path)
    child.communicate(timeout=SECONDS)
    DirectoryLock.take(tmp_path).close()


def a_broker_is(directory: Path) -> str:
    command = [sys.executable, "-c", BROKER, str(directory / ".lock")]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_what_is_refused_in_this_process_costs_it_no_lock(tmp_path: Path) -> None:
    """POSIX drops a process's fcntl lock with the first descriptor of the file that it closes."""
    (tmp_path / "alias").symlink_to(tmp_path)
    lock = DirectoryLock.take(tmp_path)
    for directory in (tmp_path, tmp_path / "alias"):
        for again in (DirectoryLock.take, DirectoryLock.share):
            with pytest.raises(LogLockedError) as refused:
                again(directory)
            assert refused.value.pid == os.getpid()
        assert a_broker_is(tmp_path) == "refused"
    lock.close()
    assert a_broker_is(tmp_path) == "locked"


def test_a_lock_that_is_shared_keeps_writers_away(tmp_path: Path) -> None:
    assert DirectoryLock.share(tmp_path) is None
    assert not list(tmp_path.iterdir())
    DirectoryLock.take(tmp_path).close()
    shared = DirectoryLock.share(tmp_path)
    assert shared is not None
    with pytest.raises(LogLockedError):
        DirectoryLock.take(tmp_path)
    assert a_broker_is(tmp_path) == "refused"
    shared.close()
    DirectoryLock.take(tmp_path).close()
