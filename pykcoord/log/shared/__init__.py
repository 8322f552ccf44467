"""The log of shards that many machines may try to write, and one at a time can.

`store` is a folder, `object_store` an object store, `entry` the form of what lies there, `log` the
rules: who may append, and who is fenced. Nothing here knows what the records mean.
"""

from pykcoord.log.shared.entry import CorruptEntryError, Entry, Snapshot
from pykcoord.log.shared.log import FencedError, ShardLog, open_logs, other_kind
from pykcoord.log.shared.store import FolderStore, Store, open_store

__all__ = [
    "CorruptEntryError",
    "Entry",
    "FencedError",
    "FolderStore",
    "ShardLog",
    "Snapshot",
    "Store",
    "open_logs",
    "open_store",
    "other_kind",
]
