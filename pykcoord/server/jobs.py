"""Requests whose answers are being made, in slices: one in each iteration of the loop, in turns.

What a job does stands elsewhere; here is when it goes on, and what its answer may take.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Generator
from typing import Any

from pykcoord.clock import thread_seconds
from pykcoord.server._connection import Connection
from pykcoord.server.api.messages import SLICE_ELEMENTS, Slicer
from pykcoord.server.api.node_api import NodeApi
from pykcoord.server.budget import Budget
from pykcoord.server.header import HEADER, BadFrameError
from pykcoord.server.long_polls import SMALL_ANSWER_BYTES

# The memory of one answer.
_ANSWER_BYTES = 32 * 1024 * 1024
# The memory of all requests that are not answered, and of what they have named.
_REQUESTS_BYTES = 512 * 1024 * 1024
# What a request takes for each of its elements, beside its frame: see `_seen.pyx`.
_ELEMENT_BYTES = 48
_REPLY_HEAD = struct.Struct(">ii")
# A slice that took the processor for longer, as a change of thousands of topics does, is followed
# by a rest of so many times as long: who asks for little catches up before the next.
_LONG_SECONDS = 0.004
_REST = 3.0
_MOST_REST_SECONDS = 0.25

# Yields after each slice of work, or what to wait for.
Steps = Generator[asyncio.Future[Any] | None]


class Job:
    """A request whose answer is being made. `elements`: of its arrays, as far as they are checked;
    `size` and `held` are the shares of answer and request of their budgets."""

    __slots__ = (
        "api", "body_at", "connection", "correlation_id", "elements", "frame", "held", "out",
        "size", "slicer", "software", "steps", "ticket", "version", "wait_ms",
    )  # fmt: skip

    def __init__(self, connection: Connection, ticket: int, api: NodeApi, frame: bytes) -> None:
        _, self.version, self.correlation_id = HEADER.unpack_from(frame)
        self.connection = connection
        self.ticket = ticket
        self.api = api
        self.frame = frame
        self.body_at = 0
        self.elements = 0
        self.held = 0
        self.out = bytearray(_REPLY_HEAD.size)
        self.slicer = Slicer(self.out)
        self.size = 0
        self.wait_ms = 0
        self.steps: Steps | None = None
        self.software: tuple[str, str] | None = None

    def body(self) -> memoryview:
        """The bytes behind the correlation id. To be let go at once: meanwhile it cannot grow."""
        return memoryview(self.out)[_REPLY_HEAD.size :]

    def reply(self) -> bytearray:
        """The whole answer. It is not copied: it may be large."""
        _REPLY_HEAD.pack_into(self.out, 0, len(self.out) - 4, self.correlation_id)
        return self.out


class Jobs:
    """Those of one server.

    `start` gives what a job costs before its first element, in elements, and its steps; `done`
    takes the answer of one that is done; `failed` the error of one that is not, and is gone.
    `answers` is the memory of all answers; `free` frees that of one. `turn` serves what was read
    and not served yet.
    """

    def __init__(
        self,
        start: Callable[[Job], tuple[int, Steps]],
        done: Callable[[Job, bytearray], None],
        failed: Callable[[int, Exception], None],
        answers: Budget,
        free: Callable[[bytearray], object],
        turn: Callable[[], None],
    ) -> None:
        self._start = start
        self._done = done
        self._failed = failed
        self._answers = answers
        self._free = free
        self._requests = Budget(_REQUESTS_BYTES)
        self._turn = turn
        self._waiting: dict[int, Job] = {}
        self._asking: dict[int, Job] = {}
        self._spent = 0
        self._is_awake = False

    @property
    def held_bytes(self) -> int:
        """What requests take that are not answered, but for their answers."""
        return self._requests.taken

    def begin(self, job: Job) -> None:
        """Work on a request, at once if this iteration of the loop has not done enough. Raises
        BadFrameError where requests take too much already."""
        try:
            self._hold(job)
        except BadFrameError:
            self._end(job)
            raise
        self._wait(job)

    def _wait(self, job: Job) -> None:
        """For its next slice, which may be at once."""
        self._waiting[job.ticket] = job
        if len(self._waiting) == 1 and self._spent < SLICE_ELEMENTS:
            self._work_on(job)
        if not self._is_awake:
            self._is_awake = True
            asyncio.get_running_loop().call_soon(self._give_way)

    def abandon(self, ticket: int) -> None:
        """The client is gone, and so is the work on its answer."""
        job = self._waiting.pop(ticket, None) or self._asking.pop(ticket, None)
        if job is not None:
            self._end(job)
            self._free(job.out)

    def _give_way(self) -> None:
        """Read before a slice, and have the turn of what was read: who asks for little waits for
        what is left of one slice, not for the next as well."""
        asyncio.get_running_loop().call_soon(self._next_iteration)

    def _next_iteration(self) -> None:
        """One slice of work: of one long request, or of several short ones. What was read in the
        iteration before comes first: its turn would be behind this."""
        self._turn()
        self._spent = 0
        self._is_awake = bool(self._waiting)
        if self._is_awake:
            asyncio.get_running_loop().call_soon(self._give_way)
        while self._waiting and self._spent < SLICE_ELEMENTS:
            job = next(iter(self._waiting.values()))
            self._work_on(job)

    def _work_on(self, job: Job) -> None:
        """One slice of one request; then it is the turn of the others."""
        try:
            if job.steps is None:
                cost, job.steps = self._start(job)
                self._spent += cost
            began = thread_seconds()
            step = next(job.steps, self)
            took = thread_seconds() - began
            self._spent += job.slicer.take_count()
            self._count(job)
        except Exception as error:
            self._waiting.pop(job.ticket, None)
            self._end(job)
            self._free(job.out)
            self._failed(job.ticket, error)
            return
        self._waiting.pop(job.ticket, None)
        if step is None and took > _LONG_SECONDS:
            step = _rest(min(_REST * took, _MOST_REST_SECONDS))
        if isinstance(step, asyncio.Future):
            self._asking[job.ticket] = job
            step.add_done_callback(lambda _: self._go_on(job))
            return
        if step is not self:
            self._waiting[job.ticket] = job
            return
        reply = job.reply()
        self._end(job)
        self._done(job, reply)

    def _go_on(self, job: Job) -> None:
        """What the job waited for is there."""
        if self._asking.pop(job.ticket, None) is job:
            self._wait(job)

    def _hold(self, job: Job) -> None:
        """Take what the request needs out of the budget, as far as that is known."""
        needs = len(job.frame) + _ELEMENT_BYTES * job.elements
        if needs == job.held:
            return
        self._requests.take(needs - job.held)
        job.held = needs
        if needs > SMALL_ANSWER_BYTES and not self._requests.has_room:
            raise BadFrameError(
                f"{job.api.name} of {len(job.frame)} bytes: requests that wait for their answers "
                f"take more than {self._requests.most} bytes"
            )

    def _count(self, job: Job) -> None:
        """Take what the answer has grown by out of the budget."""
        self._hold(job)
        grown = len(job.out) - job.size
        self._answers.take(grown)
        job.size += grown
        if job.size > _ANSWER_BYTES:
            raise BadFrameError(f"{job.api.name}: an answer of more than {_ANSWER_BYTES} bytes")
        if job.size > SMALL_ANSWER_BYTES and not self._answers.has_room:
            raise BadFrameError(
                f"{job.api.name}: all answers together take more than {self._answers.most} bytes"
            )

    def _end(self, job: Job) -> None:
        if job.steps is not None:
            job.steps.close()
        self._answers.give(job.size)
        self._requests.give(job.held)
        job.size = job.held = 0


def _rest(seconds: float) -> asyncio.Future[None]:
    loop = asyncio.get_running_loop()
    rest = loop.create_future()
    loop.call_later(seconds, rest.set_result, None)
    return rest
