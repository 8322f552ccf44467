"""One shard, sans-IO: bring your own clock, sockets and log.

A shard is one partition of `__consumer_offsets` and all the groups in it. It must never read a
clock, open a file or a socket: what it needs comes in through `step`, what it wants done comes
out of it. Requests come as frames (`step`) or as rows of Arrow batches (`process`).
"""

from __future__ import annotations

import os
import struct
import uuid
import zlib
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pykcoord._native import Node, ReplayError, RowError, Rows, Turn
from pykcoord.arrow import arrow_library
from pykcoord.config import Config
from pykcoord.errors import ArgumentError
from pykcoord.log._record_batch import frame
from pykcoord.log.protocol import Append

if TYPE_CHECKING:
    import pyarrow

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

_MAX_FINDINGS = 1_000
_SNAPSHOT = struct.Struct(">4sI")
_SNAPSHOT_MAGIC = b"KCR1"


class Request(NamedTuple):
    """One request frame: header and body, without the 4-byte length.

    `ticket` comes back with the response: any int in [0, 2**64), with one request in flight at a
    time. `client_host` is stored with members, as Java prints an address (`/127.0.0.1`).
    """

    ticket: int
    frame: bytes
    client_host: str = "/127.0.0.1"


class Response(NamedTuple):
    """One response frame: header and body, without the 4-byte length."""

    ticket: int
    frame: bytes


@dataclass(frozen=True, slots=True)
class Finding:
    """Something about a group's assignment that a person may want to know; nothing failed.

    `kind` is that of the metric `pykcoord_findings_total` (docs/operating), `count` how many there
    were in this generation, `detail` one of them, or the reason.
    """

    group_id: str
    generation_id: int
    kind: str
    count: int
    detail: str


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


