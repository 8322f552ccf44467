"""A group member in process: joins, heartbeats and rejoins by itself, commits on request.

A member is a client like any other: it speaks to the coordinator in requests of the protocol, so
members in process and Kafka consumers over TCP share groups. It must never block the
coordinator's loop.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pykcoord import _arguments as arguments
from pykcoord import _member_requests as requests
from pykcoord._member_scope import CLOSE_SECONDS, WAIT_SECONDS, MemberScope
from pykcoord.assignors import assign
from pykcoord.consumer_protocol import (
    TopicPartition,
    decode_assignment,
    encode_assignment,
    subscribed_topics,
)
from pykcoord.errors import CoordinatorClosedError, KafkaError, ListenerError
from pykcoord.protocol import decode_response, encode_request

if TYPE_CHECKING:
    from pykcoord.coordinator import Coordinator

__all__ = ["Listener", "Member"]

logger = logging.getLogger("pykcoord.member")

NO_ERROR = 0
_LOAD_IN_PROGRESS = 14
_COORDINATOR_NOT_AVAILABLE = 15
_NOT_COORDINATOR = 16
_ILLEGAL_GENERATION = 22
UNKNOWN_MEMBER_ID = 25
_REBALANCE_IN_PROGRESS = 27
_MEMBER_ID_REQUIRED = 79
PASSING = frozenset({_NOT_COORDINATOR, _LOAD_IN_PROGRESS, _COORDINATOR_NOT_AVAILABLE})
# Between two attempts while the group's shard is not serving: first, and at most.
RETRY_SECONDS = (0.05, 1.0)
NOBODY = ("", -1)

# Exceptions that mean something else where they come out of a future or a coroutine.
_NO_OUTCOMES = (StopIteration, StopAsyncIteration, concurrent.futures.CancelledError)

Listener = Callable[[frozenset[TopicPartition]], None]


def new_outcome() -> concurrent.futures.Future[None]:
    """Of `wait`: nothing yet."""
    return concurrent.futures.Future()


class _ListenerRaised(Exception):
    """Carries what a listener raised through the member's task: as itself, SystemExit would end
    the coordinator's loop."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(repr(error))
        self.error = error


