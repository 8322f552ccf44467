"""A coordinator in this process: its life, its directory, requests of every form, Arrow."""

from __future__ import annotations

import asyncio
import concurrent.futures
import dataclasses
import os
import subprocess
import sys
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from kio.schema.api_versions.v3.request import ApiVersionsRequest
from kio.schema.describe_groups.v5.request import DescribeGroupsRequest
from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.join_group.v3.request import JoinGroupRequest as JoinGroupRequestV3
from kio.schema.join_group.v3.request import JoinGroupRequestProtocol
from kio.schema.list_groups.v4.request import ListGroupsRequest
from kio.schema.types import GroupId
from kio.static.primitive import i32, i32Timedelta
from support.waiting import SECONDS, eventually

from pykcoord import Config, Coordinator, Member
from pykcoord.consumer_protocol import encode_subscription
from pykcoord.errors import (
    ArgumentError,
    ConfigError,
    CoordinatorClosedError,
    CorruptLogError,
    LogDirectoryLostError,
    LogLockedError,
)
from pykcoord.protocol import decode_response, encode_request

Join = Any


def heartbeat(group: str = "billing", member: str = "nobody") -> HeartbeatRequest:
    return HeartbeatRequest(group_id=GroupId(group), generation_id=i32(1), member_id=member)


def join_request(group: str, member: str = "") -> JoinGroupRequestV3:
    milliseconds = i32Timedelta.parse(timedelta(seconds=30))
    protocol = JoinGroupRequestProtocol(name="range", metadata=encode_subscription(["orders"]))
    return JoinGroupRequestV3(
        group_id=GroupId(group),
        session_timeout=milliseconds,
        rebalance_timeout=milliseconds,
        member_id=member,
        protocol_type="consumer",
        protocols=(protocol,),
    )


def commits(**columns: list[Any]) -> pa.Table:
    return pa.table(
        {
            "group_id": pa.array(columns.pop("group_id")),
            "topic": pa.array(columns.pop("topic")),
            "partition": pa.array(columns.pop("partition"), pa.int32()),
            "offset": pa.array(columns.pop("offset"), pa.int64()),
            **columns,
        }
    )


def test_requests_as_entities_and_as_frames(coordinator: Coordinator) -> None:
    answer = coordinator.handle(heartbeat()).result(SECONDS)
    assert answer.error_code.name == "unknown_member_id"
    frame = encode_request(heartbeat(), correlation_id=7)
    for form in (frame, bytearray(frame), memoryview(frame)):
        reply = coordinator.handle(form).result(SECONDS)
        assert reply[:4] == (7).to_bytes(4, "big")
        assert decode_response(heartbeat(), reply) == answer
    described = DescribeGroupsRequest(
        groups=(GroupId("a"), GroupId("b")), include_authorized_operations=False
    )
    groups = coordinator.handle(described).result(SECONDS).groups
    assert [(group.group_id, group.group_state) for group in groups] == [
        ("a", "Dead"),
        ("b", "Dead"),
    ]


def test_requests_awaited_on_any_loop(coordinator: Coordinator) -> None:
    frame = encode_request(heartbeat(), correlation_id=7)

    async def ask() -> list[str]:
        answer = await coordinator.handle_async(heartbeat())
        assert decode_response(heartbeat(), await coordinator.handle_async(frame)) == answer
        asked = [coordinator.handle_async(heartbeat(f"group-{number}")) for number in range(100)]
        return [answer.error_code.name for answer in await asyncio.gather(*asked)]

    assert asyncio.run(ask()) == ["unknown_member_id"] * 100


def test_a_long_answer_is_the_same_whole(coordinator: Coordinator) -> None:
    protocol = JoinGroupRequestProtocol(name="range", metadata=os.urandom(1 << 20))
    request = dataclasses.replace(join_request("fat"), protocols=(protocol,))
    answer = coordinator.handle(request).result(SECONDS)
    assert [member.metadata for member in answer.members] == [protocol.metadata]


@pytest.mark.parametrize(
    "request_",
    [
        b"",
        b"\0\x0c\0\x63\0\0\0\0\xff\xff",
        encode_request(heartbeat())[:-3],
        encode_request(ApiVersionsRequest(client_software_name="x", client_software_version="1")),
        42,
        "heartbeat",
        HeartbeatRequest,
    ],
)
def test_what_cannot_be_served_is_an_argument_error(
    coordinator: Coordinator, request_: object
) -> None:
    with pytest.raises(ArgumentError) as caught:
        coordinator.handle(request_).result(SECONDS)
    assert caught.value.argument == "request"
    assert coordinator.handle(heartbeat()).result(SECONDS) is not None


