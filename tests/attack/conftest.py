"""How much of each attack is made: little in the suite, all of it with --attack-full."""

from __future__ import annotations

import pytest

IN_THE_SUITE = 0.02


@pytest.fixture
def full(pytestconfig: pytest.Config) -> bool:
    """Whether attacks are made in the size that hurts."""
    return bool(pytestconfig.getoption("--attack-full"))


@pytest.fixture
def scale(full: bool) -> float:
    return 1.0 if full else IN_THE_SUITE
