"""`pykcoord serve --web`: one process and several, and what it refuses."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from kafka import KafkaConsumer
from kafka.structs import OffsetAndMetadata, TopicPartition
from support.browser import until
from support.console import Console
from support.server import PykcoordServer

from pykcoord._native import partition_of

Served = tuple[PykcoordServer, Console]


def _serve(tmp_path: Path, *arguments: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "pykcoord", "serve", os.fspath(tmp_path / "data")]
    ended = subprocess.run(
        [*command, "--listen", "127.0.0.1:0", *arguments],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    return ended.returncode, ended.stderr


def _commit(servers: str, group_id: str, partition: int, offset: int) -> None:
    consumer = KafkaConsumer(bootstrap_servers=servers, group_id=group_id, enable_auto_commit=False)
    consumer.commit({TopicPartition("orders", partition): OffsetAndMetadata(offset, "", -1)})
    consumer.close(autocommit=False)


def test_lag_and_figures_of_a_server(served: Callable[..., Served], tmp_path: Path) -> None:
    ends = tmp_path / "ends.txt"
    ends.write_text("orders 0 100\norders 1 70\n")
    server, console = served("--end-offsets", os.fspath(ends))
    _commit(server.address, "billing", 0, 42)
    _commit(server.address, "billing", 1, 70)
    page = until(lambda: console.get("/api/group", id="billing"), "the group", 60)
    lags = {one["partition"]: (one["end"], one["lag"]) for one in page["offsets"]}
    assert lags == {0: (100, 58), 1: (70, 0)}
    assert page["lag"] == 58
    cluster = console.get("/api/cluster")
    assert cluster["nodes"][0]["address"] == server.address
    assert set(cluster["shards"]) == {cluster["nodes"][0]["node_id"]}
    figures = cluster["figures"]
    assert figures["offsets"] == 2
    assert figures["request_seconds"]["OffsetCommit"]["count"] == 2
    assert figures["log_written_bytes"] > 0
    text = console.ask("GET", "/metrics")[2].decode()
    assert 'pykcoord_request_seconds_count{api="OffsetCommit"} 2.0' in text


def test_each_of_several_nodes_lists_the_groups_of_all(tmp_path: Path) -> None:
    server = PykcoordServer(
        tmp_path / "data", topics={"orders": 6}, arguments=["--nodes", "2", "--web", "127.0.0.1:0"]
    )
    with server:
        addresses = server.ready["listen"].split(",")
        urls = [
            line.rpartition(" ")[2] for line in server.stderr().splitlines() if "console on" in line
        ]
        assert len(set(urls)) == 2
        groups = {f"group-{number}" for number in range(8)}
        for name in groups:
            _commit(",".join(addresses), name, 0, 5)
        for url in urls:
            console = Console(url)
            until(lambda: _listed(console) >= groups, "all groups are listed", 60)  # noqa: B023
            cluster = console.get("/api/cluster")
            assert {one["address"] for one in cluster["nodes"]} == set(addresses)
            assert len(set(cluster["shards"])) == 2
            assert cluster["controller"] == min(one["node_id"] for one in cluster["nodes"])
            assert not console.get("/api/groups")["rebalances_are_all"]
            heard = [console.get("/api/group", id=name) for name in sorted(groups)]
            assert {one["offsets"][0]["offset"] for one in heard} == {5}
            # It says of which groups it hears late.
            (own,) = {one["node"] for one in heard if one["events_are_all"]}
            assert all(one["events_are_all"] == (one["node"] == own) for one in heard)
            for name in _one_of_each_node(cluster["shards"], url):
                _told_at_once(console, name, ",".join(addresses))


def _listed(console: Console) -> set[str]:
    return {one["id"] for one in console.get("/api/groups")["groups"]}


def _one_of_each_node(shards: list[int], url: str) -> list[str]:
    """Groups that are not there yet, one that each node leads."""
    names = [f"late-{url.rpartition(':')[2]}-{number}" for number in range(99)]
    led = {shards[partition_of(name, len(shards))]: name for name in names}
    return list(led.values())


def _told_at_once(console: Console, name: str, servers: str) -> None:
    """Whichever node hears of a group, who watches it at this one is told."""
    assert console.ask("GET", "/api/group", {"id": name})[0] == 404
    stream = console.stream(id=name)
    ticks = stream.ticks()
    next(ticks)
    _commit(servers, name, 0, 5)
    until(lambda: next(ticks)["changed"] == [name], "it is told", 60)
    stream.close()
    until(
        lambda: b"The group was created." in console.ask("GET", "/api/group", {"id": name})[2],
        "its page says so", 60,
    )  # fmt: skip


def test_beyond_loopback_it_does_not_start_without_a_token(tmp_path: Path) -> None:
    code, said = _serve(tmp_path, "--web", "0.0.0.0:0")
    assert (code, len(said.splitlines())) == (1, 1)
    assert "--web-token-file" in said
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("content", "mode", "words"),
    [("short\n", 0o600, "16 to 1,024"), ("x" * 20, 0o644, "chmod 600"), ("", 0o600, "16 to 1,024")],
)
def test_a_token_that_is_none(tmp_path: Path, content: str, mode: int, words: str) -> None:
    token = tmp_path / "token"
    token.write_text(content)
    token.chmod(mode)
    code, said = _serve(tmp_path, "--web", "0.0.0.0:0", "--web-token-file", os.fspath(token))
    assert (code, len(said.splitlines())) == (1, 1)
    assert words in said


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--web-admin"], 2),
        (["--web", "8080"], 2),
        (["--web", "192.0.2.1:0", "--web-admin"], 1),
    ],
)
def test_options_that_cannot_be(tmp_path: Path, arguments: list[str], code: int) -> None:
    ended, said = _serve(tmp_path, *arguments)
    assert (ended, len(said.splitlines())) == (code, 1)
    assert "--web" in said
