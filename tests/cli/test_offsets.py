"""`pykcoord offsets` on logs that a coordinator wrote, and against a running one."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as TopicPartitionOfRd
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.structs import OffsetAndMetadata
from support import segments
from support.asked import Asked
from support.certificates import make_certificate
from support.ports import free_port
from support.proxy import Proxy
from support.server import PykcoordServer
from support.times import iso, next_millisecond
from support.waiting import eventually
from support.written import WrittenLog

from pykcoord import Coordinator
from pykcoord.clock import Clock, monotonic_seconds
from pykcoord.kafka import running_group
from pykcoord.log import LogReader, Past
from pykcoord.log.copied_directory import WATCH_FILE
from pykcoord.offset_history import changes, offsets_at
from pykcoord.records import partition_of

from .conftest import Result

Run = Callable[..., Result]
GROUP = "billing"


def shown(pykcoord: Run, path: Path, *options: str) -> dict[tuple[str, int], int]:
    result = pykcoord("offsets", "show", GROUP, path, "--json", *options)
    assert result.code == 0, result.err
    rows = json.loads(result.out)["offsets"]
    return {(row["topic"], row["partition"]): row["offset"] for row in rows}


@pytest.fixture
def written(tmp_path: Path) -> tuple[Path, list[int]]:
    """Times behind the commits of (10), (20, 5), (3)."""
    directory, times = tmp_path / "data", []
    with Coordinator(directory, topics={"orders": 2}) as coordinator:
        for commits in ({0: 10}, {0: 20, 1: 5}, {0: 3}):
            with coordinator.join(GROUP, topics=["orders"]) as member:
                member.commit({("orders", partition): at for partition, at in commits.items()})
            times.append(next_millisecond())
    return directory, times


def test_offsets_of_each_time(written, pykcoord):
    directory, (first, second, third) = written
    assert shown(pykcoord, directory, "--at", iso(first)) == {("orders", 0): 10}
    assert shown(pykcoord, directory, "--at", iso(second)) == {("orders", 0): 20, ("orders", 1): 5}
    now = {("orders", 0): 3, ("orders", 1): 5}
    assert shown(pykcoord, directory, "--at", iso(third)) == now
    assert shown(pykcoord, directory) == now
    assert shown(pykcoord, directory, "--at", "1d") == {}


def test_a_table_for_people(written, pykcoord):
    directory, (_, second, _) = written
    result = pykcoord("offsets", "show", GROUP, directory, "--at", iso(second))
    assert (result.code, result.err) == (0, "")
    title, header, *rows = result.out.splitlines()
    assert title.startswith(f"Offsets of {GROUP} at ")
    assert header.split() == [
        "topic", "partition", "offset", "leader-epoch", "committed", "metadata"
    ]  # fmt: skip
    assert [row.split()[:3] for row in rows] == [["orders", "0", "20"], ["orders", "1", "5"]]


def test_what_changed_between_two_times(written, pykcoord):
    directory, (first, second, third) = written
    found = pykcoord("offsets", "diff", GROUP, directory, "--from", iso(first), "--json")
    changes_found = json.loads(found.out)["changes"]
    when = [one.pop("changed") for one in changes_found]
    assert second < when[0] < third
    assert first < when[1] < second
    assert changes_found == [
        {"topic": "orders", "partition": 0, "before": 10, "after": 3},
        {"topic": "orders", "partition": 1, "before": None, "after": 5},
    ]
    table = pykcoord(
        "offsets", "diff", GROUP, directory, "--from", iso(second), "--to", iso(third)
    ).out.splitlines()
    assert table[2].split() == [
        "orders",
        "0",
        "20",
        "3",
        "-17",
        iso(when[0]).replace("+00:00", "Z"),
    ]
    assert table[3] == "1 partition without a change"
    wrong = pykcoord("offsets", "diff", GROUP, directory, "--from", iso(second), "--to", iso(first))
    assert wrong.code == 2
    assert "lies before --from" in wrong.err


def test_a_group_that_the_log_does_not_know(written, pykcoord):
    directory, _ = written
    result = pykcoord("offsets", "show", "bilLing", directory)
    assert result.code == 1
    assert "no offset of group 'bilLing'" in result.err
    assert len(result.err.splitlines()) == 1


def test_compaction_without_a_history_is_told(written, pykcoord):
    directory, (first, *_) = written
    assert pykcoord("log", "compact", directory).code == 0
    result = pykcoord("offsets", "show", GROUP, directory, "--at", iso(first), "--json")
    assert json.loads(result.out)["offsets"] == []
    assert "offsets.history.retention.ms keeps those to come" in result.err
    assert shown(pykcoord, directory) == {("orders", 0): 3, ("orders", 1): 5}


def test_offsets_expire_by_the_rules_of_their_groups(written, pykcoord):
    directory, _ = written
    options = ("--retention-minutes", "1440", "--json")
    with (
        Coordinator(directory) as coordinator,
        coordinator.join("at-work", topics=["orders"]) as member,
    ):
        member.commit({("orders", 0): 1})
        now_ms = Clock().now_ms()
        soon = pykcoord("offsets", "expiring", directory, "--within", "12h", *options)
        later = pykcoord("offsets", "expiring", directory, "--within", "25h", *options)
    assert json.loads(soon.out) == []
    found = json.loads(later.out)
    assert [(row["group"], row["partition"], row["offset"]) for row in found] == [
        (GROUP, 0, 3),
        (GROUP, 1, 5),
    ]
    assert all(now_ms - 60_000 < row["expires"] - 86_400_000 < now_ms for row in found)
    assert pykcoord("offsets", "expiring", directory, "--within", "soon").code == 2


def test_transactions_count_from_their_end_on(tmp_path, pykcoord):
    """Kafka's own log; what it reads back is in expected.json."""
    for folder in ("transactions-1", "transactions-2"):
        source = segments.OWN / folder
        if not source.is_dir():
            continue
        root = segments.unpack(source, tmp_path / folder)
        expected = segments.expected(root)["offsets"]
        reader = LogReader.open(root)
        for group, topics in expected.items():
            found: dict[tuple[str, int], int] = {}
            for partition in reader.partitions:
                of_group = changes(Past(reader, partition).read(), group)
                found |= {at: of.offset for at, of in offsets_at(of_group).items()}
            assert found == {
                (topic, int(partition)): of["offset"]
                for topic, partitions in topics.items()
                for partition, of in partitions.items()
            }, group


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PykcoordServer]:
    directory = tmp_path / "data"
    with PykcoordServer(directory, topics={"orders": 3, "gone": 1}) as started:
        yield started


