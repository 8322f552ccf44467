"""A group coordinator in this process: the shards, their log and a clock, on a thread of its own.

`Coordinator` is for services that coordinate their own workers or speak Kafka's protocol
themselves. It opens no sockets: `pykcoord serve` does that, around the same runtime.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import os
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

from pykcoord import _arguments as arguments
from pykcoord import _member_requests as requests
from pykcoord import server_assignors, tables
from pykcoord._serving import Serving
from pykcoord.assignors import Assignor
from pykcoord.catalogue import Topic
from pykcoord.config import Config
from pykcoord.consumer_member import ConsumerMember
from pykcoord.engine import Directory
from pykcoord.errors import ArgumentError
from pykcoord.event_stream import EventStream
from pykcoord.explain import explain
from pykcoord.keeping import Events
from pykcoord.log.protocol import Flush, Log, OnCorruption
from pykcoord.member import Listener, Member
from pykcoord.protocol import decode_response, encode_request
from pykcoord.session import EMBEDDED
from pykcoord.web.options import WebOptions, parse_address

if TYPE_CHECKING:
    import pyarrow

__all__ = ["Coordinator"]

T = TypeVar("T")


class Coordinator:
    """Kafka's group coordinator over a directory or a log store. Thread-safe; a context manager,
    also async.

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
        store: str | os.PathLike[str] | Log,
        *,
        topics: Mapping[str, int] | None = None,
        config: Config | None = None,
        flush: Flush = "commit",
        on_corruption: OnCorruption = "refuse",
        assignors: Sequence[str | Assignor] | None = None,
        web: str | WebOptions | None = None,
        events: Events | None = None,
    ) -> None:
        """`store`: the directory that holds the log (created if missing; one process at a time), or
        a log of another kind (`pykcoord.log.Log`): all its shards are led here, and it is closed
        with the coordinator. `topics`: name to number of partitions, added to those that the
        directory remembers; a store of another kind remembers none. `config`: Kafka's settings,
        here with an initial rebalance delay of 0 where None. `flush` and `on_corruption` are those
        of `pykcoord serve`, for a directory. `assignors`: names and `pykcoord.Assignor`s, in the
        place of `group.consumer.assignors`: what members of consumer groups may name, and first the
        one for groups whose members name none. `web`: HOST:PORT of a console (docs/console.md), on
        loopback; or its `pykcoord.web.WebOptions`. `events`: where what happens to groups is kept
        beside a log of another kind: a directory, which no other process may have; or an object
        store's URL, or a `pykcoord.log.shared.Store`, for a log whose epochs rise with each `take`.
        A directory's is beside its log. Raises ArgumentError for what cannot be right.
        """
        if config is not None and not isinstance(config, Config):
            raise ArgumentError("config", f"{config!r} is no pykcoord.Config")
        for argument, value, kind in (
            ("flush", flush, Flush),
            ("on_corruption", on_corruption, OnCorruption),
        ):
            if value not in get_args(kind):
                raise ArgumentError(argument, f"{value!r} is none of {', '.join(get_args(kind))}")
        self.config = config or Config(group_initial_rebalance_delay_ms=0)
        opened: Directory | Log
        if isinstance(store, Log):
            opened = store
        else:
            opened = Directory(arguments.directory("store", store), flush, on_corruption)
        known = {} if topics is None else arguments.topics("topics", topics)
        own = None if assignors is None else server_assignors.given(assignors)
        if events is not None and isinstance(opened, Directory):
            raise ArgumentError("events", "a directory keeps them beside its log")
        self._serving = Serving(opened, self.config, known, own, events)
        self._web = None if web is None else self._web_options(web)
        self._console = contextlib.ExitStack()
        self.web_url: str | None = None
        """Where the console is, once it was started; None: there is none."""

    @property
    def closed(self) -> bool:
        """True once `close` was called, the coordinator failed, or in a child of fork."""
        return self._serving.closed

    def start(self) -> None:
        """Open the log, replay it, and serve. Raises what is wrong with the store: LogLockedError,
        CorruptLogError, ConfigError, OSError, or what its `take` raises; ArgumentError if it was
        started before. Of a console: OSError where its address cannot be had, and
        ModuleNotFoundError without the extra `web`."""
        self._serving.start()
        if self._web is not None:
            try:
                self._start_console(self._web)
            except BaseException:
                self._serving.close()
                raise

    def close(self) -> None:
        """Finish what is in flight, close the log and give up its lock. Safe to call twice.

        Raises OSError or LogError if the log could not be closed: with `flush` "interval" or "os"
        the last records may be lost then. Raises TimeoutError if the disk keeps it waiting. In a
        child of fork it does nothing: the coordinator is its parent's.
        """
        if not self._serving.is_forked:
            self._console.close()
        self._serving.close()

    @property
    def topics(self) -> dict[str, int]:
        """The catalogue: topic to number of partitions."""
        topics = self._serving.parts.catalogue.topics()
        return {name: topic.partitions for name, topic in topics.items()}

    def topics_with_ids(self) -> Mapping[str, Topic]:
        """The catalogue by name, each topic with its id."""
        return self._serving.parts.catalogue.topics()

    @property
    def catalogue_version(self) -> int:
        """Another one after each change of the catalogue."""
        return self._serving.parts.catalogue.version

    def add_topics(self, topics: Mapping[str, int]) -> None:
        """Create topics, or add partitions to them: name to number of partitions. Members in
        process that subscribe to them rebalance. Raises ArgumentError for a name or number that
        Kafka would refuse, and CoordinatorClosedError."""
        self.result_of(self._add_topics(arguments.topics("topics", topics)))

    def set_end_offsets(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """Say where partitions end, by (topic, partition): what consumers hear from ListOffsets,
        and what `group.assignment` measures lag against. Not remembered over a restart. Raises
        ArgumentError for a partition that is not there."""
        self.result_of(self._set_end_offsets(arguments.offsets("offsets", offsets)))

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
        protocol: Literal["classic", "consumer"] = "classic",
        on_assigned: Listener | None = None,
        on_revoked: Listener | None = None,
    ) -> Member:
        """A new member of `group_id` that subscribes to `topics` and keeps itself alive.

        Timeouts are Kafka's consumer settings, in milliseconds, with Kafka's defaults. Raises
        ArgumentError for what the coordinator would refuse. A topic that does not exist is no
        error, as for Kafka's consumers: a warning is logged, and the member gets its partitions
        when `add_topics` creates it.

        The listeners are called with all the partitions that came or go, on a thread of their own:
        they may block and commit, and the member heartbeats meanwhile. `on_revoked` comes before
        the member joins again or leaves, and after it was expelled; the group waits for it, up to
        the rebalance timeout. If `on_assigned` raises, the member leaves the group, and `wait`
        raises the same; what `on_revoked` raises is logged.

        `protocol` "consumer" (KIP-848): the coordinator assigns, and the member is brought to its
        partitions step by step while the others go on. Its listeners are called with what changes
        only, and `wait` is over with the first assignment, which may be empty until others have
        given partitions up. Session timeout and heartbeat interval are the coordinator's
        (`group.consumer.*`): to name others is an ArgumentError.
        """
        if protocol not in ("classic", "consumer"):
            raise ArgumentError("protocol", f"{protocol!r} is neither 'classic' nor 'consumer'")
        is_consumer = protocol == "consumer"
        if is_consumer:
            requests.check_consumer(
                self.config.group_coordinator_rebalance_protocols,
                session_timeout_ms,
                heartbeat_interval_ms,
            )
        identity = requests.Identity.checked(
            group_id,
            topics,
            session_timeout_ms,
            rebalance_timeout_ms,
            group_instance_id,
            sessions_ms=range(
                1 if is_consumer else self.config.group_min_session_timeout_ms,
                self.config.group_max_session_timeout_ms + 1,
            ),
        )
        heartbeats = range(1, identity.session_timeout_ms)
        arguments.integer("heartbeat_interval_ms", heartbeat_interval_ms, heartbeats)
        arguments.text("client_id", client_id)
        for argument, listener in (("on_assigned", on_assigned), ("on_revoked", on_revoked)):
            if listener is not None and not callable(listener):
                raise ArgumentError(argument, f"{listener!r} cannot be called")
        requests.warn_of_missing(identity, self.topics)
        member = ConsumerMember if is_consumer else Member
        return member(
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
        """Any request of the group APIs -> future of its response, for any thread.

        `request`: an entity of `kio.schema`, answered with the response entity; or the bytes of a
        frame (header and body, no length), answered with the bytes of the response frame.
        `client_id` (a string that Kafka can carry) is that of an entity's header. Raises
        ArgumentError for another `client_id` and CoordinatorClosedError; the future raises
        ArgumentError for a request that cannot be encoded or parsed.
        """
        arguments.text("client_id", client_id)
        return self.run(self.handle_async(request, client_id))

    async def handle_async(self, request: object, client_id: str = "pykcoord") -> Any:
        """`handle`, awaited on any loop: a caller that is cancelled is forgotten."""
        if isinstance(request, bytes | bytearray | memoryview):
            return await self._exchange(bytes(request))
        arguments.text("client_id", client_id)
        frame = encode_request(request, client_id=client_id)
        return decode_response(request, await self._exchange(frame))

    async def _exchange(self, frame: bytes) -> bytes:
        if not self._serving.is_loop(asyncio.get_running_loop()):
            return await asyncio.wrap_future(self.run(self._exchange(frame)))
        return await self._serving.parts.callers.send(EMBEDDED, frame)

    def heartbeat_many(
        self, groups: Sequence[str], members: Sequence[str], generations: Sequence[int]
    ) -> Sequence[int]:
        """Heartbeats of many members of classic groups at once: an array (int16) of Kafka's error
        codes, in their order; 0: none.

        The ids of groups and members, and the generation ids (int32), have one entry per member;
        Arrow arrays are taken as they are. Raises ArgumentError for sequences of different lengths
        or other types, and CoordinatorClosedError.
        """
        with arguments.refusing("groups, members, generations"):
            columns = [tables.as_list(column) for column in (groups, members, generations)]
        if len({len(column) for column in columns}) != 1:
            lengths = ", ".join(str(len(column)) for column in columns)
            raise ArgumentError("groups, members, generations", f"of one length, not {lengths}")
        return self.result_of(self._heartbeat_many(*columns))

    def commit_many(self, batch: pyarrow.RecordBatch | pyarrow.Table) -> Sequence[int]:
        """Commits of many groups at once: an array (int16) of Kafka's error codes, in the rows'
        order, once all are durable; 0: none.

        Columns: `group_id`, `topic` (strings), `partition` (int32), `offset` (int64); and where
        they are there `leader_epoch` (int32; -1: none), `metadata`, `member_id` (strings),
        `generation_id` (int32; -1: not as a member). Raises ArgumentError for columns that are
        missing, NULL or of another type, and CoordinatorClosedError.
        """
        return self.result_of(self._commit_many(tables.commits_of(batch)))

    def groups(self) -> pyarrow.Table:
        """All groups: `group_id`, `type` (classic, consumer, share, streams, simple), `state`,
        `protocol_type`, `protocol`, `generation_id` (of a consumer group its epoch), `leader`,
        `members`. Of consumer groups: `group_epoch`, `assignment_epoch`, `assignment_timestamp`
        (ms; 0: never), `assignor`."""
        return tables.groups(self.result_of(self._inspect("groups")))

    def members(self) -> pyarrow.Table:
        """All members: `group_id`, `member_id`, `group_instance_id`, `client_id`, `client_host`,
        `rebalance_timeout_ms`, `session_timeout_ms`. In classic groups: `subscription` and
        `assignment`, as bytes. In consumer groups: `member_epoch`, `previous_member_epoch`,
        `member_state`, `member_type`, `rack_id`, `subscribed_topic_names`,
        `subscribed_topic_regex`, `server_assignor`, `assigned_partitions`,
        `partitions_pending_revocation` (which it has to give up), `target_partitions`: each a list
        of `topic_id`, `topic`, `partitions`."""
        return self.result_of(self._members())

    def offsets(self) -> pyarrow.Table:
        """All committed offsets: `group_id`, `topic`, `partition`, `offset`, `leader_epoch` (-1:
        none), `metadata`, `commit_timestamp` and `expire_timestamp` (ms since the epoch; -1:
        none)."""
        return tables.offsets(self.result_of(self._inspect("offsets")))

    def events(self, *, limit: int = 10_000) -> EventStream:
        """What happens to groups from now on: an iterator, also an async one, of
        `pykcoord.events.Event`. At most `limit` wait for their reader: see `EventStream`."""
        return self._serving.events(limit)

    def explain(self, group_id: str, since_ms: int | None = None) -> dict[str, Any]:
        """Why a group rebalanced: what `pykcoord explain --json` prints (docs/explain.md), of what
        the directory keeps. `since_ms` (ms since the epoch): only what happened then or later.
        Blocks for a moment; from any thread but the coordinator's. Raises ArgumentError where
        nothing is kept: over another kind of store without `events`, or with `group.events.enable`
        off; and
        CoordinatorClosedError in a child of fork."""
        arguments.text("group_id", group_id)
        self.check_process()
        recorder, files = self._serving.recorder, self._serving.event_files
        if recorder is None or files is None:
            raise ArgumentError("group_id", "this coordinator keeps no events of groups")
        recorder.flush()
        return explain(files.events_of(group_id)[0], group_id, since_ms).fields()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Run a coroutine on the coordinator's loop; its future, for any thread."""
        return self._serving.run(coroutine)

    def result_of(
        self, coroutine: Coroutine[Any, Any, T], timeout_seconds: float | None = None
    ) -> T:
        """The result of a coroutine that runs on the coordinator's loop. Blocks; cancels it and
        raises TimeoutError after `timeout_seconds` (None: never)."""
        return self._serving.result_of(coroutine, timeout_seconds)

    def check_process(self) -> None:
        """Raises CoordinatorClosedError in a child of fork."""
        self._serving.check_process()

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

    def _web_options(self, web: str | WebOptions) -> WebOptions:
        with arguments.refusing("web"):
            options = web if isinstance(web, WebOptions) else WebOptions(parse_address(web, "web"))
            options.check("web", "WebOptions(token=...)")
        return options

    def _start_console(self, options: WebOptions) -> None:
        from pykcoord.web.embedded import EmbeddedSource
        from pykcoord.web.listener import serve_console

        source = EmbeddedSource(self._serving.name, self._serving, self._exchange)
        console = serve_console(source, options, self._serving.clock.now_ms)
        self.web_url = self._console.enter_context(console).url

    async def _add_topics(self, topics: dict[str, int]) -> None:
        catalogue = self._serving.parts.catalogue
        for name, partitions in topics.items():
            catalogue.ensure(name, partitions)

    async def _set_end_offsets(self, offsets: dict[tuple[str, int], int]) -> None:
        self._serving.parts.catalogue.set_end_offsets(offsets)

    async def _heartbeat_many(self, *columns: list[Any]) -> Sequence[int]:
        serving = self._serving
        return tables.heartbeats(serving.parts.node, serving.clock.now_ms(), *columns)

    async def _commit_many(self, commits: tables.Commits) -> Sequence[int]:
        replies = [self.handle_async(request) for request in commits.requests]
        return commits.codes(await asyncio.gather(*replies))

    async def _members(self) -> pyarrow.Table:
        rows = await self._inspect("groups")
        topics = self._serving.parts.catalogue.topics().values()
        return tables.members(rows, {topic.topic_id.bytes: topic.name for topic in topics})

    async def _inspect(self, what: str) -> list[tuple[Any, ...]]:
        node = self._serving.parts.node
        view = getattr(node, what)
        rows: list[tuple[Any, ...]] = []
        for shard in range(node.shards):
            rows += view(shard)
            await asyncio.sleep(0)  # heartbeats go on meanwhile
        return rows
