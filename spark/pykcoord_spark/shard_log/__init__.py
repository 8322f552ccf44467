"""The log of shards that many machines may try to write, and one at a time can.

`store` is a folder or an object store, `chunk` the form of what lies there, `log` the rules: who
may append, and who is fenced. Nothing here knows Spark or what the records mean.
"""

from pykcoord_spark.shard_log.chunk import Chunk, CorruptChunkError, Snapshot
from pykcoord_spark.shard_log.log import FencedError, ShardLog, open_logs, other_kind
from pykcoord_spark.shard_log.store import FolderStore, ObjectStore, Store, open_store

__all__ = [
    "Chunk",
    "CorruptChunkError",
    "FencedError",
    "FolderStore",
    "ObjectStore",
    "ShardLog",
    "Snapshot",
    "Store",
    "open_logs",
    "open_store",
    "other_kind",
]
