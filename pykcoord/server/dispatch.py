"""From a frame that the core does not own to its reply: header, version, handler, long poll.

A frame that cannot be served closes its connection; nothing is raised into the loop. No frame may
hold up the loop: answers are made in slices, one in each iteration, and requests take turns.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Callable, Generator
from typing import Any, NamedTuple

from pykcoord.server._connection import Connection
from pykcoord.server._requests import MalformedError, Walk
from pykcoord.server.api import api_versions, fetch
from pykcoord.server.api.messages import SLICE_ELEMENTS, Slicer
from pykcoord.server.api.node_api import Cluster, NodeApi
from pykcoord.server.api.registry import APIS
from pykcoord.server.api.requests import request_shape
from pykcoord.server.budget import Budget
from pykcoord.server.header import HEADER, BadFrameError, body_at
from pykcoord.session import with_software

logger = logging.getLogger("pykcoord.server")

# Longer Fetch requests are parsed each time rather than kept for every connection.
_MEMO_BYTES = 16_384
# Room for a Fetch of 30,000 partitions, and for a producer with the default of max.request.size.
# The elements are those of all arrays of a request together.
_REQUEST_BYTES = 2 * 1024 * 1024
_REQUEST_ELEMENTS = 250_000
# The memory of one answer, and of all that are made or held back; small ones are always given.
_ANSWER_BYTES = 32 * 1024 * 1024
_ALL_ANSWERS_BYTES = 256 * 1024 * 1024
_SMALL_ANSWER_BYTES = 64 * 1024
# The memory of all memos.
_MEMOS_BYTES = 64 * 1024 * 1024
# The memory of answers that are kept for all connections; the longest of them, and the longest
# question.
_KNOWN_BYTES = 8 * 1024 * 1024
_KNOWN_ANSWER_BYTES = 1024 * 1024
_QUESTION_BYTES = 1_024
_ENTRY_BYTES = 300
# The cost of a request before its first element, in elements.
_REQUEST_COST = 8
# So many elements are checked in a slice: that takes a fraction of what answering them takes.
_CHECKED_AT_ONCE = 16 * SLICE_ELEMENTS
_REPLY_HEAD = struct.Struct(">ii")


class _Memo:
    """A Fetch as it came, with its answer: consumers repeat the same request."""

    __slots__ = ("_budget", "_size", "body", "request", "version", "wait_ms")

    def __init__(
        self,
        request: tuple[bytes, bytes],  # the frame but for its correlation id
        version: tuple[int, int],  # of the cluster
        body: bytes,
        wait_ms: int,
        budget: Budget,
    ) -> None:
        self.request = request
        self.version = version
        self.body = body
        self.wait_ms = wait_ms
        self._budget = budget
        self._size = len(request[1]) + len(body) + _ENTRY_BYTES
        budget.take(self._size)

    def __del__(self) -> None:
        self._budget.give(self._size)


class _Known(NamedTuple):
    """An answer to all who ask the same, and the software that the question named."""

    body: bytes
    software: tuple[str, str] | None


class _Poll(NamedTuple):
    """An answer that is held back."""

    timer: asyncio.TimerHandle
    reply: bytes | bytearray


class _Job:
    """A request whose answer is being made; `size` is its share of the budget."""

    __slots__ = (
        "api", "body_at", "connection", "correlation_id", "frame", "out", "size", "slicer",
        "software", "steps", "ticket", "version", "wait_ms",
    )  # fmt: skip

    def __init__(self, connection: Connection, ticket: int, api: NodeApi, frame: bytes) -> None:
        _, self.version, self.correlation_id = HEADER.unpack_from(frame)
        self.connection = connection
        self.ticket = ticket
        self.api = api
        self.frame = frame
        self.body_at = 0
        self.out = bytearray(_REPLY_HEAD.size)
        self.slicer = Slicer(self.out)
        self.size = 0
        self.wait_ms = 0
        self.steps: Generator[asyncio.Future[Any] | None] | None = None
        self.software: tuple[str, str] | None = None

    def body(self) -> bytes:
        """The bytes behind the correlation id."""
        return bytes(memoryview(self.out)[_REPLY_HEAD.size :])

    def reply(self) -> bytearray:
        """The whole answer. It is not copied: it may be large."""
        _REPLY_HEAD.pack_into(self.out, 0, len(self.out) - 4, self.correlation_id)
        return self.out


class Dispatcher:
    """Answers node-level requests through `reply(ticket, frame)`, or `refuse(ticket, reason)`."""

    def __init__(
        self,
        cluster: Cluster,
        reply: Callable[[int, bytes | bytearray], None],
        refuse: Callable[[int, str], None],
    ) -> None:
        self._cluster = cluster
        self._reply = reply
        self._refuse = refuse
        self._polls: dict[int, _Poll] = {}
        self._known: dict[tuple[int, int, bytes], _Known] = {}
        self._known_bytes = 0
        self._known_version = (-1, -1)
        # API keys and versions that were asked for: loading the layout of a new one takes some
        # milliseconds.
        self._loaded: set[tuple[int, int]] = set()
        self._jobs: dict[int, _Job] = {}
        self._asking: dict[int, _Job] = {}
        self._spent = 0
        self._is_awake = False
        self._answers = Budget(_ALL_ANSWERS_BYTES)
        self._memos = Budget(_MEMOS_BYTES)

    def handle(self, connection: Connection, ticket: int, frame: bytes) -> None:
        """Answer one request: now, in slices, or when its long poll ends."""
        try:
            self._handle(connection, ticket, frame)
        except BadFrameError as error:
            self._refuse(ticket, str(error))
        except Exception as error:
            self._failed(ticket, error)

    def abandon(self, ticket: int) -> None:
        """The client is gone: its long poll ends, and so does the work on its answer."""
        poll = self._polls.pop(ticket, None)
        if poll is not None:
            poll.timer.cancel()
            self._answers.give(len(poll.reply))
        job = self._jobs.pop(ticket, None) or self._asking.pop(ticket, None)
        if job is not None:
            self._end(job)

    def finish_polls(self) -> None:
        """Answer every long poll now."""
        for ticket in list(self._polls):
            self._polls[ticket].timer.cancel()
            self._end_poll(ticket)

    def _handle(self, connection: Connection, ticket: int, frame: bytes) -> None:
        if len(frame) < HEADER.size:
            raise BadFrameError(f"a request of {len(frame)} bytes")
        key, version, correlation_id = HEADER.unpack_from(frame)
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
            self._give(ticket, _reply_of(correlation_id, memo.body), memo.wait_ms)
            return
        if not api.minimum <= version <= api.maximum:
            self._unsupported(api, ticket, version, correlation_id, frame)
            return
        if api.repeatable:
            known = self._known_answer(key, version, frame)
            if known is not None:
                _note_software(connection, known.software)
                self._reply(ticket, _reply_of(correlation_id, known.body))
                return
        self._begin(_Job(connection, ticket, api, frame))

    def _known_answer(self, key: int, version: int, frame: bytes) -> _Known | None:
        """The kept answer to this question, which holds until the cluster changes: when a group
        starts, all of its members ask the same."""
        if self._known_version != self._cluster.version or self._known_bytes > _KNOWN_BYTES:
            self._known.clear()
            self._known_bytes = 0
            self._known_version = self._cluster.version
        if (key, version) not in self._loaded:
            return None
        at = body_at(frame, flexible=request_shape(key, version).is_flexible)
        return self._known.get((key, version, frame[at:]))

    def _begin(self, job: _Job) -> None:
        """Work on a request, at once if this iteration of the loop has not done enough."""
        self._jobs[job.ticket] = job
        if len(self._jobs) == 1 and self._spent < SLICE_ELEMENTS:
            self._work_on(job)
        if not self._is_awake:
            self._is_awake = True
            asyncio.get_running_loop().call_soon(self._next_iteration)

    def _next_iteration(self) -> None:
        """One slice of work: of one long request, or of several short ones."""
        self._spent = 0
        self._is_awake = bool(self._jobs)
        if self._is_awake:
            asyncio.get_running_loop().call_soon(self._next_iteration)
        while self._jobs and self._spent < SLICE_ELEMENTS:
            job = next(iter(self._jobs.values()))
            self._work_on(job)

    def _work_on(self, job: _Job) -> None:
        """One slice of one request; then it is the turn of the others."""
        try:
            if job.steps is None:
                is_loaded = (job.api.key, job.version) in self._loaded
                self._spent += _REQUEST_COST if is_loaded else SLICE_ELEMENTS
                job.steps = self._steps(job)
            step = next(job.steps, self)
            self._spent += job.slicer.take_count()
            self._count(job)
        except BadFrameError as error:
            self._drop(job)
            self._refuse(job.ticket, str(error))
            return
        except Exception as error:
            self._drop(job)
            self._failed(job.ticket, error)
            return
        self._jobs.pop(job.ticket, None)
        if isinstance(step, asyncio.Future):
            self._asking[job.ticket] = job
            step.add_done_callback(lambda _: self._go_on(job))
            return
        if step is not self:
            self._jobs[job.ticket] = job
            return
        reply = job.reply()
        self._end(job)
        self._give(job.ticket, reply, job.wait_ms)

    def _go_on(self, job: _Job) -> None:
        """What the job waited for is there."""
        if self._asking.pop(job.ticket, None) is job:
            self._begin(job)

    def _steps(self, job: _Job) -> Generator[asyncio.Future[Any] | None]:
        """Check, have the handler answer, encode; yields after each slice of work, or what to wait
        for."""
        api, version, cluster = job.api, job.version, self._cluster
        shape = request_shape(api.key, version)
        self._loaded.add((api.key, version))
        job.body_at = body_at(job.frame, flexible=shape.is_flexible)
        walk = Walk(shape, job.frame, job.body_at, _REQUEST_ELEMENTS)
        try:
            while not walk.go_on(_CHECKED_AT_ONCE):
                job.slicer.spend(SLICE_ELEMENTS)
                yield None
        except MalformedError as error:
            raise BadFrameError(f"{api.name} v{version}: {error}") from error
        request = walk.read()
        if api.asks is not None and (asked := api.asks(request, cluster)) is not None:
            yield asked
        cluster_version = cluster.version
        fields = api.answer(request, version, cluster, job.connection.session)
        if fields is None:
            raise BadFrameError(f"{api.name} v{version}: the protocol has no answer to it")
        if api.software is not None:
            job.software = api.software(request)
            _note_software(job.connection, job.software)
        yield from job.slicer.write_response(api.key, version, fields)
        if api.wait_ms is not None:
            job.wait_ms = api.wait_ms(request, fields)
        # The request may have created topics, and other requests may have changed them meanwhile.
        if cluster_version == cluster.version:
            self._remember(job, cluster_version)

    def _remember(self, job: _Job, cluster_version: tuple[int, int]) -> None:
        frame, size = job.frame, len(job.out)
        if job.api.repeatable:
            # A long question is not worth its memory.
            if (
                self._known_version == cluster_version
                and len(frame) <= _QUESTION_BYTES
                and size <= _KNOWN_ANSWER_BYTES
            ):
                question = (job.api.key, job.version, frame[job.body_at :])
                self._known[question] = _Known(job.body(), job.software)
                self._known_bytes += len(frame) + size + _ENTRY_BYTES
        elif job.api.key == fetch.KEY and len(frame) <= _MEMO_BYTES and self._memos.has_room:
            same = (frame[:4], frame[8:])
            memo = _Memo(same, cluster_version, job.body(), job.wait_ms, self._memos)
            job.connection.memo = memo

    def _count(self, job: _Job) -> None:
        """Take what the answer has grown by out of the budget."""
        grown = len(job.out) - job.size
        self._answers.take(grown)
        job.size += grown
        if job.size > _ANSWER_BYTES:
            raise BadFrameError(f"{job.api.name}: an answer of more than {_ANSWER_BYTES} bytes")
        if job.size > _SMALL_ANSWER_BYTES and not self._answers.has_room:
            raise BadFrameError(
                f"{job.api.name}: all answers together take more than {_ALL_ANSWERS_BYTES} bytes"
            )

    def _drop(self, job: _Job) -> None:
        self._jobs.pop(job.ticket, None)
        self._end(job)

    def _end(self, job: _Job) -> None:
        if job.steps is not None:
            job.steps.close()
        self._answers.give(job.size)
        job.size = 0
        job.out = bytearray()

    def _give(self, ticket: int, reply: bytes | bytearray, wait_ms: int) -> None:
        """Reply in `wait_ms`; until then it counts as an answer in flight."""
        if wait_ms == 0:
            self._reply(ticket, reply)
            return
        timer = asyncio.get_running_loop().call_later(wait_ms / 1000, self._end_poll, ticket)
        self._answers.take(len(reply))
        self._polls[ticket] = _Poll(timer, reply)

    def _end_poll(self, ticket: int) -> None:
        poll = self._polls.pop(ticket)
        self._answers.give(len(poll.reply))
        self._reply(ticket, poll.reply)

    def _failed(self, ticket: int, error: Exception) -> None:
        logger.error("a node-level request failed", exc_info=error, extra={"event": "failure"})
        self._refuse(ticket, f"failed: {error!r}")

    def _unsupported(
        self, api: NodeApi, ticket: int, version: int, correlation_id: int, frame: bytes
    ) -> None:
        if api.key != api_versions.KEY:
            raise BadFrameError(f"{api.name} v{version} is not served")
        # Kafka reads the header of a version it does not know by its rule for the highest.
        body_at(frame, flexible=version > api.maximum)
        self._reply(ticket, api_versions.unsupported_version(correlation_id))


def _note_software(connection: Connection, software: tuple[str, str] | None) -> None:
    """The software that a client named holds for its later requests."""
    if software is None:
        return
    connection.session = session = with_software(connection.session, *software)
    if logger.isEnabledFor(logging.DEBUG):
        logger.debug(
            "%s: the client's software is %s %s",
            session.client_host,
            *software,
            extra={
                "event": "software",
                "client_host": session.client_host,
                "software": " ".join(software),
            },
        )


def _reply_of(correlation_id: int, body: bytes) -> bytes:
    return _REPLY_HEAD.pack(4 + len(body), correlation_id) + body
