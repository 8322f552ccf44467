"""Every classic and offset scenario of the rig, against the answers that Kafka's brokers gave."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.server import PykcoordServer

from diff.profiles import GOLDEN, PROFILES, TOPICS, rig_command, run_rig

# KIP-848 and transactions are not served yet.
NOT_SERVED = ("--skip", "848", "--skip", "txn")
# The recording has no chance in it, and so lacks the one scenario that two brokers answer unalike.
NOT_RECORDED = {"commit_empty_group_id"}
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
    golden = ("--golden", os.fspath(GOLDEN))
    result = run_rig(rig_command(golden, candidates, "scenarios", *NOT_SERVED), RUN_TIMEOUT_S)
    assert result.returncode == 0, result.stdout + result.stderr
    verdicts = dict(line.split()[:2] for line in result.stdout.splitlines() if "  " in line)
    skipped = {name for name, verdict in verdicts.items() if verdict in ("skipped", "not")}
    assert skipped == NOT_RECORDED, result.stdout
