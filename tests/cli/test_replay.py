"""`pykcoord replay` over the data directory of a coordinator with real members."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pykcoord.config import Config
from pykcoord.coordinator import Coordinator
from pykcoord.member import Member

SECONDS = 60
CONFIG = Config(group_initial_rebalance_delay_ms=0)
WAS = ("--was", "group.initial.rebalance.delay.ms=0")


def replayed(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pykcoord", "replay", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)


def settle(members: list[Member]) -> None:
    """Until each has its share of the four partitions."""
    deadline = time.monotonic() + SECONDS
    while any(len(member.assignment) != 4 // len(members) for member in members):
        assert time.monotonic() < deadline, [member.assignment for member in members]
        time.sleep(0.02)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One member is restarted twice beside another that stays; another group is of the consumer
    protocol."""
    path = tmp_path_factory.mktemp("replay") / "data"
    options = {"heartbeat_interval_ms": 100}
    with Coordinator(path, topics={"orders": 4}, config=CONFIG) as coordinator:
        stays = coordinator.join("billing", ["orders"], client_id="stays", **options)
        for _ in range(3):
            restless = coordinator.join("billing", ["orders"], client_id="restless", **options)
            settle([stays, restless])
            restless.close()
            settle([stays])
        stays.close()
        stays = coordinator.join("native", ["orders"], client_id="stays", protocol="consumer")
        settle([stays])
        restless = coordinator.join("native", ["orders"], client_id="restless", protocol="consumer")
        settle([stays, restless])
        restless.close()
        settle([stays])
        stays.close()
    return path


def test_the_past_is_run_again_as_it_was_and_changed(directory: Path) -> None:
    done = replayed(directory, "billing", *WAS, "--set", "static.membership=true", "--json")
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)["groups"]
    assert found["group_id"] == "billing"
    assert found["recorded"]["causes"]["left"] == 4
    # It took a second or two, and members of the model beat every 3 s: several changes are one
    # rebalance.
    assert 1 <= found["again"]["rebalances"] <= found["recorded"]["rebalances"]
    # A static member leaves without a word.
    assert "left" not in found["changed"]["causes"]


def test_a_person_gets_a_table(directory: Path) -> None:
    done = replayed(directory, "billing", *WAS, "--set", "group.rebalance.min.interval.ms=60000")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "2 clients; changed: group.rebalance.min.interval.ms=60000" in lines[0]
    assert lines[1].split() == ["figure", "recorded", "again", "changed"]
    assert any(line.startswith("rebalances") for line in lines)


def test_without_a_group_those_that_cost_most_are_run_again(directory: Path) -> None:
    done = replayed(directory, *WAS)
    assert done.returncode == 0, done.stderr
    assert "billing" in done.stdout
    assert "native" in done.stdout
    # What has no part in a group of the other protocol leaves it out.
    done = replayed(directory, *WAS, "--set", "session.timeout.ms=60000")
    assert "billing" in done.stdout
    assert "native" not in done.stdout


def test_a_group_of_the_consumer_protocol_is_run_again(directory: Path) -> None:
    done = replayed(directory, "native", "--set", "static.membership=true", "--json")
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)["groups"]
    assert found["recorded"]["causes"] == {"member_joined": 2, "left": 2}
    assert found["again"]["causes"] == found["recorded"]["causes"]
    assert found["recorded"]["moved"] > 0
    assert "left" not in found["changed"]["causes"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("billing", "--set", "heartbeat.interval.ms=1"), "the record cannot decide this"),
        (("billing", "--set", "nonsense=1"), "what can be changed: partition.assignment.strategy"),
        (("absent",), "nothing is recorded of this group"),
        (("native", "--set", "session.timeout.ms=1"), "has no part in a consumer group"),
    ],
)
def test_what_cannot_be_run_again_is_refused(
    directory: Path, arguments: tuple[str, ...], says: str
) -> None:
    done = replayed(directory, *arguments)
    assert done.returncode == 1
    assert says in done.stderr


def test_a_directory_without_a_record_is_refused(tmp_path: Path) -> None:
    done = replayed(tmp_path, "billing")
    assert done.returncode == 1
    assert "name the data directory of a server" in done.stderr
