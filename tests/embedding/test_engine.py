"""The engine: what lies between a store and a transport, put together once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from kio.schema.offset_fetch.v7.request import OffsetFetchRequest
from support.memory_log import MemoryLog

from pykcoord import Config
from pykcoord.callers import Callers
from pykcoord.catalogue import STATE_FILE, StoredCatalogueError
from pykcoord.engine import Directory, Engine
from pykcoord.protocol import decode_response, encode_request
from pykcoord.session import EMBEDDED

CONFIG = Config(offsets_topic_num_partitions=2)
FETCH = OffsetFetchRequest(group_id="billing", topics=None, require_stable=False)


async def _ask(engine: Engine) -> str:
    """The error with which a fetch of offsets is answered."""
    callers = Callers(engine.runtime)
    engine.runtime.start(callers)
    reply = await callers.send(EMBEDDED, encode_request(FETCH))
    await engine.runtime.stop()
    return str(decode_response(FETCH, reply).error_code.name)


def test_a_directory_leads_all_its_shards(tmp_path: Path) -> None:
    with Engine.open(Directory(tmp_path), CONFIG, {"orders": 3}) as engine:
        assert engine.node.shards == 2
        assert asyncio.run(_ask(engine)) == "none"
    with Engine.open(Directory(tmp_path), CONFIG, {}) as again:
        assert {name: topic.partitions for name, topic in again.catalogue.topics().items()} == {
            "orders": 3
        }


def test_of_a_log_that_is_given_open_no_shard_is_led_yet() -> None:
    engine = Engine.open(MemoryLog(3), CONFIG, {})
    assert engine.node.shards == 3
    assert asyncio.run(_ask(engine)) == "not_coordinator"


def test_what_cannot_be_opened_leaves_the_directory_free(tmp_path: Path) -> None:
    Engine.open(Directory(tmp_path), CONFIG, {}).close()
    state = tmp_path / STATE_FILE
    sound = state.read_text()
    state.write_text('{"topics": {"orders": 3}}')
    with pytest.raises(StoredCatalogueError):
        Engine.open(Directory(tmp_path), CONFIG, {})
    state.write_text(sound)
    Engine.open(Directory(tmp_path), CONFIG, {}).close()
