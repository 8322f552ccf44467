"""Logs that Kafka wrote: `pykcoord log state --json` says what Kafka itself reads from them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import segments

from .conftest import Result

Run = Callable[..., Result]


def _by_member_id(group: dict[str, Any]) -> dict[str, Any]:
    members = sorted(group["members"], key=lambda member: str(member["memberId"]))
    return {**group, "members": members}


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
        elif group["type"] == "classic":
            assert _by_member_id(found["groups"][group_id]) == _by_member_id(group)
        else:
            shown = {"partition": group["partition"], "type": group["type"], "interpreted": False}
            assert found["groups"][group_id] == shown


def test_what_kafka_reads(scenario: Path, pykcoord: Run) -> None:
    found = _state(pykcoord, scenario, "--on-corruption", "truncate")
    _check(found, segments.expected(scenario))


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
