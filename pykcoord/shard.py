"""One shard, sans-IO: bring your own clock, sockets and log.

A shard is one partition of `__consumer_offsets` and all the groups in it. It must never read a
clock, open a file or a socket: what it needs comes in through `step`, what it wants done comes
out of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from pykcoord._native import Node
from pykcoord.config import Config
from pykcoord.errors import ArgumentError
from pykcoord.log.protocol import Append

__all__ = ["Request", "Response", "Shard", "Step"]


class Request(NamedTuple):
    """One request frame: header and body, without the 4-byte length.

    `ticket` comes back with the response: any int in [0, 2**63), with one request in flight at a
    time. `client_host` is stored with members, as Java prints an address (`/127.0.0.1`).
    """

    ticket: int
    frame: bytes
    client_host: str = "/127.0.0.1"


class Response(NamedTuple):
    """One response frame: header and body, without the 4-byte length."""

    ticket: int
    frame: bytes


class Step(NamedTuple):
    """What the host has to do after a step.

    1. Write `appends` to the log, in order; when everything below an offset is durable, pass that
       offset as `committed_offset` to the next step.
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
    ) -> None:
        """`config`: Kafka's settings, default values where None. `topics`: name to number of
        partitions; commits elsewhere are refused with UNKNOWN_TOPIC_OR_PARTITION; None accepts
        every topic. `seed`: 32 bytes of entropy for member ids (default: the system's); the same
        seed and the same inputs give the same bytes.
        """
        if seed is None:
            seed = os.urandom(32)
        if len(seed) != 32:
            raise ArgumentError("seed", f"32 bytes, not {len(seed)}")
        self._node = Node((config or Config()).native(), 1, seed)
        self._next_offset = 0
        self._loaded = False
        self._failed = False
        if topics is not None:
            self._node.set_topics(
                [(name, _topic_id(name), partitions) for name, partitions in topics.items()]
            )

    def replay(self, chunk: bytes, next_offset: int) -> None:
        """Apply a chunk of the shard's log, in order, before the first `step`.

        `chunk`: whole RecordBatches v2, uncompressed, whose CRCs were checked; `next_offset`:
        the offset after its last record. Raises `ReplayError` with offset, byte and reason.
        """
        if self._loaded:
            raise ArgumentError("chunk", "replay comes before the first step")
        self._node.replay(0, chunk)
        self._next_offset = next_offset

    def step(
        self,
        now_ms: int,
        requests: Iterable[Request | tuple[int, bytes]] = (),
        committed_offset: int | None = None,
    ) -> Step:
        """One turn: everything that arrived, and how far the log is durable.

        `now_ms`: milliseconds since the epoch; must never run back. `committed_offset`:
        everything below it is durable (None: no news). Raises ArgumentError for a frame that
        cannot be parsed or an API that is not the coordinator's; nothing else of the turn is lost.
        """
        if not self._loaded:
            self._node.loaded(0, now_ms, self._next_offset)
            self._loaded = True
        frames = [(r.ticket, r.client_host, r.frame) for r in map(_as_request, requests)]
        committed = [] if committed_offset is None else [(0, committed_offset)]
        turn = self._node.step(now_ms, frames, committed)
        refused = dict(turn.invalid) | dict.fromkeys(turn.foreign, "not a coordinator's API")
        buffer = turn.buffer
        step = Step(
            [Append(*append) for append in turn.appends],
            [Response(ticket, buffer[start + 4 : end]) for ticket, start, end in turn.replies],
            turn.next_timeout_ms,
        )
        if refused:
            raise RefusedFrames(refused, step)
        return step

    def abandon(self, ticket: int) -> None:
        """Forget the parked request of a client that is gone. Its membership stays."""
        self._node.abandon(ticket)


class RefusedFrames(ArgumentError):
    """Frames that cannot be served: `reasons` by ticket; `step` is all the rest of the turn."""

    def __init__(self, reasons: dict[int, str], step: Step) -> None:
        listed = "; ".join(f"ticket {ticket}: {reason}" for ticket, reason in reasons.items())
        super().__init__("requests", listed)
        self.reasons = reasons
        self.step = step


def _as_request(request: Request | tuple[int, bytes]) -> Request:
    return request if isinstance(request, Request) else Request(*request)


def _topic_id(name: str) -> bytes:
    """A stable id for a topic that has none of its own (UUID version 5 of its name)."""
    import uuid

    return uuid.uuid5(uuid.NAMESPACE_URL, f"pykcoord:topic:{name}").bytes
