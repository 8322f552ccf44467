"""A member's requests, without a server: those of the recorded 0.8.2.2 consumer, in their order."""

from __future__ import annotations

from typing import Any

import pytest

from pykcoord import TopicPartition
from pykcoord.zookeeper import Registration
from pykcoord.zookeeper.coordination import Coordination
from pykcoord.zookeeper.operations import (
    BadVersionError,
    Children,
    Create,
    Delete,
    Exists,
    Get,
    Node,
    NodeExistsError,
    NoNodeError,
    Revoke,
    Session,
    Set,
    Steps,
)

from .recordings import Step, steps, trace

MINE = 7


class Znodes:
    """A ZooKeeper of one session in memory. `asked` is what was asked of it."""

    def __init__(self, step: Step | None = None) -> None:
        self.nodes: dict[str, tuple[bytes | None, int, int]] = {}
        self.asked: list[tuple[str, str, bool | None]] = []
        for path, data in (step.data if step else {}).items():
            self.nodes[path] = (data, 0, 0)

    def run(self, steps: Steps[Any]) -> Any:
        answer: Any = None
        error: Exception | None = None
        while True:
            try:
                operation = steps.send(answer) if error is None else steps.throw(error)
            except StopIteration as stop:
                return stop.value
            answer, error = None, None
            try:
                answer = self._answer(operation)
            except (NoNodeError, NodeExistsError, BadVersionError) as raised:
                error = raised

    def _answer(self, operation: Any) -> Any:
        if isinstance(operation, Session | Revoke):
            return MINE
        path = operation.path
        self.asked.append((type(operation).__name__, path, getattr(operation, "watch", None)))
        if isinstance(operation, Create):
            if path in self.nodes:
                raise NodeExistsError(path)
            parent = path.rpartition("/")[0]
            if parent and parent not in self.nodes:
                raise NoNodeError(path)
            self.nodes[path] = (operation.data, 0, MINE if operation.ephemeral else 0)
            return None
        if isinstance(operation, Exists):
            return self._node(path) if path in self.nodes else None
        if path not in self.nodes:
            raise NoNodeError(path)
        return self._of_present(operation, path)

    def _of_present(self, operation: Any, path: str) -> Any:
        data, version, owner = self.nodes[path]
        match operation:
            case Get():
                return self._node(path)
            case Children():
                below = path + "/"
                rests = (one.removeprefix(below) for one in self.nodes if one.startswith(below))
                return [rest for rest in rests if "/" not in rest]
            case Delete():
                if operation.version not in (-1, version):
                    raise BadVersionError(path)
                del self.nodes[path]
            case Set():
                if operation.version not in (-1, version):
                    raise BadVersionError(path)
                self.nodes[path] = (operation.data, version + 1, owner)
                return version + 1
        return data

    def _node(self, path: str) -> Node:
        data, version, owner = self.nodes[path]
        return Node(data, version, 0, 0, owner)


NAMES = {"create": "Create", "delete": "Delete", "exists": "Exists", "getData": "Get",
         "setData": "Set", "getChildren": "Children"}  # fmt: skip


def _recorded(name: str, until: str) -> list[tuple[str, str, bool | None]]:
    """What the first connection asked, up to its first commit, without what fetchers ask."""
    found: list[tuple[str, str, bool | None]] = []
    for line in trace(name):
        if line["conn"] != 1 or line["dir"] != ">" or line["op"] not in NAMES:
            continue
        if "/partitions/" in line["path"]:
            continue
        if line["op"] == until:
            return found
        found.append((NAMES[line["op"]], line["path"], line.get("watch")))
    return found


def _sorted_claims(asked: list[tuple[str, str, bool | None]]) -> list[tuple[str, str, bool | None]]:
    """The reads of offsets and the claims go in the order of a hash map: sorted here."""
    leaves = [one for one in asked if "/offsets/" in one[1] or "/owners" in one[1]]
    others = [one for one in asked if one not in leaves]
    return [*others, *sorted(set(leaves), key=str)]


