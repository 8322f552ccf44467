"""Split brain of scheme 1, in its two forms, and what scheme 3 does in the same cut.

*Owned by nobody*: a follower of the ensemble lives in the past, and a member behind it learns too
late that a third has come. *Read by two*: a member is cut off from its coordinator only.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from pykcoord.cli.lab.beliefs import Beliefs
from pykcoord.cli.lab.herd import Progress, Serve, make_world
from pykcoord.cli.lab.jars import LabError
from pykcoord.cli.lab.light import LightClassicMember
from pykcoord.cli.lab.messages import Broker
from pykcoord.cli.lab.proxies import Proxies
from pykcoord.cli.lab.servers import Broker082, ZooKeeper, running
from pykcoord.clock import monotonic_seconds
from pykcoord.consumer_protocol import TopicPartition
from pykcoord.zookeeper.connection import Connection
from pykcoord.zookeeper.errors import ZooKeeperError
from pykcoord.zookeeper.member import ZooKeeperMember
from pykcoord.zookeeper.operations import Create

_PARTITIONS = 12
_SESSION_MS = 4_000
_CUT_SECONDS = 12.0
_TAIL_SECONDS = 4.0
_RATE_SECONDS = 0.05
_TOPIC, _READ_PARTITIONS = "R", 4
_LAGGING = 0


def _member(connect: str, name: str, beliefs: Beliefs, session_ms: int) -> ZooKeeperMember:
    return ZooKeeperMember(
        connect, "split", [_TOPIC], consumer_id=name, session_timeout_ms=session_ms,
        on_assigned=lambda owned: beliefs.tell(name, owned),
        on_revoked=lambda _: beliefs.tell(name, ()),
    )  # fmt: skip


async def orphans(
    directory: Path, lag_seconds: float, stop_seconds: float, watch_seconds: float
) -> dict[str, Any]:
    """x on a follower that lags or is stopped, y and z on a current one; z joins. All settings are
    0.8.2.2's defaults. What happened in the `watch_seconds` after that."""
    beliefs = Beliefs()
    with Proxies() as proxies:
        ensemble = ZooKeeper(
            directory, count=3, behind=_LAGGING, quorum_proxies=proxies.before,
            settings={"syncLimit": "80"},
        )  # fmt: skip
        async with running(ensemble):
            return await _orphans(
                ensemble, proxies, beliefs, lag_seconds, stop_seconds, watch_seconds
            )


