"""Six client libraries read real records in groups that a node leads, whatever happens to the node
and to its cluster: nothing is lost, stale or doubled. Long: `make test-kafka`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from clients.fixtures import Programs
from cluster.check.history import judge
from confluent_kafka.admin import AdminClient, NewTopic
from support.kafka.broker import KafkaBroker
from support.server import PykcoordServer

from .reading import Checking, Reading, Writing, without_new_leaders
from .test_real_cluster import (
    _active_controller,
    _bootstrap,
    _in_sync,
    _kafka,
    _leaders,
    _node,
    _until,
    brokers,
)

__all__ = ["brokers"]

pytestmark = [pytest.mark.java, pytest.mark.client, pytest.mark.timeout(1500)]

_LIBRARIES = ("java", "confluent", "franz-go", "kafka_python", "aiokafka", "sarama")
# It joins again where a heartbeat of its own hears NOT_COORDINATOR, of a broker too.
_JOINS_AGAIN = {"sarama"}
_PARTITIONS = 3


class _Story:
    """All that runs, and what is done to it."""

    def __init__(self, brokers: list[KafkaBroker], node: PykcoordServer, node_id: int) -> None:
        self.brokers, self.node, self.id = brokers, node, node_id
        self.readers: list[Reading] = []

    def phase(self, name: str, step: Callable[[], object]) -> None:
        """Everybody goes on afterwards."""
        for one in self.readers:
            one.phase = name
        step()
        self.all_go_on()

    def all_go_on(self) -> None:
        for one in self.readers:
            one.go_on()

    def take(self) -> None:
        assert _kafka(self.brokers, "take", node_id=self.id) == 0
        assert _leaders(self.brokers, self.id) == {self.id}

    def give_back(self) -> None:
        assert _kafka(self.brokers, "return", node_id=self.id) == 0
        assert self.id not in _leaders(self.brokers, self.id)

    def kill_the_controller(self) -> None:
        controller = self.brokers[_active_controller(self.brokers) - 1]
        controller.kill()
        self.all_go_on()
        assert _leaders(self.brokers, self.id) == {self.id}
        controller.start()
        self.all_in_sync()

    def restart_the_brokers(self) -> None:
        for broker in self.brokers:
            broker.stop()
            self.all_go_on()
            broker.start()
            self.all_in_sync()
        assert _leaders(self.brokers, self.id) == {self.id}

    def all_in_sync(self) -> None:
        _until(lambda: _in_sync(self.brokers) >= {1, 2, 3})


@contextmanager
def _told(brokers: list[KafkaBroker], directory: Path, node_id: int) -> Iterator[_Story]:
    """Judged at its end."""
    bootstrap, topic = _bootstrap(brokers), f"read-{node_id}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, _PARTITIONS, 3)])[topic].result(60)
    node, programs = _node(brokers, directory / "node", node_id), Programs(directory)
    addresses = [("127.0.0.1", one.port) for one in (*brokers, node)]
    writing = Writing(bootstrap, topic, _PARTITIONS)
    checking = Checking(addresses, f"checked-{node_id}", groups=2, members=2)
    story = _Story(brokers, node, node_id)
    try:
        for library in _LIBRARIES:
            story.readers.append(Reading(programs, library, bootstrap, topic))
        story.phase("brokers alone", node.start)
        given = {one.library: one.assignments for one in story.readers}
        yield story
        writing.stop()
        for one in story.readers:
            one.finish(writing.ends)
            assert one.committed(writing.ends) == writing.ends, one.library
            assert one.wrong == [], one.library
            read = one.consumer.read().values()
            assert [row.skipped for row in read] == [0] * _PARTITIONS, one.library
            if one.library not in _JOINS_AGAIN:
                assert one.assignments == given[one.library], one.library
                assert [row.doubled for row in read] == [0] * _PARTITIONS, one.library
                moves = ("take", "return", "take again", "return at the end")
                failed = [text for at, text in one.failures if at in moves]
                # A broker that loads says so, and librdkafka gives up the third time.
                assert [text for text in failed if "LOAD_IN" not in text] == [], one.library
        outcome = checking.outcome()
        assert judge(without_new_leaders(outcome.history, node.address)) == []
        assert outcome.counts()["commits acknowledged"] > 500
    finally:
        for one in story.readers:
            sys.stderr.write(
                f"{one.library}: {one.commits} commits, {one.assignments} assignments, "
                f"{one.failures[-20:]}, {one.wrong}, slowest {one.slowest}\n"
            )
        writing._ends.set()
        for program in programs.all:
            program.close()
        outcome = checking.outcome()
        outcome.history.write(directory / "seen.jsonl")
        sys.stderr.write(f"{outcome.to_json()}\n")
        if node.running:
            node.stop()
        sys.stderr.write(node.stderr()[-3000:])


def test_taken_returned_and_killed(brokers: list[KafkaBroker], tmp_path: Path) -> None:
    with _told(brokers, tmp_path, 130) as story:
        story.phase("take", story.take)
        story.phase("return", story.give_back)
        story.phase("take again", story.take)
        story.phase("node killed", story.node.kill)
        story.phase("node started", story.node.start)
        story.phase("take after a kill", story.take)
        story.phase("return at the end", story.give_back)


def test_brokers_die_and_are_restarted(brokers: list[KafkaBroker], tmp_path: Path) -> None:
    with _told(brokers, tmp_path, 131) as story:
        story.phase("take", story.take)
        story.phase("controller killed", story.kill_the_controller)
        story.phase("brokers restarted", story.restart_the_brokers)
        story.phase("return at the end", story.give_back)
