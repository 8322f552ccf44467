"""The command line: `pykcoord serve`, `demo`, `log` and `assign`.

Every error is one line on stderr (what, where, what to do): exit 1 for a failure, 2 for wrong
usage. Commands are imported when they are called, so that `--help` and `demo` start at once.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

import click

from pykcoord.errors import KcoordError

_COMMANDS = {"assign": "assign", "demo": "demo", "log": "log", "serve": "serve"}


class _Commands(click.Group):
    """A group whose commands are modules of this package, each with a `command`."""

    def list_commands(self, context: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        command = importlib.import_module(f"pykcoord.cli.{_COMMANDS[name]}").command
        assert isinstance(command, click.Command)
        return command


@click.command(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Start with `pykcoord demo`, or `pykcoord serve --topic orders:12`.",
)
@click.version_option(package_name="pykcoord")
def commands() -> None:
    """Kafka's group coordinator, without the broker."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and end the process; `arguments` default to those of the process."""
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """Run the command line; returns the exit code."""
    try:
        code = commands.main(list(arguments), prog_name="pykcoord", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help() if error.ctx else "", err=True)
        return 2
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "pykcoord"
        click.echo(f"{command}: {_one_line(error.format_message())} (see --help)", err=True)
        return 2
    except click.ClickException as error:
        return _failed(error.format_message())
    except (click.Abort, KeyboardInterrupt):
        return 130
    except KcoordError as error:
        return _failed(str(error))
    except BrokenPipeError:
        # Whoever read our output has seen enough (`pykcoord log dump DIR | head`).
        sys.stdout = None
        return 0
    except OSError as error:
        return _failed(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    return code if isinstance(code, int) else 0


def _failed(message: str) -> int:
    click.echo(f"pykcoord: {_one_line(message)}", err=True)
    return 1


def _one_line(text: str) -> str:
    return " ".join(text.split())
