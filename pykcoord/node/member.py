"""A node of a Kafka cluster, put together: what it reads, follows, leads and serves, and how all of
it begins and ends. It decides nothing that a group could notice.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from pykcoord.config import Config
from pykcoord.engine import Engine
from pykcoord.kafka import ClientProperties, Cluster, Connector
from pykcoord.keeping import keep_in_files
from pykcoord.log.folders import TOPIC
from pykcoord.log.replicas import ReplicaDirectory
from pykcoord.node.alterations import Alterations
from pykcoord.node.apis import NodeApis
from pykcoord.node.cordon import CORDON_SETTING, OPEN_SECONDS, Cordon
from pykcoord.node.ends import ClusterEnds
from pykcoord.node.errors import NodeError
from pykcoord.node.follower_fetches import FollowerFetches
from pykcoord.node.following import Following
from pykcoord.node.forwarding import Forwarding, shuffled
from pykcoord.node.image import BROKER_KIND, Image
from pykcoord.node.joining import Surroundings, check_id, check_image, endpoints_of, look_around
from pykcoord.node.leading import Leadership
from pykcoord.node.quorum import Quorum
from pykcoord.node.registration import Identity, Registration
from pykcoord.node.replica_apis import ReplicaApis
from pykcoord.node.store import NodeLog
from pykcoord.node.topics import FollowedTopics, ImageTopics, open_topics
from pykcoord.node.verifying import Verifying
from pykcoord.server import Server
from pykcoord.server.addresses import naming_address
from pykcoord.server.api.events_topic import EventsTopic

if TYPE_CHECKING:
    from pykcoord.server.metrics import ServerMetrics

__all__ = ["KafkaNode", "NodeOptions"]

logger = logging.getLogger("pykcoord.node")

_JOIN_SECONDS = 60.0
_SHUTDOWN_SECONDS = 30.0


@dataclass(frozen=True)
class NodeOptions:
    """Where a node keeps its replicas, where the cluster is (`bootstrap`: HOST:PORT, ...), where it
    listens and what it advertises. `rack` is told to the cluster."""

    directory: Path
    bootstrap: str
    listen: tuple[str, int]
    advertise: tuple[str, int] | None
    rack: str | None = None


class KafkaNode:
    """Made by `open`, which changes nothing at the cluster; `join` registers and serves; `leave`
    ends it as a broker ends. `on_failure` hears once of what ends it otherwise."""

    def __init__(self, options: NodeOptions, config: Config, cluster: Cluster) -> None:
        self.options = options
        self.config = config
        self.cluster = cluster
        self.node_id = config.node_id
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._refused: dict[str, set[int]] = {}
        self._topics_version = -1
        self._cordon = Cordon()

    @classmethod
    async def open(
        cls, options: NodeOptions, config: Config, metrics: ServerMetrics | None = None
    ) -> Self:
        """Reads the cluster and the directory. Raises NodeError, ClusterError, LogError, OSError,
        ConfigError."""
        properties = ClientProperties.of(
            {"bootstrap.servers": options.bootstrap, "client.id": f"pykcoord-{config.node_id}"}
        )
        cluster = await Cluster.open(properties, topics=(TOPIC,))
        node = cls(options, config, cluster)
        try:
            await node._open(metrics)
        except BaseException:
            await node._close()
            raise
        return node

    async def _open(self, metrics: ServerMetrics | None) -> None:
        options, cluster_id = self.options, self.cluster.view.cluster_id
        self.surroundings: Surroundings = await look_around(self.cluster)
        check_id(self.node_id, self.surroundings.controllers)
        directory = await asyncio.to_thread(
            ReplicaDirectory.open, options.directory, self.config.offsets_topic_segment_bytes
        )
        self.directory = directory
        known = directory.state
        directory_id = uuid.UUID(known.directory_id) if known else uuid.uuid4()
        if known is not None:  # before anybody is told of it
            directory.check(cluster_id, self.node_id)
        self.quorum = Quorum(
            self.cluster.properties, self.surroundings.controllers, cluster_id, self.node_id,
            directory_id,
        )  # fmt: skip
        self.quorum.start()
        try:
            async with asyncio.timeout(_JOIN_SECONDS):
                await self.quorum.caught_up()
        except TimeoutError:
            shown = ", ".join(f"{h}:{p}" for h, p in self.surroundings.controllers.values())
            raise NodeError(
                f"no controller answers ({shown}): the node must reach their listener"
            ) from None
        topic_id, partitions = check_image(self.quorum.image, self.node_id, known)
        directory.begin(cluster_id, self.node_id, topic_id, partitions, str(directory_id))
        await asyncio.to_thread(lambda: [directory.open_log(one) for one in directory.on_disk()])
        self.topic_id, self.partitions = topic_id, partitions
        self._assemble(metrics, directory_id)

    def _assemble(self, metrics: ServerMetrics | None, directory_id: uuid.UUID) -> None:
        image, directory, config = self._image, self.directory, self.config
        config = dataclasses.replace(config, offsets_topic_num_partitions=self.partitions)
        self.log = NodeLog(directory, self.partitions, self._eligible)
        self.catalogue = open_topics(ImageTopics(self.cluster.view.cluster_id, image()))
        self.topics = FollowedTopics(self.catalogue, image(), self._look_at_topic)
        groups = logging.getLogger("pykcoord.groups")
        self.engine = Engine.open(
            self.log, config, self.catalogue, metrics,
            tells_events=groups.isEnabledFor(logging.DEBUG),
            tells_starts=groups.isEnabledFor(logging.INFO),
            keep=lambda: keep_in_files(directory.path, config),
        )  # fmt: skip
        self.connector = Connector(self.cluster.properties)
        self.forwarding = Forwarding(self.connector, self._brokers)
        self.verifying = Verifying(self.connector, image, self._address_of)
        self.engine.runtime.serve_transactions(self.verifying)
        kept = self.engine.event_files
        self._events = EventsTopic(kept) if kept is not None else None
        self.replicas = ReplicaApis(self.log, self.topic_id, image, self._events)
        self.followers = FollowerFetches(self.log, self.topic_id, image)
        self.ends = ClusterEnds(
            self.cluster.properties, self.catalogue, self.engine.runtime.furthest_offsets
        )
        self.following = Following(
            self.connector, directory, self.topic_id, self.node_id, directory_id,
            self._broker_epoch, self._address_of,
        )  # fmt: skip
        self.leadership = Leadership(
            self.engine.runtime, self.log, directory, self.following, self.quorum,
            self.topic_id, self.node_id, self.surroundings.timing,
        )  # fmt: skip
        for number in range(self.partitions):
            self.engine.runtime.leave(number)  # until the metadata log says otherwise
        self.server = Server(
            config, self.engine.runtime, self.catalogue,
            cluster_id=self.cluster.view.cluster_id, listen=self.options.listen,
            advertise=self.options.advertise, metrics=metrics, new_foreign=self._new_apis,
        )  # fmt: skip
        self._directory_id = directory_id

    async def join(self) -> None:
        """Listens, registers, and begins to do what the metadata log says. Returns when the
        controller has taken it. Raises what `Registration.register` raises, AddressError, OSError
        of the directory."""
        with naming_address("--listen", self.options.listen):
            await self.server.start()
        host, port = self.options.advertise or (self.options.listen[0], self.server.address[1])
        state = self.directory.state
        assert state is not None
        identity = Identity(
            self.node_id, self.cluster.view.cluster_id, self._directory_id,
            endpoints_of(self._others(), host, port), self.surroundings.features,
            self.options.rack,
        )  # fmt: skip
        self.registration = Registration(
            self.quorum,
            identity,
            state.kept_epoch,
            self.directory.keep_epoch,
            self.surroundings.timing,
        )
        await self.registration.register()
        self.alterations = Alterations(
            self.quorum, self.registration, self.log, self.topic_id, self._eligible
        )
        for part in (
            self.quorum, self.registration, self.alterations, self.leadership, self.following,
            self.log,
        ):  # fmt: skip
            part.on_failure = self._fail
        self.registration.on_lost = self._lost
        self.registration.is_cordoned = self._cordon.holds
        self.registration.on_heard = lambda: self.leadership.allow(True)
        self.log.on_append = self.followers.appended
        self.log.on_watermark = self._watermarks_moved
        self.log.on_led = self.followers.led_otherwise
        self.log.on_outsider = lambda number: self.alterations.look()
        self.leadership.on_settled = self.followers.image_moved
        epoch = self.registration.broker_epoch
        await self.quorum.reached(lambda: self._image().offset > epoch)
        self.registration.start()
        self.alterations.start()
        self.quorum.on_change.append(self._changed)
        self._changed()
        self.leadership.start()
        if not await self.quorum.reached(self._is_unfenced, _JOIN_SECONDS):
            raise NodeError("the controller does not unfence this node")
        self.ends.start()

    async def leave(self) -> None:
        """A controlled shutdown: leadership goes to brokers, where there are some in sync; then it
        ends."""
        if not await self.registration.shut_down(_SHUTDOWN_SECONDS):
            logger.warning(
                "the controller did not take over what this node leads within %g s",
                _SHUTDOWN_SECONDS, extra={"event": "stop"},
            )  # fmt: skip
        await self.close()

    async def close(self) -> None:
        """Ends at once: the session at the controller ends by itself."""
        await self.server.stop()
        await self._close()

    async def wait_ended(self) -> None:
        """Returns when the server was stopped; raises what ended the node."""
        served = asyncio.ensure_future(self.server.wait_ended())
        try:
            await asyncio.wait((served, self.ended), return_when=asyncio.FIRST_COMPLETED)
            if self.ended.done():
                self.ended.result()
            await served
        finally:
            served.cancel()

    async def _close(self) -> None:
        for name in (
            "ends", "registration", "alterations", "leadership", "following", "verifying", "quorum",
        ):  # fmt: skip
            if (part := getattr(self, name, None)) is not None:
                await part.close()
        if hasattr(self, "topics"):
            self.topics.close()
        if hasattr(self, "forwarding"):
            self.forwarding.close()
        if hasattr(self, "engine"):
            self.engine.runtime.halt()
            self.engine.close()
        if hasattr(self, "directory"):
            self.directory.close()
        await self.cluster.close()

    def _new_apis(
        self,
        reply: Callable[[int, bytes | bytearray], None],
        refuse: Callable[[int, str], None],
    ) -> NodeApis:
        return NodeApis(
            reply, refuse, image=self._image, forwarding=self.forwarding, replicas=self.replicas,
            followers=self.followers, versions=self._versions, features=self.surroundings.features,
            cluster_id=self.cluster.view.cluster_id, node_id=self.node_id,
            ask_controller=self.quorum.exchange, events=self._events,
        )  # fmt: skip

    def _image(self) -> Image:
        return self.quorum.image

    def _others(self) -> Image:
        """The image without this node: its own listeners say nothing of the cluster's."""
        image = self._image()
        brokers = {one: of for one, of in image.brokers.items() if one != self.node_id}
        return dataclasses.replace(image, brokers=brokers)

    def _versions(self) -> Mapping[int, tuple[int, int]]:
        return self.surroundings.versions

    def _broker_epoch(self) -> int:
        return self.registration.broker_epoch

    def _eligible(self, broker: int, epoch: int) -> bool:
        """Whether a broker may be in an ISR: alive, and the one that asks."""
        known = self._image().brokers.get(broker)
        return (
            known is not None
            and not known.is_fenced
            and not known.is_shutting_down
            and epoch in (-1, known.epoch)
        )

    def _is_unfenced(self) -> bool:
        own = self._image().brokers.get(self.node_id)
        return own is not None and own.epoch == self.registration.broker_epoch and not own.is_fenced

    def _brokers(self) -> list[tuple[int, str, int]]:
        """Those to whom requests may be sent on."""
        found = [
            (one.broker_id, one.endpoints[0].host, one.endpoints[0].port, one.rack)
            for one in self._image().brokers.values()
            if one.broker_id != self.node_id and not one.is_fenced and one.endpoints
        ]
        return shuffled(found, self.options.rack)

    def _address_of(self, broker: int) -> tuple[str, int] | None:
        known = self._image().brokers.get(broker)
        if known is None or not known.endpoints:
            return None
        return known.endpoints[0].host, known.endpoints[0].port

    def _changed(self) -> None:
        """The metadata log went on."""
        image = self._image()
        self.topics.follow(image)
        if image.topics_version != self._topics_version:
            self._topics_version = image.topics_version
            self._look_at_cordon()
            if image.topics.get(TOPIC) != self.topic_id:
                self._fail(
                    NodeError(f"{TOPIC} was deleted: start the node again once it is made anew")
                )
            elif len(image.of(TOPIC)) != self.partitions:
                self._fail(
                    NodeError(
                        f"{TOPIC} has {len(image.of(TOPIC))} partitions now, it had "
                        f"{self.partitions}: start the node again"
                    )
                )
        self.leadership.look()
        self.alterations.look()

    def _look_at_topic(self, topic: str) -> None:
        """Replicas of other topics are not served here, whoever assigned them."""
        if topic == TOPIC:
            return
        found = set(self._image().replicas_of(self.node_id, topic))
        for number in sorted(found - self._refused.pop(topic, set())):
            logger.error(
                "%s-%d was assigned to node %d, which holds no records: it is not followed and not "
                "led here; assign it to brokers with kafka-reassign-partitions",
                topic, number, self.node_id,
                extra={"event": "refused_replica", "topic": topic, "partition": number},
            )  # fmt: skip
        if found:
            self._refused[topic] = found

    def _look_at_cordon(self) -> None:
        """Kafka's own setting opens this node for replicas, for a short time."""
        configs = self._image().configs.get((BROKER_KIND, str(self.node_id)), {})
        if self._cordon.told(configs.get(CORDON_SETTING)):
            self.registration.beat_now()
            asyncio.get_running_loop().call_later(OPEN_SECONDS + 0.1, self.registration.beat_now)

    @property
    def is_registered(self) -> bool:
        """Whether a controller heard of this node within its session."""
        return hasattr(self, "registration") and self.registration.is_alive

    @property
    def refused_replicas(self) -> int:
        """Partitions of other topics that are assigned to this node."""
        return sum(map(len, self._refused.values()))

    def _watermarks_moved(self, numbers: list[int]) -> None:
        self.replicas.moved(numbers)
        self.followers.watermarks_moved(numbers)

    def _lost(self, reason: str) -> None:
        logger.warning(
            "%s: nothing is led until the controller is heard again", reason,
            extra={"event": "fenced"},
        )  # fmt: skip
        self.leadership.allow(False)

    def _fail(self, error: Exception) -> None:
        if not self.ended.done():
            self.ended.set_exception(error)
