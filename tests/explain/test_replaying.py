"""A recorded past run again: as it was, and under other settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from pykcoord._native import dump
from pykcoord.errors import ConfigError, KcoordError
from pykcoord.events import Event
from pykcoord.replaying import (
    Changes,
    Outcome,
    Script,
    Traits,
    changes_of,
    concern,
    outcome_of,
    play,
    script_of,
    traits_of,
)
from pykcoord.shard import record_batch
from pykcoord.virtual import Client, Native, World

SECOND, MINUTE = 1_000, 60_000
TOPICS = {"orders": 6}


def recorded(
    act: Callable[[World, list[Client]], None], count: int = 3, minutes: int = 10, **options: object
) -> tuple[Script, list[Event]]:
    """The script of a group of so many members to which something happens."""
    world = World(TOPICS)
    members = [Client(world, "g", f"app-{n}", host=f"10.0.0.{n}", **options) for n in range(count)]  # type: ignore[arg-type]
    for number, member in enumerate(members):
        world.at(number * SECOND, lambda member=member: member.start())
    world.run(MINUTE)
    act(world, members)
    world.run(minutes * MINUTE)
    return script_of(world.events, "g", _traits(world.events, members), TOPICS), world.events


def _traits(events: Sequence[Event], members: Sequence[Client]) -> dict[str, Traits]:
    """What the log would say."""
    one = members[0]
    known = Traits(one.session_ms, one.rebalance_ms, one.topics, one.protocols[0])
    return {event.member.member_id: known for event in events if event.member is not None}


def again(script: Script, *pairs: str) -> Outcome:
    was = ("group.initial.rebalance.delay.ms=0", *pairs)
    return outcome_of(play(script, changes_of(was, script)), "g", script.end_ms)


def pauses(world: World, members: list[Client]) -> None:
    """Each of them is silent for 14 s, one after the other."""
    for number, member in enumerate(members):
        world.at(number * MINUTE, lambda member=member: member.pause(14 * SECOND))


def restarts(world: World, members: list[Client]) -> None:
    """Each of them is restarted, one after the other."""
    for number, member in enumerate(members):
        world.at(number * MINUTE, lambda member=member: member.leave())
        world.at(number * MINUTE + 5 * SECOND, lambda member=member: member.start())


def test_the_same_settings_give_the_same_past() -> None:
    for act in (pauses, restarts):
        script, events = recorded(act, session_ms=10 * SECOND)
        was, found = outcome_of(events, "g"), again(script)
        assert found.causes == was.causes
        assert found.removed == was.removed
        assert was.unowned_ms / 2 < found.unowned_ms < was.unowned_ms * 2


def test_a_longer_session_outlives_pauses() -> None:
    script, events = recorded(pauses, session_ms=10 * SECOND)
    assert outcome_of(events, "g").causes["session_expired"] == 3
    found = again(script, "session.timeout.ms=30000")
    assert "session_expired" not in found.causes
    assert found.removed == 0


def test_a_session_that_is_not_long_enough_changes_nothing() -> None:
    script, _ = recorded(pauses, session_ms=10 * SECOND)
    assert again(script, "session.timeout.ms=12000").causes["session_expired"] == 3


def test_a_dead_member_is_removed_however_long_the_session_is() -> None:
    def one_dies(world: World, members: list[Client]) -> None:
        members[1].die()
        world.at(5 * MINUTE, members[0].rejoin)  # so that the record goes on

    script, _ = recorded(one_dies, session_ms=10 * SECOND)
    found = again(script, "session.timeout.ms=60000")
    assert (found.causes["session_expired"], found.removed) == (1, 1)
    assert found.silent_ms == 60_000 > again(script).silent_ms == 10_000


def test_static_members_are_restarted_without_a_rebalance() -> None:
    script, events = recorded(restarts, session_ms=30 * SECOND)
    assert outcome_of(events, "g").causes["left"] == 3
    found = again(script, "static.membership=true")
    assert found.rebalances < outcome_of(events, "g").rebalances - 3
    assert "left" not in found.causes


def test_a_least_interval_makes_one_rebalance_of_several() -> None:
    def flap(world: World, members: list[Client]) -> None:
        for number in range(10):
            world.at(number * 20 * SECOND, lambda: members[2].leave())
            world.at(number * 20 * SECOND + 5 * SECOND, lambda: members[2].start())

    script, events = recorded(flap)
    found = again(script, "group.rebalance.min.interval.ms=60000")
    assert found.rebalances * 2 < outcome_of(events, "g").rebalances


def test_topics_that_grow_and_coordinators_that_fail_are_part_of_it() -> None:
    def grow(world: World, members: list[Client]) -> None:
        world.grow("orders", 9)
        members[0].rejoin()
        world.at(2 * MINUTE, world.fail_over)

    script, events = recorded(grow)
    assert script.topics == TOPICS
    assert [(topic, partitions) for _, topic, partitions in script.grows] == [("orders", 9)]
    assert again(script).causes == outcome_of(events, "g").causes


def test_what_the_record_cannot_decide_is_refused_with_the_reason() -> None:
    script, _ = recorded(pauses, session_ms=10 * SECOND)
    for pair, reason in (
        ("session.timeout.ms=5000", "silences below three quarters"),
        ("session.timeout.ms=soon", "is not a number of ms"),
        ("heartbeat.interval.ms=500", "heartbeats that came in time are not recorded"),
        ("max.poll.interval.ms=500", "between two polls is not recorded"),
        ("partition.assignment.strategy=uniform", "is none of range"),
        ("static.membership=maybe", "is not true or false"),
        ("offset.metadata.max.bytes=5000", "has no part in it"),
        ("group.rebalance.min.interval.ms=-1", "at least 0"),
        ("nonsense=1", "is not known here"),
        ("nonsense", "write it as key=value"),
    ):
        with pytest.raises(ConfigError, match=reason):
            changes_of([pair], script)
    assert changes_of([], script) == Changes()


def test_clients_that_cannot_be_told_apart_cannot_be_static() -> None:
    world = World(TOPICS)
    members = [Client(world, "g", "app").start() for _ in range(2)]
    world.run(MINUTE)
    script = script_of(world.events, "g", _traits(world.events, members), TOPICS)
    assert len(script.processes) == 2
    with pytest.raises(ConfigError, match="which of them came back is not recorded"):
        changes_of(["static.membership=true"], script)


def test_sticky_keeps_what_members_had() -> None:
    script, _ = recorded(restarts, session_ms=30 * SECOND)
    moves = {
        strategy: again(script, f"partition.assignment.strategy={strategy}").moved
        for strategy in ("roundrobin", "sticky")
    }
    assert moves["sticky"] < moves["roundrobin"]


def test_cooperative_members_keep_what_does_not_move() -> None:
    script, events = recorded(
        restarts, session_ms=30 * SECOND, protocols=("cooperative-sticky",)
    )  # fmt: skip
    was, found = outcome_of(events, "g"), again(script)
    assert was.causes["cooperative_step"] > 0, "a member that gave something up joins once more"
    assert found.causes == was.causes
    assert found.moved == was.moved
    assert script.left_out == {}
    eager = again(script, "partition.assignment.strategy=range")
    assert eager.rebalances < found.rebalances
    assert eager.moved > found.moved
    # And an eager group that becomes cooperative.
    script, _ = recorded(restarts, session_ms=30 * SECOND)
    changed = again(script, "partition.assignment.strategy=cooperative-sticky")
    assert changed.causes["cooperative_step"] > 0


def test_an_assignor_that_is_not_run_again_is_refused() -> None:
    script, _ = recorded(restarts, protocols=("own",))
    with pytest.raises(KcoordError, match="the assignor 'own' is not run again"):
        play(script, changes_of([], script))
    assert again(script, "partition.assignment.strategy=sticky").rebalances > 0


def of_consumers(
    act: Callable[[World, list[Native]], None], minutes: int = 10, **settings: int
) -> tuple[Script, list[Event]]:
    """The same of a consumer group (KIP-848) of three."""
    world = World(TOPICS, **settings)
    members = [Native(world, "g", f"app-{n}", host=f"10.0.0.{n}", heartbeat_ms=5_000)
               for n in range(3)]  # fmt: skip
    for number, member in enumerate(members):
        world.at(number * SECOND, lambda member=member: member.start())
    world.run(MINUTE)
    act(world, members)
    world.run(minutes * MINUTE)
    records = (record for append in world.log for record in dump(record_batch(append)))
    traits = traits_of(
        (at_ms, kind, key, value) for *_, at_ms, kind, key, value in records if value is not None
    )
    return script_of(world.events, "g", traits, TOPICS), world.events


def test_consumer_groups_come_to_the_same_past() -> None:
    for act in (long_pauses, restarts, growing, gives_up_late, subscribing):
        script, events = of_consumers(act)
        was, found = (
            outcome_of(events, "g"),
            outcome_of(play(script, Changes()), "g", script.end_ms),
        )
        assert found.causes == was.causes, act.__name__
        assert (found.removed, found.moved) == (was.removed, was.moved), act.__name__
        assert was.unowned_ms / 2 <= found.unowned_ms <= was.unowned_ms * 2, act.__name__
        assert script.left_out == {}, act.__name__


def long_pauses(world: World, members: list[Native]) -> None:
    """Each of them is silent for 50 s, one after the other."""
    for number, member in enumerate(members):
        world.at(number * 2 * MINUTE, lambda member=member: member.pause(50 * SECOND))


def growing(world: World, members: list[Native]) -> None:
    world.grow("orders", 9)


def gives_up_late(world: World, members: list[Native]) -> None:
    """One gives up partitions only after ten seconds."""
    for member in members:
        member.revoke_delay_ms = 10 * SECOND
    late = Native(world, "g", "late", heartbeat_ms=5_000)
    world.at(MINUTE, late.start)


def subscribing(world: World, members: list[Native]) -> None:
    world.grow("bills", 3)
    world.at(MINUTE, lambda: members[1].subscribe("bills", "orders"))


def test_settings_of_consumer_groups() -> None:
    def found(script: Script, *pairs: str) -> Outcome:
        return outcome_of(play(script, changes_of(pairs, script, Changes())), "g", script.end_ms)

    script, events = of_consumers(long_pauses)
    assert outcome_of(events, "g").removed == 3
    assert found(script, "group.consumer.session.timeout.ms=60000").removed == 0
    script, events = of_consumers(restarts)
    assert outcome_of(events, "g").causes["left"] == 3
    static = found(script, "static.membership=true")
    assert "left" not in static.causes
    assert static.moved < outcome_of(events, "g").moved

    def one_dies(world: World, members: list[Native]) -> None:
        members[1].die()
        world.at(52 * SECOND, members[1].start)
        world.at(3 * MINUTE, members[0].leave)

    of_dead, _ = of_consumers(one_dies)
    # Its place is taken until its session ends, and then it is let in.
    longer = "group.consumer.session.timeout.ms=60000"
    static = found(of_dead, "static.membership=true", longer)
    assert (static.removed, static.causes["member_joined"]) == (1, 4)
    slow = found(script, "group.consumer.assignment.interval.ms=15000")
    assert slow.rebalancing_ms > 2 * found(script).rebalancing_ms
    for pair, reason in (
        ("group.consumer.session.timeout.ms=30000", "less than|at least|silences below"),
        ("session.timeout.ms=30000", "no part in a consumer group"),
        ("group.quarantine.flaps=2", "no part in a consumer group"),
        ("max.poll.interval.ms=500", "between two polls is not recorded"),
    ):
        with pytest.raises(ConfigError, match=reason):
            changes_of([pair], script, Changes())
    classic, _ = recorded(pauses)
    with pytest.raises(ConfigError, match="no part in a classic group"):
        changes_of(["group.consumer.session.timeout.ms=60000"], classic)
    assert not concern(["group.consumer.assignors=range"], classic)
    assert concern(["static.membership=true"], classic)


def test_a_group_that_changed_its_protocol_is_refused() -> None:
    world = World(TOPICS)
    Client(world, "g", "old").start()
    world.run(MINUTE)
    Native(world, "g", "app").start()
    world.run(MINUTE)
    with pytest.raises(KcoordError, match="changed its protocol"):
        script_of(world.events, "g", {}, TOPICS)
    with pytest.raises(KcoordError, match="nothing is recorded"):
        script_of(world.events, "other", {}, TOPICS)
