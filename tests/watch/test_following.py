"""`__consumer_offsets` followed through what happens to a cluster, on brokers of a test's own."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path

import pytest
from support.scripted_broker import OFFSETS, ScriptedCluster

from pykcoord import cli
from pykcoord.log import LogReader, verify
from pykcoord.watch import Change

from .conftest import committed, new_cluster, until, watching
from .offsets_log import commit

pytestmark = pytest.mark.timeout(120)


def test_commits_are_followed_as_they_come_and_kept_verbatim(tmp_path: Path) -> None:
    async def story() -> None:
        cluster = new_cluster(brokers=3, partitions=5)
        async with cluster.running():
            commit(cluster.partition(OFFSETS, 3), "billing", 5)
            changes: list[Change] = []
            async with watching(cluster, tmp_path / "copy") as watcher:
                assert watcher.state is not None
                watcher.state.observe(changes.append)
                assert committed(watcher) == {("billing", "orders", 0): 5}
                commit(cluster.partition(OFFSETS, 3), "billing", 6)
                cluster.notify()
                await until(lambda: committed(watcher) == {("billing", "orders", 0): 6})
            batches = b"".join(cluster.partition(OFFSETS, 3).batches)
        (segment,) = (tmp_path / "copy" / f"{OFFSETS}-3").glob("*.log")
        assert segment.read_bytes() == batches
        assert [(one.partition, one.next_offset, one.is_live) for one in changes] == [(3, 2, True)]

    asyncio.run(story())
    assert verify(tmp_path / "copy").sound


def test_a_restart_reads_only_what_is_new(tmp_path: Path) -> None:
    async def story() -> None:
        cluster = new_cluster()
        partition = cluster.partition(OFFSETS, 0)
        async with cluster.running():
            for offset in range(10):
                commit(partition, "billing", offset)
            async with watching(cluster, tmp_path / "copy"):
                pass
            commit(partition, "billing", 77)
            async with watching(cluster, tmp_path / "copy") as watcher:
                assert committed(watcher) == {("billing", "orders", 0): 77}
                assert watcher.follower is not None
                assert watcher.follower.counts["records"] == 1

    asyncio.run(story())


def test_a_torn_copy_is_cut_and_the_rest_is_read_again(tmp_path: Path) -> None:
    async def story() -> None:
        cluster = new_cluster()
        async with cluster.running():
            for offset in range(10):
                commit(cluster.partition(OFFSETS, 0), "billing", offset)
            async with watching(cluster, tmp_path / "copy"):
                pass
            (segment,) = (tmp_path / "copy" / f"{OFFSETS}-0").glob("*.log")
            segment.write_bytes(segment.read_bytes()[:-7])
            async with watching(cluster, tmp_path / "copy") as watcher:
                assert committed(watcher) == {("billing", "orders", 0): 9}
                assert watcher.follower is not None
                assert watcher.follower.counts["records"] == 1

    asyncio.run(story())
    assert verify(tmp_path / "copy").sound


def test_a_leader_that_moves_and_a_broker_that_dies(tmp_path: Path) -> None:
    async def story() -> None:
        cluster = new_cluster(brokers=3)
        partition = cluster.partition(OFFSETS, 0)
        async with cluster.running():
            commit(partition, "billing", 1)
            async with watching(cluster, tmp_path / "copy") as watcher:
                partition.leader, partition.leader_epoch = 2, 1
                commit(partition, "billing", 2)
                cluster.notify()
                await until(lambda: committed(watcher)["billing", "orders", 0] == 2)
                await cluster.stop(2)
                partition.leader, partition.leader_epoch = 3, 2
                commit(partition, "billing", 3)
                await until(lambda: committed(watcher)["billing", "orders", 0] == 3)
                assert watcher.follower is not None
                await until(lambda: watcher.follower.partitions[0].trouble is None)
                assert watcher.follower.counts["truncations"] == 0

    asyncio.run(story())
    assert (tmp_path / "copy" / f"{OFFSETS}-0" / "leader-epoch-checkpoint").read_text() == (
        "0\n3\n0 0\n1 1\n2 2\n"
    )


@pytest.mark.parametrize("is_kept", [True, False], ids=["kept", "not kept"])
def test_an_unclean_election_takes_back_what_was_shown(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, is_kept: bool
) -> None:
    path = tmp_path / "copy" if is_kept else None

    async def story() -> None:
        cluster = new_cluster(brokers=2)
        partition = cluster.partition(OFFSETS, 0)
        async with cluster.running():
            for offset in range(1, 6):
                commit(partition, "billing", offset)
            commit(partition, "lost", 1)
            async with watching(cluster, path) as watcher:
                assert ("lost", "orders", 0) in committed(watcher)
                del partition.batches[3:]
                partition.leader, partition.leader_epoch = 2, 1
                commit(partition, "after", 9)
                cluster.notify()
                expected = {("after", "orders", 0): 9, ("billing", "orders", 0): 3}
                await until(lambda: committed(watcher) == expected)
                assert watcher.follower is not None
                assert watcher.follower.counts["truncations"] == 1
            lines = [record.getMessage() for record in caplog.records]
            assert any("the cluster took back the offsets from" in line for line in lines)
            if path is not None:
                (segment,) = (path / f"{OFFSETS}-0").glob("*.log")
                assert segment.read_bytes() == b"".join(partition.batches)
                (kept,) = (path / f"{OFFSETS}-0").glob("*.cut-1")
                assert b"lost" in kept.read_bytes()

    with caplog.at_level(logging.WARNING):
        asyncio.run(story())


def test_a_log_cut_below_what_was_copied_while_nobody_watched(tmp_path: Path) -> None:
    async def story() -> None:
        cluster = new_cluster()
        partition = cluster.partition(OFFSETS, 0)
        async with cluster.running():
            for offset in range(1, 6):
                commit(partition, "billing", offset)
            async with watching(cluster, tmp_path / "copy"):
                pass
            del partition.batches[2:]
            async with watching(cluster, tmp_path / "copy") as watcher:
                await until(lambda: committed(watcher) == {("billing", "orders", 0): 2})

    asyncio.run(story())
    assert verify(tmp_path / "copy").sound


def test_a_log_that_begins_above_what_was_copied_is_read_anew(tmp_path: Path) -> None:
    async def story() -> None:
        cluster = new_cluster()
        partition = cluster.partition(OFFSETS, 0)
        async with cluster.running():
            commit(partition, "gone", 1)
            async with watching(cluster, tmp_path / "copy"):
                pass
            for offset in range(5):
                commit(partition, "billing", offset)
            del partition.batches[:4]
            partition.start = 4
            async with watching(cluster, tmp_path / "copy") as watcher:
                assert committed(watcher) == {("billing", "orders", 0): 4}
                assert watcher.follower is not None
                assert watcher.follower.counts["begun_anew"] == 1

    asyncio.run(story())
    (before,) = (tmp_path / "copy").glob("before-*")
    reader = LogReader.open(before / f"{OFFSETS}-0")
    assert b"gone" in b"".join(reader.read(0))


def test_a_copy_that_was_left_alone_too_long_is_set_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What the cluster deleted meanwhile may have gone without a trace: tombstones are kept for a
    day."""

    async def story() -> None:
        cluster = new_cluster()
        partition = cluster.partition(OFFSETS, 0)
        async with cluster.running():
            commit(partition, "deleted-meanwhile", 1)
            async with watching(cluster, tmp_path / "copy"):
                pass
            _left_alone(tmp_path / "copy", days=1)
            partition.batches.clear()  # compacted away, and its tombstone too
            partition.start = 0
            commit(partition, "billing", 3)
            commit(partition, "billing", 4)
            async with watching(cluster, tmp_path / "copy") as watcher:
                assert committed(watcher) == {("billing", "orders", 0): 4}

    with caplog.at_level(logging.WARNING):
        asyncio.run(story())
    assert "another one begins" in caplog.text
    assert list((tmp_path / "copy").glob(f"before-*/{OFFSETS}-0/*.log"))


