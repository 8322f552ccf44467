"""Members in process: their partitions through joins, leaves, expiry, listeners and failures."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from support.waiting import SECONDS, eventually

from pykcoord import Coordinator, Member, TopicPartition
from pykcoord.errors import ArgumentError, CoordinatorClosedError, KafkaError

ALL = {TopicPartition("orders", number) for number in range(6)}
Join = Callable[..., Member]


def test_one_member_owns_everything(coordinator: Coordinator, join: Join) -> None:
    with join() as member:
        assert member.assignment == ALL
        assert member.generation == 1
        assert member.member_id.startswith("pykcoord-")
        member.commit({("orders", 0): 42, ("orders", 5): 7})
        assert member.committed() == {("orders", 0): 42, ("orders", 5): 7}
        assert member.committed([("orders", 5), ("orders", 1)]) == {("orders", 5): 7}
        assert "6 partitions" in repr(member)
    assert member.assignment == frozenset()
    assert member.generation == -1
    assert coordinator.groups()["state"].to_pylist() == ["Empty"]


def test_three_members_share_and_those_that_stay_take_over(join: Join) -> None:
    members = [join() for _ in range(3)]
    eventually(lambda: all(len(member.assignment) == 2 for member in members))
    assert set().union(*(member.assignment for member in members)) == ALL
    members[1].close()
    eventually(lambda: len(members[0].assignment) == len(members[2].assignment) == 3)
    assert members[0].assignment | members[2].assignment == ALL
    assert members[0].generation == members[2].generation


def test_a_member_whose_heartbeats_stop_is_expelled_and_comes_back(join: Join) -> None:
    silent = join(session_timeout_ms=300, heartbeat_interval_ms=299)
    silent.wait()
    silent._heartbeat_seconds = 2.0
    lively = join(session_timeout_ms=400)
    eventually(lambda: lively.assignment == ALL)
    eventually(lambda: len(silent.assignment) == 3 and len(lively.assignment) == 3)


def test_a_static_member_comes_back_without_a_rebalance(join: Join) -> None:
    one = join(group_instance_id="one")
    two = join(group_instance_id="two")
    eventually(lambda: len(one.assignment) == len(two.assignment) == 3)
    owned, generation = two.assignment, two.generation
    two.close()
    again = join(group_instance_id="two")
    again.wait()
    assert (again.assignment, again.generation) == (owned, generation)
    assert one.generation == generation


def test_a_fenced_static_member_ends(join: Join) -> None:
    lost: list[object] = []
    first = join(group_instance_id="one", on_revoked=lost.append)
    first.wait()
    second = join(group_instance_id="one")
    second.wait()
    eventually(lambda: bool(lost))
    with pytest.raises(KafkaError, match="FENCED_INSTANCE_ID"):
        first.wait()
    with pytest.raises(KafkaError, match="UNKNOWN_MEMBER_ID"):
        first.commit({("orders", 0): 1})
    assert second.assignment == ALL


def test_listeners_see_each_assignment_and_may_commit(join: Join) -> None:
    seen: list[tuple[str, int]] = []

    def revoked(partitions: frozenset[TopicPartition]) -> None:
        member.commit(dict.fromkeys(partitions, 9))
        seen.append(("revoked", len(partitions)))

    def assigned(partitions: frozenset[TopicPartition]) -> None:
        seen.append(("assigned", len(partitions)))

    member = join(on_assigned=assigned, on_revoked=revoked)
    member.wait()
    other = join()
    eventually(lambda: len(seen) == 3 and len(other.assignment) == 3)
    assert seen[:3] == [("assigned", 6), ("revoked", 6), ("assigned", 3)]
    assert other.committed() == dict.fromkeys(ALL, 9)
    member.close()
    assert seen[3:] == [("revoked", 3)]


def test_a_slow_listener_does_not_lose_the_membership(join: Join) -> None:
    begun, release = threading.Event(), threading.Event()

    def slow(_partitions: object) -> None:
        begun.set()
        assert release.wait(SECONDS)

    member = join(session_timeout_ms=1_000, on_assigned=slow)
    assert begun.wait(SECONDS)
    time.sleep(1.2)  # longer than a session; only the clock can tell
    release.set()
    member.wait()
    assert (member.assignment, member.generation) == (ALL, 1)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_that_is_closed_while_its_listener_runs_waits_for_it(
    coordinator: Coordinator, protocol: Any
) -> None:
    begun, may_end = threading.Event(), threading.Event()
    seen: list[str] = []

    def assigned(_partitions: object) -> None:
        begun.set()
        assert may_end.wait(SECONDS)
        seen.append("assigned")

    member = coordinator.join(
        "billing", ["orders"], protocol=protocol, on_assigned=assigned,
        on_revoked=lambda _: seen.append("revoked"),
    )  # fmt: skip
    assert begun.wait(SECONDS)
    closing = threading.Thread(target=member.close)
    closing.start()
    eventually(lambda: member._task.done())
    assert seen == []
    may_end.set()
    closing.join(SECONDS)
    assert seen == ["assigned", "revoked"]


def test_a_member_that_is_closed_while_it_gives_up_its_partitions_does_so_once(
    coordinator: Coordinator, join: Join
) -> None:
    begun, may_end = threading.Event(), threading.Event()
    seen: list[int] = []

    def revoked(partitions: frozenset[TopicPartition]) -> None:
        begun.set()
        assert may_end.wait(SECONDS)
        seen.append(len(partitions))

    member = join(on_revoked=revoked)
    member.wait()
    join()
    assert begun.wait(SECONDS)
    closing = threading.Thread(target=member.close)
    closing.start()
    eventually(lambda: member._task.done())
    may_end.set()
    closing.join(SECONDS)
    assert seen == [6]


def test_a_member_may_be_closed_by_its_listener(coordinator: Coordinator) -> None:
    closed = threading.Event()
    made: list[Member] = []

    def assigned(_partitions: object) -> None:
        eventually(lambda: made)
        made[0].close()
        closed.set()

    made.append(coordinator.join("billing", ["orders"], on_assigned=assigned))
    assert closed.wait(SECONDS)
    assert coordinator.groups()["state"].to_pylist() == ["Empty"]


def test_a_listener_that_refuses_its_partitions_leaves_them_to_others(join: Join) -> None:
    def refuse(_partitions: object) -> None:
        raise ZeroDivisionError("not today")

    member = join(on_assigned=refuse)
    with pytest.raises(ZeroDivisionError, match="not today"):
        member.wait()
    assert member.assignment == frozenset()
    with join() as other:
        assert other.assignment == ALL
    with pytest.raises(ZeroDivisionError), join(on_assigned=refuse):
        pass


def test_what_on_revoked_raises_is_logged(join: Join, caplog: pytest.LogCaptureFixture) -> None:
    def fail(_partitions: object) -> None:
        raise ZeroDivisionError("too late")

    member = join(on_revoked=fail)
    member.wait()
    other = join()
    eventually(lambda: len(member.assignment) == len(other.assignment) == 3)
    assert "too late" in caplog.text


def test_a_topic_that_grows_is_shared_anew(coordinator: Coordinator, join: Join) -> None:
    members = [join(topics=["orders", "returns"]) for _ in range(2)]
    eventually(lambda: all(len(member.assignment) == 3 for member in members))
    coordinator.add_topics({"orders": 8, "returns": 2, "elsewhere": 1})
    eventually(lambda: all(len(member.assignment) == 5 for member in members))
    generation = members[0].generation
    coordinator.add_topics({"elsewhere": 2})
    time.sleep(0.1)  # nothing to wait for: nothing happens
    assert members[0].generation == generation


def test_a_commit_of_who_was_expelled_is_refused(join: Join) -> None:
    silent = join(session_timeout_ms=3_000, heartbeat_interval_ms=2_999)
    silent.wait()
    silent._task.cancel()
    lively = join()
    with pytest.raises(TimeoutError, match=r"no assignment in 0\.1 s"):
        lively.wait(0.1)
    silent.commit({("orders", 0): 1})  # in time: the group still waits for it
    eventually(lambda: lively.assignment == ALL)
    with pytest.raises(KafkaError, match="UNKNOWN_MEMBER_ID"):
        silent.commit({("orders", 0): 2})
    assert lively.committed() == {("orders", 0): 1}


def test_commits_of_what_does_not_exist_are_refused(join: Join) -> None:
    with join() as member:
        with pytest.raises(KafkaError, match=r"UNKNOWN_TOPIC_OR_PARTITION .*orders-6"):
            member.commit({("orders", 0): 1, ("orders", 6): 1})
        member.commit({})


def test_after_closing_nothing_is_committed(join: Join) -> None:
    member = join()
    member.wait()
    member.close()
    member.close()
    with pytest.raises(CoordinatorClosedError, match="was closed"):
        member.commit({("orders", 0): 1})
    with pytest.raises(CoordinatorClosedError, match="was closed"):
        member.wait()


@pytest.mark.parametrize(
    ("argument", "options"),
    [
        ("group_id", {"group_id": ""}),
        ("topics", {"topics": "orders"}),
        ("topics", {"topics": []}),
        ("topics", {"topics": [3]}),
        ("session_timeout_ms", {"session_timeout_ms": 99}),
        ("session_timeout_ms", {"session_timeout_ms": 2**31}),
        ("rebalance_timeout_ms", {"rebalance_timeout_ms": 0}),
        ("heartbeat_interval_ms", {"heartbeat_interval_ms": 0}),
        ("heartbeat_interval_ms", {"heartbeat_interval_ms": 45_000}),
        ("group_instance_id", {"group_instance_id": ""}),
    ],
)
def test_arguments_that_cannot_be_right(
    join: Join, argument: str, options: dict[str, object]
) -> None:
    with pytest.raises(ArgumentError) as caught:
        join(**options)
    assert caught.value.argument == argument


def test_members_on_an_event_loop(coordinator: Coordinator) -> None:
    async def work() -> dict[TopicPartition, int]:
        async with coordinator.join("billing", ["orders"]) as member:
            await member.commit_async({("orders", 1): 5})
            with pytest.raises(TimeoutError):
                await coordinator.join("billing", ["orders"]).wait_async(0.05)
            return await member.committed_async()

    assert asyncio.run(work()) == {("orders", 1): 5}


def test_many_members_of_many_groups(coordinator: Coordinator, join: Join) -> None:
    before = threading.active_count()
    members = [join(f"group-{number}", heartbeat_interval_ms=500) for number in range(300)]
    for member in members:
        member.wait()
    assert threading.active_count() <= before, "a task each, not a thread"
    assert len(coordinator.groups()) == 300


def test_use_from_many_threads(join: Join) -> None:
    member = join()
    member.wait()
    errors: list[BaseException] = []

    def work(partition: int) -> None:
        try:
            for offset in range(50):
                member.commit({("orders", partition): offset})
                assert member.committed([("orders", partition)]) == {("orders", partition): offset}
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    assert not errors
    assert member.committed() == dict.fromkeys(ALL, 49)


def test_a_topic_that_does_not_exist_is_told_and_waited_for(
    coordinator: Coordinator, join: Join, caplog: pytest.LogCaptureFixture
) -> None:
    member = join(topics=["orders", "typo"])
    (told,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert "group 'billing' subscribes to 'typo', which the coordinator does not know" in told
    assert "add_topics" in told
    assert "(known: orders)" in told
    member.wait()
    assert member.assignment == ALL
    coordinator.add_topics({"typo": 1})
    eventually(lambda: ("typo", 0) in member.assignment)


def test_a_commit_of_a_partition_of_another_member_passes_as_in_kafka(join: Join) -> None:
    members = [join() for _ in range(2)]
    eventually(lambda: all(len(member.assignment) == 3 for member in members))
    (owned, *_) = members[1].assignment
    members[0].commit({owned: 12})
    assert members[1].committed([owned]) == {owned: 12}
