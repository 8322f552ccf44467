"""Compaction: in the background, one partition at a time, by the rules of Kafka's LogCleaner.

Knows files; the bytes are handed to a `RecordCleaner`. Must never touch the segment that is being
written, nor leave a moment at which a crash would leave anything but the old log or the new one.
"""

from pykcoord.log.compaction.cleaning import Cleaned
from pykcoord.log.compaction.log_cleaner import LogCleaner
from pykcoord.log.compaction.settings import Compaction, NewCleaner, RecordCleaner

__all__ = ["Cleaned", "Compaction", "LogCleaner", "NewCleaner", "RecordCleaner"]
