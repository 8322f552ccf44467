"""The disk refuses: clients hear an error that they retry, and all goes on when it is well again.

EIO and ENOSPC at writes, syncs and names, a disk that is really full, and one that hangs.
"""

from __future__ import annotations

import errno
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.server import PykcoordServer, ServerError

from crash import frames
from crash.operations import OPERATIONS
from crash.points import POINTS
from crash.test_matrix import check
from crash.world import RETRIABLE, SETTINGS, TIMEOUT_S, World

pytestmark = pytest.mark.crash

_KAFKA_STORAGE_ERROR = 56
# Operation, fault points that fail one after the other, error. A full disk takes half a write.
REFUSED = [
    ("commit", ["segment.write"], errno.ENOSPC),
    ("commit", ["segment.sync"], errno.EIO),
    ("commit", ["segment.sync", "segment.truncate"], errno.EIO),
    ("rebalance", ["segment.write"], errno.EIO),
    ("roll", ["roll.create"], errno.ENOSPC),
    ("roll", ["partition.sync"], errno.EIO),
    ("first commit", ["segment.create"], errno.ENOSPC),
    ("first commit", ["partition.sync"], errno.EIO),
    ("first commit", ["metadata.write"], errno.ENOSPC),
    ("first commit", ["metadata.rename"], errno.EIO),
]
STARTS = [
    ("first start", "directory.create", errno.ENOSPC, "data"),
    ("first start", "lock.write", errno.ENOSPC, ".lock"),
    ("first start", "properties.write", errno.ENOSPC, "pykcoord.properties.tmp"),
    ("first start", "properties.sync", errno.EIO, "pykcoord.properties.tmp"),
    ("first start", "properties.rename", errno.EIO, "pykcoord.properties.tmp"),
    ("first start", "directory.sync", errno.EIO, "data"),
    ("first start", "catalogue.write", errno.ENOSPC, "catalogue.json.tmp"),
    ("start", "segment.sync", errno.EIO, ".log"),
    ("start on a torn tail", "segment.truncate", errno.EIO, ".log"),
    ("start cutting damage", "aside.write", errno.ENOSPC, ".log.corrupt-1"),
]


@pytest.fixture
def world(tmp_path: Path, faults: Path) -> Iterator[World]:
    made = World(tmp_path, faults)
    yield made
    made.close()


def populated(world: World) -> World:
    world.server.start()
    world.populate()
    world.warm_up()
    return world


@pytest.mark.parametrize(("name", "points", "number"), REFUSED)
def test_what_the_disk_refuses_is_retried(
    world: World, name: str, points: list[str], number: int
) -> None:
    if OPERATIONS[name].is_first:
        world.server.start()
    else:
        populated(world)
    attempt = OPERATIONS[name].prepare(world)
    before = world.look()
    world.disk.fail(*(POINTS[point].rule("before", f"error {number}", "1+") for point in points))
    assert attempt.ask() in RETRIABLE, world.server.stderr()
    world.disk.fail()
    assert world.retried(attempt.ask) == 0
    check(world, attempt, before, acknowledged=True)
    shown = world.look()
    world.disconnect()
    world.server.kill()
    world.disk.cut_power()
    world.server.start()
    assert world.look() == shown


@pytest.mark.parametrize(("name", "point", "number", "file"), STARTS)
def test_a_start_that_the_disk_refuses_names_the_file(
    tmp_path: Path, faults: Path, name: str, point: str, number: int, file: str
) -> None:
    operation = OPERATIONS[name]
    world = World(tmp_path, faults, operation.arguments)
    try:
        if not operation.is_first:
            populated(world)
        attempt = operation.prepare(world)
        world.disk.fail(POINTS[point].rule("before", f"error {number}", "1+"))
        with pytest.raises(ServerError) as refused:
            attempt.ask()
        last = str(refused.value).splitlines()[-1]
        assert last.startswith(f"pykcoord: {world.disk.root}"), last
        assert f"{file}: " in last
        world.disk.fail()
        attempt.ask()
        check(world, attempt, attempt.before, acknowledged=True)
    finally:
        world.close()


def test_a_segment_that_cannot_be_read_is_named(world: World) -> None:
    populated(world)
    before = world.look()
    world.disconnect()
    world.server.kill()
    world.disk.fail("1+ read data/__consumer_offsets-*/*.log before error 5")
    with pytest.raises(ServerError, match=r"\.log: Input/output error"):
        world.server.start()
    world.disk.fail()
    world.server.start()
    assert world.look() == before


def test_a_topic_that_cannot_be_remembered_is_not_made(world: World) -> None:
    populated(world)
    attempt = OPERATIONS["create a topic"].prepare(world)
    before = world.topics()
    world.disk.fail(POINTS["catalogue.write"].rule("before", f"error {errno.ENOSPC}", "1+"))
    assert attempt.ask() == _KAFKA_STORAGE_ERROR
    assert world.topics() == before
    world.disk.fail()
    assert attempt.ask() == 0
    assert len(world.topics()) == len(before) + 1


