"""`pykcoord log dump` and `verify` on logs that Kafka wrote; usage and errors of `log`."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import segments

from .conftest import Result

Run = Callable[..., Result]
ADVICE = "--on-corruption truncate"


def _dumped(pykcoord: Run, path: Path) -> list[dict[str, Any]]:
    result = pykcoord("log", "dump", path, "--json", "--on-corruption", "truncate")
    assert result.code == 0, result.err
    return [json.loads(line) for line in result.out.splitlines()]


def test_every_record_of_kafkas_logs_is_dumped(scenario: Path, pykcoord: Run) -> None:
    records = _dumped(pykcoord, scenario)
    logs = segments.expected(scenario)["logs"]
    counted = Counter(f"__consumer_offsets-{record['partition']}" for record in records)
    assert counted == Counter({name: log["records"] for name, log in logs.items()})
    control = [record for record in records if record["kind"] in ("COMMIT", "ABORT", "control")]
    assert len(control) == sum(log["controlRecords"] for log in logs.values())
    commits = sum(log["recordsByKeyType"].get("1", 0) for log in logs.values())
    assert sum(record["kind"] == "OffsetCommit" for record in records) == commits
    groups = sum(log["recordsByKeyType"].get("2", 0) for log in logs.values())
    assert sum(record["kind"] == "GroupMetadata" for record in records) == groups
    assert not any(record["kind"].startswith("unknown") for record in records)


def test_offsets_and_batches_go_up(scenario: Path, pykcoord: Run) -> None:
    last: dict[int, int] = {}
    for record in _dumped(pykcoord, scenario):
        assert record["offset"] > last.get(record["partition"], -1)
        assert record["batch"] <= record["offset"]
        last[record["partition"]] = record["offset"]


@pytest.fixture
def transactions(tmp_path: Path) -> Path:
    return segments.unpack(segments.OWN / "transactions-1", tmp_path / "log")


def test_a_transactions_outcome_is_told_with_each_of_its_records(
    transactions: Path, pykcoord: Run
) -> None:
    found = segments.expected(transactions)
    records = _dumped(pykcoord, transactions)
    states = Counter(record.get("transaction", {}).get("state") for record in records)
    assert states["committed"] > 0
    assert states["aborted"] > 0
    pending = {
        (record["key"]["group"], record["key"]["topic"], record["key"]["partition"])
        for record in records
        if record.get("transaction", {}).get("state") == "pending"
    }
    assert pending == {
        (group, topic, partition)
        for group, topics in found["unstable"].items()
        for topic, partitions in topics.items()
        for partition in partitions
    }


def test_a_record_is_one_line_of_text(transactions: Path, pykcoord: Run) -> None:
    result = pykcoord("log", "dump", transactions)
    assert len(result.out.splitlines()) == len(_dumped(pykcoord, transactions))
    first_commit = next(line for line in result.out.splitlines() if "OffsetCommit" in line)
    for part in ('group="tx-8gkkl"', "partition=0", "offset=70", 'metadata="member"', "committed"):
        assert part in first_commit
    assert any(line.endswith("-> tombstone") for line in result.out.splitlines())


def test_a_subscription_is_base64(pykcoord: Run, tmp_path: Path) -> None:
    log = segments.unpack(segments.OWN / "classic-1", tmp_path / "log")
    members = [
        member
        for record in _dumped(pykcoord, log)
        if record["kind"] == "GroupMetadata" and record["value"]
        for member in record["value"]["members"]
    ]
    assert members
    assert all(base64.b64decode(member["subscription"]) for member in members)


def test_verify_finds_kafkas_logs_sound_and_the_torn_ones_broken(
    scenario: Path, pykcoord: Run
) -> None:
    found = segments.expected(scenario)
    result = pykcoord("log", "verify", scenario)
    logs = found["logs"].values()
    if found.get("bytes_as_found") != found.get("bytes_after_recovery"):
        file = scenario / "__consumer_offsets-0/00000000000000000000.log"
        position = found["bytes_after_recovery"]
        assert result.code == 1
        assert result.err.startswith(f"{file}: byte {position}, offset ")
        return
    assert (result.code, result.err) == (0, "")
    batches, records = (sum(log[name] for log in logs) for name in ("batches", "records"))
    assert f"{batches} batches, {records} records" in result.out


def test_verify_as_json(pykcoord: Run) -> None:
    path = segments.OWN / "torn-1-flipped-middle"
    result = pykcoord("log", "verify", path, "--json")
    report = json.loads(result.out)
    assert result.code == 1
    assert [problem["position"] for problem in report["problems"]] == [51302]
    assert ADVICE in report["problems"][0]["advice"]


@pytest.mark.parametrize("verb", ["dump", "state"])
def test_damage_before_sound_batches_is_refused(verb: str, pykcoord: Run) -> None:
    path = segments.OWN / "torn-1-flipped-middle"
    result = pykcoord("log", verb, path)
    assert result.code == 1
    assert result.out == ""
    assert len(result.err.splitlines()) == 1
    assert "00000000000000000000.log: byte 51302, offset 508: the CRC of the batch" in result.err
    assert ADVICE in result.err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["log", "dump"], 2, "pykcoord log dump: Missing argument 'PATH'."),
        (["log", "dump", "no/such/path"], 2, "does not exist"),
        (["log", "dump", "--jsn", "."], 2, "No such option"),
        (["log", "verify", Path(__file__).parent], 1, "no log here; give a data directory"),
        (["log", "verify", Path(__file__)], 1, "no log here; give a data directory"),
        (["log", "state", Path(__file__)], 1, "no log here; give a data directory"),
        (["nope"], 2, "No such command 'nope'"),
    ],
)
def test_an_error_is_one_line(
    arguments: list[object], code: int, message: str, pykcoord: Run
) -> None:
    result = pykcoord(*arguments)
    assert (result.code, result.out, len(result.err.splitlines())) == (code, "", 1)
    assert message in result.err
