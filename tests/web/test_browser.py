"""The console in a headless Chromium, against a live server, while real clients join, die, commit
and lag: what the page shows is what the coordinator's log says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from kafka import KafkaConsumer
from kafka.structs import OffsetAndMetadata
from kafka.structs import TopicPartition as Place
from support.browser import Browser, until
from support.console import Console
from support.server import PykcoordServer

pytestmark = pytest.mark.client

Served = tuple[PykcoordServer, Console]
_POLL_MS = 600_000
HOSTILE = "<img src=x onerror=\"document.title='owned'\">\u202e\n'\"&"
ROWS = """
    return [...document.querySelectorAll('#groups tr[data-id]')].map((row) => [row.dataset.id,
      ...[...row.querySelectorAll('td')].slice(1).map((cell) => cell.innerText.trim())])
"""
OWNED = """
    const owned = {};
    for (const row of document.querySelectorAll('#members tr')) owned[row.dataset.member] = [];
    const members = Object.keys(owned);
    for (const cell of document.querySelectorAll('#owners .cell')) {
      const place = cell.querySelector('.unseen').textContent.split(': ')[0];
      if (cell.dataset.owner !== '') owned[members[cell.dataset.owner]].push(place);
    }
    return owned
"""
OFFSETS = """
    const numbers = {};
    for (const row of document.querySelectorAll('#offsets tr[data-place]')) {
      const cells = [...row.querySelectorAll('td.number')].map((cell) => cell.innerText.trim());
      const number = (one) => /[0-9]/.test(one) ? Number(one.replaceAll(',', '')) : null;
      numbers[row.dataset.place] = cells.map(number);
    }
    return numbers
"""


class Member:
    """A consumer of kafka-python that polls on a thread of its own. A poll lasts, as a short one
    that ends in the middle of a join loses the assignment (pitfall 21); the library serialises what
    other threads ask meanwhile."""

    def __init__(self, servers: str, group_id: str, client_id: str) -> None:
        self.consumer = KafkaConsumer(
            bootstrap_servers=servers, group_id=group_id, client_id=client_id,
            enable_auto_commit=False, session_timeout_ms=20_000, heartbeat_interval_ms=200,
        )  # fmt: skip
        # Otherwise it may assign before it knows the topic.
        until(lambda: self.consumer.partitions_for_topic("orders"), "the topic is known", 60)
        self.consumer.subscribe(["orders"])
        self._is_leaving = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def commit(self, offset: int) -> None:
        """That offset in all that it owns."""
        owned = self.consumer.assignment()
        self.consumer.commit({place: OffsetAndMetadata(offset, "", -1) for place in owned})

    def leave(self) -> None:
        self._is_leaving = True
        self.consumer.close(autocommit=False)
        self._thread.join(60)

    def _run(self) -> None:
        while not self._is_leaving:
            try:
                self.consumer.poll(timeout_ms=_POLL_MS)
            except Exception:
                if not self._is_leaving:
                    raise


@contextmanager
def _killed_at_the_end(servers: str, group_id: str) -> Iterator[subprocess.Popen[str]]:
    """A member in a process of its own; ready once it has partitions."""
    program = (
        "import sys; from kafka import KafkaConsumer\n"
        "c = KafkaConsumer(bootstrap_servers=sys.argv[1], group_id=sys.argv[2],\n"
        "    client_id='victim', session_timeout_ms=4000, heartbeat_interval_ms=200)\n"
        "while not c.partitions_for_topic('orders'): pass\n"
        "c.subscribe(['orders'])\n"
        "while not c.assignment(): c.poll(timeout_ms=2000)\n"
        "print('ready', flush=True)\n"
        f"while True: c.poll(timeout_ms={_POLL_MS})\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, servers, group_id], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.wait()


def _tables(server: PykcoordServer, group_id: str) -> Any:
    """What the coordinator's log says of a group: read by another process, not by the console."""
    command = [sys.executable, "-m", "pykcoord", "log", "state", os.fspath(server.directory)]
    told = subprocess.run(
        [*command, "--group", group_id, "--json"], capture_output=True, text=True, check=True
    )
    return json.loads(told.stdout)


