"""Logs that Kafka wrote: `pykcoord log state --json` says what Kafka itself reads from them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import segments

from pykcoord.catalogue import STATE_FILE, Topic, store_topics
from pykcoord.log.state_file import StateFile

from .conftest import Result

Run = Callable[..., Result]


def _sorted(group: dict[str, Any]) -> dict[str, Any]:
    """Members and topics in one order: Kafka's own is that of hash maps."""
    members = [_member(member) for member in group["members"]]
    return {**group, "members": sorted(members, key=lambda member: str(member["memberId"]))}


def _member(member: dict[str, Any]) -> dict[str, Any]:
    if "subscribedTopicNames" not in member:
        return member
    assignments = {
        name: sorted(member[name]["topicPartitions"], key=lambda topic: str(topic["topicId"]))
        for name in ("assignment", "targetAssignment")
    }
    return {
        **member,
        "subscribedTopicNames": sorted(member["subscribedTopicNames"]),
        **assignments,
    }


def _name_topics(log: Path, expected: dict[str, Any]) -> None:
    """Beside a log that is in no data directory: records of consumer groups have ids alone."""
    named = segments.topic_names(expected)
    topics = [Topic(name, uuid.UUID(bytes=topic_id), 1) for topic_id, name in named.items()]
    store_topics(StateFile(log / STATE_FILE), topics)


def _state(pykcoord: Run, *arguments: object) -> dict[str, Any]:
    result = pykcoord("log", "state", *arguments, "--json")
    assert result.code == 0, result.err
    read: dict[str, Any] = json.loads(result.out)
    return read