@pytest.mark.parametrize(
    ("argument", "value"), [("topics", ["orders"]), ("config", {"group.max.size": 3})]
)
def test_an_argument_of_the_wrong_form_is_named_at_once(
    argument: str, value: object, tmp_path: Path
) -> None:
    with pytest.raises(ArgumentError) as caught:
        Coordinator(tmp_path, **{argument: value})
    assert caught.value.argument == argument


def test_a_cancelled_request_is_forgotten(coordinator: Coordinator, join: Join) -> None:
    member: Member = join(heartbeat_interval_ms=44_000)
    member.wait()
    parked = coordinator.handle(join_request("billing"))
    eventually(lambda: coordinator.members().num_rows == 2)
    assert not parked.done()
    assert parked.cancel()
    with pytest.raises(concurrent.futures.CancelledError):
        parked.result(SECONDS)
    assert coordinator.members().num_rows == 2, "it stays a member; its session will end"


def test_closing_answers_what_is_parked(tmp_path: Path, config: Config) -> None:
    with Coordinator(tmp_path, topics={"orders": 1}, config=config) as coordinator:
        member = coordinator.join("billing", ["orders"], heartbeat_interval_ms=44_000)
        member.wait()
        parked = coordinator.handle(join_request("billing"))
        eventually(lambda: coordinator.members().num_rows == 2)
        assert not parked.done()
    assert parked.result(SECONDS).error_code.name == "not_coordinator"
    with pytest.raises(CoordinatorClosedError):
        member.wait(SECONDS)
    assert member.assignment == frozenset()
    member.close()


def test_a_coordinator_whose_directory_was_moved_away_ends(tmp_path: Path, config: Config) -> None:
    """The topic is no longer stored, the commit no longer answered, and `close` says why."""
    coordinator = Coordinator(tmp_path / "log", topics={"t": 1}, config=config)
    coordinator.start()
    (tmp_path / "log").rename(tmp_path / "elsewhere")
    with pytest.raises((LogDirectoryLostError, CoordinatorClosedError)):
        coordinator.add_topics({"more": 1})
    with pytest.raises(CoordinatorClosedError):
        coordinator.commit_many(commits(group_id=["g"], topic=["t"], partition=[0], offset=[1]))
    with pytest.raises(LogDirectoryLostError):
        coordinator.close()
    assert not (tmp_path / "log").exists()


def test_a_coordinator_has_one_life(tmp_path: Path, config: Config) -> None:
    coordinator = Coordinator(tmp_path, config=config)
    for use in (lambda: coordinator.handle(heartbeat()), lambda: coordinator.topics):
        with pytest.raises(CoordinatorClosedError, match="not started"):
            use()
    coordinator.start()
    with pytest.raises(ArgumentError, match="started before"):
        coordinator.start()
    coordinator.close()
    coordinator.close()
    assert coordinator.closed
    with pytest.raises(CoordinatorClosedError, match="is closed"):
        coordinator.groups()
    with pytest.raises(CoordinatorClosedError, match="is closed"):
        coordinator.join("billing", ["orders"])
    with pytest.raises(ArgumentError, match="started before"):
        coordinator.start()
    never = Coordinator(tmp_path, config=config)
    never.close()


def test_nobody_waits_for_ever_while_it_closes(tmp_path: Path, config: Config) -> None:
    """Requests from many threads race with the close: each is answered or refused."""

    def work(coordinator: Coordinator) -> None:
        while True:
            coordinator.handle(heartbeat()).result(SECONDS)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for _ in range(10):
            coordinator = Coordinator(tmp_path, config=config)
            coordinator.start()
            workers = [pool.submit(work, coordinator) for _ in range(4)]
            coordinator.close()
            for worker in workers:
                assert isinstance(worker.exception(SECONDS), CoordinatorClosedError)


def test_a_directory_has_one_coordinator(tmp_path: Path, config: Config) -> None:
    with Coordinator(tmp_path, config=config), pytest.raises(LogLockedError):
        Coordinator(tmp_path, config=config).start()
    with Coordinator(tmp_path, config=config):
        pass


def test_another_number_of_shards_is_refused(tmp_path: Path, config: Config) -> None:
    with Coordinator(tmp_path, config=config):
        pass
    with pytest.raises(ConfigError, match=r"offsets\.topic\.num\.partitions"):
        Coordinator(tmp_path, config=Config(offsets_topic_num_partitions=5)).start()


def test_groups_and_offsets_outlive_it(tmp_path: Path, config: Config) -> None:
    topics = {"orders": 2}
    with Coordinator(tmp_path, topics=topics, config=config) as coordinator:
        with coordinator.join("billing", ["orders"], group_instance_id="one") as member:
            member.commit({("orders", 1): 12})
        before = (coordinator.groups(), coordinator.members(), coordinator.offsets())
    with Coordinator(tmp_path, config=config) as coordinator:
        assert coordinator.topics == topics
        after = (coordinator.groups(), coordinator.members(), coordinator.offsets())
        with coordinator.join("billing", ["orders"], group_instance_id="one") as member:
            assert member.committed() == {("orders", 1): 12}
    assert before == after
    assert before[0].num_rows == 1


