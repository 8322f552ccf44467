"""The names of `import pykcoord`, and its cost."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import pykcoord
from pykcoord import errors

ROOT = Path(__file__).parents[2]
# Itself, `__future__`, and `importlib` with what it needs. `typing` alone would bring twenty.
_MOST_MODULES = 8


def test_importing_pykcoord_loads_next_to_nothing() -> None:
    """No part of pykcoord, no library, and hardly anything of the standard library."""
    program = (
        "import sys; before = set(sys.modules)\n"
        "import pykcoord\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = done.stdout.split()
    assert [name for name in loaded if name.startswith("pykcoord")] == ["pykcoord"]
    assert len(loaded) <= _MOST_MODULES, loaded


def test_every_public_name_is_there_and_has_a_home() -> None:
    for name in pykcoord.__all__:
        assert getattr(pykcoord, name) is not None
        assert name in dir(pykcoord)
    assert sorted(pykcoord._HOME) == sorted(pykcoord.__all__)


def test_what_users_catch_is_public() -> None:
    for name in errors.__all__:
        assert getattr(pykcoord, name) is getattr(errors, name)
    for name in ("RefusedFrames", "ReplayError"):
        assert issubclass(getattr(pykcoord, name), Exception)


def test_the_version_is_that_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert pykcoord.__version__ == project["version"]


@pytest.mark.parametrize(
    ("use", "library", "extra"),
    [
        ("from pykcoord.zookeeper import ZooKeeperMember", "kazoo", "zookeeper"),
        ("import pykcoord.web.listener", "starlette", "web"),
        ("import pykcoord.web.listener", "uvicorn", "web"),
        ("from pykcoord.arrow import REQUEST", "pyarrow", "arrow"),
    ],
)
def test_what_needs_an_extra_names_it_where_it_is_missing(
    use: str, library: str, extra: str
) -> None:
    program = f"import sys; sys.modules[{library!r}] = None; {use}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stderr.endswith(f": pip install 'pykcoord[{extra}]'\n"), done.stderr
