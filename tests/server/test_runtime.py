"""The loop without sockets: what is appended, committed, dropped, reloaded, timed."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from support.memory_log import MemoryLog
from support.scripted_node import COMMIT, HEARTBEAT, JOIN, NOT_COORDINATOR, ScriptedNode

from pykcoord.clock import Clock
from pykcoord.errors import CorruptLogError, LogFencedError
from pykcoord.leading import FixedShards
from pykcoord.runtime import Runtime
from pykcoord.session import Session

from .conftest import frame

ASKER = Session("/10.0.0.1", "PLAINTEXT")


class Wire:
    """A transport without sockets."""

    unsent_bytes = 0
    is_behind = False

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.waiting: list[tuple[int, Session, bytes]] = []
        self.replies: dict[int, bytes] = {}
        self.order: list[int] = []
        self.foreign_tickets: list[int] = []
        self.refused: list[tuple[int, str]] = []
        self.tickets = 0

    def send(self, key: int) -> int:
        self.tickets += 1
        self.waiting.append((self.tickets, ASKER, frame(key)[4:]))
        self.runtime.wake()
        return self.tickets

    def take(self) -> list[tuple[int, Session, bytes]]:
        waiting, self.waiting = self.waiting, []
        return waiting

    def deliver_parts(self, parts: list[tuple[int, bytes]]) -> None: ...

    def deliver(self, replies: list[tuple[int, bytes]]) -> None:
        for ticket, reply in replies:
            self.replies[ticket] = reply[8:]
            self.order.append(ticket)

    def foreign(self, tickets: list[int]) -> None:
        self.foreign_tickets += tickets

    def refuse(self, ticket: int, reason: str) -> None:
        self.refused.append((ticket, reason))


class FakeTime(Clock):
    """`now_ms` follows the loop's own time, from a round number on."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.get_running_loop()
        self.zero = self.loop.time()

    def now_ms(self) -> int:
        return 1_000_000 + int((self.loop.time() - self.zero) * 1000)


def made(log: MemoryLog | None = None) -> tuple[Runtime, ScriptedNode, Any, Wire]:
    node, log = ScriptedNode(), log if log is not None else MemoryLog(1)
    runtime = Runtime(node, log, FakeTime())
    FixedShards(runtime).lead()
    wire = Wire(runtime)
    runtime.start(wire)
    return runtime, node, log, wire


async def until(condition: Any) -> None:
    while not condition():
        await asyncio.sleep(0)


def test_frames_between_two_turns_are_one_step(run):
    async def main():
        runtime, node, _, wire = made()
        await until(lambda: node.steps)
        tickets = [wire.send(HEARTBEAT) for _ in range(10)]
        await until(lambda: len(wire.replies) == 10)
        assert [[t for t, _, _ in frames] for _, frames, _ in node.steps] == [[], tickets]
        assert wire.order == tickets
        await runtime.stop()

    run(main())


def test_a_commit_is_answered_only_when_it_is_durable(run):
    async def main():
        runtime, _, log, wire = made(MemoryLog(1, hold=True))
        commit = wire.send(COMMIT)
        beat = wire.send(HEARTBEAT)
        await until(lambda: beat in wire.replies)
        for _ in range(10):
            await asyncio.sleep(0)
        assert commit not in wire.replies
        log.release_held()
        await until(lambda: commit in wire.replies)
        assert wire.replies[commit] == b"durable"
        assert log.next_offset(0) == 1
        log.hold = False
        await runtime.stop()

    run(main())


def test_appends_reach_the_log_in_order_without_waiting_for_each_other(run):
    async def main():
        runtime, node, log, wire = made(MemoryLog(1, hold=True))
        for count in range(1, 4):
            wire.send(COMMIT)
            await until(lambda n=count: len(node.parked_commits) == n)
        log.release_held()
        await until(lambda: len(wire.replies) == 3)
        assert wire.order == [1, 2, 3]
        log.hold = False
        await runtime.stop()

    run(main())


