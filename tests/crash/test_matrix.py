"""The crash matrix: the server is killed at every change that an operation makes to the disk.
Afterwards everything acknowledged is there, the operation has happened whole or not at all, and
other groups are as before. docs/crash-testing.md shows the cells.
"""

from __future__ import annotations

import itertools
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.server import ServerError

from crash.operations import CELLS, EVERY_START, OPERATIONS, Attempt, Operation
from crash.points import POINTS, name_of
from crash.world import Seen, World

pytestmark = pytest.mark.crash
LONGEST_S = 60.0
LOSSES = ("kill", "power cut", "torn write")


class Worlds:
    """Hands out worlds: one that served an operation serves the next of the same kind."""

    def __init__(self, root: Path, library: Path) -> None:
        self._root = root
        self._library = library
        self._numbers = itertools.count()
        self._idle: World | None = None
        self._made: list[World] = []

    def take(self, operation: Operation) -> World:
        world, self._idle = self._idle, None
        again = not operation.is_first
        if world is None or not again or tuple(world.server.arguments) != operation.arguments:
            if world is not None:
                world.close()
            root = self._root / str(next(self._numbers))
            world = World(root, self._library, operation.arguments)
            self._made.append(world)
            if again or not operation.is_start:
                world.server.start()
            if again:
                world.populate()
                world.disconnect()
                world.server.kill()
                world.server.start()  # makes all of it durable, whatever the flush policy
        if again:
            world.warm_up()
        return world

    def give_back(self, world: World, operation: Operation) -> None:
        """It runs, and nothing of it was lost."""
        if operation.is_first:
            world.close()
        else:
            self._idle = world

    def close(self) -> None:
        """All of them: one that failed before it was handed out still runs."""
        for world in self._made:
            world.close()


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory, faults: Path) -> Iterator[Worlds]:
    made = Worlds(tmp_path_factory.mktemp("worlds"), faults)
    yield made
    made.close()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """With --crash-matrix each cell in all ways. Otherwise each only in the way that is hardest to
    survive; changes that every start makes are tried in one cell only."""
    if "cell" not in metafunc.fixturenames:
        return
    if metafunc.config.getoption("--crash-matrix"):
        cells = [
            (operation, point, moment, loss)
            for operation, point in CELLS
            for moment in (*(["half"] if point.endswith(".write") else []), "before", "after")
            for loss in LOSSES
        ]
    else:
        cells = [
            (operation, point, "half", "kill")
            if point.endswith(".write")
            else (operation, point, "after", "power cut")
            for operation, point in CELLS
            if point not in EVERY_START or not is_later_start(OPERATIONS[operation])
        ]
    metafunc.parametrize("cell", cells, ids=lambda cell: "-".join(cell).replace(" ", "_"))


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=lambda operation: operation.name)
def test_every_change_of_the_disk_has_its_cell(operation: Operation, worlds: Worlds) -> None:
    """Nothing is written, synced, renamed or cut besides the changes of the table, and everything
    acknowledged survives a power cut."""
    world = worlds.take(operation)
    try:
        attempt = operation.prepare(world)
        before = attempt.before if operation.is_start else world.look()
        start = len(world.disk.changes())
        world.disk.fail(*attempt.rules)
        assert was_acknowledged(attempt), world.server.stderr()
        deadline = time.monotonic() + LONGEST_S
        while not set(operation.points) <= (passed := names(world, start)):
            missing = set(operation.points) - passed
            assert time.monotonic() < deadline, f"not passed: {missing}"
            time.sleep(0.01)
        if world.server.running:
            assert passed == set(operation.points)
            check(world, attempt, before, acknowledged=True)
            world.disconnect()
            world.server.kill()
        world.disk.cut_power()
        world.server.start()
        check(world, attempt, before, acknowledged=True)
    except BaseException:
        world.close()
        raise
    worlds.give_back(world, operation)


def test_killed_at(cell: tuple[str, str, str, str], worlds: Worlds) -> None:
    name, point, moment, loss = cell
    operation = OPERATIONS[name]
    world = worlds.take(operation)
    try:
        attempt = operation.prepare(world)
        before = attempt.before if operation.is_start else world.look()
        nth = str(1 + attempt.passed.get(point, 0))
        world.disk.fail(*attempt.rules, POINTS[point].rule(moment, "kill", nth))
        acknowledged = was_acknowledged(attempt)
        await_kill(world)
        world.disk.fail()
        if loss != "kill":
            world.disk.cut_power(torn=loss == "torn write")
        if attempt.asks_nothing and loss == "kill":
            acknowledged = True
        world.server.start()
        check(world, attempt, before, acknowledged)
    except BaseException:
        world.close()
        raise
    worlds.give_back(world, operation)


def is_later_start(operation: Operation) -> bool:
    return operation.is_start and not operation.is_first


def names(world: World, start: int) -> set[str]:
    """The points that were passed since line `start` of the journal."""
    passed = set()
    for change in world.disk.changes(start):
        if change.call not in ("!", "sync-failed"):
            name = name_of(change.call, change.path)
            assert name is not None, f"no fault point has this: {change}"
            passed.add(name)
    return passed


def was_acknowledged(attempt: Attempt) -> bool:
    try:
        return attempt.ask() == 0
    except (OSError, ServerError):
        return False


def await_kill(world: World) -> None:
    """A change of the disk after the answer may be the one at which it is killed."""
    world.disconnect()
    if world.server.running:
        assert world.server.wait() == -signal.SIGKILL, world.server.stderr()
    assert ["kill"] in [one.rest for one in world.disk.changes() if one.call == "!"], "not passed"


def check(world: World, attempt: Attempt, before: dict[str, Seen], acknowledged: bool) -> None:
    after = world.look()
    for group, seen in before.items():
        if group != attempt.subject:
            assert after[group] == seen, group
    if attempt.subject:
        assert attempt.allowed(after[attempt.subject], acknowledged), (
            f"{attempt.subject}: {before.get(attempt.subject)} became {after[attempt.subject]}, "
            f"acknowledged: {acknowledged}"
        )
