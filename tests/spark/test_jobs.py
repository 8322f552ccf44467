"""`python -m pykcoord_spark`: how jobs are found, and the errors of a wrong call."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")
import click
import pykcoord_spark
from pykcoord_spark import __main__ as command_line
from pykcoord_spark import session
from pykcoord_spark.session import opened

from pykcoord.errors import ArgumentError

ROOT = Path(__file__).parents[2]


def _jobs() -> list[str]:
    names = command_line.jobs.list_commands(click.Context(command_line.jobs))
    return [name for name in names if name in command_line._JOBS]


@pytest.mark.parametrize("job", _jobs())
def test_each_job_has_help_with_an_example(job: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.run([job, "--help"]) == 0
    assert f"python -m pykcoord_spark {job}" in capsys.readouterr().out


def test_an_unknown_job_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.run(["rpelay"]) == 2
    said = capsys.readouterr().err
    assert "rpelay" in said
    assert said.count("\n") == 1


def test_a_job_whose_module_is_absent_does_not_hide_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = _jobs()
    monkeypatch.setattr(command_line, "_JOBS", (*command_line._JOBS, "absent"))
    assert _jobs() == before
    assert command_line.run(["absent"]) == 2


def test_the_main_path_runs_as_a_script() -> None:
    """As spark-submit does: the folder of the file is first on the path then."""
    script = ROOT / "spark/pykcoord_spark/__main__.py"
    result = subprocess.run(
        [sys.executable, str(script), "main-path"],
        capture_output=True, check=True, text=True, timeout=60,
    )  # fmt: skip
    assert result.stdout.strip() == str(script)


def test_what_a_worker_raised_is_the_reason() -> None:
    said = (
        "An exception was thrown from the Python worker.\nTraceback (most recent call last):\n"
        '  File "x.py", line 1, in run\n'
        f"pykcoord.errors.ArgumentError: {ArgumentError('events', 'column ts is missing')}\n"
        "\tat org.apache.spark.api.python\n\nJVM stacktrace:\n..."
    )
    assert command_line._reason(said) == str(ArgumentError("events", "column ts is missing"))
    assert command_line._reason("no such table\nJVM stacktrace:\nx") == "no such table"


def test_a_setting_of_no_form_is_wrong_usage() -> None:
    with (
        pytest.raises(click.UsageError, match=r"spark\.KEY=VALUE"),
        opened("x", remote="sc://127.0.0.1:1", configuration=["cores:2"]),
    ):
        pass
    with pytest.raises(click.UsageError, match="exclude"), opened("x", master="a", remote="b"):
        pass


def test_no_bar_is_written_over_lines_and_the_user_has_the_last_word() -> None:
    bar = "spark.ui.showConsoleProgress"
    assert session._wanted((), bar=False, brief=False)[bar] == "false"
    assert session._wanted((), bar=True, brief=False)[bar] == "true"
    assert session._wanted([f"{bar}=true"], bar=False, brief=True)[bar] == "true"
    java = "spark.driver.defaultJavaOptions"
    assert java not in session._wanted((), bar=False, brief=False)
    assert session._wanted([f"{java}=-Xint"], bar=False, brief=True)[java] == "-Xint"


def test_a_brief_job_starts_with_less() -> None:
    """Compiling for speed is half of the CPU of a driver that works for seconds."""
    java, shuffled = "spark.driver.defaultJavaOptions", "spark.sql.shuffle.partitions"
    brief = session._wanted((), bar=False, brief=True)
    assert brief[java] == "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    assert brief[shuffled] == "1"
    assert not {java, shuffled} & session._wanted((), bar=False, brief=False).keys()


def test_what_the_package_exports_can_be_imported() -> None:
    for name in pykcoord_spark.__all__:
        assert getattr(pykcoord_spark, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        pykcoord_spark.nothing  # noqa: B018
