"""`pykcoord log dump` and `verify` on logs that Kafka wrote; usage and errors of `log`."""

from __future__ import annotations

import base64
import bz2
import gzip
import json
import lzma
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import click
import pytest
from support import segments
from support.batches import data

from pykcoord.cli.listing import Listing, print_listings
from pykcoord.cli.plain import counted
from pykcoord.clock import Clock
from pykcoord.errors import CorruptLogError
from pykcoord.log import Append, LogDirectory, recovery

from .conftest import Result

Run = Callable[..., Result]
ADVICE = "--on-corruption truncate"


def _dumped(pykcoord: Run, path: Path, *options: str) -> list[dict[str, Any]]:
    result = pykcoord("log", "dump", path, "--json", "--on-corruption", "truncate", *options)
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


@pytest.fixture
def classic(tmp_path: Path) -> Path:
    return segments.unpack(segments.OWN / "classic-1", tmp_path / "log")


def test_subscriptions_and_assignments_of_consumers_are_decoded(
    classic: Path, pykcoord: Run
) -> None:
    """The last record of each group says what Kafka has read."""
    found = segments.expected(classic)["groups"]
    last = {
        record["key"]["group"]: record["value"]
        for record in _dumped(pykcoord, classic)
        if record["kind"] == "GroupMetadata"
    }
    decoded = 0
    for group, value in last.items():
        for member in value["members"] if value else []:
            (expected,) = (
                of for of in found[group]["members"] if of["memberId"] == member["memberId"]
            )
            if value["protocolType"] == "consumer":
                assert member["subscription"] == expected["subscription"]
                assert member["assignment"] == expected["assignment"]
                decoded += 1
            else:  # of Connect
                assert member["subscription"] == expected["memberMetadata"]
                assert base64.b64decode(member["assignment"])
    assert decoded >= 12
    line = pykcoord("log", "dump", classic, "--group", "static-2gewb").out.splitlines()[1]
    assert '"subscription": {"version": 3, "topics": ["2-a.b.c95", "3-clicks28"]' in line
    assert '"partitions": {"2-a.b.c95": [0, 1, 2, 3, 4, 5, 6, 7]' in line


def test_a_subscription_in_a_consumer_group_is_decoded(pykcoord: Run, tmp_path: Path) -> None:
    """Of a classic member of a group that was upgraded."""
    log = segments.unpack(segments.OWN / "migration-1", tmp_path / "log")
    members = [
        record["value"]["classicMemberMetadata"]
        for record in _dumped(pykcoord, log)
        if (record["value"] or {}).get("classicMemberMetadata")
    ]
    protocols = [protocol for member in members for protocol in member["supportedProtocols"]]
    assert protocols
    assert all(protocol["metadata"]["topics"] for protocol in protocols)


def test_dump_of_one_group(classic: Path, pykcoord: Run) -> None:
    everything = _dumped(pykcoord, classic)
    for group in ("static-2gewb", "группа-691-消费"):
        chosen = _dumped(pykcoord, classic, "--group", group)
        assert chosen == [record for record in everything if record["key"]["group"] == group]
        assert chosen
    result = pykcoord("log", "dump", classic, "--group", "nope")
    assert (result.code, result.out) == (1, "")
    assert result.err == f"pykcoord: {classic}: no record of group 'nope' in this log\n"


def test_dump_of_one_consumer_group(pykcoord: Run, tmp_path: Path) -> None:
    """Its records name the group in another field than commits do."""
    log = segments.unpack(segments.OWN / "consumer-1", tmp_path / "log")
    commits = [of["key"]["group"] for of in _dumped(pykcoord, log) if of["kind"] == "OffsetCommit"]
    kinds = {record["kind"] for record in _dumped(pykcoord, log, "--group", commits[0])}
    assert {"OffsetCommit", "ConsumerGroupMetadata"} <= kinds


@pytest.mark.parametrize(
    "since",
    ["2026-11-21T06:37:00.500", "2026-11-21T06:37:00.500Z", "2026-11-21T07:37:00.500+01:00"],
)
def test_dump_since_a_moment(since: str, classic: Path, pykcoord: Run) -> None:
    everything = _dumped(pykcoord, classic)
    since_ms = 1795243020500
    chosen = _dumped(pykcoord, classic, "--since", since)
    assert chosen == [record for record in everything if record["timestamp"] >= since_ms]
    assert 0 < len(chosen) < len(everything)


def test_a_dump_of_nothing_says_so(classic: Path, pykcoord: Run) -> None:
    result = pykcoord("log", "dump", classic, "--since", "2999-01-01")
    assert (result.code, result.out) == (0, "")
    assert result.err == f"pykcoord: {classic}: no record since 2999-01-01T00:00:00.000Z\n"


def test_a_torn_tail_that_is_only_read_is_not_said_to_be_cut(pykcoord: Run) -> None:
    result = pykcoord("log", "state", segments.OWN / "torn-1-zeros")
    assert result.code == 0
    assert "4096 zero bytes; 4096 bytes from there on are not read" in result.err


