"""Every scenario of the rig, against the answers of Kafka's brokers.

Kafka 4.4.0 is the reference. What it changed since 4.3.1 is known by name, so that neither more nor
less of it is followed here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.server import PykcoordServer

from diff.profiles import GOLDEN, OLDER_GOLDEN, PROFILES, TOPICS, rig_command, run_rig

NOT_SERVED = ("--skip", "txn")
TRANSACTIONAL = 43
# Of 4.3.1. One group there has the same name in each run, and the broker was its own candidate; the
# others need versions that it does not have.
NOT_RECORDED_BEFORE = {
    "commit_empty_group_id",
    "v44_api_versions",
    "v44_api_versions_another_node",
    "v44_api_versions_half",
    "v44_delete_groups",
}
CHANGED_RANGES = {
    "api_versions_bad_software_name",
    "api_versions_ranges",
    "api_versions_unsupported",
    "v44_versions_beyond",
    *(f"api_versions_version_{version}" for version in range(5)),
}
# An empty group's targets are as new as its subscriptions.
CHANGED_LAST_TO_GO = {
    "c_first_join",
    "c_two_members_reconcile",
    "m_downgrade_not_when_all_leave",
    "m_upgrade_by_static_replacement",
    "n_static_without_instance_id",
    "v44_all_leave_at_once",
    "v44_last_member_expires",
    "v44_last_member_leaves",
    "v44_next_member_needs_no_interval",
    "v44_static_away_is_no_leave",
}
CHANGED_PREFERRED_ASSIGNOR = {
    "n_assignor_tie",
    "n_assignor_vote",
    "v44_assignor_change_waits_for_interval",
    "v44_assignor_changed_by_the_only_member",
    "v44_assignor_changed_by_vote",
}
CHANGED_FULL_GROUP = {
    "n_group_size",
    "v44_static_classic_passes_full_group",
    "v44_static_passes_full_group",
}
RUN_TIMEOUT_S = 170


@pytest.fixture
def candidates(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The address of a server by profile."""
    with ExitStack() as stack:
        yield {
            profile: stack.enter_context(
                PykcoordServer(tmp_path / profile, topics=TOPICS, settings=settings).start()
            ).address
            for profile, settings in PROFILES.items()
        }


def test_every_answer_is_kafkas(candidates: dict[str, str]) -> None:
    status, by_verdict, output = judged(GOLDEN, candidates)
    assert status == 0, output
    assert by_verdict.keys() == {"same"}, output


def test_transactional_commits_are_kafkas(tmp_path: Path) -> None:
    """Beside a coordinator of transactions for tests: which there are is its to say."""
    environment = {"PYTHONPATH": os.fspath(Path(__file__).parents[1])}
    with ExitStack() as stack:
        candidates = {
            profile: stack.enter_context(
                PykcoordServer(
                    tmp_path / profile,
                    topics=TOPICS,
                    settings=PROFILES[profile],
                    environment=environment,
                    module="support.transactional_server",
                ).start()
            ).address
            for profile in ("base", "expiry")
        }
        status, by_verdict, output = judged(GOLDEN, candidates, "--tag", "txn")
    assert status == 0, output
    assert by_verdict.keys() == {"same"}, output
    assert len(by_verdict["same"]) == TRANSACTIONAL, output


def test_what_the_release_before_answers_otherwise(candidates: dict[str, str]) -> None:
    """The scenarios that differ; in all others both recordings say what the first test asks for."""
    changed = CHANGED_RANGES | CHANGED_LAST_TO_GO | CHANGED_PREFERRED_ASSIGNOR | CHANGED_FULL_GROUP
    names = sorted(changed | NOT_RECORDED_BEFORE)
    _, by_verdict, output = judged(OLDER_GOLDEN, candidates, *NOT_SERVED, *names)
    assert by_verdict.keys() == {"skipped", "DIFFERENT"}, output
    assert by_verdict["DIFFERENT"] == changed, output
    assert by_verdict["skipped"] == NOT_RECORDED_BEFORE, output


def judged(
    golden: Path, candidates: dict[str, str], *chosen: str
) -> tuple[int, dict[str, set[str]], str]:
    """The exit status, names of scenarios by verdict, and what the rig printed."""
    chosen = chosen or NOT_SERVED
    command = rig_command(("--golden", os.fspath(golden)), candidates, "scenarios", *chosen)
    result = run_rig(command, RUN_TIMEOUT_S)
    table = result.stdout.split("\n\n")[0].splitlines()
    by_verdict: dict[str, set[str]] = {}
    for line in table:
        if not line.startswith(" "):
            name, verdict = line.split()[:2]
            by_verdict.setdefault(verdict, set()).add(name)
    return result.returncode, by_verdict, result.stdout + result.stderr
