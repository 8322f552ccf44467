"""Records and groups that are kept and not interpreted: consumer (KIP-848), share and streams. `log
dump` shows of them the same as Kafka's own tool, and no classic request changes them."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from support import segments
from support.asked import DELETE_GROUPS, HEARTBEAT, OFFSET_DELETE, Asked
from support.kafka import jars
from support.kafka.tools import tool

from pykcoord import cli
from pykcoord.log import LogReader
from pykcoord.record_fields import decode_key, decode_value, subscription_of

from .conftest import Serve

_SCENARIOS = ("consumer-1", "consumer-2", "migration-1", "migration-3", "share-1", "streams-1")
_INTERPRETED = ("OffsetCommit", "GroupMetadata", "COMMIT", "ABORT")
_POLICY = "group.consumer.migration.policy=disabled"
_LINE = re.compile(r"\| offset: (\d+) .*? key: (\{.*?\}\}) payload: (.*)")

Dumped = dict[tuple[int, int], dict[str, Any]]


@pytest.fixture(params=_SCENARIOS)
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return segments.unpack(segments.OWN / request.param, tmp_path / request.param)


@pytest.fixture
def dumped(log: Path, capsys: pytest.CaptureFixture[str]) -> Dumped:
    """The lines of `log dump` for records that are not interpreted, by partition and offset."""
    assert cli.run(["log", "dump", str(log), "--json"]) == 0
    records = map(json.loads, capsys.readouterr().out.splitlines())
    return {
        (record["partition"], record["offset"]): record
        for record in records
        if record["kind"] not in _INTERPRETED
    }


def test_every_field_is_shown(log: Path, dumped: Dumped) -> None:
    assert dumped
    groups = segments.expected(log)["groups"]
    last: dict[tuple[str, str, str], dict[str, Any] | None] = {}
    for record in dumped.values():
        assert "raw" not in record["key"]
        assert "raw" not in (record["value"] or {})
        key = record["key"]
        last[record["kind"], key["groupId"], key.get("memberId", "")] = record["value"]
    told = ("instanceId", "rackId", "clientId", "clientHost", "subscribedTopicNames")
    for name, group in groups.items():
        if group["type"] != "consumer":
            continue
        for member in group["members"]:
            value = last["ConsumerGroupMemberMetadata", name, member["memberId"]]
            assert value is not None
            assert {field: value[field] for field in told} == {
                field: sorted(member[field]) if isinstance(member[field], list) else member[field]
                for field in told
            }
            current = last["ConsumerGroupCurrentMemberAssignment", name, member["memberId"]]
            assert current is not None
            assert current["memberEpoch"] == member["memberEpoch"]


@pytest.mark.java
def test_they_are_shown_as_kafkas_tool_shows_them(log: Path, dumped: Dumped) -> None:
    if (reason := jars.missing_tool_chain()) is not None:
        pytest.skip(reason)
    compared = 0
    for folder in log.glob("__consumer_offsets-*"):
        partition = int(folder.name.rpartition("-")[2])
        files = ",".join(map(str, sorted(folder.glob("*.log"))))
        printed = tool("dump-log", "--offsets-decoder", "--print-data-log", "--files", files)
        for line in printed.splitlines():
            match = _LINE.match(line)
            if match is None or (record := dumped.get((partition, int(match[1])))) is None:
                continue
            compared += 1
            assert record["key"] == json.loads(match[2])["data"]
            theirs = None if match[3] == "<DELETE>" else json.loads(match[3])["data"]
            assert _as_kafka(record) == _subscriptions_read(theirs)
    assert compared == len(dumped)


def _as_kafka(record: dict[str, Any]) -> dict[str, Any] | None:
    if record["value"] is None:
        return None
    value = {name: of for name, of in record["value"].items() if name != "version"}
    if "imageVersion" in value:
        value["version"] = value.pop("imageVersion")
    found: dict[str, Any] = _with_uuids(value)
    return found


def _subscriptions_read(value: Any) -> Any:
    """The output of Kafka's tool, with the subscriptions of classic members decoded as well."""
    if isinstance(value, dict) and (classic := value.get("classicMemberMetadata")):
        for protocol in classic["supportedProtocols"]:
            read = subscription_of(base64.b64decode(protocol["metadata"]))
            assert read is not None
            if (user_data := read["userData"]) is not None:
                read["userData"] = base64.b64encode(user_data).decode()
            protocol["metadata"] = read
    return value


