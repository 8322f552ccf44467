"""`__consumer_offsets` on disk: segments, record batches, recovery, the writer thread.

Knows bytes and files; nothing of groups, of the native core or of the runtime.
"""

from pykcoord.log.directory import LogDirectory
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
    "Cut",
    "Done",
    "Failure",
    "Flush",
    "Log",
    "LogDirectory",
    "LogObserver",
    "LogReader",
    "OnCorruption",
    "Problem",
    "Replica",
    "Report",
    "Snapshots",
    "verify",
]