def _owned_in(tables: Any, group_id: str) -> dict[str, list[str]]:
    return {
        member["memberId"]: sorted(
            f"{topic}-{partition}"
            for topic, partitions in member["assignment"]["partitions"].items()
            for partition in partitions
        )
        for member in tables["groups"][group_id]["members"]
    }


def test_groups_members_and_offsets_as_clients_come_and_go(
    served: Callable[..., Served], window: Browser
) -> None:
    server, console = served()
    ann = Member(server.address, "billing", "ann")
    try:
        window.open(f"{console.url}/")
        window.until(f"return (() => {{{ROWS}}})().some((row) => row[0] === 'billing')")
        window.click("a.row")
        _shown(window, server, members=1)
        bob = Member(server.address, "billing", "bob")
        _shown(window, server, members=2)
        ann.commit(40)
        bob.commit(30)
        _offsets_shown(window, console, server)
        _told(window, "bob at 127.0.0.1 joined")
        bob.leave()
        _shown(window, server, members=1)
        _told(window, "bob at 127.0.0.1 left")
        with _killed_at_the_end(server.address, "billing") as victim:
            _shown(window, server, members=2)
            victim.kill()
            _told(window, "victim at 127.0.0.1 was removed: nothing was heard of it for")
        _shown(window, server, members=1)
        assert _complaints(window, console) == []
    finally:
        ann.leave()


def _told(window: Browser, text: str) -> None:
    window.until("return document.querySelector('#story').innerText.includes(arguments[0])", text)


def _shown(window: Browser, server: PykcoordServer, members: int) -> None:
    """Waits until the page shows so many members that own all, as the log says it too."""

    def agrees() -> bool:
        owned = {one: sorted(of) for one, of in window.run(OWNED).items()}
        if len(owned) != members or sum(map(len, owned.values())) != 6:
            return False
        return owned == _owned_in(_tables(server, "billing"), "billing")

    until(agrees, f"the page shows {members} members as the log has them", 90)


def _offsets_shown(window: Browser, console: Console, server: PykcoordServer) -> None:
    def agrees() -> bool:
        shown = window.run(OFFSETS)
        logged = {
            f"{topic}-{partition}": of["offset"]
            for topic, partitions in _tables(server, "billing")["offsets"]["billing"].items()
            for partition, of in partitions.items()
        }
        lags = [end - at for at, end, _ in shown.values() if at is not None]
        return (
            len(logged) == 6
            and {place: at for place, (at, _, _) in shown.items()} == logged
            and [lag for _, _, lag in shown.values()] == lags
        )

    until(agrees, "the page shows the offsets that the log has", 90)


def test_a_consumer_group_of_librdkafka(served: Callable[..., Served], window: Browser) -> None:
    server, console = served()
    settings = {
        "bootstrap.servers": server.address, "group.id": "fraud", "group.protocol": "consumer",
        "client.id": "rd", "enable.auto.commit": False,
    }  # fmt: skip
    consumer = Consumer(settings)
    consumer.subscribe(["orders"])
    try:
        until(lambda: consumer.poll(0.05) or len(consumer.assignment()) == 6, "assigned", 60)
        consumer.commit(offsets=[TopicPartition("orders", 2, 17)], asynchronous=False)
        window.open(f"{console.url}/group?id=fraud")

        def agrees() -> bool:
            consumer.poll(0.01)
            owned = window.run(OWNED)
            return [len(of) for of in owned.values()] == [6] and window.run(OFFSETS)[
                "orders-2"
            ] == [17, 17, 0]

        until(agrees, "the page shows what librdkafka owns", 60)
        assert "consumer group" in window.text(".group .head")
        assert _complaints(window, console) == []
    finally:
        consumer.close()


def test_a_page_whose_group_has_not_come_yet_says_which_and_that_it_loads(
    served: Callable[..., Served], window: Browser
) -> None:
    _, console = served()
    window.devtools("Network.enable")
    window.devtools("Network.setBlockedURLs", urls=["*/api/group?*"])
    try:
        window.open(f"{console.url}/group?id=fraud")
        assert window.text(".group .head h1") == "fraud"
        assert "Loading" in window.text(".group")
    finally:
        window.devtools("Network.setBlockedURLs", urls=[])
    window.open(f"{console.url}/group?id=fraud")
    window.until("return document.querySelector('.group .notice')")
    assert "Loading" not in window.text(".group")
    window.logged()


