"""`ZooKeeperMember` on a real ZooKeeper, among its own kind."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable

import pytest

from pykcoord import TopicPartition
from pykcoord.errors import ArgumentError, CoordinatorClosedError
from pykcoord.zookeeper import (
    BadOffsetError,
    NoSessionError,
    RebalanceFailedError,
    ZooKeeperError,
    ZooKeeperMember,
)

from .conftest import World, until

pytestmark = pytest.mark.java
Make = Callable[..., ZooKeeperMember]


def _numbers(member: ZooKeeperMember, topic: str = "A") -> list[int]:
    return sorted(one.partition for one in member.assignment if one.topic == topic)


def test_members_join_share_and_leave(world: World, member: Make) -> None:
    first = member("c1", {"A": 1, "B": 2})
    first.wait()
    assert (_numbers(first), _numbers(first, "B")) == (list(range(6)), list(range(4)))
    assert first.streams["billing_c1-1"] == {TopicPartition("B", 2), TopicPartition("B", 3)}
    second = member("c2", ["A"])
    until(lambda: _numbers(first) == [0, 1, 2] and _numbers(second) == [3, 4, 5])
    assert world.owners("billing")["A-3"] == "billing_c2-0"
    registered = json.loads(world.text("/consumers/billing/ids/billing_c1"))
    assert registered["subscription"] == {"A": 1, "B": 2}
    second.close()
    assert second.assignment == frozenset()
    until(lambda: _numbers(first) == list(range(6)))
    assert first.generation >= 2
    first.close()
    assert world.owners("billing") == {}


def test_listeners_hear_what_comes_and_goes_and_may_commit(world: World, member: Make) -> None:
    told: list[tuple[str, list[int]]] = []
    members: list[ZooKeeperMember] = []

    def revoked(partitions: frozenset[TopicPartition]) -> None:
        told.append(("revoked", sorted(one.partition for one in partitions)))
        members[0].commit(dict.fromkeys(partitions, 7))

    def assigned(partitions: frozenset[TopicPartition]) -> None:
        told.append(("assigned", sorted(one.partition for one in partitions)))

    members.append(member("c1", ["A"], on_revoked=revoked, on_assigned=assigned))
    members[0].wait()
    second = member("c2", ["A"])
    second.wait()
    until(lambda: told[-1] == ("assigned", [0, 1, 2]), seen=lambda: told)
    everything = [0, 1, 2, 3, 4, 5]
    expected = [("assigned", everything), ("revoked", everything), ("assigned", [0, 1, 2])]
    # A member that rebalances once more, as after a session that ended, has the same again, with
    # or without losing it.
    again = [[("revoked", had), ("assigned", had)] for had in (everything, [0, 1, 2])]
    at = 0
    while at < len(told):
        if told[at : at + 2] in again:
            del told[at : at + 2]
        elif at > 0 and told[at] == told[at - 1]:
            del told[at]
        else:
            at += 1
    assert told == expected
    assert second.committed([("A", 5)]) == {("A", 5): 7}


def test_offsets_are_text_and_written_only_when_they_change(world: World, member: Make) -> None:
    one = member("c1", ["A"])
    one.wait()
    one.commit({("A", 0): 100, ("A", 1): 5})
    one.commit({("A", 0): 100})
    one.commit({("A", 0): 107})
    data, stat = world.client.get("/consumers/billing/offsets/A/0")
    assert (data, stat.version) == (b"107", 1)
    assert one.committed() == {("A", 0): 107, ("A", 1): 5}
    assert one.committed([("A", 1), ("A", 2)]) == {("A", 1): 5}


def test_it_awaits_on_a_loop(world: World) -> None:
    async def story() -> dict[TopicPartition, int]:
        async with ZooKeeperMember(world.connect, "billing", ["A"]) as one:
            await one.commit_async({("A", 3): 9})
            return await one.committed_async()

    assert asyncio.run(story()) == {("A", 3): 9}


def test_a_white_list_takes_new_topics_and_partitions(world: World, member: Make) -> None:
    world.topic("w.orders", 3)
    one = member("c1", whitelist=r"w\..*", streams=2)
    one.wait()
    assert _numbers(one, "w.orders") == [0, 1, 2]
    world.topic("w.new", 2)
    until(lambda: _numbers(one, "w.new") == [0, 1])
    world.topic("w.orders", 5)
    until(lambda: _numbers(one, "w.orders") == list(range(5)))
    world.topic("x", 1)
    world.client.delete("/brokers/topics/w.new")
    until(lambda: _numbers(one, "w.new") == [])


def test_a_topic_and_a_broker_that_come_later(world: World, member: Make) -> None:
    world.client.delete("/brokers/ids/1")
    one = member("c1", ["later"])
    one.wait()
    assert one.assignment == frozenset()
    world.client.create("/brokers/ids/1", b"{}")
    world.topic("later", 2)
    until(lambda: _numbers(one, "later") == [0, 1])


def test_a_session_that_expires_is_begun_anew(world: World, member: Make) -> None:
    one = member("c1", ["A"])
    one.wait()
    registered = json.loads(world.text("/consumers/billing/ids/billing_c1"))
    _expire(one)
    until(lambda: _timestamp(world, "c1") not in ("", registered["timestamp"]))
    until(lambda: len(world.owners("billing")) == 6 and len(one.assignment) == 6)


def _timestamp(world: World, consumer_id: str) -> str:
    path = f"/consumers/billing/ids/billing_{consumer_id}"
    if not world.client.exists(path):
        return ""
    return str(json.loads(world.text(path))["timestamp"])


def _expire(one: ZooKeeperMember) -> None:
    """End the session behind the member's back: by a second connection of the same session."""
    from kazoo.client import KazooClient

    client = one._session._client
    thief = KazooClient(one._session.hosts, client_id=client.client_id)
    thief.start()
    thief.stop()
    thief.close()


