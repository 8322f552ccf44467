"""Nodes whose wall clocks are ten minutes apart, and one that jumps by an hour: members stay, and
who goes without a word is missed as soon as elsewhere. Over a folder, and over an S3 server, which
answers nobody whose clock is an hour off."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from support import gateway
from support.asked import DESCRIBE_GROUPS, HEARTBEAT, JOIN_GROUP, SYNC_GROUP, Asked
from support.hosting import commit_fields, wait_until
from support.members import SHARDS, Members, gap, probing, served_again
from support.proxied import ProxiedMembers, S3Members

from pykcoord._native import partition_of
from pykcoord.cli import commands
from pykcoord.cluster.looking import ClusterState, read_cluster

pytestmark = [
    pytest.mark.client,
    pytest.mark.crash,
    pytest.mark.skipif(os.uname().sysname != "Linux", reason="the clock is preloaded as on Linux"),
]

SHIFTS_S = {1: 600, 2: 0, 3: -600}
JUMP_S = 3600
SESSION = timedelta(seconds=6)
# Late timers wait a second for what has arrived.
UNHEARD_S = 1.5
SHARD = 2
# None of those that `probing` commits for.
GROUP = next(f"m{n}" for n in range(60) if partition_of(f"m{n}", SHARDS) == SHARD)
# As of any node that its store does not answer: it says so after 2 s, and has a lease of 3 s.
CUT_OFF_S = 7.0
NOT_HERE = (14, 15, 16)  # loading, not available, NOT_COORDINATOR: ask again


class Shifted(ProxiedMembers):
    """Each with a clock of its own."""

    library: Path

    @property
    def url(self) -> str:
        return str(self.folder)

    def begin(self, library: Path) -> None:
        """Start all."""
        self.library = library
        for node, seconds in SHIFTS_S.items():
            self._clock(node).write_bytes(seconds.to_bytes(8, "little", signed=True))
        self.start_all()
        self.wait(lambda: all(len(one.shards) == 2 for one in self.state().nodes), "all is spread")

    def state(self) -> ClusterState:
        return read_cluster(self.url)

    def _clock(self, node: int) -> Path:
        return self.folder.parent / f"clock-{node}"

    def environment(self, node: int) -> Mapping[str, str]:
        clock = {"LD_PRELOAD": str(self.library), "CLOCK_SHIFT": str(self._clock(node))}
        return {**super().environment(node), **clock}

    def jump(self, node: int, seconds: int) -> None:
        """Its clock is off by so much from now on."""
        with self._clock(node).open("r+b") as file:
            file.write(seconds.to_bytes(8, "little", signed=True))


class ShiftedOverS3(Shifted, S3Members):
    url = S3Members.url


@pytest.fixture(scope="module")
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not request.config.getoption("--s3"):
        pytest.skip("of all faults: with --s3")
    compiler = os.environ.get("CC", "cc")
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not here")
    built = tmp_path_factory.mktemp("clock") / "clock.so"
    command = [compiler, "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", built]
    subprocess.run([*command, Path(__file__).with_name("clock.c"), "-ldl"], check=True)
    return built


@pytest.fixture
def members(library: Path, tmp_path: Path) -> Iterator[Shifted]:
    made = Shifted(tmp_path, len(SHIFTS_S))
    try:
        made.begin(library)
        yield made
    finally:
        made.close()


@pytest.fixture
def members_over_s3(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ShiftedOverS3]:
    if (reason := gateway.missing_tool()) is not None:
        pytest.skip(reason)
    with gateway.running(tmp_path / "gateway") as running:
        for name, value in gateway.Gateway.environment(running.port).items():
            monkeypatch.setenv(name, value)
        made = ShiftedOverS3(tmp_path, len(SHIFTS_S), running)
        try:
            made.begin(library)
            yield made
        finally:
            made.close()


def test_clocks_that_are_minutes_apart_expire_nobody_over_s3(members_over_s3: Shifted) -> None:
    member = Member(members_over_s3)
    for node in (1, 3, 2):
        move(members_over_s3, node)
        member.beats()
        assert member.commits(node) == 0
    # It says nothing more.
    wait_until(lambda: member.described().group_state == "Empty", 60)


def test_a_clock_that_jumps_so_far_that_s3_answers_no_more_cuts_its_node_off(
    members_over_s3: ShiftedOverS3,
) -> None:
    members = members_over_s3
    member = Member(members)

    def begins_anew() -> bool:
        member.beats()
        return members.state().node(1) not in (None, before)

    with probing(members) as probes:
        move(members, 1)
        member.beats()
        before = members.state().node(1)
        since = members.watched_from_now()
        members.jump(1, JUMP_S)
        members.wait(lambda: members.state().node(1) is None, "it is fenced")
        served_again(members, probes)
        assert gap(probes, since) < CUT_OFF_S
        assert any("403 Forbidden" in line for line in members.lines[1])
        member.beats()
        members.jump(1, 0)
        members.wait(begins_anew, "it begins anew")
        served_again(members, probes)
        member.beats()


def test_clocks_that_are_minutes_apart_or_jump_expire_nobody_and_keep_nobody(
    members: Shifted,
) -> None:
    member = Member(members)
    for node in (1, 3, 2, 1):
        move(members, node)
        member.beats()
        assert member.commits(node) == 0
    for seconds in (JUMP_S, -JUMP_S):
        members.jump(1, seconds)
        until = time.monotonic() + UNHEARD_S
        while time.monotonic() < until:
            assert member.described().group_state == "Stable"
        member.beats()
    move(members, 3)
    member.beats()
    assert off_by_s(members) == {1: -JUMP_S, 2: 0, 3: -600}
    # It says nothing more.
    wait_until(lambda: member.described().group_state == "Empty", 60)


def move(members: Shifted, node: int) -> None:
    words = ["cluster", "move", members.url, str(SHARD), str(node), "--wait", "60"]
    told = CliRunner().invoke(commands, words)
    assert told.exit_code == 0, told.output


def off_by_s(members: Members) -> dict[int, int]:
    """By how much each node's own lines are, in whole minutes as seconds."""
    found = {}
    for node, lines in members.lines.items():
        said = [line for line in lines if line[:2] == "20"]
        at = datetime.fromisoformat(said[-1].split()[0])
        found[node] = 60 * round((at - datetime.now(UTC)).total_seconds() / 60)
    return found


