"""The command line: `python -m pykcoord_spark replay`, `assign`, `stream`, `host` and so on.

Every error is one line on stderr (what, where, what to do): exit 1 for a failure, 2 for wrong
usage. A job is a module of `pykcoord_spark.jobs`, imported when it is called or listed.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from pykcoord.cli.running import load_command, run_commands

_JOBS = ("assign", "export", "host", "inspect", "pack", "replay", "stream")
# An exception of a worker in the message of Spark: below a traceback, with its module.
_WORKER_ERROR = re.compile(r"^(?:[\w.]+\.)?(\w+(?:Error|Exception)): (.+)$", re.MULTILINE)


class _Jobs(click.Group):
    """The jobs whose modules are there."""

    def list_commands(self, context: click.Context) -> list[str]:
        names = [each for each in _JOBS if importlib.util.find_spec(f"pykcoord_spark.jobs.{each}")]
        return sorted([*names, *super().list_commands(context)])

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in _JOBS or name not in self.list_commands(context):
            return super().get_command(context, name)
        return load_command(f"pykcoord_spark.jobs.{name}")


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
    called = "python -m pykcoord_spark"
    return run_commands(jobs, arguments, called=called, name="pykcoord_spark", reason_of=_of_spark)


def _of_spark(error: Exception) -> str | None:
    return _reason(str(error)) if type(error).__module__.startswith("pyspark.") else None


def _reason(text: str) -> str:
    """Spark's message of a failed job, or the exception of a worker, if the message has one."""
    raised = [
        said
        for kind, said in _WORKER_ERROR.findall(text)
        if kind not in ("Py4JJavaError", "SparkException")
    ]
    return raised[-1] if raised else text.partition("\nJVM stacktrace")[0]


if __name__ == "__main__":
    # `spark-submit` puts the folder of this file first on the path, where its modules have names
    # that others may have too.
    here = str(Path(__file__).resolve().parent)
    sys.path[:] = [each for each in sys.path if str(Path(each).resolve()) != here]
    main()
