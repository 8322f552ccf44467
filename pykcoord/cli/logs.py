"""What a server logs while it runs: one line for each event on stderr, as text or as JSON."""

from __future__ import annotations

import contextlib
import json
import logging
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Literal

import click

from pykcoord.cli.log_queue import LineQueue, write_to_descriptor
from pykcoord.cli.log_rate import LineRate
from pykcoord.clock import monotonic_seconds

LogFormat = Literal["text", "json"]
LogLevel = Literal["debug", "info", "warning", "error"]

# What every record has; everything else came with `extra` and belongs to the event.
_OWN = set(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}
# Group ids, member ids and reasons are up to 32 KiB each, as their clients like.
_LONGEST_TEXT = 4_096
# A line stays one line, even if a client's name has line breaks.
_CONTROLS = {code: repr(chr(code))[1:-1] for code in (*range(32), *range(127, 160))}
# How long the end of the process waits for a stderr that takes nothing.
_END_SECONDS = 1.0


def options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of a command that logs: `log_format` and `log_level`."""
    command = click.option(
        "--log-level",
        type=click.Choice(["debug", "info", "warning", "error"]),
        default="info",
        show_default=True,
        help="The least level of the lines on stderr.",
    )(command)
    return click.option(
        "--log-format",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="The form of the lines on stderr.",
    )(command)


@contextlib.contextmanager
def to_stderr(
    log_format: LogFormat, level: LogLevel = "info", node: int | None = None
) -> Iterator[LineQueue]:
    """Within it, the logs of this process from `level` on go to stderr, through a bounded queue.
    `node`: whose they are, where several processes share the stderr."""
    lines = LineQueue(_writer(), LineRate(monotonic_seconds))
    lines.setFormatter(_JsonFormatter(node) if log_format == "json" else _TextFormatter(node))
    root = logging.getLogger()
    before = root.handlers[:], root.level
    root.handlers[:] = [lines]
    root.setLevel(level.upper())
    try:
        yield lines
    finally:
        lines.end_within(_END_SECONDS)
        root.handlers[:] = before[0]
        root.setLevel(before[1])


def _writer() -> Callable[[bytes], None]:
    stream = sys.stderr
    try:
        return write_to_descriptor(stream.fileno())
    except OSError:  # no file behind it, as where a test collects it
        return lambda line: print(line.decode("utf-8"), end="", file=stream)


class _Formatter(logging.Formatter):
    def __init__(self, node: int | None = None) -> None:
        super().__init__()
        self.node = node


class _TextFormatter(_Formatter):
    def format(self, record: logging.LogRecord) -> str:
        message = _bounded(record.getMessage()).translate(_CONTROLS)
        name = record.name if self.node is None else f"node {self.node}: {record.name}"
        line = f"{_time(record)} {record.levelname:<7} {name}: {message}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


class _JsonFormatter(_Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, object] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _bounded(record.getMessage()),
        }
        if self.node is not None:
            fields["node"] = self.node
        for name, value in record.__dict__.items():
            if name not in _OWN:
                fields[name] = _bounded(value) if isinstance(value, str) else value
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields, default=str, ensure_ascii=False)


def _bounded(text: str) -> str:
    more = len(text) - _LONGEST_TEXT
    return text if more <= 0 else f"{text[:_LONGEST_TEXT]}... ({more} more characters)"


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