def test_a_failed_append_ends_the_shard_and_loads_it_again(run, caplog):
    async def main():
        log = MemoryLog(1, hold=True)
        runtime, node, log, wire = made(log)
        wire.send(COMMIT)
        await until(lambda: node.parked_commits)
        log.release_held()
        await until(lambda: len(wire.replies) == 1)
        log.fail[0] = OSError(28, "No space left on device")
        failing = wire.send(COMMIT)
        await until(lambda: node.parked_commits)
        behind = wire.send(COMMIT)
        await until(lambda: len(node.parked_commits) == 2)
        log.release_held()
        await until(lambda: len(node.loads) == 2)
        assert wire.replies[failing] == wire.replies[behind] == NOT_COORDINATOR
        assert node.dropped == [0]
        assert log.taken == [0, 0]
        assert node.replayed == [(0, log.batches[0][0])]
        assert node.loads == [(0, 0), (0, 1)]
        log.hold = False
        again = wire.send(COMMIT)
        await until(lambda: again in wire.replies)
        assert wire.replies[again] == b"durable"
        await runtime.stop()

    with caplog.at_level(logging.ERROR, "pykcoord.runtime"):
        run(main())
    assert ["No space left on device" in r.getMessage() for r in caplog.records] == [True]


def test_what_was_queued_behind_a_failed_append_fails_before_the_shard_is_taken_again(run):
    async def main():
        log = MemoryLog(1, hold=True)
        runtime, node, log, wire = made(log)
        log.fail[0] = OSError(5, "Input/output error")
        wire.send(COMMIT)
        await until(lambda: len(node.parked_commits) == 1)
        wire.send(COMMIT)
        await until(lambda: len(node.parked_commits) == 2)
        held, log._held = log._held[1:], log._held[:1]
        log.release_held()
        log._held = held
        await until(lambda: len(node.loads) == 2)
        assert node.dropped == [0]
        assert node.loads == [(0, 0), (0, 0)], "nothing behind a gap"
        log.hold = False
        await runtime.stop()

    run(main())


def test_one_call_a_turn_hands_over_the_appends_of_all_shards(run):
    async def main():
        runtime, node, log, wire = made(MemoryLog(2, hold=True))
        calls = []
        append = log.append
        log.append = lambda appends, done: (calls.append(appends), append(appends, done))
        node.extra_appends = [(1, 0, 1, 0, 0, b"record")]
        commit = wire.send(COMMIT)
        await until(lambda: calls)
        assert [[one.shard for one in call] for call in calls] == [[0, 1]]
        lost = []
        runtime.on_shard_lost = lambda shard, error: lost.append(shard)
        log.fail[1] = OSError(5, "Input/output error")
        log.release_held()
        await until(lambda: commit in wire.replies)
        assert wire.replies[commit] == b"durable"
        assert lost == [1]
        log.hold = False
        await runtime.stop()

    run(main())


def test_what_hears_not_coordinator_while_a_shard_is_away_is_served_after(run, monkeypatch):
    async def main():
        monkeypatch.setattr("pykcoord.leading._RETRY_SECONDS", (0.001, 0.002))
        runtime, node, log, wire = made()
        log.fail[0] = OSError(5, "Input/output error")
        log.fail_take = 3
        first = wire.send(COMMIT)
        await until(lambda: first in wire.replies)
        during = wire.send(COMMIT)
        await until(lambda: during in wire.replies)
        assert wire.replies[during] == NOT_COORDINATOR
        await until(lambda: len(node.loads) == 2)
        after = wire.send(COMMIT)
        await until(lambda: after in wire.replies)
        assert wire.replies[after] == b"durable"
        assert log.taken == [0] * 5
        await runtime.stop()

    run(main())


def test_a_shard_whose_log_must_be_restored_is_tried_seldom_and_said_so(run, monkeypatch, caplog):
    async def main():
        monkeypatch.setattr("pykcoord.leading._RETRY_SECONDS", (1000.0, 1000.0))
        monkeypatch.setattr("pykcoord.leading._RESTORE_SECONDS", 0.001)
        runtime, node, log, wire = made()
        log.fail[0] = OSError(5, "Input/output error")
        take, broken = log.take, [CorruptLogError("0.log", 61, 7, "cut off", "restore it")]

        def restored_later(shard: int, new_loader: Any) -> Any:
            if broken:
                raise broken.pop()
            return take(shard, new_loader)

        monkeypatch.setattr(log, "take", restored_later)
        wire.send(COMMIT)
        await until(lambda: node.dropped)
        assert runtime.shards_away == 1
        await until(lambda: len(node.loads) == 2)
        await until(lambda: runtime.shards_away == 0)
        (line,) = [one for one in caplog.records if one.levelno == logging.CRITICAL]
        assert line.getMessage() == (
            "shard 0 is out of service until its log is restored, next attempt in 0.001 s: "
            "0.log: byte 61, offset 7: cut off; restore it"
        )
        await runtime.stop()

    run(main())


