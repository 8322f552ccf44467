"""Changes of topics that are stored beside the loop, or by another node, and told when they are."""

from __future__ import annotations

import asyncio

import pytest
from support.slow_store import SlowStore, written

from pykcoord.catalogue import (
    NotControllerError,
    TopicCatalogue,
    TopicExistsError,
)
from pykcoord.log.state_file import StateFile


def stored_names(tmp_path):
    return set(TopicCatalogue(store=StateFile(tmp_path / "catalogue.json")).topics())


def gather(topics, *names):
    with topics.gathered() as changes:
        for name in names:
            topics.create(name, 1)
    return changes


async def while_b_is_written(tmp_path):
    """Of `a`, which is there, and `b`: the store that waits, the topics, and the change."""
    store = SlowStore(tmp_path / "catalogue.json")
    topics = TopicCatalogue({"a": 1}, store)
    first = gather(topics, "b")
    topics.store_soon()
    await written(store)
    return store, topics, first


def test_what_is_gathered_is_seen_once_it_is_stored_beside_the_loop(tmp_path):
    async def main():
        store = SlowStore(tmp_path / "catalogue.json")
        topics = TopicCatalogue({"a": 1}, store)
        told = []
        topics.on_topics(lambda changed: told.append(sorted(changed)))
        first = gather(topics, "b")
        topics.store_soon()
        await written(store)
        second = gather(topics, "c")
        with topics.gathered() as third:
            with pytest.raises(TopicExistsError):
                topics.create("b", 1)  # nobody sees it, but it is about to be there
            topics.delete("b")
        assert third is second
        topics.store_soon()
        assert topics.pending() == [first, second]
        assert (set(topics.topics()), stored_names(tmp_path), told) == ({"a"}, {"a"}, [])
        store.go.release()
        await first.ended()
        assert (set(topics.topics()), told) == ({"a", "b"}, [["b"]])
        await written(store)
        assert stored_names(tmp_path) == {"a", "b"}
        store.go.release()
        await second.ended()
        assert (set(topics.topics()), told) == ({"a", "c"}, [["b"], ["b", "c"]])
        assert stored_names(tmp_path) == {"a", "c"}
        assert topics.pending() == []

    asyncio.run(main())


def test_changes_that_build_on_what_was_not_stored_are_not_made(tmp_path):
    async def main():
        store, topics, first = await while_b_is_written(tmp_path)
        with topics.gathered() as second:
            topics.add_partitions("b", 2)
        store.fails = True
        store.go.release()
        await first.ended()
        assert isinstance(first.error, OSError)
        assert first.error is second.error
        assert set(topics.topics()) == {"a"}
        topics.create("c", 1)
        assert stored_names(tmp_path) == {"a", "c"}

    asyncio.run(main())


def test_who_does_not_wait_on_the_loop_waits_for_what_is_written(tmp_path):
    async def main():
        store, topics, first = await while_b_is_written(tmp_path)
        second = gather(topics, "c")
        store.go.release()
        topics.create("d", 1)
        assert first.is_stored
        assert second.is_stored
        assert set(topics.topics()) == stored_names(tmp_path) == {"a", "b", "c", "d"}
        await first.ended()

    asyncio.run(main())


def test_who_waits_no_longer_tells_no_other_that_it_is_stored(tmp_path):
    """All waited for one future: a task that was cancelled meanwhile ended it for a client, which
    was told that its topic is stored."""

    async def main():
        store = SlowStore(tmp_path / "catalogue.json")
        topics = TopicCatalogue({"a": 1}, store)
        changes = gather(topics, "b")
        topics.store_soon()
        await written(store)
        gives_up, waits = changes.ended(), changes.ended()
        gives_up.cancel()
        await asyncio.sleep(0)
        assert not waits.done()
        store.go.release()
        await waits
        assert changes.is_stored

    asyncio.run(main())


def test_who_reads_what_others_have_stored_forgets_nothing_that_is_to_be_stored(tmp_path):
    async def main():
        store = SlowStore(tmp_path / "catalogue.json")
        topics = TopicCatalogue({"a": 1}, store)
        gather(topics, "b")
        topics.store_soon()
        await written(store)
        second = gather(topics, "c")
        topics.store_soon()
        store.go.release(2)
        topics.reload()
        await asyncio.wait_for(second.ended(), 60)
        assert stored_names(tmp_path) == {"a", "b", "c"}

    asyncio.run(main())


def test_an_end_that_is_said_meanwhile_is_kept(tmp_path):
    topics = TopicCatalogue({"a": 1}, StateFile(tmp_path / "catalogue.json"))
    with topics.gathered():
        topics.add_partitions("a", 2)
    topics.set_end_offsets({("a", 0): 5})
    topics.create("b", 1)
    assert (topics.topics()["a"].partitions, topics.topics()["a"].end_offset(0)) == (2, 5)


class Shared:
    """A document that others change too; no store of parts."""

    def __init__(self):
        self.document = None

    def read(self):
        return self.document

    def write(self, document):
        self.document = document


def test_what_is_gathered_is_not_made_where_others_have_changed_the_same():
    store = Shared()
    topics = TopicCatalogue({"a": 1}, store)
    others = TopicCatalogue(store=store)
    changes = gather(topics, "b", "c")
    others.create("b", 7)
    topics.reload()
    assert isinstance(changes.error, NotControllerError)
    assert topics.topics() == others.topics()
    with pytest.raises(TopicExistsError):
        topics.create("b", 1)


