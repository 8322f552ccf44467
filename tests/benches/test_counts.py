"""The gate on instruction counts: what passes, what fails, and the messages."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

import pytest

# benches is not part of the package; it is run from the root.
sys.path.append(str(Path(__file__).parents[2]))

from benches import counts, slow_downs

ROOT = Path(__file__).parents[2]
ONE = """\
# compiler: rustc 1.95.0
heartbeat                   120.0  abc1234
timer-add                    60.0  def5678
"""


def gate(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, found: dict[str, float], **options: object
) -> list[str]:
    """The failures of the gate for these counts, with the bounds above."""
    bounds = tmp_path / "instructions.txt"
    if not bounds.exists():
        bounds.write_text(ONE)
    monkeypatch.setattr(counts, "ROOT", tmp_path)
    monkeypatch.setattr(counts, "PROFILES", tmp_path)
    monkeypatch.setattr(counts, "BOUNDS", bounds)
    monkeypatch.setattr(counts, "require_counter", lambda: None)
    monkeypatch.setattr(counts, "build_program", lambda: list(found))
    monkeypatch.setattr(counts, "compiler", lambda: options.pop("compiler", "rustc 1.95.0"))
    monkeypatch.setattr(counts, "count_all", lambda axes: {axis: found[axis] for axis in axes})
    monkeypatch.setattr(counts, "_commit", lambda: "fedcba9")
    monkeypatch.setattr(counts, "gate_events", lambda found: [])
    chosen = {"set": False, "only": None, **{k: v for k, v in options.items() if k != "compiler"}}
    return counts.gate_counts(argparse.Namespace(**chosen))


def test_what_is_as_it_was_passes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert gate(monkeypatch, tmp_path, {"heartbeat": 131.0, "timer-add": 40.0}) == []


def test_an_axis_that_does_next_to_nothing_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A request that was refused for an unknown topic once passed for a fast one."""
    (failure,) = gate(monkeypatch, tmp_path, {"heartbeat": 1.0, "timer-add": 60.0})
    assert "heartbeat: 1.0 instructions an operation, 0.8% of the 120.0 of abc1234" in failure


def test_a_tenth_more_fails_and_says_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (failure,) = gate(monkeypatch, tmp_path, {"heartbeat": 133.0, "timer-add": 60.0})
    for said in ("heartbeat", "133.0", "11% over", "120.0 of abc1234", "callgrind_annotate"):
        assert said in failure
    assert "make bench-gate BENCH_ARGS=--set" in failure


def test_events_may_cost_so_much_and_no_more() -> None:
    def told(axis: str, arguments: tuple[str, ...]) -> float:
        if axis == "heartbeat":
            # Rounds enough that those of the first one, which are late, do not count.
            assert arguments[:1] == ("--rounds",)
            return 102.0 if "--events" in arguments else 100.0
        assert arguments == ("--events",)
        return {"join-sync": 109.9, "commit-1": 202.2}[axis]

    found = {"heartbeat": 90.0, "join-sync": 100.0, "commit-1": 200.0, "range": 1.0}
    assert counts.gate_events(found, told) == [
        "heartbeat: 2.0% more instructions while events are told (allowed: 1%)",
        "commit-1: 1.1% more instructions while events are told (allowed: 1%)",
    ]


def test_another_compiler_gets_more_room(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = {"compiler": "rustc 1.99.0"}
    assert gate(monkeypatch, tmp_path, {"heartbeat": 133.0}, **other) == []
    other = {"compiler": "rustc 1.99.0"}
    assert len(gate(monkeypatch, tmp_path, {"heartbeat": 151.0}, **other)) == 1


def test_an_axis_without_a_bound_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (failure,) = gate(monkeypatch, tmp_path, {"new": 1.0})
    assert failure.startswith("new: 1.0 instructions, and no bound")


def test_set_keeps_what_did_not_move(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = {"heartbeat": 150.0, "timer-add": 60.4}
    assert gate(monkeypatch, tmp_path, found, set=True) == []
    bounds = counts.Bounds.read((tmp_path / "instructions.txt").read_text())
    assert bounds.by_axis["heartbeat"] == counts.Bound(150.0, "fedcba9")
    assert bounds.by_axis["timer-add"] == counts.Bound(60.0, "def5678")
    assert gate(monkeypatch, tmp_path, found) == []


def test_a_failure_is_the_exit_status(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["counts"])
    for failures, ratios, status in (([], True, 0), (["slow"], True, 1), ([], False, 1)):
        monkeypatch.setattr(counts, "gate_counts", lambda options, failures=failures: failures)
        monkeypatch.setattr(counts, "gate_ratios", lambda ratios=ratios: ratios)
        assert counts.main() == status


def test_without_valgrind_it_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(counts.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(counts.shutil, "which", lambda name: None)
    with pytest.raises(counts.CannotCount, match="apt install valgrind"):
        counts.require_counter()


def test_every_axis_has_a_bound() -> None:
    axes = re.findall(r'axis!\(\s*"([\w-]+)"', (ROOT / "native/bench/src/axis.rs").read_text())
    assert list(counts.Bounds.read(counts.BOUNDS.read_text()).by_axis) == axes


def test_every_axis_has_a_slow_down_that_fits_the_code() -> None:
    bounds = counts.Bounds.read(counts.BOUNDS.read_text())
    slowed = {axis for each in slow_downs.SLOW_DOWNS for axis in each.axes}
    assert slowed == set(bounds.by_axis)
    for number, each in enumerate(slow_downs.SLOW_DOWNS, 1):
        assert each.work in each.applied_to((ROOT / each.path).read_text(), number)


def test_a_slow_down_is_caught_where_it_alone_is_what_is_too_much() -> None:
    def judged(slowed: float, as_it_is: float, bound: counts.Bound | None) -> slow_downs.Judged:
        found = (counts.Verdict("axis", each, bound, 0.1) for each in (slowed, as_it_is))
        return slow_downs.Judged(slow_downs.SLOW_DOWNS[0], *found)

    bound = counts.Bound(100.0, "abc1234")
    assert judged(115.0, 105.0, bound).is_caught
    assert not judged(105.0, 100.0, bound).is_caught
    assert not judged(130.0, 115.0, bound).is_caught
    assert not judged(130.0, 100.0, None).is_caught
