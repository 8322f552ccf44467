"""A member of a group that coordinates itself through ZooKeeper, as the consumers of Kafka 0.8.

It has the surface of `pykcoord.Member`, and one thread of its own, on which it rebalances and
calls its listeners. What it asks of ZooKeeper stands in `coordination.py`.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import platform
import queue
import secrets
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from pykcoord import _arguments as arguments
from pykcoord._member_scope import CLOSE_SECONDS, WAIT_SECONDS, MemberScope
from pykcoord.clock import Clock, monotonic_seconds
from pykcoord.consumer_protocol import TopicPartition
from pykcoord.errors import ArgumentError, CoordinatorClosedError, ListenerError
from pykcoord.member import Listener
from pykcoord.zookeeper.coordination import Coordination, Outcome
from pykcoord.zookeeper.errors import RebalanceFailedError, ZooKeeperError
from pykcoord.zookeeper.kazoo_session import ConnectionLostError, KazooSession
from pykcoord.zookeeper.operations import Steps
from pykcoord.zookeeper.registration import registration_of

__all__ = ["Counts", "ZooKeeperMember"]

logger = logging.getLogger("pykcoord.zookeeper")

_INT32 = range(1, 2**31)
_NOTHING: frozenset[TopicPartition] = frozenset()


@dataclass
class Counts:
    """What a member has done so far: `requests` to ZooKeeper, `notifications` (watches that
    fired), `rebalances`, their `attempts`, those that failed (`failed_attempts`), and the
    `conflicts`: claims that another member had."""

    requests: int = 0
    notifications: int = 0
    rebalances: int = 0
    attempts: int = 0
    failed_attempts: int = 0
    conflicts: int = 0


class ZooKeeperMember(MemberScope):
    """One member of the group `group_id` at the ZooKeeper servers `hosts`.

    `hosts` is Kafka's `zookeeper.connect`: `host:port,host:port/chroot`. It reads `topics` (names,
    or names with numbers of streams), or what an expression of Java allows: `whitelist`, or all
    but `blacklist`; `streams` is their number where it is not said by topic. `strategy` is `range`
    or `roundrobin`, and must be that of all members: it is nowhere written down. Times are in ms,
    with the names and defaults of 0.8.2 (`rebalance_max_retries` counts attempts).

    Without `safe` it does exactly what 0.8.2.2 does, its defects included; docs/zookeeper.md says
    in which ways `safe` deviates. `on_revoked` and `on_assigned` are called on the member's own
    thread, with all that it gives up and gets. Raises ArgumentError.

    Use it as a context manager, or call `wait()` and `close()`; `async with` works too. Methods
    may be called from any thread.
    """

    def __init__(
        self,
        hosts: str,
        group_id: str,
        topics: Mapping[str, int] | Iterable[str] | None = None,
        *,
        whitelist: str | None = None,
        blacklist: str | None = None,
        streams: int = 1,
        strategy: str = "range",
        safe: bool = False,
        consumer_id: str | None = None,
        session_timeout_ms: int = 6_000,
        connection_timeout_ms: int | None = None,
        rebalance_backoff_ms: int = 2_000,
        rebalance_max_retries: int = 4,
        exclude_internal_topics: bool = True,
        on_assigned: Listener | None = None,
        on_revoked: Listener | None = None,
    ) -> None:
        group_id = _name("group_id", group_id)
        self._clock = Clock()
        registration = registration_of(topics, whitelist, blacklist, streams)
        member_id = f"{group_id}_{_name('consumer_id', consumer_id or self._made_up())}"
        self._session_timeout_ms = arguments.integer(
            "session_timeout_ms", session_timeout_ms, _INT32
        )
        if connection_timeout_ms is None:
            connection_timeout_ms = session_timeout_ms
        self._connection_seconds = (
            arguments.integer("connection_timeout_ms", connection_timeout_ms, _INT32) / 1000
        )
        self._backoff_seconds = (
            arguments.integer("rebalance_backoff_ms", rebalance_backoff_ms, range(2**31)) / 1000
        )
        self._attempts = arguments.integer("rebalance_max_retries", rebalance_max_retries, _INT32)
        self._group_id = group_id
        self._topics = tuple(registration.subscription)
        self._safe = safe
        self._on_assigned = on_assigned
        self._on_revoked = on_revoked
        self.assignment: frozenset[TopicPartition] = _NOTHING
        """The partitions this member believes it owns."""
        self._generation = -1
        self._rebalances = 0
        self._counts = Counts()
        self._coordination = Coordination(
            group_id, member_id, registration, strategy,
            exclude_internal_topics=exclude_internal_topics, safe=safe,
        )  # fmt: skip
        self._events: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
        self._closing = threading.Event()
        self._close_lock = threading.Lock()
        self._offsets_lock = threading.Lock()
        self._waits_for = f"a session with {hosts}"
        self._assigned: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._ended: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._session = KazooSession(
            hosts, session_timeout_ms, safe, lambda *event: self._events.put(event)
        )
        self._thread = threading.Thread(target=self._run, name=member_id, daemon=True)
        self._thread.start()

    @property
    def group_id(self) -> str:
        """The group."""
        return self._group_id

    @property
    def topics(self) -> tuple[str, ...]:
        """What it subscribes to; of a list, its expression."""
        return self._topics

    @property
    def member_id(self) -> str:
        """The name of its registration: the consumer id in the old consumer's words."""
        return self._coordination.consumer_id

    @property
    def generation(self) -> int:
        """How many assignments this member has got, from 0; -1 while it has none. Its own count:
        scheme 1 has no generation of the group."""
        return self._generation

    @property
    def streams(self) -> dict[str, frozenset[TopicPartition]]:
        """Thread id to the partitions that this stream owns; those with none are left out."""
        owned = dict(self._coordination.owned) if self.assignment else {}
        return {
            thread: frozenset(one for one, of in owned.items() if of == thread)
            for thread in sorted(set(owned.values()))
        }

    @property
    def counts(self) -> Counts:
        """What it has done so far."""
        return replace(self._counts, requests=self._session.requests)

    def wait(self, timeout_seconds: float | None = WAIT_SECONDS) -> None:
        """Block until the member has its assignment, which may be of no partitions.

        Raises TimeoutError after `timeout_seconds` (None: never), which says what it waits for;
        NoSessionError where ZooKeeper is away at the start; RebalanceFailedError when all attempts
        failed (the registration stays, and the next change in the group starts another rebalance);
        ZooKeeperError with the path that refuses it; CoordinatorClosedError once it is closed.
        """
        seconds = arguments.seconds("timeout_seconds", timeout_seconds)
        assigned = self._assigned
        try:
            assigned.result(seconds)
        except TimeoutError:
            if assigned.done():
                raise
            raise TimeoutError(f"{self._waits_for}, for {seconds:g} s") from None

    async def wait_async(self, timeout_seconds: float | None = WAIT_SECONDS) -> None:
        """`wait`, awaited on any loop."""
        await asyncio.to_thread(self.wait, timeout_seconds)

    def commit(
        self,
        offsets: Mapping[tuple[str, int], int],
        timeout_seconds: float | None = WAIT_SECONDS,
    ) -> None:
        """Write the next offset to be read of each (topic, partition), one znode after another.

        As in 0.8.2.2: only what differs from what this member last read or wrote; without any
        check of who owns the partition; and not at once for all. Raises TimeoutError while
        ZooKeeper is away (what was sent may be written later), ZooKeeperError with the path that
        refuses it, and with `safe` for a partition of others.
        """
        checked = {
            TopicPartition(topic, number): arguments.integer("offsets", offset, range(2**63))
            for (topic, number), offset in arguments.mapping(
                "offsets", offsets, "{('orders', 3): 42}"
            ).items()
        }
        with self._offsets_lock:
            self._do(self._coordination.commit(checked), timeout_seconds)

    async def commit_async(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """`commit`, awaited on any loop. Waits for ZooKeeper."""
        await asyncio.to_thread(self.commit, offsets, None)

    def committed(
        self,
        partitions: Iterable[tuple[str, int]] | None = None,
        timeout_seconds: float | None = WAIT_SECONDS,
    ) -> dict[TopicPartition, int]:
        """The group's offsets of `partitions` (None: all it has), those without left out.

        Raises BadOffsetError with the path of what is no number, and TimeoutError.
        """
        if partitions is None:
            found: dict[TopicPartition, int]
            found = self._do(self._coordination.all_committed(), timeout_seconds)  # type: ignore[assignment]
            return found
        found = {}
        for topic, number in partitions:
            one = TopicPartition(topic, number)
            offset = self._do(self._coordination.committed(one), timeout_seconds)
            if isinstance(offset, int):
                found[one] = offset
        return found

    async def committed_async(
        self, partitions: Iterable[tuple[str, int]] | None = None
    ) -> dict[TopicPartition, int]:
        """`committed`, awaited on any loop. Waits for ZooKeeper."""
        return await asyncio.to_thread(self.committed, partitions, None)

    def close(self, timeout_seconds: float | None = CLOSE_SECONDS) -> None:
        """Call `on_revoked` and end the session: registration and claims go with it. Safe to call
        twice.

        Raises TimeoutError if that takes longer (None: wait for it): the group then goes on
        without the member when its session ends.
        """
        seconds = arguments.seconds("timeout_seconds", timeout_seconds)
        self._closing.set()
        self._session.stop_waiting()
        self._events.put(("close", ""))
        if threading.current_thread() is self._thread:
            return
        try:
            self._ended.result(seconds)
        except TimeoutError:
            reason = f"{self.member_id} did not end within {seconds:g} s"
            raise TimeoutError(reason) from None

    def __repr__(self) -> str:
        return f"<ZooKeeperMember {self.member_id}, {len(self.assignment)} partitions>"

    def _made_up(self) -> str:
        """HOST-MS-8 hex digits, as the old consumer makes it up."""
        return f"{platform.node()}-{self._clock.now_ms()}-{secrets.token_hex(4)}"

    def _do(self, steps: Steps[object], timeout_seconds: float | None) -> object:
        seconds = arguments.seconds("timeout_seconds", timeout_seconds)
        if self._ended.done():
            raise CoordinatorClosedError(f"{self.member_id} was closed")
        until = None if seconds is None else monotonic_seconds() + seconds
        return self._session.run(steps, lambda: None, until)

    def _run(self) -> None:
        try:
            self._session.connect(self._connection_seconds)
            self._go_on(self._join)
            while not self._closing.is_set():
                self._go_on(self._next)
        except CoordinatorClosedError:
            pass
        except BaseException as error:
            self._fail(error)
        finally:
            self._end()

    def _go_on(self, step: Callable[[], None]) -> None:
        """Do a step; where a careful session lost its connection, wait for the next one."""
        try:
            step()
        except ConnectionLostError as error:
            logger.warning("%s", error)
            self._revoke()
            self._await_session()

    def _await_session(self) -> None:
        while not self._closing.is_set():
            kind, _ = self._events.get()
            if kind == "expired":
                self._coordination.forget()
            elif kind == "connected":
                self._events.put((kind, ""))
                return

    def _join(self) -> None:
        """Register, watch, rebalance."""
        self._register()
        self._run_steps(self._coordination.subscribe())
        self._rebalance()

    def _next(self) -> None:
        """Wait for something to happen, and react to all that has."""
        happened = [self._events.get()]
        while not self._events.empty():
            happened.append(self._events.get())
        kinds = {kind for kind, _ in happened}
        if self._closing.is_set():
            return
        if "expired" in kinds:
            self._coordination.forget()
            self._waits_for = f"a new session with {self._session.hosts}"
        if self._safe and kinds & {"suspended", "expired"}:
            self._revoke()
        paths = list(dict.fromkeys(path for kind, path in happened if kind == "watch"))
        self._counts.notifications += len(paths)
        if "connected" in kinds:
            self._connected()
            return
        changes = [self._run_steps(self._coordination.changed(path)) for path in paths]
        if any(changes):
            self._rebalance()

    def _connected(self) -> None:
        """There is a connection again: a new session begins anew, an old one looks what it
        missed."""
        if self._run_steps(self._coordination.is_registered()):
            if self._run_steps(self._coordination.subscribe()) or not self.assignment:
                self._rebalance()
            return
        self._coordination.forget()
        self._join()

    def _register(self) -> None:
        """Create the registration; wait for another of its name to go, as 0.8 does without end."""
        path = self._coordination.path
        waited_seconds = 0.0
        while True:
            now = str(self._clock.now_ms())
            registration = replace(self._coordination.registration, timestamp=now)
            if self._run_steps(self._coordination.register(registration)):
                self._waits_for = f"an assignment in {self._coordination.group}"
                return
            self._waits_for = f"{path}: is registered by another session"
            logger.warning("%s; waiting for it to go", self._waits_for)
            timeout_seconds = self._session.session_timeout_seconds
            if self._safe and waited_seconds > 2 * timeout_seconds:
                raise ZooKeeperError(path, "is registered by another member that lives")
            if self._closing.wait(timeout_seconds):
                raise CoordinatorClosedError(f"{self.member_id} was closed")
            waited_seconds += timeout_seconds

    def _rebalance(self) -> None:
        self._counts.rebalances += 1
        if self._assigned.done():
            self._assigned = concurrent.futures.Future()
        tried = 0
        while True:
            tried += 1
            outcome: Outcome = self._run_steps(self._coordination.attempt())  # type: ignore[assignment]
            self._counts.attempts += 1
            self._counts.conflicts += outcome.conflicts
            for warning in self._coordination.warnings:
                logger.warning("%s", warning)
            if outcome.failure is None:
                self._take()
                return
            self._counts.failed_attempts += 1
            self._revoke()
            logger.info("%s: attempt %d failed: %s", self.member_id, tried, outcome.failure)
            self._waits_for = f"{self._coordination.group}: {outcome.failure}"
            if self._closing.wait(self._backoff_seconds):
                raise CoordinatorClosedError(f"{self.member_id} was closed")
            if tried >= self._attempts and not self._safe:
                break
        reason = f"{self.member_id} can't rebalance after {tried} attempts: {outcome.failure}"
        error = RebalanceFailedError(self._coordination.group, reason)
        logger.error("%s", error)
        self._fail(error)

    def _take(self) -> None:
        assignment = frozenset(self._coordination.owned)
        changed = assignment != self.assignment
        if changed:
            self._revoke()
        self.assignment = assignment
        self._generation = self._rebalances
        self._rebalances += 1
        self._told(self._on_assigned, assignment)
        if not self._assigned.done():
            self._assigned.set_result(None)

    def _revoke(self) -> None:
        """It owns nothing from here on; the listener may commit before the claims go."""
        assignment, self.assignment = self.assignment, _NOTHING
        self._generation = -1
        if assignment:
            self._told(self._on_revoked, assignment)

    def _told(self, listener: Listener | None, partitions: frozenset[TopicPartition]) -> None:
        if listener is None:
            return
        try:
            listener(partitions)
        except Exception:
            raise
        except BaseException as error:
            raise ListenerError(f"a listener of {self.member_id} ended: {error!r}") from error

    def _run_steps(self, steps: Steps[object]) -> object:
        return self._session.run(steps, self._revoke)

    def _fail(self, error: BaseException) -> None:
        if self._assigned.done():
            self._assigned = concurrent.futures.Future()
        self._assigned.set_exception(error)

    def _end(self) -> None:
        """The last that the thread does."""
        try:
            self._revoke()
        except Exception:
            logger.exception("%s: a listener raised at the end", self.member_id)
        finally:
            self._session.close()
            if not self._assigned.done():
                self._fail(CoordinatorClosedError(f"{self.member_id} was closed"))
            self._ended.set_result(None)


def _name(argument: str, value: object) -> str:
    text = arguments.text(argument, value)
    if not text or "/" in text or text in (".", ".."):
        raise ArgumentError(argument, f"{text!r} is no name of a znode")
    return text