def _with_uuids(value: Any) -> Any:
    """Topic ids in the form of Kafka's Uuid.toString."""
    if isinstance(value, list):
        return [_with_uuids(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        name: base64.urlsafe_b64encode(base64.b64decode(of)).decode().rstrip("=")
        if name == "topicId"
        else _with_uuids(of)
        for name, of in value.items()
    }


@given(st.integers(0, 25), st.binary(max_size=60))
def test_bytes_that_are_no_record_are_shown_as_they_are(record_type: int, data: bytes) -> None:
    key = record_type.to_bytes(2, "big")
    for found in (decode_key(key + data), decode_value(key, b"\0\0" + data)):
        assert found is None or isinstance(found, dict)
    assert decode_value(key, b"\0\1" + data) is None


def test_no_classic_request_changes_them(log: Path, serve: Serve) -> None:
    """No record of such a group may be lost by a client's classic request. An Empty group gives way
    to classic members, as in Kafka, but for a share group: it is not asked here. Into a consumer
    group classic members may come unless the migration policy is `disabled`, as it is here."""
    expected = segments.expected(log)
    partitions = expected["offsets_topic_num_partitions"]
    for number in range(partitions):
        (log / f"__consumer_offsets-{number}").mkdir(exist_ok=True)
    others = {n: of["type"] for n, of in expected["groups"].items() if of["type"] != "classic"}
    offsets = {name: of for name, of in expected["offsets"].items() if name in others}
    server = serve(log, partitions, "--topic", "orders:1", "--set", _POLICY)
    with Asked(server.address) as asked:
        ends = _ends(log)
        for name, group_type in others.items():
            is_share = group_type == "share"
            is_empty = expected["groups"][name]["state"] == "Empty"
            if is_empty and not is_share:
                continue
            assert asked.join(name).error_code is ErrorCode.inconsistent_group_protocol
            refusal = ErrorCode.group_id_not_found if is_share else ErrorCode.unknown_member_id
            assert asked.commit(name, [("orders", 0, 1)]) == {refusal}
            beat = asked.ask(HEARTBEAT, 4, group_id=name, generation_id=1, member_id="m")
            assert beat.error_code is ErrorCode.unknown_member_id
            if not is_empty:
                deleted = asked.ask(DELETE_GROUPS, 2, groups_names=(name,))
                assert deleted.results[0].error_code is ErrorCode.non_empty_group
            topics = [{"name": "orders", "partitions": [{"partition_index": 0}]}]
            forgotten = asked.ask(OFFSET_DELETE, 0, group_id=name, topics=topics)
            if is_share:
                assert forgotten.error_code is ErrorCode.group_id_not_found
            else:
                # A streams group may read any topic; the topics of a consumer group are known.
                is_read = group_type == "streams"
                refusal = ErrorCode.group_subscribed_to_topic if is_read else ErrorCode.none
                assert forgotten.topics[0].partitions[0].error_code is refusal
        described = asked.described(others)
        assert {group["state"] for group in described.values()} == {"Dead"}
        listed = asked.listed()
        assert {name: listed[name][0] for name in others} == others
        assert asked.offsets(others) == offsets
        assert _ends(log) == ends


def _ends(log: Path) -> dict[int, int]:
    reader = LogReader.open(log)
    return {number: reader.next_offset(number) for number in reader.partitions}
