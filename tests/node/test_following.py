"""A node that follows leaders: what it copies, what it gives up when a leader's log is another one,
and what it does not take. The leaders are brokers of a test's own."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from support.scripted_broker import OFFSETS, ScriptedCluster
from watch.conftest import new_cluster, until
from watch.offsets_log import commit

from pykcoord.kafka import ClientProperties, Connector
from pykcoord.log.replica import ReplicaLog
from pykcoord.log.replicas import ReplicaDirectory
from pykcoord.node.errors import NodeError
from pykcoord.node.following import Following, Source

pytestmark = pytest.mark.timeout(120)

_NODE, _DIRECTORY = 9, uuid.UUID(int=7)


@contextlib.asynccontextmanager
async def _following(
    cluster: ScriptedCluster, path: Path
) -> AsyncIterator[tuple[Following, ReplicaLog]]:
    """Of partition 0; its failure is raised at the end of the block."""
    topic_id, partitions = cluster.topics[OFFSETS]
    directory = ReplicaDirectory.open(path, 1 << 20)
    directory.begin("scripted", _NODE, topic_id, len(partitions), str(_DIRECTORY))
    following = Following(
        Connector(ClientProperties.of({"bootstrap.servers": cluster.bootstrap})),
        directory, topic_id, _NODE, _DIRECTORY, lambda: 5,
        lambda broker: ("127.0.0.1", cluster.ports[broker]),
    )  # fmt: skip
    failures: list[Exception] = []
    following.on_failure = failures.append
    try:
        await _follow(cluster, following)
        yield following, directory.open_log(0)
        if failures:
            raise failures[0]
    finally:
        await following.close()
        directory.close()


async def _follow(cluster: ScriptedCluster, following: Following) -> None:
    """Whoever leads it now."""
    partition = cluster.partition(OFFSETS, 0)
    await following.follow({0: Source(partition.leader, partition.leader_epoch)})
    cluster.notify()


def _copied(path: Path) -> bytes:
    (segment,) = (path / f"{OFFSETS}-0").glob("*.log")
    return segment.read_bytes()


def test_what_a_leader_has_is_copied_verbatim(tmp_path: Path) -> None:
    async def story() -> None:
        cluster = new_cluster()
        partition = cluster.partition(OFFSETS, 0)
        async with cluster.running():
            commit(partition, "billing", 1)
            async with _following(cluster, tmp_path / "node") as (following, log):
                await until(lambda: log.next_offset == 1)
                commit(partition, "billing", 2)
                cluster.notify()
                await until(lambda: following.high_watermarks.get(0) == 2)
            assert _copied(tmp_path / "node") == b"".join(partition.batches)

    asyncio.run(story())


def test_an_unclean_election_cuts_what_the_new_leader_lacks(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        cluster = new_cluster(brokers=2)
        partition = cluster.partition(OFFSETS, 0)
        async with cluster.running():
            for offset in range(1, 6):
                commit(partition, "billing", offset)
            commit(partition, "lost", 1)
            async with _following(cluster, tmp_path / "node") as (following, log):
                await until(lambda: following.high_watermarks.get(0) == 6)
                del partition.batches[3:]
                partition.leader, partition.leader_epoch = 2, 1
                commit(partition, "after", 9)
                await _follow(cluster, following)
                await until(lambda: log.next_offset == 4)
                assert following.counts["truncations"] == 1
            assert _copied(tmp_path / "node") == b"".join(partition.batches)

    with caplog.at_level(logging.WARNING):
        asyncio.run(story())
    (line,) = (record.getMessage() for record in caplog.records)
    assert line.startswith(
        f"{OFFSETS}-0: offsets from 3 to 6 are not in the leader's log (an unclean election); "
        "they are kept in "
    )
    (kept,) = (tmp_path / "node" / f"{OFFSETS}-0").glob(line.rpartition(" ")[2])
    assert b"lost" in kept.read_bytes()


def test_a_log_that_begins_above_the_copy_is_fetched_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        cluster = new_cluster()
        partition = cluster.partition(OFFSETS, 0)
        async with cluster.running():
            commit(partition, "gone", 1)
            async with _following(cluster, tmp_path / "node") as (_, log):
                await until(lambda: log.next_offset == 1)
            for offset in range(5):
                commit(partition, "billing", offset)
            del partition.batches[:4]
            partition.start = 4
            async with _following(cluster, tmp_path / "node") as (following, _):
                await until(lambda: following.high_watermarks.get(0) == 6)
                assert following.counts["begun_anew"] == 1
            assert _copied(tmp_path / "node") == b"".join(partition.batches)

    with caplog.at_level(logging.WARNING):
        asyncio.run(story())
    assert "offset 1 is not in the leader's log, which begins at 4: fetched again" in caplog.text


def test_a_leader_that_has_not_even_its_first_offset_ends_the_node(tmp_path: Path) -> None:
    async def story() -> None:
        cluster = new_cluster()
        cluster.partition(OFFSETS, 0).error = 1
        cluster.partition(OFFSETS, 0).start = 0
        async with cluster.running(), _following(cluster, tmp_path / "node") as (following, _):
            await until(lambda: all(task.done() for task in following._tasks.values()))

    with pytest.raises(NodeError, match=f"{OFFSETS}-0: offset 0 is its first, and out of range"):
        asyncio.run(story())


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "it speaks HTTP"),
        (b"\x7f\xff\xff\xff", "a frame of 2147483647 bytes"),
        (b"\0\0\0\x04\0\0\x13\x37", "a request that was not sent"),
    ],
)
def test_a_leader_that_speaks_nonsense_is_asked_again_and_told_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, raw: bytes, said: str
) -> None:
    async def story() -> None:
        cluster = new_cluster()
        commit(cluster.partition(OFFSETS, 0), "billing", 1)
        cluster.raw = raw
        async with cluster.running(), _following(cluster, tmp_path / "node") as (following, log):
            await until(lambda: following.counts["errors"] >= 2)
            assert log.next_offset == 0
            cluster.raw = None
            await until(lambda: log.next_offset == 1)

    with caplog.at_level(logging.INFO, "pykcoord.node"):
        asyncio.run(story())
    assert "broker 1: 127.0.0.1:" in caplog.text
    assert said in caplog.text


@pytest.mark.parametrize(
    "damage",
    [
        lambda batch: batch[:-1] + bytes([batch[-1] ^ 1]),
        lambda batch: batch[:8] + b"\x7f\xff\xff\xff" + batch[12:],
        lambda batch: b"\xff" * len(batch),
    ],
    ids=["CRC", "length", "ones"],
)
def test_what_is_no_batch_is_not_kept(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    async def story() -> None:
        cluster = new_cluster()
        partition = cluster.partition(OFFSETS, 0)
        partition.damage = damage
        commit(partition, "billing", 1)
        async with cluster.running():
            async with _following(cluster, tmp_path / "node") as (following, log):
                await until(lambda: following.counts["errors"] > 0)
                assert log.next_offset == 0
                partition.damage = None
                await until(lambda: log.next_offset == 1)
            assert _copied(tmp_path / "node") == b"".join(partition.batches)

    asyncio.run(story())
