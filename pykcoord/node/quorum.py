"""The controllers of a cluster: their log, followed as an observer, and requests to the active one.

As a broker does: Fetch of `__cluster_metadata` with this node's id, so that Kafka's tools show it
among the observers. Only what is below the log's high watermark is taken in.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from kio.schema.fetch.v18.request import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from kio.schema.fetch_snapshot.v1.request import (
    FetchSnapshotRequest,
    PartitionSnapshot,
    SnapshotId,
    TopicSnapshot,
)
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i32, i32Timedelta, i64

from pykcoord.addresses import address_text
from pykcoord.clock import thread_seconds
from pykcoord.kafka import ClientProperties, ClusterError, Connection, Connector, UnreachableError
from pykcoord.node.errors import NodeError
from pykcoord.node.image import Image
from pykcoord.node.metadata_records import MetadataBatch, batches_of

__all__ = ["Quorum"]

logger = logging.getLogger("pykcoord.node")

_TOPIC_ID = uuid.UUID(int=1)
_TOPIC = TopicName("__cluster_metadata")
_NOT_LEADER, _FENCED_EPOCH, _UNKNOWN_EPOCH, _NOT_CONTROLLER = 6, 74, 75, 41
_UNKNOWN_CLUSTER, _NOT_AUTHORIZED, _TOPIC_NOT_AUTHORIZED = 104, 31, 29
_WAIT_MS, _MOST_BYTES = 500, 8 << 20
_LEAST_PAUSE, _MOST_PAUSE = 0.05, 1.0
# Kafka's controller.quorum.request.timeout.ms: one that hangs is left within a session. Whoever
# reads the log from its start gets large answers, and waits longer.
_ANSWER_SECONDS, _LARGE_ANSWER_SECONDS = 2.0, 10.0
# After batches that took the processor for longer others are served.
_LONG_SECONDS = 0.002


class Quorum:
    """`image` is what the log says; `on_change` are called after each batch that was taken in, on
    the loop, `on_failure` once, when the following ends by itself: the image is old from then on.
    Made, then `start`, then `caught_up`; ended by `close`."""

    def __init__(
        self,
        properties: ClientProperties,
        controllers: Mapping[int, tuple[str, int]],
        cluster_id: str,
        node_id: int,
        directory_id: uuid.UUID,
    ) -> None:
        self.image = Image()
        self.on_change: list[Callable[[], None]] = []
        self.on_failure: Callable[[Exception], None] = lambda error: None
        self.failure: Exception | None = None
        self._connector = Connector(properties)
        self._controllers = dict(controllers)
        self._cluster_id = cluster_id
        self._node_id = node_id
        self._directory_id = directory_id
        self._leader = -1
        self._leader_epoch = 0
        self._high_watermark = -1
        self._fetched = (0, 0)
        self._pending: list[MetadataBatch] = []
        self._asking: Connection | None = None
        self._asked = -1
        self._gate = asyncio.Lock()
        self._found = asyncio.Event()
        self._progress = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None
        self._turn = 0
        self._told = (-1, -1)
        self._silent: set[int] = set()
        self._begun = self._answered = 0

    def start(self) -> None:
        """Begins to follow the log, on the running loop."""
        self._task = asyncio.create_task(self._follow())

    async def close(self) -> None:
        """Ends it."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._asking is not None:
            self._asking.close()

    @property
    def leader(self) -> int:
        """The active controller's id, as far as is known; -1: not known."""
        return self._leader

    async def caught_up(self) -> None:
        """Waits until all that was committed when a controller was asked first is taken in. Raises
        what ended the following."""
        await self.reached(lambda: 0 <= self._high_watermark <= self.image.offset)

    async def reached(self, holds: Callable[[], bool], seconds: float | None = None) -> bool:
        """Waits until something holds of the image; says whether it does, in time. Raises what
        ended the following."""
        try:
            async with asyncio.timeout(seconds), self._progress:
                await self._progress.wait_for(lambda: self.failure is not None or holds())
        except TimeoutError:
            return False
        if self.failure is not None:
            raise self.failure
        return True

    async def current(self, seconds: float) -> bool:
        """Waits until all that was committed by now is taken in; says whether it is, in time.
        Raises what ended the following."""
        begun = self._begun
        return await self.reached(
            lambda: self._answered > begun and self.image.offset >= self._high_watermark, seconds
        )

    async def ask(self, request: Any, seconds: float = 30.0) -> Any:
        """The active controller's answer, which is looked for until `seconds` are over. Raises
        ClusterError. An answer whose own `error_code` is NOT_CONTROLLER is not returned."""
        last: ClusterError = UnreachableError("the controllers", "none of them is active")
        pause = _LEAST_PAUSE
        try:
            async with asyncio.timeout(seconds):
                while True:
                    try:
                        connection = await self._to_leader()
                        answer = await connection.ask(request, seconds=seconds)
                        if getattr(answer, "error_code", None) is None:
                            return answer
                        if answer.error_code.value != _NOT_CONTROLLER:
                            return answer
                    except UnreachableError as error:
                        last = error
                    self._lose_leader()
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, _MOST_PAUSE)
        except TimeoutError:
            raise last from None

    async def exchange(self, frame: bytes) -> bytes:
        """The active controller's answer to a frame (header and body), with the frame's own
        correlation id. Raises ClusterError."""
        answer = await (await self._to_leader()).exchange(frame, 30.0, _MOST_BYTES)
        return frame[4:8] + answer[4:]

    async def _to_leader(self) -> Connection:
        async with self._gate:
            await self._found.wait()
            if self._asking is not None and (
                self._asked != self._leader or not self._asking.is_usable
            ):
                self._asking.close()
                self._asking = None
            if self._asking is None:
                leader = self._leader
                self._asking = await self._connected(leader)
                self._asked = leader
            return self._asking

    async def _connected(self, controller: int) -> Connection:
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                return await self._connector.connect(*self._controllers[controller])
        except TimeoutError:
            address = address_text(*self._controllers[controller])
            reason = f"no connection within {_ANSWER_SECONDS:g} s"
            raise UnreachableError(address, reason) from None

    def _lose_leader(self) -> None:
        """It is not known any more who is active: the following finds it."""
        if self._asking is not None:
            self._asking.close()
        self._asking = None

    async def _follow(self) -> None:
        connection: Connection | None = None
        of, pause = -1, _LEAST_PAUSE
        try:
            while True:
                if connection is None or of != self._target():
                    if connection is not None:
                        connection.close()
                    of = self._target()
                    connection = None
                try:
                    if connection is None:
                        connection = await self._connected(of)
                    moved = await self._fetch(connection, of)
                    pause = _LEAST_PAUSE if moved else min(2 * pause, _MOST_PAUSE)
                    if not moved:
                        await asyncio.sleep(pause)
                except UnreachableError as error:
                    if of not in self._silent:
                        self._silent.add(of)
                        logger.info("controller %d: %s", of, error, extra={"event": "controller"})
                    connection = None
                    self._forget(of)
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, _MOST_PAUSE)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # a log that cannot be read, or our own fault
            self.failure = error
            await self._tell()
            self.on_failure(error)
        finally:
            if connection is not None:
                connection.close()

    def _target(self) -> int:
        """Whom to ask: the leader, or one after the other."""
        if self._leader in self._controllers:
            return self._leader
        known = sorted(self._controllers)
        return known[self._turn % len(known)]

    def _forget(self, controller: int) -> None:
        if self._leader == controller:
            self._leader = -1
            self._found.clear()
        self._turn += 1

    def _led_by(self, leader: int, epoch: int) -> None:
        if epoch < self._leader_epoch or leader not in self._controllers:
            return
        if self._told != (leader, epoch):
            self._told = (leader, epoch)
            logger.info(
                "the active controller is %d, epoch %d", leader, epoch,
                extra={"event": "controller"},
            )  # fmt: skip
        self._leader, self._leader_epoch = leader, epoch
        self._found.set()

    async def _fetch(self, connection: Connection, of: int) -> bool:
        """One Fetch; says whether it was of use."""
        self._begun = number = self._begun + 1
        is_current = 0 <= self._high_watermark <= self.image.offset
        seconds = _WAIT_MS / 1000 + (_ANSWER_SECONDS if is_current else _LARGE_ANSWER_SECONDS)
        answer = await connection.ask(self._request(), seconds=seconds, most_bytes=_MOST_BYTES * 8)
        if answer.error_code.value:
            self._refused(answer.error_code.value, answer.error_code.name)
            return False
        partitions = [one for topic in answer.responses for one in topic.partitions]
        if len(partitions) != 1:
            raise ClusterError(connection.address, "its answer has no metadata log")
        found = partitions[0]
        code = found.error_code.value
        current = found.current_leader
        if code:
            if code not in (_NOT_LEADER, _FENCED_EPOCH, _UNKNOWN_EPOCH):
                self._refused(code, found.error_code.name)
            before = (self._leader, self._leader_epoch)
            if current.leader_id < 0 or current.leader_epoch < self._leader_epoch:
                self._forget(of)
                return False
            self._leader_epoch = max(self._leader_epoch, int(current.leader_epoch))
            self._led_by(int(current.leader_id), int(current.leader_epoch))
            return before != (self._leader, self._leader_epoch)
        self._silent.discard(of)
        self._answered = number
        self._led_by(of, self._leader_epoch)
        self._high_watermark = max(self._high_watermark, int(found.high_watermark))
        if found.snapshot_id.end_offset >= 0:
            await self._load_snapshot(connection, found.snapshot_id)
        elif found.diverging_epoch.end_offset >= 0:
            # What was fetched above the high watermark is not of the log any more.
            self._pending.clear()
            self._fetched = (self.image.offset, self.image.epoch)
        else:
            for batch in batches_of(found.records or b""):
                if batch.next_offset > self._fetched[0]:
                    self._pending.append(batch)
                    self._fetched = (batch.next_offset, batch.epoch)
        await self._take_in()
        return True

    async def _take_in(self) -> None:
        applied, began = 0, thread_seconds()
        while self._pending and self._pending[0].next_offset <= self._high_watermark:
            self.image.apply_batch(self._pending.pop(0))
            applied += 1
            if thread_seconds() - began > _LONG_SECONDS:
                await asyncio.sleep(0)
                began = thread_seconds()
        if applied:
            for callback in self.on_change:
                callback()
        await self._tell()

    async def _tell(self) -> None:
        async with self._progress:
            self._progress.notify_all()

    async def _load_snapshot(self, connection: Connection, snapshot: Any) -> None:
        """The log begins above what was read: its state before is in a snapshot (KIP-630)."""
        data = bytearray()
        while True:
            answer = await connection.ask(self._snapshot_request(snapshot, len(data)))
            partitions = [one for topic in answer.topics for one in topic.partitions]
            code = answer.error_code.value or (partitions[0].error_code.value if partitions else 1)
            if code:
                raise UnreachableError(connection.address, f"FetchSnapshot: error {code}")
            data += partitions[0].unaligned_records or b""
            if len(data) >= partitions[0].size:
                break
        image = Image()
        for batch in batches_of(bytes(data)):
            image.apply_batch(batch)
        image.offset, image.epoch = int(snapshot.end_offset), int(snapshot.epoch)
        image.features_offset = min(image.features_offset, image.offset)
        image.topics_version = self.image.topics_version + 1
        self.image = image
        self._pending.clear()
        self._fetched = (image.offset, image.epoch)
        logger.info(
            "metadata: a snapshot up to offset %d", image.offset, extra={"event": "metadata"}
        )
        for callback in self.on_change:
            callback()

    def _refused(self, code: int, name: str) -> None:
        """Raises for what asking again does not help."""
        if code in (_NOT_AUTHORIZED, _TOPIC_NOT_AUTHORIZED):
            raise NodeError(
                "the controllers: the principal lacks CLUSTER_ACTION on the cluster: give it that "
                "right, as brokers have it"
            )
        if code == _UNKNOWN_CLUSTER:
            raise NodeError(
                f"the controllers are not of cluster {self._cluster_id}: other ones answer at the "
                "addresses that a broker told; look at `kafka-metadata-quorum describe --status`"
            )
        raise UnreachableError("the controllers", f"Fetch of the metadata log: {name}")

    def _request(self) -> FetchRequest:
        offset, epoch = self._fetched
        return FetchRequest(
            cluster_id=self._cluster_id,
            replica_state=ReplicaState(replica_id=BrokerId(self._node_id)),
            max_wait=i32Timedelta.parse(timedelta(milliseconds=_WAIT_MS)),
            min_bytes=i32(0),
            max_bytes=i32(_MOST_BYTES),
            topics=(
                FetchTopic(
                    topic_id=_TOPIC_ID,
                    partitions=(
                        FetchPartition(
                            partition=i32(0),
                            current_leader_epoch=i32(self._leader_epoch),
                            fetch_offset=i64(offset),
                            last_fetched_epoch=i32(epoch),
                            partition_max_bytes=i32(_MOST_BYTES),
                            replica_directory_id=self._directory_id,
                            high_watermark=i64(self._high_watermark),
                        ),
                    ),
                ),
            ),
            forgotten_topics_data=(),
        )

    def _snapshot_request(self, snapshot: Any, position: int) -> FetchSnapshotRequest:
        return FetchSnapshotRequest(
            cluster_id=self._cluster_id,
            replica_id=BrokerId(self._node_id),
            max_bytes=i32(_MOST_BYTES),
            topics=(
                TopicSnapshot(
                    name=_TOPIC,
                    partitions=(
                        PartitionSnapshot(
                            partition=i32(0),
                            current_leader_epoch=i32(self._leader_epoch),
                            snapshot_id=SnapshotId(
                                end_offset=snapshot.end_offset, epoch=snapshot.epoch
                            ),
                            position=i64(position),
                            replica_directory_id=self._directory_id,
                        ),
                    ),
                ),
            ),
        )
