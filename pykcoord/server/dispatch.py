"""From a frame that the core does not own to its reply: header, version, handler, long poll.

A frame that cannot be served closes its connection; nothing is raised into the loop. No frame may
hold up the loop: answers are made in slices (`jobs`), and those that are asked for again and again
are kept (`kept_answers`).
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable

from pykcoord.server._connection import Connection
from pykcoord.server._requests import MalformedError, Walk
from pykcoord.server.api import api_versions, fetch
from pykcoord.server.api.messages import SLICE_ELEMENTS
from pykcoord.server.api.node_api import Cluster, NodeApi
from pykcoord.server.api.registry import APIS, MAX_REQUEST_BYTES
from pykcoord.server.api.requests import request_shape
from pykcoord.server.budget import Budget
from pykcoord.server.header import HEADER, BadFrameError, body_at
from pykcoord.server.jobs import Job, Jobs, Steps
from pykcoord.server.kept_answers import KeptAnswers, Known, question_of
from pykcoord.server.long_polls import SMALL_ANSWER_BYTES, LongPolls
from pykcoord.session import with_software

logger = logging.getLogger("pykcoord.server")

# Those of all arrays of a request together.
_REQUEST_ELEMENTS = 250_000
# The memory of all answers that are made or held back.
_ALL_ANSWERS_BYTES = 256 * 1024 * 1024
# What clients have not read yet, of answers of all APIs: beyond it no long one is given. The core
# has the same bound for its own.
_UNSENT_BYTES = 512 * 1024 * 1024
# The cost of a request before its first element, in elements.
_REQUEST_COST = 8
# So many elements are checked in a slice: that takes a fraction of what answering them takes.
_CHECKED_AT_ONCE = 16 * SLICE_ELEMENTS
_REPLY_HEAD = struct.Struct(">ii")


class Dispatcher:
    """Answers node-level requests through `reply(ticket, frame)`, or `refuse(ticket, reason)`;
    `unsent_bytes()` is what clients have not read yet. `free` frees what may be large. `turn`
    serves what was read and waits."""

    def __init__(
        self,
        cluster: Cluster,
        reply: Callable[[int, bytes | bytearray], None],
        refuse: Callable[[int, str], None],
        unsent_bytes: Callable[[], int] = lambda: 0,
        free: Callable[[bytes | bytearray], object] = lambda buffer: None,
        turn: Callable[[], None] = lambda: None,
    ) -> None:
        self._cluster = cluster
        self._unsent_bytes = unsent_bytes
        self._reply = reply
        self._refuse = refuse
        # API keys and versions that were asked for: loading the layout of a new one takes some
        # milliseconds.
        self._loaded: set[tuple[int, int]] = set()
        self._answers = Budget(_ALL_ANSWERS_BYTES)
        self._kept = KeptAnswers()
        self._polls = LongPolls(reply, self._answers, free)
        self._jobs = Jobs(self._start, self._done, self._failed, self._answers, free, turn)

    def handle(self, connection: Connection, ticket: int, frame: bytes) -> None:
        """Answer one request: now, in slices, or when its long poll ends."""
        try:
            self._handle(connection, ticket, frame)
        except Exception as error:
            self._failed(ticket, error)

    def abandon(self, ticket: int) -> None:
        """The client is gone: its long poll ends, and so does the work on its answer."""
        self._polls.abandon(ticket)
        self._jobs.abandon(ticket)

    def finish_polls(self) -> None:
        """Answer every long poll now."""
        self._polls.finish()

    def _handle(self, connection: Connection, ticket: int, frame: bytes) -> None:
        if len(frame) < HEADER.size:
            raise BadFrameError(f"a request of {len(frame)} bytes")
        key, version, correlation_id = HEADER.unpack_from(frame)
        api = APIS.get(key)
        if api is None:
            raise BadFrameError(f"unknown API key {key}")
        if len(frame) > MAX_REQUEST_BYTES:
            raise BadFrameError(
                f"{api.name} of {len(frame)} bytes; at most {MAX_REQUEST_BYTES} are read"
            )
        memo = connection.memo
        if (
            memo is not None
            and len(frame) == memo.frame_bytes
            and memo.request == (frame[:4], frame[8:])
            and memo.version == self._cluster.version
        ):
            self._polls.give(ticket, _reply_of(correlation_id, memo.body), memo.wait_ms)
            return
        if not api.minimum <= version <= api.maximum:
            self._unsupported(api, ticket, version, correlation_id, frame)
            return
        if api.repeatable:
            known = self._known_answer(key, version, frame)
            if known is not None:
                _note_software(connection, known.software)
                self._check_unsent(api, len(known.body))
                self._reply(ticket, _reply_of(correlation_id, known.body))
                return
        self._jobs.begin(Job(connection, ticket, api, frame))

    def _known_answer(self, key: int, version: int, frame: bytes) -> Known | None:
        self._kept.look_at(self._cluster.version)
        if (key, version) not in self._loaded:
            return None
        at = body_at(frame, flexible=request_shape(key, version).is_flexible)
        question = question_of(key, version, frame, at)
        return None if question is None else self._kept.find(question)

    def _start(self, job: Job) -> tuple[int, Steps]:
        is_loaded = (job.api.key, job.version) in self._loaded
        return _REQUEST_COST if is_loaded else SLICE_ELEMENTS, self._steps(job)

    def _steps(self, job: Job) -> Steps:
        """Check, have the handler answer, encode."""
        api, version, cluster = job.api, job.version, self._cluster
        shape = request_shape(api.key, version)
        self._loaded.add((api.key, version))
        job.body_at = body_at(job.frame, flexible=shape.is_flexible)
        walk = Walk(shape, job.frame, job.body_at, _REQUEST_ELEMENTS)
        try:
            while not walk.go_on(_CHECKED_AT_ONCE):
                job.elements = walk.elements
                job.slicer.spend(SLICE_ELEMENTS)
                yield None
        except MalformedError as error:
            raise BadFrameError(f"{api.name} v{version}: {error}") from error
        job.elements = walk.elements
        request = walk.read()
        if api.asks is not None:
            asked = yield from job.slicer.spending(api.asks(request, cluster))
            if asked is not None:
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
        is_fetch = api.key == fetch.KEY
        if cluster_version == cluster.version and not (
            is_fetch and not fetch.is_repeatable(fields)
        ):
            self._remember(job, cluster_version)

    def _remember(self, job: Job, cluster_version: tuple[int, int]) -> None:
        if job.api.repeatable:
            question = question_of(job.api.key, job.version, job.frame, job.body_at)
            if question is not None:
                self._kept.keep(question, cluster_version, job.body(), job.software)
        elif job.api.key == fetch.KEY:
            memo = self._kept.memo(job.frame, cluster_version, job.body(), job.wait_ms)
            if memo is not None:
                job.connection.memo = memo

    def _done(self, job: Job, reply: bytearray) -> None:
        try:
            self._check_unsent(job.api, len(reply))
        except BadFrameError as error:
            self._failed(job.ticket, error)
            return
        self._polls.give(job.ticket, reply, job.wait_ms)

    def _check_unsent(self, api: NodeApi, size: int) -> None:
        """Raise for a long answer where clients leave too much unread: each of them could leave
        one."""
        if size > SMALL_ANSWER_BYTES and self._unsent_bytes() > _UNSENT_BYTES:
            raise BadFrameError(
                f"{api.name}: clients have left more than {_UNSENT_BYTES} bytes of answers unread"
            )

    def _failed(self, ticket: int, error: Exception) -> None:
        if isinstance(error, BadFrameError):
            self._refuse(ticket, str(error))
            return
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
