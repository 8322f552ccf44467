"""Fetch (1): a long poll on partitions that hold no records, but for those of group events.

A fetch at any offset waits for its max_wait_ms and comes back empty. It is never
OFFSET_OUT_OF_RANGE (but for negative offsets): a consumer that resumes at a committed offset
must stay there, and the high watermark it sees is at least its position. Sessions (KIP-227) are
not kept: session id 0 makes every client send whole requests.
"""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Generator, Iterator
from itertools import islice
from typing import Any

from kio.schema.errors import ErrorCode

from pykcoord.catalogue import Topic
from pykcoord.server._seen import Seen
from pykcoord.server.api.events_topic import read_question
from pykcoord.server.api.messages import NONE, PAUSE, SLICE_ELEMENTS, Fields
from pykcoord.server.api.node_api import Cluster, NodeApi
from pykcoord.session import Session

KEY = 1
_MILLISECOND = datetime.timedelta(milliseconds=1)
_UNKNOWN = -1
# Zero length, not null: librdkafka calls null "invalid MessageSetSize -1" (pitfall 9).
_NO_RECORDS = b""
# Topics of a request among which that of events is looked for, where these are far away.
_MOST_ASKED = 1_000
# Records in one answer, whatever the client has room for: all of it may take 32 MiB.
_MOST_RECORDS_BYTES = 16 << 20


def _answer(request: Any, version: int, cluster: Cluster, session: Session) -> Fields:
    if getattr(request, "session_id", 0) != 0:
        return {
            "error_code": ErrorCode.fetch_session_id_not_found,
            "session_id": 0,
            "responses": [],
        }
    return {
        "error_code": NONE,
        "session_id": 0,
        "responses": _Responses(request, version, cluster),
    }


class _Responses:
    """The topics of the answer, made while it is written; `may_wait` is known then."""

    def __init__(self, request: Any, version: int, cluster: Cluster) -> None:
        self._asked = request.topics
        self._version = version
        self._cluster = cluster
        self._topics, self._answered = Seen(len(self._asked)), Seen()
        self._left_bytes = min(request.max_bytes, _MOST_RECORDS_BYTES)
        self._has_partitions = self._has_errors = self._has_records = False
        self.is_repeatable = True

    @property
    def may_wait(self) -> bool:
        """Whether Kafka would wait for records: not where nothing is asked for, or on any error."""
        return self._has_partitions and not self._has_errors and not self._has_records

    def __len__(self) -> int:
        return len(self._asked)

    def __iter__(self) -> Iterator[Fields]:
        cluster = self._cluster
        for asked in self._asked:
            topic: Topic | None
            if self._version >= 13:
                identity = {"topic_id": asked.topic_id}
                name = asked.topic_id.bytes if asked.topic_id is not None else None
                topic = cluster.topic_by_id(asked.topic_id)
                absent = ErrorCode.unknown_topic_id
            else:
                identity = {"topic": asked.topic}
                name = asked.topic
                topic = cluster.topic(asked.topic)
                absent = ErrorCode.unknown_topic_or_partition
            number = self._topics.place(name)
            yield {**identity, "partitions": self._partitions(topic, absent, asked, number)}

    def _partitions(
        self, topic: Topic | None, absent: ErrorCode, asked: Any, number: int
    ) -> Iterator[Fields]:
        """Each once, as Kafka: a short request must not be able to ask for a huge answer."""
        for partition in asked.partitions:
            if not self._answered.add(None, (number << 32) + partition.partition):
                yield PAUSE
                continue
            fields = self._fields(topic, absent, partition)
            self._has_partitions = True
            self._has_errors |= fields["error_code"] is not NONE
            yield fields

    def _fields(self, topic: Topic | None, absent: ErrorCode, asked: Any) -> Fields:
        """Of one partition. An answer of the topic of events may be another the next time."""
        fields = _partition(topic, absent, asked)
        events = self._cluster.events_of(topic)
        if events is None or fields["error_code"] is not NONE:
            return fields
        self.is_repeatable = False
        if self._left_bytes <= 0 and self._has_records:
            return fields  # when the client comes for more
        found = events.read(asked.partition, asked.fetch_offset, asked.partition_max_bytes)
        if found is None:
            return fields  # not now: nothing is known of its ends
        start, end, records = found
        self._left_bytes -= len(records)
        self._has_records |= bool(records)
        if not start <= asked.fetch_offset <= end:
            return {**fields, "error_code": ErrorCode.offset_out_of_range}
        ends = {"high_watermark": end, "last_stable_offset": end, "log_start_offset": start}
        return {**fields, **ends, "records": records}


def _partition(topic: Topic | None, absent: ErrorCode, asked: Any) -> Fields:
    end_offset = log_start_offset = _UNKNOWN
    if topic is None:
        error = absent
    elif not 0 <= asked.partition < topic.partitions:
        error = ErrorCode.unknown_topic_or_partition
    elif asked.fetch_offset < 0:
        error = ErrorCode.offset_out_of_range
    else:
        error = NONE
        end_offset = max(topic.end_offset(asked.partition), asked.fetch_offset)
        log_start_offset = 0
    return {
        "partition_index": asked.partition,
        "error_code": error,
        "high_watermark": end_offset,
        "last_stable_offset": end_offset,
        "log_start_offset": log_start_offset,
        "aborted_transactions": None,
        "preferred_read_replica": -1,
        "records": _NO_RECORDS,
    }


def _wait_ms(request: Any, fields: Fields) -> int:
    """0 where Kafka answers at once: nothing asked for, any error, or no wait wanted."""
    responses = fields["responses"]
    if request.min_bytes <= 0 or not responses or not responses.may_wait:
        return 0
    return max(0, int(request.max_wait / _MILLISECOND))


def is_repeatable(fields: Fields) -> bool:
    """Whether the same Fetch has the same answer as long as the cluster stays as it is."""
    responses = fields["responses"]
    return isinstance(responses, list) or responses.is_repeatable


def _asks(request: Any, cluster: Cluster) -> Generator[None, None, asyncio.Future[Any] | None]:
    """Events of groups, where these are far away."""
    events = cluster.events
    if events is None or not events.is_far or getattr(request, "session_id", 0) != 0:
        return None
    questions = []
    for number, topic in enumerate(islice(request.topics, _MOST_ASKED), 1):
        name, topic_id = getattr(topic, "topic", None), getattr(topic, "topic_id", None)
        if events.is_asked(name, topic_id):
            questions += [
                read_question(one.partition, one.fetch_offset, one.partition_max_bytes)
                for one in islice(topic.partitions, events.topic.partitions)
                if 0 <= one.partition < events.topic.partitions and one.fetch_offset >= 0
            ]
        if number % SLICE_ELEMENTS == 0:
            yield
    return events.ask(questions[: events.topic.partitions])


API = NodeApi(KEY, "Fetch", 4, 18, _answer, wait_ms=_wait_ms, asks=_asks)
