"""Servers, client programs and groups for the client scenarios."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.cluster import Cluster, new_group, new_server

from clients import build
from clients.driver import ClientConsumer, Program

LANGUAGES = {
    "confluent": "python",
    "kafka_python": "python",
    "aiokafka": "python",
    "java": "java",
    "franz-go": "go",
    "kafka-go": "go",
    "sarama": "go",
    "kafkajs": "node",
}
# Long, so that what is seen within driver.WAIT_S is not a session that expired.
SETTINGS = {
    "protocol": "classic",
    "assignor": "range",
    "server_assignor": None,
    "topics": [],
    "pattern": None,
    "instance": None,
    "reset": "earliest",
    "session_timeout_ms": 60_000,
    "heartbeat_interval_ms": 250,
    "rebalance_timeout_ms": 60_000,
    "metadata_max_age_ms": 60_000,
}


@pytest.fixture(scope="session")
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """The server that scenarios share; each uses groups and topics of its own."""
    with new_server(request, tmp_path_factory.mktemp("server") / "data").start() as server:
        yield Cluster(server)


@pytest.fixture
def mortal_cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    """A server of the test's own, to be killed."""
    with new_server(request, tmp_path / "data").start() as server:
        yield Cluster(server)


# Where a node may be away: who does not hear of a rebalance then is waited for. sarama and kafka-go
# say once that they leave; a node that is away does not hear it, and the session has to end.
SEVERAL_SETTINGS = {"session_timeout_ms": 20_000, "rebalance_timeout_ms": 20_000}


class Programs:
    """The client programs of a session: one a library, and further ones to be killed."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.shared: dict[str, Program] = {}
        self.all: list[Program] = []

    def of(self, library: str) -> Program:
        if library not in self.shared or not self.shared[library].is_alive:
            self.shared[library] = self.another(library)
        return self.shared[library]

    def is_available(self, library: str) -> bool:
        return build.missing_tool(LANGUAGES[library]) is None

    def another(self, library: str) -> Program:
        if (reason := build.missing_tool(LANGUAGES[library])) is not None:
            pytest.skip(f"{library}: {reason}")
        stderr = self.directory / f"{library}-{len(self.all)}.stderr"
        program = Program(library, build.command(library), stderr)
        self.all.append(program)
        return program


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    programs = Programs(tmp_path_factory.mktemp("programs"))
    yield programs
    for program in programs.all:
        program.close()


class Crew:
    """Consumers of one group; those still open at the end of the test are closed for it."""

    def __init__(self, programs: Programs, address: str) -> None:
        self.programs = programs
        self.address = address
        self.group = new_group()
        self.consumers: list[ClientConsumer] = []

    def open(
        self, library: str, name: str, *, program: Program | None = None, **settings: Any
    ) -> ClientConsumer:
        program = program or self.programs.of(library)
        settings = {**self._defaults(), **settings}
        consumer = program.open(
            f"{self.group}-{name}-{len(self.consumers)}", bootstrap=self.address,
            group=self.group, **settings,
        )  # fmt: skip
        self.consumers.append(consumer)
        return consumer

    def _defaults(self) -> dict[str, Any]:
        return {**SETTINGS, **SEVERAL_SETTINGS} if "," in self.address else SETTINGS

    def close(self) -> None:
        # kafka-go leaves without a word when it is closed in the middle of a join. Others, which
        # would wait in their own close for the rebalance to end, go before it.
        for consumer in sorted(self.consumers, key=lambda one: one.program.library == "kafka-go"):
            if consumer.is_open and consumer.program.is_alive:
                consumer.close()


@pytest.fixture
def new_crew(programs: Programs) -> Iterator[Callable[[Cluster], Crew]]:
    crews: list[Crew] = []

    def make(cluster: Cluster) -> Crew:
        crews.append(Crew(programs, cluster.address))
        return crews[-1]

    yield make
    for crew in crews:
        crew.close()


@pytest.fixture
def crew(new_crew: Callable[[Cluster], Crew], cluster: Cluster) -> Crew:
    return new_crew(cluster)
