"""A process with a member of a consumer group."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from pykcoord.virtual.classic import Client
from pykcoord.virtual.messages import CONSUMER, NONE, OUTSIDE_FENCED, UNKNOWN, UNRELEASED
from pykcoord.virtual.world import World

_LEAVES, _LEAVES_FOR_A_WHILE = -1, -2
_STARTS_AGAIN_MS = 1_000


class Native(Client):
    """A member of a consumer group (KIP-848). A static one leaves for a while only. `assignor`:
    the server's that it prefers; `is_started_again`: where its place is still taken, until it is
    free."""

    def __init__(self, world: World, group: str, client_id: str, **options: Any) -> None:
        super().__init__(world, group, client_id, **options)
        self.member_id = client_id
        self.epoch = 0
        self.owned: dict[Any, list[int]] = {}
        self.revoke_delay_ms = 20
        self.assignor: str | None = None
        self.is_started_again = False

    def start(self, reason: str | None = None) -> Native:
        self.is_up = self.is_stable = True
        self._life += 1
        self.epoch, self.owned = 0, {}
        self._beat()
        return self

    def die(self) -> None:
        super().die()
        self.member_id = self.client_id

    def leave(self, reason: str | None = None) -> None:
        self.epoch = _LEAVES_FOR_A_WHILE if self.instance is not None else _LEAVES
        self._beat()
        self.die()

    def subscribe(self, *topics: str, reason: str | None = None) -> None:
        self.topics = topics
        self._beat(says_all=True)

    def _beat(self, says_all: bool = False) -> None:
        if not self.is_up:
            return
        is_first = self.epoch == 0
        owned = [{"topic_id": of, "partitions": numbers} for of, numbers in self.owned.items()]
        names = self.topics if is_first or says_all else None
        life = self._life
        self.world.ask(
            CONSUMER, self, lambda answer: self._told(answer, life), group_id=self.group,
            member_id=self.member_id, member_epoch=self.epoch, instance_id=self.instance,
            rack_id=None,
            rebalance_timeout=timedelta(milliseconds=self.rebalance_ms if is_first else -1),
            subscribed_topic_names=names, subscribed_topic_regex=None,
            server_assignor=self.assignor if is_first else None,
            topic_partitions=owned,
        )  # fmt: skip

    def _told(self, answer: Any, life: int) -> None:
        code = int(answer.error_code)
        if life != self._life or not self.is_up:
            return
        self.codes.append(code)
        if code in (UNKNOWN, OUTSIDE_FENCED) and self.returns:
            self.epoch, self.owned = 0, {}
            self._later(self.rejoin_delay_ms, self._beat)
            return
        if code == UNRELEASED and self.is_started_again:
            self._later(_STARTS_AGAIN_MS, self._beat)
            return
        if code != NONE:
            self.is_up = False
            return
        self.epoch = answer.member_epoch
        delay_ms = self.heartbeat_ms
        if answer.assignment is not None:
            new = {of.topic_id: list(of.partitions) for of in answer.assignment.topic_partitions}
            if any(set(self.owned[of]) - set(new.get(of, [])) for of in self.owned):
                delay_ms = self.revoke_delay_ms

            def apply() -> None:
                self.owned = new
                self._beat()

            if new != self.owned:
                self._later(delay_ms if delay_ms != self.heartbeat_ms else 5, apply)
                return
        self._later(delay_ms, self._beat)
