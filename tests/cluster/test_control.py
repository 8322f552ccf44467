"""The control port: who does not know the secret of a cluster gives no orders, and both sides say
so."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from support.members import Members, probing, spread

from pykcoord.cli import commands
from pykcoord.cluster.asking import AskClient, MalformedError, serve_asks
from pykcoord.cluster.looking import read_cluster
from pykcoord.cluster.secret import DifferentSecretError, SecretError, check_secret
from pykcoord.errors import KcoordError
from pykcoord.log.shared import FolderStore

SECRET, OTHER = "a" * 20, "b" * 20
ASK = (3, 1, 5, [(0, 2)])
ANSWER = (7, 1, 3, 42, True, False, [(0, 2, 41)])
SECONDS = 60.0


async def asked(
    of: str | None, by: str | None, caplog: pytest.LogCaptureFixture, times: int = 1
) -> list[tuple[Any, ...]]:
    """What a node with the secret `of` answers one with the secret `by`; what it heard is ASK."""
    heard = []

    def answer(ask: tuple[Any, ...], topics: int) -> tuple[tuple[Any, ...], int]:
        heard.append(ask)
        return ANSWER, topics + 1

    server = await serve_asks(("127.0.0.1", 0), answer, of)
    client = AskClient("127.0.0.1", server.sockets[0].getsockname()[1], by)
    try:
        answers = [await client.ask(ASK, SECONDS, 4) for _ in range(times)]
        assert heard == [ASK] * times
        return answers
    except SecretError:
        async with asyncio.timeout(SECONDS):
            while not caplog.records:
                await asyncio.sleep(0.01)
        assert heard == []
        raise
    finally:
        client.close()
        server.close()


@pytest.mark.parametrize("secret", [None, SECRET])
def test_who_knows_the_secret_is_answered(
    secret: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    assert asyncio.run(asked(secret, secret, caplog, 3)) == [(ANSWER, 5)] * 3


@pytest.mark.parametrize(
    ("of", "by", "asker_hears", "asked_says"),
    [
        (SECRET, OTHER, "it has another secret", "it has another secret"),
        (SECRET, None, "it has a secret, and this node has none", "it has no secret"),
        (None, SECRET, "it has no secret, and this node has one", "it has a secret"),
    ],
)
def test_who_does_not_know_it_is_refused_and_both_sides_say_so(
    of: str | None,
    by: str | None,
    asker_hears: str,
    asked_says: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING), pytest.raises(SecretError, match=asker_hears):
        asyncio.run(asked(of, by, caplog))
    (said,) = [one.getMessage() for one in caplog.records if one.name == "pykcoord.cluster"]
    assert said.startswith("a node at 127.0.0.1 was refused at the control port: " + asked_says)


@pytest.mark.parametrize("secret", [None, SECRET])
def test_what_is_asked_before_the_answer_to_another_comes_is_answered_after_it(
    secret: str | None,
) -> None:
    """A node that is late asks again when the time for the first answer is up."""

    async def both() -> Any:
        server = await serve_asks(
            ("127.0.0.1", 0), lambda ask, topics: ((*ANSWER[:-1], ask[3]), topics), secret
        )
        client = AskClient("127.0.0.1", server.sockets[0].getsockname()[1], secret)
        try:
            asks = [(*ASK[:-1], [(0, number)]) for number in range(3)]
            return await asyncio.gather(*(client.ask(ask, SECONDS) for ask in asks))
        finally:
            client.close()
            server.close()

    assert [answer[-1] for answer, _ in asyncio.run(both())] == [[(0, 0)], [(0, 1)], [(0, 2)]]


@pytest.mark.parametrize("secret", [None, SECRET])
def test_any_node_tells_another_what_it_knows_of_ends(secret: str | None) -> None:
    async def ends() -> Any:
        server = await serve_asks(
            ("127.0.0.1", 0),
            lambda ask, topics: (ANSWER, topics),
            secret,
            lambda wanted: {topic: [7 for _ in some] for topic, some in wanted.items()},
        )
        client = AskClient("127.0.0.1", server.sockets[0].getsockname()[1], secret)
        try:
            first = await client.ends({"orders": [0, 3]}, SECONDS)
            answer, _ = await client.ask(ASK, SECONDS)
            return first, answer, await client.ends({}, SECONDS)
        finally:
            client.close()
            server.close()

    assert asyncio.run(ends()) == ({"orders": [7, 7]}, ANSWER, {})


async def between(change: Any) -> list[tuple[Any, ...]]:
    """Two asks over somebody who hands lines on as `change` gives them."""
    heard: list[tuple[Any, ...]] = []

    def answer(ask: tuple[Any, ...], topics: int) -> tuple[tuple[Any, ...], int]:
        heard.append(ask)
        return ANSWER, topics

    server = await serve_asks(("127.0.0.1", 0), answer, SECRET)

    async def hand_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back, there = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])

        async def answers() -> None:
            while line := await back.readline():
                writer.write(line)

        answering = asyncio.ensure_future(answers())
        number = 0
        while line := await reader.readline():
            for changed in change(number, line):
                there.write(changed)
            number += 1
        there.close()
        answering.cancel()
        writer.close()

    middle = await asyncio.start_server(hand_on, "127.0.0.1", 0)
    client = AskClient(*middle.sockets[0].getsockname()[:2], SECRET)
    try:
        for _ in range(2):
            await client.ask(ASK, SECONDS)
    except (SecretError, OSError):
        pass
    finally:
        client.close()
        middle.close()
        server.close()
    return heard


def test_a_line_that_was_changed_or_is_sent_again_is_not_obeyed() -> None:
    def as_it_is(number: int, line: bytes) -> list[bytes]:
        return [line]

    def changed(number: int, line: bytes) -> list[bytes]:
        return [line.replace(b"[3, 1, 5", b"[4, 1, 5")]

    def twice(number: int, line: bytes) -> list[bytes]:
        return [line, line] if number == 1 else [line]

    assert asyncio.run(between(as_it_is)) == [ASK, ASK]
    assert asyncio.run(between(changed)) == []
    assert asyncio.run(between(twice)) == [ASK]


LINES = {
    "no JSON": b"GET / HTTP/1.1",
    "no object": b"[1, 2]",
    "deep": b"[" * 100_000,
    "another format": b'{"format": 9, "ask": [3, 1, 5, []]}',
    "no fields": b'{"format": 1, "ask": 7}',
    "too few": b'{"format": 1, "ask": [3]}',
    "shards are none": b'{"format": 1, "ask": [3, 1, 5, [7]]}',
    "partitions are none": b'{"format": 1, "ends": {"orders": ""}}',
    "no such partition": b'{"format": 1, "ends": {"orders": [4294967296]}}',
    "no such name": b'{"format": 1, "ends": {"\\ud800": [0]}}',
    "no greeting": b'{"format": 2, "hello": "\\ud800"}',
}


@pytest.mark.parametrize("line", LINES.values(), ids=LINES.keys())
def test_what_cannot_be_read_is_refused_with_a_line_and_is_no_fault_of_the_node(
    line: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    heard, failed = [], []

    def answer(ask: tuple[Any, ...], topics: int) -> tuple[tuple[Any, ...], int]:
        heard.append(ask)
        return ANSWER, topics

    def tell_ends(wanted: Any) -> Any:
        heard.append(wanted)
        return wanted

    async def said() -> None:
        server = await serve_asks(
            ("127.0.0.1", 0), answer, SECRET if b"hello" in line else None, tell_ends, None,
            failed.append,
        )  # fmt: skip
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
        writer.write(line + b"\n")
        async with asyncio.timeout(SECONDS):
            if b"hello" in line:  # it is answered, and proves nothing
                await reader.readline()
                writer.write(b'{"format": 2, "ask": [], "topics": 0, "proof": "\\ud800"}\n')
            await reader.read()
        writer.close()
        server.close()

    asyncio.run(said())
    assert (heard, failed) == ([], [])
    (told,) = [one.getMessage() for one in caplog.records if one.name == "pykcoord.cluster"]
    assert told.startswith("a node at 127.0.0.1 was refused at the control port: "), told


def test_a_fault_in_what_answers_is_one_of_the_node(caplog: pytest.LogCaptureFixture) -> None:
    failed: list[BaseException] = []

    def answer(ask: tuple[Any, ...], topics: int) -> tuple[tuple[Any, ...], int]:
        raise TypeError("a fault")

    async def asks() -> None:
        server = await serve_asks(("127.0.0.1", 0), answer, failed=failed.append)
        client = AskClient("127.0.0.1", server.sockets[0].getsockname()[1])
        with pytest.raises(OSError, match="closed the connection"):
            await client.ask(ASK, SECONDS)
        server.close()

    asyncio.run(asks())
    assert [repr(one) for one in failed] == ["TypeError('a fault')"]


@pytest.mark.parametrize("told", [{"t": [7]}, {"t": [7, 8, 9]}, {"other": [7, 8]}])
def test_ends_of_other_partitions_than_were_asked_for_are_refused(
    told: dict[str, list[int]],
) -> None:
    """They were taken by a callback of the loop, and what that raises ends a node."""

    async def asks() -> None:
        server = await serve_asks(("127.0.0.1", 0), lambda *_: (ANSWER, 1), None, lambda _: told)
        client = AskClient("127.0.0.1", server.sockets[0].getsockname()[1])
        with pytest.raises(MalformedError):
            await client.ends({"t": [0, 2]}, SECONDS)
        client.close()
        server.close()

    asyncio.run(asks())


def test_the_store_says_which_secret_the_cluster_has(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    check_secret(store, "LOCATION", None)
    check_secret(store, "LOCATION", SECRET)
    check_secret(store, "LOCATION", SECRET)
    with pytest.raises(DifferentSecretError, match="LOCATION: the secret of this node is not that"):
        check_secret(store, "LOCATION", OTHER)
    with pytest.raises(DifferentSecretError, match="this one has none: give it theirs"):
        check_secret(store, "LOCATION", None)
    assert SECRET not in (tmp_path / "secret").read_text()


def refusal(*arguments: str) -> str:
    told = CliRunner().invoke(commands, ["serve", *arguments])
    assert told.exit_code == 2
    return " ".join(told.output.split())


def test_a_control_port_that_others_reach_wants_a_secret(tmp_path: Path) -> None:
    store = ("--cluster", str(tmp_path / "store"))
    assert "--control 10.0.0.1:0 can be reached from other machines" in refusal(
        *store, "--listen", "10.0.0.1:9092"
    )
    assert "cannot connect to 0.0.0.0" in refusal(
        *store, "--listen", "0.0.0.0:9092", "--advertise", "one:9092"
    )
    assert "--control... and --secret-file are options of --cluster" in refusal(
        "--control", "127.0.0.1:9192"
    )
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("option", ["--listen", "--control", "--metrics"])
def test_a_port_that_is_taken_is_named_and_nothing_is_joined(option: str, tmp_path: Path) -> None:
    options = {"--listen": "127.0.0.1:0", "--control": "127.0.0.1:0", "--metrics": "127.0.0.1:0"}
    with socket.create_server(("127.0.0.1", 0)) as taken:
        options[option] = f"127.0.0.1:{taken.getsockname()[1]}"
        words = [word for one in options.items() for word in one]
        told = CliRunner().invoke(commands, ["serve", "--cluster", str(tmp_path / "store"), *words])
        assert isinstance(told.exception, KcoordError)
        assert str(told.exception) == (
            f"{option} {options[option]}: address already in use; take another port, or 0 for a "
            "free one"
        )
    assert not (tmp_path / "store" / "cluster").exists()


@pytest.fixture
def members(tmp_path: Path) -> Iterator[Members]:
    made = Members(tmp_path, 2)
    try:
        yield made
    finally:
        made.close()


def secret_file(tmp_path: Path, name: str, secret: str) -> tuple[str, str]:
    path = tmp_path / name
    path.write_text(secret + "\n")
    path.chmod(0o600)
    return "--secret-file", str(path)


@pytest.mark.client
@pytest.mark.crash
def test_nodes_with_a_secret_serve_and_one_with_another_ends_with_a_line_on_both_sides(
    members: Members, tmp_path: Path
) -> None:
    right = secret_file(tmp_path, "right", SECRET)
    for node in (1, 2):
        members.start(node, *right)
    with probing(members):
        spread(members)
        command = [
            sys.executable, "-m", "pykcoord", "serve", "--cluster", str(members.folder),
            "--listen", "127.0.0.1:0", "--set", "node.id=3",
        ]  # fmt: skip
        wrong = subprocess.run(
            [*command, *secret_file(tmp_path, "wrong", OTHER)], capture_output=True, text=True,
            timeout=60,
        )  # fmt: skip
        assert wrong.returncode == 1
        assert "the secret of this node is not that of the cluster" in wrong.stderr
        said = "was refused at the control port: it has another secret than this node"
        for node in (1, 2):
            members.wait(
                lambda node=node: any(said in line for line in members.lines[node]), "it says so"
            )
        assert [one.node_id for one in read_cluster(str(members.folder)).nodes] == [1, 2]


@pytest.mark.client
@pytest.mark.crash
def test_a_node_with_a_secret_does_not_enter_among_nodes_that_have_none(
    members: Members, tmp_path: Path
) -> None:
    """It would leave the check of its secret in the store, and no other node could start again."""
    members.start(1)
    told = subprocess.run(
        [
            sys.executable, "-m", "pykcoord", "serve", "--cluster", str(members.folder),
            "--listen", "127.0.0.1:0", "--set", "node.id=3",
            *secret_file(tmp_path, "secret", SECRET),
        ], capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert told.returncode == 1, told.stdout
    assert "the nodes of this cluster have no secret (node 1 at 127.0.0.1:" in told.stderr
    assert "start it without --secret-file; or stop all nodes" in told.stderr
    assert not (members.folder / "secret").exists()
    assert [one.node_id for one in read_cluster(str(members.folder)).nodes] == [1]
    members.kill(1)
    members.start(1, *secret_file(tmp_path, "secret", SECRET))  # nobody serves without


@pytest.mark.parametrize("folder", ["/proc/none", "made/within/a-file"])
def test_a_folder_that_cannot_be_made_is_named_and_not_the_address(
    folder: str, tmp_path: Path
) -> None:
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "within").touch()
    location = str(tmp_path / folder)
    told = CliRunner().invoke(commands, ["serve", "--cluster", location, "--listen", "127.0.0.1:0"])
    assert told.exit_code == 1
    assert location in str(told.exception)
    assert "--listen" not in str(told.exception)


def test_an_address_of_no_known_store_is_refused() -> None:
    told = CliRunner().invoke(
        commands, ["serve", "--cluster", "ftp://one/groups", "--listen", "127.0.0.1:0"]
    )
    assert isinstance(told.exception, KcoordError)
    assert str(told.exception) == (
        "ftp://one/groups: no store that is known: a folder, or s3://, gs://, az://"
    )


@pytest.mark.client
def test_a_node_tells_prometheus_what_it_leads_and_its_log_why(
    members: Members, tmp_path: Path
) -> None:
    from urllib.request import urlopen

    from support.ports import free_port

    at = free_port()
    members.start(1, "--metrics", f"127.0.0.1:{at}", "--log-format", "json")

    def metrics() -> dict[str, float]:
        with urlopen(f"http://127.0.0.1:{at}/metrics", timeout=60) as answer:
            lines = answer.read().decode().splitlines()
        rows = [line.rsplit(" ", 1) for line in lines if not line.startswith("#")]
        return {name: float(value) for name, value in rows}

    with probing(members):
        found = metrics()
        assert found["pykcoord_shards_led"] == 6
        assert found['pykcoord_takeovers_total{cause="start"}'] == 6
        assert (found["pykcoord_controller"], found["pykcoord_cluster_nodes"]) == (1, 1)
        # Of a machine that is busy it may just have run out.
        members.wait(lambda: 0 < metrics()["pykcoord_lease_left_seconds"] <= 0.5, "it has a lease")
        assert found["pykcoord_rounds_total"] > 0
        assert found['pykcoord_store_calls_total{call="create"}'] > 0
        assert found["pykcoord_takeover_seconds_count"] == 6
        assert found["pykcoord_fenced_total"] == 0
        members.start(2)
        members.wait(lambda: metrics()["pykcoord_shards_led"] == 3, "half of them move")
        members.kill(2)
        members.wait(
            lambda: metrics().get('pykcoord_takeovers_total{cause="takeover"}') == 3,
            "it has taken them over",
        )

        def events() -> list[dict[str, Any]]:
            return [json.loads(line) for line in [*members.lines[1]] if line.startswith("{")]

        def shards() -> Counter[Any]:
            told: Counter[Any] = Counter()
            for one in events():
                told[one.get("event"), one.get("cause")] += len(one.get("shards", [None]))
            return told

        told = {("takeover", "start"): 6, ("released", None): 3, ("takeover", "takeover"): 3}
        told["fence", None] = 1
        members.wait(lambda: told.items() <= shards().items(), "its log tells of each")
    lines = [one for one in events() if one.get("event") in ("takeover", "released")]
    assert len(lines) <= 5, "one for those that came or went together"
    assert all(len(one["epochs"]) == len(one["shards"]) for one in lines)
    (last,) = [one for one in lines if one.get("cause") == "takeover"][-1:]
    assert last["ms"] >= 0
    assert last["message"].startswith("leads shards ")
