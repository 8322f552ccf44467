"""The one loop: requests -> step -> append -> committed -> responses.

Runs on an asyncio loop, and touches the node on that loop only. It knows no sockets (a transport
brings frames and takes replies) and must never reveal what is not durable: replies leave when
the node gives them, and the node gives them once their records are committed.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from pykcoord.clock import Clock, monotonic_seconds
from pykcoord.errors import LogFencedError
from pykcoord.log.protocol import Append, Failure, Log

logger = logging.getLogger("pykcoord.runtime")

# Between two attempts to load a shard whose log failed: first, and at most.
_RELOAD_SECONDS = (0.1, 5.0)
# The same where the disk works and what it holds cannot be used: somebody has to restore it first.
_RESTORE_SECONDS = 60.0


# What the node noticed about an assignment, for people.
_FINDINGS = {
    "assignment_replaced": "the coordinator assigns it; an assignment {detail} counts for nothing",
    "left_to_leader": "the coordinator cannot assign it ({detail}); a leading client is asked",
    "duplicate_partition": "its leader gave {count} partition(s) a second time, such as {detail}",
    "unknown_member": "its leader assigned to {count} stranger(s), such as {detail}",
    "unknown_partition": "its leader gave {count} partition(s) that do not exist, such as {detail}",
    "not_subscribed": "its leader gave {count} topic(s) to members that do not subscribe to them, "
    "such as {detail}",
}


class Turn(Protocol):
    """What one step of the node yields (`_native.Turn`)."""

    @property
    def replies(self) -> list[tuple[int, bytes]]: ...
    @property
    def appends(self) -> list[tuple[int, int, int, int, int, bytes]]: ...
    @property
    def foreign(self) -> list[int]: ...
    @property
    def invalid(self) -> list[tuple[int, str]]: ...
    @property
    def findings(self) -> list[tuple[str, int, str, int, str]]: ...
    @property
    def next_timeout_ms(self) -> int | None: ...


class Node(Protocol):
    """The shards behind one runtime (`_native.Node`)."""

    def set_topics(
        self,
        topics: list[tuple[str, bytes, int]],
        end_offsets: dict[str, dict[int, int]] | None = None,
    ) -> None: ...
    def replay(self, shard: int, chunk: bytes) -> None: ...
    def adopt(self, shard: int, replica: Any) -> None: ...
    def loaded(self, shard: int, now_ms: int, next_offset: int) -> None: ...
    def step(
        self,
        now_ms: int,
        frames: list[tuple[int, str, bytes]],
        committed: list[tuple[int, int]],
    ) -> Turn: ...
    def abandon(self, ticket: int) -> None: ...
    def set_away(self, shard: int, away: bool) -> None: ...
    def drop_shard(self, shard: int) -> Turn: ...


class Transport(Protocol):
    """Where frames come from and replies go. All calls are made on the runtime's loop."""

    def take(self) -> list[tuple[int, str, bytes]]:
        """The frames since the last call: (ticket, client_host, frame without its length)."""

    def deliver(self, replies: list[tuple[int, bytes]]) -> None:
        """Ticket, and the reply with its 4-byte length."""

    def foreign(self, tickets: list[int]) -> None:
        """Requests of an API that the core does not own: the transport answers them."""

    def refuse(self, ticket: int, reason: str) -> None:
        """A frame that cannot be parsed: one line of log, and its connection is closed."""


class RuntimeMetrics(Protocol):
    """What the runtime counts. Durations in seconds."""

    def turn(self, frames: int, seconds: float) -> None: ...
    def appended(self, seconds: float) -> None: ...
    def append_failed(self, shard: int) -> None: ...


