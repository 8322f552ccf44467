"""`pykcoord serve`: its ready line, its end, its metrics and logs, and its refusals."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata
from support import segments
from support.server import PykcoordServer
from support.waiting import SECONDS

from .conftest import Result

READY = re.compile(
    r"pykcoord ready listen=127\.0\.0\.1:\d+ shards=50 groups=0 offsets=0 load_ms=\d+\n"
)
OPERATING = Path(__file__).parents[2] / "docs/operating.md"


def _serve(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "pykcoord", "serve", *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def _commit(address: str, seconds: float = SECONDS) -> None:
    consumer = KafkaConsumer(bootstrap_servers=address, group_id="g", enable_auto_commit=False)
    with contextlib.closing(consumer):
        offsets = {TopicPartition("orders", 0): OffsetAndMetadata(1, "", -1)}
        consumer.commit(offsets, timeout_ms=1_000 * seconds)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_ready_is_one_line_and_a_signal_ends_it_cleanly(
    number: signal.Signals, tmp_path: Path
) -> None:
    process = _serve(tmp_path / "data", "--listen", "127.0.0.1:0", "--topic", "orders:12")
    assert process.stdout is not None
    line = process.stdout.readline()
    process.send_signal(number)
    out, err = process.communicate(timeout=SECONDS)
    assert READY.fullmatch(line), line + err
    assert (process.returncode, out) == (0, "")


def test_what_a_start_made_is_not_looked_at_again_by_the_collector(tmp_path: Path) -> None:
    """It took 15 ms each time, in which no heartbeat was answered."""
    code = (
        "import atexit, gc, sys; from pykcoord import cli;"
        "atexit.register(lambda: print(gc.get_freeze_count(), len(gc.get_objects())));"
        f"sys.argv[1:] = ['serve', {str(tmp_path / 'data')!r}, '--listen', '127.0.0.1:0'];"
        "cli.main()"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    process.terminate()
    frozen, others = map(int, process.communicate(timeout=SECONDS)[0].split())
    assert frozen > 20_000
    assert others < frozen / 10


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone says whether it does")
def test_a_server_takes_no_huge_pages_while_it_serves(tmp_path: Path) -> None:
    """To get one stops the loop for milliseconds."""
    with PykcoordServer(tmp_path / "data") as server:
        assert "THP_enabled:\t0\n" in Path(f"/proc/{server.pid}/status").read_text()


def test_a_signal_while_it_starts_ends_it_cleanly(tmp_path: Path) -> None:
    """As soon as the lock is taken, which is before the log is read."""
    process = _serve(tmp_path / "data", "--listen", "127.0.0.1:0")
    while not (tmp_path / "data/.lock").exists():
        assert process.poll() is None
        time.sleep(0.001)
    process.terminate()
    _, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, err


def test_damage_is_refused_or_cut_as_the_operator_says(tmp_path: Path) -> None:
    data = segments.unpack(segments.OWN / "torn-1-flipped-middle", tmp_path / "data")
    arguments = [data, "--listen", "127.0.0.1:0", "--set", "offsets.topic.num.partitions=1"]
    refused = _serve(*arguments)
    out, err = refused.communicate(timeout=SECONDS)
    assert (refused.returncode, out) == (1, "")
    assert "byte 51302, offset 508: the CRC of the batch is wrong" in err
    cut = _serve(*arguments, "--on-corruption", "truncate")
    assert cut.stdout is not None
    line = cut.stdout.readline()
    cut.terminate()
    _, err = cut.communicate(timeout=SECONDS)
    found = segments.expected(data)
    groups = sum(group["type"] == "classic" for group in found["groups"].values())
    offsets = sum(len(of) for topics in found["offsets"].values() for of in topics.values())
    assert f" shards=1 groups={groups} offsets={offsets} " in line
    assert "20851 bytes cut; kept as " in err
    assert sum(path.stat().st_size for path in data.rglob("*.corrupt-1")) == 20851


def test_a_second_server_is_kept_out(tmp_path: Path) -> None:
    with PykcoordServer(tmp_path / "data") as server:
        second = _serve(tmp_path / "data", "--listen", "127.0.0.1:0")
        out, err = second.communicate(timeout=SECONDS)
        assert f"in use by process {server.pid}" in err
    assert (second.returncode, out) == (1, "")
    assert len(err.splitlines()) == 1


def test_a_server_whose_directory_was_taken_over_ends_and_says_so(tmp_path: Path) -> None:
    """Somebody deleted the lock's file, so that a second process was let in."""
    arguments = [tmp_path / "data", "--listen", "127.0.0.1:0", "--topic", "orders:1"]
    first = _serve(*arguments, "--set", "offsets.topic.num.partitions=5")
    assert first.stdout is not None
    address = re.findall(r"listen=(\S+)", first.stdout.readline())[0]
    (tmp_path / "data/.lock").unlink()
    with PykcoordServer(tmp_path / "data") as second:
        _commit(second.address)
        with pytest.raises(KafkaError):
            _commit(address, 3)
        _, err = first.communicate(timeout=SECONDS)
    assert first.returncode == 1
    last = err.splitlines()[-1]
    assert last.startswith(f"pykcoord: {tmp_path / 'data'}")
    assert "the .lock file was deleted or replaced while the directory was in use" in last


