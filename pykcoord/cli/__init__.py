"""The command line: `pykcoord serve`, `demo`, `explain`, `log`, `offsets`, `watch`, `assign`,
`cluster`, `kafka`, `lab`, `replay` and `zookeeper`.

Every error is one line on stderr (what, where, what to do): exit 1 for a failure, 2 for wrong
usage. Commands are imported when they are called, so that `--help` and `demo` start at once.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from pykcoord._kio import import_kio
from pykcoord.cli.running import load_command, run_commands

import_kio()

_COMMANDS = (
    "assign", "cluster", "demo", "explain", "kafka", "lab", "log", "offsets", "replay", "serve",
    "watch", "zookeeper",
)  # fmt: skip


class _Commands(click.Group):
    """A group whose commands are modules of this package, each with a `command`."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        return load_command(f"pykcoord.cli.{name}")


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
    return run_commands(commands, arguments, called="pykcoord", name="pykcoord")
