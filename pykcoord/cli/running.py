"""How a command line of the project runs: every failure is one line on stderr.

Exit 1 for a failure, 2 for wrong usage; the line says what, where, and what to do. Also used by
`python -m pykcoord_spark`. Must not know any command.
"""

from __future__ import annotations

import contextlib
import importlib
import select
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from types import FrameType

import click

from pykcoord.errors import KcoordError, MissingExtraError

__all__ = ["interrupted_by_signals", "line_of", "load_command", "run_commands"]

# How long the last line waits for a stderr that is not read.
_STDERR_SECONDS = 1.0


def load_command(module: str) -> click.Command:
    """The `command` of a module, imported when it is asked for: `--help` of others starts fast."""
    command = importlib.import_module(module).command
    assert isinstance(command, click.Command)
    return command


def run_commands(
    commands: click.Group,
    arguments: Sequence[str],
    *,
    called: str,
    name: str,
    reason_of: Callable[[Exception], str | None] = lambda error: None,
) -> int:
    """Run one of `commands`; returns the exit code.

    `called` is how a user starts it (usage lines begin with it), `name` what lines of errors begin
    with. `reason_of` gives the line for an exception that is not of this project, or None if it is
    a fault of the code: then it is raised.
    """
    try:
        code = commands.main(list(arguments), prog_name=called, standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help() if error.ctx else "", err=True)
        return 2
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else name
        _tell(f"{command}: {_one_line(error.format_message()).removesuffix('.')} (see --help)")
        return 2
    except (click.Abort, KeyboardInterrupt):
        return 130
    except BrokenPipeError:
        # The reader of our output has closed it (`pykcoord log dump DIR | head`).
        sys.stdout = None
        return 0
    except Exception as error:
        reason = _reason(error) or reason_of(error)
        if reason is None:
            raise
        _tell(f"{name}: {_one_line(reason)}")
        return 1
    return code if isinstance(code, int) else 0


@contextlib.contextmanager
def interrupted_by_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP end the command as Ctrl-C does: what it has started is ended with it.
    One that is ignored (nohup) stays so. Only on the main thread."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        handler = signal.getsignal(signal.SIGINT)  # of asyncio, while that runs
        if not callable(handler):
            raise KeyboardInterrupt
        handler(number, frame)

    before = {}
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            before[number] = signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _tell(line: str) -> None:
    """Write the line to stderr; end without it where stderr takes nothing, for a supervisor
    waits."""
    try:
        writable = select.select([], [sys.stderr], [], _STDERR_SECONDS)[1]
    except (OSError, ValueError):  # no file behind it
        writable = [sys.stderr]
    if writable:
        click.echo(line, err=True)


def _reason(error: Exception) -> str | None:
    if isinstance(error, click.ClickException):
        return error.format_message()
    if isinstance(error, OSError) and not isinstance(error, KcoordError):
        return f"{error.filename}: {error.strerror}" if error.filename else str(error)
    return str(error) if isinstance(error, KcoordError | MissingExtraError) else None


def line_of(error: Exception) -> str | None:
    """What a user needs to know of an error, in one line; None for a fault of the code."""
    reason = _reason(error)
    return None if reason is None else _one_line(reason)


def _one_line(text: str) -> str:
    return " ".join(text.split())
