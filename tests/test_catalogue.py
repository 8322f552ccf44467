"""Topics: names, ids, growth, memory across restarts, damaged state files."""

from __future__ import annotations

import asyncio
import contextlib
import json

import pytest
from support.slow_store import SlowStore, written

from pykcoord import catalogue
from pykcoord.catalogue import (
    MAX_PARTITIONS,
    InvalidPartitionsError,
    InvalidTopicError,
    NotControllerError,
    StoredCatalogueError,
    TooManyTopicsError,
    TopicCatalogue,
    TopicExistsError,
    UnknownTopicError,
    id_text,
    native_topics,
    new_id,
)
from pykcoord.errors import ArgumentError
from pykcoord.log import state_file
from pykcoord.log.state_file import StateFile, StateFileError


def test_a_topic_has_an_id_of_its_own():
    catalogue = TopicCatalogue({"a": 1, "b": 2})
    a, b = catalogue.topics()["a"], catalogue.topics()["b"]
    assert a.topic_id != b.topic_id
    assert catalogue.by_id(b.topic_id) is b
    assert native_topics(catalogue) == [("a", a.topic_id.bytes, 1), ("b", b.topic_id.bytes, 2)]


def test_ids_do_not_look_like_options():
    assert not any(id_text(new_id()).startswith("-") for _ in range(1000))


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "a b", "é", "a/b", "x" * 250, "__consumer_offsets", "__transaction_state"],
)
def test_illegal_names_are_refused(name):
    with pytest.raises(InvalidTopicError) as raised:
        TopicCatalogue().create(name, 1)
    assert raised.value.argument == "name"


@pytest.mark.parametrize("partitions", [0, -1, MAX_PARTITIONS + 1])
def test_impossible_numbers_of_partitions_are_refused(partitions):
    with pytest.raises(InvalidPartitionsError) as raised:
        TopicCatalogue().create("a", partitions)
    assert raised.value.argument == "partitions"


def test_topics_grow_and_do_not_shrink():
    catalogue = TopicCatalogue({"a": 4})
    topic_id = catalogue.topics()["a"].topic_id
    assert catalogue.add_partitions("a", 6).topic_id == topic_id
    for partitions in (6, 5):
        with pytest.raises(InvalidPartitionsError):
            catalogue.add_partitions("a", partitions)
    with pytest.raises(InvalidPartitionsError):
        catalogue.ensure("a", 5)
    assert catalogue.ensure("a", 6).partitions == 6
    assert catalogue.ensure("a", 7).partitions == 7


def test_unknown_and_known_names():
    catalogue = TopicCatalogue({"a": 1})
    with pytest.raises(TopicExistsError):
        catalogue.create("a", 1)
    with pytest.raises(UnknownTopicError):
        catalogue.delete("b")
    with pytest.raises(UnknownTopicError):
        catalogue.add_partitions("b", 2)


def test_every_change_is_told_and_has_a_version():
    catalogue = TopicCatalogue({"a": 1})
    seen: list[tuple[int, list[str]]] = []
    catalogue.on_change(lambda: seen.append((catalogue.version, sorted(catalogue.topics()))))
    first = catalogue.version
    catalogue.create("b", 1)
    catalogue.add_partitions("b", 2)
    catalogue.set_end_offsets({("b", 1): 99})
    catalogue.delete("a")
    assert [version - first for version, _ in seen] == [1, 2, 3, 4]
    assert [names for _, names in seen] == [["a", "b"]] * 3 + [["b"]]
    assert catalogue.topics()["b"].end_offset(1) == 99
    assert catalogue.topics()["b"].end_offset(0) == 0


@pytest.mark.parametrize(
    ("partition", "offset", "argument"), [(1, 5, "partition"), (0, -1, "offset")]
)
def test_end_offsets_are_checked(partition, offset, argument):
    with pytest.raises(ArgumentError) as raised:
        TopicCatalogue({"a": 1}).set_end_offsets({("a", partition): offset})
    assert raised.value.argument == argument


def test_ids_topics_and_the_cluster_id_survive_a_restart(tmp_path):
    store = StateFile(tmp_path / "catalogue.json")
    before = TopicCatalogue({"a": 3}, store)
    before.create("b", 2, {"cleanup.policy": "compact"})
    before.create("gone", 1)
    before.delete("gone")
    before.add_partitions("b", 5)
    after = TopicCatalogue({"a": 3, "c": 1}, StateFile(tmp_path / "catalogue.json"))
    assert after.cluster_id == before.cluster_id
    assert {**before.topics(), "c": after.topics()["c"]} == after.topics()
    assert after.topics()["b"].configs == {"cleanup.policy": "compact"}
    assert after.by_id(before.topics()["b"].topic_id) == before.topics()["b"]


def test_what_cannot_be_stored_is_not_shown():
    class FullDisk:
        def read(self):
            return {"cluster_id": "c", "topics": {}}

        def write(self, document):
            raise OSError(28, "No space left on device")

    catalogue = TopicCatalogue(store=FullDisk())
    with pytest.raises(OSError, match="No space"):
        catalogue.create("a", 1)
    assert catalogue.topics() == {}
    made = []

    def make_two() -> None:
        with catalogue.together():
            made.extend(catalogue.create(name, 1) for name in ("a", "b"))

    with pytest.raises(OSError, match="No space"):
        make_two()
    assert catalogue.topics() == {}
    assert [catalogue.by_id(topic.topic_id) for topic in made] == [None, None]
    assert catalogue.version == 0