def test_after_a_failed_sync_nothing_is_believed_that_was_not_written_again(
    tmp_path: Path, faults: Path
) -> None:
    """With --flush interval a commit is answered before its sync: the failed one must not lose
    it when the next succeeds, since the system forgets what it could not write."""
    arguments = ("--flush", "interval", "--set", "log.flush.interval.ms=100")
    world = World(tmp_path, faults, arguments)
    try:
        populated(world)
        world.disk.fail(POINTS["segment.sync"].rule("before", f"error {errno.EIO}", "1+"))
        subject = world.new_group(prefix="plain")
        world.expect(world.commit(subject, 0, 7), 0)
        await_line(world, "syncing the log")
        world.disk.fail()
        world.expect(world.retried(lambda: world.commit(subject, 1, 8)), 0)
        start = len(world.disk.changes())
        await_true(lambda: "sync" in [one.call for one in world.disk.changes(start)], "no sync")
        world.disconnect()
        world.server.kill()
        world.disk.cut_power()
        world.server.start()
        assert world.look()[subject].offsets == {0: 7, 1: 8}
    finally:
        world.close()


def test_a_disk_that_hangs_holds_up_no_heartbeat(world: World) -> None:
    populated(world)
    members = list(world.members.values())
    subject = world.new_group(prefix="plain")
    world.disk.fail(POINTS["segment.sync"].rule("before", "hang", "1+"))
    answers: list[int] = []
    with socket.create_connection(("127.0.0.1", world.server.port), TIMEOUT_S) as other:
        writer = threading.Thread(target=lambda: answers.append(world.commit(subject, 0, 7)))
        writer.start()
        await_fault(world, "hang")
        for group, member_id, generation in 20 * members:
            other.sendall(frames.heartbeat(group, generation, member_id))
            assert frames.error_after_throttle(other.recv(1000)[4:]) == 0
        assert answers == []
        world.disk.fail()
        writer.join(TIMEOUT_S)
    assert answers == [0]


def test_a_stop_does_not_wait_for_ever_for_a_disk_that_hangs(world: World) -> None:
    populated(world)
    before = world.look()
    subject = world.new_group(prefix="plain")
    world.disk.fail(POINTS["segment.sync"].rule("before", "hang", "1+"))
    with socket.create_connection(("127.0.0.1", world.server.port), TIMEOUT_S) as other:
        other.sendall(frames.expiring_commit(subject, "orders", 0, 7, 600_000))
        await_fault(world, "hang")
        world.disconnect()
        assert world.server.stop() == 1
    assert "the disk did not take the last writes within 10 s" in world.server.stderr()
    world.disk.fail()
    world.server.start()
    after = world.look()
    assert {group: after[group] for group in before} == before


def test_a_disk_that_is_really_full(tmp_path: Path, faults: Path) -> None:
    """A file system of 300 KB, in a mount namespace of the server's own."""
    disk = tmp_path / "disk"
    disk.mkdir()
    namespace = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    mount = f"mount -t tmpfs -o size=300k tmpfs {disk}"
    if not shutil.which("unshare") or subprocess.run([*namespace, mount], check=False).returncode:
        pytest.skip("no mount namespace may be made here")

    class Server(PykcoordServer):
        def _command(self) -> list[str]:
            ballast = f"head -c 150000 /dev/zero >{disk}/ballast"
            return [*namespace, f'{mount} && {ballast} && exec "$@"', "sh", *super()._command()]

    world = World(tmp_path / "world", faults)
    world.server = Server(
        disk / "data",
        topics={"orders": 6},
        settings={**SETTINGS, "offsets.topic.num.partitions": "2"},
    )
    try:
        world.server.start()
        subject = world.new_group(prefix="plain")
        acknowledged = -1
        for offset in range(2_000):
            error = world.commit_all(subject, offset)
            if error:
                break
            acknowledged = offset
        assert error in RETRIABLE, "the disk did not fill up"
        (Path("/proc") / str(world.server.pid) / "root" / str(disk)[1:] / "ballast").unlink()
        world.expect(world.retried(lambda: world.commit(subject, 0, 5_000)), 0)
        offsets = world.look()[subject].offsets
        assert offsets.pop(0) == 5_000
        assert set(offsets.values()) <= {acknowledged, acknowledged + 1}
    finally:
        world.close()


def await_fault(world: World, kind: str) -> None:
    await_true(
        lambda: [kind] in [one.rest for one in world.disk.changes() if one.call == "!"],
        f"no {kind}",
    )


def await_line(world: World, text: str) -> None:
    await_true(lambda: text in world.server.stderr(), f"no line says {text!r}")


def await_true(condition, text: str) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, text
        time.sleep(0.01)
