"""`decode`: the records of `__consumer_offsets` as columns, for rows that Spark's own Kafka source,
or anything else with its columns, has read.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, LongType, StringType

from pykcoord_spark.schemas import INTEGER, TIME, Kinds, require_kinds
from pykcoord_spark.source.schema import DDL

__all__ = ["decode"]

# The columns of Spark's own Kafka source that are needed.
_KINDS: dict[str, Kinds] = {
    "key": (BinaryType, StringType),
    "value": (BinaryType, StringType),
    "partition": INTEGER,
    "offset": INTEGER,
    "timestamp": TIME,
}


def decode(df: DataFrame) -> DataFrame:
    """The columns of the source `consumer_offsets` for a DataFrame, batch or streaming, that has
    `key`, `value`, `partition`, `offset` and `timestamp` (a timestamp, or milliseconds) as Spark's
    source `kafka` gives them for the topic `__consumer_offsets`.

    `producer_id` and `producer_epoch` are null: Kafka does not give them to consumers. A record
    that cannot be decoded fails the task with a LogError that names partition and offset. Raises
    ArgumentError for a column that is missing or of another type.
    """
    require_kinds(df.schema, _KINDS)
    timestamp = F.col("timestamp")
    if not isinstance(df.schema["timestamp"].dataType, LongType):
        timestamp = F.unix_millis(timestamp.cast("timestamp"))
    rows = df.select(
        F.col("partition").cast("int"),
        F.col("offset").cast("bigint"),
        timestamp.alias("timestamp"),
        F.col("key").cast("binary"),
        F.col("value").cast("binary"),
    )
    return rows.mapInArrow(_decoded, DDL)


def _decoded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    from pykcoord_spark.source.rows import rows_of_records
    from pykcoord_spark.tasks import begin_task

    begin_task()
    for batch in batches:
        yield rows_of_records("__consumer_offsets", batch)