class Shard:
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
        shard: int = 0,
        shards: int = 1,
        epoch: int = 0,
    ) -> None:
        """`config`: Kafka's settings, default values where None. `topics`: name to number of
        partitions; commits elsewhere are refused with UNKNOWN_TOPIC_OR_PARTITION; None accepts
        every topic. `seed`: 32 bytes of entropy for member ids (default: the system's); the same
        seed and the same inputs give the same bytes. For `process`: this is `shard` (from 0) of
        `shards`, and its records are of the leader epoch `epoch`.
        """
        if seed is None:
            seed = os.urandom(32)
        if len(seed) != 32:
            raise ArgumentError("seed", f"32 bytes, not {len(seed)}")
        if not 0 <= shard < shards < 2**31:
            raise ArgumentError("shard", f"{shard} of {shards}: they count from 0")
        self.shard, self.shards, self.epoch = shard, shards, epoch
        self._node = Node((config or Config()).native(), 1, seed)
        self._rows: Rows | None = None  # once requests came as rows
        self._next_offset = 0
        self._now_ms = 0
        self._loaded = False
        self._dropped = False
        self._waiting: set[int] = set()
        self._findings: deque[Finding] = deque(maxlen=_MAX_FINDINGS)
        if topics is not None:
            self.set_topics(topics)

    def set_topics(
        self,
        topics: Mapping[str, int],
        end_offsets: Mapping[str, Mapping[int, int]] | None = None,
    ) -> None:
        """All topics that exist from now on, name to number of partitions. `end_offsets`: where
        partitions end, topic to partition to offset, as far as it is known, for `lag-aware`.

        The next `step` deletes the offsets of topics that are gone, and starts a rebalance of
        groups that the coordinator assigns and that subscribe to what changed.
        """
        native = [(name, _topic_id(name), partitions) for name, partitions in topics.items()]
        ends = {name: dict(offsets) for name, offsets in (end_offsets or {}).items()}
        self._node.set_topics(native, ends)

    def take_findings(self) -> list[Finding]:
        """What was noticed about assignments since the last call, for a log; the last 1,000."""
        if self._rows is not None:
            self._findings.extend(Finding(*finding) for finding in self._rows.take_findings())
        findings = list(self._findings)
        self._findings.clear()
        return findings

    def replay(self, chunk: bytes, next_offset: int) -> None:
        """Apply a chunk of the shard's log, in order, before the first `step`.

        `chunk`: whole RecordBatches v2, uncompressed, whose CRCs were checked; `next_offset`:
        the offset after its last record. Raises `ReplayError` with offset, byte and reason.
        """
        self._check_alive()
        if self._loaded or self._rows is not None:
            raise ArgumentError("chunk", "replay comes before the first request")
        if next_offset < self._next_offset:
            reason = f"{next_offset} is below {self._next_offset}, where the chunk before ended"
            raise ArgumentError("next_offset", reason)
        try:
            self._node.replay(0, chunk)
        except ReplayError:
            self._dropped = True
            raise
        self._next_offset = next_offset

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
        frames = [(r.ticket, r.client_host, r.frame) for r in map(_as_request, requests)]
        self._check(now_ms, frames, committed_offset)
        if not self._loaded:
            self._node.loaded(0, now_ms, self._next_offset)
            self._loaded = True
        self._now_ms = now_ms
        committed = [] if committed_offset is None else [(0, committed_offset)]
        turn = self._node.step(now_ms, frames, committed)
        if turn.appends:
            _, base_offset, record_count, *_ = turn.appends[-1]
            self._next_offset = base_offset + record_count
        self._findings.extend(Finding(*finding) for finding in turn.findings)
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

    def process(self, batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
        """Serve requests that are rows: `pykcoord.arrow.REQUEST` in (columns are found by name),
        `pykcoord.arrow.ENVELOPE` out. Requests of one time are a turn: its records come first, then
        its answers, so that no answer comes before a record that it tells of.

        Time is the rows' `ts`, which must not run back, nor below an earlier batch's; what is due
        before a row is done first, at its own time. The records count as durable at once: whoever
        keeps the answers must keep them, and first. A request without an answer is parked; the
        answer comes from a later `process` or `advance`. Raises ArgumentError that names column
        and row, before anything is done.
        """
        rows, pa = self._rowwise(), arrow_library()
        if not isinstance(batch, pa.RecordBatch):
            raise ArgumentError("batch", f"a pyarrow.RecordBatch, not {type(batch).__name__}")
        try:
            return rows.process(self._node, batch)
        except RowError as error:
            raise ArgumentError("batch", str(error)) from None
        except OverflowError as error:
            self._dropped = True
            raise ArgumentError("batch", f"{error}; this shard is lost") from None

    def advance(self, now_ms: int) -> pyarrow.RecordBatch:
        """Let time pass up to `now_ms` without requests: what was due till then, as `process`
        gives it. Rows that come later must not be older."""
        rows, _ = self._rowwise(), arrow_library()
        if now_ms < 0:
            raise ArgumentError("now_ms", f"{now_ms} is before 1970")
        return rows.advance(self._node, now_ms)

    def take_batches(self, leader_epoch: int = 0) -> bytes:
        """The records that `process` and `advance` gave since this was called last, as a log has
        them: whole RecordBatches v2 with their CRC. What comes from now on is of `leader_epoch`.
        The first call gives nothing, and asks for them."""
        return self._rowwise().take_batches(leader_epoch)

    def snapshot(self) -> bytes:
        """The state of a shard that works on rows: groups, offsets, sessions, timers, parked
        requests, and what member ids are made of (keep it as safe as the seed).

        Not the settings and not the topics. Raises ArgumentError before the first row or `advance`.
        """
        self._check_alive()
        if self._rows is None or self._rows.now_ms is None:
            raise ArgumentError("shard", "it has served no rows: there is no state yet")
        content = self._rows.snapshot(self._node)
        return _SNAPSHOT.pack(_SNAPSHOT_MAGIC, zlib.crc32(content)) + content

    def restore(self, snapshot: bytes) -> None:
        """Go on where a `snapshot` was taken, with the same settings and topics, as if nothing had
        happened. Only for a new shard, of the same number among as many; `seed` has no effect.

        Raises ArgumentError for bytes that are no snapshot, or one of another shard.
        """
        rows = self._rowwise()
        if rows.now_ms is not None or rows.next_offset > 0:
            raise ArgumentError("shard", "it has a state already: restore into a new one")
        content = snapshot[_SNAPSHOT.size :]
        if snapshot[: _SNAPSHOT.size] != _SNAPSHOT.pack(_SNAPSHOT_MAGIC, zlib.crc32(content)):
            reason = "it is not what Shard.snapshot gave: another format, cut, or changed"
            raise ArgumentError("snapshot", reason)
        try:
            rows.restore(self._node, content)
        except ValueError as error:
            self._dropped = True
            raise ArgumentError("snapshot", str(error)) from None

    @property
    def now_ms(self) -> int | None:
        """Where a shard that works on rows has come to; None: nowhere yet."""
        return None if self._rows is None else self._rows.now_ms

    @property
    def waiting(self) -> int:
        """Requests that have no answer yet; of rows, without those that never will have one."""
        return len(self._waiting) if self._rows is None else self._rows.waiting

    @property
    def next_offset(self) -> int:
        """The offset that the next record gets."""
        return self._next_offset if self._rows is None else self._rows.next_offset

    def abandon(self, ticket: int) -> None:
        """Forget the parked request of a client that is gone. Its membership stays."""
        self._node.abandon(ticket)
        self._waiting.discard(ticket)

    def drop(self) -> list[Response]:
        """An append failed: what is parked is answered NOT_COORDINATOR, and the shard is of no use
        any more. Replay what is durable into a new one; there is no rollback."""
        self._check_alive()
        self._dropped = True
        self._waiting.clear()
        return _responses(self._node.drop_shard(0))

    def _check(
        self, now_ms: int, frames: list[tuple[int, str, bytes]], committed_offset: int | None
    ) -> None:
        self._check_alive()
        if self._rows is not None:
            raise ArgumentError("shard", "it was given rows: a shard takes frames or rows")
        if now_ms < self._now_ms:
            raise ArgumentError("now_ms", f"{now_ms} is before {self._now_ms}, where time was")
        if committed_offset is not None and not 0 <= committed_offset <= self._next_offset:
            reason = f"{committed_offset} is not between 0 and the end, {self._next_offset}"
            raise ArgumentError("committed_offset", reason)
        tickets = {ticket for ticket, _, _ in frames}
        if len(tickets) != len(frames) or not tickets.isdisjoint(self._waiting):
            raise ArgumentError("requests", "a ticket has a request in flight already")
        for ticket in tickets:
            if not 0 <= ticket < 2**64:
                raise ArgumentError("requests", f"ticket {ticket} is not in [0, 2**64)")

    def _rowwise(self) -> Rows:
        self._check_alive()
        if self._loaded:
            raise ArgumentError("shard", "it was given frames: a shard takes frames or rows")
        if self._rows is None:
            self._rows = Rows(self.shard, self.shards, self.epoch, self._next_offset)
        return self._rows

    def _check_alive(self) -> None:
        if self._dropped:
            raise ArgumentError("shard", "it was dropped, or could not be loaded: make a new one")


def record_batch(append: Append, leader_epoch: int = 0) -> bytes:
    """The bytes of `append` for a log: one RecordBatch v2 with its CRC-32C, as Kafka writes it, and
    as `Shard.replay` reads it."""
    _, base_offset, record_count, base_timestamp, max_timestamp, records = append
    return frame(records, record_count, base_offset, base_timestamp, max_timestamp, leader_epoch)


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


def _topic_id(name: str) -> bytes:
    """A stable id for a topic that has none of its own (UUID version 5 of its name)."""
    return uuid.uuid5(uuid.NAMESPACE_URL, f"pykcoord:topic:{name}").bytes
