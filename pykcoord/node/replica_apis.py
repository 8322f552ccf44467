"""What a leader answers of its log: Fetch of consumers, ListOffsets, OffsetForLeaderEpoch and
DescribeProducers of the partitions that this node leads; NOT_LEADER_OR_FOLLOWER for all others.
Fetch of followers is answered by `follower_fetches`. And the topic of group events, as far as it
is kept here.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.types import ProducerId
from kio.static.primitive import i32, i64

from pykcoord.clock import Clock, monotonic_seconds
from pykcoord.log._record_batch import header
from pykcoord.log.folders import TOPIC
from pykcoord.node.follower_fetches import epoch_error, most_bytes_of
from pykcoord.node.image import Image
from pykcoord.node.messages import NO_THROTTLE, nested_of
from pykcoord.node.store import Led, NodeLog
from pykcoord.server.api.events_topic import EventsTopic

__all__ = ["ReplicaApis"]

_NOT_LEADER = ErrorCode.not_leader_or_follower
_NO_LEADER, _NOT_YET = ErrorCode.leader_not_available, ErrorCode.offset_not_available
# From this version of ListOffsets on OFFSET_NOT_AVAILABLE is known.
_NOT_YET_VERSION = 5
_READ_COMMITTED = 1
# A follower asks.
_NO_ISOLATION = -1
_EARLIEST, _LATEST = -2, -1


class ReplicaApis:
    """`image()` is what the metadata log says now. `moved(numbers)` says that the high
    watermarks of partitions have moved. `events`: what is kept of groups, None where that is
    nothing."""

    def __init__(
        self,
        log: NodeLog,
        topic_id: uuid.UUID,
        image: Callable[[], Image],
        events: EventsTopic | None = None,
    ) -> None:
        self.fetched_bytes = 0
        self._log = log
        self._topic_id = topic_id
        self._image = image
        self._waiters: dict[asyncio.Future[None], set[int]] = {}
        self._events = events

    def moved(self, numbers: list[int]) -> None:
        """There is more to fetch."""
        for waiter, wanted in self._waiters.items():
            if not (wanted.isdisjoint(numbers) or waiter.done()):
                waiter.set_result(None)

    async def fetch(self, request: Any, response: Any, version: int) -> Any:
        """The answer to a consumer's Fetch, of the class `response`: at once where there are
        records or errors, else when there are, or when the time that the client gave is over.
        Consumers have no sessions here. Raises ValueError for a follower's."""
        if version < 15 and int(request.replica_id) >= 0:
            raise ValueError(f"followers ask with version 15 or newer, not {version}")
        asked = [(topic, one) for topic in request.topics for one in topic.partitions]
        deadline = monotonic_seconds() + request.max_wait.total_seconds()
        while True:
            found, size, has_error = self._read(request, asked, version)
            left = deadline - monotonic_seconds()
            if has_error or size >= request.min_bytes or left <= 0:
                break
            numbers = {int(one.partition) for topic, one in asked if self._is_ours(topic, version)}
            if not await self._wait(numbers, left):
                found, size, _ = self._read(request, asked, version)
                break
        self.fetched_bytes += size
        answered = list(zip(asked, found, strict=True))
        return self._fetch_answer(response, answered, version)

    def _read(
        self, request: Any, asked: list[tuple[Any, Any]], version: int
    ) -> tuple[list[dict[str, Any]], int, bool]:
        left, size, has_error = most_bytes_of(int(request.max_bytes)), 0, False
        found: list[dict[str, Any]] = []
        for topic, partition in asked:
            fields: dict[str, Any]
            most = min(left, int(partition.partition_max_bytes))
            if (events := self._events_of(topic)) is not None:
                fields = _events_fields(events, partition, most)
            elif not self._is_ours(topic, version):
                is_known = version < 13 or topic.topic_id in self._image().names
                code = _NOT_LEADER if is_known else ErrorCode.unknown_topic_id
                fields = {"error_code": code}
            else:
                fields = self._read_one(partition, most, int(request.isolation_level))
            records = fields.get("records") or b""
            size, left = size + len(records), max(left - len(records), 0)
            has_error |= fields["error_code"] is not ErrorCode.none or "diverging" in fields
            found.append(fields)
        return found, size, has_error

    def _read_one(self, asked: Any, most_bytes: int, isolation: int) -> dict[str, Any]:
        led = self._log.led.get(int(asked.partition))
        code = ErrorCode(epoch_error(led, int(asked.current_leader_epoch)))
        if code is not ErrorCode.none or led is None:
            return {"error_code": code}
        offset, last_epoch = int(asked.fetch_offset), int(getattr(asked, "last_fetched_epoch", -1))
        log, partition = led.log, led.partition
        fields: dict[str, Any] = {
            "error_code": ErrorCode.none,
            "high_watermark": partition.high_watermark,
            "log_start_offset": log.start_offset,
            "last_stable_offset": led.stable,
        }
        if last_epoch >= 0:
            at, end = log.end_of_epoch(last_epoch)
            if at < 0:
                return {**fields, "error_code": ErrorCode.offset_out_of_range}
            if at < last_epoch or end < offset:
                return {**fields, "diverging": (at, end)}
        upper = partition.high_watermark
        # A leader before this one may have told of more: it is there, and comes (KIP-207).
        if not log.start_offset <= offset <= partition.end:
            return {**fields, "error_code": ErrorCode.offset_out_of_range}
        if isolation == _READ_COMMITTED:
            if led.producers is None:
                return {"error_code": _NOT_LEADER}  # its log is being read
            upper = led.stable
            fields["aborted"] = led.producers.aborted(offset, upper)
        if offset < upper and most_bytes > 0:
            fields["records"] = _below(self._log.read(led, offset, most_bytes), upper)
        return fields

    async def _wait(self, numbers: set[int], seconds: float) -> bool:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters[waiter] = numbers
        try:
            await asyncio.wait_for(waiter, seconds)
        except TimeoutError:
            return False
        finally:
            del self._waiters[waiter]
        return True

    def _is_ours(self, topic: Any, version: int) -> bool:
        topic_id = getattr(topic, "topic_id", None)
        if topic_id is not None:
            return bool(topic_id == self._topic_id)
        return _name_of(topic) == TOPIC

    def _events_of(self, topic: Any) -> EventsTopic | None:
        """The topic of group events, where that is asked for."""
        topic_id, name = getattr(topic, "topic_id", None), _name_of(topic)
        events = self._events
        return events if events is not None and events.is_asked(name, topic_id) else None

    def _fetch_answer(
        self,
        response: Any,
        answered: list[tuple[tuple[Any, Any], dict[str, Any]]],
        version: int,
    ) -> Any:
        of_topic = nested_of(response, "responses")
        of_partition = nested_of(of_topic, "partitions")
        topics: dict[Any, tuple[Any, list[Any]]] = {}
        for (topic, partition), fields in answered:
            more: dict[str, Any] = {}
            if "diverging" in fields:
                kind = nested_of(of_partition, "diverging_epoch")
                epoch, end = fields["diverging"]
                more["diverging_epoch"] = kind(epoch=i32(epoch), end_offset=i64(end))
            if version >= 12 and fields["error_code"] is not ErrorCode.none:
                more |= self._current_leader(of_partition, int(partition.partition), topic, version)
            made = of_partition(
                partition_index=partition.partition,
                error_code=fields["error_code"],
                high_watermark=i64(fields.get("high_watermark", -1)),
                last_stable_offset=i64(fields.get("last_stable_offset", -1)),
                **({"log_start_offset": i64(fields.get("log_start_offset", -1))}
                   if version >= 5 else {}),
                aborted_transactions=_aborted(of_partition, fields),
                records=fields.get("records") or b"",
                **more,
            )  # fmt: skip
            name = topic.topic_id if version >= 13 else topic.topic
            topics.setdefault(name, (topic, []))[1].append(made)
        return response(
            throttle_time=NO_THROTTLE,
            **({"error_code": ErrorCode.none} if version >= 7 else {}),
            responses=tuple(
                of_topic(
                    **({"topic_id": topic.topic_id} if version >= 13 else {"topic": topic.topic}),
                    partitions=tuple(parts),
                )
                for topic, parts in topics.values()
            ),
        )

    def _current_leader(
        self, of_partition: Any, number: int, topic: Any, version: int
    ) -> dict[str, Any]:
        name = TOPIC if self._is_ours(topic, version) else None
        if name is None and version >= 13:
            name = self._image().names.get(topic.topic_id)
        known = self._image().of(name).get(number) if name is not None else None
        if known is None:
            return {}
        kind = nested_of(of_partition, "current_leader")
        return {
            "current_leader": kind(
                leader_id=i32(known.leader), leader_epoch=i32(known.leader_epoch)
            )
        }

    def list_offsets(self, request: Any, response: Any, version: int) -> Any:
        """Beginning and high watermark of what is led here; a follower is told its end. Times are
        not looked up: -1."""
        of_topic = nested_of(response, "topics")
        of_partition = nested_of(of_topic, "partitions")

        isolation = int(getattr(request, "isolation_level", 0))
        if int(request.replica_id) >= 0:
            isolation = _NO_ISOLATION

        def answered(topic: Any, one: Any) -> Any:
            if (events := self._events_of(topic)) is not None:
                return of_partition(**_events_offset(events, one))
            led = self._log.led.get(int(one.partition_index)) if topic.name == TOPIC else None
            code = ErrorCode(epoch_error(led, int(getattr(one, "current_leader_epoch", -1))))
            fields: dict[str, Any] = {"offset": i64(-1)}
            if led is not None and not code.value and _is_too_early(led, one.timestamp, isolation):
                code = _NOT_YET if version >= _NOT_YET_VERSION else _NO_LEADER
            if code is ErrorCode.none and led is not None:
                offset, epoch = self._offset_of(led, one.timestamp, isolation)
                fields["offset"] = i64(offset)
                if version >= 4:
                    fields["leader_epoch"] = i32(epoch)
            return of_partition(partition_index=one.partition_index, error_code=code, **fields)

        fields: dict[str, Any] = {
            "topics": tuple(
                of_topic(
                    name=topic.name,
                    partitions=tuple(answered(topic, one) for one in topic.partitions),
                )
                for topic in request.topics
            )
        }
        if version >= 2:
            fields["throttle_time"] = NO_THROTTLE
        return response(**fields)

    def _offset_of(self, led: Led, timestamp: int, isolation: int) -> tuple[int, int]:
        if timestamp == _EARLIEST:
            return led.log.start_offset, -1
        if timestamp == _LATEST and isolation == _NO_ISOLATION:
            return led.partition.end, led.partition.leader_epoch
        if timestamp == _LATEST:
            stable = led.stable if isolation == _READ_COMMITTED else led.partition.high_watermark
            return stable, led.partition.leader_epoch
        return -1, -1

    def offset_for_leader_epoch(self, request: Any, response: Any) -> Any:
        """Where a leader epoch ends."""
        of_topic = nested_of(response, "topics")
        of_partition = nested_of(of_topic, "partitions")

        def answered(topic: Any, one: Any) -> Any:
            led = self._log.led.get(int(one.partition)) if topic.topic == TOPIC else None
            code = ErrorCode(epoch_error(led, int(one.current_leader_epoch)))
            epoch, end = -1, -1
            if code is ErrorCode.none and led is not None:
                epoch, end = led.log.end_of_epoch(int(one.leader_epoch))
            return of_partition(
                error_code=code, partition=one.partition, leader_epoch=i32(epoch),
                end_offset=i64(end),
            )  # fmt: skip

        return response(
            throttle_time=NO_THROTTLE,
            topics=tuple(
                of_topic(
                    topic=topic.topic,
                    partitions=tuple(answered(topic, one) for one in topic.partitions),
                )
                for topic in request.topics
            ),
        )

    def describe_producers(self, request: Any, response: Any) -> Any:
        """Who wrote in transactions to what is led here."""
        of_topic = nested_of(response, "topics")
        of_partition = nested_of(of_topic, "partitions")
        of_producer = nested_of(of_partition, "active_producers")
        now_ms = Clock().now_ms()

        def answered(topic: Any, number: int) -> Any:
            led = self._log.led.get(number) if topic.name == TOPIC else None
            if led is None or led.producers is None:
                is_known = number in self._image().of(topic.name)
                code = _NOT_LEADER if is_known else ErrorCode.unknown_topic_or_partition
                return of_partition(
                    partition_index=i32(number), error_code=code, active_producers=()
                )
            return of_partition(
                partition_index=i32(number),
                error_code=ErrorCode.none,
                active_producers=tuple(
                    of_producer(
                        producer_id=ProducerId(producer_id),
                        producer_epoch=i32(one.epoch),
                        last_sequence=i32(one.last_sequence),
                        last_timestamp=i64(one.last_timestamp),
                        coordinator_epoch=i32(one.coordinator_epoch),
                        current_txn_start_offset=i64(one.open_since),
                    )
                    for producer_id, one in led.producers.active(now_ms).items()
                ),
            )

        return response(
            throttle_time=NO_THROTTLE,
            topics=tuple(
                of_topic(
                    name=topic.name,
                    partitions=tuple(answered(topic, int(one)) for one in topic.partition_indexes),
                )
                for topic in request.topics
            ),
        )


