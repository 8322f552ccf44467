"""Herd effect: N members, half on topic A, half on B; one of B leaves. What does it cost whom?

The same story for each scheme, told by the same beliefs, so that the rows can be compared.
"""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from pykcoord.cli.demo.processes import Process
from pykcoord.cli.lab.beliefs import Beliefs
from pykcoord.cli.lab.jars import LabError
from pykcoord.cli.lab.light import (
    LightClassicMember,
    LightConsumerMember,
    LightZooKeeperMember,
)
from pykcoord.cli.lab.servers import ZooKeeper, running
from pykcoord.clock import monotonic_seconds
from pykcoord.consumer_protocol import TopicPartition
from pykcoord.zookeeper.connection import Connection
from pykcoord.zookeeper.member import ZooKeeperMember
from pykcoord.zookeeper.operations import Create, NodeExistsError

HEARTBEAT_SECONDS = 3.0
MAX_REAL_MEMBERS = 50
# How long nobody must have told anything: what heartbeats tell comes late, watches fire at once.
_QUIET_SECONDS = HEARTBEAT_SECONDS + 1.5
_WATCHES_QUIET_SECONDS = 2.0
_LONGEST_SECONDS = 600.0
_READY_SECONDS = 30.0

ZOOKEEPER = "scheme 1: ZooKeeper"
ZOOKEEPER_LIGHT = "scheme 1: ZooKeeper, light members"
CLASSIC = "scheme 3: classic, a client assigns"
COORDINATOR_ASSIGNED = "classic, the coordinator assigns"
CONSUMER = "consumer group (KIP-848)"
SCHEMES = (ZOOKEEPER, ZOOKEEPER_LIGHT, CLASSIC, COORDINATOR_ASSIGNED, CONSUMER)

Progress = Callable[[str], None]


@dataclass
class Row:
    """What one leave cost. `needless`: members that rebalanced though their topic was not
    concerned. `unowned_partition_s`: partition-seconds that nobody owned."""

    scheme: str
    members: int
    notifications: int
    rebalanced: int
    needless: int
    requests: int
    settled_s: float
    unowned_partition_s: float
    unowned_partitions: int
    conflicts: int = 0
    requests_by_kind: dict[str, int] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """As JSON has it."""
        return asdict(self)


class Group(Protocol):
    """The members of one scheme."""

    async def start(self, names: Mapping[str, str]) -> None: ...
    async def leave(self, name: str) -> None: ...
    def counts(self) -> dict[str, dict[str, int]]: ...
    async def close(self) -> None: ...


def names_of(count: int) -> dict[str, str]:
    """Member to topic: half on A, half on B."""
    half = count // 2
    return {
        **{f"a{number:03}": "A" for number in range(half)},
        **{f"b{number:03}": "B" for number in range(count - half)},
    }


class RealZooKeeperGroup:
    """`ZooKeeperMember`s, each with a session and threads of its own."""

    def __init__(self, connect: str, beliefs: Beliefs) -> None:
        self._connect = connect
        self._beliefs = beliefs
        self._members: dict[str, ZooKeeperMember] = {}

    async def start(self, names: Mapping[str, str]) -> None:
        for name, topic in names.items():
            self._members[name] = self._member(name, topic)

    def _member(self, name: str, topic: str) -> ZooKeeperMember:
        return ZooKeeperMember(
            self._connect, "herd", [topic], consumer_id=name, session_timeout_ms=60_000,
            on_assigned=lambda owned: self._beliefs.tell(name, owned),
            on_revoked=lambda _: self._beliefs.tell(name, ()),
        )  # fmt: skip

    async def leave(self, name: str) -> None:
        await self._members.pop(name).close_async()

    def counts(self) -> dict[str, dict[str, int]]:
        return {name: vars(member.counts) for name, member in self._members.items()}

    async def close(self) -> None:
        members = self._members.values()
        await asyncio.gather(*(one.close_async() for one in members), return_exceptions=True)


class LightZooKeeperGroup:
    """The same requests on one loop."""

    def __init__(self, connect: str, beliefs: Beliefs) -> None:
        self._connect = connect
        self._beliefs = beliefs
        self._members: dict[str, LightZooKeeperMember] = {}

    async def start(self, names: Mapping[str, str]) -> None:
        for name, topic in names.items():
            self._members[name] = LightZooKeeperMember(name, topic, self._beliefs)
            await self._members[name].begin(self._connect)
        # All are registered before any rebalances: else each join would be a herd of its own.
        await asyncio.gather(*(one.settle() for one in self._members.values()))

    async def leave(self, name: str) -> None:
        await self._members.pop(name).leave()

    def counts(self) -> dict[str, dict[str, int]]:
        return {name: vars(one.settled_counts()) for name, one in self._members.items()}

    async def close(self) -> None:
        await asyncio.gather(*(one.drop() for one in self._members.values()))


