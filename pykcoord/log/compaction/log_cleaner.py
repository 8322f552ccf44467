"""The cleaner's thread: finds the dirtiest partition, cleans it, and looks again (as Kafka's
LogCleaner and LogCleanerManager do).

An error here costs disk, never data or a request: it is logged once, and tried again later.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from pykcoord.errors import LogError
from pykcoord.log import checkpoint
from pykcoord.log.closed_segments import Closed, Reopened
from pykcoord.log.compaction.cleaning import Cleaned, Cleaning, Facts, Shared
from pykcoord.log.compaction.files import Files
from pykcoord.log.compaction.history import History
from pykcoord.log.compaction.settings import Compaction
from pykcoord.log.compaction.throttle import Throttle
from pykcoord.log.partition import Partition
from pykcoord.log.segment import CHUNK_BYTES, SegmentFile

__all__ = ["LogCleaner"]

_logger = logging.getLogger(__name__)


_LEAST_WAIT_SECONDS = 0.1
# In the background it rests three times as long as it works: a quarter of a core at most. What
# serves waits for a core, or for the interpreter's lock, no longer than one piece of work takes.
_REST = 3.0
_LONGEST_REST_SECONDS = 0.1
_BACKGROUND_PIECE_BYTES = 128 << 10
_HISTORY_LOOK_SECONDS = 60.0


class _Stopped(Exception):
    pass


class _State:
    """What the cleaner knows of one partition."""

    def __init__(self, partition: Partition, first_dirty_offset: int) -> None:
        self.partition = partition
        self.first_dirty_offset = first_dirty_offset
        self.generation = -1
        self.facts: dict[SegmentFile, Facts] = {}
        self.unfinished: Callable[[], None] | None = None
        # The segments of which nothing could be cleaned, until when, and whether that was logged.
        self.fruitless: Closed | None = None
        self.fruitless_until = 0.0
        self.told = False

    def now(self) -> Closed:
        """The segments; what was known of other ones is forgotten."""
        closed = self.partition.closed.now()
        if closed.generation != self.generation:
            self.generation = closed.generation
            self.facts.clear()
            self.unfinished = None
        if closed.segments:
            start = closed.segments[0][0].base_offset
            if not start <= self.first_dirty_offset <= self.partition.next_offset:
                self.first_dirty_offset = start
        return closed

    def dirty_ratio(self, closed: Closed) -> float:
        """The dirty part of the closed segments' bytes: those from `first_dirty_offset` on."""
        ends = [file.base_offset for file, _ in closed.segments[1:]] + [closed.end_offset]
        sizes = [size for _, size in closed.segments]
        dirty = sum(
            size for size, end in zip(sizes, ends, strict=False) if end > self.first_dirty_offset
        )
        return dirty / sum(sizes) if dirty else 0.0


