"""Faults of other servers that broke real clients (docs/spec/client-pitfalls.md), for node-level
APIs: one test for each, named by its number. Where bytes matter, on bytes rather than through a
codec."""

from __future__ import annotations

import gzip
import json
import re
import struct
from pathlib import Path

import pytest
from kafka.protocol.api_key import ApiKey
from kafka.protocol.broker_version_data import infer_broker_version_from_api_versions
from support.kio_client import ask, decode, encode

from pykcoord.protocol import GROUP_APIS as ALL_GROUP_APIS
from pykcoord.server.api.registry import APIS

from .conftest import frame, serving
from .test_fetch import poll

# Without a coordinator of transactions, theirs are not served.
GROUP_APIS = [api for api in ALL_GROUP_APIS if api.key not in (27, 28)]

KAFKA_MINIMA = {
    8: 2, 9: 1, 10: 0, 11: 0, 12: 0, 13: 0, 14: 0, 15: 0, 16: 0, 42: 0, 47: 0, 3: 0, 1: 4, 2: 1,
    18: 0, 23: 2,
}  # fmt: skip
TRACES = Path(__file__).parents[1] / "traces"


async def advertised(client, version: int = 4) -> dict[int, tuple[int, int]]:
    response = await ask(
        client, 18, version, client_software_name="test", client_software_version="1"
    )
    assert response.error_code == 0
    return {k.api_key: (k.min_version, k.max_version) for k in response.api_keys}


@pytest.mark.parametrize("version", range(5))
def test_pitfall_01_api_versions_replies_with_header_v0(run, version):
    async def main():
        async with serving() as rig:
            client = await rig.connect()
            fields = {"client_software_name": "a", "client_software_version": "1"}
            reply = await client.ask(encode(18, version, 0x01020304, **fields))
            assert reply[:4] == b"\x01\x02\x03\x04"
            assert reply[4:6] == b"\x00\x00"  # error code, with no tags before it
            count = 1 + len(GROUP_APIS) + len(APIS) - 1
            if version < 3:
                assert struct.unpack_from(">i", reply, 6) == (count,)
            else:
                assert reply[6] == count + 1

    run(main())


@pytest.mark.parametrize("version", [6, 7, 99, 32767, -1])
def test_pitfall_01_unknown_version_is_answered_in_v0_with_one_entry(run, version):
    """Error 35, and the range of key 18 to choose from (KIP-511)."""

    async def main():
        async with serving() as rig:
            client = await rig.connect()
            body = b"\x00\x02a\x02b\x00" if version > 0 else b""
            reply = await client.ask(frame(18, version, 5, body))
            assert reply == b"\x00\x00\x00\x05" + bytes.fromhex("002300000001001200000005")
            assert await advertised(client)  # the same connection goes on

    run(main())


def test_pitfall_01_unknown_version_is_read_with_a_flexible_header(run):
    async def main():
        async with serving() as rig:
            client = await rig.connect()
            client.send(frame(18, 99, 5, b"\x12\x34\x56"))
            assert await client.closed()

    run(main())


@pytest.mark.parametrize("version", [3, 4])
def test_pitfall_02_no_features_with_minimum_0(run, version):
    """In version 3, whose clients refuse them (KAFKA-17011)."""

    async def main():
        async with serving() as rig:
            client = await rig.connect()
            fields = {"client_software_name": "a", "client_software_version": "1"}
            response = await ask(client, 18, version, **fields)
            lowest = [of.min_version for of in response.supported_features]
            assert lowest == ([] if version == 3 else [0])

    run(main())


@pytest.mark.parametrize(
    ("name", "version", "error"),
    [("rig", "1.0-x", 0), ("a.b-c", "1", 0), ("r" * 300, "1", 0), ("", "1", 42), ("rig", "", 42),
     ("-rig", "1", 42), ("rig", "1-", 42), ("ri g", "1", 42), ("é", "1", 42), ("rig\n", "1", 42)],
)  # fmt: skip
def test_pitfall_02_software_name_and_version(run, name, version, error):
    async def main():
        async with serving() as rig:
            client = await rig.connect()
            fields = {"client_software_name": name, "client_software_version": version}
            response = await ask(client, 18, 3, **fields)
            assert response.error_code == error
            assert bool(response.api_keys) == (error == 0)

    run(main())


def test_pitfall_03_produce_is_advertised_from_0(run):
    async def main():
        async with serving() as rig:
            lowest, highest = (await advertised(await rig.connect()))[0]
            assert lowest == 0
            assert highest >= 9

    run(main())


def test_pitfall_04_05_20_minima_are_those_of_kafka(run):
    """Old librdkafka and kafka-go choose their versions by exact numbers."""

    async def main():
        async with serving() as rig:
            ranges = await advertised(await rig.connect())
            assert {key: ranges[key][0] for key in KAFKA_MINIMA} == KAFKA_MINIMA

    run(main())


def test_pitfall_06_every_group_key_is_there(run):
    async def main():
        async with serving() as rig:
            ranges = await advertised(await rig.connect(), version=0)
            assert {8, 9, 10, 11, 12, 13, 14, 15, 16, 42, 47} <= ranges.keys()
            for key, _, lowest, highest in GROUP_APIS:
                assert ranges[key] == (lowest, highest)

    run(main())


def test_pitfall_07_minimum_is_never_above_maximum(run):
    async def main():
        async with serving() as rig:
            ranges = await advertised(await rig.connect())
            assert all(lowest <= highest for lowest, highest in ranges.values())

    run(main())


