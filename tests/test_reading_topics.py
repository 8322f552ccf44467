"""What other processes have changed in the topics is read beside the loop, and taken in slices."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from pykcoord import comparing, storing
from pykcoord.catalogue import (
    Changed,
    NotControllerError,
    StoredCatalogueError,
    TopicCatalogue,
)
from pykcoord.cli.nodes.node import _FollowedTopics
from pykcoord.log.state_file import StateFile, StateFileError
from pykcoord.server import Broker
from pykcoord.storing import StoreConflictError

SESSION = "consumer.session.timeout.ms"
CONTROLLER = Broker(1, "127.0.0.1", 9092)


class Watched(StateFile):
    """Knows the threads in which it was read. `go` is cleared to hold a reader."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.readers: list[str] = []
        self.whole = 0
        self.go = threading.Event()
        self.go.set()

    def read(self) -> dict[str, Any] | None:
        self.whole += 1
        return super().read()

    def as_written(self) -> bytes | None:
        self.readers.append(threading.current_thread().name)
        content = super().as_written()
        assert self.go.wait(60)
        return content


def made(topics: TopicCatalogue, *names: str) -> None:
    with topics.together():
        for name in names:
            topics.create(name, 1)


def pair(tmp_path: Path, *names: str) -> tuple[TopicCatalogue, TopicCatalogue, Watched]:
    """Of the node that changes topics, and of one that reads them from the same file."""
    first = TopicCatalogue({"a": 1}, StateFile(tmp_path / "catalogue.json"))
    made(first, *names)
    file = Watched(tmp_path / "catalogue.json")
    return first, TopicCatalogue(None, _FollowedTopics(file, CONTROLLER)), file


def same(one: TopicCatalogue, other: TopicCatalogue) -> bool:
    ids = {topic.topic_id: topic for topic in one.topics().values()}
    return (
        one.topics() == other.topics()
        and one.group_configs() == other.group_configs()
        and all(other.by_id(topic_id) == topic for topic_id, topic in ids.items())
    )


def test_topics_of_others_are_read_beside_the_loop_and_taken_in_slices(tmp_path: Path) -> None:
    """All of them were read and compared on the loop, 35 ms of it for each 128 of a
    CreateTopics."""

    async def main() -> None:
        before = [f"t{number}" for number in range(1_000)]
        first, second, file = pair(tmp_path, *before)
        second.set_end_offsets({("t7", 0): 7, ("t8", 0): 8})
        kept = second.topics()["t9"]
        file.readers.clear()
        file.whole = 0
        slices: list[tuple[int, int]] = []
        ends: list[int] = []
        iteration = 0

        def changed(of: Changed) -> None:
            slices.append((iteration, len(of)))

        second.on_topics(changed)
        second.on_change(lambda: ends.append(len(slices)))
        with first.together():
            made(first, *(f"u{number}" for number in range(700)))
            for name in before[100:300]:
                first.delete(name)
            first.add_partitions("t7", 3)
            first.set_group_configs("g", {SESSION: "50000"})
        read = second.reload_soon()
        while not read.done():
            iteration += 1
            await asyncio.sleep(0)
        assert file.readers == ["pykcoord-catalogue"]
        assert file.whole == 0
        assert sum(number for _, number in slices) == 901
        assert max(number for _, number in slices) <= 32
        assert len({at for at, _ in slices}) == len(slices)
        assert ends == [len(slices)]  # once all is known
        assert second.topics()["t7"].partitions == 3
        assert [second.topics()[name].end_offset(0) for name in ("t7", "t8")] == [7, 8]
        assert second.topics()["t9"] is kept
        second.set_end_offsets({("t7", 0): 0, ("t8", 0): 0})
        made(first, "again")
        await second.reload_soon()
        assert {*second.topics()} == {*first.topics()}
        assert second.by_id(first.topics()["again"].topic_id) is not None
        assert second.group_configs() == {"g": {SESSION: "50000"}}

    asyncio.run(main())


