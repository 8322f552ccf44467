"""`pykcoord assign`: the table, the JSON, and the errors of a file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pykcoord import cli

GROUP = {
    "topics": {"orders": 6, "audit": 2},
    "members": {
        "a": {
            "topics": ["orders", "audit"],
            "ownedPartitions": {"orders": [0, 1, 2, 3, 5]},
            "generationId": 4,
        },
        "b": ["orders", "audit"],
        "c": {
            "topics": ["audit", "orders"],
            "ownedPartitions": [["audit", 1], ["audit", 0]],
            "generationId": 4,
        },
    },
}

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs `pykcoord assign STRATEGY FILE ...` on a group, or on the text of a file."""

    def run(strategy: str, group: Any = GROUP, *options: str) -> tuple[int, str, str]:
        file = tmp_path / "group.json"
        file.write_text(group if isinstance(group, str) else json.dumps(group))
        code = cli.run(["assign", strategy, str(file), *options])
        return (code, *capsys.readouterr())

    return run


def test_a_table_says_what_moves(run: Run) -> None:
    code, out, err = run("sticky")
    assert (code, err) == (0, "")
    rows = [line.split() for line in out.splitlines()]
    assert rows[0] == ["MEMBER", "NOW", "HAD", "PARTITIONS", "GETS", "LOSES"]
    assert rows[1] == ["a", "3", "5", "orders", "0-2", "orders", "3,5"]
    assert rows[2] == ["b", "2", "0", "orders", "3-4", "orders", "3-4"]
    assert [line for line in out.splitlines() if line != line.rstrip()] == []
    assert out.splitlines()[-1] == "8 partitions, 2 to 3 a member; 5 stay, 2 move"


def test_a_cooperative_group_waits_for_what_is_given_up(run: Run) -> None:
    _code, out, _err = run("cooperative-sticky")
    last = "6 partitions, 1 to 3 a member; 5 stay, 0 move, 2 go to nobody yet"
    assert out.splitlines()[-1] == last


def test_json_for_machines(run: Run) -> None:
    code, out, _err = run("cooperative-sticky", GROUP, "--json")
    found = json.loads(out)
    assert code == 0
    assert found["strategy"] == "cooperative-sticky"
    assert found["assignment"]["c"] == [["audit", 0], ["audit", 1]]
    assert found["balance"] == {"least": 1, "most": 3}
    assert found["moves"] == [
        {"topic": "orders", "partition": number, "from": "a", "to": None} for number in (3, 5)
    ]


def test_java_on_request(run: Run) -> None:
    """The first defect of docs/assignors-design.md."""
    group = {"topics": {"T0": 3}, "members": {"A": [], "B": ["T0"]}}
    _code, out, _err = run("sticky", group, "--json")
    assert json.loads(out)["assignment"]["A"] == []
    _code, out, _err = run("sticky", group, "--json", "--java")
    assert json.loads(out)["assignment"]["A"] == [["T0", 0], ["T0", 2]]


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        ("{", "not JSON"),
        ("[]", "'topics'"),
        ('{"topics": {}, "members": {"a": [], "a": []}}', "'a' is there twice"),
        ('{"topics": {}, "members": {"a": {"tpoics": []}}}', "'tpoics' is not one of"),
        ('{"topics": {}, "members": {"a": 3}}', "neither a list of topics nor an object"),
        ('{"topics": {}, "members": {"a": {"userData": "?"}}}', "'a': userData: '?' is not base64"),
        (
            '{"topics": {}, "members": {"a": {"ownedPartitions": ["o"]}}}',
            """members: 'a': ownedPartitions: ['o'] is not of the form {"orders": [0, 1]} or""",
        ),
        (
            '{"topics": {}, "members": {"a": {"ownedPartitions": {"o": 1}}}}',
            "members: 'a': ownedPartitions: {'o': 1} is not of the form",
        ),
        (
            '{"topics": {}, "members": {"a": {"generationId": "4"}}}',
            "members: 'a': generationId: '4' is not a whole number",
        ),
        ('{"topics": {"t": -1}, "members": {}}', "must not be negative"),
    ],
)
def test_what_is_wrong_with_a_file_is_one_line(run: Run, file: str, reason: str) -> None:
    code, out, err = run("sticky", file)
    assert (code, out) == (1, "")
    assert reason in err
    assert err.count("\n") == 1


def test_an_unknown_strategy_is_wrong_usage(run: Run) -> None:
    code, _out, err = run("rnage")
    assert code == 2
    assert "cooperative-sticky" in err
