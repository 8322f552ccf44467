"""What a node answers that is not of groups: what it knows as a leader, what a broker of the
cluster is asked in its place, and what it refuses. The groups' own APIs never come here.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any

from kio.schema.errors import ErrorCode
from kio.static.primitive import i16, i64

from pykcoord.kafka import ClusterError
from pykcoord.node._fetch_frames import Asked
from pykcoord.node.events_metadata import is_named, metadata_with_events
from pykcoord.node.follower_fetches import FollowerFetch, FollowerFetches
from pykcoord.node.forwarding import Forwarding
from pykcoord.node.image import Image
from pykcoord.node.messages import (
    NO_THROTTLE,
    decode,
    encode,
    framed,
    nested_of,
    response_class,
)
from pykcoord.node.replica_apis import ReplicaApis
from pykcoord.protocol import GROUP_APIS
from pykcoord.server.api.events_topic import EventsTopic

__all__ = ["NodeApis"]

logger = logging.getLogger("pykcoord.node")

_HEADER = struct.Struct(">hhi")
_PRODUCE, _FETCH, _LIST_OFFSETS, _API_VERSIONS, _EPOCHS = 0, 1, 2, 18, 23
_METADATA, _DESCRIBE_CONFIGS, _PRODUCERS = 3, 32, 61
_OWN_VERSIONS = {_FETCH: (4, 18), _LIST_OFFSETS: (1, 11), _EPOCHS: (2, 4), _PRODUCERS: (0, 0)}
# Followers have their id in the request since then.
_FOLLOWERS_VERSION = 15
# A broker answers these in the place of this node: they are about the cluster, not about one of it.
_FORWARDED = frozenset(
    {
        3, 10, 19, 20, 22, 24, 25, 26, 29, 30, 31, 32, 33, 36, 37, 38, 39, 40, 41, 43, 44, 45, 46,
        48, 49, 50, 51, 55, 57, 60, 64, 65, 74, 75, 80, 81,
    }
)  # fmt: skip
# About this node alone, which has none: log directories, transactions that it coordinates.
_NOTHING: dict[int, str] = {35: "results", 66: "transaction_states"}
_BROKER_RESOURCE = 4
# Changes of a broker's settings: a broker takes its own alone, the controllers take all.
_ALTER_CONFIGS = frozenset({33, 44})


class NodeApis:
    """`reply(ticket, frame)` and `refuse(ticket, reason)` are the server's. `versions()` are the
    versions that the brokers serve; `features` are (name, least, most) that this node supports;
    `settings` what it tells of itself; `events` what it keeps of groups, None where that is
    nothing."""

    def __init__(
        self,
        reply: Callable[[int, bytes | bytearray], None],
        refuse: Callable[[int, str], None],
        *,
        image: Callable[[], Image],
        forwarding: Forwarding,
        replicas: ReplicaApis,
        followers: FollowerFetches,
        versions: Callable[[], Mapping[int, tuple[int, int]]],
        features: Sequence[tuple[str, int, int]],
        cluster_id: str,
        node_id: int,
        ask_controller: Callable[[bytes], Awaitable[bytes]],
        events: EventsTopic | None = None,
    ) -> None:
        self._reply = reply
        self._refuse = refuse
        self._image = image
        self._forwarding = forwarding
        self._replicas = replicas
        self._followers = followers
        self._versions = versions
        self._features = features
        self._cluster_id = cluster_id
        self._node_id = node_id
        self._ask_controller = ask_controller
        self._events = events
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._fetches: dict[int, FollowerFetch] = {}

    def handle(self, connection: Any, ticket: int, frame: bytes) -> None:
        """Answers one request, now or later."""
        try:
            key, version, _ = _HEADER.unpack_from(frame)
            if key == _FETCH and self._is_of_a_follower(ticket, version, frame):
                return
            work = self._work(key, version, frame)
        except Exception as error:
            self._refuse(ticket, f"cannot be read: {error!r:.200}")
            return
        if isinstance(work, bytes):
            self._reply(ticket, work)
            return
        if isinstance(work, str):
            self._refuse(ticket, work)
            return
        task = asyncio.get_running_loop().create_task(self._later(ticket, work))
        self._tasks[ticket] = task
        task.add_done_callback(lambda done: self._tasks.pop(ticket, None))

    def abandon(self, ticket: int) -> None:
        """The client is gone. What a broker was asked goes on there."""
        if (task := self._tasks.pop(ticket, None)) is not None:
            task.cancel()
        if (fetch := self._fetches.pop(ticket, None)) is not None:
            self._followers.abandon(fetch)

    def finish_polls(self) -> None:
        """The server ends: what waits is not answered."""
        for ticket in list(self._fetches):
            self.abandon(ticket)
        for task in list(self._tasks.values()):
            task.cancel()

    def _is_of_a_follower(self, ticket: int, version: int, frame: bytes) -> bool:
        """Answers a follower's Fetch, now or later."""
        if not _FOLLOWERS_VERSION <= version <= _OWN_VERSIONS[_FETCH][1]:
            return False
        asked = Asked(frame)
        if asked.replica < 0:
            return False

        def reply(answer: bytes) -> None:
            self._fetches.pop(ticket, None)
            self._reply(ticket, answer)

        fetch = self._followers.take(frame[4:8], asked, reply)
        if fetch is not None:
            self._fetches[ticket] = fetch
        return True

    async def _later(self, ticket: int, work: Coroutine[Any, Any, bytes]) -> None:
        try:
            answer = await work
        except ClusterError as error:
            self._refuse(ticket, f"no broker answers it: {error}")
        except asyncio.CancelledError:
            raise
        except Exception as error:
            logger.error("a request failed", exc_info=error, extra={"event": "failure"})
            self._refuse(ticket, f"failed: {error!r}")
        else:
            self._reply(ticket, answer)

    def _work(
        self, key: int, version: int, frame: bytes
    ) -> bytes | str | Coroutine[Any, Any, bytes]:
        """The answer, the reason why there is none, or what will be the answer."""
        if key == _API_VERSIONS:
            return self._api_versions(version, frame)
        if key in _OWN_VERSIONS:
            least, most = _OWN_VERSIONS[key]
            if not least <= version <= most:
                return f"API key {key} v{version} is not served"
            return self._as_leader(key, version, frame)
        if key == _PRODUCE:
            return self._refused_produce(version, frame)
        if key in _NOTHING:
            return self._nothing(key, version, frame)
        if key == _DESCRIBE_CONFIGS and self._is_about_this_node(key, version, frame):
            return self._own_configs(version, frame)
        if key in _ALTER_CONFIGS and self._is_about_this_node(key, version, frame):
            return self._to_controller(frame)
        if key == _METADATA and self._events is not None and is_named(self._events, version, frame):
            return self._metadata(self._events, version, frame)
        if key in _FORWARDED:
            return self._forward(frame)
        return f"API key {key} is not for this node"

    async def _forward(self, frame: bytes) -> bytes:
        return framed(await self._forwarding.ask(frame))

    async def _metadata(self, events: EventsTopic, version: int, frame: bytes) -> bytes:
        ask = self._forwarding.ask
        return framed(await metadata_with_events(events, self._node_id, version, frame, ask))

    async def _to_controller(self, frame: bytes) -> bytes:
        return framed(await self._ask_controller(frame))

    def _as_leader(
        self, key: int, version: int, frame: bytes
    ) -> bytes | Coroutine[Any, Any, bytes]:
        request, response = decode(key, version, frame), response_class(key, version)
        if key == _FETCH:
            return self._fetch(request, response, version, frame)
        if key == _LIST_OFFSETS:
            made = self._replicas.list_offsets(request, response, version)
        elif key == _PRODUCERS:
            made = self._replicas.describe_producers(request, response)
        else:
            made = self._replicas.offset_for_leader_epoch(request, response)
        return encode(made, frame[4:8])

    async def _fetch(self, request: Any, response: Any, version: int, frame: bytes) -> bytes:
        return encode(await self._replicas.fetch(request, response, version), frame[4:8])

    def _refused_produce(self, version: int, frame: bytes) -> bytes | str:
        """A broker that does not lead says so, and where the leader is to be looked for."""
        request, kind = decode(_PRODUCE, version, frame), response_class(_PRODUCE, version)
        if request.acks == 0:
            return "Produce with acks=0: this node has no records"
        of_topic = nested_of(kind, "responses")
        of_partition = nested_of(of_topic, "partition_responses")
        responses = tuple(
            of_topic(
                **(
                    {"topic_id": topic.topic_id} if version >= 13 else {"name": topic.name}
                ),
                partition_responses=tuple(
                    of_partition(
                        index=one.index, error_code=ErrorCode.not_leader_or_follower,
                        base_offset=i64(-1),
                    )
                    for one in topic.partition_data
                ),
            )
            for topic in request.topic_data
        )  # fmt: skip
        return encode(kind(responses=responses, throttle_time=NO_THROTTLE), frame[4:8])

    def _nothing(self, key: int, version: int, frame: bytes) -> bytes:
        decode(key, version, frame)
        kind = response_class(key, version)
        fields: dict[str, Any] = {_NOTHING[key]: ()}
        if "throttle_time" in kind.__dataclass_fields__:
            fields["throttle_time"] = NO_THROTTLE
        if "error_code" in kind.__dataclass_fields__:
            fields["error_code"] = ErrorCode.none
        if "unknown_state_filters" in kind.__dataclass_fields__:
            fields["unknown_state_filters"] = ()
        return encode(kind(**fields), frame[4:8])

    def _is_about_this_node(self, key: int, version: int, frame: bytes) -> bool:
        request = decode(key, version, frame)
        return any(
            int(one.resource_type) == _BROKER_RESOURCE and one.resource_name == str(self._node_id)
            for one in request.resources
        )

    def _own_configs(self, version: int, frame: bytes) -> bytes:
        """This node's settings are in its own file, and are not told."""
        request = decode(_DESCRIBE_CONFIGS, version, frame)
        kind = response_class(_DESCRIBE_CONFIGS, version)
        of = nested_of(kind, "results")
        results = tuple(
            of(
                error_code=ErrorCode.none, error_message=None, resource_type=one.resource_type,
                resource_name=one.resource_name, configs=(),
            )
            for one in request.resources
        )  # fmt: skip
        return encode(kind(throttle_time=NO_THROTTLE, results=results), frame[4:8])

    def _api_versions(self, version: int, frame: bytes) -> bytes:
        correlation_id = frame[4:8]
        if not 0 <= version <= 5:
            body = struct.pack(">hihhh", ErrorCode.unsupported_version.value, 1, 18, 0, 5)
            return framed(correlation_id + body)
        error = ErrorCode.none
        if version >= 5:
            request = decode(_API_VERSIONS, version, frame)
            if request.cluster_id is not None and (request.cluster_id, int(request.node_id)) != (
                self._cluster_id, self._node_id,
            ):  # fmt: skip
                error = ErrorCode.rebootstrap_required
        kind = response_class(_API_VERSIONS, min(version, 4))
        of_key = nested_of(kind, "api_keys")
        keys = self._served() if error is ErrorCode.none else {}
        fields: dict[str, Any] = {
            "error_code": error,
            "api_keys": tuple(
                of_key(api_key=i16(key), min_version=i16(least), max_version=i16(most))
                for key, (least, most) in sorted(keys.items())
            ),
        }
        if version >= 1:
            fields["throttle_time"] = NO_THROTTLE
        if version >= 3:
            fields |= self._feature_fields(kind, version)
        return encode(kind(**fields), correlation_id)

    def _served(self) -> dict[int, tuple[int, int]]:
        """Of the groups' APIs what the engine serves, of those of a leader what is here, of the
        others what the brokers serve. Nothing above what the cluster's brokers have."""
        brokers = self._versions()
        served = {key: brokers[key] for key in _FORWARDED | {_PRODUCE} if key in brokers}
        own = {api.key: (api.minimum, api.maximum) for api in GROUP_APIS}
        own |= _OWN_VERSIONS | {_API_VERSIONS: (0, 5)}
        own |= {key: brokers[key] for key in _NOTHING if key in brokers}
        for key, (least, most) in own.items():
            if key in brokers:
                served[key] = (max(least, brokers[key][0]), min(most, brokers[key][1]))
        return {key: of for key, of in served.items() if of[0] <= of[1]}

    def _feature_fields(self, kind: Any, version: int) -> dict[str, Any]:
        image = self._image()
        supported, finalized = (
            nested_of(kind, "supported_features"), nested_of(kind, "finalized_features"),
        )  # fmt: skip
        return {
            "supported_features": tuple(
                supported(name=name, min_version=i16(least), max_version=i16(most))
                for name, least, most in self._features
                if least > 0 or version >= 4
            ),
            "finalized_features_epoch": i64(image.offset - 1),
            "finalized_features": tuple(
                finalized(name=name, max_version_level=i16(level), min_version_level=i16(level))
                for name, level in image.features.items()
            ),
        }