def _left_alone(path: Path, days: int) -> None:
    document = json.loads((path / "watch.json").read_text())
    document["followed_ms"] -= days * 86_400_000
    (path / "watch.json").write_text(json.dumps(document))


def test_a_topic_that_is_not_there_yet_is_waited_for(tmp_path: Path) -> None:
    async def story() -> None:
        cluster = ScriptedCluster()
        async with cluster.running(), watching(cluster, tmp_path / "copy") as watcher:
            assert watcher.tables().groups == []
            assert watcher.mode == "log"
            cluster.add_topic(OFFSETS, 2)
            commit(cluster.partition(OFFSETS, 1), "first", 1)
            await until(lambda: committed(watcher) == {("first", "orders", 0): 1})

    asyncio.run(story())


def test_a_copy_that_was_compacted_is_continued(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy"

    async def story(expected: int) -> None:
        async with cluster.running(), watching(cluster, copy) as watcher:
            assert committed(watcher) == {("billing", "orders", 0): expected}
            assert watcher.follower is not None
            assert watcher.follower.counts["begun_anew"] == 0

    cluster = new_cluster()
    partition = cluster.partition(OFFSETS, 0)
    for offset in range(10):
        commit(partition, "billing", offset)
    asyncio.run(story(9))
    assert cli.run(["log", "compact", str(copy)]) == 0
    partition.leader_epoch = 1
    commit(partition, "billing", 77)
    asyncio.run(story(77))
    assert not list(copy.glob("before-*"))
    assert cli.run(["log", "verify", str(copy)]) == 0
    capsys.readouterr()
    asyncio.run(story(77))


def test_what_reads_logs_reads_a_copy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def story() -> None:
        cluster = new_cluster(partitions=3)
        async with cluster.running():
            commit(cluster.partition(OFFSETS, 2), "billing", 5)
            async with watching(cluster, tmp_path / "copy"):
                pass

    asyncio.run(story())
    copy = str(tmp_path / "copy")
    assert cli.run(["log", "verify", copy]) == 0
    assert "1 record" in capsys.readouterr().out
    assert cli.run(["log", "dump", copy]) == 0
    assert "billing" in capsys.readouterr().out
    assert cli.run(["log", "state", "--json", copy]) == 0
    assert json.loads(capsys.readouterr().out)["offsets"]["billing"]["orders"]["0"]["offset"] == 5
    assert cli.run(["offsets", "show", "billing", copy]) == 0
    assert "orders" in capsys.readouterr().out


class _PanicError(BaseException):
    """As pyo3 raises a panic of the core: no Exception."""


def test_a_panic_of_the_core_ends_the_watching() -> None:
    async def story() -> None:
        cluster = new_cluster()
        async with cluster.running(), watching(cluster, None) as watcher:
            assert watcher.state is not None

            def fail(change: Change) -> None:
                raise _PanicError("a panic")

            watcher.state.observe(fail)
            commit(cluster.partition(OFFSETS, 0), "billing", 1)
            cluster.notify()
            await asyncio.wait_for(watcher.run(), 30)

    with pytest.raises(RuntimeError, match="a panic"):
        asyncio.run(story())
