"""Requests that are sent on to brokers: over how many connections."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from kio.schema.metadata.v12.request import MetadataRequest
from support.scripted_broker import ScriptedCluster

from pykcoord.kafka import ClientProperties, Connector
from pykcoord.node.forwarding import Forwarding
from pykcoord.protocol import decode_response, encode_request

_METADATA = MetadataRequest(
    topics=None, allow_auto_topic_creation=False, include_topic_authorized_operations=False
)


def test_a_crowd_of_clients_does_not_become_as_many_connections_to_a_broker() -> None:
    async def story() -> None:
        cluster = ScriptedCluster()
        cluster.add_topic("orders", 1)
        frame = encode_request(_METADATA, 7)
        async with asyncio.timeout(60), cluster.running():
            properties = ClientProperties.of({"bootstrap.servers": cluster.bootstrap})
            connector = Connector(properties)
            made = 0
            connect = connector.connect

            async def counted(host: str, port: int) -> object:
                nonlocal made
                made += 1
                return await connect(host, port)

            connector.connect = counted  # type: ignore[method-assign, assignment]
            forwarding = Forwarding(connector, lambda: [(1, "127.0.0.1", cluster.ports[1])])
            answers = await asyncio.gather(*(forwarding.ask(frame) for _ in range(500)))
            assert made <= 32
            assert {answer[:4] for answer in answers} == {(7).to_bytes(4, "big")}
            (topic,) = decode_response(_METADATA, answers[-1]).topics
            assert topic.name == "orders"
            forwarding.close()

    asyncio.run(story())


def test_a_broker_that_hangs_does_not_hold_up_what_others_can_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pykcoord.node.forwarding._AT_ONCE", 2)

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.CancelledError):  # the loop of the test ends
            await reader.read(-1)
        writer.close()

    async def story() -> None:
        cluster = ScriptedCluster()
        hanging = await asyncio.start_server(hang, "127.0.0.1", 0)
        async with asyncio.timeout(60), hanging, cluster.running():
            brokers = [
                (1, "127.0.0.1", hanging.sockets[0].getsockname()[1]),
                (2, "127.0.0.1", cluster.ports[1]),
            ]
            properties = ClientProperties.of({"bootstrap.servers": cluster.bootstrap})
            forwarding = Forwarding(Connector(properties), lambda: brokers)
            frame = encode_request(_METADATA, 7)
            asked = [asyncio.create_task(forwarding.ask(frame)) for _ in range(20)]
            done, waiting = await asyncio.wait(asked, timeout=1.0)
            assert (len(done), len(waiting)) == (18, 2)
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
            forwarding.close()

    asyncio.run(story())