class KafkaGroup:
    """Members of a classic group or a consumer group at the address of a coordinator."""

    def __init__(self, make: Callable[[str, str], Any]) -> None:
        self._make = make
        self._members: dict[str, Any] = {}
        self._left: list[Any] = []

    async def start(self, names: Mapping[str, str]) -> None:
        for name, topic in names.items():
            self._members[name] = self._make(name, topic)
        await asyncio.gather(*(one.begin() for one in self._members.values()))

    async def leave(self, name: str) -> None:
        member = self._members.pop(name)
        self._left.append(member)
        await member.leave()

    def counts(self) -> dict[str, dict[str, int]]:
        lost = [name for name, one in self._members.items() if one.is_lost]
        if lost:
            raise LabError(f"member {lost[0]} has lost its coordinator")
        return {
            name: {
                "notifications": one.notifications,
                "rebalances": one.rebalances,
                "requests": sum(one.connection.sent.values()),
                "conflicts": 0,
                **{f"sent:{kind}": count for kind, count in one.connection.sent.items()},
            }
            for name, one in self._members.items()
        }

    async def close(self) -> None:
        await asyncio.gather(*(one.drop() for one in self._members.values()))


async def measure(scheme: str, count: int, group: Group, beliefs: Beliefs) -> Row:
    """Start the group, have one of B leave, and count. Raises LabError if it never settles."""
    names = names_of(count)
    wanted = partitions_of(count)
    leaver = f"b{(count - count // 2) // 2:03}"
    try:
        await group.start(names)
        await _settled(scheme, beliefs, wanted, set(names), group)
        before = group.counts()
        began = monotonic_seconds()
        await group.leave(leaver)
        await _settled(scheme, beliefs, wanted, set(names) - {leaver}, group)
        ended = beliefs.last_at()
        after = group.counts()
    finally:
        await group.close()
    gained = {
        name: {key: value - before[name].get(key, 0) for key, value in counts.items()}
        for name, counts in after.items()
    }
    lost_s, touched, _ = beliefs.unowned(wanted, began, ended)
    kinds: dict[str, int] = {}
    for counts in gained.values():
        for key, value in counts.items():
            if key.startswith("sent:"):
                kinds[key[5:]] = kinds.get(key[5:], 0) + value
    requests = sum(one["requests"] for one in gained.values())
    # Heartbeats that found nothing new would have been sent anyway. In a consumer group a member
    # answers a new assignment with one more.
    told = sum(one["notifications"] for one in gained.values())
    for kind, counted in (("Heartbeat", told), ("ConsumerGroupHeartbeat", 2 * told)):
        if kind in kinds:
            requests += counted - kinds[kind]
            kinds[kind] = counted
    return Row(
        scheme=scheme,
        members=count,
        notifications=sum(one["notifications"] for one in gained.values()),
        rebalanced=sum(one["rebalances"] > 0 for one in gained.values()),
        needless=sum(one["rebalances"] > 0 for n, one in gained.items() if names[n] == "A"),
        requests=requests,
        settled_s=round(max(0.0, ended - began), 3),
        unowned_partition_s=round(lost_s, 3),
        unowned_partitions=touched,
        conflicts=sum(one["conflicts"] for one in gained.values()),
        requests_by_kind=kinds,
    )


def partitions_of(count: int) -> list[TopicPartition]:
    """As many of each topic as it has members."""
    half = count // 2
    sizes = {"A": half, "B": count - half}
    return [TopicPartition(topic, n) for topic, size in sizes.items() for n in range(size)]


async def _settled(
    scheme: str, beliefs: Beliefs, wanted: Sequence[TopicPartition], members: set[str], group: Group
) -> None:
    """Until all partitions are owned, each once, and nobody has told anything for a while."""
    deadline = monotonic_seconds() + _LONGEST_SECONDS
    while monotonic_seconds() < deadline:
        await asyncio.sleep(0.1)
        group.counts()  # which raises if a member is lost
        now = beliefs.now()
        owned = [one for name in members for one in now.get(name, ())]
        wait_seconds = _QUIET_SECONDS
        if scheme in (ZOOKEEPER, ZOOKEEPER_LIGHT):
            wait_seconds = min(wait_seconds, _WATCHES_QUIET_SECONDS)
        quiet = bool(now) and monotonic_seconds() - beliefs.last_at() > wait_seconds
        if quiet and members <= now.keys() and sorted(owned) == sorted(wanted):
            return
    raise LabError(f"{scheme}, {len(members)} members: not settled after {_LONGEST_SECONDS:g} s")