def test_pitfall_08_kafka_python_takes_it_for_a_kafka_of_these_versions(run):
    """It infers the version of a broker from the table, and gates its features by that."""

    async def main():
        async with serving() as rig:
            ranges = await advertised(await rig.connect())
            versions = {ApiKey(key): pair for key, pair in ranges.items() if key in set(ApiKey)}
            assert infer_broker_version_from_api_versions(versions) == (4, 2)

    run(main())


def test_pitfall_10_fetch_is_served_and_waits(run):
    """Without it librdkafka and Java clients ask again at once, for ever."""

    async def main():
        async with serving() as rig:
            client = await rig.connect()
            ranges = await advertised(client)
            assert ranges[1] == (4, 18)  # librdkafka's feature map needs 4, topic ids need 13
            for version in range(4, 19):
                client.send(encode(1, version, **poll(rig, 0, wait_ms=60_000)))
                await rig.until(lambda: rig.server._dispatcher._polls)
                rig.server._dispatcher.finish_polls()
                response = decode(1, version, await client.read())
                assert response.responses[0].partitions[0].error_code == 0

    run(main())


def test_pitfall_09_fetch_v12_empty_records_are_zero_length_not_null(run):
    async def main():
        async with serving() as rig:
            client = await rig.connect()
            reply = await client.ask(encode(1, 12, **poll(rig, 0)))
            # ... aborted transactions null, preferred replica -1, records of varint 1, 3 x tags
            assert reply.endswith(b"\x00" + b"\xff\xff\xff\xff" + b"\x01" + b"\x00\x00\x00")
            reply = await client.ask(encode(1, 11, **poll(rig, 0)))
            assert reply.endswith(b"\xff\xff\xff\xff" + b"\xff\xff\xff\xff" + b"\x00\x00\x00\x00")

    run(main())


def test_pitfall_11_topic_ids_are_real_and_lead_to_the_topic(run):
    async def main():
        async with serving() as rig:
            client = await rig.connect()
            fields = {"allow_auto_topic_creation": False, "topics": None}
            fields["include_topic_authorized_operations"] = False
            (topic,) = (await ask(client, 3, 12, **fields)).topics
            assert topic.topic_id is not None
            response = await ask(client, 1, 13, **poll(rig, 0, topic_id=topic.topic_id))
            assert response.responses[0].partitions[0].error_code == 0

    run(main())


def test_pitfall_12_no_leader_epochs(run):
    async def main():
        async with serving() as rig:
            client = await rig.connect()
            fields = {"allow_auto_topic_creation": False, "topics": None}
            fields["include_topic_authorized_operations"] = False
            (topic,) = (await ask(client, 3, 13, **fields)).topics
            assert {partition.leader_epoch for partition in topic.partitions} == {-1}
            asked = [{"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}]
            topics = [{"name": "orders", "partitions": asked}]
            response = await ask(client, 2, 6, replica_id=-1, isolation_level=0, topics=topics)
            assert response.topics[0].partitions[0].leader_epoch == -1

    run(main())


def test_pitfall_16_find_coordinator_is_batched_from_v4(run):
    async def main():
        async with serving() as rig:
            client = await rig.connect()
            response = await ask(client, 10, 4, key_type=0, coordinator_keys=("a", "b"))
            assert [(c.key, c.error_code) for c in response.coordinators] == [("a", 0), ("b", 0)]

    run(main())


def test_pitfall_17_what_does_not_work_is_not_advertised(run):
    """Telemetry (71, 72) and transactions."""

    async def main():
        async with serving() as rig:
            ranges = await advertised(await rig.connect())
            assert ranges.keys().isdisjoint({71, 72, 22, 24, 25, 26, 28})

    run(main())


def test_pitfall_19_the_consumer_protocol_is_advertised(run):
    """franz-go and librdkafka enter it as soon as key 68 is listed."""

    async def main():
        async with serving() as rig:
            for version in (0, 4):
                ranges = await advertised(await rig.connect(), version)
                assert (ranges[68], ranges[69]) == ((0, 1), (0, 1))

    run(main())


def _recorded() -> list[tuple[int, int, bytes]]:
    """Every distinct kind of node-level request in the recorded sessions of real clients."""
    kinds: dict[tuple[int, int, str], bytes] = {}
    for path in sorted(TRACES.glob("*.jsonl.gz")):
        with gzip.open(path, "rt") as lines:
            for line in lines:
                entry = json.loads(line)
                api = APIS.get(entry.get("api"))
                if entry["dir"] == "req" and api is not None:
                    kinds.setdefault((entry["api"], entry["v"], path.name), entry["hex"])
    return [(key, v, bytes.fromhex(data)) for (key, v, _), data in sorted(kinds.items())]


def test_recorded_requests_of_every_client_are_answered(run):
    """Each kind of request that a client was seen to send gets an answer that decodes."""

    async def main():
        recorded = _recorded()
        assert recorded
        async with serving(topics={"trace": 6}) as rig:
            for key, version, data in recorded:
                client = await rig.connect()
                client.send(len(data).to_bytes(4, "big") + data)
                api = APIS[key]
                if api.minimum <= version <= api.maximum:
                    reply = await client.read()
                    assert reply[:4] == data[4:8]
                    decode(key, version, reply)
                else:
                    assert key == 18
                    assert (await client.read())[4:6] == b"\x00\x23"
                client.close()

    run(main())


def test_every_pitfall_is_named_by_a_test():
    root = Path(__file__).parents[2]
    named: set[int] = set()
    for pattern in ("tests/**/*.py", "native/*/tests/**/*.rs", "native/*/tests/**/*.txt"):
        for path in root.glob(pattern):
            for numbers in re.findall(r"pitfall[_ ]((?:\d+_?)+)", path.read_text().lower()):
                named.update(int(number) for number in numbers.split("_") if number)
    assert named >= set(range(1, 21)), sorted(set(range(1, 21)) - named)