@pytest.fixture
def admin(server: PykcoordServer) -> Iterator[Any]:
    client = KafkaAdminClient(bootstrap_servers=server.address)
    yield client
    client.close()


def commit(admin: Any, offsets: dict[tuple[str, int], int], metadata: str = "") -> None:
    asked = {
        TopicPartition(*at): OffsetAndMetadata(offset, metadata, -1)
        for at, offset in offsets.items()
    }
    results = admin.alter_group_offsets(GROUP, asked)
    assert {error.__name__ for error in results.values()} == {"NoError"}


def committed(admin: Any) -> dict[tuple[str, int], tuple[int, str]]:
    found = admin.list_group_offsets(GROUP)[GROUP]
    return {
        (at.topic, at.partition): (of.offset, of.metadata)
        for at, of in found.items()
        if of.offset >= 0
    }


def test_a_reset_is_undone(server, admin, pykcoord):
    commit(admin, {("orders", 0): 10, ("orders", 1): 20}, "by hand")
    before, good = committed(admin), next_millisecond()
    commit(admin, {("orders", 0): 0, ("orders", 2): 7})
    arguments = ("offsets", "restore", GROUP, server.directory, "--at", iso(good))
    running = ("--bootstrap-servers", server.address)
    looked = pykcoord(*arguments, *running, "--dry-run")
    assert looked.code == 0
    assert [row.split() for row in looked.out.splitlines()[2:-1]] == [
        ["orders", "0", "0", "10", "+10"],
        ["orders", "2", "7", "-", "removed"],
    ]
    assert committed(admin) != before
    done = pykcoord(*arguments, *running)
    assert (done.code, done.err) == (0, "")
    assert committed(admin) == before
    assert pykcoord(*arguments, *running).out.splitlines()[-1].startswith("0 offsets")


def test_a_deleted_group_comes_back_without_topics_that_are_gone(server, admin, pykcoord):
    commit(admin, {("orders", 0): 10, ("gone", 0): 5})
    good = next_millisecond()
    assert admin.delete_groups([GROUP]) == {GROUP: "OK"}
    admin.delete_topics(["gone"])
    done = pykcoord(
        "offsets", "restore", GROUP, server.directory, "--at", iso(good),
        "--bootstrap-servers", server.address,
    )  # fmt: skip
    assert done.code == 1
    assert "left out: gone 0: the topic or partition does not exist any more" in done.err
    assert {at: of for at, (of, _) in committed(admin).items()} == {("orders", 0): 10}


