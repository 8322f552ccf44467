"""Members by the hundred, on one loop, that send what real ones send and read nothing.

`LightZooKeeperMember`: scheme 1, the steps of `ZooKeeperMember` on a socket of its own.
`LightClassicMember` and `LightConsumerMember`: scheme 3 and KIP-848, over TCP.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from pykcoord import _member_requests as requests
from pykcoord.assignors import assign
from pykcoord.cli.lab.beliefs import Beliefs
from pykcoord.consumer_protocol import (
    TopicPartition,
    decode_assignment,
    encode_assignment,
    subscribed_topics,
)
from pykcoord.errors import KafkaError
from pykcoord.protocol import decode_response, encode_request
from pykcoord.zookeeper.connection import Connection
from pykcoord.zookeeper.coordination import Coordination, Outcome
from pykcoord.zookeeper.errors import NoSessionError
from pykcoord.zookeeper.member import Counts
from pykcoord.zookeeper.registration import Registration

_SESSION_MS = 120_000
_ATTEMPTS = 4
_BACKOFF_SECONDS = 2.0
_SESSIONS_MS = range(1, 2**31)
_REBALANCE_IN_PROGRESS, _ILLEGAL_GENERATION, _UNKNOWN_MEMBER_ID = 27, 22, 25
_MEMBER_ID_REQUIRED = 79


class LightZooKeeperMember:
    """A member of scheme 1. `begin` registers it, `settle` does its first rebalance."""

    def __init__(self, name: str, topic: str, beliefs: Beliefs) -> None:
        self.name = name
        self.counts = Counts()
        self._beliefs = beliefs
        self._coordination = Coordination("herd", f"herd_{name}", Registration({topic: 1}), "range")
        self._fired: asyncio.Queue[str] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    async def begin(self, connect: str) -> None:
        """Connect and register."""
        self._connection = await Connection.begin(
            connect, session_timeout_ms=_SESSION_MS, on_watch=self._fired.put_nowait,
            timeout_seconds=60.0,
        )  # fmt: skip
        await self._connection.run(self._coordination.register(self._coordination.registration))

    async def settle(self) -> None:
        """Watch, rebalance, and go on reacting to watches."""
        await self._connection.run(self._coordination.subscribe())
        await self._rebalance()
        self._task = asyncio.create_task(self._react())

    def settled_counts(self) -> Counts:
        """What it has done so far."""
        self.counts.requests = self._connection.requests
        return Counts(**vars(self.counts))

    async def leave(self) -> None:
        """End its session."""
        await self._stop()
        self._beliefs.tell(self.name, ())
        await self._connection.close()

    async def drop(self) -> None:
        """End without a word: the lab is over."""
        await self._stop()
        await self._connection.abandon()

    async def _stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _react(self) -> None:
        with contextlib.suppress(NoSessionError):
            while True:
                fired = {await self._fired.get()}
                while not self._fired.empty():
                    fired.add(self._fired.get_nowait())
                self.counts.notifications += len(fired)
                changes = [
                    await self._connection.run(self._coordination.changed(path)) for path in fired
                ]
                if any(changes):
                    await self._rebalance()

    async def _rebalance(self) -> None:
        self.counts.rebalances += 1
        for _ in range(_ATTEMPTS):
            outcome: Outcome = await self._connection.run(
                self._coordination.attempt(), lambda: self._beliefs.tell(self.name, ())
            )
            self.counts.attempts += 1
            self.counts.conflicts += outcome.conflicts
            if outcome.failure is None:
                self._beliefs.tell(self.name, self._coordination.owned)
                return
            self.counts.failed_attempts += 1
            await asyncio.sleep(_BACKOFF_SECONDS)


class KafkaConnection:
    """One connection to a coordinator, one request at a time."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._number = 0
        self.sent: dict[str, int] = {}
        """API to how many requests of it were sent."""

    async def connect(self) -> None:
        """Connect. Raises OSError."""
        host, _, port = self._address.rpartition(":")
        self._reader, self._writer = await asyncio.open_connection(host, int(port))

    async def ask(self, request: object) -> Any:
        """The response. Raises OSError and asyncio.IncompleteReadError."""
        name = type(request).__name__.removesuffix("Request")
        self.sent[name] = self.sent.get(name, 0) + 1
        self._number += 1
        frame = encode_request(request, self._number, "lab")
        self._writer.write(struct.pack(">i", len(frame)) + frame)
        (size,) = struct.unpack(">i", await self._reader.readexactly(4))
        return decode_response(request, await self._reader.readexactly(size))

    def close(self) -> None:
        """Close the connection."""
        if hasattr(self, "_writer"):
            self._writer.close()