def test_dump_of_the_last_hours(pykcoord: Run, tmp_path: Path) -> None:
    now_ms = Clock().now_ms()
    with LogDirectory.open(tmp_path / "log", partitions=1) as log:
        ages_ms = [180 * 60_000, 60 * 60_000, 0]
        area = data(0, [(b"\x00\x63", b"")], timestamp=0).encode()[61:]  # behind the header
        appends = [
            Append(0, offset, 1, now_ms - age_ms, now_ms - age_ms, area)
            for offset, age_ms in enumerate(ages_ms)
        ]
        done: Future[object] = Future()
        log.append(appends, lambda *answer: done.set_result(answer))
        assert done.result(30) == ([(0, 3)], [])
    for since, offsets in (("2h", [1, 2]), ("90m", [1, 2]), ("1800s", [2]), ("1d", [0, 1, 2])):
        found = _dumped(pykcoord, tmp_path / "log", "--since", since)
        assert [record["offset"] for record in found] == offsets


def test_state_in_a_pipe_is_plain_lines(classic: Path, pykcoord: Run) -> None:
    found = segments.expected(classic)
    lines = pykcoord("log", "state", classic).out.splitlines()
    assert lines[0] == "Groups:"
    assert lines[1].split() == ["group", "type", "state", "generation", "protocol", "members"]
    groups, offsets = lines[2 : lines.index("")], lines[lines.index("") + 3 :]
    assert [line.split()[0] for line in groups] == sorted(found["groups"])
    assert all(len(line.split()) == 6 for line in groups)
    assert sorted(tuple(line.split()[:4]) for line in offsets) == sorted(
        (group, topic, partition, str(committed["offset"]))
        for group, topics in found["offsets"].items()
        for topic, partitions in topics.items()
        for partition, committed in partitions.items()
    )


def test_a_group_id_with_a_line_end_stays_in_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_listings([Listing("Groups", ("group", "members"), [["a\nb\x1b[2J", "1"], ["消费", ""]])])
    assert capsys.readouterr().out.splitlines() == [
        "Groups:",
        "group        members",
        "a\\nb\\x1b[2J        1",
        "消费" + " " * 15 + "-",
    ]


@pytest.mark.parametrize(("rows", "is_framed"), [(3, True), (200, True), (201, False)])
def test_a_terminal_gets_a_table_unless_there_are_many_rows(
    rows: int,
    is_framed: bool,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    print_listings([Listing("Groups", ("group",), [[f"group-{n}"] for n in range(rows)])])
    out = capsys.readouterr().out
    assert ("┃" in out) == is_framed
    assert out.count("group-") == rows


def test_verify_of_packed_segments_says_what_to_do(pykcoord: Run, tmp_path: Path) -> None:
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    (folder / "00000000000000000000.log.gz").write_bytes(gzip.compress(b""))
    for verb in ("verify", "state", "dump"):
        result = pykcoord("log", verb, tmp_path)
        assert (result.code, result.out) == (1, "")
        assert f"unpack them first: gunzip {folder}/*.log.gz" in result.err


@pytest.mark.parametrize("verb", ["verify", "state", "dump"])
def test_a_packed_segment_file_is_no_damaged_log(verb: str, pykcoord: Run, tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log.gz"
    path.write_bytes(gzip.compress(bytes(100)))
    result = pykcoord("log", verb, path)
    assert (result.code, result.out) == (1, "")
    assert result.err == f"pykcoord: {path}: a compressed file; unpack it first: gunzip {path}\n"


@pytest.mark.parametrize("on_corruption", ["refuse", "truncate"])
@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_a_compressed_file_under_the_name_of_a_segment_is_never_cut(
    pack: Callable[[bytes], bytes], on_corruption: str, pykcoord: Run, tmp_path: Path
) -> None:
    """It passed for a torn tail, and a start cut it to nothing."""
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    path = folder / "00000000000000000000.log"
    path.write_bytes(packed := pack(bytes(100)))
    for verb in ("verify", "state", "dump"):
        asked = () if verb == "verify" else ("--on-corruption", on_corruption)
        result = pykcoord("log", verb, tmp_path, *asked)
        assert result.code == 1
        assert "a compressed file; rename it to end in .log." in result.out + result.err
    with pytest.raises(CorruptLogError, match="rename it to end in"):
        recovery.repair(recovery.examine(folder), on_corruption)
    assert path.read_bytes() == packed


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_listing_without_rows_says_so(
    is_terminal: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: is_terminal)
    print_listings([Listing("Offsets", ("group", "offset"), [])])
    assert click.unstyle(capsys.readouterr().out) == "Offsets: none\n"


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


@pytest.mark.parametrize(
    ("count", "noun", "text"),
    [(1, "file", "1 file"), (0, "batch", "0 batches"), (2, "file", "2 files")],
)
def test_one_of_a_kind_is_not_many(count: int, noun: str, text: str) -> None:
    assert counted(count, noun) == text


def test_verify_counts_files(pykcoord: Run, tmp_path: Path) -> None:
    with LogDirectory.open(tmp_path / "log", partitions=1) as log:
        area = data(0, [(b"\x00\x63", b"")], timestamp=0).encode()[61:]  # behind the header
        done: Future[object] = Future()
        log.append([Append(0, 0, 1, 0, 0, area)], lambda *answer: done.set_result(answer))
        done.result(30)
    out = pykcoord("log", "verify", tmp_path / "log").out
    assert " sound: 1 file, " in out
    assert out.endswith(" bytes, 1 batch, 1 record\n")


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
        (["log", "dump"], 2, "pykcoord log dump: Missing argument 'PATH' (see --help)"),
        (["log", "dump", "no/such/path"], 2, "'no/such/path' does not exist (see --help)"),
        (["log", "dump", "--jsn", "."], 2, "No such option"),
        (["log", "dump", "--since", "2q", "."], 2, "write how long ago (90s, 15m, 2h, 7d) or ISO"),
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