def test_a_server_ends_when_its_directory_is_moved_away(tmp_path: Path) -> None:
    """Nothing is asked of it meanwhile: it looks by itself."""
    first = _serve(tmp_path / "data", "--listen", "127.0.0.1:0", "--topic", "orders:1")
    assert first.stdout is not None
    assert READY.fullmatch(first.stdout.readline())
    (tmp_path / "data").rename(tmp_path / "elsewhere")
    _, err = first.communicate(timeout=SECONDS)
    assert first.returncode == 1
    assert err == (
        f"pykcoord: {tmp_path / 'data'}: the directory was moved away or deleted while it was in "
        "use; put it back, or restore it from a copy, and start again\n"
    )
    assert not (tmp_path / "data").exists()


def test_of_two_servers_under_one_name_only_the_second_acknowledges(tmp_path: Path) -> None:
    arguments = [tmp_path / "data", "--listen", "127.0.0.1:0", "--topic", "orders:1"]
    first = _serve(*arguments)
    assert first.stdout is not None
    address = re.findall(r"listen=(\S+)", first.stdout.readline())[0]
    first.send_signal(signal.SIGSTOP)  # or it looks before there is a second
    (tmp_path / "data").rename(tmp_path / "elsewhere")
    with PykcoordServer(tmp_path / "data", arguments=["--topic", "orders:1"]) as second:
        first.send_signal(signal.SIGCONT)
        with pytest.raises(KafkaError):
            _commit(address, 3)
        _commit(second.address)
    _, err = first.communicate(timeout=SECONDS)
    assert first.returncode == 1
    assert "another directory stands here than the one that was in use" in err.splitlines()[-1]


def test_metrics_are_served_and_documented(tmp_path: Path) -> None:
    server = PykcoordServer(tmp_path / "data", arguments=["--metrics", "127.0.0.1:0"])
    with server:
        url = re.search(r"metrics on (\S+)", server.stderr())
        assert url is not None, server.stderr()
        with urllib.request.urlopen(url[1], timeout=SECONDS) as response:
            text = response.read().decode()
    served = set(re.findall(r"^# TYPE (pykcoord_\w+) ", text, re.MULTILINE))
    served = {name for name in served if not name.endswith("_created")}
    assert 'pykcoord_groups{state="stable"} 0.0' in text
    pages = OPERATING.read_text() + (OPERATING.parent / "lag.md").read_text()
    assert served == set(re.findall(r"^\| `(pykcoord_\w+)", pages, re.MULTILINE))


def test_logs_as_json(tmp_path: Path) -> None:
    arguments = ["--log-format", "json", "--set", "log.cleaner.threads=1"]
    server = PykcoordServer(tmp_path / "data", arguments=arguments)
    with server:
        pass
    lines = [json.loads(line) for line in server.stderr().splitlines()]
    assert [line["event"] for line in lines] == ["config", "stop"]
    assert lines[0]["level"] == "warning"
    assert lines[0]["message"] == "log.cleaner.threads is ignored: pykcoord does not need it"


