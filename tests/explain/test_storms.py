"""What storm control is worth, in virtual time, and that it is told."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from pykcoord.explain import explain
from pykcoord.virtual import Client, World

from .storms import SECOND, SETTINGS, Outcome, storm

# Seconds of a processor, which may be shared by many.
pytestmark = pytest.mark.timeout(600)

PAGE = Path(__file__).parents[2] / "docs" / "storms.md"


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Outcome]:
    return {name: storm(settings) for name, settings in SETTINGS.items()}


def test_members_that_stay_work_on_while_others_come_and_go(outcomes: dict[str, Outcome]) -> None:
    neither, interval, quarantine, both = outcomes.values()
    assert neither.steady_share < 0.5
    assert quarantine.steady_share > 1.3 * neither.steady_share
    assert interval.steady_share > 2 * neither.steady_share
    assert both.steady_share > 0.9
    assert (neither.held, neither.put_off, quarantine.put_off) == (0, 0, 0)
    assert interval.rebalances * 3 < neither.rebalances


def test_the_page_has_the_figures(outcomes: dict[str, Outcome]) -> None:
    lines = [
        "| on | rebalances | JoinGroups taken | newcomers held | removals put off | at work |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name, of in outcomes.items():
        figures = (of.rebalances, of.join_groups, of.held, of.put_off)
        lines.append(
            f"| {name} | "
            + " | ".join(f"{one:,}" for one in figures)
            + f" | {of.steady_share:.0%} |"
        )
    table = "\n".join(lines)
    new = re.sub(
        r"(<!-- storms -->\n).*?(<!-- end -->)",
        lambda found: f"{found[1]}\n{table}\n\n{found[2]}",
        PAGE.read_text(),
        flags=re.DOTALL,
    )
    if os.environ.get("UPDATE"):
        PAGE.write_text(new)
    assert new == PAGE.read_text(), "UPDATE=1 writes it anew"


def test_explain_says_who_was_held_and_whose_removal_was_put_off() -> None:
    world = World({"orders": 4}, group_rebalance_min_interval_ms=30_000)
    steady = [Client(world, "g", f"app-{number}").start() for number in (1, 2)]
    world.run(10 * SECOND)
    steady[1].leave()
    Client(world, "g", "app-3", host="10.0.0.3").start()
    world.run(60 * SECOND)
    story = [line.text for line in explain(world.events, "g").lines]
    assert (
        "The JoinGroup of client app-3 at 10.0.0.3 was held for 20 s: the group had rebalanced "
        "shortly before (group.rebalance.min.interval.ms)."
    ) in story
    (put_off,) = (line for line in story if "its removal waits" in line)
    assert put_off.startswith("Member app-2-")
    assert "left; its removal waits up to 20 s" in put_off


def test_explain_says_who_is_in_quarantine() -> None:
    world = World({"orders": 4}, group_quarantine_flaps=1, group_quarantine_ms=40_000)
    Client(world, "g", "app-1").start()
    restless = Client(world, "g", "app-2", host="10.0.0.2")
    for _ in range(2):
        restless.start()
        world.run(10 * SECOND)
        restless.leave()
        world.run(10 * SECOND)
    restless.start()
    world.run(30 * SECOND)
    assert not restless.is_stable
    (held,) = (line.text for line in explain(world.events, "g").lines if "was held" in line.text)
    assert "client app-2 at 10.0.0.2 was held for 30 s" in held
    assert "(group.quarantine.flaps)" in held
    world.run(30 * SECOND)
    assert restless.is_stable
