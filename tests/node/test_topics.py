"""The topics of a cluster are taken from the metadata log some at a time, and a node serves on."""

from __future__ import annotations

import asyncio
import uuid

from pykcoord.catalogue import Changed, TopicCatalogue
from pykcoord.node import topics
from pykcoord.node.image import GROUP_KIND, Image
from pykcoord.node.metadata_records import (
    ConfigSet,
    PartitionChanged,
    PartitionSet,
    TopicGone,
    TopicSet,
)
from pykcoord.node.topics import FollowedTopics, ImageTopics, open_topics

_SESSION = "consumer.session.timeout.ms"


def made(image: Image, *names: str, partitions: int = 1) -> None:
    for name in names:
        topic_id = uuid.uuid4()
        image.apply(TopicSet(name, topic_id))
        for number in range(partitions):
            grown(image, topic_id, number)


def grown(image: Image, topic_id: uuid.UUID, number: int) -> None:
    image.apply(PartitionSet(topic_id, number, (1, 2), (1, 2), (), (), 1, 0, 0, 0))


class Rig:
    """`told` are the changes by the iteration of the loop, `looked_at` the topics; `ends` how many
    changes there were when one was said to be whole."""

    def __init__(self, image: Image) -> None:
        self.iteration = 0
        self.told: list[tuple[int, int]] = []
        self.looked_at: list[tuple[int, str]] = []
        self.ends: list[int] = []
        self.catalogue = open_topics(ImageTopics("cluster", image))
        self.catalogue.on_topics(self._tell)
        self.catalogue.on_change(lambda: self.ends.append(len(self.told)))
        self.followed = FollowedTopics(
            self.catalogue, image, lambda name: self.looked_at.append((self.iteration, name))
        )

    def _tell(self, changed: Changed) -> None:
        self.told.append((self.iteration, len(changed)))

    async def follow(self, image: Image) -> None:
        self.followed.follow(image)
        while image.touched:
            self.iteration += 1
            await asyncio.sleep(0)


def same(catalogue: TopicCatalogue, image: Image) -> bool:
    found = open_topics(ImageTopics("cluster", image))
    return (
        catalogue.topics() == found.topics()
        and catalogue.group_configs() == found.group_configs()
        and all(catalogue.by_id(id_) is not None for id_ in image.topics.values())
    )


def test_topics_of_the_metadata_log_are_taken_in_slices() -> None:
    """One topic more, and all were read and compared on the loop: 35 ms of it with 10,000."""

    async def main() -> None:
        image = Image()
        made(image, *(f"t{number}" for number in range(1_000)))
        rig = Rig(image)
        await rig.follow(image)  # all are looked at once
        assert len({name for _, name in rig.looked_at}) == len(rig.looked_at) == 1_000
        assert (rig.told, rig.ends) == ([], [])
        rig.looked_at.clear()
        kept = rig.catalogue.topics()["t9"]
        rig.catalogue.set_end_offsets({("t7", 0): 7})
        rig.told.clear()
        rig.ends.clear()
        made(image, *(f"u{number}" for number in range(700)))
        for number in range(100, 300):
            image.apply(TopicGone(image.topics[f"t{number}"]))
        grown(image, image.topics["t7"], 1)
        image.apply(ConfigSet(GROUP_KIND, "g", _SESSION, "50000"))
        await rig.follow(image)
        assert sum(number for _, number in rig.told) == 901
        for taken in (rig.told, [(at, 1) for at, _ in rig.looked_at]):
            by_iteration: dict[int, int] = {}
            for at, number in taken:
                by_iteration[at] = by_iteration.get(at, 0) + number
            assert max(by_iteration.values()) <= topics._AT_ONCE
        assert rig.ends == [len(rig.told)]  # once all is known
        assert rig.catalogue.topics()["t7"].end_offset(0) == 7
        assert rig.catalogue.topics()["t9"] is kept
        assert rig.catalogue.group_configs() == {"g": {_SESSION: "50000"}}
        rig.catalogue.set_end_offsets({("t7", 0): 0})
        assert {*rig.catalogue.topics()} == {*image.topics}
        image.apply(ConfigSet(GROUP_KIND, "g", _SESSION, None))
        await rig.follow(image)
        assert rig.catalogue.group_configs() == {}

    asyncio.run(main())


def test_another_image_is_compared_with_all_that_was_known() -> None:
    """A node that was away for long reads a snapshot."""

    async def main() -> None:
        image = Image()
        made(image, "a", "b", "again")
        image.apply(ConfigSet(GROUP_KIND, "g", _SESSION, "50000"))
        rig = Rig(image)
        await rig.follow(image)
        later = Image()
        made(later, "c", "again", partitions=2)
        later.apply(TopicSet("a", image.topics["a"]))
        grown(later, image.topics["a"], 0)
        before = rig.catalogue.topics()["a"]
        await rig.follow(later)
        assert same(rig.catalogue, later)
        assert rig.catalogue.topics()["a"] is before
        assert {*rig.catalogue.topics()} == {"a", "c", "again"}

    asyncio.run(main())


def test_a_topic_that_is_made_again_is_another_one_and_moves_are_looked_at() -> None:
    async def main() -> None:
        image = Image()
        made(image, "a", "b")
        rig = Rig(image)
        await rig.follow(image)
        rig.looked_at.clear()
        image.apply(TopicGone(image.topics["a"]))
        made(image, "a")
        image.apply(PartitionChanged(image.topics["b"], 0, None, None, (1, 3), None, None, None))
        await rig.follow(image)
        assert same(rig.catalogue, image)
        assert sorted(name for _, name in rig.looked_at) == ["a", "b"]
        assert sum(number for _, number in rig.told) == 1

    asyncio.run(main())


def test_nothing_is_taken_behind_the_end() -> None:
    async def main() -> None:
        image = Image()
        rig = Rig(image)
        made(image, *(f"t{number}" for number in range(100)))
        rig.followed.follow(image)
        rig.followed.close()
        for _ in range(20):
            await asyncio.sleep(0.001)
        assert len(rig.catalogue.topics()) == topics._AT_ONCE

    asyncio.run(main())
