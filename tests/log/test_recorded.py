"""Data directories that earlier versions wrote are opened, with their snapshots and without."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient
from support.nodes import Nodes

import pykcoord
from pykcoord.log.snapshot import SNAPSHOT_FILE

RECORDED = Path(__file__).parents[1] / "recorded"
VERSIONS = sorted(folder for folder in RECORDED.iterdir() if (folder / "data-directory").is_dir())
PARTITIONS = 2


def test_something_was_recorded() -> None:
    assert VERSIONS


@pytest.fixture(params=VERSIONS, ids=lambda version: version.name)
def version(request: pytest.FixtureRequest) -> Path:
    found: Path = request.param
    return found


def _expected(version: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((version / "expected.json").read_text())["data-directory"]
    return read


def _copy(version: Path, tmp_path: Path) -> Path:
    copy = Path(shutil.copytree(version / "data-directory", tmp_path / "data"))
    for partition in range(PARTITIONS):  # git keeps no empty folder
        (copy / f"__consumer_offsets-{partition}").mkdir(exist_ok=True)
    return copy


def _offsets(table: pa.Table) -> dict[tuple[str, str, int], int]:
    rows = table.to_pylist()
    return {(row["group_id"], row["topic"], row["partition"]): row["offset"] for row in rows}


@pytest.mark.parametrize("with_snapshot", [True, False], ids=["snapshot", "whole log"])
def test_a_data_directory_opens_with_all_that_was_acknowledged(
    version: Path, tmp_path: Path, with_snapshot: bool, caplog: pytest.LogCaptureFixture
) -> None:
    directory, expected = _copy(version, tmp_path), _expected(version)
    snapshots = list(directory.glob(f"*/{SNAPSHOT_FILE}"))
    assert snapshots
    if not with_snapshot:
        for snapshot in snapshots:
            snapshot.unlink()
    config = pykcoord.Config(offsets_topic_num_partitions=PARTITIONS)
    with pykcoord.Coordinator(directory, config=config) as coordinator:
        offsets = _offsets(coordinator.offsets())
        members = coordinator.members().to_pylist()
        groups = {row["group_id"]: row for row in coordinator.groups().to_pylist()}
    assert offsets == {
        (group_id, topic, int(partition)): offset["offset"]
        for group_id, topics in expected["offsets"].items()
        for topic, partitions in topics.items()
        for partition, offset in partitions.items()
    }
    assert groups.keys() == expected["groups"].keys()
    assert {member["member_id"] for member in members} == {
        member["memberId"] for group in expected["groups"].values() for member in group["members"]
    }
    assert not [record for record in caplog.records if "snapshot" in record.message], caplog.text


@pytest.mark.parametrize("nodes", [1, 2])
def test_nodes_serve_what_earlier_nodes_wrote(version: Path, tmp_path: Path, nodes: int) -> None:
    directory, expected = _copy(version, tmp_path), _expected(version)
    settings = {"offsets.topic.num.partitions": str(PARTITIONS)}
    serving = Nodes(directory, settings=settings).start(nodes)
    try:
        admin = AdminClient({"bootstrap.servers": serving.bootstrap})
        listed = admin.list_consumer_groups(request_timeout=60).result(60)
        assert not listed.errors
        assert {group.group_id for group in listed.valid} == expected["groups"].keys()
    finally:
        serving.close()


def test_settings_of_groups_are_kept(tmp_path: Path) -> None:
    directory = _copy(RECORDED / "0.1-nodes", tmp_path)
    config = pykcoord.Config(offsets_topic_num_partitions=PARTITIONS)
    with pykcoord.Coordinator(directory, config=config) as coordinator:
        members = coordinator.members().to_pylist()
    timeouts = {member["group_id"]: member["session_timeout_ms"] for member in members}
    assert timeouts["native"] == 50_000
    assert timeouts["other"] == 45_000


def test_a_data_directory_says_the_same_to_the_command_line(version: Path, tmp_path: Path) -> None:
    told = subprocess.run(
        [sys.executable, "-m", "pykcoord", "log", "state", str(_copy(version, tmp_path)), "--json"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    found, expected = json.loads(told.stdout), _expected(version)
    assert found["groups"] == expected["groups"]
    assert found["offsets"] == expected["offsets"]
