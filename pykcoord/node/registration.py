"""Registration with the controllers, and the heartbeats that keep it (KIP-631).

The broker epoch is kept on disk: everything that was acknowledged is synced before it is told to
anybody, so this node may say, after any end, that it lost nothing (KIP-966), unless a replica was
found damaged.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kio.schema.broker_heartbeat.v2.request import BrokerHeartbeatRequest
from kio.schema.broker_registration.v4.request import (
    BrokerRegistrationRequest,
    Feature,
    Listener,
)
from kio.schema.types import BrokerId
from kio.static.primitive import i16, i64, u16

from pykcoord.clock import monotonic_seconds
from pykcoord.kafka import ClusterError
from pykcoord.node.errors import NodeError
from pykcoord.node.joining import Timing
from pykcoord.node.metadata_records import Endpoint
from pykcoord.node.quorum import Quorum

__all__ = ["Identity", "Registration"]

logger = logging.getLogger("pykcoord.node")

# An earlier incarnation may have its session still, and a controller may be slow to end it.
_DUPLICATE_SECONDS = 30.0
_RETRY_SECONDS = 0.5
_DUPLICATE, _STALE_EPOCH, _NOT_REGISTERED, _FEATURES = 101, 77, 102, 35
_OTHER_CLUSTER = 104


class Identity(NamedTuple):
    """Who registers. `features` are (name, least, most) that this node can live with."""

    node_id: int
    cluster_id: str
    directory_id: uuid.UUID
    endpoints: Sequence[Endpoint]
    features: Sequence[tuple[str, int, int]]
    rack: str | None


class Registration:
    """`broker_epoch` is that of the running registration; -1 before. `keep(epoch)` writes it
    down before it counts. `on_lost` is called when this node cannot know any more that it is
    registered: what it leads, another may lead. `on_heard` is called when it is again, and all is
    read that the controllers did meanwhile. `is_cordoned` says whether the controller may give it
    replicas (KIP-1066)."""

    def __init__(
        self,
        quorum: Quorum,
        identity: Identity,
        previous_epoch: int,
        keep: Callable[[int], None],
        timing: Timing,
    ) -> None:
        self.broker_epoch = -1
        self.on_lost: Callable[[str], None] = lambda reason: None
        self.on_heard: Callable[[], None] = lambda: None
        self.on_failure: Callable[[Exception], None] = lambda error: None
        self.is_cordoned: Callable[[], bool] = lambda: True
        self.heard_at = monotonic_seconds()
        self._quorum = quorum
        self._identity = identity
        self._previous = previous_epoch
        self._keep = keep
        self._timing = timing
        self._incarnation = uuid.uuid4()
        self._wants_shutdown = False
        self._may_end = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._now = asyncio.Event()
        self._is_lost = False

    @property
    def node_id(self) -> int:
        """Of this node."""
        return self._identity.node_id

    @property
    def is_alive(self) -> bool:
        """Whether the controller heard of this node within its session."""
        return (
            self.broker_epoch >= 0
            and monotonic_seconds() - self.heard_at < self._timing.session_seconds
        )

    async def register(self) -> None:
        """Registers. Raises NodeError where the controllers refuse, ClusterError where none
        answers."""
        started, told = monotonic_seconds(), False
        while True:
            sent = monotonic_seconds()
            answer = await self._quorum.ask(self._request())
            code = answer.error_code.value
            if not code:
                break
            waited = monotonic_seconds() - started
            if code == _DUPLICATE and waited < _DUPLICATE_SECONDS:
                if not told:
                    logger.info(
                        "node %d is registered: waiting until its session is over",
                        self._identity.node_id, extra={"event": "duplicate"},
                    )  # fmt: skip
                    told = True
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            raise NodeError(self._refusal(code, answer.error_code.name))
        self._keep(int(answer.broker_epoch))
        self.broker_epoch = self._previous = int(answer.broker_epoch)
        self.heard_at = sent
        logger.info(
            "registered as broker %d, epoch %d", self._identity.node_id, self.broker_epoch,
            extra={"event": "registered", "epoch": self.broker_epoch},
        )  # fmt: skip

    def start(self) -> None:
        """Begins to send heartbeats."""
        self._task = asyncio.create_task(self._beat())

    def beat_now(self) -> None:
        """There is something to tell."""
        self._now.set()

    async def shut_down(self, seconds: float) -> bool:
        """A controlled shutdown: waits until what this node leads is led by others; says whether
        that was done in time."""
        self._wants_shutdown = True
        self._now.set()
        try:
            async with asyncio.timeout(seconds):
                await self._may_end.wait()
        except TimeoutError:
            return False
        return True

    async def close(self) -> None:
        """Sends no heartbeat any more: the session ends by itself."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _beat(self) -> None:
        try:
            while True:
                self._look()  # first, since this process may have stood still
                await self._heartbeat()
                self._look()
                is_settled = not self._wants_shutdown and self._quorum.image.offset > 0
                pause = (
                    self._timing.heartbeat_seconds if is_settled and self._is_unfenced() else 0.2
                )
                if not self._is_lost:
                    pause = min(pause, max(self._left(), 0.01))
                try:
                    async with asyncio.timeout(pause):
                        await self._now.wait()
                    self._now.clear()
                except TimeoutError:
                    pass
        except asyncio.CancelledError:
            raise
        except Exception as error:
            self.on_lost(str(error))
            self.on_failure(error)

    def _look(self) -> None:
        if not self.is_alive and not self._is_lost:
            self._is_lost = True
            self.on_lost(f"no controller heard of it for {self._timing.session_seconds:g} s")

    async def _is_current(self) -> bool:
        """Whether the image says what came of what this node led while nobody heard of it."""
        return await self._quorum.current(self._timing.heartbeat_seconds)

    def _left(self) -> float:
        """Seconds of the session, if nobody hears of this node any more."""
        return self.heard_at + self._timing.session_seconds - monotonic_seconds()

    def _is_unfenced(self) -> bool:
        own = self._quorum.image.brokers.get(self._identity.node_id)
        return own is not None and own.epoch == self.broker_epoch and not own.is_fenced

    async def _heartbeat(self) -> None:
        sent = monotonic_seconds()
        try:
            left = self._timing.heartbeat_seconds if self._is_lost else max(self._left(), 0.01)
            answer = await self._quorum.ask(
                self._beat_request(), min(self._timing.heartbeat_seconds, left)
            )
        except ClusterError as error:
            logger.warning("heartbeat: %s", error, extra={"event": "heartbeat"})
            return
        code = answer.error_code.value
        if code in (_STALE_EPOCH, _NOT_REGISTERED):
            self._is_lost = True
            self.on_lost(f"the controller says {answer.error_code.name}")
            await self.register()
            return
        if code:
            logger.warning("heartbeat: %s", answer.error_code.name, extra={"event": "heartbeat"})
            return
        self.heard_at = sent
        if self._is_lost and self.is_alive and await self._is_current():
            self._is_lost = False
            self.on_heard()
        if self._wants_shutdown and answer.should_shut_down:
            self._may_end.set()

    def _request(self) -> Any:
        who = self._identity
        return BrokerRegistrationRequest(
            broker_id=BrokerId(who.node_id),
            cluster_id=who.cluster_id,
            incarnation_id=self._incarnation,
            listeners=tuple(
                Listener(
                    name=one.name, host=one.host, port=u16(one.port),
                    security_protocol=i16(one.protocol),
                )
                for one in who.endpoints
            ),
            features=tuple(
                Feature(
                    name=name, min_supported_version=i16(least), max_supported_version=i16(most)
                )
                for name, least, most in who.features
            ),
            rack=who.rack,
            log_dirs=(who.directory_id,),
            previous_broker_epoch=i64(self._previous),
        )  # fmt: skip

    def _beat_request(self) -> Any:
        # A controller lets a node lead once it has read of its own registration.
        return BrokerHeartbeatRequest(
            broker_id=BrokerId(self._identity.node_id),
            broker_epoch=i64(self.broker_epoch),
            current_metadata_offset=i64(self._quorum.image.offset - 1),
            want_fence=False,
            want_shut_down=self._wants_shutdown,
            cordoned_log_dirs=(self._identity.directory_id,) if self.is_cordoned() else (),
        )

    def _refusal(self, code: int, name: str) -> str:
        who = self._identity
        if code == _DUPLICATE:
            return (
                f"node.id {who.node_id} is in use: another broker is registered with it, and "
                "alive; take a free one (--set node.id=N)"
            )
        if code == _FEATURES:
            return (
                "the controllers refuse the features of this node: the cluster's are newer than "
                "this version of pykcoord knows; take a newer one, or watch it with "
                "`pykcoord watch`"
            )
        if code == 31:
            return (
                "the controllers refuse the registration: the principal lacks CLUSTER_ACTION on "
                "the cluster"
            )
        if code == _OTHER_CLUSTER:
            return (
                f"the controllers are not of cluster {who.cluster_id}: name a broker of their "
                "cluster (--kafka), or another directory"
            )
        return (
            f"the controllers refuse the registration of node {who.node_id}: {name}; their own log "
            "says why"
        )
