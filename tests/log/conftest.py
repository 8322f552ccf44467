"""Recorded logs, unpacked into a folder of their own, and a small log to damage."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support import segments

from pykcoord.log._record_batch import frame


class Scenario(NamedTuple):
    """One folder of tests/segments: a writable copy, and what Kafka reads from it."""

    path: Path
    expected: dict[str, Any]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    folders = segments.folders(metafunc.config)
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
    return lambda name: unpack(segments.OWN / name, tmp_path / name)


def unpack(source: Path, target: Path) -> Scenario:
    return Scenario(segments.unpack(source, target), segments.expected(target))


@pytest.fixture
def batches() -> list[bytes]:
    """Five batches of 1 to 5 records, offsets 0 to 14, of different sizes."""
    made, offset = [], 0
    for count in range(1, 6):
        records = bytes(range(40 * count, 41 * count + 17))
        made.append(frame(records, count, offset, 1000, 1000 + count, 0))
        offset += count
    return made
