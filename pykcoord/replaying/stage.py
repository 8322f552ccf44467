"""A script run through the engine, in virtual time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import partial
from typing import Any

from pykcoord.assignors import Subscription, assign, sticky_user_data
from pykcoord.consumer_protocol import subscribed_topics
from pykcoord.errors import KcoordError
from pykcoord.events import Event
from pykcoord.replaying.changes import STRATEGIES, Changes
from pykcoord.replaying.script import Act, Process, Script
from pykcoord.virtual import Client, Native, World
from pykcoord.virtual.messages import shares

__all__ = ["play"]

_NEVER_MS = 10 * 365 * 86_400_000
# What is under way when the record ends may come to its end.
_AFTER_MS = 60_000


def play(script: Script, changes: Changes) -> list[Event]:
    """The events of the group under these settings, with the times of the record."""
    if not script.is_consumer and changes.strategy is None:
        _check_strategies(script)
    settings = {"group_initial_rebalance_delay_ms": 3_000, **changes.coordinator}
    world = World(script.topics, start_ms=script.start_ms, **settings)
    for at_ms, topic, partitions in script.grows:
        world.at(at_ms - world.now_ms, partial(world.grow, topic, partitions))
    for at_ms in script.failovers:
        world.at(at_ms - world.now_ms, world.fail_over)
    kind = NativeActor if script.is_consumer else Actor
    actors: list[Played] = [
        kind(world, script.group_id, name, process, changes)
        for name, process in script.processes.items()
    ]
    for actor in actors:
        actor.fellows = actors
        for act in actor.process.acts:
            world.at(max(0, act.at_ms - world.now_ms), partial(actor.do, act))
    world.run(script.end_ms - script.start_ms + _AFTER_MS)
    return world.events


def _check_strategies(script: Script) -> None:
    used = {of.traits.protocol for of in script.processes.values()}
    if unknown := sorted(used - set(STRATEGIES)):
        names = ", ".join(STRATEGIES)
        raise KcoordError(
            f"{script.group_id!r}: the assignor {unknown[0]!r} is not run again; say which of "
            f"{names} comes near to it by --was partition.assignment.strategy=NAME"
        )


class Played(Client, ABC):
    """A process of the record. `usual_delay_ms`: what it took then for what the others of its group
    wait for."""

    process: Process
    fellows: list[Played]
    usual_delay_ms: int
    least_delay_ms = 0

    def do(self, act: Act) -> None:
        """What it did then, as far as it is in a state to do so."""
        if act.kind == "start":
            if not self.is_up:
                self.begin(act)
        elif act.kind == "leave" and self.is_up:
            self.leave(act.reason)
        elif act.kind == "die":
            self.die()
        elif act.kind == "pause":
            self.pause((act.until_ms or act.at_ms) - self.world.now_ms)
        elif act.kind == "busy":
            until_ms = act.until_ms if act.until_ms is not None else act.at_ms + _NEVER_MS
            delay_ms = max(self.least_delay_ms, until_ms - self.world.now_ms)
            self.delay(delay_ms)
            self.world.at(delay_ms, partial(self.delay, self.usual_delay_ms))
        elif act.kind == "subscribe":
            self.subscribe(*act.topics, reason=act.reason)

    def begin(self, act: Act) -> None:
        """It starts."""
        self.start(act.reason)

    @abstractmethod
    def delay(self, delay_ms: int) -> None:
        """How long it takes from now on."""


class Actor(Played):
    """It takes as long to join again, and to assign, as it did then."""

    def __init__(
        self, world: World, group: str, name: str, process: Process, changes: Changes
    ) -> None:
        traits = process.traits
        instance = process.instance or (name if changes.static else None)
        session_ms = changes.session_ms or traits.session_ms
        super().__init__(
            world, group, process.client_id, host=process.host, session_ms=session_ms,
            rebalance_ms=traits.rebalance_ms, heartbeat_ms=min(3_000, session_ms // 3),
            protocols=(changes.strategy or traits.protocol,), topics=traits.topics,
            instance=instance,
        )  # fmt: skip
        self.process = process
        self.strategy = self.protocols[0]
        # A heartbeat tells it after half of its interval, as a rule.
        self.usual_delay_ms = max(20, process.rejoin_ms - self.heartbeat_ms // 2)
        self.rejoin_delay_ms = self.usual_delay_ms
        self.sync_delay_ms = max(5, process.assign_ms)

    def do(self, act: Act) -> None:
        if act.kind == "rejoin" and self.is_stable:
            self.rejoin(act.reason)
        elif act.kind == "leave" and self.is_up and self.instance:
            self.die()  # a static member ends without a word, and its place is kept
        else:
            super().do(act)

    def begin(self, act: Act) -> None:
        self.topics = act.topics or self.topics
        super().begin(act)

    def delay(self, delay_ms: int) -> None:
        self.rejoin_delay_ms = delay_ms

    def assign(self, members: Mapping[str, bytes]) -> list[dict[str, Any]]:
        if self.is_cooperative:
            return super().assign(members)
        held = {of.member_id: of for of in self.fellows if of.member_id}
        subscriptions = {
            member: _subscription(subscribed_topics(metadata), held.get(member))
            for member, metadata in members.items()
        }
        return shares(assign(self.strategy, self.world.topics, subscriptions))


def _subscription(topics: tuple[str, ...], of: Played | None) -> Subscription:
    if of is None or not of.partitions:
        return Subscription(topics)
    data = sticky_user_data(of.partitions, of.generation)
    return Subscription(topics, of.partitions, of.generation, user_data=data)


class NativeActor(Played, Native):
    """Of a consumer group: it takes as long to give up partitions as it did then."""

    least_delay_ms = 1

    def __init__(
        self, world: World, group: str, name: str, process: Process, changes: Changes
    ) -> None:
        traits = process.traits
        super().__init__(
            world, group, process.client_id, host=process.host, rebalance_ms=traits.rebalance_ms,
            heartbeat_ms=world.config.group_consumer_heartbeat_interval_ms, topics=traits.topics,
            instance=process.instance or (name if changes.static else None),
        )  # fmt: skip
        self.process = process
        self.assignor = traits.protocol or None
        self.is_started_again = True
        self.usual_delay_ms = self.revoke_delay_ms = max(1, process.revoke_ms - 1)
        self._name, self._lives = name, 0

    def begin(self, act: Act) -> None:
        self._lives += 1
        self.member_id = f"{self._name} {self._lives}"
        super().begin(act)

    def delay(self, delay_ms: int) -> None:
        self.revoke_delay_ms = delay_ms
