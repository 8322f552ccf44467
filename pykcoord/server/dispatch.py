"""From a frame that the core does not own to its reply: header, version, handler, long poll.

A frame that cannot be served closes its connection; it must never raise into the loop.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Callable
from typing import NamedTuple

from pykcoord.server._connection import Connection
from pykcoord.server.api import api_versions, fetch
from pykcoord.server.api.messages import (
    encode_response_body,
    request_is_flexible,
    request_reader,
)
from pykcoord.server.api.node_api import Cluster, NodeApi
from pykcoord.server.api.registry import APIS

logger = logging.getLogger("pykcoord.server")

_HEADER = struct.Struct(">hhi")
_UVARINT_BYTES = 5
# Longer Fetch requests are parsed each time rather than kept for every connection.
_MEMO_BYTES = 16_384
# Parsing is Python, on the loop: a longer request would keep it from heartbeats for seconds. A
# Fetch of 30,000 partitions fits, and what a producer sends unless its max.request.size is raised.
_REQUEST_BYTES = 2 * 1024 * 1024
# How much is kept of answers for all connections, and to questions of which length.
_KNOWN_BYTES = 8 * 1024 * 1024
_QUESTION_BYTES = 1_024
_ENTRY_BYTES = 300


class BadFrameError(ValueError):
    """A frame that cannot be parsed or is not served; its text is the reason."""


class _Poll(NamedTuple):
    """A Fetch as it came, and what it was answered: consumers repeat themselves."""

    request: tuple[bytes, bytes]  # the frame but for its correlation id
    version: tuple[int, int]  # of the cluster
    body: bytes
    wait_ms: int


class Dispatcher:
    """Answers node-level requests through `reply(ticket, frame)`, or `refuse(ticket, reason)`."""

    def __init__(
        self,
        cluster: Cluster,
        reply: Callable[[int, bytes], None],
        refuse: Callable[[int, str], None],
    ) -> None:
        self._cluster = cluster
        self._reply = reply
        self._refuse = refuse
        self._polls: dict[int, tuple[asyncio.TimerHandle, bytes]] = {}
        self._known: dict[tuple[int, int, bytes], bytes] = {}
        self._known_bytes = 0
        self._known_version = (-1, -1)

    def handle(self, connection: Connection, ticket: int, frame: bytes) -> None:
        """Answer one request, now or when its long poll ends."""
        try:
            self._handle(connection, ticket, frame)
        except BadFrameError as error:
            self._refuse(ticket, str(error))
        except Exception as error:
            logger.error("a node-level request failed", exc_info=error, extra={"event": "failure"})
            self._refuse(ticket, f"failed: {error!r}")

    def abandon(self, ticket: int) -> None:
        """The client is gone: its long poll ends."""
        poll = self._polls.pop(ticket, None)
        if poll is not None:
            poll[0].cancel()

    def finish_polls(self) -> None:
        """Answer every long poll now."""
        polls, self._polls = self._polls, {}
        for ticket, (timer, reply) in polls.items():
            timer.cancel()
            self._reply(ticket, reply)

    def _handle(self, connection: Connection, ticket: int, frame: bytes) -> None:
        if len(frame) < _HEADER.size:
            raise BadFrameError(f"a request of {len(frame)} bytes")
        key, version, correlation_id = _HEADER.unpack_from(frame)
        api = APIS.get(key)
        if api is None:
            raise BadFrameError(f"unknown API key {key}")
        if len(frame) > _REQUEST_BYTES:
            raise BadFrameError(
                f"{api.name} of {len(frame)} bytes; at most {_REQUEST_BYTES} are read"
            )
        memo = connection.memo
        if (
            memo is not None
            and memo.request == (frame[:4], frame[8:])
            and memo.version == self._cluster.version
        ):
            self._answer(ticket, correlation_id, memo.body, memo.wait_ms)
            return
        if not api.minimum <= version <= api.maximum:
            self._unsupported(api, ticket, version, correlation_id, frame)
            return
        body_at = _body_at(frame, flexible=request_is_flexible(key, version))
        cluster_version = self._cluster.version
        if api.repeatable:
            body = self._repeated(api, version, frame, body_at)
            self._answer(ticket, correlation_id, body, 0)
            return
        body, wait_ms = self._fresh(api, version, frame, body_at)
        if key == fetch.KEY and len(frame) <= _MEMO_BYTES:
            same = (frame[:4], frame[8:])
            connection.memo = _Poll(same, cluster_version, body, wait_ms)
        self._answer(ticket, correlation_id, body, wait_ms)

    def _fresh(self, api: NodeApi, version: int, frame: bytes, body_at: int) -> tuple[bytes, int]:
        """Parse, have the handler answer, encode: the response's bytes and how long to wait."""
        try:
            request, _ = request_reader(api.key, version)(frame, body_at)
        except Exception as error:  # kio's decode errors, and ValueError for odd counts
            raise BadFrameError(f"{api.name} v{version}: {error}") from error
        fields = api.answer(request, version, self._cluster)
        if fields is None:
            raise BadFrameError(f"{api.name} v{version}: the protocol has no answer to it")
        wait_ms = api.wait_ms(request, fields) if api.wait_ms is not None else 0
        return encode_response_body(api.key, version, fields), wait_ms

    def _repeated(self, api: NodeApi, version: int, frame: bytes, body_at: int) -> bytes:
        """The answer to a question that has the same answer until the cluster changes: when a
        group starts, all of its members ask the same."""
        cluster = self._cluster
        if self._known_version != cluster.version or self._known_bytes > _KNOWN_BYTES:
            self._known.clear()
            self._known_bytes = 0
            self._known_version = cluster.version
        question = (api.key, version, frame[body_at:])
        body = self._known.get(question)
        if body is None:
            body, _ = self._fresh(api, version, frame, body_at)
            # Asking may have made topics, and a long question is not worth its memory.
            if self._known_version == cluster.version and len(frame) <= _QUESTION_BYTES:
                self._known[question] = body
                self._known_bytes += len(frame) + len(body) + _ENTRY_BYTES
        return body

    def _answer(self, ticket: int, correlation_id: int, body: bytes, wait_ms: int) -> None:
        reply = struct.pack(">ii", 4 + len(body), correlation_id) + body
        if wait_ms == 0:
            self._reply(ticket, reply)
            return
        timer = asyncio.get_running_loop().call_later(wait_ms / 1000, self._end_poll, ticket)
        self._polls[ticket] = (timer, reply)

    def _end_poll(self, ticket: int) -> None:
        _, reply = self._polls.pop(ticket)
        self._reply(ticket, reply)

    def _unsupported(
        self, api: NodeApi, ticket: int, version: int, correlation_id: int, frame: bytes
    ) -> None:
        if api.key != api_versions.KEY:
            raise BadFrameError(f"{api.name} v{version} is not served")
        # Kafka reads the header of a version it does not know by its rule for the highest.
        _body_at(frame, flexible=version > api.maximum)
        self._reply(ticket, api_versions.unsupported_version(correlation_id))