def _check(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found["offsets"] == expected["offsets"]
    assert found["unstable"] == expected["unstable"]
    assert found["groups"].keys() == expected["groups"].keys()
    for group_id, group in expected["groups"].items():
        if "members" not in group:  # medium-1 tells no more than this
            assert group.items() <= found["groups"][group_id].items()
        elif group["type"] in ("classic", "consumer"):
            assert _sorted(found["groups"][group_id]) == _sorted(group), group_id
        else:
            shown = {"partition": group["partition"], "type": group["type"], "interpreted": False}
            assert found["groups"][group_id] == shown


def test_what_kafka_reads(scenario: Path, pykcoord: Run) -> None:
    expected = segments.expected(scenario)
    _name_topics(scenario, expected)
    found = _state(pykcoord, scenario, "--on-corruption", "truncate")
    _check(found, expected)
    consumers = {name for name, of in expected["groups"].items() if of["type"] == "consumer"}
    assert found["reconciliation"].keys() == consumers


def test_one_partition_at_a_time(scenario: Path, pykcoord: Run) -> None:
    """A folder alone, and where there is but one segment, the file alone."""
    expected = segments.expected(scenario)
    for folder in sorted(scenario.glob("__consumer_offsets-*")):
        partition = int(folder.name.rpartition("-")[2])
        files = list(folder.glob("*.log"))
        for path in [folder, *(files if len(files) == 1 else [])]:
            found = _state(pykcoord, path, "--on-corruption", "truncate")
            groups = {
                group_id: group
                for group_id, group in expected["groups"].items()
                if group["partition"] == partition
            }
            assert found["groups"].keys() == groups.keys()
            assert found["offsets"].items() <= expected["offsets"].items()


def test_damage_before_sound_batches_is_refused(torn: Path, pykcoord: Run) -> None:
    expected = segments.expected(torn)
    cut = expected["bytes_after_recovery"]
    damaged = expected["bytes_as_found"] > cut
    result = pykcoord("log", "state", torn, "--json")
    if not damaged or cut >= expected["last_batch_at"]:
        assert result.code == 0
        _check(json.loads(result.out), expected)
        assert ("left out" in result.err) == damaged
        return
    assert (result.code, result.out) == (1, "")
    assert f"byte {cut}, offset " in result.err
    assert "--on-corruption truncate" in result.err


@pytest.fixture
def classic(tmp_path: Path) -> Path:
    return segments.unpack(segments.OWN / "classic-1", tmp_path / "log")


def test_one_group(classic: Path, pykcoord: Run) -> None:
    expected = segments.expected(classic)
    group_id = next(name for name in expected["offsets"] if name in expected["groups"])
    found = _state(pykcoord, classic, "--group", group_id)
    assert list(found["groups"]) == [group_id]
    assert found["offsets"] == {group_id: expected["offsets"][group_id]}


def test_a_group_that_is_not_there(classic: Path, pykcoord: Run) -> None:
    result = pykcoord("log", "state", classic, "--group", "nobody")
    assert (result.code, result.out) == (1, "")
    assert result.err == f"pykcoord: {classic}: no group 'nobody' in this log\n"


def test_the_table_for_people(classic: Path, pykcoord: Run) -> None:
    expected = segments.expected(classic)
    result = pykcoord("log", "state", classic)
    assert all(group_id in result.out for group_id in expected["groups"])
    group_id, group = next(
        (name, of) for name, of in expected["groups"].items() if of["protocolType"] == "consumer"
    )
    narrowed = pykcoord("log", "state", classic, "--group", group_id)
    assert all(member["memberId"] in narrowed.out for member in group["members"])


def test_a_consumer_group_for_people(tmp_path: Path, pykcoord: Run) -> None:
    log = segments.unpack(segments.OWN / "consumer-1", tmp_path / "log")
    expected = segments.expected(log)
    group_id = next(name for name in expected["groups"] if name.startswith("blocked-"))
    group = expected["groups"][group_id]
    (slow, waiting) = group["members"]
    _name_topics(log, expected)
    lines = pykcoord("log", "state", log, "--group", group_id).out.splitlines()
    assert lines[1].split() == ["group", "type", "state", "generation", "protocol", "members"]
    assert lines[2].split() == [group_id, "consumer", "Reconciling", "3", "uniform", "2"]
    (topic,) = slow["subscribedTopicNames"]
    at = lines.index("Members (target of epoch 3):") + 2
    rows = sorted((" ".join(line.split()) for line in lines[at : at + 2]), key=len)
    assert rows == [
        f"{waiting['memberId']} - {waiting['clientId']} /127.0.0.1 consumer {topic} "
        f"3 UNRELEASED_PARTITIONS - - {topic} 4-7",
        f"{slow['memberId']} - {slow['clientId']} /127.0.0.1 consumer {topic} "
        f"2 UNREVOKED_PARTITIONS {topic} 0-7 {topic} 4-7 {topic} 0-3",
    ]


def test_a_topic_without_a_name_has_its_id(tmp_path: Path, pykcoord: Run) -> None:
    """Names that stand in committed offsets are known without a catalogue; others are not."""
    log = segments.unpack(segments.OWN / "consumer-1", tmp_path / "log")
    known = {id_of["id"]: name for name, id_of in segments.expected(log)["topics"].items()}
    found = {
        (group_id, topic["topicId"], topic["topicName"])
        for group_id, group in _state(pykcoord, log)["groups"].items()
        for member in group["members"]
        for topic in member["assignment"]["topicPartitions"]
    }
    named = {(topic_id, name) for _, topic_id, name in found if name is not None}
    assert named
    assert named <= known.items()
    (group_id, topic_id), *_ = [(group, of) for group, of, name in found if name is None]
    assert f"{topic_id} 0-" in pykcoord("log", "state", log, "--group", group_id).out


def test_regular_expressions(tmp_path: Path, pykcoord: Run) -> None:
    log = segments.unpack(segments.OWN / "consumer-1", tmp_path / "log")
    groups = segments.expected(log)["groups"]
    group_id, expression = next(
        (name, member["subscribedTopicRegex"])
        for name, of in groups.items()
        if of["type"] == "consumer"
        for member in of["members"]
        if member["subscribedTopicRegex"]
    )
    found = _state(pykcoord, log, "--group", group_id)["reconciliation"][group_id]
    matched = found["regularExpressions"][expression]
    assert matched["topics"], "the log says what it was found to match"
    shown = pykcoord("log", "state", log, "--group", group_id).out
    assert all(topic in shown for topic in matched["topics"])
    assert "Regular expressions:" in shown


def test_nothing_is_changed(scenario: Path, pykcoord: Run) -> None:
    before = {path: path.stat() for path in scenario.rglob("*")}
    _state(pykcoord, scenario, "--on-corruption", "truncate")
    after = {path: path.stat() for path in scenario.rglob("*")}
    assert before.keys() == after.keys()
    for path, status in before.items():
        assert (status.st_size, status.st_mtime_ns) == (
            after[path].st_size,
            after[path].st_mtime_ns,
        )
