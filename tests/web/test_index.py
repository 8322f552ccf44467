"""Pages of very many groups, merged from chunks: as if all were sorted at once."""

from __future__ import annotations

import asyncio
import io
import random
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.list_groups.v5.response import ListedGroup, ListGroupsResponse
from kio.schema.types import GroupId
from kio.serial import entity_writer
from kio.static.primitive import i32Timedelta

from pykcoord.web.index import CHUNK, Index, IndexBuilder

Row = tuple[str, str, str, str]  # id, protocol type, state, type


def _frame(rows: Sequence[Row], code: ErrorCode = ErrorCode.none) -> bytes:
    groups = tuple(
        ListedGroup(group_id=GroupId(one), protocol_type=kind, group_state=state, group_type=type_)
        for one, kind, state, type_ in rows
    )
    out = io.BytesIO()
    response = ListGroupsResponse(
        throttle_time=i32Timedelta.parse(timedelta()), error_code=code, groups=groups
    )
    entity_writer(ListGroupsResponse)(out, response)
    return bytes(4) + b"\0" + out.getvalue()


async def _in_parts(frame: bytes, size: int = 1 << 30) -> AsyncIterator[bytes]:
    for at in range(0, len(frame), size):
        yield frame[at : at + size]


def _index(*listings: Sequence[Row]) -> Index:
    async def build() -> Index:
        builder = IndexBuilder()
        for rows in listings:
            assert await builder.add(_in_parts(_frame(rows))) == len(rows)
        return builder.finish(1, 0)

    return asyncio.run(build())


def _pages(index: Index, size: int, **arguments: Any) -> list[str]:
    async def turn() -> list[str]:
        found: list[str] = []
        after = None
        while some := await index.page(size, after=after, **arguments):
            found += [one.group_id for one in some]
            after = some[-1].group_id
        return found

    return asyncio.run(turn())


def _rows(count: int) -> list[Row]:
    chosen = random.Random(count)
    texts = ["a", "b", "é", "\0", "z" * 200, "😀", "\u202e", "<b>", "", "Z"]
    ids = {"".join(chosen.choices(texts, k=chosen.randint(0, 6))) for _ in range(count)}
    states = [
        ("consumer", "Stable", "classic"),
        ("consumer", "Empty", "consumer"),
        ("", "Empty", "classic"),
    ]
    return [(one, *chosen.choice(states)) for one in ids]


@pytest.mark.parametrize("count", [0, 1, CHUNK, 4 * CHUNK + 17])
@pytest.mark.parametrize("descending", [False, True])
def test_pages_are_all_groups_in_order(count: int, descending: bool) -> None:
    rows = _rows(count)
    half = len(rows) // 2
    index = _index(rows[:half], rows[half:])
    wanted = sorted((row[0] for row in rows), key=str.encode, reverse=descending)
    assert index.total == len(rows)
    assert _pages(index, 97, descending=descending) == wanted


@pytest.mark.parametrize("descending", [False, True])
def test_pages_are_those_that_match(descending: bool) -> None:
    rows = _rows(3 * CHUNK)
    index = _index(rows)
    wanted = sorted(
        (one for one, _, state, kind in rows if "é" in one and state == "Empty"),
        key=str.encode,
        reverse=descending,
    )
    assert wanted
    found = _pages(index, 13, search="é", state="Empty", descending=descending)
    assert found == wanted
    stable = sorted((row[0] for row in rows if row[2] == "Stable"), key=str.encode)
    assert _pages(index, 101, state="Stable", kind="classic") == stable


def test_counts_and_kinds_are_those_of_the_listing() -> None:
    rows = _rows(2 * CHUNK)
    index = _index(rows)
    states = [row[2] for row in rows]
    assert index.counts()["states"] == {one: states.count(one) for one in set(states)}
    for one, kind, state, type_ in rows[:50]:
        assert index.kind_of(one) == (kind, state, type_)
    assert index.kind_of("no such group") is None


def test_a_group_that_came_since_is_there_once() -> None:
    index = _index([("a", "consumer", "Stable", "classic"), ("c", "consumer", "Stable", "classic")])
    assert _pages(index.plus(["b", "a"]), 10) == ["a", "b", "c"]


@pytest.mark.parametrize("count", [3, 2 * CHUNK])
def test_groups_that_came_since_are_those_that_are_not_listed(count: int) -> None:
    rows = _rows(3 * CHUNK)
    listed = [row[0] for row in rows]
    newer = [f"new-{number}" for number in range(count)]
    whole = _index(rows).plus([*newer, *listed[:count]])
    assert whole.total == len(listed) + count
    assert _pages(whole, 500) == sorted([*listed, *newer], key=str.encode)


def test_clients_choose_many_protocol_types() -> None:
    rows = [(f"{one:04}", "t" * one, "Stable", "classic") for one in range(600)]
    index = _index(rows)
    assert index.total == 600
    assert _pages(index, 50) == [row[0] for row in rows]


def test_an_error_is_no_listing() -> None:
    frame = _frame([], ErrorCode.coordinator_load_in_progress)
    with pytest.raises(ValueError, match="14"):
        asyncio.run(IndexBuilder().add(_in_parts(frame)))


@pytest.mark.parametrize("size", [1_000, 30_000, 200_000])
def test_a_list_that_comes_in_parts_is_shown_as_it_comes(size: int) -> None:
    rows = [(f"group-{n}" * (1 + n % 40), "consumer", "Stable", "classic") for n in range(2_500)]
    frame = _frame(rows)

    async def story() -> None:
        builder, given = IndexBuilder(), 0

        async def parts() -> AsyncIterator[bytes]:
            nonlocal given
            async for part in _in_parts(frame, size):
                # A chunk and what there may be of the next one.
                late = given - builder.part(0, 0).total * len(frame) // len(rows)
                assert late < 3 * CHUNK * len(frame) // len(rows) + size
                given += len(part)
                yield part

        assert await builder.add(parts()) == len(rows)
        page = await builder.finish(1, 0).page(len(rows))
        assert [one.group_id for one in page] == sorted(row[0] for row in rows)

    asyncio.run(story())


@pytest.mark.parametrize("left", [3, 12, 20, 40_000])
def test_a_list_that_is_cut_off_is_refused(left: int) -> None:
    frame = _frame([(f"group-{n}", "consumer", "Stable", "classic") for n in range(2_000)])
    with pytest.raises((ValueError, IndexError)):
        asyncio.run(IndexBuilder().add(_in_parts(frame[:left], 1_000)))