def test_only_lines_that_are_not_known_are_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        first, second, _ = pair(tmp_path, *(f"t{number}" for number in range(500)))
        parsed: list[str] = []
        loads = json.loads

        def counted(text: str) -> Any:
            parsed.append(text)
            return loads(text)

        monkeypatch.setattr(comparing.json, "loads", counted)
        made(first, "b", "c")
        first.delete("t250")
        await second.reload_soon()
        assert len(parsed) == 2
        assert same(first, second)

    asyncio.run(main())


def test_other_threads_have_the_interpreter_while_topics_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        first, second, _ = pair(tmp_path, *(f"t{number}" for number in range(3_000)))
        rests: list[str] = []
        sleep = comparing.rest

        def rest(seconds: float) -> None:
            rests.append(threading.current_thread().name)
            sleep(seconds)

        monkeypatch.setattr(comparing, "rest", rest)
        made(first, *(f"u{number}" for number in range(600)))
        await second.reload_soon()
        assert set(rests) == {"pykcoord-catalogue"}
        # 400 KB of lines, 600 of them parsed and looked at.
        assert len(rests) > 400_000 / 32_768 + 2 * 600 / 64
        assert same(first, second)

    asyncio.run(main())


def test_what_is_told_while_topics_are_read_is_read_after_it(tmp_path: Path) -> None:
    async def main() -> None:
        first, second, file = pair(tmp_path)
        made(first, "b")
        file.readers.clear()
        file.go.clear()
        reads = [second.reload_soon()]
        while not file.readers:
            await asyncio.sleep(0.001)
        made(first, "c")
        reads += [second.reload_soon(), second.reload_soon()]
        file.go.set()
        await reads[0]
        assert {*second.topics()} == {"a", "b"}
        await reads[1]
        assert reads[2].done()
        assert same(first, second)
        assert len(file.readers) == 2

    asyncio.run(main())


@pytest.mark.parametrize("indent", [None, 1])
def test_a_catalogue_that_was_written_by_hand_is_read_too(
    tmp_path: Path, indent: int | None
) -> None:
    async def main() -> None:
        first, second, file = pair(tmp_path, "b", "group_configs")
        document = json.loads(file.path.read_bytes())
        del document["topics"]["b"]
        document["topics"]["a"]["partitions"] = 5
        document["group_configs"] = {"g": {SESSION: 50000}}
        file.path.write_text(json.dumps(document, indent=indent))
        await second.reload_soon()
        first.reload()
        assert same(first, second)
        assert {name: topic.partitions for name, topic in second.topics().items()} == {
            "a": 5,
            "group_configs": 1,
        }
        assert second.group_configs() == {"g": {SESSION: "50000"}}

    asyncio.run(main())


@pytest.mark.parametrize(
    "damage",
    [
        b'{\n "topics": {\n  "b": {"topic_id": 1}\n }\n}\n',
        b'{\n "topics": {\n  "b": 5\n }\n}\n',
        b'{\n "topics": [],\n "group_configs": 7\n}\n',
        b'{\n "topics": {\n  "b": {"topic_id": "',
        b'{\n "topics": {\n  "a": \xff',
        b"",
    ],
)
def test_a_catalogue_that_cannot_be_read_changes_nothing(tmp_path: Path, damage: bytes) -> None:
    async def main() -> None:
        first, second, file = pair(tmp_path)
        before = file.path.read_bytes()
        file.path.write_bytes(damage)
        with pytest.raises((StoredCatalogueError, StateFileError)):
            await second.reload_soon()
        assert {*second.topics()} == {"a"}
        file.path.write_bytes(before)
        made(first, "b")
        await second.reload_soon()
        assert same(first, second)

    asyncio.run(main())


