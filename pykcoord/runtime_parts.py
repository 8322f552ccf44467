"""What the loop talks to: the node, its turns, transports, observers. Protocols only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from pykcoord.events import EventRow
from pykcoord.transactions import Verification

if TYPE_CHECKING:
    from pykcoord._native import EventBatch
    from pykcoord.session import Session


class Turn(Protocol):
    """What one step of the node yields (`_native.Turn`)."""

    @property
    def parts(self) -> list[tuple[int, bytes]]: ...
    @property
    def replies(self) -> list[tuple[int, bytes]]: ...
    @property
    def appends(self) -> list[tuple[int, int, int, int, int, bytes, int, int, bool]]: ...
    @property
    def verifications(self) -> list[tuple[int, str, int, int, int, bool, int]]: ...
    @property
    def foreign(self) -> list[int]: ...
    @property
    def invalid(self) -> list[tuple[int, str]]: ...
    @property
    def events(self) -> list[EventRow]: ...
    @property
    def starts_left_out(self) -> int: ...
    @property
    def recorded(self) -> EventBatch | None: ...
    @property
    def next_timeout_ms(self) -> int | None: ...


Rows = list[tuple[str, bytes, int]]
"""Topics: name, 16-byte topic id, number of partitions."""
Ends = dict[str, dict[int, int]] | None
"""Where partitions end, by topic and number."""
GroupRows = list[tuple[str, int | None, int | None, int | None]]


class Node(Protocol):
    """The shards behind one runtime (`_native.Node`)."""

    def set_topics(self, topics: Rows, end_offsets: Ends = None) -> None: ...
    def change_topics(self, changed: Rows, gone: list[str], ends: Ends = None) -> None: ...
    def set_group_configs(self, groups: GroupRows) -> None: ...
    def loader(self) -> Any: ...
    def adopt(self, shard: int, loader: Any) -> None: ...
    def loaded(self, shard: int, now_ms: int, next_offset: int) -> None: ...
    def step(
        self,
        now_ms: int,
        frames: list[tuple[int, Session, bytes]],
        committed: list[tuple[int, int]],
        unsent_bytes: int = 0,
        timers: bool = True,
    ) -> Turn: ...
    def furthest_offsets(self, topic: str, partitions: Sequence[int]) -> list[int]: ...
    def poll_target_job(self) -> Any: ...
    def bring_targets(self, number: int, targets: Any) -> None: ...
    def refuse_targets(self, number: int, reason: str) -> None: ...
    def serve_transactions(self, verified: bool) -> None: ...
    def verified(self, ticket: int, error_code: int) -> None: ...
    def tell_events(self, on: bool) -> None: ...
    def tell_starts(self, most: int) -> None: ...
    def record_events(self, on: bool) -> None: ...
    def abandon(self, ticket: int) -> None: ...
    def set_away(self, shard: int, away: bool) -> None: ...
    def drop_shard(self, shard: int) -> Turn: ...


class Transport(Protocol):
    """Where frames come from and replies go. All calls are made on the runtime's loop."""

    @property
    def unsent_bytes(self) -> int:
        """Bytes of replies that were delivered here and not yet read by their clients."""

    @property
    def is_behind(self) -> bool:
        """More may have arrived than the last `take` gave."""

    def take(self) -> list[tuple[int, Session, bytes]]:
        """The frames since the last call: (ticket, session, frame without its length)."""

    def deliver_parts(self, parts: list[tuple[int, bytes]]) -> None:
        """Ticket, and what goes before the rest of its reply: the first part has the length."""

    def deliver(self, replies: list[tuple[int, bytes]]) -> None:
        """Ticket, and the reply with its 4-byte length, or the end of one that came in parts."""

    def foreign(self, tickets: list[int]) -> None:
        """Requests of an API that the core does not own: the transport answers them."""

    def refuse(self, ticket: int, reason: str) -> None:
        """A frame that cannot be parsed: one line of log, and its connection is closed."""


class Assignors(Protocol):
    """Assignors of one's own, on threads of their own (`pykcoord.server_assignors`)."""

    def ask(self, job: Any, tell: Callable[[Any, str], None]) -> None:
        """Have a job of the node done. `tell` is called on any thread, with targets, or with None
        and why there are none."""

    def close(self) -> None:
        """No job comes any more."""


class Transactions(Protocol):
    """Asks transaction coordinators. It is called on the runtime's loop, and must not block."""

    def verify(self, verification: Verification, done: Callable[[int], None]) -> None:
        """Ask whether a transaction is open and has a partition in it. `done` is called once, on
        any thread, with Kafka's error code; 0: it is, and the commit is written."""


class RuntimeMetrics(Protocol):
    """What the runtime counts. Durations in seconds."""

    def turn(self, frames: int, seconds: float) -> None: ...
    def appended(self, seconds: float) -> None: ...
    def append_failed(self, shard: int) -> None: ...


class EventRecorder(Protocol):
    """Keeps events: see `pykcoord.recorder`."""

    not_kept: dict[str, int]

    def take(self, recorded: EventBatch) -> None: ...
    def shard_loaded(self, shard: int, epoch: int) -> None: ...
    def lose(self) -> None: ...