def test_a_corrupt_directory_is_refused_or_cut(
    tmp_path: Path, config: Config, caplog: pytest.LogCaptureFixture
) -> None:
    with Coordinator(tmp_path, topics={"t": 1}, config=config) as coordinator:
        for offset in range(3):
            coordinator.commit_many(
                commits(group_id=["g"], topic=["t"], partition=[0], offset=[offset])
            )
    (segment,) = [
        path for path in tmp_path.glob("__consumer_offsets-*/*.log") if path.stat().st_size
    ]
    data = bytearray(segment.read_bytes())
    data[70] ^= 1
    segment.write_bytes(data)
    with pytest.raises(CorruptLogError) as caught:
        Coordinator(tmp_path, config=config).start()
    assert (caught.value.file, caught.value.position) == (segment, 0)
    with Coordinator(tmp_path, config=config, on_corruption="truncate") as coordinator:
        assert coordinator.offsets().num_rows == 0
    (told,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert told.startswith(f"{segment}: byte 0, offset 0: the CRC of the batch is wrong")
    assert f"kept as {segment}.corrupt-1" in told


def test_many_heartbeats(coordinator: Coordinator, join: Join) -> None:
    member: Member = join()
    member.wait()
    rows = (["billing", "billing", "absent", ""], [member.member_id, "x", "x", "x"], [1, 1, 1, 1])
    expected = [0, 25, 25, 24]
    assert list(coordinator.heartbeat_many(*rows)) == expected
    arrow = [pa.array(rows[0]), pa.array(rows[1]), pa.array(rows[2], pa.int32())]
    assert list(coordinator.heartbeat_many(*arrow)) == expected
    chunked = [pa.chunked_array([column]) for column in arrow]
    assert list(coordinator.heartbeat_many(*chunked)) == expected
    assert list(coordinator.heartbeat_many([], [], [])) == []
    assert list(coordinator.heartbeat_many(["billing"], [member.member_id], [2])) == [22]
    for wrong in (
        (["a"], ["b"], []),
        (["a"], [None], [1]),
        (["a"], ["b"], [2**40]),
        ([1], ["b"], [1]),
    ):
        with pytest.raises(ArgumentError, match="groups, members, generations"):
            coordinator.heartbeat_many(*wrong)


def test_many_commits(coordinator: Coordinator, join: Join) -> None:
    member: Member = join()
    member.wait()
    batch = commits(
        group_id=["a", "b", "a", "billing", "billing", "a"],
        topic=["orders", "orders", "nothing", "orders", "orders", "orders"],
        partition=[0, 6, 0, 1, 2, 0],
        offset=[1, 1, 1, 5, 5, 2],
        member_id=["", "", "", member.member_id, "", ""],
        generation_id=pa.array([-1, -1, -1, 1, -1, -1], pa.int32()),
        metadata=["first", "", "", "", "", "last"],
        leader_epoch=pa.array([-1, -1, -1, 3, -1, 4], pa.int32()),
    )
    expected = [0, 3, 3, 0, 25, 0]
    assert list(coordinator.commit_many(batch)) == expected
    (record_batch,) = batch.combine_chunks().to_batches()
    assert list(coordinator.commit_many(record_batch)) == expected
    assert coordinator.commit_many(batch.slice(0, 0)).tolist() == []  # type: ignore[attr-defined]
    stored = sorted(coordinator.offsets().drop_columns(["commit_timestamp"]).to_pylist(), key=str)
    assert [list(row.values()) for row in stored] == [
        ["a", "orders", 0, 2, 4, "last", -1],
        ["billing", "orders", 1, 5, 3, "", -1],
    ]


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("group_id", None),
        ("group_id", [None]),
        ("offset", [None]),
        ("partition", pa.array([2**40], pa.int64())),
        ("offset", ["12"]),
        ("topic", [b"orders"]),
        ("group_id", [7]),
    ],
)
def test_a_batch_that_cannot_be_right(coordinator: Coordinator, column: str, values: Any) -> None:
    table = commits(group_id=["a"], topic=["orders"], partition=[0], offset=[1]).drop_columns(
        [column]
    )
    if values is not None:
        table = table.append_column(column, values if isinstance(values, pa.Array) else [values])
    with pytest.raises(ArgumentError, match=f"batch: .*{column}"):
        coordinator.commit_many(table)
    assert coordinator.offsets().num_rows == 0


