"""One shard, sans-IO: bring your own clock, sockets and log.

A shard is one partition of `__consumer_offsets` and all the groups in it. It must never read a
clock, open a file or a socket: what it needs comes in through `step`, what it wants done comes
out of it. Requests come as frames; `pykcoord.arrow_shard` takes rows of Arrow batches.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from pykcoord import _arguments as arguments
from pykcoord._machine import Finding, Machine
from pykcoord._native import Turn
from pykcoord.config import Config
from pykcoord.errors import ArgumentError
from pykcoord.log.protocol import Append, record_batch
from pykcoord.session import EMBEDDED, Session
from pykcoord.transactions import OpenTransaction

__all__ = [
    "Append",
    "Finding",
    "RefusedFrames",
    "Request",
    "Response",
    "Shard",
    "Step",
    "record_batch",
]

_INT64 = range(2**63)
_TOPIC = b"__consumer_offsets"
# WriteTxnMarkers v2 (wire.md): key, version, correlation id, no client id, no tags.
_MARKER_HEAD = (27, 2, 0, -1, 0)
_MARKER = struct.Struct(f">hhihB Bqh?BB{len(_TOPIC)}sBiBibBB")


class Request(NamedTuple):
    """One request frame: header and body, without the 4-byte length.

    `ticket` comes back with the response: any int in [0, 2**64), with one request in flight at a
    time. `session` says who asks; its client host is stored with members.
    """

    ticket: int
    frame: bytes
    session: Session = EMBEDDED


class Response(NamedTuple):
    """One response frame: header and body, without the 4-byte length. `ticket` is the request's."""

    ticket: int
    frame: bytes


class Step(NamedTuple):
    """What the host has to do after a step.

    1. Write `appends` to the log, in order (`record_batch` makes the bytes of each); when
       everything below an offset is durable, pass that offset as `committed_offset` to the next
       step. If that fails, `drop` the shard, and replay the log into a new one.
    2. Send `responses`. A request without one is parked: it waits for a commit, another member,
       or a timeout.
    3. Call `step` again at `next_timeout_ms` (absolute; None: nothing is waiting), or earlier.
    """

    appends: list[Append]
    responses: list[Response]
    next_timeout_ms: int | None


