"""Brokers that are none: they answer what a test says, over TCP, so that elections, other clusters
and nonsense can be had in a second. As far as `pykcoord.kafka` asks, and no further.

Must never decide anything about groups: what it holds of `__consumer_offsets` are bytes.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from importlib import import_module
from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.types import BrokerId, GroupId, TopicName
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import Records, i16, i32, i32Timedelta, i64, i64Timedelta

from pykcoord.log._record_batch import header
from pykcoord.protocol import body_at

__all__ = ["OFFSETS", "ScriptedCluster", "ScriptedPartition"]

OFFSETS = "__consumer_offsets"
_NO_TIME = i32Timedelta.parse(timedelta(0))
# Name, least and greatest version of what is served, by key.
_APIS = {
    1: ("fetch", 4, 17), 2: ("list_offsets", 1, 7), 3: ("metadata", 0, 12),
    9: ("offset_fetch", 1, 8), 15: ("describe_groups", 0, 5), 16: ("list_groups", 0, 4),
    17: ("sasl_handshake", 0, 1), 18: ("api_versions", 0, 3), 32: ("describe_configs", 1, 4),
    36: ("sasl_authenticate", 0, 2),
}  # fmt: skip


@dataclass
class ScriptedPartition:
    """A partition: batches as bytes, one after the other."""

    leader: int
    leader_epoch: int = 0
    batches: list[bytes] = field(default_factory=list)
    start: int = 0
    error: int = 0
    lags: int = 0
    """By how much the high watermark of an answer is older than its records."""
    damage: Callable[[bytes], bytes] | None = None
    """What becomes of the last batch on its way."""

    @property
    def end(self) -> int:
        if not self.batches:
            return self.start
        last = header(self.batches[-1], 0)
        return last.base_offset + last.last_offset_delta + 1

    def end_of_epoch(self, epoch: int) -> tuple[int, int] | None:
        """The greatest epoch up to `epoch`, and where it ends; None if there is none."""
        known = [header(one, 0) for one in self.batches]
        own = [one for one in known if one.partition_leader_epoch <= epoch]
        if not own:
            return None
        last = own[-1]
        return last.partition_leader_epoch, last.base_offset + last.last_offset_delta + 1


class ScriptedCluster:
    """`topics`: name to (id, partitions). Change what you like while it runs, then `notify`."""

    def __init__(self, brokers: int = 1, cluster_id: str = "scripted") -> None:
        self.cluster_id = cluster_id
        self.topics: dict[str, tuple[uuid.UUID, dict[int, ScriptedPartition]]] = {}
        self.ports: dict[int, int] = dict.fromkeys(range(1, brokers + 1), 0)
        self.hidden: dict[str, int] = {}
        """Topics that Metadata names only if asked for them, with this error."""
        self.without: dict[int, set[str]] = {}
        """Topics that a broker does not know of."""
        self.asked: list[tuple[int, str]] = []
        self.greatest: dict[int, int] = {}
        """Greatest version of an API, where it is less than usual."""
        self.raw: bytes | None = None
        """Sent instead of any answer."""
        self.sasl: list[bytes] = []
        self.groups: dict[str, Any] = {}
        self.group_offsets: dict[str, dict[tuple[str, int], int]] = {}
        self._changed = asyncio.Event()
        self._servers: dict[int, asyncio.Server] = {}
        self._writers: dict[int, set[asyncio.StreamWriter]] = {}

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    def add_topic(self, name: str, partitions: int, leaders: list[int] | None = None) -> uuid.UUID:
        brokers = leaders or list(self.ports)
        topic_id = uuid.uuid4()
        made = {at: ScriptedPartition(brokers[at % len(brokers)]) for at in range(partitions)}
        self.topics[name] = topic_id, made
        return topic_id

    def partition(self, name: str, number: int) -> ScriptedPartition:
        return self.topics[name][1][number]

    def notify(self) -> None:
        """Ends all long polls."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[ScriptedCluster]:
        self._changed = asyncio.Event()
        for node_id in self.ports:
            await self.start(node_id)
        try:
            yield self
        finally:
            for node_id in list(self._servers):
                await self.stop(node_id)

    async def start(self, node_id: int) -> None:
        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._serve(node_id, reader, writer)

        server = await asyncio.start_server(connected, "127.0.0.1", self.ports[node_id])
        self.ports[node_id] = server.sockets[0].getsockname()[1]
        self._servers[node_id] = server

    async def stop(self, node_id: int) -> None:
        """As a broker that is killed."""
        self._servers.pop(node_id).close()
        for writer in self._writers.pop(node_id, set()):
            writer.transport.abort()

    async def _serve(
        self, node_id: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._writers.setdefault(node_id, set()).add(writer)
        # Cancelled: the loop of the test ends.
        gone = (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError)
        with contextlib.suppress(*gone):
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                frame = await reader.readexactly(size)
                if self.raw is not None:
                    writer.write(self.raw)
                    await writer.drain()
                    continue
                answer = await self._answer(node_id, frame)
                writer.write(len(answer).to_bytes(4, "big") + answer)
                await writer.drain()
        writer.transport.abort()

    async def _answer(self, node_id: int, frame: bytes) -> bytes:
        key, version = (int.from_bytes(frame[at : at + 2], "big") for at in (0, 2))
        name = _APIS[key][0]
        requests = import_module(f"kio.schema.{name}.v{version}.request")
        responses = import_module(f"kio.schema.{name}.v{version}.response")
        camel = "".join(part.capitalize() for part in name.split("_"))
        entity = getattr(requests, f"{camel}Request")
        request, _ = entity_reader(entity)(frame, body_at(frame, entity.__flexible__))
        self.asked.append((node_id, name))
        response = await getattr(self, f"_{name}")(node_id, request, responses)
        out = io.BytesIO(frame[4:8])
        out.seek(4)
        if type(response).__header_schema__.__version__ == 1:
            out.write(b"\0")
        entity_writer(type(response))(out, response)
        return out.getvalue()

    async def _api_versions(self, node_id: int, request: Any, of: Any) -> Any:
        keys = [
            of.ApiVersion(
                api_key=i16(key),
                min_version=i16(least),
                max_version=i16(self.greatest.get(key, greatest)),
            )
            for key, (_, least, greatest) in _APIS.items()
        ]
        return of.ApiVersionsResponse(
            error_code=ErrorCode.none, api_keys=tuple(keys), throttle_time=_NO_TIME,
            supported_features=(), finalized_features_epoch=i64(-1), finalized_features=(),
        )  # fmt: skip

    async def _metadata(self, node_id: int, request: Any, of: Any) -> Any:
        wanted = None if request.topics is None else {str(one.name) for one in request.topics}
        topics = [
            self._topic(name, of)
            for name in self.topics
            if name not in self.without.get(node_id, ())
            and (name in wanted if wanted is not None else name not in self.hidden)
        ]
        for name in sorted((wanted or set()) - self.topics.keys()):
            error = ErrorCode(self.hidden.get(name, 3))
            topics.append(
                of.MetadataResponseTopic(
                    error_code=error, name=TopicName(name), topic_id=None, is_internal=False,
                    partitions=(), topic_authorized_operations=i32(0),
                )
            )  # fmt: skip
        brokers = [
            of.MetadataResponseBroker(
                node_id=BrokerId(one), host="127.0.0.1", port=i32(port), rack=None
            )
            for one, port in self.ports.items()
            if one in self._servers
        ]
        return of.MetadataResponse(
            throttle_time=_NO_TIME, brokers=tuple(brokers), cluster_id=self.cluster_id,
            controller_id=BrokerId(1), topics=tuple(topics),
        )  # fmt: skip

    def _topic(self, name: str, of: Any) -> Any:
        topic_id, partitions = self.topics[name]
        return of.MetadataResponseTopic(
            error_code=ErrorCode(self.hidden.get(name, 0)),
            name=TopicName(name),
            topic_id=topic_id,
            is_internal=name == OFFSETS,
            partitions=tuple(
                of.MetadataResponsePartition(
                    error_code=ErrorCode.none, partition_index=i32(number),
                    leader_id=BrokerId(one.leader), leader_epoch=i32(one.leader_epoch),
                    replica_nodes=(), isr_nodes=(), offline_replicas=(),
                )
                for number, one in partitions.items()
            ),
            topic_authorized_operations=i32(0),
        )  # fmt: skip

    async def _list_offsets(self, node_id: int, request: Any, of: Any) -> Any:
        def answer(name: str, asked: Any) -> Any:
            one = self.topics[name][1].get(asked.partition_index) if name in self.topics else None
            error = 3 if one is None else 6 if one.leader != node_id else one.error
            error = 0 if error == 1 else error  # of Fetch alone
            end = one.start if one and asked.timestamp == -2 else one.end if one else -1
            return of.ListOffsetsPartitionResponse(
                partition_index=asked.partition_index, error_code=ErrorCode(error),
                timestamp=i64(-1), offset=i64(-1 if error else end), leader_epoch=i32(-1),
            )  # fmt: skip

        topics = [
            of.ListOffsetsTopicResponse(
                name=topic.name,
                partitions=tuple(answer(str(topic.name), one) for one in topic.partitions),
            )
            for topic in request.topics
        ]
        return of.ListOffsetsResponse(throttle_time=_NO_TIME, topics=tuple(topics))

    async def _fetch(self, node_id: int, request: Any, of: Any) -> Any:
        for _ in range(2):
            changed = self._changed
            topics = [
                of.FetchableTopicResponse(
                    topic_id=topic.topic_id,
                    partitions=tuple(
                        self._fetched(node_id, topic.topic_id, one, of) for one in topic.partitions
                    ),
                )
                for topic in request.topics
            ]
            news = [p for t in topics for p in t.partitions if p.records or p.error_code.value]
            diverging = [
                p for t in topics for p in t.partitions if p.diverging_epoch.end_offset >= 0
            ]
            if news or diverging:
                break
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(request.max_wait.total_seconds()):
                    await changed.wait()
        return of.FetchResponse(
            throttle_time=_NO_TIME, error_code=ErrorCode.none, session_id=i32(0),
            responses=tuple(topics),
        )  # fmt: skip

    def _fetched(self, node_id: int, topic_id: uuid.UUID, asked: Any, of: Any) -> Any:
        found = [parts for known, parts in self.topics.values() if known == topic_id]
        one = found[0].get(asked.partition) if found else None
        error, records, diverging = 0, b"", of.EpochEndOffset()
        if one is None:
            error = 100
        elif one.error:
            error = one.error
        elif one.leader != node_id:
            error = 6
        elif asked.current_leader_epoch not in (-1, one.leader_epoch):
            error = 74 if asked.current_leader_epoch < one.leader_epoch else 75
        else:
            epoch_end = one.end_of_epoch(asked.last_fetched_epoch)
            if asked.last_fetched_epoch >= 0 and epoch_end is None:
                error = 1
            elif (
                asked.last_fetched_epoch >= 0
                and epoch_end is not None
                and (epoch_end[0] < asked.last_fetched_epoch or epoch_end[1] < asked.fetch_offset)
            ):
                diverging = of.EpochEndOffset(epoch=i32(epoch_end[0]), end_offset=i64(epoch_end[1]))
            elif not one.start <= asked.fetch_offset <= one.end:
                error = 1
            else:
                wanted = [
                    batch
                    for batch in one.batches
                    if header(batch, 0).base_offset + header(batch, 0).last_offset_delta
                    >= asked.fetch_offset
                ]
                if one.damage is not None:
                    wanted[-1:] = map(one.damage, wanted[-1:])
                records = b"".join(wanted)
        return of.PartitionData(
            partition_index=asked.partition, error_code=ErrorCode(error),
            high_watermark=i64(one.end - one.lags if one and not error else -1),
            log_start_offset=i64(one.start if one and not error else -1), diverging_epoch=diverging,
            aborted_transactions=None, records=Records(records),
        )  # fmt: skip

    async def _describe_configs(self, node_id: int, request: Any, of: Any) -> Any:
        return of.DescribeConfigsResponse(throttle_time=_NO_TIME, results=())

    async def _list_groups(self, node_id: int, request: Any, of: Any) -> Any:
        listed = [
            of.ListedGroup(group_id=GroupId(name), protocol_type="consumer", group_state=state)
            for name, state in self.groups.items()
        ]
        return of.ListGroupsResponse(
            throttle_time=_NO_TIME, error_code=ErrorCode.none, groups=tuple(listed)
        )

    async def _describe_groups(self, node_id: int, request: Any, of: Any) -> Any:
        groups = [
            of.DescribedGroup(
                error_code=ErrorCode.none, group_id=name,
                group_state=self.groups.get(str(name), "Dead"), protocol_type="consumer",
                protocol_data="", members=(), authorized_operations=i32(0),
            )
            for name in request.groups
        ]  # fmt: skip
        return of.DescribeGroupsResponse(throttle_time=_NO_TIME, groups=tuple(groups))

    async def _offset_fetch(self, node_id: int, request: Any, of: Any) -> Any:
        groups = []
        for asked in request.groups:
            topics: dict[str, list[Any]] = {}
            for (topic, number), offset in self.group_offsets.get(str(asked.group_id), {}).items():
                topics.setdefault(topic, []).append(
                    of.OffsetFetchResponsePartitions(
                        partition_index=i32(number), committed_offset=i64(offset),
                        committed_leader_epoch=i32(-1), metadata="", error_code=ErrorCode.none,
                    )
                )  # fmt: skip
            groups.append(
                of.OffsetFetchResponseGroup(
                    group_id=asked.group_id,
                    topics=tuple(
                        of.OffsetFetchResponseTopics(name=TopicName(name), partitions=tuple(parts))
                        for name, parts in topics.items()
                    ),
                    error_code=ErrorCode.none,
                )
            )
        return of.OffsetFetchResponse(throttle_time=_NO_TIME, groups=tuple(groups))

    async def _sasl_handshake(self, node_id: int, request: Any, of: Any) -> Any:
        return of.SaslHandshakeResponse(error_code=ErrorCode.none, mechanisms=(request.mechanism,))

    async def _sasl_authenticate(self, node_id: int, request: Any, of: Any) -> Any:
        self.sasl.append(request.auth_bytes)
        return of.SaslAuthenticateResponse(
            error_code=ErrorCode.none, error_message=None, auth_bytes=b"",
            session_lifetime=i64Timedelta.parse(timedelta(0)),
        )  # fmt: skip
