"""A streaming query as a program, to be killed: requests from a folder, answers into another.

    python streaming_job.py WORK SHARDS

WORK/requests holds Parquet files, one a micro-batch. The program ends when all are answered.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pykcoord_spark.schemas import REQUEST, ddl
from pykcoord_spark.streaming import coordinate
from pyspark.sql import SparkSession


def main(work: Path, shards: int) -> None:
    """Runs the query to its end."""
    spark = (
        # Workers may die as often as they like.
        SparkSession.builder.master("local[2,1000]")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.log.level", "OFF")
        # It ends before the better compiler pays.
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.streaming.minBatchesToRetain", "2")
        .getOrCreate()
    )
    requests = (
        spark.readStream.schema(ddl(REQUEST))
        .option("maxFilesPerTrigger", 1)
        .parquet(str(work / "requests"))
    )
    query = (
        coordinate(requests, shards, work / "log", topics={"orders": 4}, snapshot_every=7)
        .writeStream.format("parquet")
        .option("checkpointLocation", str(work / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(work / "answers"))
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
