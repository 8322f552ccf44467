"""No request holds up other clients: long answers are made in slices, by turns, and the memory of
all answers is bounded."""

from __future__ import annotations

import asyncio
import collections
import itertools
import struct
import sys
from typing import Any

import pytest
from fuzz.session import Calls
from support.kio_client import ask, decode, encode
from support.scripted_node import HEARTBEAT

from pykcoord.catalogue import TopicCatalogue
from pykcoord.server import jobs
from pykcoord.server.api.messages import SLICE_BYTES, SLICE_ELEMENTS, Slicer
from pykcoord.server.api.node_api import Cluster
from pykcoord.server.dispatch import Dispatcher
from pykcoord.session import EMBEDDED

from .conftest import frame, serving
from .test_node_apis import MS, metadata, new_topic, topic_named

COUNT = 4_000
# Elements of a slice in these tests; a slice ends with the element that fills it.
ELEMENT_BYTES = 200


class Connection:
    memo = None
    session = EMBEDDED


class Rig:
    """A dispatcher alone, and its answers."""

    def __init__(
        self, topics: dict[str, int] | None = None, *, catalogue: TopicCatalogue | None = None
    ) -> None:
        self.replies: dict[int, bytes] = {}
        self.refused: dict[int, str] = {}
        known = catalogue or TopicCatalogue(topics or {"orders": 12})
        cluster = Cluster(known, "cluster")
        self.dispatcher = Dispatcher(cluster, self.replies.__setitem__, self.refused.__setitem__)
        self.ticket = 0

    def send(self, frame: bytes, connection: Any = None) -> int:
        self.ticket += 1
        self.dispatcher.handle(connection or Connection(), self.ticket, frame[4:])
        return self.ticket

    async def until_answered(self, ticket: int) -> bytes:
        while ticket not in self.replies and ticket not in self.refused:
            await asyncio.sleep(0)
        return bytes(self.replies.get(ticket, b""))[4:]

    def at_rest(self) -> bool:
        dispatcher = self.dispatcher
        return not dispatcher._jobs._waiting and dispatcher._answers.taken == 0


def names(count: int = COUNT) -> list[str]:
    return [f"topic-{index}" for index in range(count)]


def partitions(**more: Any) -> list[dict[str, Any]]:
    return [{"partition": index, "partition_index": index, **more} for index in range(COUNT)]


def fetch_fields(wait_ms: int = 0) -> dict[str, Any]:
    asked = partitions(fetch_offset=0, partition_max_bytes=1)
    return {
        "replica_id": -1, "max_wait": MS * wait_ms, "min_bytes": 1, "max_bytes": 1,
        "topics": [{"topic": "orders", "partitions": asked}], "forgotten_topics_data": [],
    }  # fmt: skip


