"""Topics are stored before clients see them, and nobody else waits for it."""

from __future__ import annotations

import asyncio

from support.kio_client import decode, encode
from support.slow_store import SlowStore, written

from pykcoord.catalogue import TopicCatalogue
from pykcoord.log.state_file import StateFile

from .test_node_apis import MS, new_topic
from .test_slices import Rig


def created(rig: Rig, ticket: int) -> list[int]:
    response = decode(19, 2, bytes(rig.replies[ticket])[4:])
    return [topic.error_code for topic in response.topics]


def creating(*names: str) -> bytes:
    topics = [new_topic(name) for name in names]
    return encode(19, 2, topics=topics, timeout=MS, validate_only=False)


def test_topics_are_stored_beside_the_loop_before_anybody_hears_of_them(run, tmp_path):
    """A write and its sync once held up every heartbeat, for each 256 topics again."""

    async def main():
        store = SlowStore(tmp_path / "catalogue.json")
        rig = Rig(catalogue=TopicCatalogue({"orders": 12}, store))
        topics = rig.dispatcher._cluster.catalogue.topics
        first = rig.send(creating("a", "orders"))
        await written(store)
        second = rig.send(creating("a", "b"))
        gone = rig.send(creating("c"))
        short = rig.send(encode(60, 0, include_cluster_authorized_operations=False))
        await rig.until_answered(short)
        for _ in range(100):
            await asyncio.sleep(0)
        assert not {first, second, gone} & set(rig.replies)
        assert set(topics()) == {"orders"}
        rig.dispatcher.abandon(gone)
        store.go.release()
        await rig.until_answered(first)
        assert created(rig, first) == [0, 36]
        assert set(topics()) == {"orders", "a"}
        await written(store)
        assert second not in rig.replies
        store.go.release()
        await rig.until_answered(second)
        assert created(rig, second) == [36, 0]
        assert {"orders", "a", "b"} <= set(topics()) <= {"orders", "a", "b", "c"}
        assert rig.at_rest()

    run(main())


def test_what_could_not_be_stored_is_refused_for_all_who_wait(run, tmp_path):
    async def main():
        store = SlowStore(tmp_path / "catalogue.json")
        rig = Rig(catalogue=TopicCatalogue({"orders": 12}, store))
        first = rig.send(creating("a", "orders"))
        await written(store)
        store.fails = True
        second = rig.send(creating("b"))
        for _ in range(100):
            await asyncio.sleep(0)
        store.go.release()
        for ticket in (first, second):
            await rig.until_answered(ticket)
        assert (created(rig, first), created(rig, second)) == ([56, 36], [56])
        assert set(rig.dispatcher._cluster.catalogue.topics()) == {"orders"}
        assert rig.at_rest()

    run(main())


def test_what_was_begun_for_a_client_that_went_away_is_stored(run, tmp_path):
    """The next request would build on it, and it would be stored with that at the earliest."""

    async def main():
        store = SlowStore(tmp_path / "catalogue.json")
        rig = Rig(catalogue=TopicCatalogue({"orders": 12}, store))
        catalogue = rig.dispatcher._cluster.catalogue
        ticket = rig.send(creating(*(f"t{number}" for number in range(1_000))))
        while not catalogue.pending():
            await asyncio.sleep(0)
        rig.dispatcher.abandon(ticket)
        await written(store)
        store.go.release()
        while catalogue.pending():
            await asyncio.sleep(0)
        assert 1 < len(catalogue.topics()) < 1_000
        assert rig.at_rest()

    run(main())


def test_what_was_stored_is_made_current_in_slices(run, tmp_path):
    """The tables and the core took 128 topics in one iteration of the loop: 3 ms of it."""

    async def main():
        catalogue = TopicCatalogue({"orders": 12}, StateFile(tmp_path / "catalogue.json"))
        told: list[tuple[int, int]] = []
        ended: list[int] = []
        catalogue.on_topics(lambda changed: told.append((iteration, len(changed))))
        catalogue.on_change(lambda: ended.append(len(told)))
        iteration = 0
        with catalogue.gathered() as changes:
            for number in range(128):
                catalogue.create(f"t{number}", 1)
        catalogue.store_soon()
        while not changes.ended().done():
            assert not changes.is_stored
            iteration += 1
            await asyncio.sleep(0)
        assert [number for _, number in told] == [32] * 4
        assert len({at for at, _ in told}) == 4
        assert ended == [4]
        assert changes.is_stored
        assert len(catalogue.topics()) == 129

    run(main())


def test_what_waits_for_a_slice_is_there_at_once_for_who_does_not_wait_on_the_loop(run, tmp_path):
    async def main():
        catalogue = TopicCatalogue({"orders": 12}, StateFile(tmp_path / "catalogue.json"))
        with catalogue.gathered() as changes:
            for number in range(128):
                catalogue.create(f"t{number}", 1)
        catalogue.store_soon()
        while len(catalogue.topics()) == 1:
            await asyncio.sleep(0)
        assert not changes.is_stored
        catalogue.create("last", 1)
        assert changes.is_stored
        assert len(catalogue.topics()) == 130
        assert catalogue.pending() == []

    run(main())


def test_an_id_does_not_delete_a_new_topic_of_the_same_name(run, tmp_path):
    """The topic of the id was about to go, and a new one of its name about to come: that one was
    deleted instead, and its owner was told that it is there."""

    async def main():
        store = SlowStore(tmp_path / "catalogue.json")
        rig = Rig(catalogue=TopicCatalogue({"orders": 12}, store))
        topics = rig.dispatcher._cluster.catalogue.topics
        old = topics()["orders"].topic_id
        gone = rig.send(encode(20, 1, topic_names=("orders",), timeout=MS))
        await written(store)
        again = rig.send(creating("orders"))
        asked = [{"name": None, "topic_id": old}]
        by_id = rig.send(encode(20, 6, topics=asked, timeout=MS))
        for _ in range(100):
            await asyncio.sleep(0)
        for ticket in (gone, again, by_id):
            store.go.release()
            await rig.until_answered(ticket)
        assert created(rig, again) == [0]
        (result,) = decode(20, 6, bytes(rig.replies[by_id])[4:]).responses
        assert (result.error_code, result.name, result.topic_id) == (100, None, old)
        assert topics()["orders"].topic_id != old
        assert rig.at_rest()

    run(main())
