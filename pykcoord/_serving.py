"""The thread and the loop of a coordinator in this process: they start, take calls from any thread,
and end. No call waits for ever, whatever ends the loop: a close, a failure, or a fork.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import os
import threading
import weakref
from collections.abc import Coroutine, Mapping
from typing import Any, NamedTuple, TypeVar

from pykcoord._calls import Calls
from pykcoord._native import Node
from pykcoord.callers import Callers
from pykcoord.catalogue import TopicCatalogue
from pykcoord.clock import Clock
from pykcoord.config import Config
from pykcoord.engine import Directory, Engine
from pykcoord.errors import ArgumentError, CoordinatorClosedError, LogError
from pykcoord.event_stream import EventStream, EventStreams
from pykcoord.keeping import Events, keep_in
from pykcoord.lag_watch import LagWatch
from pykcoord.leading import FixedShards
from pykcoord.log.protocol import Log
from pykcoord.recorded import Recorded
from pykcoord.recorder import Recorder
from pykcoord.runtime import Runtime
from pykcoord.server_assignors import Given

__all__ = ["Parts", "Serving"]

logger = logging.getLogger("pykcoord.coordinator")

T = TypeVar("T")
_START_SECONDS = 600.0
_STOP_SECONDS = 30.0


class Parts(NamedTuple):
    """What is there once a coordinator has started. All but `catalogue` are the loop's alone."""

    callers: Callers
    runtime: Runtime
    node: Node
    catalogue: TopicCatalogue


