"""`.ci/run`: what is tested, and in which folder."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# Stands for the project's own: tells where it runs, and leaves something behind.
MAKEFILE = "test:\n\t@pwd; cat source.txt new.txt; ls build; mkdir -p build; touch build/kept\n"


def _git(directory: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    return subprocess.run(
        ["git", *identity, *arguments],
        cwd=directory, check=True, capture_output=True, text=True, timeout=60,
    ).stdout  # fmt: skip


def _project(directory: Path) -> Path:
    (directory / ".ci").mkdir(parents=True)
    shutil.copy(ROOT / ".ci/run", directory / ".ci/run")
    (directory / "Makefile").write_text(MAKEFILE)
    (directory / ".gitignore").write_text("/build/\n")
    (directory / "source.txt").write_text("committed\n")
    _git(directory, "init", "--quiet")
    _git(directory, "add", "--all")
    _git(directory, "commit", "--quiet", "--message", "first")
    return directory


def _run(directory: Path, cwd: Path) -> list[str]:
    ran = subprocess.run(
        [directory / ".ci/run"], cwd=cwd, capture_output=True, text=True, timeout=60, check=False
    )
    return ran.stdout.splitlines()


@pytest.mark.parametrize("name", ["pykcoord", "checkout"])
def test_ci_tests_in_a_folder_of_the_name_that_git_clone_gives(name: str, tmp_path: Path) -> None:
    project = _project(tmp_path / name)
    where = project if name == "pykcoord" else project / "build/ci/pykcoord"
    assert str(where) in _run(project, tmp_path)


def test_ci_tests_what_is_not_committed_and_keeps_what_was_built(tmp_path: Path) -> None:
    project = _project(tmp_path / "checkout")
    (project / "source.txt").write_text("changed\n")
    (project / "new.txt").write_text("new\n")
    assert {"changed", "new"} <= set(_run(project, project))
    (project / "new.txt").write_text("newer\n")
    again = _run(project, project)
    assert {"changed", "newer", "kept"} <= set(again)
    assert "new" not in again
    status = _git(project, "status", "--porcelain").splitlines()
    assert status == [" M source.txt", "?? new.txt"], "the user's index is as it was"