def test_how_long_a_partition_is_behind(
    served: Callable[..., Served], window: Browser, tmp_path: Path
) -> None:
    ends = tmp_path / "ends.txt"
    ends.write_text("orders 0 500\norders 1 40\n")
    server, console = served("--end-offsets", os.fspath(ends))
    consumer = KafkaConsumer(
        bootstrap_servers=server.address, group_id="late", enable_auto_commit=False
    )
    consumer.assign([Place("orders", 0), Place("orders", 1)])
    consumer.commit({Place("orders", at): OffsetAndMetadata(40, "", -1) for at in (0, 1)})
    consumer.close(autocommit=False)
    window.open(f"{console.url}/group?id=late")
    behind = "return document.querySelector(`[data-place='orders-${arguments[0]}'] .behind`)"
    window.until(f"{behind}?.innerText.match(/^≥ [1-9][0-9.]* s$/)", 0)
    assert window.run(f"{behind}.innerText", 1) == "0"
    tile = "return document.querySelector('.tile small')?.innerText"
    window.until(f"{tile}.match(/^≥ [1-9][0-9.]* s behind$/)")
    # It is drawn by time, from what the coordinator sampled.
    window.until("return document.querySelector('#offsets .curve')?.textContent.includes('from ')")
    told = console.get("/api/group", id="late")
    assert (told["behind_is_at_least"], told["behind_ms"] > 0) == (True, True)
    assert _complaints(window, console) == []


def test_nothing_that_a_client_says_is_markup(
    served: Callable[..., Served], window: Browser
) -> None:
    server, console = served("--web-admin")
    consumer = KafkaConsumer(
        bootstrap_servers=server.address, group_id=HOSTILE, client_id="<b>bold</b>",
        enable_auto_commit=False,
    )  # fmt: skip
    consumer.assign([Place("orders", 0)])
    consumer.commit({Place("orders", 0): OffsetAndMetadata(1, "<svg onload=alert(1)>", -1)})
    consumer.close(autocommit=False)
    window.open(f"{console.url}/")
    window.until("return document.querySelector('#groups a.row')")
    assert window.run("return document.querySelector('#groups tr').dataset.id") == HOSTILE
    shown = window.text("#groups a.row")
    assert shown.startswith("<img src=x onerror=")
    assert "\\u202e" in shown
    assert "\u202e" not in shown
    window.click("#groups a.row")
    window.until("return document.querySelector('#offsets tr')")
    assert window.run("return document.querySelector('h1').textContent").startswith("<img")
    assert window.run("return document.title") != "owned"
    assert (
        window.run("return document.querySelectorAll('main img, main b b, main script').length")
        == 0
    )
    assert _complaints(window, console) == []
    # And the policy would not have let it: what is written as markup is refused.
    window.run("try { document.body.innerHTML = '<p>' } catch (error) { document.title = 'no' }")
    assert window.run("return document.title") == "no"
    # A group whose id cannot be typed is deleted by a tick.
    window.click("[data-key='Delete group']")
    window.click("dialog input[type=checkbox]")
    window.click("dialog .primary")
    until(lambda: console.get("/api/groups")["total"] == 0, "the group is deleted", 60)


def test_a_change_is_asked_for_by_typing_the_id(
    served: Callable[..., Served], window: Browser
) -> None:
    server, console = served("--web-admin")
    ann = Member(server.address, "billing", "ann")
    try:
        window.open(f"{console.url}/group?id=billing")
        window.until("return document.querySelectorAll('#members tr').length === 1")
        until(lambda: len(ann.consumer.assignment()) == 6, "assigned", 60)
        ann.commit(9)
        window.click("[data-key='Delete group']")
        window.until("return document.querySelector('dialog .primary')?.disabled")
        window.type("dialog input[type=text]", "billin")
        assert window.run("return document.querySelector('dialog .primary').disabled")
        window.type("dialog input[type=text]", "g")
        window.click("dialog .primary")
        assert "NON_EMPTY_GROUP" in window.text("dialog [role=alert]:not([hidden])")
    finally:
        ann.leave()
    until(lambda: console.get("/api/group", id="billing")["members"] == [], "it has left", 60)
    window.click("dialog .primary")
    until(lambda: console.get("/api/groups")["total"] == 0, "the group is deleted", 60)


