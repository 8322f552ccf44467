"""What `make` says on a machine that lacks something: one line for each, and how to get it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NEEDED = ("bash", "cut", "dirname", "head", "sed", "sort")


@pytest.fixture
def bare_path(tmp_path: Path) -> str:
    """A PATH with what a shell script needs, and no tool chain."""
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
