"""Options of the whole suite: further recorded data, another server, more rounds.

A folder of data may be given several times; those that the repository holds are always read. A
folder of tests takes its options from `config.getoption` in its own conftest.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

OPTIONS = {
    "--vectors": "golden vectors (as tests/vectors)",
    "--segments": "logs that Kafka wrote, with the state it reads from them (as tests/segments)",
    "--traces": "recorded client sessions (as tests/traces)",
}

# kio imports hypothesis where that is installed, which takes 3 s where the folder of the process
# has no tables of characters yet: all processes of the tests share some.
_TABLES = Path(__file__).parents[1] / ".hypothesis"
os.environ.setdefault("HYPOTHESIS_STORAGE_DIRECTORY", str(_TABLES))


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("pykcoord")
    for option, content in OPTIONS.items():
        group.addoption(
            option, action="append", default=[], type=Path, metavar="DIR", help=f"further {content}"
        )
    group.addoption(
        "--server",
        choices=("pykcoord", "kafka", "nodes", "cluster"),
        default="pykcoord",
        help="what clients and tools are run against; kafka: Apache Kafka itself, to judge a test; "
        "nodes, cluster: three nodes of one directory, or over one folder, of which one is killed "
        "in the middle of each test of tests/clients",
    )
    group.addoption(
        "--crash-rounds",
        type=int,
        default=3,
        metavar="N",
        help="how often the server is killed under load (default: 3)",
    )
    group.addoption(
        "--crash-matrix",
        action="store_true",
        help="every cell of the crash matrix at every moment, with and without a power cut",
    )
    group.addoption(
        "--java-cases",
        type=int,
        default=150,
        metavar="N",
        help="random groups per assignor that Kafka's own classes are asked about (default: 150)",
    )
    group.addoption(
        "--attack-full", action="store_true", help="attacks of tests/attack in the size that hurts"
    )
    group.addoption(
        "--zookeeper-all", action="store_true", help="the long tests of groups on a ZooKeeper"
    )
    group.addoption(
        "--kafka-all", action="store_true", help="the long tests of watching a real cluster"
    )
    group.addoption(
        "--kafka-minutes",
        type=float,
        default=10.0,
        metavar="N",
        help="how long groups come and go in them (default: 10)",
    )
    group.addoption(
        "--fault-book", action="store_true", help="the faults of tests/explain with real clients"
    )
    group.addoption(
        "--s3", action="store_true", help="the faults of tests/cluster over an S3 server as well"
    )
    group.addoption(
        "--spark-all", action="store_true", help="the long tests of tests/spark as well"
    )


@pytest.fixture(autouse=True)
def _root_logger_as_it_was() -> Iterator[None]:
    """A command that runs in this process sends all logs to the stderr of its test."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
