"""Options of the whole suite: further folders of recorded data to test against.

Each may be given several times; the folders that the repository holds are always read. A folder of
tests takes them from `config.getoption` in its own conftest.
"""

from __future__ import annotations

from pathlib import Path

import pytest

OPTIONS = {
    "--vectors": "golden vectors (as tests/vectors)",
    "--segments": "logs that Kafka wrote, with the state it reads from them (as tests/segments)",
    "--traces": "recorded client sessions (as tests/traces)",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("pykcoord")
    for option, content in OPTIONS.items():
        group.addoption(
            option, action="append", default=[], type=Path, metavar="DIR", help=f"further {content}"
        )
