"""`pykcoord serve --end-offsets FILE`: partitions end where the file says, also once it changes."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic
from support.server import PykcoordServer
from support.waiting import eventually

from pykcoord.cli.end_offsets import EndOffsetsError, read_end_offsets


@pytest.mark.parametrize(
    "line",
    ["orders 3", "orders 3 1000 9", "orders three 1000", "orders 3 -1", f"orders 3 {2**63}"],
)
def test_a_line_that_says_nothing_is_named(line: str, tmp_path: Path) -> None:
    path = tmp_path / "ends.txt"
    path.write_text(f"orders 0 5 # so far\n\n# more\n{line}\n")
    with pytest.raises(EndOffsetsError, match=r"ends.txt: line 4: .*TOPIC PARTITION OFFSET"):
        read_end_offsets(path)
    path.write_text("orders 0 5 # so far\n\n# more\norders 3 1000\n")
    assert read_end_offsets(path) == {("orders", 0): 5, ("orders", 3): 1000}


@contextlib.contextmanager
def serving(path: Path, lines: str) -> Iterator[PykcoordServer]:
    path.write_text(lines)
    arguments = ("--end-offsets", os.fspath(path))
    data = path.parent / "data"
    with PykcoordServer(data, topics={"orders": 2}, arguments=arguments).start() as server:
        yield server


def ends(server: PykcoordServer, topic: str = "orders") -> list[int]:
    partitions = [TopicPartition(topic, partition) for partition in (0, 1)]
    with contextlib.closing(KafkaConsumer(bootstrap_servers=server.address)) as consumer:
        found = consumer.end_offsets(partitions)
    return [found[partition] for partition in partitions]


def test_partitions_end_where_the_file_says_and_follow_it(tmp_path: Path) -> None:
    path = tmp_path / "ends.txt"
    with serving(path, "orders 0 1000\nlater 1 7\n") as server:
        assert ends(server) == [1000, 0]
        path.with_suffix(".new").write_text("orders 1 2500\n")
        path.with_suffix(".new").rename(path)
        eventually(lambda: ends(server) == [1000, 2500])
        path.write_text("orders 0 2000\norders 1\n")
        os.kill(server.pid, signal.SIGHUP)
        eventually(lambda: "orders 1' is not" in (tmp_path / "data.stderr").read_text())
        assert ends(server) == [1000, 2500]


def test_a_topic_that_comes_later_ends_where_the_file_says(tmp_path: Path) -> None:
    with serving(tmp_path / "ends.txt", "later 1 7\n") as server:
        admin = KafkaAdminClient(bootstrap_servers=server.address)
        with contextlib.closing(admin):
            admin.create_topics([NewTopic("later", 2, 1)])
        eventually(lambda: ends(server, "later") == [0, 7])
