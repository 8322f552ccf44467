"""A process with a member of a classic group."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from pykcoord._native import decode_subscription, encode_subscription
from pykcoord.assignors import Subscription, assign
from pykcoord.session import Session
from pykcoord.virtual.messages import (
    COMMIT,
    COOPERATIVE,
    FENCED,
    HEARTBEAT,
    ID_REQUIRED,
    JOIN,
    LEAVE,
    LOADING,
    NONE,
    REBALANCING,
    SYNC,
    UNKNOWN,
    assigned,
    partitions_of,
    shares,
    subscription,
)  # fmt: skip
from pykcoord.virtual.world import World


class Client:
    """A process with a client: a member of one group at a time. With the assignor
    "cooperative-sticky" alone it keeps its partitions while it joins, gives up those that it is not
    assigned any more, and then joins once more."""

    def __init__(
        self, world: World, group: str, client_id: str, *, host: str = "10.0.0.1",
        session_ms: int = 30_000, rebalance_ms: int = 60_000, heartbeat_ms: int = 3_000,
        protocols: tuple[str, ...] = ("range",), topics: tuple[str, ...] = ("orders",),
        instance: str | None = None,
    ) -> None:  # fmt: skip
        self.world, self.group, self.client_id = world, group, client_id
        self.session = Session(f"/{host}", "PLAINTEXT")
        self.session_ms, self.rebalance_ms = session_ms, rebalance_ms
        self.heartbeat_ms = heartbeat_ms
        self.protocols, self.topics, self.instance = protocols, topics, instance
        self.member_id = ""
        self.generation = -1
        self.partitions: list[tuple[str, int]] = []
        self.is_up = False
        self.is_stable = False
        self.returns = True
        self.rejoin_delay_ms = 50
        self.sync_delay_ms = 20
        self.never_syncs = False
        self.codes: list[int] = []
        self._life = 0
        self._paused_until_ms = 0

    @property
    def is_cooperative(self) -> bool:
        """Whether it keeps partitions in rebalances."""
        return self.protocols == (COOPERATIVE,)

    # What a process does.

    def start(self, reason: str | None = None) -> Client:
        """Join."""
        self.is_up = True
        self._life += 1
        self._join(reason)
        return self

    def die(self) -> None:
        """End without a word."""
        self.is_up = self.is_stable = False
        self._life += 1
        self.member_id = ""
        self.partitions = []

    def leave(self, reason: str | None = None) -> None:
        """LeaveGroup, and end."""
        member = {"member_id": self.member_id, "group_instance_id": self.instance}
        self.world.ask(
            LEAVE, self, lambda answer: None, group_id=self.group,
            members=[{**member, "reason": reason}],
        )  # fmt: skip
        self.die()

    def pause(self, milliseconds: int) -> None:
        """Do nothing for so long, as in a long pause of its collector."""
        self._paused_until_ms = self.world.now_ms + milliseconds

    def subscribe(self, *topics: str, reason: str | None = None) -> None:
        """Another subscription, and join again."""
        self.topics = topics
        self._join(reason)

    def rejoin(self, reason: str | None = None) -> None:
        """Join again as it is, as a leader does."""
        self._join(reason)

    def commit(self, offset: int = 1) -> None:
        """Commit its first partition, or that of orders-0 if it has none."""
        topic, partition = self.partitions[0] if self.partitions else ("orders", 0)
        self.world.ask(
            COMMIT, self, self._committed, group_id=self.group,
            generation_id_or_member_epoch=self.generation, member_id=self.member_id,
            group_instance_id=self.instance,
            topics=[{"name": topic, "partitions": [
                {"partition_index": partition, "committed_offset": offset,
                 "committed_leader_epoch": -1, "committed_metadata": ""}]}],
        )  # fmt: skip

    # How it speaks.

    def _later(self, delay_ms: int, action: Callable[[], None]) -> None:
        life = self._life

        def act() -> None:
            if life != self._life:
                return
            if self.world.now_ms < self._paused_until_ms:
                self.world.at(self._paused_until_ms - self.world.now_ms, act)
                return
            action()

        self.world.at(delay_ms, act)

    def _committed(self, answer: Any) -> None:
        self.codes += [int(one.error_code) for of in answer.topics for one in of.partitions]

    def _join(self, reason: str | None = None) -> None:
        self.is_stable = False
        life = self._life
        metadata = self._metadata()
        self.world.ask(
            JOIN, self, lambda answer: self._joined(answer, reason, life), group_id=self.group,
            session_timeout=timedelta(milliseconds=self.session_ms),
            rebalance_timeout=timedelta(milliseconds=self.rebalance_ms),
            member_id=self.member_id, group_instance_id=self.instance, protocol_type="consumer",
            protocols=[{"name": name, "metadata": metadata} for name in self.protocols],
            reason=reason,
        )  # fmt: skip

    def _joined(self, answer: Any, reason: str | None, life: int) -> None:
        if life != self._life or not self.is_up:
            return
        code = int(answer.error_code)
        self.codes.append(code)
        if code == ID_REQUIRED:
            self.member_id = answer.member_id
            if self.never_syncs:
                self.is_up = False  # it dies between the two
                return
            self._join(reason)
        elif code == LOADING:
            self._later(100, lambda: self._join(reason))
        elif code in (UNKNOWN, FENCED):
            self._put_out(code)
        elif code == NONE:
            self.member_id, self.generation = answer.member_id, answer.generation_id
            assignments: list[dict[str, Any]] = []
            if answer.leader == answer.member_id:
                members = {one.member_id: one.metadata for one in answer.members}
                assignments = self.assign(members)
            if not self.never_syncs:
                self._later(self.sync_delay_ms, lambda: self._sync(assignments, answer))

    def _metadata(self) -> bytes:
        if not self.is_cooperative:
            return subscription(self.topics)
        owned: dict[str, list[int]] = {}
        for topic, partition in self.partitions:
            owned.setdefault(topic, []).append(partition)
        generation = self.generation if self.partitions else -1
        return encode_subscription(2, list(self.topics), None, [*owned.items()], generation, None)

    def assign(self, members: Mapping[str, bytes]) -> list[dict[str, Any]]:
        """What it gives the members, as their leader, by their metadata."""
        if not self.is_cooperative:
            return assigned(self.world.topics, members)
        subscriptions = {}
        for member, metadata in members.items():
            if (known := decode_subscription(metadata)) is not None:
                owned = [(topic, number) for topic, numbers in known[3] for number in numbers]
                subscriptions[member] = Subscription(known[1], owned, known[4])
        return shares(assign(COOPERATIVE, self.world.topics, subscriptions))

    def _sync(self, assignments: list[dict[str, Any]], joined: Any) -> None:
        self.world.ask(
            SYNC, self, self._synced, group_id=self.group, generation_id=self.generation,
            member_id=self.member_id, group_instance_id=self.instance, protocol_type="consumer",
            protocol_name=joined.protocol_name, assignments=assignments,
        )  # fmt: skip

    def _synced(self, answer: Any) -> None:
        code = int(answer.error_code)
        if not self.is_up:
            return
        if code == NONE:
            before, self.partitions = self.partitions, partitions_of(answer.assignment)
            self.is_stable = True
            if self.is_cooperative and set(before) - set(self.partitions):
                self._later(self.rejoin_delay_ms, self._join)
            else:
                self._later(self.heartbeat_ms, self._beat)
        elif code == REBALANCING:
            self._later(self.rejoin_delay_ms, self._join)
        else:
            self._put_out(code)

    def _beat(self) -> None:
        if not self.is_stable:
            return
        self.world.ask(
            HEARTBEAT, self, self._beaten, group_id=self.group, generation_id=self.generation,
            member_id=self.member_id, group_instance_id=self.instance,
        )  # fmt: skip

    def _beaten(self, answer: Any) -> None:
        code = int(answer.error_code)
        if not self.is_up or not self.is_stable:
            return
        if code == NONE:
            self._later(self.heartbeat_ms, self._beat)
        elif code == REBALANCING:
            self.is_stable = False
            self._later(self.rejoin_delay_ms, self._join)
        else:
            self._put_out(code)

    def _put_out(self, code: int) -> None:
        self.codes.append(code)
        self.is_stable = False
        if code == FENCED or not self.returns:
            self.is_up = False
            return
        self.member_id, self.partitions = "", []
        self._later(self.rejoin_delay_ms, self._join)