def test_a_panic_while_a_shard_is_loaded_again_ends_everything(run):
    async def main():
        runtime, node, log, wire = made()
        fatal: list[BaseException] = []
        runtime.on_fatal = fatal.append
        panic = BaseException("panic")

        def loaded(shard: int, now_ms: int, next_offset: int) -> None:
            raise panic

        node.loaded = loaded
        log.fail[0] = OSError(5, "Input/output error")
        wire.send(COMMIT)
        await until(lambda: fatal)
        assert fatal == [panic]

    run(main())


def test_what_is_halted_does_not_try_to_load_a_shard_again(run, monkeypatch):
    async def main():
        monkeypatch.setattr("pykcoord.leading._RETRY_SECONDS", (0.001, 0.001))
        runtime, _, log, wire = made()
        log.fail[0] = OSError(5, "Input/output error")
        log.fail_take = 1_000_000
        wire.send(COMMIT)
        await until(lambda: len(log.taken) > 3)
        mine = asyncio.current_task()
        runtime.halt()
        await until(lambda: asyncio.all_tasks() == {mine})

    run(main())


def test_a_panic_while_a_shard_is_dropped_ends_everything(run):
    async def main():
        runtime, node, log, wire = made(MemoryLog(1, hold=True))
        fatal: list[BaseException] = []
        runtime.on_fatal = fatal.append
        panic = BaseException("panic")

        def drop_shard(shard: int) -> None:
            raise panic

        node.drop_shard = drop_shard
        log.fail[0] = OSError(5, "Input/output error")
        wire.send(COMMIT)
        await until(lambda: node.parked_commits)
        log.release_held()
        await until(lambda: fatal)
        assert fatal == [panic]

    run(main())


def test_a_shard_is_stepped_when_its_timeout_is_due_and_not_before(run):
    async def main():
        runtime, node, _, wire = made()
        await until(lambda: node.steps)
        start_ms = node.steps[-1][0]
        node.timeouts = [start_ms + 200, start_ms + 300]
        wire.send(HEARTBEAT)
        await until(lambda: not node.timeouts)
        times = [now_ms - start_ms for now_ms, _, _ in node.steps[2:]]
        assert times[0] >= 200
        assert times[-1] >= 300
        assert len(times) <= 2  # one where a busy machine was late for both
        for _ in range(50):
            await asyncio.sleep(0)
        assert len(node.steps) == 2 + len(times)
        await runtime.stop()

    run(main())


def stopped_for(runtime: Runtime, seconds: float) -> None:
    """As if nothing had run for so long."""
    runtime._clock.zero -= seconds  # type: ignore[attr-defined]


def test_timers_wait_for_what_arrived_while_nothing_ran(run):
    async def main():
        runtime, node, _, wire = made()
        node.timeouts = [runtime._clock.now_ms() + 5_000]
        await until(lambda: node.steps)
        stopped_for(runtime, 10)
        first = len(node.steps)
        wire.send(HEARTBEAT)
        await until(lambda: wire.replies)
        assert node.timeouts, "what arrived goes first"
        wire.is_behind = True
        for _ in range(20):
            await asyncio.sleep(0)
        assert node.timeouts, "there is more to read"
        wire.is_behind = False
        await until(lambda: not node.timeouts)
        held = node.timers[first:]
        assert held.index(True) > 20
        assert held[-1]
        await runtime.stop()

    run(main())


def test_who_never_ends_sending_holds_timers_up_for_a_bounded_time(run, monkeypatch):
    async def main():
        monkeypatch.setattr("pykcoord.clock._CATCH_UP_SECONDS", 0.05)
        runtime, node, _, wire = made()
        node.timeouts = [runtime._clock.now_ms() + 5_000]
        await until(lambda: node.steps)
        stopped_for(runtime, 10)
        wire.is_behind = True
        wire.send(HEARTBEAT)
        await until(lambda: not node.timeouts)
        assert wire.is_behind
        await runtime.stop()

    run(main())