async def make_world(connect: str, topics: Mapping[str, int]) -> None:
    """Znodes of a broker and of topics, under the chroot of `connect`."""
    plain, _, chroot = connect.partition("/")
    paths: list[tuple[str, bytes | None]] = [(f"/{chroot}", None)] if chroot else []
    root = f"/{chroot}" if chroot else ""
    paths += [(f"{root}/brokers", None), (f"{root}/brokers/ids", None)]
    paths += [(f"{root}/brokers/topics", None)]
    paths += [(f"{root}/brokers/ids/1", b'{"host":"127.0.0.1","port":9092,"version":1}')]
    for topic, size in topics.items():
        numbers = {str(number): [1] for number in range(size)}
        data = json.dumps({"version": 1, "partitions": numbers}).encode()
        paths.append((f"{root}/brokers/topics/{topic}", data))
    async with await Connection.begin(plain) as connection:
        for path, text in paths:
            try:
                await connection.ask(Create(path, text, False))
            except NodeExistsError:
                continue


class Serve(Process):
    """`pykcoord serve` on a free port."""

    def __init__(self, directory: Path, topics: Mapping[str, int], **settings: object) -> None:
        self._ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._loop = asyncio.get_running_loop()
        arguments = ["pykcoord", "serve", str(directory), "--listen", "127.0.0.1:0"]
        for topic, size in topics.items():
            arguments += ["--topic", f"{topic}:{size}"]
        for key, value in settings.items():
            arguments += ["--set", f"{key.replace('_', '.')}={value}"]
        super().__init__("pykcoord serve", arguments)

    def heard(self, line: str) -> None:
        self._loop.call_soon_threadsafe(self._hear, line)

    def _hear(self, line: str) -> None:
        if not self._ready.done():
            self._ready.set_result(line)

    def ask_to_end(self) -> None:
        """SIGTERM."""
        self.signal(signal.SIGTERM)

    async def address(self) -> str:
        """Where it listens, once it is ready. Raises DemoError."""
        try:
            line = await asyncio.wait_for(self._ready, _READY_SECONDS)
        except TimeoutError:
            raise self.failure(f"is not ready after {_READY_SECONDS:g} s") from None
        if not line.startswith("pykcoord ready "):
            raise self.failure("ended before it was ready")
        return dict(field.split("=", 1) for field in line.split()[2:])["listen"]


async def run_herd(directory: Path, sizes: Sequence[int], progress: Progress) -> list[Row]:
    """All schemes at each size; real members of scheme 1 up to 50."""
    async with running(ZooKeeper(directory / "zookeeper")) as zookeeper:
        return await _run_herd(zookeeper, directory, sizes, progress)


async def _run_herd(
    zookeeper: ZooKeeper, directory: Path, sizes: Sequence[int], progress: Progress
) -> list[Row]:
    rows = []
    for count in sizes:
        topics = {"A": count // 2, "B": count - count // 2}
        for scheme in SCHEMES:
            if scheme == ZOOKEEPER and count > MAX_REAL_MEMBERS:
                continue
            progress(f"herd: {count} members, {scheme}")
            beliefs = Beliefs()
            if scheme in (ZOOKEEPER, ZOOKEEPER_LIGHT):
                connect = f"{zookeeper.connect}/herd-{count}-{SCHEMES.index(scheme)}"
                await make_world(connect, topics)
                kind = RealZooKeeperGroup if scheme == ZOOKEEPER else LightZooKeeperGroup
                rows.append(await measure(scheme, count, kind(connect, beliefs), beliefs))
            else:
                data = directory / f"herd-{count}-{SCHEMES.index(scheme)}"
                rows.append(await _measure_kafka(scheme, count, data, topics, beliefs))
    return rows


async def _measure_kafka(
    scheme: str, count: int, data: Path, topics: Mapping[str, int], beliefs: Beliefs
) -> Row:
    settings: dict[str, object] = {
        "offsets_topic_num_partitions": 1,
        "group_initial_rebalance_delay_ms": 1_000,
        "group_max_session_timeout_ms": 120_000,
    }
    if scheme == COORDINATOR_ASSIGNED:
        settings["group_assignment"] = "coordinator"
    server = Serve(data, topics, **settings)
    try:
        address = await server.address()

        def make(name: str, topic: str) -> Any:
            if scheme == CONSUMER:
                return LightConsumerMember(name, topic, address, beliefs, HEARTBEAT_SECONDS)
            return LightClassicMember(name, topic, address, beliefs, HEARTBEAT_SECONDS, topics)

        return await measure(scheme, count, KafkaGroup(make), beliefs)
    finally:
        await asyncio.to_thread(server.end)
