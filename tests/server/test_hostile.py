"""Clients that want to stall or exhaust the server: their cost is bounded."""

from __future__ import annotations

import struct
import uuid

import pytest
from support.kio_client import ask, encode

from pykcoord.server.api.messages import Slicer
from pykcoord.server.api.registry import MAX_REQUEST_BYTES

from .conftest import frame, serving
from .test_node_apis import MS, metadata, new_topic, topic_named

TIMES = 5_000


class Store:
    """Counts the writes of a catalogue, or fails them."""

    def __init__(self, error: OSError | None = None) -> None:
        self.writes = 0
        self._error = error

    def read(self) -> None:
        return None

    def write(self, document: dict) -> None:
        self.writes += 1
        if self._error is not None:
            raise self._error


@pytest.mark.parametrize("v", [1, 9, 12])
def test_a_topic_that_is_asked_for_many_times_is_described_once(run, v):
    async def main():
        async with serving(topics={"orders": 100}) as rig:
            client = await rig.connect()
            response = await ask(client, 3, v, **metadata([topic_named("orders")] * TIMES))
            assert [len(topic.partitions) for topic in response.topics] == [100]

    run(main())


def test_an_id_beside_a_name_does_not_make_it_another_topic(run):
    """v10 and v11 read the name only."""

    async def main():
        async with serving(topics={"orders": 100}) as rig:
            client = await rig.connect()
            asked = [topic_named("orders", uuid.UUID(int=n + 1)) for n in range(TIMES)]
            response = await ask(client, 3, 10, **metadata(asked))
            assert [len(topic.partitions) for topic in response.topics] == [100]

    run(main())


def test_settings_that_are_asked_for_many_times_are_told_once(run):
    async def main():
        async with serving(server_options={"broker_configs": {"a": "1"}}) as rig:
            client = await rig.connect()
            asked = [
                {"resource_type": 4, "resource_name": "1", "configuration_keys": keys}
                for keys in [None, ("a",)] * TIMES
            ]
            fields = {"include_synonyms": False, "include_documentation": False}
            response = await ask(client, 32, 4, resources=asked, **fields)
            assert [[c.name for c in result.configs] for result in response.results] == [["a"]]

    run(main())


def test_a_long_node_level_request_is_refused_before_it_is_parsed(run, monkeypatch, caplog):
    async def main():
        async with serving() as rig:
            answered = []
            write = Slicer.write_response
            monkeypatch.setattr(
                Slicer,
                "write_response",
                lambda slicer, key, *args: answered.append(key) or write(slicer, key, *args),
            )
            other = await rig.connect()
            client = await rig.connect()
            client.send(frame(3, 1, body=struct.pack(">i", 1) + b"\0" * MAX_REQUEST_BYTES))
            assert await client.closed()
            assert not answered
            assert await other.ask(encode(18, 0))

    run(main())
    assert f"at most {MAX_REQUEST_BYTES} are read" in caplog.text


def test_a_request_of_more_elements_than_are_looked_at_is_refused(run, caplog):
    """A million keys fit into a frame; to look at a key costs more than its two bytes."""

    async def main():
        async with serving() as rig:
            other, client = await rig.connect(), await rig.connect()
            client.send(encode(10, 4, key_type=0, coordinator_keys=("k",) * 250_001))
            assert await client.closed()
            assert await other.ask(encode(18, 0))

    run(main())
    assert "FindCoordinator v4: more than 250000 elements" in caplog.text


def test_topics_of_one_request_are_stored_once_and_told_32_at_a_time(run):
    """Each alone would cost a sync and a copy of the whole catalogue; all would be a long turn."""

    async def main():
        async with serving() as rig:
            store = rig.catalogue._gathering._store = Store()
            client = await rig.connect()
            topics = [new_topic(f"t{n}") for n in range(120)]
            response = await ask(client, 19, 7, topics=topics, timeout=MS, validate_only=False)
            assert {topic.error_code for topic in response.topics} == {0}
            assert (store.writes, rig.catalogue.version) == (1, 1 + 4)
            names = [{"name": f"t{n}", "topic_id": None} for n in range(120)]
            response = await ask(client, 20, 6, topics=names, timeout=MS)
            assert {topic.error_code for topic in response.responses} == {0}
            assert (store.writes, rig.catalogue.version) == (2, 1 + 4 + 4)
            assert list(rig.catalogue.topics()) == ["orders"]

    run(main())


def test_what_cannot_be_stored_was_not_changed(run):
    async def main():
        async with serving() as rig:
            rig.catalogue._gathering._store = Store(OSError(28, "No space left on device"))
            client = await rig.connect()
            topics = [new_topic("a"), new_topic("orders")]
            response = await ask(client, 19, 7, topics=topics, timeout=MS, validate_only=False)
            assert [topic.error_code for topic in response.topics] == [56, 36]
            names = [{"name": "orders", "topic_id": None}, {"name": "a", "topic_id": None}]
            response = await ask(client, 20, 6, topics=names, timeout=MS)
            assert [topic.error_code for topic in response.responses] == [56, 3]
            more = [{"name": "orders", "count": 20, "assignments": None}]
            response = await ask(client, 37, 3, topics=more, timeout=MS, validate_only=False)
            assert [topic.error_code for topic in response.results] == [56]
            assert {n: t.partitions for n, t in rig.catalogue.topics().items()} == {"orders": 12}

    run(main())


def test_more_partitions_at_once_than_kafka_makes_are_refused(run):
    async def main():
        async with serving() as rig:
            client = await rig.connect()
            for last, error in ((1, 0), (2, 44)):
                topics = [new_topic(f"a{last}", 9_999), new_topic(f"b{last}", last)]
                response = await ask(client, 19, 7, topics=topics, timeout=MS, validate_only=False)
                assert [topic.error_code for topic in response.topics] == [error, error]

    run(main())


def test_what_a_producer_sends_is_read(run):
    """A batch of max.request.size (1 MiB by default) hears why nothing takes it."""

    async def main():
        async with serving() as rig:
            client = await rig.connect()
            batch = b"x" * 1024 * 1024
            body = struct.pack(">hhii", -1, 1, 1000, 1) + b"\0\x06orders"
            body += struct.pack(">iii", 1, 0, len(batch)) + batch
            reply = await client.ask(frame(0, 3, body=body))
            assert struct.unpack_from(">h", reply, 4 + 4 + 8 + 4 + 4) == (44,)

    run(main())


def test_a_topic_is_created_with_settings_of_a_bounded_size_alone(run):
    """They are kept for ever, and stored anew with each change of any topic: of 2 MB each in 20,000
    topics."""
    value = "v" * 4_000

    def settings(last: str) -> list[dict[str, str]]:
        return [{"name": "a" * 96, "value": value}, {"name": "b" * 96, "value": last}]

    async def main():
        async with serving() as rig:
            client = await rig.connect()
            topics = [
                new_topic("long", configs=settings(value + "v")),
                new_topic("kept", configs=settings(value)),
            ]
            answer = await ask(client, 19, 7, topics=topics, timeout=MS, validate_only=False)
            long, kept = answer.topics
            assert (long.error_code, kept.error_code) == (40, 0)
            text = "More than 8192 characters of settings of one topic."
            assert long.error_message == text
            assert "long" not in rig.catalogue.topics()

    run(main())