class Member(MemberScope):
    """One member of a group; made by `Coordinator.join`.

    Use it as a context manager, or call `wait()` and `close()`; `async with` works too. All
    methods may be called from any thread, those with `_async` on any loop.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        identity: requests.Identity,
        *,
        heartbeat_seconds: float,
        client_id: str,
        on_assigned: Listener | None,
        on_revoked: Listener | None,
    ) -> None:
        self.assignment: frozenset[TopicPartition] = frozenset()
        """The partitions this member owns."""
        self._coordinator = coordinator
        self._identity = identity
        self._client_id = client_id
        self._heartbeat_seconds = heartbeat_seconds
        self._on_assigned = on_assigned
        self._on_revoked = on_revoked
        # Member id and generation, as one value: they are read on other threads.
        self._membership = NOBODY
        # Done while there is an assignment, or none can come any more.
        self._assigned: concurrent.futures.Future[None] = new_outcome()
        self._alive_reply = b""
        # What a leader's assignment was computed from: it joins again when that changes.
        self._decided_from: dict[str, int] | None = None
        self._catalogue_version = -1
        self._runner: asyncio.Task[None] | None = None
        # The listener that was called last, and its thread while it runs.
        self._called: concurrent.futures.Future[BaseException | None] | None = None
        self._listening: int | None = None
        self._close_once = threading.Lock()
        self._is_closing = False
        self._is_closed = False
        self._task: concurrent.futures.Future[None] = coordinator.run(self._run())
        self._task.add_done_callback(self._ended)

    @property
    def group_id(self) -> str:
        """The group."""
        return self._identity.group_id

    @property
    def topics(self) -> tuple[str, ...]:
        """What it subscribes to."""
        return self._identity.topics

    @property
    def member_id(self) -> str:
        """The id that the coordinator gave; "" before the first join, and after it was lost."""
        return self._membership[0]

    @property
    def generation(self) -> int:
        """The generation of the last assignment; -1 where there is none."""
        return self._membership[1]

    def wait(self, timeout_seconds: float | None = WAIT_SECONDS) -> None:
        """Block until the member has its assignment (None: however long it takes).

        Raises TimeoutError after `timeout_seconds`, KafkaError if the coordinator refuses it, what
        a listener raised (ListenerError where that is no ordinary exception, such as SystemExit),
        CoordinatorClosedError once the member or the coordinator is closed.
        """
        timeout_seconds = arguments.seconds("timeout_seconds", timeout_seconds)
        self._coordinator.check_process()
        assigned = self._assigned
        try:
            assigned.result(timeout_seconds)
        except TimeoutError:
            if assigned.done():
                raise
            raise TimeoutError(self._too_late(timeout_seconds)) from None

    async def wait_async(self, timeout_seconds: float | None = WAIT_SECONDS) -> None:
        """`wait`, awaited on any loop."""
        timeout_seconds = arguments.seconds("timeout_seconds", timeout_seconds)
        self._coordinator.check_process()
        assigned = asyncio.wrap_future(self._assigned)
        # `wait` does not cancel what it waits for: others may wait for the same.
        done, _ = await asyncio.wait({assigned}, timeout=timeout_seconds)
        if not done:
            raise TimeoutError(self._too_late(timeout_seconds))
        assigned.result()

    def commit(self, offsets: Mapping[tuple[str, int], int], timeout_seconds: float = 60.0) -> None:
        """Commit the next offset to be read of each (topic, partition); back when it is durable.

        Raises KafkaError with the code of the first partition that was refused, e.g.
        REBALANCE_IN_PROGRESS, ILLEGAL_GENERATION or UNKNOWN_MEMBER_ID when the partitions may
        have moved on; TimeoutError if the log cannot be written for so long.
        """
        seconds = arguments.seconds("timeout_seconds", timeout_seconds)
        self._coordinator.result_of(self.commit_async(offsets), seconds)

    async def commit_async(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """`commit`, awaited on any loop. Tries until the log can be written."""
        if self._is_closed:
            raise CoordinatorClosedError(f"member of {self.group_id!r} was closed")
        member_id, generation = self._membership
        if generation < 0:
            # Without a generation it would pass for a commit without a member, which is never
            # fenced.
            raise KafkaError(UNKNOWN_MEMBER_ID, f"no member of {self.group_id!r} at present")
        request = requests.commit(self._identity, member_id, generation, offsets)

        def refused(response: Any) -> tuple[int, str]:
            for topic in response.topics:
                for partition in topic.partitions:
                    if partition.error_code != NO_ERROR:
                        where = f"{topic.name}-{partition.partition_index}"
                        return int(partition.error_code.value), where
            return NO_ERROR, ""

        response = await self._ask(request, lambda response: refused(response)[0])
        code, where = refused(response)
        if code != NO_ERROR:
            raise KafkaError(code, where)

    def committed(
        self, partitions: Iterable[tuple[str, int]] | None = None, timeout_seconds: float = 60.0
    ) -> dict[TopicPartition, int]:
        """The group's committed offsets of `partitions` (None: all it has), those without left
        out."""
        seconds = arguments.seconds("timeout_seconds", timeout_seconds)
        return self._coordinator.result_of(self.committed_async(partitions), seconds)

    async def committed_async(
        self, partitions: Iterable[tuple[str, int]] | None = None
    ) -> dict[TopicPartition, int]:
        """`committed`, awaited on any loop."""
        request = requests.fetch(self.group_id, partitions)
        response = await self._ask(request, lambda response: _code(response.groups[0]))
        (group,) = response.groups
        if group.error_code != NO_ERROR:
            raise KafkaError(_code(group), f"group {self.group_id!r}")
        return {
            TopicPartition(topic.name, partition.partition_index): partition.committed_offset
            for topic in group.topics
            for partition in topic.partitions
            if partition.committed_offset >= 0
        }

    def close(self, timeout_seconds: float | None = CLOSE_SECONDS) -> None:
        """Call `on_revoked` and leave the group. A listener that runs is waited for, unless this
        is called by it. Safe to call twice.

        Raises TimeoutError if that takes longer (None: wait for it): the group then goes on
        without the member when its session ends. A static member (with a `group_instance_id`)
        always keeps its place until then.
        """
        seconds = arguments.seconds("timeout_seconds", timeout_seconds)
        # Never released: no child of fork may wait for it.
        if not self._close_once.acquire(blocking=False):
            return
        self._is_closing = True
        try:
            by_listener = self._listening == threading.get_ident()
            self._coordinator.result_of(self._shut(by_listener), seconds)
        except CoordinatorClosedError:
            pass  # it went first, and all its members with it
        finally:
            self._is_closed = True
            self._membership = NOBODY
            self.assignment = frozenset()

    def __repr__(self) -> str:
        return (
            f"<Member {self.member_id or '(joining)'} of {self.group_id!r}, "
            f"generation {self.generation}, {len(self.assignment)} partitions>"
        )

    async def _run(self) -> None:
        self._runner = asyncio.current_task()
        try:
            while True:
                await self._follow()
                self._assigned = new_outcome()
                await self._revoke()
        except CoordinatorClosedError:
            raise
        except Exception:
            if self._assigned.done():
                self._assigned = new_outcome()
            await self._revoke()
            await self._leave()
            raise

    async def _shut(self, by_listener: bool) -> None:
        assert self._runner is not None
        self._runner.cancel()
        await asyncio.wait({self._runner})
        if self._called is not None and not by_listener:
            await asyncio.wait({asyncio.wrap_future(self._called)})
        await self._revoke()
        await self._leave()

    async def _follow(self) -> None:
        """Join, and be a member until all is to be given up."""
        await self._join()
        await self._stay()

    async def _join(self) -> None:
        """Join and sync until there is an assignment."""
        while True:
            joined = await self._ask(requests.join(self._identity, self.member_id))
            code = _code(joined)
            if code == _MEMBER_ID_REQUIRED:
                self._membership = (joined.member_id, -1)
                continue
            if code == UNKNOWN_MEMBER_ID:
                self._membership = NOBODY
                continue
            if code != NO_ERROR:
                raise KafkaError(code, f"joining group {self.group_id!r}")
            # The old generation stays until the new assignment: a commit is refused meanwhile.
            self._membership = (joined.member_id, self.generation)
            request = requests.sync(self._identity, joined, self._decide(joined))
            synced = await self._ask(request)
            code = _code(synced)
            if code == NO_ERROR:
                partitions = decode_assignment(synced.assignment)
                await self._take(joined.generation_id, partitions)
                return
            if code == UNKNOWN_MEMBER_ID:
                self._membership = NOBODY
            elif code not in (_REBALANCE_IN_PROGRESS, _ILLEGAL_GENERATION):
                raise KafkaError(code, f"syncing group {self.group_id!r}")

    async def _stay(self) -> None:
        """Beat until the group rebalances, or has to."""
        while True:
            await asyncio.sleep(self._heartbeat_seconds)
            code = await self._beat()
            if code == NO_ERROR:
                if self._has_to_decide_again():
                    return
            elif code in (_REBALANCE_IN_PROGRESS, _ILLEGAL_GENERATION):
                return
            elif code == UNKNOWN_MEMBER_ID:
                self._membership = NOBODY
                return
            elif code not in PASSING:
                raise KafkaError(code, f"heartbeat in group {self.group_id!r}")

    async def _beat(self) -> int:
        """One heartbeat. The usual reply is known by its bytes: most members do nothing else."""
        request = requests.heartbeat(self._identity, *self._membership)
        reply = await self._coordinator.handle_async(
            encode_request(request, client_id=self._client_id)
        )
        if reply == self._alive_reply:
            return NO_ERROR
        code = _code(decode_response(request, reply))
        if code == NO_ERROR:
            self._alive_reply = reply
        return code

    async def _ask(self, request: object, code_of: Callable[[Any], int] | None = None) -> Any:
        """Ask until the shard serves: it may be loading again after a failed append."""
        pause_seconds, longest_seconds = RETRY_SECONDS
        while True:
            response = await self._coordinator.handle_async(request, self._client_id)
            if (code_of or _code)(response) not in PASSING:
                return response
            await asyncio.sleep(pause_seconds)
            pause_seconds = min(2 * pause_seconds, longest_seconds)

    def _decide(self, joined: Any) -> dict[str, bytes]:
        """What a leader decides for all members; nothing from a follower."""
        self._decided_from = None
        if joined.leader != joined.member_id:
            return {}
        subscriptions = {
            member.member_id: list(subscribed_topics(member.metadata)) for member in joined.members
        }
        self._catalogue_version = self._coordinator.catalogue_version
        known = self._coordinator.topics
        wanted = {topic for topics in subscriptions.values() for topic in topics}
        self._decided_from = {topic: known.get(topic, 0) for topic in wanted}
        if joined.skip_assignment:
            return {}
        decided = assign(requests.PROTOCOL_NAME, self._decided_from, subscriptions)
        return {member: encode_assignment(owned) for member, owned in decided.items()}

    def _has_to_decide_again(self) -> bool:
        """Whether the topics of a leader's group have changed (Kafka: a metadata refresh)."""
        version = self._coordinator.catalogue_version
        if self._decided_from is None or version == self._catalogue_version:
            return False
        self._catalogue_version = version
        known = self._coordinator.topics
        return any(known.get(topic, 0) != count for topic, count in self._decided_from.items())

    async def _take(self, generation: int, assignment: frozenset[TopicPartition]) -> None:
        self._membership = (self.member_id, generation)
        self.assignment = assignment
        if self._on_assigned is not None:
            try:
                await self._listen(self._on_assigned, assignment)
            except Exception:
                self.assignment = frozenset()  # it was never taken over
                raise
        self._assigned.set_result(None)

    async def _revoke(self, partitions: frozenset[TopicPartition] | None = None) -> None:
        """Give up these partitions; None: all. Eager rebalancing gives up all before it joins."""
        partitions = self.assignment if partitions is None else partitions
        if self._on_revoked is not None and partitions:
            try:
                await self._listen(self._on_revoked, partitions)
            except _ListenerRaised as raised:
                reason = "on_revoked of %r failed; its partitions go all the same"
                logger.error(reason, self, exc_info=raised.error)
            except Exception:
                logger.exception("on_revoked of %r failed; its partitions go all the same", self)
            except asyncio.CancelledError:
                self.assignment -= partitions  # it was told
                raise
        self.assignment -= partitions

    async def _listen(self, listener: Listener, partitions: frozenset[TopicPartition]) -> None:
        """Call a listener on a thread of its own, and stay alive meanwhile."""
        called: concurrent.futures.Future[BaseException | None] = concurrent.futures.Future()
        self._called = called

        def call() -> None:
            error: BaseException | None = None
            self._listening = threading.get_ident()
            try:
                listener(partitions)
            except BaseException as raised:
                error = raised
            self._listening = None
            called.set_result(error)

        # A daemon, not of a pool: a listener that never returns must not keep the process.
        threading.Thread(target=call, name="pykcoord-listener", daemon=True).start()
        ended = asyncio.wrap_future(called)
        while not ended.done():
            await asyncio.wait({ended}, timeout=self._heartbeat_seconds)
            if not ended.done() and self.generation >= 0:
                await self._beat()
        error = ended.result()
        if error is not None:
            raise _ListenerRaised(error) from error

    async def _leave(self) -> None:
        """Static members stay, as Kafka's clients do (KIP-345)."""
        member_id = self.member_id
        self._membership = NOBODY
        if member_id and self._identity.group_instance_id is None:
            await self._ask(requests.leave(self._identity, member_id))

    def _ended(self, task: concurrent.futures.Future[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is None:
            who = f"member of {self.group_id!r}" if self._is_closing else "the coordinator"
            error = CoordinatorClosedError(f"{who} was closed")
        if isinstance(error, _ListenerRaised):
            error = self._of_listener(error.error)
        if not isinstance(error, CoordinatorClosedError):
            logger.error("member of group %r ended: %s", self.group_id, error)
        if not self._is_closing:
            self.assignment = frozenset()
        if self._assigned.done():
            self._assigned = new_outcome()
        self._assigned.set_exception(error)

    def _of_listener(self, error: BaseException) -> Exception:
        """What `wait` raises of what a listener raised."""
        if isinstance(error, Exception) and not isinstance(error, _NO_OUTCOMES):
            return error
        told = ListenerError(f"a listener of a member of group {self.group_id!r} raised {error!r}")
        told.__cause__ = error
        return told

    def _too_late(self, timeout_seconds: float | None) -> str:
        return f"group {self.group_id!r}: no assignment in {timeout_seconds} s"


def _code(answer: Any) -> int:
    return int(answer.error_code.value)
