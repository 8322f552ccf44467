"""Groups that the coordinator assigns itself, embedded: `Coordinator` and `Shard`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from kio.schema.join_group.v3.request import JoinGroupRequest, JoinGroupRequestProtocol
from kio.schema.sync_group.v3.request import SyncGroupRequest, SyncGroupRequestAssignment
from kio.schema.types import GroupId
from kio.static.primitive import i32, i32Timedelta

from pykcoord import Config, Coordinator, Member, Shard
from pykcoord._native import decode_assignment
from pykcoord.assignors import Subscription, encode_assignment, encode_subscription
from pykcoord.errors import ArgumentError
from pykcoord.protocol import decode_response, encode_request
from pykcoord.shard import Finding, Request

from .conftest import CONFIG
from .test_member import eventually

Owned = dict[str, set[int]]


def assigning(groups: str, **more: Any) -> Config:
    return dataclasses.replace(
        CONFIG, group_assignment="coordinator", group_assignment_groups=groups, **more
    )


@pytest.fixture
def members() -> Iterator[list[Member]]:
    """Members in this list are closed at the end, before their coordinator."""
    made: list[Member] = []
    yield made
    for member in made:
        member.close()


def numbers(member: Member) -> set[int]:
    return {partition for _, partition in member.assignment}


def settled(*members: Member) -> Callable[[], bool]:
    def is_settled() -> bool:
        owned = [numbers(member) for member in members]
        sizes = {len(share) for share in owned}
        whole = set().union(*owned) == set(range(sum(map(len, owned))))
        return whole and sum(map(len, owned)) >= 6 and max(sizes) - min(sizes) <= 1

    return is_settled


def test_members_share_and_what_comes_later_moves_little(
    tmp_path: Path, members: list[Member]
) -> None:
    with Coordinator(tmp_path, topics={"orders": 6}, config=assigning("*:sticky")) as coordinator:
        join = lambda: coordinator.join("billing", ["orders"], heartbeat_interval_ms=20)  # noqa: E731
        members += [join(), join()]
        eventually(settled(*members))
        before = [numbers(member) for member in members]
        members.append(join())
        eventually(settled(*members))
        assert all(numbers(member) <= had for member, had in zip(members, before, strict=False))

        coordinator.add_topics({"orders": 9})
        eventually(lambda: sum(len(numbers(member)) for member in members) == 9)
        eventually(settled(*members))
        for member in members:
            member.close()


def test_capacities_by_client_id(tmp_path: Path, members: list[Member]) -> None:
    config = assigning("*:weighted", group_assignment_capacities="big*:2")
    with Coordinator(tmp_path, topics={"orders": 6}, config=config) as coordinator:
        for name in ("big-1", "small"):
            joined = coordinator.join(
                "billing", ["orders"], client_id=name, heartbeat_interval_ms=20
            )
            members.append(joined)
        eventually(lambda: [len(numbers(member)) for member in members] == [4, 2])
        for member in members:
            member.close()


def test_what_lags_is_spread(tmp_path: Path, members: list[Member]) -> None:
    config = assigning("*:lag-aware")
    with Coordinator(tmp_path, topics={"orders": 6}, config=config) as coordinator:
        coordinator.set_end_offsets({("orders", 0): 900, ("orders", 1): 1_000, ("orders", 2): 90})
        first = coordinator.join("billing", ["orders"], heartbeat_interval_ms=20)
        members.append(first)
        first.wait()
        first.commit({("orders", 1): 100})
        members.append(coordinator.join("billing", ["orders"], heartbeat_interval_ms=20))
        eventually(settled(*members))
        lagging = [numbers(member) & {0, 1} for member in members]
        assert sorted(lagging, key=sorted) == [{0}, {1}]
        for member in members:
            member.close()


def test_ends_are_of_partitions_that_exist(tmp_path: Path) -> None:
    with Coordinator(tmp_path, topics={"orders": 2}) as coordinator:
        with pytest.raises(ArgumentError, match="topic orders has 2 partitions"):
            coordinator.set_end_offsets({("orders", 2): 1})
        with pytest.raises(ArgumentError, match="topic other does not exist"):
            coordinator.set_end_offsets({("other", 0): 1})
        with pytest.raises(ArgumentError, match=r"offsets: .*pairs such as"):
            coordinator.set_end_offsets({"orders": [900, 1_000]})  # type: ignore[dict-item]


def test_who_has_what_outlives_a_restart(tmp_path: Path, members: list[Member]) -> None:
    config = assigning("*:sticky")
    owned: list[set[int]] = []
    for _ in range(2):
        with Coordinator(tmp_path, topics={"orders": 6}, config=config) as coordinator:
            joined = [
                coordinator.join(
                    "billing", ["orders"], group_instance_id=name, heartbeat_interval_ms=20
                )
                for name in ("one", "two")
            ]
            eventually(settled(*joined))
            owned += [numbers(member) for member in joined]
    assert owned[:2] == owned[2:]


TOPICS = {"orders": 4}
IN = i32Timedelta.parse(timedelta(seconds=10))


def joining(subscription: Subscription, version: int) -> JoinGroupRequest:
    metadata = encode_subscription(subscription, version)
    return JoinGroupRequest(
        group_id=GroupId("billing"),
        session_timeout=IN,
        rebalance_timeout=IN,
        member_id="",
        protocol_type="consumer",
        protocols=(JoinGroupRequestProtocol(name="range", metadata=metadata),),
    )


class Host:
    """A shard, its log, and nothing else."""

    def __init__(self, config: Config) -> None:
        self.shard = Shard(config, topics=TOPICS, seed=bytes(32))
        self.now_ms = 0
        self.tickets = 0
        self.answers: dict[int, bytes] = {}

    def turn(self, requests: list[Request], committed: int | None = None) -> None:
        step = self.shard.step(self.now_ms, requests, committed)
        self.answers |= dict(step.responses)
        if step.appends:
            last = step.appends[-1]
            self.turn([], last.base_offset + last.record_count)

    def ask(self, request: Any) -> Any:
        self.tickets += 1
        self.turn([Request(self.tickets, encode_request(request))])
        self.now_ms += 10
        self.turn([])
        return decode_response(request, self.answers.pop(self.tickets))

    def join(self) -> Any:
        return self.ask(joining(Subscription(["orders"]), 0))

    def sync(self, joined: Any, assignments: dict[str, bytes]) -> Any:
        given = tuple(
            SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
            for member_id, assignment in assignments.items()
        )
        return self.ask(
            SyncGroupRequest(
                group_id=GroupId("billing"),
                generation_id=i32(joined.generation_id),
                member_id=joined.member_id,
                assignments=given,
            )
        )


def test_a_shard_assigns_and_says_whose_assignment_it_replaced() -> None:
    host = Host(assigning("billing:uniform"))
    joined = host.join()
    assert joined.leader == ""
    assert joined.members == ()
    synced = host.sync(joined, {joined.member_id: b"mine"})
    assert decode_assignment(synced.assignment) == (0, [("orders", [0, 1, 2, 3])], None)
    sent = f"sent by {joined.member_id}"
    expected = Finding("billing", 1, "assignment_replaced", 1, sent)
    assert host.shard.take_findings() == [expected]
    assert host.shard.take_findings() == []


def test_a_shard_looks_at_what_a_leader_assigns_unless_told_not_to() -> None:
    wrong = encode_assignment([("orders", 0), ("orders", 9)])
    for checks in (True, False):
        host = Host(dataclasses.replace(CONFIG, group_assignment_check=checks))
        joined = host.join()
        assert joined.leader == joined.member_id
        assert host.sync(joined, {joined.member_id: wrong}).assignment == wrong
        kinds = [(found.kind, found.count) for found in host.shard.take_findings()]
        assert kinds == ([("unknown_partition", 1)] if checks else [])


@pytest.mark.parametrize("with_racks", [True, False])
def test_partitions_go_to_members_in_their_racks(with_racks: bool) -> None:
    host = Host(assigning("*:range"))
    racks = {"orders": [["b"], ["b"], ["a"], ["a"]]}
    host.shard.set_topics(TOPICS, racks=racks if with_racks else None)
    joins = [joining(Subscription(["orders"], rack_id=rack), 3) for rack in ("a", "b")]
    host.turn([Request(at, encode_request(join)) for at, join in enumerate(joins, 100)])
    host.now_ms += 10
    host.turn([])
    joined = [decode_response(join, host.answers.pop(at)) for at, join in enumerate(joins, 100)]
    owned = [decode_assignment(host.sync(each, {}).assignment)[1] for each in joined]
    if with_racks:
        assert owned == [[("orders", [2, 3])], [("orders", [0, 1])]]
    else:
        assert sorted(owned) == [[("orders", [0, 1])], [("orders", [2, 3])]]


def test_racks_are_of_each_partition() -> None:
    with pytest.raises(ArgumentError, match="racks: "):
        Shard().set_topics({"orders": 1}, racks={"orders": [7]})  # type: ignore[list-item]


def test_topics_of_a_shard_may_change() -> None:
    host = Host(assigning("*:range"))
    joined = host.join()
    host.sync(joined, {})
    host.shard.set_topics({"orders": 5})
    host.turn([])
    assert host.sync(joined, {}).error_code.name == "rebalance_in_progress"