class LogCleaner:
    """Cleans `partitions` of `topic` in `directory`. `start` does so on a thread, until `close`;
    `clean_all` at once, on the caller's."""

    def __init__(
        self,
        directory: Path,
        topic: str,
        partitions: Mapping[int, Partition],
        segment_bytes: int,
        compaction: Compaction,
        files: Files | None = None,
    ) -> None:
        self._directory = directory
        self._topic = topic
        self._segment_bytes = segment_bytes
        self._compaction = compaction
        self._files = files or Files()
        self._stopping = threading.Event()
        self._rolled = threading.Event()
        self._throttle = Throttle(
            compaction.io_max_bytes_per_second, compaction.monotonic, self._stopping.wait
        )
        known = checkpoint.read_cleaner_offsets(directory, topic)
        self._states = {
            number: _State(partition, known.get(number, 0))
            for number, partition in partitions.items()
        }
        self._rested_at = 0.0
        self._history_looked_at = float("-inf")
        self._thread = threading.Thread(target=self._run, name="pykcoord-log-cleaner", daemon=True)

    def start(self) -> None:
        """Cleans from now on, in the background."""
        for state in self._states.values():
            state.partition.rolled = self._rolled.set
        self._thread.start()

    def close(self) -> None:
        """Gives up what is under way, which leaves the old segments, and ends the thread."""
        self._stopping.set()
        self._rolled.set()
        if self._thread.is_alive():
            self._thread.join()

    def clean_all(self) -> dict[int, Cleaned]:
        """Cleans every partition of which anything is dirty, by number. Raises what goes wrong."""
        self.expire_history()
        cleaned: dict[int, Cleaned] = {}
        for number, state in self._states.items():
            while state.dirty_ratio(state.now()) > 0:
                done = self._clean(state)
                if done is None:
                    break
                cleaned[number] = done
        return cleaned

    def clean_dirtiest(self) -> bool:
        """Cleans the partition that needs it most. False: none does. Never raises OSError."""
        state = self._dirtiest()
        if state is None:
            return False
        try:
            if self._clean(state) is not None:
                state.told = False
        except Reopened:
            pass  # it is looked at anew, as it is now
        except (OSError, LogError) as error:
            backoff_seconds = self._compaction.backoff_ms / 1000
            self._set_aside(state, backoff_seconds)
            if not state.told:
                state.told = True
                _logger.warning(
                    "%s is not compacted, next attempt in %g s: %s",
                    state.partition.directory,
                    backoff_seconds,
                    error,
                    extra={"event": "compaction_failed", "error": str(error)},
                )
        return True

    def expire_history(self) -> None:
        """Removes what was replaced longer ago than it is to be kept. Raises OSError."""
        compaction = self._compaction
        for state in self._states.values():
            history = History(self._files, state.partition.directory)
            history.expire(compaction.now_ms() - compaction.history_retention_ms)

    def _look_at_history(self) -> None:
        now = self._compaction.monotonic()
        if now - self._history_looked_at < _HISTORY_LOOK_SECONDS:
            return
        self._history_looked_at = now
        try:
            self.expire_history()
        except OSError as error:
            _logger.warning(
                "the history of the log is not shortened: %s",
                error,
                extra={"event": "history_failed", "error": str(error)},
            )

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._rolled.clear()
                self._look_at_history()
                if not self.clean_dirtiest():
                    self._rolled.wait(max(_LEAST_WAIT_SECONDS, self._compaction.backoff_ms / 1000))
        except _Stopped:
            return
        except BaseException:
            # Our own fault: the log grows from now on, but nothing else must end for it.
            _logger.exception("compaction ended", extra={"event": "compaction_ended"})

    def _dirtiest(self) -> _State | None:
        best: tuple[float, _State] | None = None
        for state in self._states.values():
            if state.partition.failed is not None:
                continue
            closed = state.now()
            if state.fruitless == closed and self._compaction.monotonic() < state.fruitless_until:
                continue
            ratio = state.dirty_ratio(closed)
            if ratio > self._compaction.min_cleanable_ratio and (best is None or ratio > best[0]):
                best = (ratio, state)
        return None if best is None else best[1]

    def _clean(self, state: _State) -> Cleaned | None:
        compaction, partition = self._compaction, state.partition
        closed = state.now()
        if state.unfinished is not None:
            state.unfinished()
            state.unfinished = None
            closed = state.now()
        now_ms, started = compaction.now_ms(), compaction.monotonic()
        self._rested_at = started
        history = History(self._files, partition.directory)
        if compaction.history_retention_ms:
            history.start(now_ms, was_compacted=state.first_dirty_offset > 0)

        def keep(segments: list[SegmentFile]) -> None:
            if compaction.history_retention_ms:
                history.keep(segments, now_ms)
            else:
                history.lose(now_ms)

        shared = Shared(
            self._files,
            self._segment_bytes,
            compaction.min_compaction_lag_ms,
            now_ms,
            self._spend,
            _BACKGROUND_PIECE_BYTES if self._thread.is_alive() else CHUNK_BYTES,
            keep,
        )
        cleaning = Cleaning(
            partition.directory,
            partition.closed,
            closed,
            state.first_dirty_offset,
            state.facts,
            shared,
        )
        cleaner = compaction.new_cleaner(
            compaction.dedupe_buffer_bytes, now_ms, compaction.delete_retention_ms
        )
        try:
            cleaned = cleaning.run(cleaner)
        finally:
            state.unfinished = cleaning.unfinished
        if cleaned is None:
            # An undecided transaction holds it back, or its age: the first ends in another segment.
            waits = compaction.min_compaction_lag_ms > 0
            self._set_aside(state, compaction.backoff_ms / 1000 if waits else float("inf"))
            return None
        state.first_dirty_offset = cleaned.end_offset
        self._write_checkpoint()
        _tell(partition, cleaned, compaction.monotonic() - started)
        return cleaned

    def _set_aside(self, state: _State, seconds: float) -> None:
        state.fruitless = state.now()
        state.fruitless_until = self._compaction.monotonic() + seconds

    def _spend(self, size_bytes: int) -> None:
        if self._stopping.is_set():
            raise _Stopped
        self._throttle.spend(size_bytes)
        if self._thread.is_alive() and size_bytes > 0:
            worked = self._compaction.monotonic() - self._rested_at
            self._stopping.wait(min(_REST * worked, _LONGEST_REST_SECONDS))
            self._rested_at = self._compaction.monotonic()
        if self._stopping.is_set():
            raise _Stopped

    def _write_checkpoint(self) -> None:
        offsets = {
            number: state.first_dirty_offset
            for number, state in self._states.items()
            if state.first_dirty_offset > 0
        }
        self._files.write_cleaner_offsets(self._directory, self._topic, offsets)


def _tell(partition: Partition, cleaned: Cleaned, seconds: float) -> None:
    _logger.info(
        "%s is clean below offset %d: %d of %d records stay, %d of %d bytes (%.1f s)",
        partition.directory.name,
        cleaned.end_offset,
        cleaned.records_after,
        cleaned.records_before,
        cleaned.bytes_after,
        cleaned.bytes_before,
        seconds,
        extra={"event": "compacted", "partition": partition.directory.name, **cleaned._asdict()},
    )
