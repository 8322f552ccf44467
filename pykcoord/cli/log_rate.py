"""A bound on lines of one kind in a second: the others are counted, and one line says how many.

What clients can cause must not fill a disk: refused frames, failed requests, rebalances.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

WINDOW_SECONDS = 10.0
# Lines of one kind in a window. A kind is the `event` of a record, or where it is logged.
_LINES_OF_A_KIND = 1_000
_LINES = {
    "refused": 10,
    "failure": 10,
    "catalogue": 10,
    "idle": 10,
    "assignment": 100,
    "rebalance": 200,
    "rebalances": 200,
}
# Clients that the line about those left out can name.
_CLIENTS = 64


@dataclass(slots=True)
class _Kind:
    window_ends: float
    lines: int = 0
    left_out: int = 0
    last: logging.LogRecord | None = None
    clients: dict[str, int] = field(default_factory=dict)


class LineRate:
    """Counts the records of each kind in windows of ten seconds. Any thread may call.

    `seconds` is a clock for durations.
    """

    def __init__(self, seconds: Callable[[], float]) -> None:
        self._seconds = seconds
        self._kinds: dict[Any, _Kind] = {}
        self._lock = threading.Lock()
        self.left_out_lines = 0
        """All that were left out since the start."""

    def admits(self, record: logging.LogRecord) -> bool:
        """Whether the record is to be written; it is counted either way."""
        event = getattr(record, "event", None)
        key = event if event in _LINES else (record.pathname, record.lineno)
        now = self._seconds()
        with self._lock:
            kind = self._kinds.get(key)
            if kind is None or (now >= kind.window_ends and not kind.left_out):
                kind = self._kinds[key] = _Kind(now + WINDOW_SECONDS)
            if kind.lines < _LINES.get(event or "", _LINES_OF_A_KIND):
                kind.lines += 1
                return True
            kind.left_out += 1
            kind.last = record
            client = getattr(record, "client_host", None)
            if client is not None and (client in kind.clients or len(kind.clients) < _CLIENTS):
                kind.clients[client] = kind.clients.get(client, 0) + 1
            self.left_out_lines += 1
            return False

    def reports(self, *, at_end: bool = False) -> Iterator[logging.LogRecord]:
        """One record for each kind that lost lines, once its window is over (`at_end`: now)."""
        now = self._seconds()
        with self._lock:
            over = [
                (key, kind)
                for key, kind in self._kinds.items()
                if at_end or now >= kind.window_ends
            ]
            for key, _ in over:
                del self._kinds[key]
        for _, kind in over:
            if kind.left_out:
                yield _report(kind)


def _report(kind: _Kind) -> logging.LogRecord:
    last = kind.last
    assert last is not None
    named = ""
    if kind.clients:
        client, count = max(kind.clients.items(), key=lambda item: item[1])
        named = f" ({count} of them for {client})"
    try:
        message = last.getMessage()
    except Exception:  # its arguments do not fit
        message = repr(last.msg)
    text = "%d lines of the same kind were left out%s; the last one: %s"
    arguments = (kind.left_out, named, message)
    report = logging.LogRecord(
        last.name, last.levelno, last.pathname, last.lineno, text, arguments, None
    )
    of = getattr(last, "event", None)
    report.__dict__.update(event="left_out", of=of, lines=kind.left_out)
    return report
