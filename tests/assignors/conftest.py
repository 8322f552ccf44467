"""All cases: those of the repository, and those of every `--vectors DIR`."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import assignor_cases
from support.assignor_cases import Case

VECTORS = Path(__file__).parent.parent / "vectors"


@pytest.fixture(scope="session")
def all_cases(pytestconfig: pytest.Config) -> list[Case]:
    folders = [VECTORS, *pytestconfig.getoption("--vectors")]
    found = [case for folder in folders for case in assignor_cases.read(folder)]
    assert len(found) >= 688
    return found
