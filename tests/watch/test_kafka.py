"""Watching one real broker: groups of every kind as their coordinators describe them, every way in,
and what a user sees."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from support.kafka import jars
from support.pages import commands_of
from support.ports import free_port
from support.times import iso, next_millisecond

from pykcoord import cli
from pykcoord.kafka import (
    AuthenticationError,
    ClientProperties,
    Cluster,
    ClusterError,
    NonsenseError,
)
from pykcoord.node.errors import NodeError
from pykcoord.node.joining import look_around
from pykcoord.node.moving import Mover
from pykcoord.server.metrics_listener import serve_metrics
from pykcoord.watch import Watcher, WatchSettings
from pykcoord.watch.metrics import WatchMetrics

from .secured import PASSWORD, SecuredBroker
from .traffic import Member, commit, commit_in_transaction, members, produce

pytestmark = [pytest.mark.java, pytest.mark.client, pytest.mark.timeout(300)]

_PAGE = Path(__file__).parents[2] / "docs" / "kafka.md"
_WAIT_S = 60


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """The broker of all tests here, with groups on it that nobody changes any more."""
    if (reason := jars.missing_tool_chain()) is not None:
        pytest.skip(reason)
    if shutil.which("openssl") is None:
        pytest.skip("no `openssl` on PATH, which makes the broker's certificate")
    with SecuredBroker(tmp_path_factory.mktemp("secured")).running() as broker:
        address = broker.address
        produce(address, "orders", 4, 10)
        commit(address, "simple", {("orders", 0): 4, ("orders", 1): 10})
        commit(address, "hidden", {("secret", 0): 1})
        with members(Member(address, "billing", "orders")):
            pass
        commit(address, "billing", {("orders", 3): 3})
        commit_in_transaction(address, "transactional", ("orders", 2, 7), "commit")
        commit_in_transaction(address, "transactional", ("orders", 2, 9), "abort")
        yield broker


async def _until_equal(watcher: Watcher, count: int) -> None:
    """All groups are as their coordinators say, and none is different on the way."""
    assert watcher.checker is not None
    checks = watcher.checker.counts
    async with asyncio.timeout(120):
        while True:
            before = checks["equal"]
            await watcher.checker.check_some(1000)
            assert checks["different"] == 0
            if checks["equal"] - before >= count:
                return


def test_groups_of_every_kind_are_as_their_coordinators_say(
    secured: SecuredBroker, tmp_path: Path
) -> None:
    address = secured.address
    later = {"group.protocol": "consumer"}

    async def story() -> None:
        settings = WatchSettings.of({"bootstrap.servers": address, "watch.check.interval.ms": "0"})
        watcher = await Watcher.open(settings, tmp_path / "copy")
        running = asyncio.create_task(watcher.run())
        try:
            crew = await asyncio.to_thread(
                lambda: [
                    Member(address, "classic", "orders"),
                    Member(address, "classic", "orders"),
                    Member(address, "static", "orders", **{"group.instance.id": "one"}),
                    Member(address, "later", "orders", **later),
                    Member(address, "later", "orders", **later),
                ]
            )
            stack = members(*crew)
            await asyncio.to_thread(stack.__enter__)
            try:
                await _until_equal(watcher, 7)
                groups = {one.group_id: one for one in watcher.source.groups()}
                kinds = {name: (of.type, len(of.members)) for name, of in groups.items()}
                assert kinds == {
                    "billing": ("classic", 0), "classic": ("classic", 2),
                    "hidden": ("classic", 0), "later": ("consumer", 2), "simple": ("classic", 0),
                    "static": ("classic", 1), "transactional": ("classic", 0),
                }  # fmt: skip
                owned = [one.owned["orders"] for one in groups["later"].members]
                assert sorted(number for of in owned for number in of) == [0, 1, 2, 3]
                await watcher.refresh_ends()
                rows = {row.group.group_id: row for row in watcher.tables().groups}
                assert rows["simple"].lag == 6
                (row,) = rows["transactional"].offsets
                assert (row.committed.offset, row.committed.is_pending) == (7, False)
            finally:
                await asyncio.to_thread(stack.__exit__, None, None, None)
            await _until_equal(watcher, 7)
            assert not running.done()
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await watcher.close()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("protocol", "mechanism"),
    [
        ("SSL", ""),
        ("SASL_PLAINTEXT", "PLAIN"),
        ("SASL_PLAINTEXT", "SCRAM-SHA-256"),
        ("SASL_PLAINTEXT", "OAUTHBEARER"),
        ("SASL_SSL", "SCRAM-SHA-512"),
    ],
)
def test_every_way_in(secured: SecuredBroker, protocol: str, mechanism: str) -> None:
    async def story() -> None:
        properties = ClientProperties.of(secured.properties(protocol, mechanism))
        cluster = await Cluster.open(properties)
        if mechanism:  # without it TLS alone is anonymous
            assert "__consumer_offsets" in cluster.view.topics
        await cluster.close()

    asyncio.run(story())


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_wrong_password(secured: SecuredBroker, mechanism: str) -> None:
    properties = secured.properties("SASL_PLAINTEXT", mechanism)
    properties["sasl.jaas.config"] = properties["sasl.jaas.config"].replace(PASSWORD, "wrong")
    with pytest.raises(AuthenticationError, match=f"{mechanism}: .*[Aa]uthentication") as raised:
        asyncio.run(Cluster.open(ClientProperties.of(properties)))
    assert "wrong" not in str(raised.value)


def test_a_listener_of_another_protocol(secured: SecuredBroker) -> None:
    bootstrap = secured.properties("SSL")["bootstrap.servers"]
    with pytest.raises(NonsenseError, match=r"set security\.protocol=SSL"):
        asyncio.run(Cluster.open(ClientProperties.of({"bootstrap.servers": bootstrap})))
    properties = {**secured.properties("SSL"), "bootstrap.servers": secured.address}
    with pytest.raises(ClusterError):
        asyncio.run(Cluster.open(ClientProperties.of(properties)))
    properties = {"bootstrap.servers": bootstrap, "security.protocol": "SSL"}
    with pytest.raises(AuthenticationError, match="certificate is not trusted"):
        asyncio.run(Cluster.open(ClientProperties.of(properties)))


def test_where_the_log_may_not_be_read_coordinators_are_asked(
    secured: SecuredBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    properties = secured.properties("SASL_PLAINTEXT", "PLAIN", user="poor")

    async def story() -> None:
        watcher = await Watcher.open(WatchSettings.of(properties), tmp_path / "copy")
        try:
            assert watcher.mode == "poll"
            rows = {row.group.group_id: row for row in watcher.tables().groups}
            assert (rows["simple"].lag, rows["simple"].group.state) == (6, "Empty")
            # The topic may not be described: nothing is told of it, and no lag is made up.
            assert rows["hidden"].lag is None
        finally:
            await watcher.close()

    with caplog.at_level(logging.WARNING):
        asyncio.run(story())
    assert "lacks DESCRIBE on the topic __consumer_offsets: groups are asked" in caplog.text
    lines = (tmp_path / "copy" / "polled.jsonl").read_text().splitlines()
    polled = {one["group"]: one for one in map(json.loads, lines)}
    assert ["orders", 0, 4, ""] in polled["simple"]["offsets"]


def _open_as(secured: SecuredBroker, user: str, **more: str) -> Any:
    """A watcher of that principal, in the settings of which `_` is `.`."""
    given = {name.replace("_", "."): value for name, value in more.items()}
    properties = secured.properties("SASL_PLAINTEXT", "PLAIN", user=user)
    return Watcher.open(WatchSettings.of({**properties, **given}), None)


def test_topics_that_may_not_be_described_are_no_difference(
    secured: SecuredBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """OffsetFetch leaves them out."""

    async def story() -> None:
        watcher = await _open_as(secured, "logs", watch_check_interval_ms="0")
        try:
            assert watcher.mode == "log"
            assert "orders" not in watcher.cluster.view.topics
            await _until_equal(watcher, 4)
            rows = {row.group.group_id: row for row in watcher.tables().groups}
            assert rows["simple"].lag is None
            assert {one.why for one in rows["simple"].offsets} == {"topic not visible"}
        finally:
            await watcher.close()

    with caplog.at_level(logging.WARNING):
        asyncio.run(story())
    assert caplog.text == ""


def test_without_DESCRIBE_on_groups_nothing_is_compared(secured: SecuredBroker) -> None:
    async def story() -> None:
        watcher = await _open_as(secured, "blind", watch_check_interval_ms="0")
        try:
            assert watcher.mode == "log"
            assert watcher.checker is not None
            await watcher.checker.check_some(4)
            assert watcher.checker.counts == {"equal": 0, "different": 0, "inconclusive": 4}
        finally:
            await watcher.close()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("user", "does", "said"),
    [
        ("poor", "joins", "needs DESCRIBE on the cluster"),
        ("look", "joins", "needs DESCRIBE_CONFIGS on the cluster and on the topic"),
        ("poor", "plans", "needs DESCRIBE on the topic __consumer_offsets"),
        ("watch", "opens", "ALTER_CONFIGS on the cluster is needed"),
        ("watch", "reassigns", "needs ALTER on the cluster"),
        ("watch", "elects", "needs ALTER on the cluster"),
    ],
)
def test_a_node_and_its_commands_name_the_right_that_is_missing(
    secured: SecuredBroker, user: str, does: str, said: str
) -> None:
    async def story() -> None:
        properties = ClientProperties.of(secured.properties("SASL_PLAINTEXT", "PLAIN", user))
        cluster = await Cluster.open(properties)
        mover = Mover(cluster, 1 if does == "opens" else 9)
        try:
            if does == "joins":
                await look_around(cluster)
            elif does == "opens":
                await mover._open_node(True)
            elif does == "elects":
                await mover._elect([0])
            else:
                moves = await mover.plan(None, takes=True)
                assert does == "reassigns"
                await mover._reassign(moves)
        finally:
            await cluster.close()

    with pytest.raises(NodeError, match=said):
        asyncio.run(story())


def test_what_a_user_sees(
    secured: SecuredBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    properties = secured.properties("SASL_SSL", "PLAIN")
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    asked = ["watch", "--command-config", str(file), "--once"]
    assert cli.run([*asked, "--group", "sim*"]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"^simple +classic +Empty +- +0 +2 +6 ", printed, re.MULTILINE)
    assert re.search(r"^simple +orders +0 +4 +10 +6 +\d", printed, re.MULTILINE)
    assert "hidden" not in printed
    assert cli.run([*asked, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["mode"] == "log"
    assert document["groups"]["simple"]["offsets"]["orders"]["0"]["lag"] == 6
    assert cli.run([*asked, "--set", "watch.groups=x*"]) == 0
    assert "simple" not in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["classic", "consumer"])
def test_offsets_are_restored_by_who_may_do_it(
    secured: SecuredBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    """Over TLS and SASL, from the broker's own log; members are removed where that is forced."""
    group, place = f"mended-{kind}", ("orders", 1)
    commit(secured.address, group, {place: 6})
    good = next_millisecond()
    commit(secured.address, group, {place: 2, ("orders", 2): 1})
    files = {}
    for user in ("watch", "mend"):
        properties = secured.properties("SASL_SSL", "PLAIN", user=user)
        files[user] = tmp_path / f"{user}.properties"
        files[user].write_text("".join(f"{name}={of}\n" for name, of in properties.items()))
    data = secured.broker.directory / "data"
    arguments = ["offsets", "restore", group, str(data), "--at", iso(good)]

    def restored(user: str, *options: str) -> tuple[int, str]:
        code = cli.run([*arguments, "--command-config", str(files[user]), *options])
        return code, capsys.readouterr().err

    consumer = Consumer({
        "bootstrap.servers": secured.address, "group.id": group, "group.protocol": kind,
        "client.id": "worker-1", "enable.auto.commit": False,
    })  # fmt: skip
    assigned = threading.Semaphore(0)

    def until_assigned() -> None:
        for _ in range(240):
            if assigned.acquire(blocking=False):
                return
            consumer.poll(0.5)
        raise AssertionError("not assigned")

    try:
        consumer.subscribe(["orders"], on_assign=lambda _, given: given and assigned.release())
        until_assigned()
        code, said = restored("mend")
        assert code == 1
        assert "has 1 member (worker-1), which would commit over it" in said
        code, said = restored("watch", "--force")
        assert code == 1
        assert "the principal may not READ the group" in said
        assert len(said.splitlines()) == 1
        assert restored("mend", "--force") == (0, "")
        until_assigned()
        asked = consumer.committed([TopicPartition("orders", n) for n in range(4)], timeout=60)
        assert [one.offset for one in asked] == [-1001, 6, -1001, -1001]
    finally:
        consumer.close()