class Runtime:
    """Drives one node with one log and one transport.

    `load()`, then `start(transport)` on the loop's thread; `wake()` whenever frames wait;
    `stop()` at the end. `on_fatal` is called once, on the loop, with the exception of a broken
    invariant: nothing is served afterwards.

    A node that leads some shards of many begins without `load()`: `release` all, then `expect`
    and `adopt` each that it is to lead. Where `on_shard_lost` is set, a shard whose append failed
    is released and handed to it, instead of being loaded again here; each shard has a log of its
    own then, and each call of `Log.append` is of one shard.
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
        self._loop: asyncio.AbstractEventLoop | None = None
        self._transport: Transport | None = None
        self._awake = False
        self._running = False
        self._committed: list[tuple[int, int]] = []
        self._appends_in_flight: dict[int, int] = {}
        self._dropped: set[int] = set()
        self._reloads: dict[int, asyncio.Task[None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_ms = 0
        self._settled = asyncio.Event()

    def load(self, replicas: Mapping[int, Any] | None = None) -> None:
        """Load every shard: from its replica of this node, if there is one, else from its log.
        Blocks; raises what the log or replay raises."""
        for shard in range(self.log.shards):
            if replicas is not None and shard in replicas:
                self.node.adopt(shard, replicas[shard])
            else:
                for chunk in self.log.read(shard):
                    self.node.replay(shard, chunk)
            self._loaded(shard)

    def release(self, shard: int) -> None:
        """Another node leads the shard from now on: what is parked here, and all that comes, hears
        NOT_COORDINATOR. Records on their way to the log may still become durable."""
        self._dropped.add(shard)
        self._committed = [pair for pair in self._committed if pair[0] != shard]
        turn = self.node.drop_shard(shard)
        self.node.set_away(shard, True)
        if self._running:
            self._guarded(lambda: turn)

    def expect(self, shard: int) -> None:
        """The shard is being loaded to be led here: who asks hears COORDINATOR_LOAD_IN_PROGRESS."""
        self.node.set_away(shard, False)

    def adopt(self, shard: int, replica: Any, next_offset: int) -> None:
        """Lead the shard from the state in `replica`, of which all below `next_offset` is durable.
        No append of an earlier leadership of it may be in flight."""
        assert shard not in self._appends_in_flight, f"shard {shard}: an append is in flight"
        self.node.adopt(shard, replica)
        self.node.loaded(shard, self._clock.now_ms(), next_offset)
        self._dropped.discard(shard)
        self.wake()

    def start(self, transport: Transport) -> None:
        """Serve the transport on the running loop."""
        self._loop = asyncio.get_running_loop()
        self._transport = transport
        self._running = True
        self._settled.set()
        self.wake()

    def wake(self) -> None:
        """Have a turn at the end of this loop iteration. On the loop's thread only."""
        if self._running and not self._awake:
            self._awake = True
            assert self._loop is not None
            self._loop.call_soon(self._turn)

    @property
    def shards_away(self) -> int:
        """How many shards failed and are not loaded again yet: their groups are not served."""
        return len(self._dropped)

    def abandon(self, ticket: int) -> None:
        """The client of this ticket is gone: its parked response is forgotten."""
        if self._running:
            self.node.abandon(ticket)

    def set_topics(
        self,
        topics: list[tuple[str, bytes, int]],
        end_offsets: dict[str, dict[int, int]] | None = None,
    ) -> None:
        """The catalogue, whole: (name, 16-byte topic id, partitions), and the ends of partitions
        as far as they are known, by topic and number."""
        self.node.set_topics(topics, end_offsets)
        self.wake()  # the next turn deletes offsets of topics that are gone, and rebalances groups

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
        for task in self._reloads.values():
            task.cancel()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _turn(self) -> None:
        self._awake = False
        if not self._running:
            return
        assert self._transport is not None
        frames = self._transport.take()
        committed, self._committed = self._committed, []
        started = monotonic_seconds()
        self._guarded(lambda: self.node.step(self._clock.now_ms(), frames, committed))
        if self._metrics is not None:
            self._metrics.turn(len(frames), monotonic_seconds() - started)

    def _guarded(self, step: Callable[[], Turn]) -> None:
        """Hand on what `step` yields; where it fails, nothing can be served any more."""
        try:
            self._deliver(step())
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # pyo3's PanicException is no Exception
            self._fail(error, "the node failed; nothing is served any more")

    def _deliver(self, turn: Turn) -> None:
        """Hand on what a step yields: appends first, so that the disk works while we write."""
        assert self._transport is not None
        if turn.appends:
            self._hand_over([Append(*append) for append in turn.appends])
        self._transport.deliver(turn.replies)
        for ticket, reason in turn.invalid:
            self._transport.refuse(ticket, reason)
        if turn.foreign:
            self._transport.foreign(turn.foreign)
        for finding in turn.findings:
            _log_finding(*finding)
        self._schedule(turn.next_timeout_ms)

    def _hand_over(self, appends: list[Append]) -> None:
        """To the log: all together, or those of each shard apart where shards fail apart."""
        if self.on_shard_lost is None:
            self._append(appends)
            return
        for _, of_shard in itertools.groupby(appends, key=lambda append: append.shard):
            self._append(list(of_shard))

    def _append(self, appends: Sequence[Append]) -> None:
        """Hand records to the log's thread, which groups what arrives while it syncs."""
        loop = self._loop
        assert loop is not None
        shards = [append.shard for append in appends]
        for shard in shards:
            self._appends_in_flight[shard] = self._appends_in_flight.get(shard, 0) + 1
        self._settled.clear()
        started = monotonic_seconds()

        def done(committed: list[tuple[int, int]], failed: list[tuple[int, Failure]]) -> None:
            loop.call_soon_threadsafe(self._appended, shards, started, committed, failed)

        self.log.append(appends, done)

    def _appended(
        self,
        shards: list[int],
        started: float,
        committed: list[tuple[int, int]],
        failed: list[tuple[int, Failure]],
    ) -> None:
        for shard in shards:
            self._appends_in_flight[shard] -= 1
            if not self._appends_in_flight[shard]:
                del self._appends_in_flight[shard]
        if not self._appends_in_flight:
            self._settled.set()
        if not self._running:
            return
        if self._metrics is not None and committed:
            self._metrics.appended(monotonic_seconds() - started)
        for shard, error in failed:
            self._drop(shard, error)
        self._committed += [pair for pair in committed if pair[0] not in self._dropped]
        if self.on_shard_lost is None:
            for shard in self._dropped.intersection(shards):
                self._reload_when_quiet(shard)
        self.wake()

    def _drop(self, shard: int, error: Failure) -> None:
        """An append failed: the shard ends, and starts again from its log (there is no rollback).

        Its parked requests, and all that come until it is loaded, hear NOT_COORDINATOR.
        """
        if self._metrics is not None:
            self._metrics.append_failed(shard)
        if shard in self._dropped or not self._running:
            return
        if self.on_shard_lost is not None:
            self.release(shard)
            self.on_shard_lost(shard, error)
            return
        if isinstance(error, LogFencedError):
            # Another process owns the log: whatever we would answer may be untrue by now.
            self._fail(error, "the log was taken over; nothing is served any more")
            return
        logger.error(
            "append to shard %d failed, reloading it: %s",
            shard,
            error,
            extra={"event": "append_failed", "shard": shard, "error": str(error)},
        )
        self._dropped.add(shard)
        self._committed = [pair for pair in self._committed if pair[0] != shard]
        self._guarded(lambda: self.node.drop_shard(shard))

    def _reload_when_quiet(self, shard: int) -> None:
        """Reload once the appends that were queued behind the failed one have failed too."""
        quiet = shard not in self._appends_in_flight and shard not in self._reloads
        if quiet and self._running:
            assert self._loop is not None
            task = self._loop.create_task(self._reload(shard))
            self._reloads[shard] = task
            task.add_done_callback(lambda task: self._reload_ended(shard, task))

    def _reload_ended(self, shard: int, task: asyncio.Task[None]) -> None:
        del self._reloads[shard]
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._fail(error, "the node failed; nothing is served any more")

    async def _reload(self, shard: int) -> None:
        pause_seconds, longest_seconds = _RELOAD_SECONDS
        while True:
            try:
                await self._read_back(shard)
                break
            except LogFencedError as error:
                self._fail(error, "the log was taken over; nothing is served any more")
                return
            except Exception as error:
                if isinstance(error, OSError):
                    level, text = logging.ERROR, "cannot be loaded"
                else:
                    level, text = logging.CRITICAL, "is out of service until its log is restored"
                    pause_seconds = longest_seconds = _RESTORE_SECONDS
                logger.log(
                    level,
                    "shard %d %s, next attempt in %g s: %s",
                    shard,
                    text,
                    pause_seconds,
                    error,
                    extra={"event": "reload_failed", "shard": shard, "error": str(error)},
                )
                self._deliver(self.node.drop_shard(shard))  # what was replayed before the error
            await asyncio.sleep(pause_seconds)
            pause_seconds = min(2 * pause_seconds, longest_seconds)
        self._dropped.discard(shard)
        logger.info("shard %d is loaded again", shard, extra={"event": "reload", "shard": shard})
        self.wake()

    async def _read_back(self, shard: int) -> None:
        """Reopen and replay one shard; files are read off the loop."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self.log.reopen, shard)
        chunks = self.log.read(shard)
        while (chunk := await loop.run_in_executor(None, _next_chunk, chunks)) is not None:
            self.node.replay(shard, chunk)
        self._loaded(shard)

    def _loaded(self, shard: int) -> None:
        self.node.loaded(shard, self._clock.now_ms(), self.log.next_offset(shard))

    def _schedule(self, timeout_ms: int | None) -> None:
        """Have a turn at `timeout_ms`. A timer that is set earlier stays: its turn sets the next,
        so that a deadline that moves with each heartbeat costs nothing."""
        if timeout_ms is None or not self._running:
            return
        assert self._loop is not None
        if self._timer is not None:
            if self._timer_at_ms <= timeout_ms:
                return
            self._timer.cancel()
        # A millisecond more: timers of a loop may fire within their resolution too early.
        seconds = max(0, timeout_ms - self._clock.now_ms() + 1) / 1000
        self._timer_at_ms = timeout_ms
        self._timer = self._loop.call_later(seconds, self._timeout)

    def _timeout(self) -> None:
        self._timer = None
        self.wake()

    def _fail(self, error: BaseException, text: str) -> None:
        if not self._running:
            return
        logger.critical("%s: %s", text, error, exc_info=error, extra={"event": "fatal"})
        self.halt()
        if self.on_fatal is not None:
            self.on_fatal(error)


def _log_finding(group_id: str, generation_id: int, kind: str, count: int, detail: str) -> None:
    logger.warning(
        "group %s, generation %d: %s",
        group_id,
        generation_id,
        _FINDINGS[kind].format(count=count, detail=detail),
        extra={
            "event": "assignment",
            "kind": kind,
            "group": group_id,
            "generation": generation_id,
            "count": count,
            "detail": detail,
        },
    )


def _next_chunk(chunks: Iterator[bytes]) -> bytes | None:
    return next(chunks, None)
