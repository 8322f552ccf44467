"""Recorded logs, unpacked into a folder of their own, and a small log to damage."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pykcoord.log._record_batch import frame

OWN = Path(__file__).parent.parent / "segments"


class Scenario(NamedTuple):
    """One folder of tests/segments: a writable copy, and what Kafka reads from it."""

    path: Path
    expected: dict[str, Any]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    given = metafunc.config.getoption("--segments")
    folders = [path for root in (OWN, *given) for path in sorted(root.iterdir()) if path.is_dir()]
    torn = [path for path in folders if path.name.startswith("torn-")]
    for name, chosen in (("scenario", folders), ("torn", torn)):
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, chosen, ids=lambda path: path.name, indirect=True)


@pytest.fixture
def scenario(request: pytest.FixtureRequest, tmp_path: Path) -> Scenario:
    return unpack(request.param, tmp_path / "log")


@pytest.fixture
def torn(request: pytest.FixtureRequest, tmp_path: Path) -> Scenario:
    return unpack(request.param, tmp_path / "log")


@pytest.fixture
def unpacked(tmp_path: Path) -> Callable[[str], Scenario]:
    """Unpacks a scenario by its name."""
    return lambda name: unpack(OWN / name, tmp_path / name)


def unpack(source: Path, target: Path) -> Scenario:
    shutil.copytree(source, target)
    for path in [path for path in target.rglob("*") if path.is_file()]:
        path.chmod(0o644)
        if path.suffix == ".gz":
            path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
            path.unlink()
    return Scenario(target, json.loads((target / "expected.json").read_text()))


@pytest.fixture
def batches() -> list[bytes]:
    """Five batches of 1 to 5 records, offsets 0 to 14, of different sizes."""
    made, offset = [], 0
    for count in range(1, 6):
        records = bytes(range(40 * count, 41 * count + 17))
        made.append(frame(records, count, offset, 1000, 1000 + count, 0))
        offset += count
    return made
