"""What compaction replaces, kept for a while in the partition's folder `history`:

    history/1795243004074/00000000000000000000.log    replaced at that time (ms since the epoch)
    history/complete-since                            when it begins, if not with the log

The segments get a second name there (a hard link), so that keeping them costs no copy. What is read
of them: `pykcoord.log.past`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pykcoord.log.compaction.files import Files
from pykcoord.log.segment import SegmentFile

__all__ = ["COMPLETE_SINCE_FILE", "HISTORY_FOLDER", "History", "begin_history", "kept_folders"]

HISTORY_FOLDER = "history"
COMPLETE_SINCE_FILE = "complete-since"


class History:
    """The history of the partition in `directory`. All methods raise OSError."""

    def __init__(self, files: Files, directory: Path) -> None:
        self._files = files
        self._directory = directory
        self._folder = directory / HISTORY_FOLDER

    def start(self, now_ms: int, was_compacted: bool) -> None:
        """From now on it is kept. `was_compacted`: part of the log was before, and nothing of that
        was kept."""
        if self._folder.is_dir():
            return
        if was_compacted:
            self.begin(now_ms)
        else:
            self._files.make_directory(self._folder)

    def keep(self, segments: Sequence[SegmentFile], now_ms: int) -> None:
        """Keeps segments that are about to be replaced. Durable when it returns; safe to call
        again."""
        folder = self._folder / str(now_ms)
        self._files.make_directory(folder)
        for segment in segments:
            self._files.link(segment.path, folder / segment.path.name)
        self._files.sync_directory(folder)

    def begin(self, at_ms: int) -> None:
        """Of the time before nothing is known but what is left."""
        self._files.make_directory(self._folder)
        self._write_complete_since(at_ms)

    def expire(self, before_ms: int) -> int:
        """Removes what was replaced before then; returns how many bytes. What was since can still
        be told in full: a record goes only when one that is older than its removal follows."""
        expired = [one for one in kept_folders(self._directory) if int(one.name) < before_ms]
        if not expired:
            return 0
        # First: a crash in between must not leave a history that claims what is gone.
        self._write_complete_since(int(expired[-1].name))
        removed = 0
        for folder in expired:
            for path in folder.iterdir():
                removed += path.stat().st_size
                self._files.unlink(path)
            self._files.remove_directory(folder)
        return removed

    def lose(self, now_ms: int) -> None:
        """Segments are about to be replaced and not kept."""
        if self._folder.is_dir():
            self._write_complete_since(now_ms)

    def _write_complete_since(self, at_ms: int) -> None:
        self._files.write_text(self._folder / COMPLETE_SINCE_FILE, f"{at_ms}\n")


def kept_folders(directory: Path) -> list[Path]:
    """What the partition in `directory` keeps: a folder for each compaction, oldest first."""
    folder = directory / HISTORY_FOLDER
    if not folder.is_dir():
        return []
    found = [path for path in folder.iterdir() if path.name.isascii() and path.name.isdigit()]
    return sorted(found, key=lambda path: int(path.name))


def begin_history(directory: Path, at_ms: int) -> None:
    """Says of a partition that was made of what was left of another log that nothing is known of
    the time before. Durable with its folder. Raises OSError."""
    History(Files(), directory).begin(at_ms)
