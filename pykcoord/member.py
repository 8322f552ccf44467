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
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pykcoord import _member_requests as requests
from pykcoord.consumer_protocol import (
    TopicPartition,
    decode_assignment,
    encode_assignment,
    range_assignment,
    subscribed_topics,
)
from pykcoord.errors import CoordinatorClosedError, KafkaError

if TYPE_CHECKING:
    from pykcoord.coordinator import Coordinator

__all__ = ["Member"]

logger = logging.getLogger("pykcoord.member")

_NONE = 0
_NOT_COORDINATOR = 16
_LOAD_IN_PROGRESS = 14
_COORDINATOR_NOT_AVAILABLE = 15
_ILLEGAL_GENERATION = 22
_UNKNOWN_MEMBER_ID = 25
_REBALANCE_IN_PROGRESS = 27
_MEMBER_ID_REQUIRED = 79
_PASSING = frozenset({_NOT_COORDINATOR, _LOAD_IN_PROGRESS, _COORDINATOR_NOT_AVAILABLE})
_RETRY_SECONDS = 0.1

Listener = Callable[[frozenset[TopicPartition]], None]


class Member:
    """One member of a group; made by `Coordinator.join`.

    Use it as a context manager, or call `wait()` and `close()`; `async with` works too. All
    methods may be called from any thread.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        group_id: str,
        topics: Iterable[str],
        *,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
        heartbeat_interval_ms: int,
        group_instance_id: str | None,
        client_id: str,
        on_assigned: Listener | None,
        on_revoked: Listener | None,
    ) -> None:
        self.group_id = group_id
        self.topics = tuple(topics)
        self.member_id = ""
        """The id that the coordinator gave; "" before the first join, and after it was lost."""
        self.generation = -1
        """The generation of the assignment; -1 while there is none."""
        self.assignment: frozenset[TopicPartition] = frozenset()
        """The partitions this member owns."""
        self._coordinator = coordinator
        self._identity = requests.Identity(
            group_id, self.topics, session_timeout_ms, rebalance_timeout_ms, group_instance_id
        )
        self._client_id = client_id
        self._heartbeat_seconds = heartbeat_interval_ms / 1000
        self._on_assigned = on_assigned
        self._on_revoked = on_revoked
        self._stable = threading.Event()
        self._failure: BaseException | None = None
        self._closed = False
        self._task: concurrent.futures.Future[None] = coordinator.run(self._run())
        self._task.add_done_callback(self._ended)

    def wait(self, timeout_seconds: float | None = 60.0) -> None:
        """Block until the member has its assignment.

        Raises TimeoutError after `timeout_seconds`, KafkaError if the coordinator refuses it.
        """
        if not self._stable.wait(timeout_seconds):
            raise TimeoutError(f"group {self.group_id!r}: no assignment in {timeout_seconds} s")
        if self._failure is not None:
            raise self._failure

    def commit(self, offsets: Mapping[tuple[str, int], int], timeout_seconds: float = 60.0) -> None:
        """Commit the next offset to be read of each (topic, partition); back when it is durable.

        Raises KafkaError with the code of the first partition that was refused, e.g.
        REBALANCE_IN_PROGRESS or ILLEGAL_GENERATION when the partitions may have moved on.
        """
        self._coordinator.run(self.commit_async(offsets)).result(timeout_seconds)

    async def commit_async(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """`commit`, awaited on any loop."""
        request = requests.commit(self._identity, self.member_id, self.generation, offsets)
        response = await self._coordinator.request(request, self._client_id)
        for topic in response.topics:
            for partition in topic.partitions:
                if partition.error_code != _NONE:
                    where = f"{topic.name}-{partition.partition_index}"
                    raise KafkaError(int(partition.error_code.value), where)

    def committed(
        self, partitions: Iterable[tuple[str, int]] | None = None, timeout_seconds: float = 60.0
    ) -> dict[TopicPartition, int]:
        """The group's committed offsets of `partitions` (None: all it has), those without left
        out."""
        return self._coordinator.run(self.committed_async(partitions)).result(timeout_seconds)

    async def committed_async(
        self, partitions: Iterable[tuple[str, int]] | None = None
    ) -> dict[TopicPartition, int]:
        """`committed`, awaited on any loop."""
        request = requests.fetch(self.group_id, partitions)
        response = await self._coordinator.request(request, self._client_id)
        (group,) = response.groups
        if group.error_code != _NONE:
            raise KafkaError(int(group.error_code.value), f"group {self.group_id!r}")
        return {
            TopicPartition(topic.name, partition.partition_index): partition.committed_offset
            for topic in group.topics
            for partition in topic.partitions
            if partition.committed_offset >= 0
        }

    def close(self, timeout_seconds: float = 10.0) -> None:
        """Leave the group. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        self._task.cancel()
        if not self._coordinator.closed:
            self._coordinator.run(self._leave()).result(timeout_seconds)

    def __enter__(self) -> Member:
        self.wait()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Member:
        await asyncio.to_thread(self.wait)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await asyncio.to_thread(self.close)

    def __repr__(self) -> str:
        return (
            f"<Member {self.member_id or '(joining)'} of {self.group_id!r}, "
            f"generation {self.generation}, {len(self.assignment)} partitions>"
        )

    async def _run(self) -> None:
        while True:
            await self._join()
            await self._heartbeat()

    async def _join(self) -> None:
        """Join and sync until there is an assignment."""
        while True:
            joined = await self._ask(requests.join(self._identity, self.member_id))
            code = int(joined.error_code.value)
            if code == _MEMBER_ID_REQUIRED:
                self.member_id = joined.member_id
                continue
            if code == _UNKNOWN_MEMBER_ID:
                self._forget()
                continue
            if code != _NONE:
                raise KafkaError(code, f"joining group {self.group_id!r}")
            self.member_id = joined.member_id
            synced = await self._ask(
                requests.sync(self._identity, joined, self._assignments(joined))
            )
            code = int(synced.error_code.value)
            if code == _NONE:
                self._take(joined.generation_id, decode_assignment(synced.assignment))
                return
            if code == _UNKNOWN_MEMBER_ID:
                self._forget()
            elif code not in (_REBALANCE_IN_PROGRESS, _ILLEGAL_GENERATION):
                raise KafkaError(code, f"syncing group {self.group_id!r}")

    async def _heartbeat(self) -> None:
        """Beat until the group rebalances."""
        while True:
            await asyncio.sleep(self._heartbeat_seconds)
            beat = await self._ask(
                requests.heartbeat(self._identity, self.member_id, self.generation)
            )
            code = int(beat.error_code.value)
            if code == _NONE:
                continue
            if code in (_REBALANCE_IN_PROGRESS, _ILLEGAL_GENERATION, _UNKNOWN_MEMBER_ID):
                if code == _UNKNOWN_MEMBER_ID:
                    self._forget()
                self._revoke()
                return
            raise KafkaError(code, f"heartbeat in group {self.group_id!r}")

    async def _ask(self, request: object) -> Any:
        """Ask until the shard serves: it may be loading again after a failed append."""
        while True:
            response = await self._coordinator.request(request, self._client_id)
            if int(response.error_code.value) not in _PASSING:
                return response
            await asyncio.sleep(_RETRY_SECONDS)

    def _assignments(self, joined: Any) -> dict[str, bytes]:
        """What a leader decides for everybody; nothing from a follower."""
        if joined.leader != joined.member_id or joined.skip_assignment:
            return {}
        subscriptions = {
            member.member_id: subscribed_topics(member.metadata) for member in joined.members
        }
        decided = range_assignment(self._coordinator.topics, subscriptions)
        return {member: encode_assignment(partitions) for member, partitions in decided.items()}

    def _take(self, generation: int, assignment: frozenset[TopicPartition]) -> None:
        self.generation = generation
        self.assignment = assignment
        self._stable.set()
        if self._on_assigned is not None:
            self._on_assigned(assignment)

    def _revoke(self) -> None:
        """Eager rebalancing: everything is given up before the next join."""
        revoked, self.assignment = self.assignment, frozenset()
        self._stable.clear()
        if self._on_revoked is not None:
            self._on_revoked(revoked)

    def _forget(self) -> None:
        self.member_id = ""
        self.generation = -1

    async def _leave(self) -> None:
        """Static members stay, as Kafka's clients do (KIP-345)."""
        if self.member_id and self._identity.group_instance_id is None:
            request = requests.leave(self._identity, self.member_id)
            await self._coordinator.request(request, self._client_id)
        self._forget()
        self.assignment = frozenset()

    def _ended(self, task: concurrent.futures.Future[None]) -> None:
        if task.cancelled():
            self._failure = CoordinatorClosedError(f"member of {self.group_id!r} was closed")
        else:
            self._failure = task.exception()
            logger.error("member of group %r ended: %s", self.group_id, self._failure)
        self._stable.set()
