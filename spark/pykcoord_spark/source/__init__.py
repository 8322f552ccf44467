"""The data source `consumer_offsets`: records of `__consumer_offsets` as rows, batch and stream,
from directories and from live clusters; and rows as a new directory.

Spark imports this in every session that asks for an unknown format, so readers and writers are
imported when they are used. No reader may define `pushFilters`: in Spark 4.3.0 a pushed filter
stays with the DataFrame, and later queries on it give wrong results.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pyspark
from pyspark.sql.datasource import DataSource

from pykcoord.errors import ArgumentError
from pykcoord_spark.source.options import Options
from pykcoord_spark.source.schema import DDL, columns_of

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceArrowWriter,
        DataSourceReader,
        DataSourceStreamReader,
    )
    from pyspark.sql.types import StructType

__all__ = ["ConsumerOffsets"]


class ConsumerOffsets(DataSource):
    """One row for each record; the columns are those of `schema.DDL`, or some of them, the options
    those of `Options`."""

    @classmethod
    def name(cls) -> str:
        return "consumer_offsets"

    def schema(self) -> str:
        return DDL

    def reader(self, schema: StructType) -> DataSourceReader:
        options = _asked(Options.parse(self.options), schema)
        if options.is_live:
            from pykcoord_spark.source.cluster import ClusterReader

            return ClusterReader(options)
        from pykcoord_spark.source.directory import DirectoryReader

        return DirectoryReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Raises ArgumentError for PySpark 4.1, whose streams know no limits of micro-batches."""
        options = _asked(Options.parse(self.options, streaming=True), schema)
        try:
            from pykcoord_spark.source.stream import ClusterStream, DirectoryStream
        except ModuleNotFoundError as error:
            if error.name != "pyspark.sql.streaming.datasource":
                raise
            found = f"this is {pyspark.__version__}; spark.read works here"
            raise ArgumentError("readStream", f"needs PySpark 4.2 or newer, {found}") from None

        return ClusterStream(options) if options.is_live else DirectoryStream(options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from pykcoord_spark.source.writer import DirectoryWriter

        return DirectoryWriter(Options.parse(self.options, writing=True), schema, overwrite)


def _asked(options: Options, schema: StructType) -> Options:
    return dataclasses.replace(options, columns=columns_of(schema))
