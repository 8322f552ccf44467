"""The one loop: requests -> step -> append -> committed -> responses.

Runs on an asyncio loop, and touches the node on that loop only. It knows no sockets (a transport
brings frames and takes replies) and must never reveal what is not durable: replies leave when
the node gives them, and the node gives them once their records are committed.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from pykcoord.clock import CatchUp, Clock, monotonic_seconds
from pykcoord.errors import KcoordError, LogDirectoryLostError, LogError, LogFencedError
from pykcoord.events import MOST_STARTS, Event, log_event, log_more_starts
from pykcoord.log.protocol import Append, Failure, Log, ShardReleasedError
from pykcoord.observers import tell
from pykcoord.runtime_parts import (
    Assignors,
    Ends,
    EventRecorder,
    GroupRows,
    Node,
    Rows,
    RuntimeMetrics,
    Transactions,
    Transport,
    Turn,
)
from pykcoord.transactions import Verification

logger = logging.getLogger("pykcoord.runtime")

# Another process owns the log, or may: any answer may be untrue by now.
LOG_LOST = (LogFencedError, LogDirectoryLostError)
LOG_LOST_TEXT = "the log is not this process's any more; nothing is served"
_NODE_FAILED = "the node failed; nothing is served any more"


class Runtime:
    """Drives one node with one log and one transport.

    `load()`, then `start(transport)` on the loop's thread; `wake()` whenever frames wait;
    `stop()` at the end. `on_fatal` is called once, on the loop, with the exception of a broken
    invariant: nothing is served afterwards. So it is where a callback of the loop raises, whoever
    put it there: what it was to do is not done, and nobody would notice. `on_event` is called on
    the loop with what happens to groups: with findings always, with the rest once `tell_events` was
    called, with the starts of rebalances once `tell_starts` was. `beside`: what `start` is to
    `spawn`.

    A shard is served once it is adopted: with the state that `Log.take` gave. `release` ends that.
    Where an append fails, the runtime releases the shard and calls `on_shard_lost`, on the loop:
    the code that leads shards here takes it again, or leaves it to another. There is no rollback.
    """

    def __init__(
        self,
        node: Node,
        log: Log,
        clock: Clock,
        metrics: RuntimeMetrics | None = None,
    ) -> None:
        self.node = node
        self.log = log
        self._clock = clock
        self._metrics = metrics
        self.on_fatal: Callable[[BaseException], None] | None = None
        self.on_shard_lost: Callable[[int, Failure], None] | None = None
        self.on_event: Callable[[Event], None] | None = None
        self.recorder: EventRecorder | None = None
        self.beside: list[Callable[[], Coroutine[Any, Any, None]]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._transport: Transport | None = None
        self._awake = False
        self._called: asyncio.Handle | None = None
        self._running = False
        self._log_lost: LogError | None = None
        self._committed: list[tuple[int, int]] = []
        self._appends_in_flight: dict[int, int] = {}
        self._dropped: set[int] = set()
        self._elsewhere: set[int] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_ms = 0
        self._due_ms: int | None = None
        self._catch_up = CatchUp()
        self._settled = asyncio.Event()
        self._assignors: Assignors | None = None
        self._transactions: Transactions | None = None
        self._transactional_version: int | None = None

    def release(self, shard: int) -> None:
        """Serve the shard no longer: what is parked, and all that comes, hears NOT_COORDINATOR.
        Records on their way to the log may still become durable."""
        self._dropped.add(shard)
        self._committed = [pair for pair in self._committed if pair[0] != shard]

        def drop() -> Turn:
            turn = self.node.drop_shard(shard)
            self.node.set_away(shard, True)
            return turn

        if self._running:
            self._guarded(drop)
        else:
            drop()

    def leave(self, shard: int) -> None:
        """Release a shard that another process leads for good: it is not missed here."""
        self.release(shard)
        self._elsewhere.add(shard)

    def expect(self, shard: int) -> None:
        """The shard is being loaded to be led here: who asks hears COORDINATOR_LOAD_IN_PROGRESS."""
        self.node.set_away(shard, False)

    def adopt(self, shard: int, loader: Any, next_offset: int, epoch: int = 0) -> None:
        """Serve the shard from the state in `loader`, of which all below `next_offset` is durable,
        as its leader in `epoch`. No append of it may be on its way: see `Log.take`."""
        assert shard not in self._appends_in_flight, f"shard {shard}: an append is in flight"
        self.node.adopt(shard, loader)
        self.node.loaded(shard, self._clock.now_ms(), next_offset)
        self._dropped.discard(shard)
        if self.recorder is not None:
            self.recorder.shard_loaded(shard, epoch)
        self.wake()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run beside the turns; cancelled by `halt`. If it raises, nothing is served any more."""
        assert self._loop is not None
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, LOG_LOST):
            self._fail(error, LOG_LOST_TEXT)
        elif error is not None:
            self._fail(error, _NODE_FAILED)

    def start(self, transport: Transport) -> None:
        """Serve the transport on the running loop."""
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(self._loop_raised)
        self._transport = transport
        self._running = True
        self._settled.set()
        self.wake()
        for work in self.beside:
            self.spawn(work())
        if self._log_lost is not None:
            self._from_a_thread(self._fail, self._log_lost, LOG_LOST_TEXT)

    def wake(self) -> None:
        """Have a turn at the end of this loop iteration. On the loop's thread only."""
        if self._running and not self._awake:
            self._awake = True
            assert self._loop is not None
            self._called = self._loop.call_soon(self._turn)

    def turn(self) -> None:
        """Have the turn that `wake` asked for at once. On the loop's thread only."""
        if self._awake and self._called is not None:
            self._called.cancel()
            self._turn()

    @property
    def shards_away(self) -> int:
        """How many shards failed and are not loaded again yet: their groups are not served."""
        return len(self._dropped - self._elsewhere)

    @property
    def shards_led(self) -> int:
        """How many shards are served here."""
        return self.log.shards - len(self._dropped)

    def lose_log(self, error: LogError) -> None:
        """End as after a failure, at `start` at the earliest: the log is not this process's any
        more. For any thread."""
        self._log_lost = error
        if self._loop is not None:
            self._from_a_thread(self._fail, error, LOG_LOST_TEXT)

    def fail(self, error: BaseException) -> None:
        """End as after a failure of the node: what leads shards here has raised what it never
        raises on purpose. For any thread; at once on the loop's."""
        if self._loop is not None and asyncio._get_running_loop() is self._loop:
            self._fail(error, _NODE_FAILED)
        elif self._loop is not None:
            self._from_a_thread(self._fail, error, _NODE_FAILED)

    def _loop_raised(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """What nobody caught on the loop. A connection that fails is no fault of the node."""
        error = context.get("exception")
        is_callback = "handle" in context and not isinstance(error, asyncio.CancelledError)
        if error is not None and is_callback and self._running:
            self._fail(error, _NODE_FAILED)
        else:
            loop.default_exception_handler(context)

    @property
    def is_running(self) -> bool:
        """Whether clients are answered: from `start` on, until it ended or failed."""
        return self._running

    def abandon(self, ticket: int) -> None:
        """The client of this ticket is gone: its parked response is forgotten."""
        if self._running:
            self.node.abandon(ticket)

    def set_topics(self, topics: Rows, end_offsets: Ends = None) -> None:
        """The catalogue, whole, and the ends of partitions as far as they are known."""
        self.node.set_topics(topics, end_offsets)
        self.wake()

    def change_topics(self, changed: Rows, gone: list[str], ends: Ends = None) -> None:
        """The same of topics that are new or have changed, and of those that are gone."""
        self.node.change_topics(changed, gone, ends)
        self.wake()  # the next turn deletes offsets of topics that are gone, and rebalances groups

    def set_group_configs(self, groups: GroupRows) -> None:
        """What is set for single consumer groups, whole: (group id, session timeout, heartbeat
        interval, assignment interval) in ms, None for the configuration's. It counts from a
        member's next heartbeat on."""
        self.node.set_group_configs(groups)

    def furthest_offsets(self, topic: str, partitions: Sequence[int]) -> list[int]:
        """For each of the partitions of a topic the highest offset that a group of the shards that
        are loaded here ever committed, as far as log and process know; 0: none. It may be ahead of
        the disk by what is on its way there. A fraction of a microsecond a shard and partition."""
        return self.node.furthest_offsets(topic, partitions)

    def call_assignors(self, assignors: Assignors) -> None:
        """Have these compute the targets that the node asks its host for, beside the turns."""
        self._assignors = assignors

    def serve_transactions(self, transactions: Transactions | None = None) -> None:
        """Serve TxnOffsetCommit and WriteTxnMarkers from now on. `transactions` is asked for each
        transaction that begins in a shard, and then versions 5 and 6 of TxnOffsetCommit are served,
        too, which have the partition added; None: whoever commits has asked already."""
        self._transactions = transactions
        self._transactional_version = 4 if transactions is None else 6
        self.node.serve_transactions(transactions is not None)

    @property
    def transactional_version(self) -> int | None:
        """The highest version of TxnOffsetCommit that is served; None: none."""
        return self._transactional_version

    def tell_events(self, on: bool) -> None:
        """Whether events are logged, and given to `on_event`, from now on; findings always are."""
        self.node.tell_events(on)

    def tell_starts(self) -> None:
        """Log starts of rebalances from now on, some in each turn and how many more there were,
        where not all events are told."""
        self.node.tell_starts(MOST_STARTS)

    def record(self, recorder: EventRecorder) -> None:
        """Have the recorder keep what happens from now on."""
        self.recorder = recorder
        self.node.record_events(True)

    async def stop(self) -> None:
        """Wait for appends in flight, answer what is parked NOT_COORDINATOR, and end."""
        if not self._running:
            return
        self.wake()
        while self._awake or not self._settled.is_set():
            await self._settled.wait()
            await asyncio.sleep(0)  # behind the turn that was called for before
        for shard in range(self.log.shards):
            if shard not in self._dropped and self._running:
                self._deliver(self.node.drop_shard(shard))
        self.halt()

    def halt(self) -> None:
        """End at once: no further turn or reply. What was handed to the log stays there."""
        self._running = False
        for task in [*self._tasks]:
            task.cancel()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._assignors is not None:
            self._assignors.close()

    def _turn(self) -> None:
        self._awake = False
        if not self._running:
            return
        assert self._transport is not None
        frames = self._transport.take()
        committed, self._committed = self._committed, []
        started = monotonic_seconds()
        now_ms = self._clock.now_ms()
        late_ms = 0 if self._due_ms is None else now_ms - self._due_ms
        waits = self._catch_up.is_needed(late_ms, self._transport.is_behind, started)
        if waits:  # there is another turn at once
            self.wake()
        unsent_bytes = self._transport.unsent_bytes
        self._guarded(lambda: self.node.step(now_ms, frames, committed, unsent_bytes, not waits))
        if self._metrics is not None:
            tell(self._metrics.turn, len(frames), monotonic_seconds() - started)

    def _guarded(self, step: Callable[[], Turn]) -> None:
        """Hand on what `step` yields; where it fails, nothing can be served any more."""
        try:
            self._deliver(step())
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # pyo3's PanicException is no Exception
            self._fail(error, _NODE_FAILED)

    def _deliver(self, turn: Turn) -> None:
        """Hand on what a step yields: appends first, so that the disk works while we write."""
        assert self._transport is not None
        if turn.appends:
            self._append([Append(*append) for append in turn.appends])
        if turn.parts:
            self._transport.deliver_parts(turn.parts)
        self._transport.deliver(turn.replies)
        for ticket, reason in turn.invalid:
            self._transport.refuse(ticket, reason)
        if turn.foreign:
            self._transport.foreign(turn.foreign)
        if self.recorder is not None and turn.recorded is not None:
            tell(self.recorder.take, turn.recorded)
        for event in map(Event.of, turn.events):
            tell(log_event, event)
            if self.on_event is not None:
                tell(self.on_event, event)
        if turn.starts_left_out:
            tell(log_more_starts, turn.starts_left_out)
        if self._assignors is not None:
            self._ask(self._assignors)
        if turn.verifications:
            self._verify([Verification(*of) for of in turn.verifications])
        self._schedule(turn.next_timeout_ms)

    def _ask(self, assignors: Assignors) -> None:
        """Hand on the targets that the node asks for."""
        while (job := self.node.poll_target_job()) is not None:
            number = job.number
            assignors.ask(job, functools.partial(self._from_a_thread, self._computed, number))

    def _verify(self, verifications: list[Verification]) -> None:
        assert self._transactions is not None
        for of in verifications:
            done = functools.partial(self._from_a_thread, self._verified, of.ticket)
            self._transactions.verify(of, done)

    def _verified(self, ticket: int, error_code: int) -> None:
        if self._running:
            self.node.verified(ticket, error_code)
            self.wake()

    def _computed(self, number: int, targets: Any, reason: str) -> None:
        if not self._running:
            return
        if targets is None:
            self.node.refuse_targets(number, reason)
        else:
            self.node.bring_targets(number, targets)
        self.wake()

    def _append(self, appends: Sequence[Append]) -> None:
        """Hand the records of all shards to the store, which groups what arrives meanwhile."""
        for shard in {append.shard for append in appends}:
            self._appends_in_flight[shard] = self._appends_in_flight.get(shard, 0) + 1
        self._settled.clear()
        started = monotonic_seconds()

        def done(committed: list[tuple[int, int]], failed: list[tuple[int, Failure]]) -> None:
            self._from_a_thread(self._appended, started, committed, failed)

        self.log.append(appends, done)

    def _from_a_thread(self, callback: Callable[..., None], *arguments: Any) -> None:
        """Have it called on the loop; after the loop was closed, nothing waits for it."""
        assert self._loop is not None
        if asyncio._get_running_loop() is self._loop:
            self._loop.call_soon(callback, *arguments)
            return
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(callback, *arguments)

    def _appended(
        self,
        started: float,
        committed: list[tuple[int, int]],
        failed: list[tuple[int, Failure]],
    ) -> None:
        for shard, _ in (*committed, *failed):
            self._appends_in_flight[shard] -= 1
            if not self._appends_in_flight[shard]:
                del self._appends_in_flight[shard]
        if not self._appends_in_flight:
            self._settled.set()
        if not self._running:
            return
        if self._metrics is not None and committed:
            tell(self._metrics.appended, monotonic_seconds() - started)
        for shard, error in failed:
            self._lose(shard, error)
        self._committed += [pair for pair in committed if pair[0] not in self._dropped]
        self.wake()

    def _lose(self, shard: int, error: Failure) -> None:
        """An append failed: the shard ends here, and what is parked hears NOT_COORDINATOR."""
        if isinstance(error, ShardReleasedError) and shard in self._dropped:
            return  # as it was asked to: no answer waits for it any more
        if self._metrics is not None:
            tell(self._metrics.append_failed, shard)
        if shard in self._dropped or not self._running:
            return
        if isinstance(error, LOG_LOST):
            self._fail(error, LOG_LOST_TEXT)
            return
        self.release(shard)
        if self.on_shard_lost is not None and self._running:
            self.on_shard_lost(shard, error)

    def _schedule(self, timeout_ms: int | None) -> None:
        """Have a turn at `timeout_ms`. A timer that is set earlier stays: its turn sets the next,
        so that a deadline that moves with each heartbeat costs nothing."""
        self._due_ms = timeout_ms
        if timeout_ms is None or not self._running:
            return
        assert self._loop is not None
        now_ms = self._clock.now_ms()
        if timeout_ms <= now_ms:
            self.wake()  # the node has more to do than one turn holds
            return
        if self._timer is not None:
            if self._timer_at_ms <= timeout_ms:
                return
            self._timer.cancel()
        # A millisecond more: timers of a loop may fire within their resolution too early.
        seconds = (timeout_ms - now_ms + 1) / 1000
        self._timer_at_ms = timeout_ms
        self._timer = self._loop.call_later(seconds, self._timeout)

    def _timeout(self) -> None:
        self._timer = None
        self.wake()

    def _fail(self, error: BaseException, text: str) -> None:
        if not self._running:
            return
        if self.recorder is not None and isinstance(error, LOG_LOST):
            self.recorder.lose()
        # What is no fault of ours is logged once, by `on_fatal`.
        expected = isinstance(error, KcoordError)
        if not expected or self.on_fatal is None:
            fault = None if expected else error
            logger.critical("%s: %s", text, error, exc_info=fault, extra={"event": "fatal"})
        self.halt()
        if self.on_fatal is not None:
            self.on_fatal(error)