def test_a_node_that_changes_no_topics_says_so_without_writing_them_on_its_loop(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        _, second, _ = pair(tmp_path)
        with second.gathered() as changes:
            second.create("b", 1)
        second.store_soon()
        assert changes.error is None  # a thread asks
        await changes.ended()
        assert isinstance(changes.error, NotControllerError)
        assert {*second.topics()} == {"a"}

    asyncio.run(main())


class Shared(Watched):
    """Others write it, too: who has not read what they wrote does not."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.seen = b""

    def as_written(self) -> bytes | None:
        content = super().as_written()
        self.seen = content or b""
        return content

    def write_parts(self, document: dict[str, Any], objects: Mapping[str, Iterable[str]]) -> None:
        if self.path.exists() and self.path.read_bytes() != self.seen:
            raise StoreConflictError("read it")
        super().write_parts(document, objects)
        self.seen = self.path.read_bytes()


@pytest.mark.parametrize("ours", ["late", "u5", "u299"])
def test_a_change_that_comes_after_those_of_others_waits_until_all_are_taken(
    tmp_path: Path, ours: str
) -> None:
    """It is stored on top of all of them, or, where one of them is of the same topic, refused."""

    async def main() -> None:
        path = tmp_path / "catalogue.json"
        first = TopicCatalogue({"a": 1}, Shared(path))
        store = Shared(path)
        second = TopicCatalogue(None, store)
        made(first, *(f"u{number}" for number in range(300)))
        store.readers.clear()
        with second.gathered() as changes:
            second.create("early", 1)
        second.store_soon()
        more = None
        while not changes.ended().done():
            await asyncio.sleep(0)
            if more is None and "u0" in second.topics():
                assert "u299" not in second.topics()
                assert not changes.is_stored
                with second.gathered() as more:
                    if ours not in second.topics():
                        second.create(ours, 1)
                second.store_soon()
        assert set(store.readers) == {"pykcoord-catalogue"}
        assert more is not None
        if more:
            await more.ended()
        assert second.pending() == []
        first.reload()
        assert same(first, second)
        assert changes.is_stored == (ours != "u299")
        assert ("early" in second.topics()) == (ours != "u299")
        assert len(second.topics()) == 301 + {"late": 2, "u5": 1, "u299": 0}[ours]
        if ours == "u299":
            assert isinstance(changes.error, StoreConflictError)

    asyncio.run(main())


def test_who_does_not_wait_on_the_loop_has_all_that_others_have_changed(tmp_path: Path) -> None:
    async def main() -> None:
        first, second, file = pair(tmp_path)
        made(first, *(f"u{number}" for number in range(300)))
        file.go.clear()
        read = second.reload_soon()
        file.go.set()
        second.reload()
        assert same(first, second)
        await asyncio.wait_for(read, 60)
        assert storing._AT_ONCE < 300

    asyncio.run(main())


def test_all_that_is_stored_is_made_current_though_who_is_told_fails(tmp_path: Path) -> None:
    """The slices behind the one whose telling failed were left out."""

    async def main() -> None:
        failures: list[object] = []
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: failures.append(context["exception"])
        )
        path = tmp_path / "catalogue.json"
        first, second = TopicCatalogue({"a": 1}, Shared(path)), TopicCatalogue(None, Shared(path))
        told: list[Changed] = []

        def fails_once(changed: Changed) -> None:
            told.append(changed)
            if len(told) == 1:
                raise ValueError("told")

        second.on_topics(fails_once)
        made(first, *(f"t{number}" for number in range(100)))
        with pytest.raises(ValueError, match="told"):
            await second.reload_soon()
        assert same(first, second)
        told.clear()
        with second.gathered() as changes:
            for number in range(100):
                second.create(f"u{number}", 1)
        second.store_soon()
        await changes.ended()
        first.reload()
        assert len(first.topics()) == 201
        assert same(first, second)
        assert [str(failure) for failure in failures] == ["told"]

    asyncio.run(main())
