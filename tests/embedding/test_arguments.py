"""Arguments of the wrong type or value: each is an ArgumentError that names it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kio.schema.heartbeat.v4.request import HeartbeatRequest

from pykcoord import (
    ArrowShard,
    Coordinator,
    Member,
    Shard,
    Subscription,
    TopicPartition,
    assign,
    assignors,
)
from pykcoord.errors import ArgumentError
from pykcoord.shard import Request

# Values that are neither a name nor a number nor a container of the right form; NaN is no number of
# ms, and Python writes no number of more than 4,300 digits.
WRONG: list[Any] = [object(), 1.5, float("nan"), b"\xff", lambda: 1, [None], "\ud800", "x" * 70_000]
WRONG.append(10**5_000)
NO_NUMBERS: list[Any] = [*WRONG, None, "", (), {}, -(2**100), 2**64]
Join = Callable[..., Member]


def refused(call: Callable[[Any], object], values: list[Any]) -> set[str]:
    """The arguments that the errors name. Anything but an ArgumentError fails the test."""
    named = set()
    for value in values:
        with pytest.raises(ArgumentError) as caught:
            call(value)
        named.add(caught.value.argument)
    return named


def test_of_a_member(coordinator: Coordinator, join: Join) -> None:
    member = join()
    member.wait()
    commits: list[Callable[[Any], object]] = [
        lambda wrong: member.commit(wrong),
        lambda wrong: member.commit({("orders", 0): wrong}),
        lambda wrong: member.commit({("orders", 0): 1, ("orders", wrong): 1}),
        lambda _: member.commit({("orders", 0): -1}),
        lambda _: member.commit({("orders", 0, 0): 1}),  # type: ignore[dict-item]
        lambda _: member.commit({"orders": 1}),  # type: ignore[dict-item]
        lambda _: member.commit({(1, 0): 1}),  # type: ignore[dict-item]
        lambda _: member.commit({("orders", 0): True}),
    ]
    for commit in commits:
        assert refused(commit, [wrong for wrong in WRONG if wrong != [None]]) == {"offsets"}
    assert refused(member.committed, [*WRONG[:5], [None]]) == {"partitions"}
    waits: list[Callable[[Any], object]] = [
        member.wait,
        lambda wrong: member.commit({}, wrong),
        lambda wrong: member.committed(None, wrong),
        member.close,
    ]
    for wait in waits:
        wrong_seconds = [object(), float("nan"), float("inf"), -1, "soon", "3", [], 2**64]
        assert refused(wait, wrong_seconds) == {"timeout_seconds"}
    assert member.committed() == {}, "nothing of what was refused was done"
    member.commit({("orders", np.int32(1)): np.int64(7)}, np.float64(20))  # type: ignore[dict-item]
    assert member.committed() == {("orders", 1): 7}


JOIN = (
    *("session_timeout_ms", "rebalance_timeout_ms", "heartbeat_interval_ms", "client_id"),
    *("on_assigned", "on_revoked", "group_instance_id", "group_id", "topics"),
)


@pytest.mark.parametrize("argument", JOIN)
def test_of_join(coordinator: Coordinator, argument: str) -> None:
    wrong = [1.5, object(), [None], b"\xff"]
    options = {"group_id": "billing", "topics": ["orders"]}
    assert refused(lambda value: coordinator.join(**{**options, argument: value}), wrong) == {
        argument
    }
    assert coordinator.groups().num_rows == 0


def test_of_a_coordinator(coordinator: Coordinator, tmp_path: Path) -> None:
    made: Any = Coordinator
    assert refused(made, [None, 1.5, object()]) == {"store"}
    with pytest.raises(ArgumentError, match="store: a directory or a log store, not b'data'"):
        made(b"data")
    with pytest.raises(ArgumentError, match=r"^web: 'nonsense' is not HOST:PORT$"):
        made(tmp_path, web="nonsense")
    for argument in ("topics", "config", "flush", "on_corruption"):
        values = [3, "x", [("orders", 1)], object()]
        given = refused(lambda value, key=argument: made(tmp_path, **{key: value}), values)
        assert given == {argument}
    assert refused(coordinator.add_topics, WRONG) == {"topics"}
    refused(lambda wrong: coordinator.add_topics({"new": wrong}), NO_NUMBERS)
    assert refused(coordinator.set_end_offsets, WRONG) == {"offsets"}
    assert refused(lambda wrong: coordinator.set_end_offsets({("orders", 0): wrong}), NO_NUMBERS)
    columns = "groups, members, generations"
    assert refused(lambda wrong: coordinator.heartbeat_many(wrong, ["m"], [1]), WRONG) == {columns}
    assert refused(lambda wrong: coordinator.heartbeat_many(["g"], ["m"], [wrong]), NO_NUMBERS)
    assert refused(coordinator.commit_many, [*WRONG, None]) == {"batch"}
    beat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")  # type: ignore[arg-type]
    assert refused(lambda wrong: coordinator.handle(beat, wrong), WRONG) == {"client_id"}
    unfit = HeartbeatRequest(group_id="g", generation_id="1", member_id=7)  # type: ignore[arg-type]
    assert refused(lambda _: coordinator.handle(unfit).result(60), [None]) == {"request"}
    assert coordinator.topics == {"orders": 6}


def test_of_a_shard() -> None:
    shard = Shard()
    every: list[tuple[Any, list[str]]] = [
        (Shard, ["config", "topics", "seed"]),
        (ArrowShard, ["config", "topics", "seed", "shard", "shards", "epoch"]),
    ]
    values = [1.5, "x", [("orders", 1)], object(), -1]
    for kind, known in every:
        for argument in known:
            given = refused(lambda value, new=kind, key=argument: new(**{key: value}), values)
            assert given == {argument}
    ends: Any = [[], {"orders": 1}, {"orders": {0: "x"}}, {"orders": {0: 2**64}}, {1: {}}]
    assert refused(lambda wrong: shard.set_topics({"orders": 1}, wrong), ends) == {"end_offsets"}
    assert refused(lambda wrong: shard.replay(wrong, 0), ["", None, 3]) == {"chunk"}
    assert refused(lambda wrong: shard.replay(b"", wrong), NO_NUMBERS) == {"next_offset"}
    assert refused(shard.step, NO_NUMBERS) == {"now_ms"}
    assert refused(lambda wrong: shard.step(0, [], wrong), [1.5, "x", 2**64]) == {
        "committed_offset"
    }
    requests: list[Any] = [3, [3], [Request("1", b"")], [Request(1, "x")], [(1, b"", "/10.0.0.1")]]  # type: ignore[arg-type]
    assert refused(lambda wrong: shard.step(0, wrong), requests) == {"requests"}
    assert refused(shard.abandon, NO_NUMBERS) == {"ticket"}
    rows = ArrowShard()
    assert refused(rows.advance, NO_NUMBERS) == {"now_ms"}
    assert refused(rows.take_batches, NO_NUMBERS) == {"leader_epoch"}
    assert refused(rows.resume, [None, "x", 3, b"\xff"]) == {"checkpoint"}
    assert shard.step(0).responses == []


def test_of_assignors() -> None:
    pairs: list[Any] = [3, [3], [("t",)], [("t", "0")], [("t", -1)], [("x" * 70_000, 0)]]
    assert refused(assignors.encode_assignment, pairs) == {"partitions"}
    assert refused(assignors.sticky_user_data, pairs) == {"partitions"}
    whole: Any = [("t", 0)]
    assert refused(lambda wrong: assignors.sticky_user_data(whole, wrong), ["x", 2**64]) == {
        "generation_id"
    }
    assert refused(lambda wrong: assignors.encode_assignment(whole, wrong), ["x", 3]) == {
        "user_data"
    }
    assert refused(assignors.decode_subscription, [None, "x", 3, b""]) == {"metadata"}
    fields: list[dict[str, Any]] = [
        {"topics": [3]},
        {"topics": ["x" * 70_000]},
        {"owned_partitions": [3]},
        {"generation_id": "x"},
        {"rack_id": 3},
        {"user_data": "x"},
    ]
    said = refused(lambda wrong: assignors.encode_subscription(Subscription(**wrong)), fields)
    assert said == {"subscription"}
    assert refused(assignors.encode_subscription, [None, ["t"]]) == {"subscription"}
    one = Subscription(["t"])
    assert refused(lambda wrong: assignors.encode_subscription(one, wrong), NO_NUMBERS) == {
        "version"
    }
    assert refused(lambda wrong: assign(wrong, {"t": 1}, {"m": ["t"]}), [None, [], 3]) == {
        "strategy"
    }
    given = assign("range", {"t": 1}, {"m": ["t"]})
    assert given == {"m": [TopicPartition("t", 0)]}
