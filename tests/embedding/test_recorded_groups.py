"""Logs of consumer groups and of migrations that Kafka wrote: the Arrow tables of a coordinator say
what Kafka itself reads from them, each member, epoch, target and expression."""

from __future__ import annotations

import base64
import uuid
from pathlib import Path

import pytest
from support import segments
from support.consumer_tables import as_kafka_says, consumers_of

from pykcoord import Config, Coordinator
from pykcoord.catalogue import STATE_FILE, Topic, store_topics
from pykcoord.log.state_file import StateFile


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    folders = segments.folders(metafunc.config)
    chosen = [folder for folder in folders if folder.name.startswith(("consumer-", "migration-"))]
    metafunc.parametrize("folder", chosen, ids=[folder.name for folder in chosen])


def test_tables_say_what_kafka_reads(folder: Path, tmp_path: Path) -> None:
    log = segments.unpack(folder, tmp_path / "log")
    expected = segments.expected(log)
    topics = [
        Topic(name, uuid.UUID(bytes=base64.urlsafe_b64decode(of["id"] + "==")), of["partitions"])
        for name, of in expected["topics"].items()
    ]
    store_topics(StateFile(log / STATE_FILE), topics)
    shards = expected["offsets_topic_num_partitions"]
    with Coordinator(log, config=Config(offsets_topic_num_partitions=shards)) as coordinator:
        groups, members = coordinator.groups().to_pylist(), coordinator.members().to_pylist()
    assert as_kafka_says(groups, members, shards) == consumers_of(expected) != {}
    assert {row["group_id"] for row in groups} >= expected["groups"].keys()
