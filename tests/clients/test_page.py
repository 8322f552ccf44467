"""docs/consumer-groups.md: its example and its commands, as a reader pastes them."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.pages import ROOT, examples_of, run_example
from support.server import PykcoordServer

PAGE = "docs/consumer-groups.md"
ADDRESS = "127.0.0.1:9092"
SETTINGS = {
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "250",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PykcoordServer]:
    directory = tmp_path_factory.mktemp("page") / "groups-data"
    with PykcoordServer(directory, topics={"orders": 6}, settings=SETTINGS).start() as server:
        yield server


def commands(first_word: str) -> list[str]:
    text = (ROOT / PAGE).read_text().replace("\\\n", " ")
    return [line.strip() for line in text.splitlines() if line.startswith(f"    {first_word} ")]


def test_a_group_from_nothing(server: PykcoordServer, tmp_path: Path) -> None:
    ((code, printed),) = examples_of(PAGE)
    assert ADDRESS in code
    assert run_example(code.replace(ADDRESS, server.address), tmp_path) == printed
    (state,) = commands("pykcoord log state")
    command = [*shlex.split(state)[1:]]
    shown = subprocess.run(
        [sys.executable, "-m", "pykcoord", *command],
        cwd=server.directory.parent, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert shown.stdout.splitlines()[2].split()[:3] == ["billing", "consumer", "Empty"]
    assert "42" in shown.stdout


@pytest.mark.parametrize("command", commands("pykcoord serve"))
def test_the_server_starts_as_the_page_says(command: str, tmp_path: Path) -> None:
    words = shlex.split(command)[1:]
    process = subprocess.Popen(
        [sys.executable, "-m", "pykcoord", *words, "--listen", "127.0.0.1:0"],
        cwd=tmp_path, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("pykcoord ready ")
    finally:
        process.terminate()
        process.wait(60)
