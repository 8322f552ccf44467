"""The operations of the server during which its disk fails: the columns of the crash matrix.

Each operation says which fault points it passes; test_matrix.py holds it to that.
"""

from __future__ import annotations

import errno
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from crash import frames
from crash.disk import segments
from crash.points import POINTS
from crash.world import PARTITIONS, ROLLING_SHARD, TIMEOUT_S, TOPIC, Seen, World

_UNKNOWN_MEMBER_ID, _ILLEGAL_GENERATION = 25, 22
_REBALANCE_IN_PROGRESS, _GROUP_ID_NOT_FOUND = 27, 69
_ROLLING_COMMITS = 40
# Enough for several snapshots, and less than a full segment.
_SNAPSHOT_COMMITS = 8


@dataclass
class Attempt:
    """One run of an operation, prepared but not begun.

    `ask` does it and returns the error code, or raises OSError when the server dies meanwhile.
    `allowed(seen, acknowledged)`: whether `seen` is a possible state of `subject` afterwards.
    `before`: the state before an operation that begins without a server. `rules` are faults that
    belong to the operation, and `passed` says how often they let it pass a point. `asks_nothing`: a
    kill (not a power cut) may change nothing at all.
    """

    subject: str
    ask: Callable[[], int]
    allowed: Callable[[Seen, bool], bool]
    before: dict[str, Seen] = field(default_factory=dict)
    rules: list[str] = field(default_factory=list)
    passed: dict[str, int] = field(default_factory=dict)
    asks_nothing: bool = False


@dataclass(frozen=True)
class Operation:
    """`is_start`: `prepare` stops the server and `ask` starts it. `is_first`: it needs a world
    without an earlier attempt."""

    name: str
    points: tuple[str, ...]
    prepare: Callable[[World], Attempt]
    is_start: bool = False
    is_first: bool = False
    arguments: tuple[str, ...] = ()


def _start(world: World) -> int:
    world.server.start()
    return 0


def _unchanged(before: Seen) -> Callable[[Seen, bool], bool]:
    return lambda seen, acknowledged: seen == before


def _first_start(world: World) -> Attempt:
    return Attempt("", lambda: _start(world), lambda seen, acknowledged: True)


def _stopped(world: World) -> Attempt:
    """A server that was killed with groups in every shard; its files stay as they are."""
    return _killed(world, world.groups[-1])