def test_claims_of_others_are_retried_and_given_up(world: World, member: Make) -> None:
    world.client.create("/consumers/billing/owners/A/2", b"stranger-0", makepath=True)
    one = member("c1", ["A"], rebalance_max_retries=2)
    with pytest.raises(RebalanceFailedError, match=r"owners/A/2: is claimed by stranger-0"):
        one.wait()
    assert one.assignment == frozenset()
    assert world.owners("billing") == {"A-2": "stranger-0"}, "nothing half claimed"
    assert world.client.exists("/consumers/billing/ids/billing_c1"), "the registration stays"
    counts = one.counts
    assert (counts.attempts, counts.failed_attempts, counts.conflicts) == (2, 2, 2)
    world.client.delete("/consumers/billing/owners/A/2")
    member("c2", ["B"]).wait()
    until(lambda: len(one.assignment) == 6)


def test_safe_goes_on_trying(world: World, member: Make) -> None:
    world.client.create("/consumers/billing/owners/A/2", b"stranger-0", makepath=True)
    one = member("c1", ["A"], rebalance_max_retries=1, rebalance_backoff_ms=20, safe=True)
    until(lambda: one.counts.failed_attempts > 3)
    world.client.delete("/consumers/billing/owners/A/2")
    one.wait()
    assert len(one.assignment) == 6


@pytest.mark.parametrize("safe", [False, True])
def test_claims_that_are_others_by_now(world: World, member: Make, safe: bool) -> None:
    """0.8 deletes by path alone; a safe member only what it has made itself."""
    one = member("c1", ["A"], safe=safe, rebalance_max_retries=1)
    one.wait()
    path = "/consumers/billing/owners/A/0"
    world.client.delete(path)
    world.client.create(path, b"stranger-0")
    member("c2", ["B"])
    until(lambda: one.counts.rebalances >= 2 and one.counts.attempts >= 2)
    if safe:
        assert world.text(path) == "stranger-0"
        world.client.delete(path)
    until(lambda: len(one.assignment) == 6)


def test_safe_commits_only_what_is_its_own(world: World, member: Make) -> None:
    one = member("c1", ["A"], safe=True)
    one.wait()
    one.commit({("A", 0): 5})
    with pytest.raises(ZooKeeperError, match="offsets/B/0: not committed: billing_c1 does not own"):
        one.commit({("B", 0): 5})
    world.client.set("/consumers/billing/offsets/A/0", b"9")
    with pytest.raises(ZooKeeperError, match="offsets/A/0: not committed: somebody else"):
        one.commit({("A", 0): 6})
    assert world.text("/consumers/billing/offsets/A/0") == "9"


def test_the_second_of_a_name_waits_until_the_first_is_gone(world: World, member: Make) -> None:
    first = member("c1", ["A"])
    first.wait()
    second = member("c1", ["A"], session_timeout_ms=3_000)
    path = "/consumers/billing/ids/billing_c1"
    until(lambda: path in second._waits_for)
    with pytest.raises(TimeoutError, match=path):
        second.wait(0)
    first.close()
    second.wait()
    assert len(second.assignment) == 6