def test_offsets_that_expired_come_back_as_they_were(tmp_path, pykcoord):
    log = WrittenLog()
    for offset in (5, 10):
        log.commit(GROUP, "orders", 0, offset)
    log.commit(GROUP, "orders", 1, 20)
    directory = tmp_path / "data"
    for partition in range(5):
        of_group = partition == partition_of(GROUP, 5)
        (log if of_group else WrittenLog()).save(directory, partition)
    settings = {"offsets.retention.check.interval.ms": "100"}
    with PykcoordServer(directory, topics={"orders": 3}, settings=settings) as server:
        admin = KafkaAdminClient(bootstrap_servers=server.address)
        try:
            waited = threading.Event()
            for _ in range(600):
                if not committed(admin):
                    break
                waited.wait(0.1)
            assert committed(admin) == {}
            # They are from 2023; they went just now.
            done = pykcoord(
                "offsets", "restore", GROUP, directory, "--at", "1h",
                "--bootstrap-servers", server.address,
            )  # fmt: skip
            assert (done.code, done.err) == (0, "")
            assert committed(admin) == {("orders", 0): (10, ""), ("orders", 1): (20, "")}
        finally:
            admin.close()


def test_members_of_the_consumer_protocol_are_removed_too_and_read_what_is_back(
    server, admin, pykcoord
):
    commit(admin, {("orders", 0): 10})
    good = next_millisecond()
    commit(admin, {("orders", 0): 0, ("orders", 1): 7})
    assigned = threading.Semaphore(0)
    consumer = Consumer(
        {
            "bootstrap.servers": server.address, "group.id": GROUP, "group.protocol": "consumer",
            "client.id": "worker-1", "enable.auto.commit": False,
        }
    )  # fmt: skip
    arguments = (
        "offsets", "restore", GROUP, server.directory, "--at", iso(good),
        "--bootstrap-servers", server.address,
    )  # fmt: skip
    try:
        consumer.subscribe(["orders"], on_assign=lambda _, given: given and assigned.release())
        _polled_until(consumer, lambda: assigned.acquire(blocking=False))
        refused = pykcoord(*arguments)
        assert refused.code == 1
        assert "has 1 member (worker-1), which would commit over it" in refused.err
        assert len(refused.err.splitlines()) == 1
        assert committed(admin)["orders", 0] == (0, "")
        done = pykcoord(*arguments, "--force")
        assert (done.code, done.err) == (0, "")
        assert done.out.splitlines()[-1].startswith(f"2 offsets of {GROUP}")
        assert committed(admin) == {("orders", 0): (10, "")}
        _polled_until(consumer, lambda: assigned.acquire(blocking=False))
        places = [TopicPartitionOfRd("orders", number) for number in range(3)]
        asked = consumer.committed(places, timeout=60)
        assert [place.offset for place in asked] == [10, -1001, -1001]
    finally:
        consumer.close()


def _polled_until(consumer: Consumer, done: Callable[[], bool]) -> None:
    deadline = monotonic_seconds() + 120
    while not done():
        assert monotonic_seconds() < deadline
        consumer.poll(0.5)


def test_members_that_come_back_in_between_are_removed_again(server, admin, monkeypatch, pykcoord):
    """As often as it takes, up to a bound; without one that stays, all is said in one line."""
    commit(admin, {("orders", 0): 10})
    good = next_millisecond()
    commit(admin, {("orders", 0): 0})
    times = [2]
    expel = running_group.RunningGroup.expel

    async def returns(group: Any, members: Any, reason: str) -> None:
        await expel(group, members, reason)
        if times[0]:
            times[0] -= 1
            with Asked(server.address) as asked:
                asked.join_alone(GROUP)

    monkeypatch.setattr(running_group.RunningGroup, "expel", returns)
    arguments = (
        "offsets", "restore", GROUP, server.directory, "--at", iso(good),
        "--bootstrap-servers", server.address,
    )  # fmt: skip
    assert pykcoord(*arguments, "--force").code == 0
    assert committed(admin)["orders", 0] == (10, "")
    commit(admin, {("orders", 0): 0})
    times[0] = 1_000
    refused = pykcoord(*arguments, "--force")
    assert refused.code == 1
    assert "has members by now: 1 offset of 1 were not changed" in refused.err
    assert len(refused.err.splitlines()) == 1
    assert committed(admin)["orders", 0] == (0, "")


