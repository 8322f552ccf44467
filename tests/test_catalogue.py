"""Topics: names, ids, growth, memory across restarts, damaged state files."""

from __future__ import annotations

import contextlib
import json

import pytest

from pykcoord import catalogue
from pykcoord.catalogue import (
    MAX_PARTITIONS,
    InvalidPartitionsError,
    InvalidTopicError,
    StoredCatalogueError,
    TooManyTopicsError,
    TopicCatalogue,
    TopicExistsError,
    UnknownTopicError,
    native_topics,
)
from pykcoord.errors import ArgumentError
from pykcoord.log import state_file
from pykcoord.log.state_file import StateFile, StateFileError
from pykcoord.topic_ids import id_text, new_id


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
