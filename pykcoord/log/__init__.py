"""`__consumer_offsets` on disk: segments, record batches, recovery, the writer thread.

Knows bytes and files; nothing of groups, of the native core or of the runtime.
"""

from pykcoord.log._record_batch import reframe
from pykcoord.log.checkpoint import Properties, decoded_id
from pykcoord.log.compaction import Cleaned, Compaction, NewCleaner, RecordCleaner
from pykcoord.log.directory import LogDirectory
from pykcoord.log.folders import partition_directories, partitions_of
from pykcoord.log.holding import Holding, Part
from pykcoord.log.past import Past
from pykcoord.log.protocol import (
    Append,
    Cut,
    Done,
    Failure,
    Flush,
    Loader,
    Log,
    LogObserver,
    OnCorruption,
    ShardLostError,
    ShardReleasedError,
    Taken,
    WatchedLog,
)
from pykcoord.log.reader import LogReader, segment_files
from pykcoord.log.segment import segment_name
from pykcoord.log.slices import PartitionEnds, read_slice
from pykcoord.log.snapshotter import Snapshots
from pykcoord.log.verify import Problem, Report, verify

__all__ = [
    "Append",
    "Cleaned",
    "Compaction",
    "Cut",
    "Done",
    "Failure",
    "Flush",
    "Holding",
    "Loader",
    "Log",
    "LogDirectory",
    "LogObserver",
    "LogReader",
    "NewCleaner",
    "OnCorruption",
    "Part",
    "PartitionEnds",
    "Past",
    "Problem",
    "Properties",
    "RecordCleaner",
    "Report",
    "ShardLostError",
    "ShardReleasedError",
    "Snapshots",
    "Taken",
    "WatchedLog",
    "decoded_id",
    "partition_directories",
    "partitions_of",
    "read_slice",
    "reframe",
    "segment_files",
    "segment_name",
    "verify",
]
