"""For all benchmarks: their size, and the refusal to measure a debug build.

`--size smoke` runs everything in seconds, as the test suite does; its figures mean nothing, and
gates are not held against them. `--size small` holds the gates with a fifth of the work.
"""

from __future__ import annotations

import pytest

from benches.gate import Size
from pykcoord import _native


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("pykcoord benchmarks")
    group.addoption("--size", choices=["full", "small", "smoke"], default="full", help="how much")


def pytest_configure(config: pytest.Config) -> None:
    if _native.profile != "release" and config.getoption("--size") != "smoke":
        raise pytest.UsageError(
            f"pykcoord._native is a {_native.profile} build: its figures would mean nothing; "
            "`pip install --editable .` makes a release build"
        )


@pytest.fixture(scope="session")
def size(pytestconfig: pytest.Config) -> Size:
    return Size(pytestconfig.getoption("--size"))
