"""Parametrizes what asks for a `trace` with the recorded sessions, one test each."""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "trace" in metafunc.fixturenames:
        own = Path(__file__).parent.parent / "traces"
        given = metafunc.config.getoption("--traces")
        traces = [path for folder in (own, *given) for path in sorted(folder.glob("*.jsonl.gz"))]
        metafunc.parametrize("trace", traces, ids=lambda path: path.name.removesuffix(".jsonl.gz"))