def test_a_first_join_asks_what_the_old_consumer_asked() -> None:
    step = steps("range-static")[0]
    znodes = Znodes(step)
    for path in [path for path in znodes.nodes if path.startswith("/consumers/")]:
        del znodes.nodes[path]
    znodes.nodes["/consumers"] = (None, 0, 0)
    registration = Registration({"A": 1, "B": 2})
    one = Coordination("range-static", "range-static_c1", registration, "range")
    assert znodes.run(one.register(registration))
    znodes.run(one.subscribe())
    assert znodes.run(one.attempt()).failure is None
    recorded = _recorded("range-static", "setData")
    # At its end the old consumer reads the brokers for its fetchers.
    assert _sorted_claims(znodes.asked) == _sorted_claims(recorded[:-2])
    assert [one[0] for one in recorded[-2:]] == ["Children", "Get"]


@pytest.fixture
def member() -> tuple[Znodes, Coordination]:
    znodes = Znodes()
    for path in ("/consumers", "/brokers", "/brokers/ids", "/brokers/ids/1", "/brokers/topics"):
        znodes.nodes[path] = (None, 0, 0)
    znodes.nodes["/brokers/topics/A"] = (b'{"partitions":{"0":[1],"1":[1]}}', 0, 0)
    registration = Registration({"A": 1})
    one = Coordination("g", "g_c1", registration, "range")
    assert znodes.run(one.register(registration))
    assert znodes.run(one.attempt()).failure is None
    return znodes, one


def test_a_conflict_gives_back_all_claims_of_the_attempt(
    member: tuple[Znodes, Coordination],
) -> None:
    znodes, one = member
    znodes.run(one._release())
    znodes.nodes["/consumers/g/owners/A/1"] = (b"g_c2-0", 0, 9)
    outcome = znodes.run(one.attempt())
    assert outcome.conflicts == 1
    assert outcome.failure == "/consumers/g/owners/A/1: is claimed by g_c2-0, not by g_c1-0"
    assert one.owned == {}
    assert "/consumers/g/owners/A/0" not in znodes.nodes


def test_a_claim_that_was_made_before_a_lost_reply_is_its_own(
    member: tuple[Znodes, Coordination],
) -> None:
    znodes, one = member
    one.forget()
    assert znodes.run(one.attempt()).failure is None
    assert len(one.owned) == 2


def test_without_brokers_an_attempt_watches_for_them(member: tuple[Znodes, Coordination]) -> None:
    znodes, one = member
    del znodes.nodes["/brokers/ids/1"]
    znodes.asked.clear()
    assert znodes.run(one.attempt()).failure is None
    assert znodes.asked[-2:] == [
        ("Exists", "/brokers/ids", True),
        ("Children", "/brokers/ids", True),
    ]


def test_a_registration_that_vanishes_fails_the_attempt(
    member: tuple[Znodes, Coordination],
) -> None:
    znodes, one = member
    del znodes.nodes["/consumers/g/ids/g_c1"]
    assert znodes.run(one.attempt()).failure == "/consumers/g/ids/g_c1: no such znode"


def test_a_reply_that_was_lost_is_known_by_its_data(member: tuple[Znodes, Coordination]) -> None:
    znodes, one = member
    assert znodes.run(one.register(one.registration))
    assert not znodes.run(one.register(Registration({"A": 1}, timestamp="9")))


def test_commits_make_their_parents(member: tuple[Znodes, Coordination]) -> None:
    znodes, one = member
    znodes.asked.clear()
    znodes.run(one.commit({TopicPartition("A", 1): 10}))
    offset = "/consumers/g/offsets/A/1"
    assert znodes.nodes[offset][0] == b"10"
    assert [ask[:2] for ask in znodes.asked] == [
        ("Set", offset), ("Create", "/consumers/g/offsets/A"), ("Create", "/consumers/g/offsets"),
        ("Create", "/consumers/g/offsets/A"), ("Create", offset),
    ]  # fmt: skip
    znodes.asked.clear()
    znodes.run(one.commit({TopicPartition("A", 1): 10}))
    assert znodes.asked == []
