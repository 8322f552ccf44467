"""What a request has named already: the same as a set of pairs says, without an object for each."""

from __future__ import annotations

import random
import sys

import pytest

from pykcoord.server._seen import Seen

NAMES = [None, "", "orders", "заказы", "o" * 300, b"", b"\xff" * 16, *(f"t{n}" for n in range(50))]
NUMBERS = [0, 1, -1, 2**63 - 1, -(2**63), *range(200, 220), *(n << 32 for n in range(20))]


def test_pairs_are_told_apart_as_a_set_tells_them():
    source = random.Random(1)
    seen = Seen()
    known: dict[tuple[object, int], int] = {}
    for _ in range(20_000):
        name, number = source.choice(NAMES), source.choice(NUMBERS)
        # Text is text, however it is given; of those above only the empty one is given twice.
        pair = ("" if name == b"" else name, number)
        assert seen.has(name, number) == (pair in known)
        place = known.get(pair, len(known))
        if source.random() < 0.5:
            assert seen.add(name, number) == (pair not in known)
        assert seen.place(name, number) == place
        known.setdefault(pair, place)
        assert len(seen) == len(known)
    assert len(known) > 2_000
    assert [seen.place(*pair) for pair in known] == list(known.values())


def test_nothing_is_in_an_empty_one():
    assert not Seen().has("a")
    assert len(Seen()) == 0


@pytest.mark.parametrize("name", [1, 1.5, ["a"], object()])
def test_what_is_no_name_is_refused(name):
    with pytest.raises(TypeError, match="a name is str, bytes or None"):
        Seen().add(name)


def test_nothing_has_to_be_freed_piece_by_piece():
    names = [f"topic-{n}" for n in range(10_000)]
    seen = Seen()
    before = sys.getallocatedblocks()
    for name in names:
        seen.add(name)
    assert len(seen) == len(names)
    assert sys.getallocatedblocks() - before < 100


@pytest.mark.parametrize("expected", [0, 1, 33, 1_000, 100_000])
def test_what_is_expected_is_no_bound(expected):
    seen = Seen(expected)
    names = [f"n{number}" for number in range(2 * min(expected, 1_000) + 100)]
    assert all(map(seen.add, names))
    assert not any(map(seen.add, names))
    assert len(seen) == len(names)


def test_more_than_memory_has_is_refused():
    with pytest.raises(MemoryError):
        Seen(2**62)
