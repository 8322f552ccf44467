"""The folder of a cluster is not there any more, or another one is: nobody is told what others do
not see."""

from __future__ import annotations

import time

import pytest
from support.members import Members, probing, served_again

pytestmark = [pytest.mark.client, pytest.mark.crash]

NODES = 2

# Longer than a lease, and than all attempts of a put.
AFTER_S = 2.0


def said(members: Members, node: int, text: str) -> int:
    return sum(text in line for line in members.lines[node])


def test_a_folder_that_is_unmounted_in_the_middle_gets_nothing_and_no_commit_is_acknowledged(
    members: Members,
) -> None:
    with probing(members) as probes:
        away = members.folder.with_name("unmounted")
        members.folder.rename(away)
        members.folder.mkdir()  # the mount point, as it is without the mount
        for node in (1, 2):
            members.wait(
                lambda node=node: said(members, node, f"the store of node {node} fails"),
                "it says so",
            )
        failed_at = time.monotonic()
        members.wait(
            lambda: all(one.failed_at > failed_at + AFTER_S for one in probes),
            "all were refused for long",
        )
        # An answer from before may have been read a moment later.
        assert all(one.times[-1] < failed_at + AFTER_S / 2 for one in probes)
        assert [*members.folder.iterdir()] == []
        for node in (1, 2):
            (line,) = [one for one in members.lines[node] if "is not the folder" in one]
            assert "store is not the folder that it was" in line or "seen-by" in line
            assert members.processes[node].poll() is None
        members.folder.rmdir()
        away.rename(members.folder)
        served_again(members, probes)
        for node in (1, 2):
            members.wait(lambda node=node: said(members, node, "answers again"), "it says so")


def test_a_store_that_is_deleted_is_not_made_again(members: Members) -> None:
    away = members.folder.with_name("deleted")
    members.folder.rename(away)
    members.wait(lambda: said(members, 1, "the store of node 1 fails"), "it says so")
    for node in (1, 2):
        members.kill(node)
    assert not members.folder.exists()
