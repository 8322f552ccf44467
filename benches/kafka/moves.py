"""All of `__consumer_offsets` taken by a node and returned, lost by its death, taken again, and
what became of a million commits that were acknowledged: `python -m benches.kafka.moves`.

Three brokers and a node. Each commit is of a key of its own; after each move every key is read
again. Then the same moves while six client libraries read records and commit all the time, in
groups of their own. It touches no servers and files but its own.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from pathlib import Path

# The cluster and the client libraries are those of the tests.
sys.path.append(str(Path(__file__).parents[2] / "tests"))

from clients.fixtures import Programs
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from node.reading import Reading, Writing
from rich.console import Console
from support.kafka.broker import KafkaBroker
from support.kafka.offsets_topic import make_offsets_topic
from support.kafka.three import three_brokers
from support.server import PykcoordServer
from support.waiting import eventually

from benches.kafka.keyed_commits import ROWS, KeyedCommits
from pykcoord import cli
from pykcoord._native import profile

BUILD = Path(__file__).parents[2] / "build" / "bench"
NODE = 100
GOALS = {"take": 5.0, "return": 10.0}  # seconds
LIBRARIES = ("java", "confluent", "franz-go", "kafka_python", "aiokafka", "sarama")
# It joins again where a heartbeat of its own hears NOT_COORDINATOR, of a broker too.
JOINS_AGAIN = {"sarama"}
_TOPIC, _READ, _READ_PARTITIONS = "topic", "read", 3

console = Console(width=None if sys.stdout.isatty() else 120)


class Moves:
    """A cluster, a node, and what is done to it. `wrong` is what is not as it should be."""

    def __init__(self, brokers: list[KafkaBroker], node: PykcoordServer) -> None:
        self.bootstrap = ",".join(one.address for one in brokers)
        self.node = node
        self.wrong: list[str] = []
        self._admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def make_topics(self) -> None:
        topics = [NewTopic(_TOPIC, ROWS, 1), NewTopic(_READ, _READ_PARTITIONS, 3)]
        for made in self._admin.create_topics(topics).values():
            made.result(60)
        make_offsets_topic(self.bootstrap, _TOPIC)

    def move(self, word: str, *, has_goal: bool = True) -> None:
        """All partitions, by the command of the command line. The goal is of the first million, and
        of no client."""
        began = time.monotonic()
        asked = ["kafka", word, "--bootstrap-servers", self.bootstrap, "--node", str(NODE)]
        assert cli.run(asked) == 0
        seconds = time.monotonic() - began
        _say(f"{word}: {seconds:.1f} s, load average {os.getloadavg()[0]:.0f}")
        if has_goal and seconds > GOALS[word]:
            self.wrong.append(f"{word}: {seconds:.1f} s; the goal is {GOALS[word]:g} s")

    def kill_the_node(self) -> None:
        """Returns once brokers lead all of it."""
        self.node.kill()
        began = time.monotonic()
        eventually(lambda: not self._leaders() & {NODE, -1})
        _say(f"the node killed: brokers lead all after {time.monotonic() - began:.1f} s")

    def _leaders(self) -> set[int]:
        try:
            told = self._admin.list_topics("__consumer_offsets", 2)
        except KafkaException:
            return {-1}  # a node was asked that is gone
        return {of.leader for of in told.topics["__consumer_offsets"].partitions.values()}


class Million:
    """The commits, and how many of them were lost."""

    def __init__(self, moves: Moves, records: int, partitions: int) -> None:
        self._moves = moves
        self._commits = KeyedCommits(moves.bootstrap, _TOPIC, records // ROWS, partitions)
        self._count = records // ROWS * ROWS
        self._base = 0

    def commit(self, where: str) -> None:
        self._base += 1000
        seconds = self._commits.commit(self._base)
        _say(f"{self._count:,} commits at {where}: acknowledged in {seconds:.1f} s")

    def read(self, when: str) -> None:
        lost, seconds = self._commits.lost(self._base)
        _say(f"{when}: {lost:,} of {self._count:,} lost, all read in {seconds:.1f} s")
        if lost:
            self._moves.wrong.append(f"{when}: {lost:,} lost")


def move_with_clients(moves: Moves, directory: Path) -> None:
    """There and back, and what clients saw of it."""
    programs = Programs(directory)
    writing = Writing(moves.bootstrap, _READ, _READ_PARTITIONS)
    libraries = [one for one in LIBRARIES if programs.is_available(one)]
    readers = [Reading(programs, one, moves.bootstrap, _READ) for one in libraries]
    try:
        for reader in readers:
            reader.go_on()
        given = [reader.assignments for reader in readers]
        for word in ("take", "return"):
            for reader in readers:
                reader.phase = word
            moves.move(word, has_goal=False)
            for reader in readers:
                reader.go_on()
        ends = writing.stop()
        for reader, before in zip(readers, given, strict=True):
            reader.finish(ends)
            slowest = ", ".join(f"{word} {reader.slowest[word]:.1f} s" for word in GOALS)
            rebalances = reader.assignments - before
            _say(
                f"{reader.library}: {reader.commits} commits, {len(reader.failures)} failed, "
                f"{rebalances} rebalances; slowest {slowest}"
            )
            failures = [*reader.wrong, *([] if reader.library in JOINS_AGAIN else reader.failures)]
            moves.wrong += [f"{reader.library}: {at}: {text}" for at, text in failures]
            if rebalances and reader.library not in JOINS_AGAIN:
                moves.wrong.append(f"{reader.library}: {rebalances} rebalances")
    finally:
        for reader in readers:
            reader.end()
        writing.end()
        for program in programs.all:
            program.close()


def measure(records: int, partitions: int) -> list[str]:
    """Prints each step; returns what is not as it should be."""
    directory = BUILD / "kafka-moves"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    with three_brokers(directory, offsets_topic_num_partitions=str(partitions)) as brokers:
        bootstrap = ",".join(one.address for one in brokers)
        joins = ["--kafka", bootstrap, "--as", "node"]
        node = PykcoordServer(directory / "node", settings={"node.id": str(NODE)}, arguments=joins)
        moves = Moves(brokers, node)
        moves.make_topics()
        million = Million(moves, records, partitions)
        with node.start():
            _tell_all(moves, million, directory)
    shutil.rmtree(directory, ignore_errors=True)
    return moves.wrong


def _tell_all(moves: Moves, million: Million, directory: Path) -> None:
    million.commit("the brokers")
    moves.move("take")
    million.read("taken")
    moves.move("return")
    million.read("returned")
    moves.move("take", has_goal=False)
    million.commit("the node")
    moves.kill_the_node()
    million.read("the node killed")
    moves.node.start()
    moves.move("take", has_goal=False)
    million.read("taken after its death")
    moves.move("return", has_goal=False)
    million.read("returned at the end")
    move_with_clients(moves, directory)
    million.read("moved with clients")


def main() -> int:
    """Returns 1 if a commit was lost or a goal is missed."""
    parser = argparse.ArgumentParser(
        prog="python -m benches.kafka.moves", description=__doc__.split("\n\n")[0]
    )
    parser.add_argument("--records", type=int, default=1_000_000, help="commits (1,000,000)")
    parser.add_argument("--partitions", type=int, default=50, help="of __consumer_offsets (50)")
    given = parser.parse_args()
    if profile != "release":
        parser.error("the extension is a debug build: `make build`")
    wrong = measure(given.records, given.partitions)
    for one in wrong:
        _say(f"WRONG: {one}")
    return 1 if wrong else 0


def _say(line: str) -> None:
    console.print(line, highlight=False)


if __name__ == "__main__":
    sys.exit(main())