def test_metrics(secured: SecuredBroker) -> None:
    async def story() -> str:
        settings = WatchSettings.of({"bootstrap.servers": secured.address})
        watcher = await Watcher.open(settings, None)
        try:
            with serve_metrics(WatchMetrics(watcher).registry, ("127.0.0.1", free_port())) as url:
                return await asyncio.to_thread(lambda: urllib.request.urlopen(url).read().decode())
        finally:
            await watcher.close()

    text = asyncio.run(story())
    assert 'pykcoord_watch_group_lag{group="simple"} 6.0' in text
    pages = _PAGE.read_text() + (_PAGE.parent / "lag.md").read_text()
    told = set(re.findall(r"^\| `(pykcoord_\w+)`", pages, re.MULTILINE))
    kinds = re.findall(r"^# TYPE (\w+) ", text, re.MULTILINE)
    assert told == set(kinds)


def test_the_commands_of_the_page_do_what_it_says(secured: SecuredBroker, tmp_path: Path) -> None:
    for line in commands_of("docs/kafka.md"):
        if line.startswith("rm "):
            continue
        line = line.replace("localhost:9092", secured.address)
        words = shlex.split(line.replace(":9465", ":0").replace(":8080", ":0"))
        command = [sys.executable, "-m", *words]
        if words[1] != "watch" or "--once" in words:
            done = subprocess.run(
                command, cwd=tmp_path, capture_output=True, text=True, timeout=_WAIT_S, check=False
            )
            assert done.returncode == 0, (line, done.stderr)
            is_told = "billing" in done.stdout or words[2] in ("verify", "compact")
            assert is_told, (line, done.stdout)
            continue
        with subprocess.Popen(
            command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            ready = process.stdout.readline()
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate(timeout=_WAIT_S)
        assert ready.startswith("pykcoord ready watch="), (line, errors)
        assert process.returncode == 0, (line, errors)