def _torn(world: World) -> Attempt:
    attempt = _stopped(world)
    first, *others = segments(world.disk.data)
    # Only the last segment of a partition can be torn; an earlier world may have rolled.
    segment = [first, *(path for path in others if path.parent == first.parent)][-1]
    with open(segment, "r+b") as file:
        batch = file.read()
        file.write(batch[: len(batch) // 2])  # ends within a batch; whole ones repeat old offsets
        file.truncate(len(batch) + 60)
    return attempt


def _rolled(world: World) -> Attempt:
    """As `_stopped`, with several segments in one shard that hold commits of one group."""
    subject = world.new_group(ROLLING_SHARD, "rolled")
    for offset in range(_ROLLING_COMMITS):
        world.expect(world.commit_all(subject, offset), 0)
    return _killed(world, subject)


def _killed(world: World, subject: str) -> Attempt:
    before = world.look()
    world.disconnect()
    world.server.kill()
    return Attempt(subject, lambda: _start(world), _unchanged(before[subject]), before)


def _damaged(world: World) -> Attempt:
    """A flipped bit in a segment with others behind it, for --on-corruption truncate."""
    attempt = _rolled(world)
    *_, broken, behind = (path for path in segments(world.disk.data) if path.parent.name[-1] == "0")
    content = bytearray(broken.read_bytes())
    content[-200] ^= 1
    broken.write_bytes(content)
    broken.with_suffix(".index").touch()
    cut = [bytes(content[-200:]), behind.read_bytes()]

    def allowed(seen: Seen, acknowledged: bool) -> bool:
        aside = [path.read_bytes() for path in broken.parent.glob("*.log.corrupt-*")]
        assert all(any(part in kept for kept in aside) for part in cut), "what was cut is not kept"
        return 0 <= seen.offsets[0] < _ROLLING_COMMITS - 1

    return Attempt(attempt.subject, attempt.ask, allowed, attempt.before)


def _compacted(world: World) -> Attempt:
    """A compaction that a crash interrupted: a segment that waits for its name, and leftovers."""
    attempt = _rolled(world)
    first = next(segments(world.disk.data))
    shutil.copy(first, f"{first}.swap")
    first.with_suffix(".index").touch()
    first.with_name(f"{9:020d}.log.deleted").touch()
    first.with_name(f"{9:020d}.index.deleted").touch()
    (world.disk.data / ".kafka_cleanshutdown").touch()
    return attempt


def _commit(world: World) -> Attempt:
    subject = world.new_group(prefix="plain")
    return Attempt(
        subject,
        lambda: world.commit(subject, 0, 7),
        lambda seen, acknowledged: seen.offsets == {0: 7} or (not acknowledged and not seen.listed),
    )


def _join(world: World) -> Attempt:
    subject = world.new_group()

    def allowed(seen: Seen, acknowledged: bool) -> bool:
        return seen.heartbeat == 0 if acknowledged else seen.heartbeat == -1

    def ask() -> int:
        # The first record of a group says that it is empty: without a member it expires.
        world.expiring.add(subject)
        error = world.join(subject)
        world.expiring.discard(subject)
        return error

    return Attempt(subject, ask, allowed)


def _rebalance(world: World) -> Attempt:
    subject = world.new_group()
    world.expect(world.join(subject), 0)
    world.expect(world.commit(subject, 0, 9), 0)

    def allowed(seen: Seen, acknowledged: bool) -> bool:
        fenced = seen.heartbeat == _ILLEGAL_GENERATION and not acknowledged
        return seen.offsets == {0: 9} and (seen.heartbeat == 0 or fenced)

    return Attempt(subject, lambda: world.join(subject), allowed)


def _leave(world: World) -> Attempt:
    subject = world.new_group()
    world.expect(world.join(subject), 0)
    world.expect(world.commit(subject, 0, 9), 0)
    request = frames.leave_group(subject, world.members[subject].member_id)

    def allowed(seen: Seen, acknowledged: bool) -> bool:
        left = seen.heartbeat == _UNKNOWN_MEMBER_ID
        return seen.offsets == {0: 9} and (left or (seen.heartbeat == 0 and not acknowledged))

    return Attempt(subject, lambda: frames.error_after_throttle(world.ask(request)), allowed)


def _consumer_join(world: World) -> Attempt:
    subject = world.new_group(prefix="consumer")
    world.expect(world.commit(subject, 0, 9), 0)

    def allowed(seen: Seen, acknowledged: bool) -> bool:
        return seen.offsets == {0: 9} and seen.consumer_heartbeat == (0 if acknowledged else -1)

    return Attempt(subject, lambda: world.join_as_consumer(subject), allowed)


def _consumer_leave(world: World) -> Attempt:
    attempt = _consumer_join(world)
    world.expect(attempt.ask(), 0)

    def allowed(seen: Seen, acknowledged: bool) -> bool:
        left = seen.consumer_heartbeat == _UNKNOWN_MEMBER_ID
        stays = seen.consumer_heartbeat == 0 and not acknowledged
        return seen.offsets == {0: 9} and (left or stays)

    return Attempt(attempt.subject, lambda: world.leave_as_consumer(attempt.subject), allowed)


def _upgrade(world: World) -> Attempt:
    """A member of the consumer protocol joins a classic group, whose member has to join again."""
    subject = world.new_group()
    world.expect(world.join(subject), 0)
    world.expect(world.commit(subject, 0, 9), 0)

    def allowed(seen: Seen, acknowledged: bool) -> bool:
        consumer = 0 if acknowledged else -1
        upgraded = (seen.heartbeat, seen.consumer_heartbeat) == (_REBALANCE_IN_PROGRESS, consumer)
        classic = (seen.heartbeat, seen.consumer_heartbeat) == (0, -1) and not acknowledged
        return seen.offsets == {0: 9} and (upgraded or classic)

    return Attempt(subject, lambda: world.join_as_consumer(subject), allowed)


def _downgrade(world: World) -> Attempt:
    """The only member of the consumer protocol leaves, and a classic one stays."""
    attempt = _upgrade(world)
    world.expect(attempt.ask(), 0)

    def allowed(seen: Seen, acknowledged: bool) -> bool:
        told = (seen.heartbeat, seen.consumer_heartbeat)
        classic = told == (_ILLEGAL_GENERATION, _GROUP_ID_NOT_FOUND)
        mixed = told == (_REBALANCE_IN_PROGRESS, 0) and not acknowledged
        return seen.offsets == {0: 9} and (classic or mixed)

    return Attempt(attempt.subject, lambda: world.leave_as_consumer(attempt.subject), allowed)


def _roll(world: World) -> Attempt:
    return _many_commits(world, world.new_group(ROLLING_SHARD, "plain"), _ROLLING_COMMITS)


def _compaction(world: World) -> Attempt:
    """Beside it a group that was deleted: compaction takes its records, and then the tombstone."""
    deleted = world.new_group(ROLLING_SHARD, "plain")
    world.expect(world.commit_all(deleted, 3), 0)
    world.expect(frames.only_error(world.ask(frames.delete_group(deleted))), 0)
    return _roll(world)


def _snapshot(world: World) -> Attempt:
    return _many_commits(world, world.new_group(prefix="plain"), _SNAPSHOT_COMMITS)


def _many_commits(world: World, subject: str, count: int) -> Attempt:
    acknowledged, attempted = 0, 0

    def ask() -> int:
        nonlocal acknowledged, attempted
        for attempted in range(acknowledged + 1, count):
            if error := world.commit_all(subject, attempted):
                return error
            acknowledged = attempted
        return 0

    def allowed(seen: Seen, _: bool) -> bool:
        kept = set(seen.offsets.values()) or {0}  # one request is one batch: all or nothing
        return len(kept) == 1 and acknowledged <= kept.pop() <= attempted

    return Attempt(subject, ask, allowed)


def _delete_group(world: World) -> Attempt:
    subject = world.new_group(prefix="plain")
    world.expect(world.commit(subject, 0, 7), 0)

    def allowed(seen: Seen, acknowledged: bool) -> bool:
        gone = not seen.listed and not seen.offsets
        return gone or (seen.offsets == {0: 7} and not acknowledged)

    request = frames.delete_group(subject)
    return Attempt(subject, lambda: frames.only_error(world.ask(request)), allowed)


def _delete_offset(world: World) -> Attempt:
    subject = world.new_group(prefix="plain")
    for partition in range(2):
        world.expect(world.commit(subject, partition, 7), 0)

    def allowed(seen: Seen, acknowledged: bool) -> bool:
        return seen.offsets == {1: 7} or (seen.offsets == {0: 7, 1: 7} and not acknowledged)

    request = frames.offset_delete(subject, TOPIC, 0)
    return Attempt(subject, lambda: frames.offset_delete_error(world.ask(request)), allowed)


def _expire(world: World) -> Attempt:
    subject = world.new_group(prefix="plain")
    world.expiring.add(subject)
    request = frames.expiring_commit(subject, TOPIC, 0, 7, 1_000)
    world.expect(max(frames.commit_errors(world.ask(request), throttled=False)), 0)

    def ask() -> int:
        deadline = time.monotonic() + TIMEOUT_S
        while frames.fetched_offsets(world.ask(frames.offset_fetch(subject)))[1]:
            assert time.monotonic() < deadline, "nothing expired"
            time.sleep(0.01)
        return 0

    def allowed(seen: Seen, acknowledged: bool) -> bool:
        return not seen.offsets or (seen.offsets == {0: 7} and not acknowledged)

    return Attempt(subject, ask, allowed)


def _create_topic(world: World) -> Attempt:
    number = len(world.groups)
    name = f"made-{number}"
    subject = world.new_group()
    # The file that an earlier cell left beside the catalogue would be overwritten, not created.
    world.expect(frames.only_error(world.ask(frames.create_topic(f"before-{number}", 1))), 0)

    def allowed(seen: Seen, acknowledged: bool) -> bool:
        topics = world.topics()
        made = topics[name] == 3 if name in topics else not acknowledged
        return topics[TOPIC] == PARTITIONS and made

    request = frames.create_topic(name, 3)
    return Attempt(subject, lambda: frames.only_error(world.ask(request)), allowed)


def _delete_topic(world: World) -> Attempt:
    name = f"made-{len(world.groups)}"
    subject = world.new_group(prefix="plain")
    world.expect(frames.only_error(world.ask(frames.create_topic(name, 3))), 0)
    world.expect(world.commit(subject, 1, 7, name), 0)

    def allowed(seen: Seen, acknowledged: bool) -> bool:
        topics = world.topics()
        gone = name not in topics or (topics[name] == 3 and not acknowledged)
        return topics[TOPIC] == PARTITIONS and gone and seen.offsets in ({}, {1: 7})

    def ask() -> int:
        error = frames.only_error(world.ask(frames.delete_topic(name)))
        world.ask(frames.offset_fetch(subject))  # the tombstones are on their way by now
        return error

    return Attempt(subject, ask, allowed)


def _stop(world: World) -> Attempt:
    """The end of a server that leaves syncing to the system: it is the first sync."""
    subject = world.new_group(prefix="plain")
    world.expect(world.commit(subject, 0, 7), 0)

    def ask() -> int:
        world.disconnect()
        if world.server.stop() != 0:
            raise ConnectionError("no clean stop")
        return 0

    def allowed(seen: Seen, acknowledged: bool) -> bool:
        return seen.offsets == {0: 7} or (not acknowledged and not seen.listed)

    return Attempt(subject, ask, allowed, asks_nothing=True)


def _reload(world: World) -> Attempt:
    """A write failed, the shard is dropped and read again; the client retries all the while."""
    attempt = _commit(world)
    attempt.rules = [POINTS["segment.write"].rule("before", f"error {errno.EIO}")]
    attempt.passed = {"segment.write": 1}
    once = attempt.ask
    attempt.ask = lambda: world.retried(once)
    return attempt


def _small_file(name: str) -> tuple[str, ...]:
    return tuple(f"{name}.{step}" for step in ("create", "write", "sync", "rename"))


EVERY_START = ("lock.truncate", "lock.write", *_small_file("properties"), "directory.sync")
_START = (*EVERY_START, "segment.sync", "partition.sync")
_APPEND = ("segment.write", "segment.sync")

OPERATIONS = {
    operation.name: operation
    for operation in [
        Operation(
            "first start",
            (
                *("directory.create", "parent.sync", "lock.create", "partition.create"),
                *(*EVERY_START, *_small_file("catalogue")),
            ),
            _first_start,
            is_start=True,
            is_first=True,
        ),
        Operation("start", _START, _stopped, is_start=True),
        Operation("start on a torn tail", (*_START, "segment.truncate"), _torn, is_start=True),
        Operation(
            "start cutting damage",
            (
                *(*_START, "aside.create", "aside.write", "aside.sync", "aside.rename"),
                *("index.unlink", "segment.truncate"),
            ),
            _damaged,
            is_start=True,
            arguments=("--on-corruption", "truncate"),
        ),
        Operation(
            "start on a compaction",
            (
                *(*_START, "swap.rename", "swap.unlink", "leftover.unlink"),
                *("index.unlink", "clean-stop.unlink"),
            ),
            _compacted,
            is_start=True,
        ),
        Operation(
            "first commit",
            (
                *(*_small_file("metadata"), "segment.create", "partition.sync", *_APPEND),
                *_small_file("epochs"),
            ),
            _commit,
            is_first=True,
        ),
        Operation(
            "snapshot",
            (
                *(*_small_file("metadata"), "segment.create", "partition.sync", *_APPEND),
                *(*_small_file("epochs"), *_small_file("snapshot")),
            ),
            _snapshot,
            is_first=True,
            arguments=(
                *("--set", "pykcoord.snapshot.interval.ms=5"),
                *("--set", "pykcoord.snapshot.min.bytes=1"),
            ),
        ),
        Operation("commit", _APPEND, _commit),
        Operation("join", _APPEND, _join),
        Operation("rebalance", _APPEND, _rebalance),
        Operation("leave", _APPEND, _leave),
        Operation("consumer join", _APPEND, _consumer_join),
        Operation("consumer leave", _APPEND, _consumer_leave),
        Operation("upgrade", _APPEND, _upgrade),
        Operation("downgrade", _APPEND, _downgrade),
        Operation("roll", (*_APPEND, "roll.create", "partition.sync"), _roll),
        Operation(
            "compaction",
            (
                *(*_APPEND, "roll.create", "partition.sync", "cleaned.create", "cleaned.write"),
                *("cleaned.sync", "cleaned.rename", "replaced.rename", "swap.rename"),
                *("leftover.unlink", *_small_file("cleaner")),
            ),
            _compaction,
            arguments=(
                *("--set", "log.cleaner.enable=true", "--set", "log.cleaner.backoff.ms=100"),
                *("--set", "log.cleaner.min.cleanable.ratio=0"),
                *("--set", "log.cleaner.delete.retention.ms=0"),
            ),
        ),
        Operation("delete a group", _APPEND, _delete_group),
        Operation("delete an offset", _APPEND, _delete_offset),
        Operation("expire", _APPEND, _expire),
        Operation("create a topic", (*_small_file("catalogue"), "directory.sync"), _create_topic),
        Operation(
            "delete a topic",
            (*_small_file("catalogue"), "directory.sync", *_APPEND),
            _delete_topic,
        ),
        Operation("reload", (*_APPEND, "segment.truncate", "partition.sync"), _reload),
        Operation("stop", ("segment.sync",), _stop, arguments=("--flush", "os")),
    ]
}
CELLS = [(name, point) for name, one in OPERATIONS.items() for point in one.points]
