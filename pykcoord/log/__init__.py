"""`__consumer_offsets` on disk: segments, record batches, recovery, the writer thread.

Knows bytes and files; nothing of groups, of the native core or of the runtime.
"""

from pykcoord.log.compaction import Cleaned, Compaction, NewCleaner, RecordCleaner
from pykcoord.log.directory import LogDirectory, partitions_of
from pykcoord.log.protocol import (
    Append,
    Cut,
    Done,
    Failure,
    Flush,
    Log,
    LogObserver,
    OnCorruption,
    Replica,
)
from pykcoord.log.reader import LogReader
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
    "Log",
    "LogDirectory",
    "LogObserver",
    "LogReader",
    "NewCleaner",
    "OnCorruption",
    "Problem",
    "RecordCleaner",
    "Replica",
    "Report",
    "Snapshots",
    "partitions_of",
    "verify",
]