LONG = {
    "FindCoordinator": (10, 4, {"key_type": 0, "coordinator_keys": tuple(names())}),
    "Metadata": (3, 9, metadata([topic_named(name) for name in names()])),
    "all topics": (3, 9, metadata(None)),
    "DescribeConfigs": (
        32, 1,
        {"resources": [
            {"resource_type": 2, "resource_name": n, "configuration_keys": None} for n in names()
        ], "include_synonyms": False},
    ),
    "DescribeTopicPartitions": (
        75, 0,
        {"topics": [{"name": name} for name in names()], "response_partition_limit": 2_000,
         "cursor": None},
    ),
    "DeleteTopics": (20, 1, {"topic_names": tuple(names()), "timeout": MS}),
    "ListOffsets": (
        2, 1,
        {"replica_id": -1, "topics": [{"name": "orders", "partitions": partitions(timestamp=-1)}]},
    ),
    "OffsetForLeaderEpoch": (
        23, 3,
        {"replica_id": -1, "topics": [
            {"topic": "orders", "partitions": partitions(current_leader_epoch=0, leader_epoch=0)}
        ]},
    ),
    "Fetch": (1, 4, fetch_fields()),
    "CreateTopics": (
        19, 2,
        {"topics": [new_topic(n) for n in names()], "timeout": MS, "validate_only": False},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LONG)
def test_one_slice_of_work_is_done_in_an_iteration_of_the_loop(run, name, monkeypatch):
    rig = Rig({"orders": COUNT})
    slices: list[tuple[int, int]] = []
    next_iteration = rig.dispatcher._jobs._next_iteration

    def measured() -> None:
        job = next(iter(rig.dispatcher._jobs._waiting.values()), None)
        before = len(job.out) if job is not None else 0
        next_iteration()
        if job is not None and job.out:
            slices.append((rig.dispatcher._jobs._spent, len(job.out) - before))

    monkeypatch.setattr(rig.dispatcher._jobs, "_next_iteration", measured)
    key, version, fields = LONG[name]

    async def main():
        ticket = rig.send(encode(key, version, **fields))
        assert ticket not in rig.replies
        decode(key, version, await rig.until_answered(ticket))
        assert rig.at_rest()

    run(main())
    assert len(slices) >= COUNT // SLICE_ELEMENTS - 2
    assert max(elements for elements, _ in slices) <= SLICE_ELEMENTS + 16
    assert max(size for _, size in slices) <= SLICE_BYTES + ELEMENT_BYTES


def test_a_slice_ends_with_its_bytes_where_elements_are_long(run):
    async def main():
        rig, long = Rig(), 10_000
        keys = tuple(f"{index:0{long}}" for index in range(150))
        ticket = rig.send(encode(10, 4, key_type=0, coordinator_keys=keys))
        (job,) = rig.dispatcher._jobs._waiting.values()
        sizes = [0, len(job.out)]
        while ticket not in rig.replies:
            await asyncio.sleep(0)
            sizes.append(max(sizes[-1], len(job.out)))
        assert sizes[-1] > 1_000_000
        grown = [after - before for before, after in itertools.pairwise(sizes)]
        assert max(grown) <= SLICE_BYTES + long + ELEMENT_BYTES

    run(main())


def replicas(count: int, **more: Any) -> list[dict[str, Any]]:
    return [{"broker_ids": (1,), **more} for _ in range(count)]


# One topic or resource with much in it.
WIDE = {
    "CreateTopics, one topic": (
        19, 2,
        {"topics": [{**new_topic("new"), "num_partitions": -1, "replication_factor": -1,
                     "assignments": [{**of, "partition_index": index}
                                     for index, of in enumerate(replicas(COUNT))]}],
         "timeout": MS, "validate_only": False},
    ),
    "CreatePartitions, one topic": (
        37, 1,
        {"topics": [{"name": "orders", "count": COUNT + 12, "assignments": replicas(COUNT)}],
         "timeout": MS, "validate_only": False},
    ),
    "CreatePartitions, too many": (
        37, 1,
        {"topics": [{"name": "orders", "count": 13, "assignments": replicas(5 * COUNT)}],
         "timeout": MS, "validate_only": False},
    ),
    "DescribeConfigs, one resource": (
        32, 1,
        {"resources": [{"resource_type": 2, "resource_name": "orders",
                        "configuration_keys": tuple(names(5 * COUNT))}],
         "include_synonyms": False},
    ),
    "DescribeTopicPartitions": LONG["DescribeTopicPartitions"],
}  # fmt: skip
# Calls of functions in an iteration of the loop. A change has the whole catalogue stored and
# looked at, of a topic here.
MOST_CALLS = 40 * SLICE_ELEMENTS


@pytest.mark.parametrize("name", sorted({**LONG, **WIDE}.keys() - {"all topics"}))
def test_what_is_in_one_topic_is_looked_at_in_slices_too(run, name, monkeypatch):
    rig = Rig()
    key, version, fields = {**LONG, **WIDE}[name]
    most = 0
    next_iteration = rig.dispatcher._jobs._next_iteration

    def measured() -> None:
        nonlocal most
        calls = Calls()
        sys.setprofile(calls)
        next_iteration()
        sys.setprofile(None)
        most = max(most, calls.count)

    async def main():
        # The first request of a version loads its layout.
        await rig.until_answered(rig.send(encode(key, version, **fields)))
        monkeypatch.setattr(rig.dispatcher._jobs, "_next_iteration", measured)
        ticket = rig.send(encode(key, version, **fields))
        decode(key, version, await rig.until_answered(ticket))

    run(main())
    assert SLICE_ELEMENTS < most < MOST_CALLS


@pytest.mark.parametrize("name", LONG)
def test_what_was_named_leaves_nothing_to_be_freed_at_the_end(run, name):
    """Freeing a set of a hundred thousand names once took 25 ms."""

    async def main():
        rig = Rig()
        key, version, fields = LONG[name]
        frame = encode(key, version, **fields)
        await rig.until_answered(rig.send(frame))
        rig.replies.clear()
        await asyncio.sleep(0)
        before = sys.getallocatedblocks()
        ticket = rig.send(frame)
        left = 0
        while ticket not in rig.replies:
            left = sys.getallocatedblocks() - before
            await asyncio.sleep(0)
        assert left < COUNT // 4

    run(main())


def test_few_topics_are_created_in_an_iteration_of_the_loop(run):
    """A thousand at a time once took 20 ms, and their catalogue was written at the end."""

    async def main():
        rig = Rig()
        key, version, fields = LONG["CreateTopics"]
        catalogue = rig.dispatcher._cluster.catalogue
        counts: list[int] = [1]
        iterations: list[int] = []
        catalogue.on_change(lambda: counts.append(len(catalogue.topics())))
        catalogue.on_change(lambda: iterations.append(iteration))
        made: list[int] = []
        create = catalogue.create
        catalogue.create = lambda *of: made.append(iteration) or create(*of)
        ticket, iteration = rig.send(encode(key, version, **fields)), 0
        while ticket not in rig.replies:
            iteration += 1
            await asyncio.sleep(0)
        assert counts[-1] == COUNT + 1
        assert max(after - before for before, after in itertools.pairwise(counts)) <= 128
        assert len(set(iterations)) == len(iterations)
        # Each costs more than what is only written, and so fewer are made in a slice of them.
        assert max(collections.Counter(made).values()) <= SLICE_ELEMENTS // 3

    run(main())


def test_an_iteration_of_the_loop_passes_between_two_slices(run, monkeypatch):
    """Who asked for little while one was made is answered before the next."""

    async def main():
        rig = Rig()
        jobs = rig.dispatcher._jobs
        work_on, worked, iteration = jobs._work_on, [], 0
        monkeypatch.setattr(jobs, "_work_on", lambda job: worked.append(iteration) or work_on(job))
        key, version, fields = LONG["CreateTopics"]
        ticket = rig.send(encode(key, version, **fields))
        while ticket not in rig.replies:
            iteration += 1
            await asyncio.sleep(0)
        slices = sorted(set(worked))
        assert len(slices) > 5
        assert min(after - before for before, after in itertools.pairwise(slices)) == 2

    run(main())


def test_what_was_read_is_served_before_the_next_slice(run, monkeypatch):
    """A slice was put in line before the turn of what was read in the same iteration."""

    async def main():
        async with serving(topics=dict.fromkeys(names(), 1)) as rig:
            long, short = await rig.connect(), await rig.connect()
            jobs = rig.server._dispatcher._jobs
            left: list[int] = []
            work_on = jobs._work_on

            def worked(job: Any) -> None:
                if job.steps is not None:
                    left.append(len(rig.server.hub.in_flight) - 1)  # without the long one itself
                work_on(job)

            monkeypatch.setattr(jobs, "_work_on", worked)
            key, version, fields = LONG["Metadata"]
            long.send(encode(key, version, **fields))
            answer = asyncio.create_task(long.read())
            beats = 0
            while not answer.done():
                await short.ask(frame(HEARTBEAT))
                beats += 1
            assert len(left) > 20
            assert beats > 10
            assert max(left) == 0

    run(main())


def test_a_slice_that_takes_long_is_followed_by_a_rest(run, monkeypatch):
    """As with a change of thousands of topics: who asks for little catches up before the next."""
    took = 0.02
    clock = itertools.count()
    began: list[float] = []

    def thread_seconds() -> float:
        began.append(asyncio.get_running_loop().time())
        return took * next(clock)

    async def main() -> None:
        rig = Rig()
        monkeypatch.setattr(jobs, "thread_seconds", thread_seconds)
        asked = metadata([topic_named(name) for name in names(300)])
        await rig.until_answered(rig.send(encode(3, 9, **asked)))
        assert rig.at_rest()

    run(main())
    slices = began[::2]
    assert len(slices) > 3
    rests = [after - before for before, after in itertools.pairwise(slices)]
    assert min(rests) >= jobs._REST * took - 0.001


def test_a_short_request_does_not_wait_for_the_end_of_a_long_one(run):
    async def main():
        rig = Rig()
        key, version, fields = LONG["FindCoordinator"]
        long = [rig.send(encode(key, version, **fields)) for _ in range(3)]
        short = rig.send(encode(60, 0, include_cluster_authorized_operations=False))
        assert not rig.replies
        await rig.until_answered(short)
        assert not set(long) & set(rig.replies)
        assert {len(await rig.until_answered(ticket)) > COUNT for ticket in long} == {True}
        assert rig.at_rest()

    run(main())


def test_short_requests_that_come_together_share_slices(run):
    async def main():
        rig = Rig()
        asked = [encode(60, 0, i, include_cluster_authorized_operations=False) for i in range(2000)]
        tickets = [rig.send(frame + b"%d" % index) for index, frame in enumerate(asked)]
        assert 0 < len(rig.replies) < 100
        for ticket in tickets:
            await rig.until_answered(ticket)
        order = list(rig.replies)
        assert order == sorted(order)
        assert rig.at_rest()

    run(main())


def test_one_version_that_is_asked_for_first_is_loaded_in_an_iteration_of_the_loop(run):
    """Each takes some milliseconds, and a client may ask in all of a hundred at once."""

    async def main():
        rig = Rig()
        frames = [
            encode(10, version, **({"key": "g"} if version < 4 else {"coordinator_keys": ("g",)}),
                   **({"key_type": 0} if version else {}))
            for version in range(7)
        ]  # fmt: skip
        tickets = [rig.send(frame) for frame in frames]
        loaded = [0, len(rig.dispatcher._loaded)]
        while len(rig.replies) < len(frames):
            await asyncio.sleep(0)
            loaded.append(len(rig.dispatcher._loaded))
        steps = [after - before for before, after in itertools.pairwise(loaded)]
        assert max(steps) == 1
        assert list(rig.replies) == tickets
        again = rig.send(frames[-1])
        assert again in rig.replies
        assert rig.at_rest()

    run(main())


def test_what_is_made_for_a_client_that_goes_away_ends(run):
    async def main():
        rig = Rig()
        key, version, fields = LONG["Metadata"]
        ticket = rig.send(encode(key, version, **fields))
        assert rig.dispatcher._answers.taken > 0
        rig.dispatcher.abandon(ticket)
        assert rig.at_rest()
        while rig.dispatcher._jobs._is_awake:
            await asyncio.sleep(0)
        assert not rig.replies
        assert not rig.refused

    run(main())


def test_an_answer_beyond_the_bound_is_refused_while_it_is_made(run, monkeypatch):
    monkeypatch.setattr("pykcoord.server.jobs._ANSWER_BYTES", 2 * SLICE_BYTES)

    async def main():
        rig = Rig({f"t{index}": 1_000 for index in range(20)})
        ticket = rig.send(encode(3, 9, **metadata(None)))
        await rig.until_answered(ticket)
        assert rig.refused == {ticket: f"Metadata: an answer of more than {2 * SLICE_BYTES} bytes"}
        assert rig.at_rest()

    run(main())


def test_answers_that_are_held_back_count_and_small_ones_are_always_given(run, monkeypatch):
    async def main():
        rig = Rig({"orders": COUNT})
        poll = encode(1, 4, **fetch_fields(wait_ms=60_000))
        held = rig.send(poll)
        while held not in rig.dispatcher._polls:
            await asyncio.sleep(0)
        taken = rig.dispatcher._answers.taken
        assert taken > SLICE_BYTES
        rig.dispatcher._answers.most = taken + SLICE_BYTES // 2
        beyond = rig.send(poll)
        await rig.until_answered(beyond)
        assert "all answers together take more than" in rig.refused[beyond]
        small = rig.send(encode(60, 0, include_cluster_authorized_operations=False))
        assert await rig.until_answered(small)
        rig.dispatcher.finish_polls()
        assert held in rig.replies
        assert rig.at_rest()

    run(main())


def test_memos_of_closed_connections_give_their_bytes_back(run):
    async def main():
        rig = Rig()
        fields = fetch_fields(wait_ms=1)
        fields["topics"][0]["partitions"] = fields["topics"][0]["partitions"][:12]
        connection = Connection()
        await rig.until_answered(rig.send(encode(1, 4, **fields), connection))
        assert connection.memo is not None
        assert rig.dispatcher._kept._memos.taken > 0
        connection.memo = None
        assert rig.dispatcher._kept._memos.taken == 0

    run(main())


def test_a_partition_that_is_asked_for_many_times_is_answered_once(run):
    """As Kafka does: Fetch answers it once, ListOffsets calls it an invalid request."""

    async def main():
        async with serving() as rig:
            client = await rig.connect()
            fields = fetch_fields()
            twice = fields["topics"][0]["partitions"][:1] * 5_000
            fields["topics"] = [{"topic": "orders", "partitions": twice}] * 3
            response = await ask(client, 1, 4, **fields)
            assert [len(topic.partitions) for topic in response.responses] == [1, 0, 0]
            asked = [{"partition_index": 0, "timestamp": -1}] * 5_000
            asked.append({"partition_index": 1, "timestamp": -1})
            topics = [{"name": "orders", "partitions": asked}]
            response = await ask(client, 2, 1, replica_id=-1, topics=topics)
            found = [(p.partition_index, p.error_code.value) for p in response.topics[0].partitions]
            assert found == [(0, 42), (1, 0)]

    run(main())


def test_a_slice_is_counted_in_elements_and_bytes():
    out = bytearray()
    fields = {"coordinators": [
        {"key": "g", "node_id": 1, "host": "h", "port": 1, "error_code": 0, "error_message": ""}
    ] * (3 * SLICE_ELEMENTS + 1)}  # fmt: skip
    slicer = Slicer(out)
    counts = [slicer.take_count() for _ in slicer.write_response(10, 4, fields)]
    assert counts == [SLICE_ELEMENTS] * 3
    assert slicer.take_count() == 1
    assert struct.unpack_from(">H", out, 5) != (0,)