def test_changes_that_are_made_together_are_stored_and_told_once():
    class Store:
        def read(self):
            return {"cluster_id": "c", "topics": {}}

        def write(self, document):
            written.append(sorted(document["topics"]))

    written: list[list[str]] = []
    catalogue = TopicCatalogue(store=Store())
    told: list[int] = []
    catalogue.on_change(lambda: told.append(len(catalogue.topics())))
    with catalogue.together():
        catalogue.create("a", 1)
        with pytest.raises(TopicExistsError):
            catalogue.create("a", 2)
        catalogue.create("b", 1)
        catalogue.add_partitions("b", 2)
        catalogue.delete("a")
    assert (written, told, catalogue.version) == ([["b"]], [1], 1)
    with catalogue.together():
        pass
    assert (written, told, catalogue.version) == ([["b"]], [1], 1)


def test_a_change_encodes_what_it_changes_and_no_other_topic(tmp_path, monkeypatch):
    """Encoding 10,000 topics once held the loop up for a quarter of a second at each change."""
    store = StateFile(tmp_path / "catalogue.json")
    encoded: list[str] = []
    fields_of = catalogue._fields_of
    monkeypatch.setattr(
        catalogue, "_fields_of", lambda topic: encoded.append(topic.name) or fields_of(topic)
    )
    topics = TopicCatalogue({f"t{number}": 1 for number in range(50)}, store)
    encoded.clear()
    topics.create("new", 2)
    topics.add_partitions("t7", 3)
    topics.delete("t8")
    assert encoded == ["new", "t7"]
    assert TopicCatalogue(store=store).topics() == topics.topics()


@pytest.mark.parametrize("document", [{}, {"b": 'a "text"', "a": {"deep": [1, None]}}])
@pytest.mark.parametrize(
    "members",
    [[], ['"x": 1'], ['"x": {"y": [2]}', '"z": null'], [f'"{n}": {n}' for n in range(600)]],
    ids=["none", "one", "two", "many"],
)
def test_a_document_in_parts_is_read_whole(tmp_path, document, members):
    store = StateFile(tmp_path / "document.json")
    store.write_parts(document, {"more": members})
    assert store.read() == {**document, "more": json.loads(f"{{{','.join(members)}}}")}


def test_many_members_are_written_some_at_a_time(tmp_path, monkeypatch):
    """To put 10,000 topics into one text keeps the interpreter from all other threads."""
    sizes: list[int] = []

    class Watched:
        def write(self, data: bytes) -> None:
            sizes.append(len(data))

    monkeypatch.setattr(state_file, "replacing", lambda path: contextlib.nullcontext(Watched()))
    members = [f'"topic-{number:06}": {number}' for number in range(10_000)]
    StateFile(tmp_path / "document.json").write_parts({}, {"more": members})
    assert sum(sizes) > 200_000
    assert max(sizes) < 10_000


def test_clients_create_topics_up_to_a_bound_and_owners_as_many_as_they_like(monkeypatch):
    monkeypatch.setattr(catalogue, "MAX_CREATED_TOPICS", 2)
    topics = TopicCatalogue({"a": 1, "b": 1})
    with pytest.raises(TopicExistsError):
        topics.create("a", 1)
    with pytest.raises(TooManyTopicsError, match="at most 2 topics"):
        topics.create("c", 1)
    assert topics.ensure("c", 1).partitions == 1


@pytest.mark.parametrize(
    ("text", "position"), [(b'{"a": ', 6), (b"\xff\xfe", 0), (b"[]", 0), (b"", 0), (b'{"a":1}x', 7)]
)
def test_a_damaged_state_file_names_file_and_byte(tmp_path, text, position):
    path = tmp_path / "catalogue.json"
    path.write_bytes(text)
    with pytest.raises(StateFileError) as raised:
        TopicCatalogue(store=StateFile(path))
    assert raised.value.position == position
    assert str(path) in str(raised.value)
    assert "delete it" in str(raised.value)


@pytest.mark.parametrize(
    "document",
    [{"topics": []}, {"topics": {"a": {}}}, {"topics": {"a": {"topic_id": "x", "partitions": 1}}}],
)
def test_a_store_that_holds_no_catalogue_is_refused(tmp_path, document):
    store = StateFile(tmp_path / "catalogue.json")
    store.write(document)
    with pytest.raises(StoredCatalogueError, match="restore the state file"):
        TopicCatalogue(store=store)


def test_a_write_replaces_the_file_whole(tmp_path):
    store = StateFile(tmp_path / "new" / "state.json")
    assert store.read() is None
    store.write({"a": 1})
    store.write({"b": "é"})
    assert store.read() == {"b": "é"}
    assert [path.name for path in store.path.parent.iterdir()] == ["state.json"]
    assert json.loads(store.path.read_text()) == {"b": "é"}


def stored_names(tmp_path):
    return set(TopicCatalogue(store=StateFile(tmp_path / "catalogue.json")).topics())


def gather(topics, *names):
    with topics.gathered() as changes:
        for name in names:
            topics.create(name, 1)
    return changes


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
        store = SlowStore(tmp_path / "catalogue.json")
        topics = TopicCatalogue({"a": 1}, store)
        first = gather(topics, "b")
        topics.store_soon()
        await written(store)
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
        store = SlowStore(tmp_path / "catalogue.json")
        topics = TopicCatalogue({"a": 1}, store)
        first = gather(topics, "b")
        topics.store_soon()
        await written(store)
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
