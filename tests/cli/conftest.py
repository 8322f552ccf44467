"""The command line, called in this process, and copies of recorded logs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from support import segments

from pykcoord import cli


class Result(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def pykcoord(capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """Runs `pykcoord ARGUMENTS...`."""

    def run(*arguments: object) -> Result:
        code = cli.run([str(argument) for argument in arguments])
        return Result(code, *capsys.readouterr())

    return run


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    folders = segments.folders(metafunc.config)
    torn = [path for path in folders if path.name.startswith("torn-1-")]
    for name, chosen in (("scenario", folders), ("torn", torn)):
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, chosen, ids=lambda path: path.name, indirect=True)


@pytest.fixture
def scenario(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return segments.unpack(request.param, tmp_path / request.param.name)


@pytest.fixture
def torn(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return segments.unpack(request.param, tmp_path / request.param.name)
