"""What `make` needs, fetches and prints: for a missing tool one line and how to get it; for a long
step, its progress."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NEEDED = ("bash", "cut", "dirname", "head", "sed", "sort")


@pytest.fixture
def bare_path(tmp_path: Path) -> str:
    """A PATH with the commands of shell scripts, and without a tool chain."""
    for name in NEEDED:
        found = shutil.which(name)
        assert found is not None
        (tmp_path / name).symlink_to(found)
    return str(tmp_path)


def _require(path: str, *tools: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", str(ROOT / ".ci/require"), *tools],
        env={"PATH": path}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip


def test_each_missing_tool_is_one_line(bare_path: str) -> None:
    result = _require(bare_path, "python", "cargo", "cc", "java")
    assert result.returncode == 1
    missing = [line.partition(":")[0::2] for line in result.stderr.splitlines()]
    assert [kind for kind, _ in missing] == ["missing"] * 5
    for (_, said), tool in zip(
        missing, ["Python 3.11", "cargo", "C compiler", "Java 17", "Maven"], strict=True
    ):
        assert tool in said
        assert "install" in said or "rustup" in said


def test_an_old_rust_is_told_from_a_new_one(bare_path: str, tmp_path: Path) -> None:
    cargo = tmp_path / "cargo"
    for version, code in (("1.89.0", 1), ("1.90.0", 0), ("1.100.1", 0)):
        cargo.write_text(f"#!/bin/bash\necho 'cargo {version} (abc 2026-01-01)'\n")
        cargo.chmod(0o755)
        result = _require(bare_path, "cargo")
        assert result.returncode == code, result.stderr
        assert ("rustup update" in result.stderr) == bool(code)


def test_targets_explain_themselves() -> None:
    result = subprocess.run(
        ["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    named = {line.split()[1] for line in result.stdout.splitlines()}
    assert {
        "demo",
        "test",
        "help",
        "build",
        "lint",
        "bench",
        "bench-kafka",
        "docs",
        "clean",
    } <= named


def test_the_demo_fetches_what_it_needs_and_no_development_environment(tmp_path: Path) -> None:
    commands = _make("demo", tmp_path)
    assert "requirements-demo.txt" in commands
    assert "--requirement requirements-dev.txt" not in commands
    assert "spark" not in commands


def test_a_test_after_the_demo_fetches_the_rest_and_builds_nothing_again(tmp_path: Path) -> None:
    for stamp in (".python", ".requirements", ".installed"):
        (tmp_path / stamp).touch()
    commands = _make("build", tmp_path)
    assert "--requirement requirements-dev.txt" in commands
    for done in ("venv --clear", "requirements-demo.txt", "--editable .\n"):
        assert done not in commands


def test_the_demo_and_the_tests_use_the_same_versions() -> None:
    """So that neither uninstalls a package of the other."""
    demo, dev = (_locked(f"requirements-{name}.txt") for name in ("demo", "dev"))
    assert demo.items() <= dev.items()
    with (ROOT / "pyproject.toml").open("rb") as file:
        declared = tomllib.load(file)
    project = declared["project"]
    wanted = declared["build-system"]["requires"] + project["dependencies"]
    wanted += project["optional-dependencies"]["demo"]
    assert {_name(each) for each in wanted} <= set(demo)


def test_setting_up_says_how_far_it_is_and_all_that_pip_said_when_it_fails(tmp_path: Path) -> None:
    there = "Requirement already satisfied: rich==15.0.0 in lib (from -r x (line 1)) (15.0.0)"
    said = [there, *["Collecting kio==0.6.5"] * 9, "Installing collected packages: kio", "no room"]
    for code in (0, 1):
        pip = tmp_path / "pip"
        pip.write_text("\n".join(["#!/bin/bash", *(f"echo '{x}'" for x in said), f"exit {code}"]))
        pip.chmod(0o755)
        ran = subprocess.run(
            [ROOT / ".ci/install", "12", "packages", "--requirement", "x"],
            env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert ran.returncode == code
        assert ran.stdout.splitlines() == [
            "make:   10 of 12 packages: kio==0.6.5",
            "make:   10 of 12 packages, now installing",
        ]
        assert ran.stderr.splitlines() == (said if code else [])


def _make(target: str, environment: Path) -> str:
    """The commands that `make` would run for a target with this folder as its .venv."""
    return subprocess.run(
        ["make", "--dry-run", target, f"VENV={environment}"],
        cwd=ROOT, capture_output=True, text=True, check=True, timeout=60,
    ).stdout  # fmt: skip


def _locked(file: str) -> dict[str, str]:
    lines = (ROOT / file).read_text().splitlines()
    pairs = (line.split("==") for line in lines if not line.startswith("#"))
    return {_name(name): version for name, version in pairs}


def _name(requirement: str) -> str:
    found = re.match(r"[\w-]+", requirement)
    assert found is not None
    return found[0].lower().replace("_", "-")
