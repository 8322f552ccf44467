"""Recorded logs of Kafka, unpacked, and servers on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from support import segments
from support.server import PykcoordServer

Serve = Callable[..., PykcoordServer]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "scenario" in metafunc.fixturenames:
        folders = segments.folders(metafunc.config)
        metafunc.parametrize("scenario", folders, ids=lambda path: path.name, indirect=True)


@pytest.fixture
def scenario(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A data directory: the folders that were left out because they held nothing are made."""
    directory = segments.unpack(request.param, tmp_path / request.param.name)
    for number in range(segments.expected(directory)["offsets_topic_num_partitions"]):
        (directory / f"__consumer_offsets-{number}").mkdir(exist_ok=True)
    return directory


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts `pykcoord serve DIRECTORY`; servers that still run at the end of the test are
    ended."""
    with ExitStack() as stack:

        def start(directory: Path, partitions: int, *arguments: str) -> PykcoordServer:
            server = PykcoordServer(
                directory,
                settings={"offsets.topic.num.partitions": str(partitions)},
                arguments=arguments,
            )
            return stack.enter_context(server)

        yield start
