"""The library that makes disks fail, compiled once."""

from __future__ import annotations

from pathlib import Path

import pytest

from crash import disk


@pytest.fixture(scope="session")
def faults(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """faults.c as a library to preload."""
    return disk.build(tmp_path_factory.mktemp("faults"))