def _body_at(frame: bytes, flexible: bool) -> int:
    """Where the body begins: after the client id and, in flexible versions, the tags."""
    at = _HEADER.size
    if len(frame) < at + 2:
        raise BadFrameError("the header ends early")
    (length,) = struct.unpack_from(">h", frame, at)
    if length < -1:
        raise BadFrameError(f"a client id of {length} bytes")
    at += 2 + max(0, length)
    if len(frame) < at:
        raise BadFrameError("the header ends early")
    try:
        frame[_HEADER.size + 2 : at].decode()
    except UnicodeDecodeError as error:
        raise BadFrameError("the client id is not UTF-8") from error
    return _skip_tags(frame, at) if flexible else at


def _skip_tags(frame: bytes, at: int) -> int:
    count, at = _uvarint(frame, at)
    last = -1
    for _ in range(count):
        tag, at = _uvarint(frame, at)
        size, at = _uvarint(frame, at)
        at += size
        if tag <= last or at > len(frame):
            raise BadFrameError("malformed tags in the header")
        last = tag
    return at


def _uvarint(frame: bytes, at: int) -> tuple[int, int]:
    value = 0
    for index in range(_UVARINT_BYTES):
        if at + index >= len(frame):
            raise BadFrameError("the header ends early")
        byte = frame[at + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, at + index + 1
    raise BadFrameError("a varint of more than 5 bytes in the header")