class Member:
    """Of `GROUP`, by itself; asks whoever coordinates it."""

    def __init__(self, members: Members) -> None:
        self._members = members
        who: dict[str, Any] = {"group_id": GROUP, "member_id": ""}
        protocols = [{"name": "range", "metadata": b""}]
        for _ in range(2):  # the first answer is its id
            joined = self.ask(
                JOIN_GROUP, 5, **who, session_timeout=SESSION, rebalance_timeout=SESSION,
                protocol_type="consumer", protocols=protocols,
            )  # fmt: skip
            who["member_id"] = joined.member_id
        assert joined.error_code == 0
        self._who = {**who, "generation_id": joined.generation_id}
        shares = [{"member_id": joined.member_id, "assignment": b"x"}]
        assert self.ask(SYNC_GROUP, 3, **self._who, assignments=shares).error_code == 0

    def beats(self) -> None:
        """It is a member still, of the same generation."""
        assert self.ask(HEARTBEAT, 3, **self._who).error_code == 0

    def commits(self, offset: int) -> int:
        """The error code."""
        fields = commit_fields(GROUP, offset)
        fields["generation_id_or_member_epoch"] = self._who["generation_id"]
        answer = self.ask(8, 7, **{**fields, "member_id": self._who["member_id"]})
        return int(answer.topics[0].partitions[0].error_code)

    def described(self) -> Any:
        fields = {"groups": [GROUP], "include_authorized_operations": False}
        return self.ask(DESCRIBE_GROUPS, 5, **fields).groups[0]

    def ask(self, key: int, version: int, /, **fields: Any) -> Any:
        """The answer of the node that coordinates the group, once there is one."""

        def answered() -> Any:
            for host, port in self._members.addresses:
                try:
                    with Asked(f"{host}:{port}") as asked:
                        answer = asked.ask(key, version, **fields)
                except ConnectionError:
                    continue  # it begins anew, and does not listen meanwhile
                if code_of(answer) not in NOT_HERE:
                    return answer
            return None

        return wait_until(answered, 60)


def code_of(answer: Any) -> int:
    """Of a response, of the group in it, or of its first partition."""
    for row in (answer, *getattr(answer, "groups", ())):
        if hasattr(row, "error_code"):
            return int(row.error_code)
    return int(answer.topics[0].partitions[0].error_code)
