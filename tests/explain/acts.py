"""What happens to groups in virtual time, for the pairs of causes beside this."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pykcoord.virtual import Client, Native, World

SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000
POLL = "consumer poll timeout has expired."


@dataclass
class Case:
    """`act` does something in a world; the rest is expected."""

    act: Callable[[World], None]
    causes: list[str]
    says: str
    patterns: set[str] = field(default_factory=set)
    partitions: int = 6
    settings: dict[str, object] = field(default_factory=dict)


def settled(world: World, count: int = 3, kind: type[Client] = Client, **options) -> list[Client]:
    """A group `g` of so many members, stable."""
    members = [
        kind(world, "g", f"app-{number}", host=f"10.0.0.{number}", **options)
        for number in range(1, count + 1)
    ]
    for member in members:
        member.start()
    world.run(20 * SECOND)
    return members


def begun(world: World) -> None:
    """What happened so far is not looked at."""
    world.mark = world.now_ms + 1  # type: ignore[attr-defined]
    world.run(1 * SECOND)


def classic_group(act: Callable[[World, list[Client]], None], count: int = 3, **options):
    def do(world: World) -> None:
        members = settled(world, count, **options)
        begun(world)
        act(world, members)
        world.run(2 * MINUTE)

    return do


def native_group(act: Callable[[World, list[Client]], None], count: int = 3, **options):
    def do(world: World) -> None:
        members = settled(world, count, Native, **options)
        world.run(MINUTE)
        begun(world)
        act(world, members)
        world.run(3 * MINUTE)

    return do


def restart(member: Client, down_ms: int = 2 * SECOND) -> None:
    member.leave()
    member.world.at(down_ms, lambda: member.start())


def roll(world: World, members: list[Client], gap_ms: int = 20 * SECOND) -> None:
    for number, member in enumerate(members):
        if member.instance is None:
            world.at(number * gap_ms, lambda member=member: restart(member, 5 * SECOND))
        else:
            world.at(number * gap_ms, lambda member=member: restart_static(member))


def restart_static(member: Client) -> None:
    member.die()
    member.world.at(2 * SECOND, lambda: member.start())


def named(world: World, count: int = 3) -> list[Client]:
    members = [
        Client(world, "g", f"app-{n}", host=f"10.0.0.{n}", instance=f"i{n}")
        for n in range(1, count + 1)
    ]
    for member in members:
        member.start()
    world.run(20 * SECOND)
    return members


def static_group(act: Callable[[World, list[Client]], None]):
    def do(world: World) -> None:
        members = named(world)
        begun(world)
        act(world, members)
        world.run(2 * MINUTE)

    return do


def another(world: World, **options) -> Client:
    return Client(world, "g", options.pop("name", "other"), host="10.0.0.9", **options).start()


def flap(world: World, members: list[Client]) -> None:
    for number in range(4):
        world.at(number * 30 * SECOND, lambda: restart(members[2]))


def admin_removes(world: World, members: list[Client]) -> None:
    admin = Client(world, "g", "admin", host="10.0.0.8", instance=members[2].instance)
    admin.member_id = ""
    members[2].die()
    admin.leave("admin wants it out")


def asks_again(world: World, members: list[Client]) -> None:
    for _ in range(6):
        for one in members:
            one.rejoin()
        world.run(20 * SECOND)


def rejoins_slowly(world: World, members: list[Client]) -> None:
    members[2].rejoin_delay_ms = 8 * SECOND
    another(world)


def never_rejoins(world: World, members: list[Client]) -> None:
    members[2].rejoin_delay_ms = 10**9
    keep_alive(world, members[2])
    another(world)


def keep_alive(world: World, member: Client) -> None:
    """Its heartbeat thread goes on while its application hangs."""
    from pykcoord.virtual import HEARTBEAT

    def beat() -> None:
        if not member.member_id:
            return
        world.ask(
            HEARTBEAT, member, lambda answer: None, group_id="g", generation_id=member.generation,
            member_id=member.member_id, group_instance_id=None,
        )  # fmt: skip
        world.at(3 * SECOND, beat)

    world.at(1, beat)
    world.at(70 * SECOND, lambda: setattr(member, "member_id", ""))


def slow_leader(world: World, members: list[Client]) -> None:
    for member in members:
        member.sync_delay_ms = 9 * SECOND
    another(world)


def waits(times: int):
    def act(world: World, members: list[Client]) -> None:
        members[1].rejoin_delay_ms = 3 * SECOND
        for number in range(times):
            world.at(
                number * 20 * SECOND,
                lambda number=number: another(world, name=f"other-{number}"),
            )

    return act


def zombie(world: World, members: list[Client]) -> None:
    zombie = members[2]
    zombie.returns = False
    old = (zombie.member_id, zombie.generation)
    zombie.leave("scaled in")

    def commit() -> None:
        zombie.member_id, zombie.generation = old
        zombie.commit()

    for number in range(6):
        world.at((number + 1) * 5 * SECOND, commit)


def commits_meanwhile(world: World, members: list[Client]) -> None:
    members[0].rejoin_delay_ms = members[1].rejoin_delay_ms = 50
    members[2].leave("scaled in")
    for member in members[:2]:
        member.sync_delay_ms = 3 * SECOND
    world.at(1_500, members[1].commit)


def delete(world: World) -> None:
    members = settled(world, 1)
    begun(world)
    members[0].leave("done")
    world.run(SECOND)
    world.ask(42, members[0], lambda answer: None, groups_names=("g",))
    world.run(SECOND)


def expire(world: World) -> None:
    members = settled(world, 1)
    members[0].commit()
    world.run(SECOND)
    begun(world)
    members[0].leave("done")
    world.run(3 * HOUR)


def twice(world: World, members: list[Client]) -> None:
    another(world, name="twin", instance=members[0].instance)


def native_twice(world: World, members: list[Client]) -> None:
    Native(world, "g", "twin", host="10.0.0.9", instance="i").start()


def native_static(act: Callable[[World, list[Client]], None]):
    def do(world: World) -> None:
        members: list[Client] = [
            Native(world, "g", f"app-{n}", host=f"10.0.0.{n}", instance="i" if n == 1 else None)
            for n in (1, 2)
        ]
        for member in members:
            member.start()
        world.run(MINUTE)
        begun(world)
        act(world, members)
        world.run(2 * MINUTE)

    return do


def native_back(world: World, members: list[Client]) -> None:
    first = members[0]
    assert isinstance(first, Native)
    first.epoch = -2
    first._beat()
    first.die()
    world.at(5 * SECOND, lambda: Native(world, "g", "next", host="10.0.0.1", instance="i").start())


def revokes(delay_ms: int):
    def act(world: World, members: list[Client]) -> None:
        for member in members:
            assert isinstance(member, Native)
            member.revoke_delay_ms = delay_ms
        if delay_ms > MINUTE:
            keep_native_alive(world, members)
        Native(world, "g", "other", host="10.0.0.9", heartbeat_ms=2_000).start()

    return act


def keep_native_alive(world: World, members: list[Client]) -> None:
    """They heartbeat, and own what they owned."""
    for member in members:
        for second in range(2, 100, 5):
            world.at(second * SECOND, lambda member=member: beat_only(member))


def beat_only(member: Client) -> None:
    from pykcoord.virtual import CONSUMER

    assert isinstance(member, Native)
    owned = [{"topic_id": of, "partitions": numbers} for of, numbers in member.owned.items()]
    from datetime import timedelta

    member.world.ask(
        CONSUMER, member, lambda answer: None, group_id="g", member_id=member.member_id,
        member_epoch=member.epoch, instance_id=None, rack_id=None,
        rebalance_timeout=timedelta(milliseconds=-1), subscribed_topic_names=None,
        subscribed_topic_regex=None, server_assignor=None, topic_partitions=owned,
    )  # fmt: skip


def upgrade(world: World) -> None:
    members = settled(world, 1)
    begun(world)
    Native(world, "g", "new", host="10.0.0.9").start()
    world.run(10 * SECOND)
    members[0].die()
    world.run(2 * MINUTE)


def downgrade(world: World) -> None:
    native = Native(world, "g", "new", host="10.0.0.9").start()
    world.run(20 * SECOND)
    old = Client(world, "g", "old", host="10.0.0.1").start()
    world.run(20 * SECOND)
    begun(world)
    native.leave()
    world.run(20 * SECOND)
    old.die()


def each(members: list[Client], act: Callable[[Client], None], gap_ms: int = 40 * SECOND) -> None:
    for number, member in enumerate(members):
        member.world.at(number * gap_ms, lambda member=member: act(member))


def fail_over(world: World) -> None:
    members = settled(world)
    begun(world)
    members[2].die()
    world.fail_over()
    world.run(2 * MINUTE)


def late(world: World, members: list[Client]) -> None:
    members[2].pause(26 * SECOND)


def never_joined(world: World, members: list[Client]) -> None:
    another(world, name="half", session_ms=10_000, topics=("orders",)).never_syncs = True
    world.at(5, lambda: members[0].rejoin("wants another assignment"))


def leader(members: list[Client]) -> Client:
    return min(members, key=lambda one: one.client_id)