def test_it_is_used_by_keyboard_on_a_phone_and_in_the_dark(
    served: Callable[..., Served], window: Browser, tmp_path: Path
) -> None:
    server, console = served()
    consumers = []
    for name in ("one", "two", "three"):
        consumer = KafkaConsumer(
            bootstrap_servers=server.address, group_id=name, enable_auto_commit=False
        )
        consumer.assign([Place("orders", 0)])
        consumer.commit({Place("orders", 0): OffsetAndMetadata(1, "", -1)})
        consumers.append(consumer)
    try:
        window.open(f"{console.url}/")
        window.until("return document.querySelectorAll('#groups a.row').length === 3")
        down, enter = "\ue015", "\ue007"
        window.press(down, down, enter)
        window.until("return location.search === '?id=three'")
        window.press("c")
        window.until("return location.pathname === '/cluster'")
        window.until("return document.querySelectorAll('#nodes tr').length === 1")
        window.press("g")
        window.until("return location.pathname === '/'")
        window.press("/", "t", "w")
        window.until("return document.querySelectorAll('#groups a.row').length === 1")
        assert window.run("return document.activeElement.id") == "search"
        window.run("history.back()")
        window.until("return document.querySelectorAll('#groups a.row').length === 3")
        ground = "return getComputedStyle(document.body).backgroundColor"
        window.prefers("light")
        light = window.run(ground)
        window.prefers("dark")
        window.until(f"{ground} !== arguments[0]", light)
        window.size(390, 844, scale=2, phone=True)
        for path in ("/", "/group?id=one", "/cluster"):
            window.open(f"{console.url}{path}")
            window.until(
                "return document.querySelector('h1') && document.querySelector('.rows tbody tr')"
            )
            wide = (
                "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
            )
            assert window.run(wide) <= 0, path
        assert _complaints(window, console) == []
    finally:
        window.devtools("Emulation.clearDeviceMetricsOverride")
        for consumer in consumers:
            consumer.close(autocommit=False)


def test_a_browser_signs_in(served: Callable[..., Served], window: Browser, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("correct-horse-battery\n")
    token.chmod(0o600)
    _, console = served("--web-token-file", os.fspath(token))
    window.open(f"{console.url}/")
    window.until("return location.pathname === '/login'")
    window.type("#token", "wrong\ue007")
    window.until("return !document.querySelector('#error').hidden")
    assert window.text("#error") == "That is not the token."
    window.type("#token", "correct-horse-battery\ue007")
    window.until("return document.querySelector('#total')?.textContent === '0 groups'")
    window.click("#logout")
    window.until("return location.pathname === '/login'")


def _complaints(window: Browser, console: Console) -> list[str]:
    """Errors of scripts, and what the policy or the server refused; on pages of this console."""
    return [
        one["message"]
        for one in window.logged()
        if one["level"] in ("SEVERE", "WARNING") and console.url in one["message"]
    ]


def test_the_page_of_the_cluster_marks_the_controller(tmp_path: Path, window: Browser) -> None:
    arguments = ["--nodes", "2", "--web", "127.0.0.1:0"]
    with PykcoordServer(tmp_path / "data", arguments=arguments) as server:
        url = next(
            line.split()[-1] for line in server.stderr().splitlines() if "console on" in line
        )
        window.open(f"{url}cluster")
        window.until("return document.querySelectorAll('#nodes tr').length === 2")
        names = "return [...document.querySelectorAll('#nodes .name')].map((one) => one.innerText)"
        assert [name.split()[1:] for name in window.run(names)] == [
            ["node", "1", "controller"], ["node", "2"],
        ]  # fmt: skip
