"""Shared logs of hosts of earlier versions become those of a cluster, and stores of clusters of
earlier versions are served on: with all that was acknowledged."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.asked import Asked
from support.members import Members

from pykcoord.cli import commands
from pykcoord.cluster.converting import convert
from pykcoord.cluster.looking import ClusterFollower
from pykcoord.cluster.reading import read_shard
from pykcoord.cluster.topics import SharedTopics, open_topics
from pykcoord.errors import KcoordError
from pykcoord.log.shared import FolderStore, ShardLog

RECORDED = Path(__file__).parents[1] / "recorded"
VERSIONS = sorted(folder for folder in RECORDED.iterdir() if (folder / "shared-log").is_dir())
CLUSTERS = sorted(folder for folder in RECORDED.iterdir() if (folder / "cluster-store").is_dir())


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return Path(shutil.copytree(VERSIONS[0] / "shared-log", tmp_path / "old"))


@pytest.mark.client
@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
@pytest.mark.parametrize("with_snapshots", [True, False], ids=["snapshots", "whole log"])
def test_a_log_of_hosts_is_carried_over_with_all_that_was_acknowledged(
    version: Path, tmp_path: Path, with_snapshots: bool
) -> None:
    log = Path(shutil.copytree(version / "shared-log", tmp_path / "old"))
    expected = json.loads((version / "expected.json").read_text())["shared-log"]
    shards = json.loads((log / "log.json").read_text())["shards"]
    open_topics(SharedTopics(FolderStore(log)), {"bills": 3})
    snapshots = list(log.glob("*/snapshots/*"))
    assert snapshots
    if not with_snapshots:
        for snapshot in snapshots:
            snapshot.unlink()
    members = Members(tmp_path, 1, {"offsets.topic.num.partitions": shards})
    said = CliRunner().invoke(commands, ["cluster", "convert", str(log), str(members.folder)])
    assert said.exit_code == 0, said.output
    assert f"{shards} shards" in said.output
    try:
        members.start(1)
        with Asked(f"127.0.0.1:{members.ports[1]}") as asked:
            members.wait(
                lambda: {group: committed(asked, group) for group in expected} == expected,
                f"{expected}",
            )
            metadata = asked.ask(3, 4, topics=None, allow_auto_topic_creation=False)
            topics = {topic.name: len(topic.partitions) for topic in metadata.topics}
            assert topics["bills"] == 3
    finally:
        members.close()


@pytest.mark.client
@pytest.mark.parametrize("version", CLUSTERS, ids=lambda version: version.name)
@pytest.mark.parametrize("is_whole", [True, False], ids=["newest snapshot", "the one before"])
def test_a_cluster_of_which_entries_have_gone_is_served_on(
    version: Path, tmp_path: Path, is_whole: bool
) -> None:
    expected = json.loads((version / "expected.json").read_text())["cluster-store"]
    members = Members(tmp_path, 2, {"offsets.topic.num.partitions": expected["shards"]})
    store = Path(shutil.copytree(version / "cluster-store", members.folder, dirs_exist_ok=True))
    newest = max((store / "cluster-snapshots").iterdir())
    if not is_whole:
        newest.write_bytes(newest.read_bytes()[:-1])
    now = ClusterFollower(str(store)).read()
    assert (now.entries, now.term) == (expected["entries"], expected["term"])
    assert [node.node_id for node in now.nodes] == expected["nodes"]
    assert {str(shard): node for shard, node in now.pins.items()} == expected["pins"]
    assert now.drained == expected["drained"]
    entries = [int(path.name) for path in (store / "cluster").iterdir()]
    assert len(entries) < now.entries, "some have gone"
    try:
        members.start_all()
        members.wait(lambda: found_on(members, expected["committed"]), f"{expected}")
    finally:
        members.close()


def found_on(members: Members, expected: dict[str, int]) -> bool:
    """Whether each group has committed that, by the node that coordinates it."""
    found = dict.fromkeys(expected, -1)
    for host, port in members.addresses:
        with Asked(f"{host}:{port}") as asked:
            found = {group: max(at, committed(asked, group)) for group, at in found.items()}
    return found == expected


def committed(at: Asked, group: str) -> int:
    topics = [{"name": "orders", "partition_indexes": (0,)}]
    found = at.ask(9, 7, group_id=group, topics=topics, require_stable=False)
    return -1 if found.error_code else found.topics[0].partitions[0].committed_offset


def test_hosts_that_write_on_are_found_and_nothing_is_made(old: Path, tmp_path: Path) -> None:
    log = ShardLog(FolderStore(old), 0)

    def write_on(shard: int, shards: int) -> None:
        if shard == shards - 1:  # shard 0 was read
            list(log.follow())
            assert log.claim("a host", 1)

    with pytest.raises(KcoordError, match=r"shard 0 was written while it was read: stop the hosts"):
        convert(old, tmp_path / "new", write_on)
    assert not (tmp_path / "new" / "cluster").exists()


def test_a_place_with_a_cluster_and_one_without_a_log_are_refused(
    old: Path, tmp_path: Path
) -> None:
    made = convert(old, tmp_path / "new")
    assert (made.shards, made.with_records) == (2, 1)
    with pytest.raises(KcoordError, match="has objects of a cluster already"):
        convert(old, tmp_path / "new")
    with pytest.raises(KcoordError, match=r"is no such log: it has no log\.json"):
        convert(tmp_path / "new", tmp_path / "newer")


def test_what_a_snapshot_alone_has_is_not_lost_in_silence(old: Path, tmp_path: Path) -> None:
    convert(old, tmp_path / "new")
    (snapshot,) = (tmp_path / "new/shards/00001/snapshots").iterdir()
    content = snapshot.read_bytes()
    snapshot.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    cluster = ClusterFollower(str(tmp_path / "new"))
    assert cluster.read().shards == 2
    with pytest.raises(KcoordError, match="no snapshot that can be read has the records of epoch"):
        list(read_shard(FolderStore(tmp_path / "new"), 1, cluster.lineage(1)))


def test_a_node_refuses_the_old_log_itself(old: Path, tmp_path: Path) -> None:
    said = CliRunner().invoke(commands, ["serve", "--cluster", str(old), "--listen", "127.0.0.1:0"])
    assert f"cluster convert {old} NEW" in str(said.exception)
