"""`pykcoord.Purgatory`: the binding. The rest is tested in native/core/tests/purgatory.rs."""

from __future__ import annotations

import doctest
import gc
import weakref

import pytest

import pykcoord
from pykcoord import Purgatory
from pykcoord.errors import ArgumentError


def test_examples_in_docstrings_hold() -> None:
    runner = doctest.DocTestRunner()
    for test in doctest.DocTestFinder().find(Purgatory, globs={"Purgatory": Purgatory}):
        runner.run(test)
    assert runner.failures == 0
    assert runner.tries >= 14
    assert "Purgatory" in pykcoord.__all__


def test_an_operation_leaves_once_and_garbage_stays_until_it_is_purged() -> None:
    purgatory: Purgatory[str, str] = Purgatory()
    operation = purgatory.watch(["a", "b"], 100, "join")
    assert purgatory.check_and_complete("a", lambda _: False) == []
    assert purgatory.check_and_complete("a", lambda _: True) == ["join"]
    assert (purgatory.watched, len(purgatory)) == (1, 0)
    assert purgatory.check_and_complete("b", lambda _: True) == []
    assert purgatory.cancel(operation) is None
    assert purgatory.advance(1_000) == []
    purgatory.watch(["a", "b"], 2_000, "sync")
    assert purgatory.advance(2_000) == ["sync"]
    assert purgatory.watched == 2
    purgatory.purge()
    assert purgatory.watched == 0


def test_cancels_by_id_and_by_key() -> None:
    purgatory: Purgatory[tuple[str, int], str] = Purgatory(now_ms=5)
    first = purgatory.watch([("orders", 1)], 10, "first")
    purgatory.watch([("orders", 1), ("orders", 2)], 20, "second")
    assert purgatory.next_deadline() == 10
    assert purgatory.cancel(first) == "first"
    assert purgatory.cancel(first, default="left") == "left"
    assert purgatory.cancel_for_key(("orders", 1)) == ["second"]
    assert purgatory.next_deadline() is None
    assert purgatory.now_ms == 5


def test_keys_are_equal_as_in_a_dict() -> None:
    purgatory: Purgatory[object, str] = Purgatory()
    purgatory.watch([1, "one"], 10, "number")
    assert purgatory.check_and_complete(1.0) == ["number"]

    class Colliding:
        def __hash__(self) -> int:
            return hash("one")

    assert purgatory.check_and_complete(Colliding()) == []


def test_a_key_that_cannot_be_compared_is_equal_to_none(monkeypatch: pytest.MonkeyPatch) -> None:
    class Incomparable:
        def __hash__(self) -> int:
            return 7

        def __eq__(self, other: object) -> bool:
            raise ArithmeticError

    reported = []
    monkeypatch.setattr("sys.unraisablehook", lambda args: reported.append(args.exc_type))
    purgatory: Purgatory[Incomparable, str] = Purgatory()
    key = Incomparable()
    purgatory.watch([key], 10, "operation")
    assert purgatory.check_and_complete(Incomparable()) == []
    assert reported == [ArithmeticError]
    assert purgatory.check_and_complete(key) == ["operation"]


def test_nothing_is_completed_when_the_predicate_raises() -> None:
    purgatory: Purgatory[str, int] = Purgatory()
    for operation in (1, 0, 2):
        purgatory.watch(["key"], 10, operation)
    with pytest.raises(ZeroDivisionError):
        purgatory.check_and_complete("key", lambda operation: 1 / operation)
    assert purgatory.check_and_complete("key", lambda operation: operation) == [1, 2]
    assert len(purgatory) == 1


def test_the_predicate_may_use_the_purgatory() -> None:
    purgatory: Purgatory[str, str] = Purgatory()
    ids = {name: purgatory.watch(["key"], 10, name) for name in ("a", "b", "c")}

    def predicate(operation: str) -> bool:
        if operation == "a":
            assert purgatory.cancel(ids["b"]) == "b"
            purgatory.watch(["key"], 20, "d")
        return True

    assert purgatory.check_and_complete("key", predicate) == ["a", "c"]
    assert purgatory.advance(20) == ["d"]


def test_bad_arguments_are_named() -> None:
    purgatory: Purgatory[object, str] = Purgatory(now_ms=10)
    with pytest.raises(ArgumentError, match=r"^now_ms: time ran back to 9 from 10"):
        purgatory.advance(9)
    with pytest.raises(ArgumentError, match=r"^deadline_ms: "):
        purgatory.watch(["key"], 2**63, "x")
    with pytest.raises(ArgumentError, match=r"^operation_id: "):
        purgatory.cancel(-1)
    with pytest.raises(TypeError, match=r"^keys: "):
        purgatory.watch("key", 20, "x")
    with pytest.raises(TypeError, match=r"^keys: unhashable"):
        purgatory.watch([[]], 20, "x")
    assert len(purgatory) == 0


def test_a_cycle_through_a_purgatory_is_collected() -> None:
    class Owner:
        def __init__(self) -> None:
            self.purgatory: Purgatory[str, object] = Purgatory()
            self.purgatory.watch(["key"], 10, self)

    owner = weakref.ref(Owner())
    gc.collect()
    assert owner() is None