async def _orphans(
    ensemble: ZooKeeper, proxies: Proxies, beliefs: Beliefs,
    lag_seconds: float, stop_seconds: float, watch_seconds: float,
) -> dict[str, Any]:  # fmt: skip
    modes = await asyncio.to_thread(ensemble.modes)
    if modes[_LAGGING] != "follower":
        raise LabError("the server that is to lag was elected leader; try again")
    behind, current = (f"127.0.0.1:{ensemble.ports[n]}" for n in (_LAGGING, 1))
    await make_world(current, {_TOPIC: _PARTITIONS})
    members = {"x": _member(behind, "x", beliefs, 60_000)}
    try:
        await members["x"].wait_async()
        members["y"] = _member(current, "y", beliefs, 60_000)
        await members["y"].wait_async()
        await _until(lambda: len(beliefs.now().get("x", ())) == _PARTITIONS // 2)
        proxies.delay(lag_seconds)
        if stop_seconds:
            ensemble.pause(_LAGGING)
        since = monotonic_seconds()
        members["z"] = _member(current, "z", beliefs, 60_000)
        if stop_seconds:
            await asyncio.sleep(stop_seconds)
            ensemble.resume(_LAGGING)
        await asyncio.sleep(max(0.0, since + watch_seconds - monotonic_seconds()))
        until = monotonic_seconds()
        counts = {name: vars(member.counts) for name, member in members.items()}
        proxies.delay(0.0)
    finally:
        closing = (member.close_async() for member in members.values())
        await asyncio.gather(*closing, return_exceptions=True)
    wanted = [TopicPartition(_TOPIC, number) for number in range(_PARTITIONS)]
    lost_s, _, left = beliefs.unowned(wanted, since, until)
    return {
        "lag_s": lag_seconds,
        "stop_s": stop_seconds,
        "seconds": watch_seconds,
        "conflicts": sum(one["conflicts"] for one in counts.values()),
        "failed_attempts": sum(one["failed_attempts"] for one in counts.values()),
        "unowned_partition_s": round(lost_s, 2),
        "orphaned_at_end": left,
        "spans": _spans(beliefs, since, until),
    }


def _spans(beliefs: Beliefs, since: float, until: float) -> dict[str, list[list[Any]]]:
    return {
        f"{one.topic}-{one.partition}": [[round(a, 2), round(b, 2), who] for a, b, who in spans]
        for one, spans in beliefs.spans(since, until).items()
    }


class _Reading:
    """Members that read from the real broker what they believe to own, and commit each second."""

    def __init__(self, port: int, beliefs: Beliefs) -> None:
        self.read: dict[str, dict[tuple[int, int], float]] = {}
        self._port = port
        self._beliefs = beliefs
        self._tasks: list[asyncio.Task[None]] = []

    async def prepare(self, connect: str) -> None:
        """Make the topic, and wait until its partitions have a leader."""
        numbers = {str(number): [1] for number in range(_READ_PARTITIONS)}
        data = json.dumps({"version": 1, "partitions": numbers}).encode()
        async with await Connection.begin(connect) as connection:
            await connection.ask(Create(f"/brokers/topics/{_TOPIC}", data, False))
        self._producer = Broker(self._port)
        await self._producer.connect()
        probe = Broker(self._port)
        await probe.connect()
        everything = dict.fromkeys(range(_READ_PARTITIONS), 0)

        async def has_leaders() -> bool:
            await self._producer.produce(_TOPIC, _READ_PARTITIONS, b"first")
            return all((await probe.fetch(_TOPIC, everything)).values())

        await _until_async(has_leaders)
        probe.close()
        self._tasks.append(asyncio.create_task(self._produce()))

    def follow(
        self,
        name: str,
        start: Callable[[TopicPartition], Awaitable[int]],
        commit: Callable[[dict[tuple[str, int], int]], Awaitable[None]],
    ) -> None:
        """Have `name` read. `start` says where in a partition, `commit` writes how far it is."""
        self.read[name] = {}
        self._tasks.append(asyncio.create_task(self._read(name, start, commit)))

    async def close(self) -> None:
        """Stop all."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._producer.close()

    async def _produce(self) -> None:
        while True:
            await self._producer.produce(_TOPIC, _READ_PARTITIONS, b"message")
            await asyncio.sleep(_RATE_SECONDS)

    async def _read(
        self,
        name: str,
        start: Callable[[TopicPartition], Awaitable[int]],
        commit: Callable[[dict[tuple[str, int], int]], Awaitable[None]],
    ) -> None:
        broker = Broker(self._port)
        await broker.connect()
        positions: dict[int, int] = {}
        committing: asyncio.Task[None] | None = None
        committed_at = 0.0
        while True:
            owned = {one.partition for one in self._beliefs.now().get(name, ())}
            positions = {n: at for n, at in positions.items() if n in owned}
            for number in owned - positions.keys():
                positions[number] = await start(TopicPartition(_TOPIC, number))
            if not positions:
                await asyncio.sleep(0.05)
                continue
            for number, offsets in (await broker.fetch(_TOPIC, positions)).items():
                for offset in offsets:
                    self.read[name].setdefault((number, offset), monotonic_seconds())
                    positions[number] = offset + 1
            if monotonic_seconds() > committed_at + 1 and (committing is None or committing.done()):
                committed_at = monotonic_seconds()
                wanted = {(_TOPIC, n): at for n, at in positions.items()}
                committing = asyncio.create_task(_quietly(commit(wanted)))


async def _quietly(what: Awaitable[None]) -> None:
    with contextlib.suppress(ZooKeeperError, OSError, asyncio.IncompleteReadError, TimeoutError):
        await what


def _reading_result(
    reading: _Reading, beliefs: Beliefs, since: float, healed: float, until: float
) -> dict[str, Any]:
    first, second = reading.read["a"], reading.read["b"]
    twice = [max(first[one], second[one]) for one in first.keys() & second.keys()]
    taken = [told.at for told in beliefs.told() if told.member == "b" and told.at > since
             and len(told.partitions) == _READ_PARTITIONS]  # fmt: skip
    return {
        "session_s": _SESSION_MS / 1000,
        "cut_s": round(healed - since, 2),
        "taken_over_after_s": round(taken[0] - since, 2) if taken else None,
        "owned_twice_partition_s": round(beliefs.owned_twice(since, until), 2),
        "messages": len(first.keys() | second.keys()),
        "read_twice": len(twice),
        "seconds": round(until - since, 2),
        "spans": _spans(beliefs, since, until),
    }


async def read_by_two_zookeeper(zookeeper: ZooKeeper, broker: Broker082) -> dict[str, Any]:
    """Scheme 1: a is cut off from ZooKeeper, but not from the broker."""
    beliefs = Beliefs()
    with Proxies() as proxies:
        (port,) = proxies.before(zookeeper.ports)
        reading = _Reading(broker.port, beliefs)
        await reading.prepare(zookeeper.connect)
        members = {"a": _member(f"127.0.0.1:{port}", "a", beliefs, _SESSION_MS)}
        try:
            await members["a"].wait_async()
            members["b"] = _member(zookeeper.connect, "b", beliefs, _SESSION_MS)
            await members["b"].wait_async()
            for name, member in members.items():
                reading.follow(name, _stored(member), member.commit_async)
            await _until(lambda: len(beliefs.now().get("a", ())) == _READ_PARTITIONS // 2)
            await asyncio.sleep(3.0)
            went_back: list[int] = []
            back = asyncio.create_task(_watch_offsets(zookeeper.connect, went_back))
            since = monotonic_seconds()
            proxies.hold()
            await asyncio.sleep(_CUT_SECONDS)
            proxies.cut()
            healed = monotonic_seconds()
            await asyncio.sleep(_TAIL_SECONDS)
            until = monotonic_seconds()
            back.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await back
            result = _reading_result(reading, beliefs, since, healed, until)
            result["offsets_that_went_back"] = len(went_back)
        finally:
            await reading.close()
            closing = (member.close_async() for member in members.values())
            await asyncio.gather(*closing, return_exceptions=True)
    return result


async def _watch_offsets(connect: str, went_back: list[int]) -> None:
    """Note how far an offset in ZooKeeper goes back, each time that one becomes smaller."""
    last: dict[str, int] = {}
    paths = [f"/consumers/split/offsets/{_TOPIC}/{n}" for n in range(_READ_PARTITIONS)]
    connection = await Connection.begin(connect)
    try:
        while True:
            for path, node in zip(paths, await connection.get_all(paths), strict=True):
                if not isinstance(node, ZooKeeperError):
                    offset = int(node.data or b"0")
                    if offset < last.get(path, 0):
                        went_back.append(last[path] - offset)
                    last[path] = offset
            await asyncio.sleep(0.02)
    finally:
        await connection.abandon()


def _stored(member: ZooKeeperMember) -> Callable[[TopicPartition], Awaitable[int]]:
    async def start(one: TopicPartition) -> int:
        return (await member.committed_async([one])).get(one, 0)

    return start


async def read_by_two_classic(directory: Path, connect: str, broker: Broker082) -> dict[str, Any]:
    """Scheme 3 in the same cut: a classic group on pykcoord, a cut off from the coordinator."""
    topics = {_TOPIC: _READ_PARTITIONS}
    server = Serve(
        directory,
        topics,
        offsets_topic_num_partitions=1,
        group_initial_rebalance_delay_ms=500,
        group_min_session_timeout_ms=1_000,
    )
    try:
        return await _read_by_two_classic(await server.address(), topics, connect, broker)
    finally:
        await asyncio.to_thread(server.end)


async def _read_by_two_classic(
    address: str, topics: dict[str, int], connect: str, broker: Broker082
) -> dict[str, Any]:
    beliefs = Beliefs()
    committed: dict[TopicPartition, int] = {}
    fenced: list[int] = []
    with Proxies() as proxies:
        (port,) = proxies.before([int(address.rpartition(":")[2])])
        reading = _Reading(broker.port, beliefs)
        await reading.prepare(connect)
        addresses = {"a": f"127.0.0.1:{port}", "b": address}
        members = {
            name: LightClassicMember(name, _TOPIC, at, beliefs, 1.0, topics, _SESSION_MS)
            for name, at in addresses.items()
        }

        def committing(name: str) -> Callable[[dict[tuple[str, int], int]], Awaitable[None]]:
            async def commit(offsets: dict[tuple[str, int], int]) -> None:
                other = LightClassicMember(name, _TOPIC, addresses[name], beliefs, 1.0, topics)
                other.member_id = members[name].member_id
                other.generation = members[name].generation
                await other.connection.connect()
                try:
                    if code := await other.commit(offsets):
                        fenced.append(code)
                    else:
                        committed.update({TopicPartition(*k): v for k, v in offsets.items()})
                finally:
                    other.connection.close()

            return commit

        async def start(one: TopicPartition) -> int:
            return committed.get(one, 0)

        try:
            await asyncio.gather(*(one.begin() for one in members.values()))
            await _until(lambda: {len(of) for of in beliefs.now().values()} == {2})
            for name in members:
                reading.follow(name, start, committing(name))
            await asyncio.sleep(3.0)
            fenced.clear()
            since = monotonic_seconds()
            proxies.hold()
            await asyncio.sleep(_CUT_SECONDS)
            proxies.cut()
            healed = monotonic_seconds()
            # It does not know yet: its commit is of the membership that it had.
            late = {(_TOPIC, n): 1 for n in range(_READ_PARTITIONS // 2)}
            await committing("a")(late)
            await members["a"].stop()
            beliefs.tell("a", ())
            members["a"] = LightClassicMember("a", _TOPIC, address, beliefs, 1.0, topics)
            await members["a"].begin()
            await asyncio.sleep(_TAIL_SECONDS)
            until = monotonic_seconds()
            result = _reading_result(reading, beliefs, since, healed, until)
            result["offsets_that_went_back"] = 0
            result["commits_refused"] = len(fenced)
        finally:
            await reading.close()
            await asyncio.gather(*(one.drop() for one in members.values()))
    return result


async def run_split_brain(directory: Path, progress: Progress) -> dict[str, Any]:
    """All of it: cases that wait more than they work go side by side."""
    cases = ((0.0, 2.0, 8.0), (1.0, 0.0, 16.0), (3.0, 0.0, 38.0))
    progress("split brain: a follower stopped for 2 s, one 1 s behind, and one 3 s behind")
    found = await asyncio.gather(
        *(orphans(directory / f"ensemble-{n}", *case) for n, case in enumerate(cases))
    )
    progress("split brain: a member cut off from its coordinator only, scheme 1 and scheme 3")
    schemes = ("scheme 1", "scheme 3")
    twice = await asyncio.gather(*(_read_by_two(directory, scheme) for scheme in schemes))
    return {"orphans": found, "read_by_two": dict(zip(schemes, twice, strict=True))}


async def _read_by_two(directory: Path, scheme: str) -> dict[str, Any]:
    where = directory / scheme.replace(" ", "-")
    async with (
        running(ZooKeeper(where / "zookeeper")) as zookeeper,
        running(Broker082(where / "kafka", zookeeper.connect)) as broker,
    ):
        if scheme == "scheme 1":
            return await read_by_two_zookeeper(zookeeper, broker)
        return await read_by_two_classic(where / "data", zookeeper.connect, broker)


async def _until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    async def holds() -> bool:
        return condition()

    await _until_async(holds, seconds)


async def _until_async(condition: Callable[[], Awaitable[bool]], seconds: float = 60.0) -> None:
    deadline = monotonic_seconds() + seconds
    while not await condition():
        if monotonic_seconds() > deadline:
            raise LabError(f"the members did not come to their partitions within {seconds:g} s")
        await asyncio.sleep(0.05)
