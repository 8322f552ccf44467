"""Lines on their way to stderr: a bounded queue and a thread that writes.

A write to a pipe that is not read, or to a disk that hangs, blocks until its reader goes on. Here
only the thread waits. The code that logs a line puts it into the queue and goes on; where the queue
is full, the line is dropped and counted.
"""

from __future__ import annotations

import logging
import os
import select
import threading
from collections import deque
from collections.abc import Callable

from pykcoord.cli.log_rate import LineRate

# The most that may wait: enough for the burst of a start, and never much memory.
MAX_LINES = 4_096
MAX_BYTES = 4 << 20
# How often the numbers of lines left out are looked at, while there are any.
_REPORT_SECONDS = 1.0


class LineQueue(logging.Handler):
    """A logging handler that never blocks. `write` is called by its thread alone, with whole lines
    as bytes; an OSError from it drops the line.

    `rate` decides which records are left out before they are formatted.
    """

    def __init__(self, write: Callable[[bytes], None], rate: LineRate) -> None:
        super().__init__()
        self._write = write
        self._rate = rate
        self._changed = threading.Condition()
        self._lines: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._is_busy = False
        self._closing = False
        self._told_dropped = 0
        self.dropped_lines = 0
        """Lines lost since the start: the queue was full, or they could not be written."""
        self._thread = threading.Thread(target=self._drain, name="log-lines", daemon=True)
        self._thread.start()

    @property
    def left_out_lines(self) -> int:
        """Lines left out since the start because of their rate."""
        return self._rate.left_out_lines

    def emit(self, record: logging.LogRecord) -> None:
        """Hand the record's line over, unless its kind has used up its rate."""
        try:
            if self._rate.admits(record):
                self._put(record)
        except Exception:
            self.handleError(record)

    def handleError(self, record: logging.LogRecord) -> None:
        """A record that cannot be formatted becomes a line of its own: stderr itself may block."""
        text = "a line of log from %s:%d cannot be formatted: %r"
        self._put(_own_record(logging.ERROR, text, (record.pathname, record.lineno, record.msg)))

    def flush_within(self, seconds: float) -> bool:
        """Wait until all lines so far are written, for at most this long; returns whether they
        are."""
        with self._changed:
            return self._changed.wait_for(
                lambda: not self._lines and not self._is_busy, timeout=seconds
            )

    def end_within(self, seconds: float) -> None:
        """Write what waits, with the numbers of lines left out, for at most this long, and end."""
        for record in self._rate.reports(at_end=True):
            self._put(record)
        self.flush_within(seconds)
        with self._changed:
            self._closing = True
            self._changed.notify_all()

    def _put(self, record: logging.LogRecord) -> None:
        self._enqueue(self.format(record))

    def _enqueue(self, text: str) -> None:
        line = text.encode("utf-8", "backslashreplace") + b"\n"
        with self._changed:
            if len(self._lines) >= MAX_LINES or self._waiting_bytes + len(line) > MAX_BYTES:
                self.dropped_lines += 1
                return
            self._lines.append(line)
            self._waiting_bytes += len(line)
            self._changed.notify_all()

    def _drain(self) -> None:
        while (line := self._next()) is not None:
            written = True
            if line:
                try:
                    self._write(line)
                except OSError:
                    written = False
            with self._changed:
                self.dropped_lines += not written
            for record in self._rate.reports():
                self._put(record)
            if written:
                self._tell_dropped()
            with self._changed:
                self._is_busy = False
                self._changed.notify_all()

    def _next(self) -> bytes | None:
        """The next line; empty after a while without one; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._lines or self._closing, timeout=_REPORT_SECONDS)
            if self._closing:
                return None
            self._is_busy = True
            if not self._lines:
                return b""
            line = self._lines.popleft()
            self._waiting_bytes -= len(line)
            return line

    def _tell_dropped(self) -> None:
        """Once the reader is back: how many lines it missed."""
        with self._changed:
            missed = self.dropped_lines - self._told_dropped
            if not missed or self._lines:
                return
            self._told_dropped = self.dropped_lines
        text = "%d lines of log were lost: stderr did not take them"
        self._put(_own_record(logging.WARNING, text, (missed,)))


def _own_record(level: int, text: str, arguments: tuple[object, ...]) -> logging.LogRecord:
    return logging.LogRecord("pykcoord.logs", level, __file__, 0, text, arguments, None)


def write_to_descriptor(descriptor: int) -> Callable[[bytes], None]:
    """A `write` that goes past Python's stream: its lock would be held while a write blocks, and
    the end of the process would wait for it."""

    def write(line: bytes) -> None:
        rest = memoryview(line)
        while rest:
            try:
                rest = rest[os.write(descriptor, rest) :]
            except BlockingIOError:  # set to non-blocking by a process that shares it
                select.select([], [descriptor], [])

    return write
