"""Putting a cleaned segment in the place of those it was made from, so that a crash at any point
leaves the old ones or the new one (Kafka's UnifiedLog.replaceSegments; `segment.plan` recovers).

    .cleaned, synced -> .swap -> the old ones .deleted -> .swap gets its name -> .deleted go

From `.swap` on there is no way back: recovery would finish it too.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pykcoord.log.compaction.files import Files
from pykcoord.log.segment import SegmentFile, companions, segment_name

__all__ = ["Swap", "cleaned_path"]


def cleaned_path(directory: Path, base_offset: int) -> Path:
    """Where the cleaned segment is written."""
    return directory / (segment_name(base_offset) + ".cleaned")


class Swap:
    """One such exchange. `finish` may be called again after it raised OSError: it goes on."""

    def __init__(self, files: Files, directory: Path, old: Sequence[SegmentFile]) -> None:
        self.old = list(old)
        self.new = SegmentFile(old[0].base_offset, directory / segment_name(old[0].base_offset))
        self.begun = False
        self._files = files
        self._directory = directory
        self._replaced = [path for file in old for path in (*companions(file.path), file.path)]
        self._named = False

    def finish(self) -> None:
        """All steps that are not done yet. Raises OSError."""
        swap = self.new.path.with_name(self.new.path.name + ".swap")
        deleted = [path.with_name(path.name + ".deleted") for path in self._replaced]
        if not self.begun:
            self._files.rename(cleaned_path(self._directory, self.new.base_offset), swap)
            self.begun = True
        if not self._named:
            self._files.sync_directory(self._directory)
            for path, name in zip(self._replaced, deleted, strict=True):
                if path.exists():
                    self._files.rename(path, name)
            # Without this the new name could be on disk before the old ones are gone: two
            # segments of one offset.
            self._files.sync_directory(self._directory)
            self._files.rename(swap, self.new.path)
            self._named = True
        self._files.sync_directory(self._directory)
        for name in deleted:
            self._files.unlink(name)
