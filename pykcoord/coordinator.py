"""A group coordinator in this process: the shards, their log and a clock, on a thread of its own.

`Coordinator` is for services that coordinate their own workers or speak Kafka's protocol
themselves. It opens no sockets: `pykcoord serve` does that, around the same runtime.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import os
import threading
from array import array
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pykcoord import _member_requests as requests
from pykcoord import tables
from pykcoord._native import Node
from pykcoord.callers import Callers
from pykcoord.catalogue import STATE_FILE, TopicCatalogue, native_end_offsets, native_topics
from pykcoord.clock import Clock, monotonic_seconds
from pykcoord.compaction import start_compaction
from pykcoord.config import Config
from pykcoord.errors import ArgumentError, CoordinatorClosedError, LogError
from pykcoord.log import LogDirectory
from pykcoord.log.protocol import Flush, OnCorruption
from pykcoord.log.state_file import StateFile
from pykcoord.member import Listener, Member
from pykcoord.protocol import decode_response, encode_request
from pykcoord.runtime import Runtime
from pykcoord.snapshots import start_snapshots

if TYPE_CHECKING:
    import pyarrow

__all__ = ["Coordinator"]

logger = logging.getLogger("pykcoord.coordinator")

T = TypeVar("T")
_START_SECONDS = 600.0
_STOP_SECONDS = 30.0
_CLIENT_HOST = "/127.0.0.1"


class Coordinator:
    """Kafka's group coordinator over a directory. Thread-safe; a context manager, also async.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     with Coordinator(directory, topics={"orders": 2}) as coordinator:
    ...         with coordinator.join("billing", topics=["orders"]) as member:
    ...             member.commit({("orders", 0): 42})
    ...             assert member.assignment == {("orders", 0), ("orders", 1)}
    ...             member.committed()[("orders", 0)]
    42
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        topics: Mapping[str, int] | None = None,
        config: Config | None = None,
        flush: Flush = "commit",
        on_corruption: OnCorruption = "refuse",
    ) -> None:
        """`directory` holds the log (created if missing; one process at a time). `topics`: name to
        number of partitions, added to those the directory remembers. `config`: Kafka's settings,
        here with an initial rebalance delay of 0 where None. `flush` and `on_corruption` as for
        `pykcoord serve`.
        """
        if config is not None and not isinstance(config, Config):
            raise ArgumentError("config", f"{config!r} is no pykcoord.Config")
        if topics is not None and not isinstance(topics, Mapping):
            raise ArgumentError("topics", f"{topics!r} is not of the form {{'orders': 12}}")
        self.config = config or Config(group_initial_rebalance_delay_ms=0)
        self._directory = Path(directory)
        self._topics = dict(topics or {})
        self._flush: Flush = flush
        self._on_corruption: OnCorruption = on_corruption
        self._thread: threading.Thread | None = None
        # Held while work is handed to the loop, so that none comes after the last.
        self._gate = threading.Lock()
        self._failure: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._callers: Callers | None = None
        self._node: Node | None = None
        self._catalogue: TopicCatalogue | None = None
        self._clock = Clock()
        self.closed = False
        """True once `close` was called, or the coordinator failed."""

    def start(self) -> None:
        """Open the log, replay it, and serve. Raises what is wrong with the directory:
        LogLockedError, CorruptLogError, ConfigError, OSError; ArgumentError if it was started
        before."""
        started: concurrent.futures.Future[None] = concurrent.futures.Future()
        with self._gate:
            if self._thread is not None:
                raise ArgumentError("coordinator", "it was started before; make another one")
            self._thread = threading.Thread(
                target=self._serve, args=(started,), name="pykcoord-coordinator", daemon=True
            )
        self._thread.start()
        started.result(_START_SECONDS)

    def close(self) -> None:
        """Finish what is in flight, close the log and give up its lock. Safe to call twice.

        Raises OSError or LogError if the log could not be closed: with `flush` "interval" or "os"
        the last records may be lost then. Raises TimeoutError if the disk keeps it waiting.
        """
        with self._gate:
            self.closed = True
            if self._loop is not None and self._stop is not None and not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._stop.set)
        if self._thread is None or self._thread is threading.current_thread():
            return
        self._thread.join(_STOP_SECONDS)
        if self._thread.is_alive():
            raise TimeoutError(f"{self._directory}: not closed in {_STOP_SECONDS:g} s")
        if isinstance(self._failure, OSError | LogError):
            raise self._failure

    @property
    def topics(self) -> dict[str, int]:
        """The catalogue: topic to number of partitions."""
        if self._catalogue is None:
            raise self._not_serving()
        return {name: topic.partitions for name, topic in self._catalogue.topics().items()}

    @property
    def catalogue_version(self) -> int:
        """Another one after each change of the catalogue."""
        if self._catalogue is None:
            raise self._not_serving()
        return self._catalogue.version

    def add_topics(self, topics: Mapping[str, int]) -> None:
        """Create topics, or grow them, to so many partitions. Members in process that subscribe to
        them rebalance. Raises ArgumentError for a name or number that Kafka would refuse."""
        self.result_of(self._add_topics(dict(topics)))

    def set_end_offsets(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """Say where partitions end, by (topic, partition): what consumers hear from ListOffsets,
        and what `group.assignment` measures lag against. Not remembered over a restart. Raises
        ArgumentError for a partition that is not there."""
        try:
            ends = {(topic, partition): end for (topic, partition), end in offsets.items()}
        except (TypeError, ValueError):
            reason = "not of the form {(topic, partition): offset}"
            raise ArgumentError("offsets", reason) from None
        self.result_of(self._set_end_offsets(ends))

    def join(
        self,
        group_id: str,
        topics: Iterable[str],
        *,
        session_timeout_ms: int = 45_000,
        rebalance_timeout_ms: int = 300_000,
        heartbeat_interval_ms: int = 3_000,
        group_instance_id: str | None = None,
        client_id: str = "pykcoord",
        on_assigned: Listener | None = None,
        on_revoked: Listener | None = None,
    ) -> Member:
        """A new member of `group_id` that subscribes to `topics` and keeps itself alive.

        Timeouts are Kafka's consumer settings, in milliseconds, with Kafka's defaults. Raises
        ArgumentError for what the coordinator would refuse.

        The listeners are called with all the partitions that came or go, on a thread of their own:
        they may block and commit, and the member heartbeats meanwhile. `on_revoked` comes before
        the member joins again or leaves, and after it was expelled; the group waits for it, up to
        the rebalance timeout. If `on_assigned` raises, the member leaves the group, and `wait`
        raises the same; what `on_revoked` raises is logged.
        """
        identity = requests.Identity.checked(
            group_id,
            topics,
            session_timeout_ms,
            rebalance_timeout_ms,
            group_instance_id,
            sessions_ms=range(
                self.config.group_min_session_timeout_ms,
                self.config.group_max_session_timeout_ms + 1,
            ),
        )
        if not 0 < heartbeat_interval_ms < session_timeout_ms:
            reason = f"{heartbeat_interval_ms} is not between 0 and the session timeout"
            raise ArgumentError("heartbeat_interval_ms", reason)
        return Member(
            self,
            identity,
            heartbeat_seconds=heartbeat_interval_ms / 1000,
            client_id=client_id,
            on_assigned=on_assigned,
            on_revoked=on_revoked,
        )

    def handle(
        self, request: object, client_id: str = "pykcoord"
    ) -> concurrent.futures.Future[Any]:
        """Any request of the group APIs -> future of its response.

        `request`: an entity of `kio.schema`, answered with the response entity; or the bytes of a
        frame (header and body, no length), answered with the bytes of the response frame. The
        future raises ArgumentError for a frame that cannot be parsed. `asyncio.wrap_future` makes
        it awaitable.
        """
        if isinstance(request, bytes | bytearray | memoryview):
            return self.run(self.exchange(bytes(request)))
        return self.run(self.request(request, client_id))

    async def request(self, request: object, client_id: str = "pykcoord") -> Any:
        """`handle` for entities, awaited on any loop."""
        frame = encode_request(request, client_id=client_id)
        return decode_response(request, await self.exchange(frame))

    async def exchange(self, frame: bytes) -> bytes:
        """`handle` for frames, awaited on any loop."""
        if asyncio.get_running_loop() is not self._loop:
            return await asyncio.wrap_future(self.run(self.exchange(frame)))
        assert self._callers is not None
        return await self._callers.send(_CLIENT_HOST, frame)

    def heartbeat_many(
        self, groups: Sequence[str], members: Sequence[str], generations: Sequence[int]
    ) -> Sequence[int]:
        """Heartbeats of many members at once: an array of Kafka's error codes, in their order.

        The three sequences have one entry per member; Arrow arrays are taken as they are.
        """
        columns = [tables.as_list(column) for column in (groups, members, generations)]
        if len({len(column) for column in columns}) != 1:
            lengths = ", ".join(str(len(column)) for column in columns)
            raise ArgumentError("groups, members, generations", f"of one length, not {lengths}")
        return self.result_of(self._heartbeat_many(*columns))

    def commit_many(self, batch: pyarrow.RecordBatch | pyarrow.Table) -> Sequence[int]:
        """Commits of many groups at once: an array of Kafka's error codes, in the rows' order,
        once all are durable.

        Columns: `group`, `topic` (strings), `partition` (int32), `offset` (int64); and where they
        are there `leader_epoch` (int32), `metadata`, `member` (strings), `generation` (int32).
        """
        return self.result_of(self._commit_many(tables.commits_of(batch)))

    def groups(self) -> pyarrow.Table:
        """All groups: `group`, `type`, `state`, `protocol_type`, `protocol`, `generation`,
        `leader`, `members`."""
        return tables.groups(self.result_of(self._inspect("groups")))

    def members(self) -> pyarrow.Table:
        """All members of classic groups: `group`, `member`, `instance`, `client_id`,
        `client_host`, `session_timeout_ms`, `rebalance_timeout_ms`, `subscription`,
        `assignment`."""
        return tables.members(self.result_of(self._inspect("groups")))

    def offsets(self) -> pyarrow.Table:
        """All committed offsets: `group`, `topic`, `partition`, `offset`, `leader_epoch`,
        `metadata`, `commit_timestamp`, `expire_timestamp`."""
        return tables.offsets(self.result_of(self._inspect("offsets")))

    def run(self, coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Run a coroutine on the coordinator's loop; its future, for any thread."""
        with self._gate:
            if not self.closed and self._loop is not None:
                return asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        coroutine.close()
        raise self._not_serving()

    def result_of(
        self, coroutine: Coroutine[Any, Any, T], timeout_seconds: float | None = None
    ) -> T:
        """The result of a coroutine that runs on the coordinator's loop. Blocks; cancels it and
        raises TimeoutError after `timeout_seconds` (None: never)."""
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

    def _not_serving(self) -> CoordinatorClosedError:
        state = "closed" if self.closed else "not started: use `with`, or call start()"
        error = CoordinatorClosedError(f"the coordinator of {self._directory} is {state}")
        error.__cause__ = self._failure
        return error

    def __enter__(self) -> Coordinator:
        self.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    async def __aenter__(self) -> Coordinator:
        await asyncio.to_thread(self.start)
        return self

    async def __aexit__(self, *raised: object) -> None:
        await asyncio.to_thread(self.close)

    def _serve(self, started: concurrent.futures.Future[None]) -> None:
        try:
            asyncio.run(self._main(started))
        except BaseException as error:
            self._failure = error
            if started.done():
                logger.error("%s: the coordinator failed: %s", self._directory, error)
            else:
                started.set_exception(error)
        finally:
            self.closed = True

    async def _main(self, started: concurrent.futures.Future[None]) -> None:
        shards = self.config.offsets_topic_num_partitions
        node = Node(self.config.native(), shards, os.urandom(32))
        log = LogDirectory.open(
            self._directory,
            partitions=shards,
            segment_bytes=self.config.offsets_topic_segment_bytes,
            flush=self._flush,
            flush_interval_ms=self.config.log_flush_interval_ms,
            on_corruption=self._on_corruption,
            monotonic=monotonic_seconds,
            new_replica=node.replica,
            use_snapshots=self.config.pykcoord_snapshot_interval_ms > 0,
        )
        try:
            for cut in log.cuts:
                logger.warning("%s", cut, extra={"event": "cut"})
            catalogue = TopicCatalogue(self._topics, StateFile(self._directory / STATE_FILE))
            stop = asyncio.Event()
            runtime = Runtime(node, log, self._clock)
            runtime.on_fatal = self._failed

            def tell_topics() -> None:
                runtime.set_topics(native_topics(catalogue), native_end_offsets(catalogue))

            tell_topics()
            catalogue.on_change(tell_topics)
            runtime.load(log.take_replicas())
            start_snapshots(log, self.config)
            start_compaction(log, self.config)
            callers = Callers(runtime)
            runtime.start(callers)
            self._callers, self._node, self._catalogue = callers, node, catalogue
            with self._gate:
                self._loop, self._stop = asyncio.get_running_loop(), stop
                if self.closed:
                    stop.set()
            started.set_result(None)
            await stop.wait()
            await self._end(runtime, callers)
        finally:
            # No other thread: at the interpreter's exit there may be none to be had.
            log.close()

    async def _end(self, runtime: Runtime, callers: Callers) -> None:
        """Answer or fail all that came before the gate was shut, so that nobody waits for ever."""
        with self._gate:
            self.closed = True
        await asyncio.sleep(0)  # what was handed over last becomes a task
        await runtime.stop()
        callers.close()
        await asyncio.sleep(0)  # and hears of it

    def _failed(self, error: BaseException) -> None:
        self._failure = error
        assert self._stop is not None
        self._stop.set()

    async def _add_topics(self, topics: dict[str, int]) -> None:
        assert self._catalogue is not None
        for name, partitions in topics.items():
            self._catalogue.ensure(name, partitions)

    async def _set_end_offsets(self, offsets: dict[tuple[str, int], int]) -> None:
        assert self._catalogue is not None
        self._catalogue.set_end_offsets(offsets)

    async def _heartbeat_many(
        self, groups: list[str], members: list[str], generations: list[int]
    ) -> Sequence[int]:
        assert self._node is not None
        codes = array("h")
        now_ms = self._clock.now_ms()
        try:
            answered = self._node.heartbeat_many(now_ms, groups, members, generations)
        except (OverflowError, TypeError) as error:
            raise ArgumentError("groups, members, generations", str(error)) from error
        codes.frombytes(answered)
        return codes

    async def _commit_many(self, commits: tables.Commits) -> Sequence[int]:
        replies = [self.request(request) for request in commits.requests]
        return commits.codes(await asyncio.gather(*replies))

    async def _inspect(self, what: str) -> list[tuple[Any, ...]]:
        assert self._node is not None
        view = getattr(self._node, what)
        rows: list[tuple[Any, ...]] = []
        for shard in range(self._node.shards):
            rows += view(shard)
            await asyncio.sleep(0)  # heartbeats go on meanwhile
        return rows