class _KafkaMember(ABC):
    """What members of both protocols have in common: a connection, and a task that beats."""

    def __init__(
        self, name: str, topic: str, address: str, beliefs: Beliefs, heartbeat_seconds: float
    ) -> None:
        self.name = name
        self.topic = topic
        self.rebalances = 0
        self.notifications = 0
        self.connection = KafkaConnection(address)
        self._beliefs = beliefs
        self._heartbeat_seconds = heartbeat_seconds
        self._task: asyncio.Task[None] | None = None
        self._joined = asyncio.Event()

    async def begin(self) -> None:
        """Connect and join, in the background."""
        await self.connection.connect()
        self._task = asyncio.create_task(self._run())

    @property
    def is_lost(self) -> bool:
        """Whether it has ended although nobody asked it to."""
        return self._task is not None and self._task.done()

    async def stop(self) -> None:
        """End the task that beats."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def drop(self) -> None:
        """End without a word."""
        await self.stop()
        self.connection.close()

    @abstractmethod
    async def _run(self) -> None:
        """Join, and beat until the task is ended."""


class LightClassicMember(_KafkaMember):
    """A member of a classic group; assigns by `range` if it is the leader."""

    def __init__(
        self, name: str, topic: str, address: str, beliefs: Beliefs, heartbeat_seconds: float,
        topics: Mapping[str, int], session_ms: int = 60_000,
    ) -> None:  # fmt: skip
        super().__init__(name, topic, address, beliefs, heartbeat_seconds)
        self.member_id, self.generation = "", -1
        self._topics = dict(topics)
        self._identity = requests.Identity.checked(
            "herd", [topic], session_ms, 60_000, None, _SESSIONS_MS
        )

    async def leave(self) -> None:
        """Leave the group."""
        await self.stop()
        self._beliefs.tell(self.name, ())
        await self.connection.ask(requests.leave(self._identity, self.member_id))
        self.connection.close()

    async def commit(self, offsets: Mapping[tuple[str, int], int]) -> int:
        """The error code of a commit of its membership."""
        response = await self.connection.ask(
            requests.commit(self._identity, self.member_id, self.generation, offsets)
        )
        return int(response.topics[0].partitions[0].error_code.value)

    async def _run(self) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await self._join()
            while True:
                await asyncio.sleep(self._heartbeat_seconds)
                request = requests.heartbeat(self._identity, self.member_id, self.generation)
                code = int((await self.connection.ask(request)).error_code.value)
                if code:
                    self.notifications += 1
                    await self._again(code)

    async def _again(self, code: int) -> None:
        if code == _UNKNOWN_MEMBER_ID:
            self.member_id = ""
        self._beliefs.tell(self.name, ())  # eager: all is given up before the join
        await self._join()

    async def _join(self) -> None:
        while True:
            joined = await self.connection.ask(requests.join(self._identity, self.member_id))
            code = int(joined.error_code.value)
            if code in (_MEMBER_ID_REQUIRED, _UNKNOWN_MEMBER_ID):
                self.member_id = joined.member_id if code == _MEMBER_ID_REQUIRED else ""
                continue
            if code:
                raise KafkaError(code, "join")
            self.member_id, self.generation = joined.member_id, joined.generation_id
            request = requests.sync(self._identity, joined, self._decide(joined))
            synced = await self.connection.ask(request)
            code = int(synced.error_code.value)
            if code in (_REBALANCE_IN_PROGRESS, _ILLEGAL_GENERATION):
                continue
            if code:
                raise KafkaError(code, "sync")
            self.rebalances += 1
            self._beliefs.tell(self.name, decode_assignment(synced.assignment))
            return

    def _decide(self, joined: Any) -> dict[str, bytes]:
        if joined.leader != joined.member_id or joined.skip_assignment:
            return {}
        members = {one.member_id: list(subscribed_topics(one.metadata)) for one in joined.members}
        decided = assign("range", self._topics, members)
        return {member: encode_assignment(owned) for member, owned in decided.items()}


class LightConsumerMember(_KafkaMember):
    """A member of a consumer group (KIP-848): told what changes, and nothing else."""

    async def leave(self) -> None:
        """Leave the group."""
        await self.stop()
        self._beliefs.tell(self.name, ())
        await self.connection.ask(
            requests.consumer_heartbeat("herd", self._member_id, -1, None, None)
        )
        self.connection.close()

    async def _run(self) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            response = await self._beat("", 0, [self.topic], {})
            while True:
                if response.assignment is not None:
                    response = await self._take(response)
                    continue
                await asyncio.sleep(self._heartbeat_seconds)
                response = await self._beat(self._member_id, self._epoch, None, None)

    async def _beat(self, member_id: str, epoch: int, topics: Any, owned: Any) -> Any:
        request = requests.consumer_heartbeat("herd", member_id, epoch, topics, owned)
        response = await self.connection.ask(request)
        if (code := int(response.error_code.value)) != 0:
            raise KafkaError(code, "heartbeat")
        self._member_id, self._epoch = response.member_id or member_id, response.member_epoch
        return response

    async def _take(self, response: Any) -> Any:
        """Own what is assigned now, and say so at once, as Kafka's clients do."""
        owned = {one.topic_id: list(one.partitions) for one in response.assignment.topic_partitions}
        self.notifications += 1
        self.rebalances += 1
        partitions = [TopicPartition(self.topic, n) for of in owned.values() for n in of]
        self._beliefs.tell(self.name, partitions)
        return await self._beat(self._member_id, self._epoch, None, owned)
