"""Batches of one topic from one broker, verbatim, by long poll, in a fetch session (KIP-227): only
what changed of a request is sent, and only partitions with news are answered.

What a position was reached with (the epoch of the last batch) goes with it, so that a leader whose
log is another one from there on says so (KIP-595's diverging epoch) instead of going on.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, NamedTuple

import kio.schema.fetch.v13.request as version_13
from kio.static.primitive import i32, i32Timedelta, i64

from pykcoord.kafka.connection import Connection
from pykcoord.kafka.errors import ClusterError

__all__ = ["Fetched", "Fetcher", "Position"]

# Of a frame beside the records: positions of all partitions.
_ENVELOPE_BYTES = 16 << 20
# A batch is as large as `message.max.bytes` of the topic; the first one comes whole, whatever the
# bound of the request is.
_LARGEST_BATCH_BYTES = 112 << 20
_SESSION_ERRORS = frozenset({70, 71, 106})
_ANSWER_SECONDS = 30.0


class Position(NamedTuple):
    """Where to read on: the `offset`, the epoch of the batch before it (`last_epoch`, -1: none),
    and the `leader_epoch` under which the partition is read (-1: any)."""

    offset: int
    last_epoch: int
    leader_epoch: int


class Fetched(NamedTuple):
    """What an answer says of a partition: `high_watermark` and `log_start_offset` (-1: not told),
    and `records`, batches as they are. `error` is Kafka's code; `diverging` is (epoch, end
    offset) where the leader's log is another one than what was read, else None."""

    partition: int
    error: int
    high_watermark: int
    log_start_offset: int
    diverging: tuple[int, int] | None
    records: bytes


class Fetcher:
    """Over one connection, for one topic."""

    messages: Any = version_13
    """The module of the version of Fetch that is asked."""

    def __init__(
        self, connection: Connection, topic_id: uuid.UUID, most_bytes: int, most_wait_ms: int
    ) -> None:
        self.connection = connection
        self._topic_id = topic_id
        self._most_bytes = most_bytes
        self._most_wait_ms = most_wait_ms
        self._session_id = 0
        self._epoch = 0
        self._sent: dict[int, Position] = {}

    async def fetch(self, positions: Mapping[int, Position]) -> list[Fetched]:
        """Asks for these partitions, and waits until one has news or time is up. Partitions that
        are not in the answer have none. Raises ClusterError."""
        request = self._request(positions)
        answer = await self.connection.ask(
            request,
            seconds=self._most_wait_ms / 1000 + _ANSWER_SECONDS,
            most_bytes=max(self._most_bytes, _LARGEST_BATCH_BYTES) + _ENVELOPE_BYTES,
        )
        code = answer.error_code.value
        if code in _SESSION_ERRORS:
            self._session_id, self._epoch, self._sent = 0, 0, {}
            return []
        if code:
            raise ClusterError(self.connection.address, f"Fetch: {answer.error_code.name}")
        self._session_id = int(answer.session_id)
        if self._session_id:
            self._epoch = self._epoch % 0x7FFF_FFFF + 1
            self._sent = dict(positions)
        else:  # the broker has no session to give
            self._epoch, self._sent = 0, {}
        return [
            _fetched(partition)
            for topic in answer.responses
            if topic.topic_id == self._topic_id
            for partition in topic.partitions
        ]

    def _request(self, positions: Mapping[int, Position]) -> Any:
        changed = [item for item in positions.items() if self._sent.get(item[0]) != item[1]]
        forgotten = self._sent.keys() - positions.keys()
        return self.messages.FetchRequest(
            **self._asking(),
            max_wait=i32Timedelta.parse(timedelta(milliseconds=self._most_wait_ms)),
            min_bytes=i32(1),
            max_bytes=i32(self._most_bytes),
            session_id=i32(self._session_id),
            session_epoch=i32(self._epoch),
            topics=(
                self.messages.FetchTopic(
                    topic_id=self._topic_id,
                    partitions=tuple(self._partition(*item) for item in changed),
                ),
            )
            if changed
            else (),
            forgotten_topics_data=(
                self.messages.ForgottenTopic(
                    topic_id=self._topic_id,
                    partitions=tuple(i32(number) for number in sorted(forgotten)),
                ),
            )
            if forgotten
            else (),
        )

    def _partition(self, number: int, position: Position) -> Any:
        return self.messages.FetchPartition(
            partition=i32(number),
            current_leader_epoch=i32(position.leader_epoch),
            fetch_offset=i64(position.offset),
            last_fetched_epoch=i32(position.last_epoch),
            partition_max_bytes=i32(self._most_bytes),
            **self._asking_of(number),
        )

    def _asking(self) -> dict[str, Any]:
        """Further fields of a request: who asks."""
        return {}

    def _asking_of(self, number: int) -> dict[str, Any]:
        """Further fields of one of its partitions."""
        return {}


def _fetched(partition: Any) -> Fetched:
    diverging = partition.diverging_epoch
    return Fetched(
        int(partition.partition_index),
        partition.error_code.value,
        int(partition.high_watermark),
        int(partition.log_start_offset),
        (int(diverging.epoch), int(diverging.end_offset)) if diverging.end_offset >= 0 else None,
        partition.records or b"",
    )
