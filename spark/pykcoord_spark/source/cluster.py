"""`__consumer_offsets` of a live cluster, through confluent-kafka in the tasks: one for each
partition.

Reads what is committed (librdkafka's `isolation.level` is `read_committed`): commits of
transactions that were aborted are left out, and nothing is read behind the first that is open yet.
Never joins a group and never commits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from pykcoord.errors import ArgumentError, LogError
from pykcoord_spark.source.options import Options
from pykcoord_spark.source.rows import rows_of_records
from pykcoord_spark.tasks import begin_task

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

__all__ = ["ClusterReader", "Slice", "offsets_of", "read_cluster"]

_TOPIC = "__consumer_offsets"
_BATCH_ROWS = 10_000
_REQUEST_TIMEOUT_S = 30.0
_SILENCE_S = 60.0
_OWN_SERVER = (
    "pykcoord's own server does not serve Fetch: read its directory, with load(DIR); Kafka creates "
    "the topic with the first group"
)
# Options that the source fixes; the others are the caller's.
_FIXED = {
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
}
_DEFAULTS = {
    "group.id": "pykcoord-spark",  # never joined; librdkafka wants one
    "client.id": "pykcoord-spark",
    "isolation.level": "read_committed",
}


@dataclass
class Slice(InputPartition):
    """The offsets from `start` to before `end` of a partition."""

    number: int
    start: int
    end: int


class ClusterReader(DataSourceReader):
    def __init__(self, options: Options) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """Raises LogError if the cluster is not reached, or has no such topic."""
        return [
            Slice(number, start, end)
            for number, (start, end) in offsets_of(self._options).items()
            if end > start
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Raises LogError if the records do not come."""
        if isinstance(partition, Slice):
            yield from read_cluster(self._options, partition)


def offsets_of(options: Options) -> dict[int, tuple[int, int]]:
    """First offset and end of the partitions that the options choose, as their isolation sees
    them. Raises LogError and ArgumentError."""
    confluent_kafka = _confluent_kafka()
    settings = {"client.id": _DEFAULTS["client.id"], **options.kafka}
    for consumers_only in ("group.id", "isolation.level"):
        settings.pop(consumers_only, None)
    servers = options.kafka["bootstrap.servers"]
    try:
        admin = confluent_kafka.admin.AdminClient(settings)
        topic = admin.list_topics(_TOPIC, timeout=_REQUEST_TIMEOUT_S).topics[_TOPIC]
        if topic.error is not None or not topic.partitions:
            raise LogError(f"{servers}: no topic {_TOPIC} there; {_OWN_SERVER}")
        missing = sorted((options.partitions or frozenset()) - topic.partitions.keys())
        if missing:
            raise ArgumentError("option partitions", f"{_TOPIC} has no partition {missing[0]}")
        numbers = [number for number in sorted(topic.partitions) if options.wants(number)]
        earliest = _listed(admin, numbers, options, confluent_kafka.admin.OffsetSpec.earliest())
        latest = _listed(admin, numbers, options, confluent_kafka.admin.OffsetSpec.latest())
    except confluent_kafka.KafkaException as error:
        raise LogError(f"{servers}: {_said(error)}") from None
    return {number: (earliest[number], latest[number]) for number in numbers}


def read_cluster(options: Options, part: Slice) -> Iterator[pa.RecordBatch]:
    """The records of a slice. Raises LogError if they do not come."""
    confluent_kafka = _confluent_kafka()
    begin_task()
    where = f"{options.kafka['bootstrap.servers']}: {_TOPIC}-{part.number}"
    try:
        consumer = confluent_kafka.Consumer({**_DEFAULTS, **options.kafka, **_FIXED})
        try:
            start = confluent_kafka.TopicPartition(_TOPIC, part.number, part.start)
            consumer.assign([start])
            for messages in _messages(consumer, part, where):
                yield rows_of_records(where, _rows(part.number, messages), options)
        finally:
            consumer.close()
    except confluent_kafka.KafkaException as error:
        raise LogError(f"{where}: {_said(error)}") from None


def _messages(consumer: Consumer, part: Slice, where: str) -> Iterator[list[Message]]:
    """Until the slice's end is passed, or is found to be the partition's."""
    eof = _confluent_kafka().KafkaError._PARTITION_EOF
    next_offset, ended, silent_s = part.start, False, 0.0
    while not ended and next_offset < part.end:
        arrived = consumer.consume(_BATCH_ROWS, timeout=1.0)
        silent_s = 0.0 if arrived else silent_s + 1.0
        if silent_s >= _SILENCE_S:
            raise LogError(f"{where}: nothing came for {_SILENCE_S:.0f} s at offset {next_offset}")
        records = []
        for message in arrived:
            error = message.error()
            if error is None:
                next_offset = (message.offset() or 0) + 1
                if next_offset <= part.end:
                    records.append(message)
            elif error.code() == eof:
                # What is left before the end are markers, or was compacted away.
                ended = True
            else:
                raise LogError(f"{where}: offset {next_offset}: {error.str()}")
        if records:
            yield records


def _rows(number: int, messages: list[Message]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [
            pa.array([number] * len(messages), pa.int32()),
            pa.array([message.offset() for message in messages], pa.int64()),
            pa.array([message.timestamp()[1] for message in messages], pa.int64()),
            pa.array([message.key() for message in messages], pa.binary()),
            pa.array([message.value() for message in messages], pa.binary()),
        ],
        names=["partition", "offset", "timestamp", "key", "value"],
    )


def _listed(admin: Any, numbers: list[int], options: Options, of: Any) -> Mapping[int, int]:
    confluent_kafka = _confluent_kafka()
    wanted = {confluent_kafka.TopicPartition(_TOPIC, number): of for number in numbers}
    committed = options.kafka.get("isolation.level", "read_committed") == "read_committed"
    level = confluent_kafka.IsolationLevel
    futures = admin.list_offsets(
        wanted,
        isolation_level=level.READ_COMMITTED if committed else level.READ_UNCOMMITTED,
        request_timeout=_REQUEST_TIMEOUT_S,
    )
    return {part.partition: future.result().offset for part, future in futures.items()}


def _said(error: Exception) -> str:
    found = error.args[0] if error.args else error
    return found.str() if hasattr(found, "str") else str(found)


def _confluent_kafka() -> Any:
    try:
        import confluent_kafka
        import confluent_kafka.admin
    except ImportError:
        raise LogError(
            "a live cluster is read through confluent-kafka, which is not installed where this "
            "runs: pip install 'pykcoord-spark[kafka]'"
        ) from None
    return confluent_kafka
