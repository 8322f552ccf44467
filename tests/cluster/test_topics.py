"""The topics that all nodes of a cluster share: changes that two nodes make at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from support.hosting import FaultyStore

from pykcoord.catalogue import StoredCatalogueError, TopicCatalogue, TopicExistsError
from pykcoord.cluster.topics import SharedTopics, open_topics
from pykcoord.log.shared import FolderStore, Store
from pykcoord.storing import StoreConflictError


@pytest.fixture(params=["folder", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    made: Store = FolderStore(tmp_path) if request.param == "folder" else FaultyStore()
    return made


@pytest.fixture
def pair(store: Store) -> tuple[TopicCatalogue, TopicCatalogue]:
    """Of two nodes."""
    return open_topics(SharedTopics(store), {"orders": 2}), open_topics(SharedTopics(store))


def test_both_have_the_same_topics_and_ids(pair: tuple[TopicCatalogue, TopicCatalogue]) -> None:
    first, second = pair
    assert (second.topics(), second.cluster_id) == (first.topics(), first.cluster_id)


def test_a_change_is_made_on_top_of_one_that_was_not_heard_of(
    pair: tuple[TopicCatalogue, TopicCatalogue],
) -> None:
    first, second = pair
    told: list[int] = []
    second.on_change(lambda: told.append(len(second.topics())))
    first.create("bills", 1)
    first.set_group_configs("a", {"consumer.session.timeout.ms": "50000"})
    second.create("late", 1)
    second.add_partitions("orders", 5)
    assert told == [2, 3, 3]  # of what the other did, and of its own
    assert second.topics()["bills"] == first.topics()["bills"]
    assert second.by_id(first.topics()["bills"].topic_id) is not None
    assert second.group_configs() == first.group_configs()
    first.reload()
    assert first.topics() == second.topics()
    assert first.topics()["orders"].partitions == 5


def test_what_one_node_deletes_another_does_not_bring_back(
    pair: tuple[TopicCatalogue, TopicCatalogue],
) -> None:
    first, second = pair
    first.delete("orders")
    second.create("late", 1)
    assert [*second.topics()] == ["late"]


def test_nothing_is_stored_on_top_of_topics_that_cannot_be_read(
    pair: tuple[TopicCatalogue, TopicCatalogue], store: Store
) -> None:
    """It would be without what another node has made, which that one has acknowledged."""
    first, second = pair
    first.create("bills", 1)
    newest = f"registry/topics/{max(store.names('registry/topics'))}"
    whole = store.read(newest)
    assert whole is not None
    store.delete(newest)
    assert store.create(newest, b'{"topics": {"bills": {"partitions": "many"}}}')
    for _ in range(2):
        with pytest.raises(StoredCatalogueError):
            second.reload()
        with pytest.raises(StoredCatalogueError):
            second.create("late", 1)
    assert second.is_behind
    assert f"registry/topics/{max(store.names('registry/topics'))}" == newest
    store.delete(newest)
    assert store.create(newest, whole)
    second.create("late", 1)
    assert not second.is_behind
    first.reload()
    assert {*first.topics()} == {*second.topics()} == {"orders", "bills", "late"}


def test_of_two_changes_of_one_topic_the_first_stands(
    pair: tuple[TopicCatalogue, TopicCatalogue],
) -> None:
    first, second = pair
    first.create("bills", 1)
    with pytest.raises(StoreConflictError, match="made by another node"):
        second.create("bills", 3)
    assert second.topics()["bills"].partitions == 1
    with pytest.raises(TopicExistsError):
        second.create("bills", 3)


class SlowTopics(SharedTopics):
    """Writes beside the loop begin when the test says so; `began` counts them."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.began = threading.Semaphore(0)
        self.go = threading.Semaphore(0)

    def write_parts(self, document: dict[str, Any], objects: Mapping[str, Iterable[str]]) -> None:
        if threading.current_thread() is not threading.main_thread():
            self.began.release()
            assert self.go.acquire(timeout=60)
        super().write_parts(document, objects)


@pytest.mark.parametrize("ours", ["late", "bills"])
def test_topics_are_stored_beside_the_loop_on_top_of_those_of_others(
    store: Store, ours: str
) -> None:
    """One of the topics that this node makes is another's, or none of them."""

    async def main() -> None:
        slow = SlowTopics(store)
        topics, others = open_topics(slow, {"orders": 2}), open_topics(SharedTopics(store))
        with topics.gathered() as first:
            topics.create("early", 1)
        topics.store_soon()
        assert await asyncio.to_thread(slow.began.acquire, timeout=60)
        with topics.gathered() as second:
            topics.create(ours, 1)
            topics.add_partitions("early", 2)
        topics.store_soon()
        others.create("bills", 1)
        assert set(topics.topics()) == {"orders"}
        for _ in range(2):
            slow.go.release()
        await first.ended()
        await second.ended()
        if ours == "bills":
            assert isinstance(first.error, StoreConflictError)
            assert first.error is second.error
            assert topics.topics() == others.topics()
        else:
            assert first.is_stored
            assert second.is_stored
            others.reload()
            assert topics.topics() == others.topics()
            assert set(topics.topics()) == {"orders", "bills", "early", "late"}
            assert topics.topics()["early"].partitions == 2
        assert topics.pending() == []

    asyncio.run(main())


def test_two_versions_stay(store: Store) -> None:
    topics = SharedTopics(store)
    catalogue = open_topics(topics, {"orders": 2})
    for number in range(4):
        catalogue.create(f"t{number}", 1)
    assert len(store.names("registry/topics")) == 2
    assert topics.newest() == topics.version