def test_what_is_gathered_is_made_on_top_of_what_others_have_changed():
    store = Shared()
    topics = TopicCatalogue({"a": 1}, store)
    others = TopicCatalogue(store=store)
    changes = gather(topics, "b")
    others.create("c", 7)
    topics.reload()
    assert set(topics.topics()) == {"a", "c"}
    topics.create("d", 1)
    assert changes.is_stored
    assert set(topics.topics()) == set(store.document["topics"]) == {"a", "b", "c", "d"}


def test_what_others_changed_is_taken_and_ends_are_kept_with_their_topic(tmp_path):
    first = TopicCatalogue({"grown": 1, "same": 1, "again": 1}, StateFile(tmp_path / "state.json"))
    second = TopicCatalogue({}, StateFile(tmp_path / "state.json"))
    second.set_end_offsets({("grown", 0): 7, ("same", 0): 8, ("again", 0): 9})
    same = second.topics()["same"]
    first.add_partitions("grown", 3)
    first.delete("again")
    first.create("again", 1)
    second.reload()
    topics = second.topics()
    assert topics["grown"].partitions == 3
    assert topics["grown"].end_offset(0) == 7
    assert topics["same"] is same
    assert topics["again"].topic_id == first.topics()["again"].topic_id
    assert topics["again"].end_offset(0) == 0


def test_nothing_is_told_once_it_is_closed(tmp_path):
    async def main():
        store = SlowStore(tmp_path / "catalogue.json")
        topics = TopicCatalogue({"a": 1}, store)
        told = []
        topics.on_change(lambda: told.append(1))
        changes = gather(topics, "b")
        topics.store_soon()
        await written(store)
        store.go.release()
        topics.close()
        assert stored_names(tmp_path) == {"a", "b"}
        await changes.ended()
        assert told == []

    asyncio.run(main())


def told_of(topics, grow=lambda name: None):
    """What a listener hears that comes behind one that calls `grow` with the name of each topic
    that is there then, and is new or has changed."""
    told: list[tuple[str, int | None, int | None]] = []

    def first(changed):
        for name, (_, topic) in changed.items():
            if topic is not None:
                grow(name)

    topics.on_topics(first)
    topics.on_topics(
        lambda changed: told.extend(
            (name, *(topic and topic.partitions for topic in pair))
            for name, pair in changed.items()
        )
    )
    return told


@pytest.mark.parametrize("is_stored", [True, False])
def test_who_is_told_of_a_change_may_make_one(tmp_path, is_stored):
    """All was told again and again; and listeners behind heard of the later change first."""
    path = tmp_path / "catalogue.json"
    topics = TopicCatalogue(store=StateFile(path) if is_stored else None)

    def grow(name):
        if topics.topics()[name].partitions == 1:
            topics.add_partitions(name, 2)
            topics.set_end_offsets({(name, 1): 7})

    told = told_of(topics, grow)
    topics.create("a", 1)
    assert told == [("a", None, 1), ("a", 1, 2), ("a", 2, 2)]
    assert topics.pending() == []
    assert topics.topics()["a"].end_offset(1) == 7
    if is_stored:
        assert TopicCatalogue(store=StateFile(path)).topics()["a"].partitions == 2


@pytest.mark.parametrize("number", [0, 40, 99])
@pytest.mark.parametrize("waits", [True, False])
def test_who_is_told_of_a_slice_may_change_topics_and_wait_for_it(tmp_path, number, waits):
    """What such a listener began was forgotten where the slice was the last one."""

    async def main():
        topics = TopicCatalogue(store=StateFile(tmp_path / "catalogue.json"))
        made = []

        def grow(name):
            if name != f"t{number}" or made:
                return
            if waits:
                topics.create("more", 1)
                made.append(None)
            else:
                made.append(gather(topics, "more"))
                topics.store_soon()

        told = told_of(topics, grow)
        changes = gather(topics, *(f"t{each}" for each in range(100)))
        topics.store_soon()
        await changes.ended()
        for of in filter(None, made):
            await asyncio.wait_for(of.ended(), 10)
        assert sorted(name for name, *_ in told) == sorted([*topics.topics()])
        assert len(told) == 101
        assert len(stored_names(tmp_path)) == 101
        assert topics.pending() == []

    asyncio.run(main())


@pytest.mark.parametrize("number", [0, 40, 99])
def test_who_is_told_of_what_others_have_changed_may_make_a_change(tmp_path, number):
    """It was stored without what the listener was told of, which others had acknowledged."""

    async def main():
        path = tmp_path / "catalogue.json"
        others = TopicCatalogue(store=StateFile(path))
        topics = TopicCatalogue(store=StateFile(path))
        with others.together():
            for each in range(100):
                others.create(f"t{each}", 1)
        told = told_of(topics, lambda name: name == f"t{number}" and topics.create("more", 1))
        await topics.reload_soon()
        assert stored_names(tmp_path) == {*topics.topics()} == {*others.topics(), "more"}
        assert len(told) == 101
        assert topics.pending() == []

    asyncio.run(main())