def _is_too_early(led: Led, timestamp: int, isolation: int) -> bool:
    """Whether a consumer asks for the end while the high watermark may be below that of the leader
    before, which was told (KIP-207)."""
    is_known = led.partition.high_watermark >= led.partition.start
    return timestamp == _LATEST and isolation != _NO_ISOLATION and not is_known


def _name_of(topic: Any) -> str | None:
    """Of a topic in a request; None where it is named by its id."""
    name: str | None = getattr(topic, "topic", getattr(topic, "name", None))
    return name


def _events_fields(events: EventsTopic, asked: Any, most_bytes: int) -> dict[str, Any]:
    """The answer to Fetch of a partition of group events."""
    number, offset = int(asked.partition), int(asked.fetch_offset)
    if number not in range(events.topic.partitions):
        return {"error_code": ErrorCode.unknown_topic_or_partition}
    found = events.read(number, offset, most_bytes)
    if found is None or not found.start_offset <= offset <= found.end_offset:
        return {"error_code": ErrorCode.offset_out_of_range}
    return {
        "error_code": ErrorCode.none,
        "high_watermark": found.end_offset,
        "last_stable_offset": found.end_offset,
        "log_start_offset": found.start_offset,
        "records": found.records if most_bytes > 0 else b"",
    }


def _events_offset(events: EventsTopic, asked: Any) -> dict[str, Any]:
    """The answer to ListOffsets of a partition of group events."""
    number, timestamp = int(asked.partition_index), int(asked.timestamp)
    fields: dict[str, Any] = {"partition_index": asked.partition_index, "offset": i64(-1)}
    if number not in range(events.topic.partitions):
        return {**fields, "error_code": ErrorCode.unknown_topic_or_partition}
    start, end = events.ends(number)
    if timestamp in (_EARLIEST, _LATEST):
        fields["offset"] = i64(start if timestamp == _EARLIEST else end)
    elif timestamp >= 0:
        offset, at_ms = events.offset_at(number, timestamp)
        fields |= {"offset": i64(offset), "timestamp": i64(at_ms)}
    return {**fields, "error_code": ErrorCode.none}


def _aborted(of_partition: Any, fields: dict[str, Any]) -> tuple[Any, ...] | None:
    if "aborted" not in fields:
        return None
    kind = nested_of(of_partition, "aborted_transactions")
    return tuple(
        kind(producer_id=ProducerId(producer), first_offset=i64(first))
        for producer, first in fields["aborted"]
    )


def _below(data: bytes, offset: int) -> bytes:
    """The whole batches that end at or below `offset`."""
    at = 0
    while at + 61 <= len(data):
        batch = header(data, at)
        if batch.base_offset + batch.last_offset_delta >= offset:
            break
        at += batch.size
    return data[:at]
