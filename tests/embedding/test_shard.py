"""A shard without I/O: the host's loop, the same bytes twice, and inputs that are refused."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import pytest
from kio.schema.api_versions.v3.request import ApiVersionsRequest
from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.join_group.v3.request import JoinGroupRequest, JoinGroupRequestProtocol
from kio.schema.offset_commit.v8.request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kio.schema.offset_fetch.v7.request import OffsetFetchRequest
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i32, i32Timedelta, i64

from pykcoord import Config, Shard
from pykcoord._native import ReplayError
from pykcoord.errors import ArgumentError
from pykcoord.protocol import decode_response, encode_request
from pykcoord.shard import RefusedFrames, Request, Step, record_batch

CONFIG = Config(group_initial_rebalance_delay_ms=0)
SEED = bytes(range(32))


def commit(partition: int, offset: int = 5) -> OffsetCommitRequest:
    committed = OffsetCommitRequestPartition(
        partition_index=i32(partition), committed_offset=i64(offset), committed_metadata=""
    )
    topic = OffsetCommitRequestTopic(name=TopicName("orders"), partitions=(committed,))
    return OffsetCommitRequest(group_id=GroupId("billing"), member_id="", topics=(topic,))


FETCH = OffsetFetchRequest(group_id=GroupId("billing"), topics=None, require_stable=False)
BEAT = HeartbeatRequest(group_id=GroupId("billing"), generation_id=i32(1), member_id="nobody")
JOIN = JoinGroupRequest(
    group_id=GroupId("workers"),
    session_timeout=i32Timedelta.parse(timedelta(seconds=10)),
    rebalance_timeout=i32Timedelta.parse(timedelta(seconds=10)),
    member_id="",
    protocol_type="consumer",
    protocols=(JoinGroupRequestProtocol(name="range", metadata=b"any"),),
)


class Host:
    """The loop around a shard: a clock that is told the time, a log that is a list."""

    def __init__(self, log: Iterable[bytes] = (), next_offset: int = 0) -> None:
        self.shard = Shard(CONFIG, seed=SEED)
        self.log = list(log)
        self.next_offset = next_offset
        self.now_ms = 1_000
        self.timeout_ms: int | None = None
        self.answers: dict[int, bytes] = {}
        self._tickets = 0
        for batch in self.log:
            self.shard.replay(batch, next_offset)

    def turn(self, requests: Iterable[Request] = (), committed: int | None = None) -> Step:
        step = self.shard.step(self.now_ms, requests, committed)
        self.answers |= dict(step.responses)
        self.timeout_ms = step.next_timeout_ms
        if step.appends:
            self.log += [record_batch(append) for append in step.appends]
            self.next_offset = step.appends[-1].base_offset + step.appends[-1].record_count
            self.turn(committed=self.next_offset)
        return step

    def ask(self, request: object) -> Any:
        self._tickets += 1
        self.turn([Request(self._tickets, encode_request(request))])
        return decode_response(request, self.answers.pop(self._tickets))

    def fetched(self) -> dict[int, int]:
        (topic,) = self.ask(FETCH).topics
        return {found.partition_index: found.committed_offset for found in topic.partitions}


def test_a_host_of_twenty_lines() -> None:
    host = Host()
    for partition in range(3):
        answer = host.ask(commit(partition, 10 * partition))
        assert answer.topics[0].partitions[0].error_code.name == "none"
    assert host.fetched() == {0: 0, 1: 10, 2: 20}
    assert host.ask(JOIN).generation_id == 1
    assert host.timeout_ms is not None
    host.now_ms = host.timeout_ms + 60_000
    host.turn()


def test_a_response_waits_for_its_record() -> None:
    shard = Shard()
    step = shard.step(0, [Request(1, encode_request(commit(0)))])
    assert (step.responses, step.appends[0].base_offset, step.appends[0].record_count) == ([], 0, 1)
    step = shard.step(0, [(2, encode_request(FETCH)), (3, encode_request(BEAT))])
    assert [response.ticket for response in step.responses] == [3]
    step = shard.step(1, committed_offset=1)
    assert [response.ticket for response in step.responses] == [1, 2]
    assert step.appends == []


def test_the_same_seed_and_inputs_give_the_same_bytes() -> None:
    def run(seed: bytes) -> list[Step]:
        shard = Shard(CONFIG, topics={"orders": 3}, seed=seed)
        steps = []
        for number in range(50):
            request = (commit(number % 4, number), JOIN, FETCH, BEAT)[number % 4]
            step = shard.step(1_000 * number, [Request(number, encode_request(request))])
            end = [append.base_offset + append.record_count for append in step.appends]
            steps += [step, shard.step(1_000 * number + 1, (), *end)]
        return steps

    assert run(SEED) == run(SEED)
    assert run(SEED) != run(bytes(32))


def test_a_shard_reads_what_it_wrote() -> None:
    first = Host()
    for partition in range(3):
        first.ask(commit(partition, partition + 7))
    generation = first.ask(JOIN).generation_id
    again = Host(first.log, first.next_offset)
    assert again.fetched() == first.fetched() == {0: 7, 1: 8, 2: 9}
    again.ask(commit(0, 99))
    assert Host(again.log, again.next_offset).fetched()[0] == 99
    assert generation == 1


def test_frames_that_cannot_be_served_take_nothing_with_them() -> None:
    foreign = ApiVersionsRequest(client_software_name="x", client_software_version="1")
    shard = Shard()
    frames = [encode_request(r) for r in (BEAT, foreign, commit(0))]
    with pytest.raises(RefusedFrames, match=r"ticket 3: .*ticket 1: not a coordinator's") as caught:
        shard.step(0, [*enumerate(frames), (3, frames[2][:-4])])
    assert set(caught.value.reasons) == {1, 3}
    assert caught.value.argument == "requests"
    step = caught.value.step
    assert [response.ticket for response in step.responses] == [0]
    assert len(step.appends) == 1
    shard.step(0, [(1, frames[0]), (3, frames[0])], 1)


def test_a_failed_append_ends_the_shard_and_the_log_makes_another() -> None:
    host = Host()
    host.ask(commit(0))
    step = host.shard.step(2_000, [Request(9, encode_request(commit(1)))])
    assert len(step.appends) == 1
    (refused,) = host.shard.drop()
    answer = decode_response(commit(1), refused.frame)
    assert answer.topics[0].partitions[0].error_code.name == "not_coordinator"
    with pytest.raises(ArgumentError, match="shard: it was dropped"):
        host.shard.step(2_000)
    assert Host(host.log, host.next_offset).fetched() == {0: 5}


def test_a_client_that_is_gone_hears_nothing() -> None:
    shard = Shard()
    shard.step(0, [Request(1, encode_request(commit(0)))])
    shard.abandon(1)
    assert shard.step(0, [], 1).responses == []


def test_what_a_host_may_not_say() -> None:
    def refused(argument: str, *arguments: Any) -> None:
        with pytest.raises(ArgumentError) as caught:
            shard.step(*arguments)
        assert caught.value.argument == argument

    frame = encode_request(commit(0))
    shard = Shard()
    shard.step(5_000, [(1, frame)])
    refused("now_ms", 4_999)
    refused("committed_offset", 5_000, (), 2)
    refused("committed_offset", 5_000, (), -1)
    refused("requests", 5_000, [(1, frame)])
    refused("requests", 5_000, [(2, frame), (2, frame)])
    refused("requests", 5_000, [(-1, frame)])
    refused("requests", 5_000, [(2**64, frame)])
    with pytest.raises(ArgumentError, match="chunk: replay comes before"):
        shard.replay(b"", 0)
    with pytest.raises(ArgumentError, match="seed: 32 bytes, not 3"):
        Shard(seed=b"abc")
    assert [response.ticket for response in shard.step(5_000, (), 1).responses] == [1]


def test_a_log_that_cannot_be_read() -> None:
    host = Host()
    host.ask(commit(0))
    shard = Shard()
    with pytest.raises(ReplayError):
        shard.replay(host.log[0][:-1], 1)
    with pytest.raises(ArgumentError, match="could not be loaded"):
        shard.step(0)
    shard = Shard()
    shard.replay(host.log[0], 1)
    with pytest.raises(ArgumentError, match="next_offset: 0 is below 1"):
        shard.replay(b"", 0)


def test_topics_limit_what_is_committed() -> None:
    host = Host()
    host.shard = Shard(CONFIG, topics={"orders": 1}, seed=SEED)
    codes = [host.ask(commit(p)).topics[0].partitions[0].error_code.name for p in (0, 1)]
    assert codes == ["none", "unknown_topic_or_partition"]


def test_shards_in_threads() -> None:
    def work(_number: int) -> dict[int, int]:
        host = Host()
        for offset in range(200):
            host.ask(commit(offset % 3, offset))
        return host.fetched()

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == [{0: 198, 1: 199, 2: 197}] * 4


def test_events_are_gathered_for_who_asks_and_come_once_they_are_committed() -> None:
    shard, silent = Shard(CONFIG, seed=SEED, tells_events=True), Shard(CONFIG, seed=SEED)
    request = Request(1, encode_request(commit(0)))
    (append,) = shard.step(1_000, [request]).appends
    end_offset = append.base_offset + append.record_count
    assert shard.take_events() == []
    shard.step(1_000, committed_offset=end_offset)
    (event,) = shard.take_events()
    assert (event.kind, event.group_id) == ("group_created", "billing")
    assert shard.take_events() == []
    silent.step(1_000, [request])
    silent.step(1_000, committed_offset=end_offset)
    assert silent.take_events() == []