def test_tls_and_client_properties_as_kafkas_tools_take_them(tmp_path, pykcoord):
    certificate = tmp_path / "server.pem"
    make_certificate(certificate)
    port = free_port()
    tls = tmp_path / "client.properties"
    tls.write_text(
        f"bootstrap.servers=127.0.0.1:{port}\nsecurity.protocol=SSL\n"
        f"ssl.truststore.type=PEM\nssl.truststore.location={certificate}\nacks=all\n"
    )
    server = PykcoordServer(
        tmp_path / "data", topics={"orders": 3}, arguments=["--advertise", f"127.0.0.1:{port}"]
    )
    with server, Proxy(("127.0.0.1", server.port), port, certificate):
        with Asked(f"127.0.0.1:{server.port}") as asked:
            asked.commit(GROUP, [("orders", 0, 10)])
            good = next_millisecond()
            asked.commit(GROUP, [("orders", 0, 0)])
        arguments = ("offsets", "restore", GROUP, server.directory, "--at", iso(good))
        done = pykcoord(*arguments, "--command-config", tls)
        assert (done.code, done.err) == (0, "")
        assert shown(pykcoord, server.directory) == {("orders", 0): 10}
        # Events are written a moment later.
        eventually(lambda: pykcoord("explain", GROUP, "--command-config", tls).code == 0)
        plain = pykcoord(*arguments, "--bootstrap-servers", f"127.0.0.1:{port}")
        assert plain.code == 1
        assert len(plain.err.splitlines()) == 1
    tls.write_text("ssl.trustore.location=x\n")
    wrong = pykcoord(*arguments, "--command-config", tls, "--bootstrap-servers", "127.0.0.1:1")
    assert wrong.code != 0
    assert "did you mean ssl.truststore.location?" in wrong.err


def test_a_group_with_members_is_left_alone_unless_forced(server, admin, pykcoord):
    commit(admin, {("orders", 0): 10})
    good = next_millisecond()
    commit(admin, {("orders", 0): 0})
    consumer = KafkaConsumer(
        "orders", bootstrap_servers=server.address, group_id=GROUP, enable_auto_commit=False,
        client_id="worker-1",
    )  # fmt: skip
    try:
        while not consumer.assignment():
            consumer.poll(timeout_ms=1000)
        arguments = (
            "offsets", "restore", GROUP, server.directory, "--at", iso(good),
            "--bootstrap-servers", server.address,
        )  # fmt: skip
        refused = pykcoord(*arguments)
        assert refused.code == 1
        assert "has 1 member (worker-1)" in refused.err
        assert committed(admin)["orders", 0] == (0, "")
        assert pykcoord(*arguments, "--force").code == 0
        assert committed(admin)["orders", 0] == (10, "")
    finally:
        consumer.close(timeout_ms=0)


def test_a_file_for_kafkas_own_tool(written, pykcoord, tmp_path):
    directory, (_, second, _) = written
    path = tmp_path / "offsets.csv"
    arguments = ("offsets", "restore", GROUP, directory, "--at", iso(second))
    assert pykcoord(*arguments, "--to-file", path).code == 0
    assert path.read_text() == "orders,0,20\norders,1,5\n"
    again = pykcoord(*arguments, "--to-file", path)
    assert again.code == 1
    assert "File exists" in again.err
    nowhere = pykcoord(*arguments)
    assert nowhere.code == 2
    assert "say where the offsets go" in nowhere.err


def test_nothing_is_written_to_a_kafka_that_is_only_watched(written, pykcoord):
    directory, (first, *_) = written
    (directory / WATCH_FILE).write_text("{}")
    result = pykcoord(
        "offsets", "restore", GROUP, directory, "--at", iso(first),
        "--bootstrap-servers", "127.0.0.1:1",
    )  # fmt: skip
    assert result.code == 2
    assert "is only watched" in result.err
    assert "--to-file" in result.err


def test_a_server_that_is_not_there_is_one_line(written, pykcoord):
    directory, (first, *_) = written
    result = pykcoord(
        "offsets", "restore", GROUP, directory, "--at", iso(first),
        "--bootstrap-servers", "127.0.0.1:1",
    )  # fmt: skip
    assert result.code == 1
    assert result.err.startswith("pykcoord: 127.0.0.1:1: ")
    assert len(result.err.splitlines()) == 1
