"""Who asks: every handler and every frame comes with the session of its connection."""

from __future__ import annotations

import dataclasses
import logging
import struct
from datetime import timedelta
from typing import Any

import pytest
from support.kio_client import encode
from support.scripted_node import HEARTBEAT

from pykcoord.server.api import registry
from pykcoord.session import Session, anonymous, with_software

from .conftest import frame, serving

CREATE_PARTITIONS = 37
API_VERSIONS = 18


def api_versions(name: str, version: str) -> bytes:
    return encode(API_VERSIONS, 3, client_software_name=name, client_software_version=version)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Session]:
    """The sessions that the handler of CreatePartitions was given."""
    api, sessions = registry.APIS[CREATE_PARTITIONS], []

    def answer(request: Any, version: int, cluster: Any, session: Session) -> Any:
        sessions.append(session)
        return api.answer(request, version, cluster, session)

    monkeypatch.setitem(registry.APIS, CREATE_PARTITIONS, dataclasses.replace(api, answer=answer))
    return sessions


def create_partitions() -> bytes:
    return encode(CREATE_PARTITIONS, 1, topics=(), timeout=timedelta(), validate_only=True)


def test_a_handler_knows_host_listener_principal_and_software(run, asked):
    async def main():
        async with serving() as rig:
            client = await rig.connect()
            await client.ask(create_partitions())
            await client.ask(api_versions("apache-kafka-java", "4.3.0"))
            await client.ask(create_partitions())

    run(main())
    before, after = asked
    assert before == Session("/127.0.0.1", "PLAINTEXT")
    assert (before.principal, before.client_software_name) == ("User:ANONYMOUS", "unknown")
    assert after == Session(
        "/127.0.0.1",
        "PLAINTEXT",
        client_software_name="apache-kafka-java",
        client_software_version="4.3.0",
    )


def test_software_is_known_of_whom_an_answer_that_is_kept_was_given_to(run, asked):
    async def main():
        async with serving() as rig:
            for _ in range(3):
                client = await rig.connect()
                await client.ask(api_versions("librdkafka", "2.14.2"))
                await client.ask(create_partitions())
            other = await rig.connect()
            await other.ask(create_partitions())

    run(main())
    software = [session.client_software_name for session in asked]
    assert software == ["librdkafka"] * 3 + ["unknown"]


def test_software_with_an_impossible_name_stays_unknown(run, asked):
    async def main():
        async with serving() as rig:
            client = await rig.connect()
            reply = await client.ask(api_versions("no name!", "1"))
            assert struct.unpack(">h", reply[4:6]) == (42,), "INVALID_REQUEST"
            await client.ask(create_partitions())

    run(main())
    assert [session.client_software_name for session in asked] == ["unknown"]


def test_frames_go_to_the_node_with_the_session_of_their_connection(run):
    async def main():
        async with serving() as rig:
            client, other = await rig.connect(), await rig.connect()
            await client.ask(api_versions("sarama", "1.46"))
            await client.ask(frame(HEARTBEAT))
            await other.ask(frame(HEARTBEAT))
            sessions = [
                session
                for _, frames, _ in rig.node.steps
                for _, session, content in frames
                if content[:2] == struct.pack(">h", HEARTBEAT)
            ]
            assert [one.client_software_name for one in sessions] == ["sarama", "unknown"]
            assert {one.client_host for one in sessions} == {"/127.0.0.1"}

    run(main())


def test_connections_of_which_the_same_is_known_share_a_session(run):
    async def main():
        async with serving() as rig:
            clients = [await rig.connect() for _ in range(3)]
            for client in clients:
                await client.ask(frame(HEARTBEAT))
            (one,) = {id(connection.session) for connection in rig.server.hub.connections}
            await clients[0].ask(api_versions("sarama", "1.46"))
            found = [id(connection.session) for connection in rig.server.hub.connections]
            assert found.count(one) == 2

    run(main())


def test_names_that_are_long_are_kept_for_nothing_but_their_connection():
    """A client may name itself anew again and again, each time by 32 KB."""
    client = anonymous("/127.0.0.1", "PLAINTEXT")
    assert with_software(client, "sarama", "1.46") is with_software(client, "sarama", "1.46")
    long = "a" * 30_000
    named = with_software(client, long, "1")
    assert named.client_software_name == long
    assert with_software(client, long, "1") is not named


@pytest.mark.parametrize(
    ("begin", "said"),
    [
        (b"GET /metrics HTTP/1.1\r\n\r\n", "an HTTP request: metrics and console have ports of"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "set the client's security.protocol to"),
    ],
)
def test_another_protocol_is_told_by_its_name(run, caplog, begin, said):
    async def main():
        async with serving() as rig:
            client = await rig.connect()
            client.send(begin)
            assert await client.closed()

    with caplog.at_level(logging.WARNING, "pykcoord.server"):
        run(main())
    (line,) = [one.getMessage() for one in caplog.records if one.name == "pykcoord.server"]
    assert "socket.request.max.bytes=104857600; it is a" in line
    assert said in line


def test_lines_of_log_say_who_connects_and_who_is_refused(run, caplog):
    async def main():
        async with serving() as rig:
            client = await rig.connect()
            await client.ask(api_versions("kafka-python-ng", "2.2.3"))
            client.send(struct.pack(">i", -1))
            assert await client.closed()

    with caplog.at_level(logging.DEBUG, "pykcoord.server"):
        run(main())
    lines = [record.getMessage() for record in caplog.records if record.name == "pykcoord.server"]
    assert lines == [
        "/127.0.0.1: connected to listener PLAINTEXT as User:ANONYMOUS",
        "/127.0.0.1: the client's software is kafka-python-ng 2.2.3",
        "/127.0.0.1 (kafka-python-ng 2.2.3): refused, connection closed: "
        "frame of -1 bytes, socket.request.max.bytes=104857600",
    ]
    refused = caplog.records[-1]
    assert (refused.client_host, refused.listener) == ("/127.0.0.1", "PLAINTEXT")
    assert (refused.principal, refused.software) == ("User:ANONYMOUS", "kafka-python-ng 2.2.3")
