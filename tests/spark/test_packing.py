"""The archive of `pack` holds all that executors need: another Python imports from it alone."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("pyspark")
from pykcoord_spark import packing
from pykcoord_spark.__main__ import run

from pykcoord.errors import ArgumentError

PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
import click, kio, obstore
import pykcoord, pykcoord.log.shared, pykcoord_spark
assert pykcoord.assign("range", {"t": 2}, {"m": ["t"]})["m"] == [("t", 0), ("t", 1)]
for module in (click, kio, obstore, pykcoord, pykcoord_spark):
    assert module.__file__.startswith(sys.argv[1]), module
"""


def test_everything_is_in_the_archive(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    archive = tmp_path / "site.zip"
    assert run(["pack", "-o", str(archive)]) == 0
    said = capsys.readouterr().out
    assert f"--archives {archive}#kcoord_site" in said
    assert "pykcoord-spark 0." in said
    with zipfile.ZipFile(archive) as opened:
        names = opened.namelist()
        opened.extractall(tmp_path / "site")
    assert len(names) == len(set(names))
    tops = {name.partition("/")[0] for name in names}
    assert not tops & {"pyspark", "pandas", "pyarrow", "numpy", "__pycache__", "bin"}
    assert not [name for name in names if name.endswith((".pyc", ".pyx", ".c")) or ".." in name]
    # -S: without what is installed here.
    subprocess.run(
        [sys.executable, "-S", "-c", PROGRAM, str(tmp_path / "site")],
        cwd=tmp_path, check=True, timeout=60, env={},
    )  # fmt: skip


def test_what_is_not_installed_is_named_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(packing._OURS, "pykcoord-missing", [])
    with pytest.raises(ArgumentError, match="pykcoord-missing is not installed here"):
        packing.pack(tmp_path / "site.zip")
    assert list(tmp_path.iterdir()) == []
