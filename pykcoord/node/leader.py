"""What a leader knows of the replicas of one partition: who is in sync, and up to where all of them
have it. Pure: time and offsets go in. As Kafka's Partition and Replica classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

__all__ = ["Follower", "Heard", "LedPartition"]

Eligible = Callable[[int, int], bool]
"""(broker id, its epoch as it says): whether that broker may be in the ISR."""


@dataclass(slots=True)
class Heard:
    """When a follower asked last (seconds), for all that it follows: a request does not name what
    is as it was."""

    at: float = float("-inf")


@dataclass(slots=True)
class Follower:
    """A replica elsewhere. It has all below `end`; it had all that there was at `caught_up_at`
    (seconds), and said that it is of broker epoch `broker_epoch`. Where its requests leave out what
    is as it was, `heard` says when the last one came."""

    end: int = -1
    broker_epoch: int = -1
    caught_up_at: float = float("-inf")
    last_end: int = -1
    last_at: float = float("-inf")
    heard: Heard | None = None

    @property
    def heard_at(self) -> float:
        """When it asked last (seconds)."""
        return self.last_at if self.heard is None else max(self.last_at, self.heard.at)

    def settle(self, end: int) -> None:
        """Takes in what was heard of it while the log ended at `end`."""
        if self.heard is not None and self.end >= end:
            self.caught_up_at = max(self.caught_up_at, self.heard.at)
            self.last_end, self.last_at = end, self.heard.at


@dataclass(slots=True)
class LedPartition:
    """A partition that is led under `leader_epoch`. `end` is that of the log, `synced` what is on
    this disk for good, `start` where the log ended as the leading began. `isr` and
    `partition_epoch` are the controller's; `pending` is an ISR that it was asked for, and that may
    hold until it says what does."""

    node_id: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader_epoch: int
    partition_epoch: int
    start: int
    min_isr: int
    lag_seconds: float
    begun_at: float
    high_watermark: int = 0
    end: int = 0
    synced: int = 0
    pending: tuple[int, ...] | None = None
    followers: dict[int, Follower] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.end = self.synced = self.start
        self.high_watermark = min(self.high_watermark, self.start)
        self._meet(self.replicas)

    def _meet(self, replicas: Iterable[int]) -> None:
        for one in replicas:
            if one != self.node_id and one not in self.followers:
                # Who is in sync as the leading begins has as long as any to say so.
                at = self.begun_at if one in self.isr else float("-inf")
                self.followers[one] = Follower(caught_up_at=at)

    @property
    def is_under_min_isr(self) -> bool:
        """Whether too few replicas are in sync for anything to be acknowledged."""
        return len(self.isr) < min(self.min_isr, len(self.replicas))

    def appended(self, end: int) -> None:
        """The log ends at `end` from now on."""
        for one in self.followers.values():
            one.settle(self.end)
        self.end = end

    def fetched(
        self, broker: int, broker_epoch: int, offset: int, now: float, heard: Heard | None = None
    ) -> None:
        """A follower asks for what is from `offset` on: it has all before. As long as it is not
        told again, `heard` says when it asked for the same."""
        one = self.followers.get(broker)
        if one is None or 0 <= broker_epoch < one.broker_epoch:
            return  # it is of before that broker began anew: what it had then, it may have lost
        if offset >= self.end:
            one.caught_up_at = max(one.caught_up_at, now)
        elif offset >= one.last_end >= 0:
            one.caught_up_at = max(one.caught_up_at, one.last_at)
        one.last_end, one.last_at = self.end, now
        one.end, one.broker_epoch, one.heard = offset, broker_epoch, heard

    def dropped(self, broker: int) -> None:
        """A follower asks for this partition no more, whatever else it asks for."""
        if (one := self.followers.get(broker)) is not None:
            one.settle(self.end)
            one.heard = None

    def advance(self, now: float, eligible: Eligible) -> bool:
        """Moves the high watermark as far as it may go; says whether it moved. It is the least of
        the ISR, and of those who are about to enter it."""
        reached = self.synced
        if reached <= self.high_watermark or self.is_under_min_isr:
            return False
        isr, pending = self.isr, self.pending or ()
        for broker, one in self.followers.items():
            if one.end < reached and (
                broker in isr or broker in pending or self._is_entering(broker, one, now, eligible)
            ):
                reached = one.end
        if reached <= self.high_watermark:
            return False
        self.high_watermark = reached
        return True

    def _is_entering(self, broker: int, one: Follower, now: float, eligible: Eligible) -> bool:
        if one.end < 0:
            return False
        one.settle(self.end)
        return now - one.caught_up_at <= self.lag_seconds and eligible(broker, one.broker_epoch)

    def wanted_isr(self, now: float, eligible: Eligible) -> tuple[int, ...] | None:
        """The ISR that the controller is to be asked for; None: it is as it should be, or it was
        asked already."""
        if self.pending is not None:
            return None
        wanted = [
            one
            for one in self.isr
            if one == self.node_id
            or one not in self.followers
            or self._is_in_sync(self.followers[one], now)
        ]
        for broker, one in self.followers.items():
            may_enter = (
                one.end >= max(self.high_watermark, self.start)
                and now - one.heard_at <= self.lag_seconds
            )
            if broker not in self.isr and may_enter and eligible(broker, one.broker_epoch):
                wanted.append(broker)
        return tuple(wanted) if set(wanted) != set(self.isr) else None

    def _is_in_sync(self, one: Follower, now: float) -> bool:
        return one.end >= self.end or now - one.caught_up_at <= self.lag_seconds

    def placed(self, replicas: tuple[int, ...], isr: tuple[int, ...], partition_epoch: int) -> None:
        """The controller says so: by the metadata log, or by its answer."""
        if partition_epoch < self.partition_epoch:
            return
        if partition_epoch > self.partition_epoch:
            self.pending = None  # taken or not: what was asked under an earlier epoch is over
        self.partition_epoch, self.isr = partition_epoch, isr
        if replicas:
            self.replicas = replicas
        for gone in set(self.followers).difference(self.replicas):
            del self.followers[gone]
        self._meet(self.replicas)