def test_settings_come_from_a_file_and_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("# Kafka's\nlisteners=PLAINTEXT://:9092\nnode.id = 7\n")
    server = PykcoordServer(tmp_path / "data", arguments=["--config", str(file)])
    with server:
        assert server.ready["shards"] == server.settings["offsets.topic.num.partitions"]
    assert "listeners is ignored: use --listen" in server.stderr()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--set", "group.max.sise=3"], 2, "--set group.max.sise: unknown name; did you mean "),
        (["--set", "group.max.size=0"], 2, "--set group.max.size: 0 is too small"),
        (["--set", "=3"], 2, "--set =3: write it as key=value"),
        (["--set", "group.max.size"], 2, "--set group.max.size: write it as key=value"),
        (["--topic", "orders"], 2, "'orders' is not NAME:PARTITIONS, such as orders:12"),
        (["--topic", "or ders:3"], 2, "'--topic': 'or ders' is no topic name"),
        (["--topic", "orders:0"], 2, "'--topic': 0 is not between 1 and 10000"),
        (["--topic", "a:3", "--topic", "a:4"], 2, "--topic a:3 and a:4: which of them?"),
        (["--listen", "localhost"], 2, "'localhost' is not HOST:PORT"),
        (["--listen", "127.0.0.1:70000"], 2, "no port from 0 to 65535"),
        (["--listen", "0.0.0.0:0"], 2, "needs --advertise HOST:PORT"),
        (["--advertise", "localhost:0"], 2, "no port from 1 to 65535"),
        (["--config", "no.such.file"], 2, "does not exist"),
        (["--flush", "never"], 2, "'never' is not one of 'commit', 'interval', 'os'"),
    ],
)
def test_wrong_usage_is_one_line(
    arguments: list[str], code: int, message: str, tmp_path: Path, pykcoord: Callable[..., Result]
) -> None:
    directory = tmp_path / "data"
    result = pykcoord("serve", directory, "--listen", "127.0.0.1:0", *arguments)
    assert (result.code, result.out, len(result.err.splitlines())) == (code, "", 1)
    assert message in result.err
    assert not directory.exists()


def test_a_topic_that_would_shrink_is_told_with_its_directory(
    tmp_path: Path, pykcoord: Callable[..., Result]
) -> None:
    data = tmp_path / "data"
    with PykcoordServer(data, topics={"orders": 4}):
        pass
    arguments = ["--set", "offsets.topic.num.partitions=5", "--topic", "orders:3"]
    result = pykcoord("serve", data, "--listen", "127.0.0.1:0", *arguments)
    assert (result.code, result.out) == (1, "")
    assert f"--topic: {data}: topic orders has 4 already; it cannot shrink to 3; " in result.err


def test_an_address_in_use_is_told_by_its_option(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = _serve(tmp_path / "data", "--listen", f"127.0.0.1:{port}")
        _, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 1
    assert f"pykcoord: --listen 127.0.0.1:{port}: address already in use; take another" in err
    assert len(err.splitlines()) == 1


def test_an_address_of_another_machine_names_the_option_for_clients(
    tmp_path: Path, pykcoord: Callable[..., Result]
) -> None:
    result = pykcoord("serve", tmp_path / "data", "--listen", "192.0.2.1:9092")
    assert (result.code, result.out) == (1, "")
    assert "--listen 192.0.2.1:9092: no address of this machine; " in result.err
    assert "where clients are told to connect is --advertise" in result.err


def test_a_library_that_is_missing_is_one_line(
    monkeypatch: pytest.MonkeyPatch, pykcoord: Callable[..., Result]
) -> None:
    monkeypatch.delitem(sys.modules, "pykcoord.log.shared.object_store", raising=False)
    monkeypatch.setitem(sys.modules, "obstore.exceptions", None)
    for arguments in (["serve", "--cluster", "s3://bucket/x"], ["cluster", "state", "s3://b/x"]):
        result = pykcoord(*arguments)
        assert (result.code, result.out) == (1, "")
        assert result.err.startswith("pykcoord: a log in an object store needs obstore: pip ")
        assert len(result.err.splitlines()) == 1