class Serving:
    """One engine on a thread of its own. Thread-safe."""

    def __init__(
        self,
        store: Directory | Log,
        config: Config,
        topics: Mapping[str, int],
        assignors: Given | None,
        events: Events | None = None,
    ) -> None:
        self._store = store
        self._events = events
        self._assignors = assignors
        self.name = str(store.path) if isinstance(store, Directory) else f"a {_kind(store)}"
        self._config = config
        self._topics = topics
        self._thread: threading.Thread | None = None
        # Held while work is handed to the loop, so that none comes after the last.
        self._gate = threading.Lock()
        self._calls = Calls()
        self._failure: BaseException | None = None
        self._process = os.getpid()
        self.is_forked = False  # whether this is a copy, in a child of the process that serves
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._runtime: Runtime | None = None
        self._parts: Parts | None = None
        self._streams = EventStreams()
        self.recorder: Recorder | None = None
        self.event_files: Recorded | None = None
        self.lag: LagWatch | None = None
        self.clock = Clock()
        self.closed = False
        _known.add(self)

    def start(self) -> None:
        """See `Coordinator.start`."""
        started: concurrent.futures.Future[None] = concurrent.futures.Future()
        with self._gate:
            if self._thread is not None:
                raise ArgumentError("coordinator", "it was started before; make another one")
            self._process = os.getpid()
            self._thread = threading.Thread(
                target=self._serve, args=(started,), name="pykcoord-coordinator", daemon=True
            )
        self._thread.start()
        started.result(_START_SECONDS)

    def close(self) -> None:
        """See `Coordinator.close`."""
        if self.is_forked:
            return
        with self._gate:
            self.closed = True
            if self._loop is not None and self._stop is not None and not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._stop.set)
        if self._thread is None or self._thread is threading.current_thread():
            return
        self._thread.join(_STOP_SECONDS)
        if self._thread.is_alive():
            raise TimeoutError(f"{self.name}: not closed in {_STOP_SECONDS:g} s")
        if isinstance(self._failure, OSError | LogError):
            raise self._failure

    @property
    def parts(self) -> Parts:
        """Raises CoordinatorClosedError before the start, and in a child of fork."""
        if self._parts is None:
            raise self._not_serving()
        return self._parts

    def is_loop(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether this is the loop that serves."""
        return loop is self._loop

    def events(self, limit: int) -> EventStream:
        """See `Coordinator.events`."""
        self.check_process()
        with self._gate:
            if self.closed:
                raise self._not_serving()
            stream = self._streams.add(limit)
            if self._loop is not None and self._parts is not None:
                self._loop.call_soon_threadsafe(self._parts.node.tell_events, True)
        return stream

    def run(self, coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """See `Coordinator.run`."""
        with self._gate:
            if not self.closed and self._loop is not None:
                return self._calls.start(self._loop, coroutine)
        coroutine.close()
        raise self._not_serving()

    def result_of(self, coroutine: Coroutine[Any, Any, T], timeout_seconds: float | None) -> T:
        """See `Coordinator.result_of`."""
        if threading.current_thread() is self._thread:
            coroutine.close()
            raise RuntimeError("this would block the coordinator's thread; await the async form")
        future = self.run(coroutine)
        try:
            return future.result(timeout_seconds)
        except TimeoutError:
            future.cancel()
            raise
        except concurrent.futures.CancelledError:
            raise self._not_serving() from None

    def check_process(self) -> None:
        """Raises CoordinatorClosedError in a child of fork."""
        if self.is_forked:
            raise self._not_serving()

    def _not_serving(self) -> CoordinatorClosedError:
        if self.is_forked:
            return CoordinatorClosedError(
                f"the coordinator of {self.name} runs in process {self._process}, and "
                f"process {os.getpid()} was forked from it: use the coordinator there, or open one "
                "of another directory here, after the fork"
            )
        if self._failure is not None:
            state = f"failed: {type(self._failure).__name__}: {self._failure}"
        else:
            state = "is closed" if self.closed else "is not started: use `with`, or call start()"
        error = CoordinatorClosedError(f"the coordinator of {self.name} {state}")
        error.__cause__ = self._failure
        return error

    def _forked(self) -> None:
        """In a child of fork: there is no loop here, and another thread may have held the gate."""
        self._gate = threading.Lock()
        if self._thread is not None and not self.closed:
            self.is_forked = self.closed = True
            self._loop = self._parts = None
            self._calls.lose(self._not_serving)
            self._streams.lose(self._not_serving())

    def _serve(self, started: concurrent.futures.Future[None]) -> None:
        try:
            with asyncio.Runner() as runner:
                try:
                    runner.run(self._main(started))
                except BaseException as error:
                    self._failure = error
                    # Before the runner cancels all tasks: their callers hear why, and no turn finds
                    # the log closed.
                    self._shut()
                    raise
        except BaseException as error:
            self._failure = error
            if started.done():
                logger.error("%s: the coordinator failed: %r", self.name, error)
            else:
                started.set_exception(error)
        finally:
            self._shut()

    def _shut(self) -> None:
        """No call is taken any more, and those that have no result fail."""
        with self._gate:
            self.closed = True
            self._loop = None
        if self._runtime is not None:
            self._runtime.halt()
        self._calls.fail(self._not_serving)
        self._streams.end(self._not_serving() if self._failure is not None else None)

    async def _main(self, started: concurrent.futures.Future[None]) -> None:
        events, config = self._events, self._config
        engine = Engine.open(
            self._store, config, self._topics, clock=self.clock, assignors=self._assignors,
            keep=None if events is None else lambda: keep_in(events, config),
        )  # fmt: skip
        runtime = self._runtime = engine.runtime
        self.recorder, self.event_files = engine.recorder, engine.event_files
        self.lag = engine.lag
        try:
            if not isinstance(self._store, Directory):
                FixedShards(runtime).lead()
            stop = asyncio.Event()
            runtime.on_fatal = self._failed
            runtime.on_event = self._streams.put
            callers = Callers(runtime)
            runtime.start(callers)
            self._parts = Parts(callers, runtime, engine.node, engine.catalogue)
            with self._gate:
                self._loop, self._stop = asyncio.get_running_loop(), stop
                runtime.tell_events(bool(self._streams))
                if self.closed:
                    stop.set()
            started.set_result(None)
            await stop.wait()
            await self._end(runtime, callers)
        finally:
            # No other thread: at the interpreter's exit there may be none to be had.
            engine.close()

    async def _end(self, runtime: Runtime, callers: Callers) -> None:
        """Answer or fail all that came before the gate was shut, so that no caller waits for
        ever."""
        with self._gate:
            self.closed = True
        await asyncio.sleep(0)  # what was handed over last becomes a task
        await runtime.stop()
        callers.close(self._not_serving)
        await asyncio.sleep(0)  # and hears of it

    def _failed(self, error: BaseException) -> None:
        self._failure = error
        if isinstance(error, LogError):
            logger.critical("nothing is served any more: %s", error, extra={"event": "fatal"})
        assert self._stop is not None
        self._stop.set()


def _kind(store: Log) -> str:
    return type(store).__name__


_known: weakref.WeakSet[Serving] = weakref.WeakSet()


def _in_child() -> None:
    for serving in list(_known):
        serving._forked()


os.register_at_fork(after_in_child=_in_child)
