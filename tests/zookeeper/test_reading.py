"""Many znodes read at once: in one request where the server knows how, one by one elsewhere."""

from __future__ import annotations

import asyncio

import pytest

from pykcoord.zookeeper import wire
from pykcoord.zookeeper.connection import Connection
from pykcoord.zookeeper.operations import Node, NoNodeError

from .conftest import World

COUNT = 2_500


@pytest.mark.java
@pytest.mark.parametrize("is_new", [True, False], ids=["multiRead", "one by one"])
def test_all_are_read_in_order_and_what_is_not_there_is_told(
    world: World, monkeypatch: pytest.MonkeyPatch, is_new: bool
) -> None:
    if not is_new:
        # A type of request that no server knows: it ends the session, as one before 3.6 does.
        monkeypatch.setattr(wire, "MULTI_READ", 999)
    transaction = world.client.transaction()
    transaction.create("/many", b"")
    for number in range(0, COUNT, 2):
        transaction.create(f"/many/{number}", b"%d" % number)
    transaction.commit()
    paths = [f"/many/{number}" for number in range(COUNT)]

    async def read() -> tuple[list[object], int]:
        async with await Connection.begin(world.connect) as connection:
            return list(await connection.get_all(paths)), connection.requests

    found, requests = asyncio.run(read())
    assert requests == (3 if is_new else COUNT)
    for number, one in enumerate(found):
        if number % 2:
            assert isinstance(one, NoNodeError)
            assert one.path == f"/many/{number}"
        else:
            assert isinstance(one, Node)
            assert one.data == b"%d" % number