def test_a_safe_second_of_a_name_gives_up(world: World, member: Make) -> None:
    member("c1", ["A"]).wait()
    second = member("c1", ["A"], safe=True, session_timeout_ms=1_000)
    path = "/consumers/billing/ids/billing_c1"
    with pytest.raises(ZooKeeperError, match=f"{path}: is registered by another member"):
        second.wait()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"no json", "no JSON that 0.8.2 reads"),
        (b'{"subscription":{"[":1},"pattern":"white_list"}', "no regular expression of Java"),
    ],
)
def test_a_broken_registration_stops_the_group(
    world: World, member: Make, data: bytes, reason: str
) -> None:
    path = "/consumers/billing/ids/billing_odd"
    world.client.create(path, data, makepath=True)
    one = member("c1", ["A"], rebalance_max_retries=1)
    with pytest.raises(RebalanceFailedError, match=f"{path}: .*{reason}"):
        one.wait()
    assert world.owners("billing") == {}


def test_a_registration_of_another_version_is_read_with_a_warning(
    world: World, member: Make, caplog: pytest.LogCaptureFixture
) -> None:
    path = "/consumers/billing/ids/billing_odd"
    data = b'{"version":2,"subscription":{"A":1},"pattern":"static","timestamp":"1"}'
    world.client.create(path, data, makepath=True)
    one = member("c1", ["A"])
    one.wait()
    assert _numbers(one) == [0, 1, 2]
    assert f"{path}: version 2, not 1" in caplog.text


def test_mixed_strategies_conflict_until_one_gives_up(world: World, member: Make) -> None:
    first = member("c1", {"A": 1, "B": 1}, rebalance_max_retries=2)
    first.wait()
    second = member("c2", {"A": 1, "B": 1}, strategy="roundrobin", rebalance_max_retries=2)
    until(lambda: first.counts.failed_attempts >= 2 or second.counts.failed_attempts >= 2)
    loser = first if first.counts.failed_attempts >= 2 else second
    with pytest.raises(RebalanceFailedError, match=r"owners/\w/\d: is claimed by .*_c[12]-0"):
        loser.wait()


def test_an_offset_that_is_no_number_names_its_path(world: World, member: Make) -> None:
    path = "/consumers/billing/offsets/A/0"
    world.client.create(path, b"many", makepath=True)
    one = member("c1", ["A"], rebalance_max_retries=1)
    with pytest.raises(RebalanceFailedError, match=f"{path}: 'many' is no offset"):
        one.wait()
    with pytest.raises(BadOffsetError, match=path):
        one.committed()
    assert world.owners("billing") == {}


def test_a_znode_without_permission_names_its_path(world: World, member: Make) -> None:
    from kazoo.security import make_acl

    nobody = [make_acl("world", "anyone", read=True)]
    world.client.ensure_path("/consumers/billing")
    world.client.create("/consumers/billing/ids", acl=nobody)
    one = member("c1", ["A"])
    with pytest.raises(ZooKeeperError, match="ids/billing_c1: no permission"):
        one.wait()


def test_zookeeper_is_away_at_the_start() -> None:
    one = ZooKeeperMember("127.0.0.1:1", "billing", ["A"], connection_timeout_ms=300)
    with pytest.raises(NoSessionError, match=r"127\.0\.0\.1:1: no ZooKeeper server answered"):
        one.wait()
    one.close()
    with pytest.raises(CoordinatorClosedError):
        one.commit({("A", 0): 1})


@pytest.mark.parametrize("connect", ["", "127.0.0.1:x", "127.0.0.1:99999"])
def test_what_is_no_connect_string(connect: str) -> None:
    with pytest.raises((NoSessionError, ArgumentError)):
        ZooKeeperMember(connect, "billing", ["A"], connection_timeout_ms=100).wait()


@pytest.mark.parametrize("group", ["", "a/b", ".."])
def test_what_is_no_group(group: str) -> None:
    with pytest.raises(ArgumentError, match="group_id"):
        ZooKeeperMember("127.0.0.1:1", group, ["A"])


def test_a_listener_that_raises_ends_its_member_alone(world: World, member: Make) -> None:
    def assigned(partitions: frozenset[TopicPartition]) -> None:
        raise RuntimeError("not today")

    one = member("c1", ["A"], on_assigned=assigned)
    with pytest.raises(RuntimeError, match="not today"):
        one.wait()
    other = member("c2", ["A"])
    until(lambda: len(other.assignment) == 6)


def test_a_member_may_be_closed_by_its_listener(world: World, member: Make) -> None:
    made: list[ZooKeeperMember] = []
    ready = threading.Event()

    def assigned(partitions: frozenset[TopicPartition]) -> None:
        ready.wait()
        made[0].close()

    made.append(member("c1", ["A"], on_assigned=assigned))
    ready.set()
    made[0]._ended.result(60)
    assert world.owners("billing") == {}
