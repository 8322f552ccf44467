"""An existing Kafka's groups, followed without changing anything: what `pykcoord watch` runs.

`Watcher` connects, copies `__consumer_offsets` and replays it; `Watcher.state.observe` tells of
each batch as it comes. See docs/kafka.md.
"""

from pykcoord.watch.model import WatchedGroup, WatchedMember, WatchedOffset
from pykcoord.watch.settings import WatchSettings
from pykcoord.watch.state import Change, WatchedState
from pykcoord.watch.tables import GroupRow, OffsetRow, Tables
from pykcoord.watch.watcher import Watcher

__all__ = [
    "Change", "GroupRow", "OffsetRow", "Tables", "WatchSettings", "WatchedGroup", "WatchedMember",
    "WatchedOffset", "WatchedState", "Watcher",
]  # fmt: skip