def test_tables_of_nothing_have_their_columns(coordinator: Coordinator) -> None:
    for table, column in (
        (coordinator.groups(), "state"),
        (coordinator.members(), "assignment"),
        (coordinator.offsets(), "commit_timestamp"),
    ):
        assert table.num_rows == 0
        assert column in table.column_names


def test_tables_of_groups_and_members(coordinator: Coordinator, join: Join) -> None:
    member: Member = join(group_instance_id="one", client_id="me")
    member.wait()
    (group,) = coordinator.groups().to_pylist()
    assert group == {
        "group_id": "billing",
        "type": "classic",
        "state": "Stable",
        "protocol_type": "consumer",
        "protocol": "range",
        "generation_id": 1,
        "leader": member.member_id,
        "members": 1,
        **dict.fromkeys(("group_epoch", "assignment_epoch", "assignment_timestamp", "assignor")),
    }
    (row,) = coordinator.members().to_pylist()
    assert row.pop("subscription") == encode_subscription(["orders"])
    assert len(row.pop("assignment")) > 20
    assert {name: of for name, of in row.items() if of is not None} == {
        "group_id": "billing",
        "member_id": member.member_id,
        "group_instance_id": "one",
        "client_id": "me",
        "client_host": "/127.0.0.1",
        "session_timeout_ms": 45_000,
        "rebalance_timeout_ms": 300_000,
    }


def test_a_failed_append_ends_no_member(
    coordinator: Coordinator, join: Join, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shard is dropped and loaded again; members and their commits come back by themselves."""
    member: Member = join()
    member.wait()
    member.commit({("orders", 0): 1})
    runtime = coordinator._serving.parts.runtime
    real, failures = runtime.log.append, []

    def failing(appends: Any, done: Any) -> None:
        if len(failures) < 2:
            failures.append(appends)
            failed = [(append.shard, OSError(28, "No space left")) for append in appends]
            threading.Thread(target=done, args=([], failed)).start()
        else:
            real(appends, done)

    monkeypatch.setattr(runtime.log, "append", failing)
    member.commit({("orders", 0): 2})
    assert len(failures) == 2
    assert member.committed() == {("orders", 0): 2}
    other: Member = join()
    other.wait()
    assert len(other.assignment) == 3


def test_a_broken_invariant_ends_it_with_its_cause(
    coordinator: Coordinator, join: Join, monkeypatch: pytest.MonkeyPatch
) -> None:
    member: Member = join()
    member.wait()
    broken = AssertionError("broken")

    class Broken:
        def step(self, *_: object) -> None:
            raise broken

    monkeypatch.setattr(coordinator._serving.parts.runtime, "node", Broken())
    with pytest.raises(CoordinatorClosedError):
        coordinator.handle(heartbeat()).result(SECONDS)
    assert coordinator.closed
    with pytest.raises(CoordinatorClosedError):
        coordinator.groups()
    coordinator.close()
    with pytest.raises(CoordinatorClosedError) as caught:
        coordinator.groups()
    assert caught.value.__cause__ is broken
    with pytest.raises(CoordinatorClosedError):
        member.wait(SECONDS)


def test_async_with(tmp_path: Path, config: Config) -> None:
    async def work() -> int:
        async with (
            Coordinator(tmp_path, topics={"orders": 3}, config=config) as coordinator,
            coordinator.join("billing", ["orders"]) as member,
        ):
            return len(member.assignment)

    assert asyncio.run(work()) == 3


def test_listing_by_its_own_protocol(coordinator: Coordinator, join: Join) -> None:
    join("one").wait()
    join("other").wait()
    listed = coordinator.handle(ListGroupsRequest(states_filter=("Stable",))).result(SECONDS)
    assert sorted(group.group_id for group in listed.groups) == ["one", "other"]


_EXIT = """
import sys
from pykcoord import Config, Coordinator
coordinator = Coordinator(sys.argv[1], topics={"orders": 2}, config=Config(
    group_initial_rebalance_delay_ms=0, offsets_topic_num_partitions=2))
coordinator.start()
member = coordinator.join("billing", ["orders"], heartbeat_interval_ms=1,
                          on_revoked=lambda _: None)
member.wait()
member.commit({("orders", 0): 3})
print("done")
"""


def test_the_interpreter_ends_though_nothing_was_closed(tmp_path: Path, config: Config) -> None:
    script = [sys.executable, "-c", _EXIT, str(tmp_path / "data")]
    ended = subprocess.run(script, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert (ended.returncode, ended.stdout) == (0, "done\n"), ended.stderr
    again = Config(group_initial_rebalance_delay_ms=0, offsets_topic_num_partitions=2)
    with Coordinator(tmp_path / "data", config=again) as coordinator:
        assert coordinator.offsets()["offset"].to_pylist() == [3]