def test_a_node_that_has_more_to_do_is_stepped_at_once(run):
    async def main():
        runtime, node, _, wire = made()
        await until(lambda: node.steps)
        steps, node.more_turns = len(node.steps), 5
        wire.send(HEARTBEAT)
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(node.steps) == steps + 6
        await runtime.stop()

    run(main())


def test_an_earlier_timeout_replaces_a_later_one(run):
    async def main():
        runtime, node, _, wire = made()
        await until(lambda: node.steps)
        start_ms = node.steps[-1][0]
        node.timeouts = [start_ms + 60_000]
        wire.send(HEARTBEAT)
        await until(lambda: len(node.steps) == 2)
        node.timeouts = [start_ms + 30]
        wire.send(HEARTBEAT)
        await until(lambda: not node.timeouts)
        assert node.steps[-1][0] - start_ms >= 30
        await runtime.stop()

    run(main())


def test_load_replays_every_shard_in_order(run):
    async def main():
        log = MemoryLog(3)
        log.batches[1] = [b"one", b"two"]
        log.next_offsets[1] = 7
        _, node, _, _ = made(log)
        assert node.replayed == [(1, b"onetwo")]
        assert node.loads == [(0, 0), (1, 7), (2, 0)]

    run(main())


def test_stop_waits_for_the_log_and_answers_the_parked(run):
    async def main():
        runtime, node, log, wire = made(MemoryLog(1, hold=True))
        commit = wire.send(COMMIT)
        join = wire.send(JOIN)
        await until(lambda: node.parked_joins)
        stopping = asyncio.ensure_future(runtime.stop())
        for _ in range(10):
            await asyncio.sleep(0)
        assert not stopping.done()
        log.release_held()
        await stopping
        assert wire.replies == {commit: b"durable", join: NOT_COORDINATOR}

    run(main())


def test_a_log_that_was_taken_over_ends_everything(run, caplog, tmp_path):
    async def main():
        runtime, node, log, wire = made(MemoryLog(1, hold=True))
        fatal: list[BaseException] = []
        runtime.on_fatal = fatal.append
        wire.send(COMMIT)
        await until(lambda: node.parked_commits)
        log.fail[0] = LogFencedError(tmp_path, 4, 5)
        log.release_held()
        await until(lambda: fatal)
        assert fatal == [log.fail[0]]
        assert not wire.replies
        assert log.taken == [0]

    run(main())
    assert caplog.records == []  # what heard of it says so, once


@pytest.mark.parametrize("error", [AssertionError("broken"), BaseException("panic")])
def test_a_broken_invariant_is_reported_once_and_ends_everything(run, error, caplog):
    async def main():
        runtime, node, _, wire = made()
        fatal: list[BaseException] = []
        runtime.on_fatal = fatal.append
        node.error = error
        wire.send(HEARTBEAT)
        await until(lambda: fatal)
        wire.send(HEARTBEAT)
        for _ in range(10):
            await asyncio.sleep(0)
        assert fatal == [error]
        assert not wire.replies

    run(main())
    assert [r.levelname for r in caplog.records] == ["CRITICAL"]


def test_what_the_node_found_is_logged_with_its_group(run, caplog):
    kinds = (
        "assignment_replaced", "left_to_leader", "assignor_replaced", "duplicate_partition",
        "unknown_member", "unknown_partition", "not_subscribed",
    )  # fmt: skip

    async def main():
        runtime, node, _, wire = made()
        node.events = [
            ("finding", "billing", 7, kind, None, 2, "t-0 to m", 0, None, None) for kind in kinds
        ]
        wire.send(HEARTBEAT)
        await until(lambda: wire.replies)
        await runtime.stop()

    with caplog.at_level(logging.WARNING, "pykcoord.groups"):
        run(main())
    found = [record for record in caplog.records if getattr(record, "event", "") == "assignment"]
    assert [record.kind for record in found] == list(kinds)
    for record in found:
        assert record.getMessage().startswith("group billing, generation 7: ")
        assert "t-0 to m" in record.getMessage()
