"""Makes `spark.read.format("consumer_offsets")` work without registration: Spark looks for a
`DefaultSource` in every package named `pyspark_*`. Must stay this small: every session imports it.
"""

from pykcoord_spark.source import ConsumerOffsets


class DefaultSource(ConsumerOffsets):
    """`consumer_offsets`."""


__all__ = ["DefaultSource"]
