"""Transactions in a log: committed and pending offsets after replay, compared with a model of a
dozen lines. By the native core, over TCP after a start, and carried into another log."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from support import segments
from support.asked import OFFSET_DELETE, Asked, Unstable
from support.written import WrittenLog

from pykcoord._native import LiveRecords, Node, partition_of
from pykcoord.config import Config
from pykcoord.log.transfer import Batch, framed

from .conftest import Serve

Key = tuple[str, str, int]
_GROUPS, _TOPICS, _PRODUCERS = ("a", "b"), ("orders", "pay"), (7, 8, 9)


class Model:
    """spec: a marker ends what is pending of its producer; a commit wins over an older one only."""

    def __init__(self) -> None:
        self.log = WrittenLog()
        self.committed: dict[Key, tuple[int, int]] = {}
        self.pending: dict[int, dict[Key, tuple[int, int]]] = {}
        self.epochs: dict[int, int] = {}

    def commit(self, key: Key, offset: int) -> None:
        self.committed[key] = (offset, self.log.commit(*key, offset))

    def commit_in_transaction(self, key: Key, offset: int, producer_id: int) -> None:
        producer = (producer_id, self.epochs.setdefault(producer_id, 0))
        written_at = self.log.commit(*key, offset, producer=producer)
        self.pending.setdefault(producer_id, {})[key] = (offset, written_at)

    def forget(self, key: Key) -> None:
        self.log.commit(*key, None)
        self.committed.pop(key, None)
        for offsets in self.pending.values():
            offsets.pop(key, None)

    def end(self, producer_id: int, committed: bool) -> None:
        """With transaction.version 2 the marker has the epoch of the data + 1, and so has the data
        after it."""
        self.epochs[producer_id] = self.epochs.get(producer_id, 0) + 1
        self.log.marker((producer_id, self.epochs[producer_id]), committed)
        for key, (offset, written_at) in self.pending.pop(producer_id, {}).items():
            if committed and self.committed.get(key, (0, -1))[1] < written_at:
                self.committed[key] = (offset, written_at)

    @property
    def offsets(self) -> dict[Key, int]:
        return {key: offset for key, (offset, _) in self.committed.items()}

    @property
    def unstable(self) -> set[Key]:
        return {key for offsets in self.pending.values() for key in offsets}


def replayed(data: bytes) -> tuple[dict[Key, int], set[Key]]:
    """Offsets and pending partitions, as the native core has them."""
    node = Node(Config().native(), 1, bytes(32))
    node.replay(0, data)
    return {tuple(row[:3]): row[3] for row in node.offsets(0)}, set(node.unstable(0))


def carried(data: bytes, keep_open: bool) -> bytes:
    """The log that `log import` would write of it."""
    live = LiveRecords()
    live.add(data)
    batches, offset = [], 0
    for _, *batch in live.take_runs(1, 0, [], keep_open):
        batches.append(framed(Batch(*batch), offset))  # type: ignore[arg-type]
        offset += batch[2]  # type: ignore[operator]
    return b"".join(batches)


_keys = st.tuples(st.sampled_from(_GROUPS), st.sampled_from(_TOPICS), st.integers(0, 1))
_producers = st.sampled_from(_PRODUCERS)
_steps = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), _keys),
        st.tuples(st.just("commit_in_transaction"), _keys, _producers),
        st.tuples(st.just("forget"), _keys),
        st.tuples(st.just("end"), _producers, st.booleans()),
    ),
    max_size=40,
)


def _run(model: Model, step: tuple[object, ...], number: int) -> None:
    name, *arguments = step
    if name in ("commit", "commit_in_transaction"):
        arguments.insert(1, number)
    getattr(model, str(name))(*arguments)


@given(_steps)
def test_any_interleaving(steps: list[tuple[object, ...]]) -> None:
    model = Model()
    for number, step in enumerate(steps):
        _run(model, step, number)
    assert replayed(model.log.data) == (model.offsets, model.unstable)
    assert replayed(carried(model.log.data, True)) == (model.offsets, model.unstable)
    assert replayed(carried(model.log.data, False)) == (model.offsets, set())


@given(_steps, _steps)
def test_what_was_carried_over_goes_on_alike(
    steps: list[tuple[object, ...]], later: list[tuple[object, ...]]
) -> None:
    """Pending offsets stay pending, and are ended by the markers that come afterwards."""
    model = Model()
    for number, step in enumerate(steps):
        _run(model, step, number)
    moved = carried(model.log.data, True)
    behind = model.log.next_offset
    for number, step in enumerate(later, len(steps)):
        _run(model, step, number)
    rest = b"".join(model.log.batches[behind:])
    assert replayed(moved + rest) == (model.offsets, model.unstable)


A: Key = ("a", "orders", 0)


def _committed_over_pending(model: Model) -> None:
    model.commit_in_transaction(A, 1, 7)
    model.commit(A, 2)
    model.end(7, True)


def _transaction_over_committed(model: Model) -> None:
    model.commit(A, 2)
    model.commit_in_transaction(A, 1, 7)
    model.end(7, True)


def _two_producers(model: Model) -> None:
    model.commit_in_transaction(A, 1, 7)
    model.commit_in_transaction(A, 2, 8)
    model.end(8, True)
    model.end(7, True)


def _fenced(model: Model) -> None:
    """A producer came back under a higher epoch: its first transaction was aborted by a marker of
    that epoch, and what it commits then is under it."""
    model.commit_in_transaction(A, 1, 7)
    model.epochs[7] = 4
    model.end(7, False)
    model.commit_in_transaction(A, 3, 7)
    model.end(7, True)


def _bumped_while_open(model: Model) -> None:
    """Data under two epochs of one producer, one marker: producer ids alone match them."""
    model.commit_in_transaction(A, 1, 7)
    model.epochs[7] = 5
    model.commit_in_transaction(("a", "pay", 1), 2, 7)
    model.end(7, True)


def _marker_of_nobody(model: Model) -> None:
    model.commit(A, 1)
    model.end(9, True)
    model.end(9, False)


def _forgotten_while_pending(model: Model) -> None:
    model.commit_in_transaction(A, 1, 7)
    model.commit_in_transaction(("a", "pay", 1), 2, 7)
    model.forget(A)
    model.end(7, True)


def _open_at_the_end(model: Model) -> None:
    model.commit(A, 1)
    model.commit_in_transaction(A, 2, 7)
    model.commit_in_transaction(("b", "pay", 0), 3, 8)


@pytest.mark.parametrize(
    ("story", "offsets", "unstable"),
    [
        (_committed_over_pending, {A: 2}, set()),
        (_transaction_over_committed, {A: 1}, set()),
        (_two_producers, {A: 2}, set()),
        (_fenced, {A: 3}, set()),
        (_bumped_while_open, {A: 1, ("a", "pay", 1): 2}, set()),
        (_marker_of_nobody, {A: 1}, set()),
        (_forgotten_while_pending, {("a", "pay", 1): 2}, set()),
        (_open_at_the_end, {A: 1}, {A, ("b", "pay", 0)}),
    ],
)
def test_a_story(
    story: Callable[[Model], None], offsets: dict[Key, int], unstable: set[Key]
) -> None:
    model = Model()
    story(model)
    assert (model.offsets, model.unstable) == (offsets, unstable)
    assert replayed(model.log.data) == (offsets, unstable)
    assert replayed(carried(model.log.data, True)) == (offsets, unstable)


def test_random_interleavings_are_served(tmp_path: Path, serve: Serve) -> None:
    """A log of thousands of steps in every partition, asked over TCP, with and without
    RequireStable, and again after a crash."""
    partitions, chosen = 4, random.Random(848)
    models = [Model() for _ in range(partitions)]
    groups: list[list[str]] = [[] for _ in range(partitions)]
    for number in range(40):
        groups[partition_of(f"group-{number}", partitions)].append(f"group-{number}")
    for model, own in zip(models, groups, strict=True):
        for number in range(1500):
            key = (chosen.choice(own), chosen.choice(_TOPICS), chosen.randrange(3))
            producer_id = chosen.choice(_PRODUCERS)
            match chosen.randrange(10):
                case 0 | 1 | 2:
                    model.commit(key, number)
                case 3 | 4 | 5 | 6:
                    model.commit_in_transaction(key, number, producer_id)
                case 7:
                    model.forget(key)
                case _:
                    model.end(producer_id, chosen.random() < 0.6)
    for number, model in enumerate(models):
        model.log.save(tmp_path / "data", number)
    offsets = {key: offset for model in models for key, offset in model.offsets.items()}
    unstable = {key for model in models for key in model.unstable}
    assert unstable
    every = [name for own in groups for name in own]
    wanted = _nested((name, topic, n) for name in every for topic in _TOPICS for n in range(3))
    server = serve(tmp_path / "data", partitions)
    for _ in range(2):
        with Asked(server.address) as asked:
            assert _flat(asked, every) == offsets
            assert asked.unstable(wanted) == _nested(sorted(unstable))
        server.restart()


def test_pending_offsets_of_kafkas_log_are_committed_over_and_deleted(
    tmp_path: Path, serve: Serve
) -> None:
    source = segments.unpack(segments.OWN / "transactions-2", tmp_path / "data")
    unstable: Unstable = segments.expected(source)["unstable"]
    group, topics = next(iter(sorted(unstable.items())))
    topic, partitions = next(iter(sorted(topics.items())))
    server = serve(source, 1, "--topic", f"{topic}:20")
    with Asked(server.address) as asked:
        assert asked.commit(group, [(topic, partitions[0], 99)]) == {ErrorCode.none}
        # It is committed, and the transaction is as open as before.
        assert asked.unstable(unstable) == unstable
        assert asked.offsets([group])[group][topic][str(partitions[0])]["offset"] == 99
        deleted = asked.ask(
            OFFSET_DELETE, 0, group_id=group,
            topics=[{"name": topic, "partitions": [{"partition_index": partitions[0]}]}],
        )  # fmt: skip
        assert deleted.error_code is ErrorCode.none
        left = asked.unstable(unstable)
    assert partitions[0] not in left.get(group, {}).get(topic, [])
    server.restart()
    with Asked(server.address) as asked:
        assert asked.unstable(unstable) == left
        assert str(partitions[0]) not in asked.offsets([group]).get(group, {}).get(topic, {})


def _nested(keys: object) -> Unstable:
    found: Unstable = {}
    for group, topic, partition in keys:  # type: ignore[attr-defined]
        found.setdefault(group, {}).setdefault(topic, []).append(partition)
    return found


def _flat(asked: Asked, groups: list[str]) -> dict[Key, int]:
    return {
        (group, topic, int(partition)): value["offset"]
        for group, topics in asked.offsets(groups).items()
        for topic, partitions in topics.items()
        for partition, value in partitions.items()
    }
