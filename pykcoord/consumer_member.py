"""A member of a consumer group in process (KIP-848): the coordinator assigns, and brings each
member to its partitions at its own pace.

What the coordinator grants it may use at once; what it takes back goes through `on_revoked`
before that is told, and only then goes to another member.
"""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

from pykcoord import _member_requests as requests
from pykcoord.consumer_protocol import TopicPartition
from pykcoord.errors import KafkaError
from pykcoord.member import (
    NO_ERROR,
    NOBODY,
    PASSING,
    RETRY_SECONDS,
    UNKNOWN_MEMBER_ID,
    Member,
)

__all__ = ["ConsumerMember"]

_FENCED_MEMBER_EPOCH = 110
_GONE = (UNKNOWN_MEMBER_ID, _FENCED_MEMBER_EPOCH)
_JOINS, _LEAVES, _COMES_BACK = 0, -1, -2  # as epochs of a request

Partitions = frozenset[TopicPartition]


class ConsumerMember(Member):
    """One member of a consumer group; made by `Coordinator.join(..., protocol="consumer")`.

    `generation` is its member epoch. The rest is as in `Member`.
    """

    # What the coordinator grants; None: it has not said yet. What it has been told that the member
    # owns; None: nothing since it joined, or nobody knows.
    _granted: Partitions | None = None
    _told: Partitions | None = None
    _epoch = _JOINS
    _own_id = ""
    # The coordinator knows it no more: all that it owns is lost.
    _is_lost = False

    async def _follow(self) -> None:
        """Join, and do what the coordinator says until it knows the member no more."""
        self._is_lost = False
        pause_seconds, longest_seconds = RETRY_SECONDS
        while True:
            code = await self._beat()
            if code in _GONE:
                return
            if code in PASSING:
                await asyncio.sleep(pause_seconds)
                pause_seconds = min(2 * pause_seconds, longest_seconds)
                continue
            pause_seconds = RETRY_SECONDS[0]
            if code != NO_ERROR:
                raise KafkaError(code, f"heartbeat in group {self.group_id!r}")
            if self._granted is None or not await self._reconcile(self._granted):
                await asyncio.sleep(self._heartbeat_seconds)

    async def _reconcile(self, granted: Partitions) -> bool:
        """One step towards what is granted; whether the coordinator is to hear of it at once."""
        if gone := self.assignment - granted:
            await self._revoke(gone)
            return True
        if new := granted - self.assignment:
            self.assignment = granted
            if self._on_assigned is not None:
                try:
                    await self._listen(self._on_assigned, new)
                except Exception:
                    self.assignment -= new  # they were never taken over
                    raise
        if not self._assigned.done():
            self._assigned.set_result(None)
        return bool(new)

    async def _beat(self) -> int:
        """One heartbeat, and what its answer says; the code. None for who was lost while a listener
        was at work: that is to be told first."""
        if self._is_lost:
            return UNKNOWN_MEMBER_ID
        owned = self.assignment
        joins = self._epoch == _JOINS
        request = requests.consumer_heartbeat(
            self.group_id,
            self._own_id,
            self._epoch,
            self.topics if joins else None,
            None if owned == self._told and not joins else self._by_id(owned),
            rebalance_timeout_ms=self._identity.rebalance_timeout_ms,
            group_instance_id=self._identity.group_instance_id if joins else None,
        )
        response = await self._coordinator.handle_async(request, self._client_id)
        code = int(response.error_code.value)
        if code in _GONE:
            self._membership, self._epoch, self._granted = NOBODY, _JOINS, None
            self._is_lost = True
        if code != NO_ERROR:
            self._told = None
            return code
        self._told = owned
        self._own_id, self._epoch = response.member_id, response.member_epoch
        self._membership = (self._own_id, self._epoch)
        self._heartbeat_seconds = response.heartbeat_interval.total_seconds()
        if response.assignment is not None:
            self._granted = self._by_name(response.assignment)
        return code

    def _by_id(self, partitions: Partitions) -> dict[UUID, list[int]]:
        ids = {name: topic.topic_id for name, topic in self._catalogue().items()}
        found: dict[UUID, list[int]] = {}
        for topic, partition in sorted(partitions):
            if topic in ids:
                found.setdefault(ids[topic], []).append(partition)
        return found

    def _by_name(self, assignment: Any) -> Partitions:
        names = {topic.topic_id: name for name, topic in self._catalogue().items()}
        return frozenset(
            TopicPartition(names[of.topic_id], partition)
            for of in assignment.topic_partitions
            if of.topic_id in names
            for partition in of.partitions
        )

    def _catalogue(self) -> Any:
        return self._coordinator.topics_with_ids()

    async def _leave(self) -> None:
        """A static member says that it comes back, and keeps its partitions until its session
        ends."""
        epoch, self._epoch = self._epoch, _JOINS
        self._membership = NOBODY
        if epoch == _JOINS:
            return
        is_static = self._identity.group_instance_id is not None
        await self._ask(
            requests.consumer_heartbeat(
                self.group_id,
                self._own_id,
                _COMES_BACK if is_static else _LEAVES,
                None,
                None,
                group_instance_id=self._identity.group_instance_id,
            )
        )
