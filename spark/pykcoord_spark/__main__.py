"""The command line: `python -m pykcoord_spark replay`, `assign`, `stream`, `host` and so on.

Every error is one line on stderr (what, where, what to do): exit 1 for a failure, 2 for wrong
usage. A job is a module of `pykcoord_spark.jobs`, imported when it is called or listed.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import click

_JOBS = ("assign", "export", "host", "inspect", "pack", "replay", "stream")
# How an exception of a worker reads in what Spark says: below a traceback, with its module.
_WORKER_ERROR = re.compile(r"^(?:[\w.]+\.)?(\w+(?:Error|Exception)): (.+)$", re.MULTILINE)


class _Jobs(click.Group):
    """The jobs whose modules are there."""

    def list_commands(self, context: click.Context) -> list[str]:
        names = [each for each in _JOBS if importlib.util.find_spec(f"pykcoord_spark.jobs.{each}")]
        return sorted([*names, *super().list_commands(context)])

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in _JOBS or name not in self.list_commands(context):
            return super().get_command(context, name)
        command = importlib.import_module(f"pykcoord_spark.jobs.{name}").command
        assert isinstance(command, click.Command)
        return command


@click.command(
    cls=_Jobs,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Each job has a --help with an example.",
)
@click.version_option(package_name="pykcoord-spark")
def jobs() -> None:
    """Kafka's group coordinator on Spark."""


@jobs.command("main-path")
def main_path() -> None:
    """Print the file that `spark-submit` takes as its application."""
    click.echo(Path(__file__).resolve())


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and end the process; `arguments` default to those of the process."""
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """Run the command line; returns the exit code."""
    from pykcoord.errors import KcoordError

    try:
        code = jobs.main(
            list(arguments), prog_name="python -m pykcoord_spark", standalone_mode=False
        )
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help() if error.ctx else "", err=True)
        return 2
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "pykcoord_spark"
        click.echo(f"{command}: {_one_line(error.format_message())} (see --help)", err=True)
        return 2
    except click.ClickException as error:
        return _failed(error.format_message())
    except (click.Abort, KeyboardInterrupt):
        return 130
    except KcoordError as error:
        return _failed(str(error))
    except BrokenPipeError:
        sys.stdout = None
        return 0
    except OSError as error:
        return _failed(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except Exception as error:
        if not type(error).__module__.startswith("pyspark."):
            raise
        return _failed(_reason(str(error)))
    return code if isinstance(code, int) else 0


def _reason(text: str) -> str:
    """What Spark says of a failed job, or what a worker raised, if that is in it."""
    raised = [
        said
        for kind, said in _WORKER_ERROR.findall(text)
        if kind not in ("Py4JJavaError", "SparkException")
    ]
    return raised[-1] if raised else text.partition("\nJVM stacktrace")[0]


def _failed(message: str) -> int:
    click.echo(f"pykcoord_spark: {_one_line(message)}", err=True)
    return 1


def _one_line(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    # `spark-submit` puts the folder of this file first on the path, where its modules have names
    # that others may have too.
    here = str(Path(__file__).resolve().parent)
    sys.path[:] = [each for each in sys.path if str(Path(each).resolve()) != here]
    main()
