"""Commits of which each has a key of its own, so that none that is lost goes unseen: groups that
have no members, with `ROWS` partitions each."""

from __future__ import annotations

import asyncio
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path

# The messages are those of the tests.
sys.path.append(str(Path(__file__).parents[2] / "tests"))

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from support.kio_client import decode, encode

from pykcoord._native import partition_of

ROWS = 100  # partitions of a commit
_COMMIT, _FETCH = (8, 7), (9, 5)
_NOT_COORDINATOR = struct.pack(">h", 16)
_AT_ONCE = 40
_AGAIN_S, _LOOK_S, _ANSWER_S = 0.05, 0.5, 15.0
# A broker that has just begun to lead tells what its followers had of the last leader for a moment.
_STALE_S = 10.0
_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class KeyedCommits:
    """`groups` of `ROWS` partitions of `topic`; the coordinators are asked directly, `_AT_ONCE`
    requests at a time. `base` of the offsets tells one round of commits from another."""

    def __init__(self, bootstrap: str, topic: str, groups: int, partitions: int) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        self._topic = topic
        self._names = [f"moved-{one:06}" for one in range(groups)]
        self._at = {name: partition_of(name, partitions) for name in self._names}
        self._leaders: dict[int, tuple[str, int]] = {}
        self._looked = 0.0

    def commit(self, base: int) -> float:
        """Every key; returns the seconds until all were acknowledged."""
        rows = [
            {"partition_index": one, "committed_offset": base + one, "committed_metadata": ""}
            for one in range(ROWS)
        ]
        request = encode(
            *_COMMIT, group_id=self._names[0], generation_id_or_member_epoch=-1, member_id="",
            topics=[{"name": self._topic, "partitions": rows}],
        )  # fmt: skip

        def is_acknowledged(reply: bytes) -> bool:
            (topic,) = decode(*_COMMIT, reply).topics
            return not any(int(one.error_code) for one in topic.partitions)

        return asyncio.run(self._each(request, _Known(is_acknowledged)))

    def lost(self, base: int) -> tuple[int, float]:
        """How many keys have another offset than that of the commits with this base, and the
        seconds of reading. A difference counts that is still there after `_STALE_S`."""
        request = encode(
            *_FETCH, group_id=self._names[0],
            topics=[{"name": self._topic, "partition_indexes": tuple(range(ROWS))}],
        )  # fmt: skip
        wanted = {one: base + one for one in range(ROWS)}
        began, lost = time.monotonic(), 0

        def is_right(reply: bytes) -> bool:
            nonlocal lost
            answer = decode(*_FETCH, reply)
            if int(answer.error_code) != 0:
                return False
            found = {
                one.partition_index: one.committed_offset for one in answer.topics[0].partitions
            }
            missing = sum(found.get(at) != offset for at, offset in wanted.items())
            if missing and time.monotonic() - began > _STALE_S:
                lost += missing
                raise _GivenUpError
            return not missing

        return lost, asyncio.run(self._each(request, _Known(is_right)))

    async def _each(self, request: bytes, is_good: Callable[[bytes], bool]) -> float:
        """The request for each group, with its name, until the answer is good."""
        head, _, tail = request.partition(self._names[0].encode())
        left, began = list(reversed(self._names)), time.monotonic()

        async def work() -> None:
            streams: dict[tuple[str, int], _Streams] = {}
            while left:
                name = left.pop()
                frame = head + name.encode() + tail
                while True:
                    reply = await self._ask(streams, self._at[name], frame)
                    try:
                        if reply is not None and is_good(reply):
                            break
                    except _GivenUpError:
                        break
                    await asyncio.sleep(_AGAIN_S)
            for _, writer in streams.values():
                writer.close()

        await asyncio.gather(*(work() for _ in range(_AT_ONCE)))
        return time.monotonic() - began

    async def _ask(
        self, streams: dict[tuple[str, int], _Streams], partition: int, frame: bytes
    ) -> bytes | None:
        """The coordinator's answer without its size; None: there was none."""
        address = self._leaders.get(partition)
        if address is None:
            await self._look()
            return None
        try:
            async with asyncio.timeout(_ANSWER_S):
                if address not in streams:
                    streams[address] = await asyncio.open_connection(*address)
                reader, writer = streams[address]
                writer.write(frame)
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                reply = await reader.readexactly(size)
        except (OSError, EOFError, TimeoutError):
            if address in streams:
                streams.pop(address)[1].close()
            await self._look()
            return None
        # Both answers end with an error code.
        if reply.endswith(_NOT_COORDINATOR):
            await self._look()
        return reply

    async def _look(self) -> None:
        """Who leads what, by a broker's word."""
        if time.monotonic() - self._looked < _LOOK_S:
            return
        self._looked = time.monotonic()
        try:
            told = await asyncio.to_thread(self._admin.list_topics, "__consumer_offsets", 2)
        except KafkaException:
            return  # a node was asked that is gone
        for number, of in told.topics["__consumer_offsets"].partitions.items():
            leader = told.brokers.get(of.leader)
            if leader is None:
                self._leaders.pop(number, None)
            else:
                self._leaders[number] = (leader.host, leader.port)


class _GivenUpError(Exception):
    """It is of no use to ask again."""


class _Known:
    """Whether an answer is good; the same bytes are looked at once, as almost all answers are."""

    def __init__(self, is_good: Callable[[bytes], bool]) -> None:
        self._is_good = is_good
        self._good: set[bytes] = set()

    def __call__(self, reply: bytes) -> bool:
        if reply in self._good:
            return True
        is_good = self._is_good(reply)
        if is_good:
            self._good.add(reply)
        return is_good