class Shard(Machine):
    """Kafka's group coordinator for one partition of `__consumer_offsets`.

    >>> from kio.schema.heartbeat.v4.request import HeartbeatRequest
    >>> from pykcoord.protocol import decode_response, encode_request
    >>> shard = Shard()
    >>> beat = HeartbeatRequest(group_id="billing", generation_id=1, member_id="nobody")
    >>> step = shard.step(0, [Request(7, encode_request(beat))])
    >>> decode_response(beat, step.responses[0].frame).error_code.name
    'unknown_member_id'
    """

    def __init__(
        self,
        config: Config | None = None,
        *,
        topics: Mapping[str, int] | None = None,
        seed: bytes | None = None,
        tells_events: bool = False,
        transactions: bool = False,
    ) -> None:
        """`config`: Kafka's settings, default values where None. `topics`: name to number of
        partitions; commits elsewhere are refused with UNKNOWN_TOPIC_OR_PARTITION; None accepts
        every topic. `seed`: 32 bytes of entropy for member ids (default: the system's); the same
        seed and the same inputs give the same bytes. `tells_events`: whether events of groups are
        gathered for `take_events`. `transactions`: whether TxnOffsetCommit (0 to 4) and
        WriteTxnMarkers are served; whoever sends them has asked its transaction coordinator, and
        ends what it began.
        """
        super().__init__(config, topics, seed, tells_events)
        if transactions:
            self._node.serve_transactions(False)
        self._transactions = transactions
        self._now_ms = 0
        self._waiting: set[int] = set()

    @property
    def waiting(self) -> int:
        """Requests that have no answer yet."""
        return len(self._waiting)

    @property
    def next_offset(self) -> int:
        """The offset that the next record gets."""
        return self._next_offset

    def step(
        self,
        now_ms: int,
        requests: Iterable[Request | tuple[int, bytes]] = (),
        committed_offset: int | None = None,
    ) -> Step:
        """One turn: everything that arrived, and how far the log is durable.

        `now_ms`: milliseconds since the epoch; must never run back. `committed_offset`:
        everything below it is durable (None: no news). Raises ArgumentError for an argument that
        cannot be right, before anything is done; and RefusedFrames, an ArgumentError, for a frame
        that cannot be parsed or an API that is not the coordinator's: all the rest is done, and
        its `step` has to be dealt with.
        """
        with arguments.refusing("requests"):
            frames = [(r.ticket, r.session, r.frame) for r in map(_as_request, requests)]
        self._check(now_ms, frames, committed_offset)
        if not self._serves:
            self._node.loaded(0, now_ms, self._next_offset)
            self._serves = True
        self._now_ms = now_ms
        committed = [] if committed_offset is None else [(0, committed_offset)]
        turn = self._node.step(now_ms, frames, committed)
        if turn.appends:
            _, base_offset, record_count, *_ = turn.appends[-1]
            self._next_offset = base_offset + record_count
        self._tell(turn.events)
        self._waiting.update(ticket for ticket, _, _ in frames)
        self._waiting.difference_update(ticket for ticket, _ in turn.replies)
        refused = dict(turn.invalid) | dict.fromkeys(turn.foreign, "not a coordinator's API")
        step = Step(
            [Append(*append) for append in turn.appends],
            _responses(turn),
            turn.next_timeout_ms,
        )
        if refused:
            self._waiting.difference_update(refused)
            raise RefusedFrames(refused, step)
        return step

    def complete_transaction(
        self,
        now_ms: int,
        ticket: int,
        producer_id: int,
        producer_epoch: int,
        *,
        commit: bool,
        coordinator_epoch: int = 0,
        transaction_version: int = 0,
    ) -> Step:
        """A step that ends a producer's transaction, in all groups: its pending offsets count from
        now on (`commit`), or are dropped. The marker is among the appends; the answer to `ticket`,
        once that is durable, is a response to WriteTxnMarkers v2 with one error code.

        `producer_id` (int64) and `producer_epoch` (int16), at least 0; `coordinator_epoch` (int32)
        of the transaction coordinator; `transaction_version`: 2 where each transaction has an
        epoch of its own (KIP-890), 0 or 1 where not. Errors: INVALID_PRODUCER_EPOCH (47), the
        producer is further; TRANSACTION_COORDINATOR_FENCED (52), a later coordinator has written
        here. A producer without pending offsets is no error. Raises ArgumentError as `step` does,
        and of a shard without `transactions`. Source: `GroupCoordinatorService`,
        `completeTransaction`.
        """
        if not self._transactions:
            raise ArgumentError(
                "transactions", "the shard was made without: Shard(transactions=True)"
            )
        arguments.integer("producer_id", producer_id, _INT64)
        arguments.integer("producer_epoch", producer_epoch, range(2**15))
        arguments.integer("coordinator_epoch", coordinator_epoch, range(2**31))
        arguments.integer("transaction_version", transaction_version, range(3))
        marker = _MARKER.pack(
            *_MARKER_HEAD, 2, producer_id, producer_epoch, commit, 2, len(_TOPIC) + 1, _TOPIC,
            2, 0, 0, coordinator_epoch, transaction_version, 0, 0,
        )  # fmt: skip
        return self.step(now_ms, [Request(ticket, marker)])

    def open_transactions(self) -> list[OpenTransaction]:
        """Transactions with commits in this shard that no marker has ended, by producer id."""
        return [OpenTransaction(*of) for of in self._node.open_transactions(0)]

    def abandon(self, ticket: int) -> None:
        """Forget the parked request of a client that is gone. Its membership stays."""
        self._node.abandon(arguments.integer("ticket", ticket, range(2**64)))
        self._waiting.discard(ticket)

    def drop(self) -> list[Response]:
        """An append failed: what is parked is answered NOT_COORDINATOR, and the shard is of no use
        any more. Replay what is durable into a new one; there is no rollback."""
        self._check_alive()
        self._dropped = True
        self._waiting.clear()
        return _responses(self._node.drop_shard(0))

    def _check(
        self, now_ms: int, frames: list[tuple[int, Session, bytes]], committed_offset: int | None
    ) -> None:
        self._check_alive()
        arguments.integer("now_ms", now_ms, _INT64)
        if committed_offset is not None:
            arguments.integer("committed_offset", committed_offset, _INT64)
        if now_ms < self._now_ms:
            raise ArgumentError("now_ms", f"{now_ms} is before {self._now_ms}, where time was")
        if committed_offset is not None and not 0 <= committed_offset <= self._next_offset:
            reason = f"{committed_offset} is not between 0 and the end, {self._next_offset}"
            raise ArgumentError("committed_offset", reason)
        for request in frames:
            ticket, session, content = request
            if (
                type(content) is not bytes
                or type(session) is not Session
                or type(ticket) is not int
            ):
                _check_request(*request)
        tickets = {ticket for ticket, _, _ in frames}
        if len(tickets) != len(frames) or not tickets.isdisjoint(self._waiting):
            raise ArgumentError("requests", "a ticket has a request in flight already")
        for ticket in tickets:
            if not 0 <= ticket < 2**64:
                raise ArgumentError("requests", f"ticket {ticket} is not in [0, 2**64)")


class RefusedFrames(ArgumentError):
    """Frames that cannot be served: `reasons` by ticket; `step` is all the rest of the turn."""

    def __init__(self, reasons: dict[int, str], step: Step) -> None:
        listed = "; ".join(f"ticket {ticket}: {reason}" for ticket, reason in reasons.items())
        super().__init__("requests", listed)
        self.reasons = reasons
        self.step = step


def _responses(turn: Turn) -> list[Response]:
    return [Response(ticket, reply[4:]) for ticket, reply in turn.replies]


def _as_request(request: Request | tuple[int, bytes]) -> Request:
    return request if isinstance(request, Request) else Request(*request)


def _check_request(ticket: object, session: object, frame: object) -> None:
    arguments.integer("requests", ticket, range(2**64))
    if not isinstance(session, Session):
        raise ArgumentError("requests", f"a session is a pykcoord.Session, not {session!r}")
    if not isinstance(frame, bytes):
        raise ArgumentError("requests", f"a frame is bytes, not {type(frame).__name__}")
