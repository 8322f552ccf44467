"""`BulkAssignor`: the same as `assign`, group by group, over rows of Arrow."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

pytest.importorskip("pyarrow")
import pyarrow as pa

from pykcoord.assignors import STRATEGIES, BulkAssignor, Subscription, assign, sticky_user_data
from pykcoord.errors import ArgumentError

PARTITION = pa.struct([("topic", pa.string()), ("partition", pa.int32())])
COLUMNS = {
    "group_id": pa.string(),
    "member_id": pa.string(),
    "topics": pa.list_(pa.string()),
    "owned_partitions": pa.list_(PARTITION),
    "generation_id": pa.int32(),
    "rack_id": pa.string(),
    "group_instance_id": pa.string(),
    "user_data": pa.binary(),
}
CATALOGUE = {
    "orders": 12, "users": 3, "größe": 1, "empty": 0, "unused": 5,
    "racked": [["a", "b"], ["b", "c"], ["c", "a"], ["a", "c"]],
}  # fmt: skip
Groups = Mapping[str, Mapping[str, Subscription]]


def _random_groups(seed: int, count: int = 150) -> Groups:
    draw = random.Random(seed)
    names = [*CATALOGUE, "absent"]
    groups = {}
    for number in range(count):
        common = draw.sample(names, draw.randint(0, 5))
        members = {}
        for member in sorted(draw.sample(range(100), draw.randint(1, 6))):
            topics = common if draw.random() < 0.7 else draw.choices(names, k=draw.randint(0, 4))
            owned = {(draw.choice(names), draw.randint(0, 13)) for _ in range(draw.randint(0, 6))}
            members[f"member-{member:02}"] = Subscription(
                topics=topics,
                owned_partitions=sorted(owned),
                generation_id=draw.choice([None, -1, 3, 4, 4, 4]),
                rack_id=draw.choice([None, None, "a", "b", ""]),
                group_instance_id=draw.choice([None, f"static-{draw.randint(0, 99)}"]),
            )
        groups[f"group-{number:03}"] = members
    return groups


def _batch(groups: Groups, **changed: Sequence[Any]) -> Any:
    rows = [
        {
            "group_id": group,
            "member_id": member,
            "topics": list(each.topics),
            "owned_partitions": [
                {"topic": topic, "partition": number} for topic, number in each.owned_partitions
            ],
            "generation_id": each.generation_id,
            "rack_id": each.rack_id,
            "group_instance_id": each.group_instance_id,
            "user_data": each.user_data,
        }
        for group, members in groups.items()
        for member, each in members.items()
    ]
    batch = pa.RecordBatch.from_pylist(rows, schema=pa.schema(COLUMNS))
    for name, values in changed.items():
        column = pa.array(values, COLUMNS[name])
        batch = batch.set_column(batch.schema.get_field_index(name), name, column)
    return batch


def _lists(batches: Sequence[Any]) -> dict[str, dict[str, list[tuple[str, int]]]]:
    found: dict[str, dict[str, list[tuple[str, int]]]] = {}
    for row in pa.Table.from_batches(batches).to_pylist():
        partitions = [(each["topic"], each["partition"]) for each in row["partitions"]]
        found.setdefault(row["group_id"], {})[row["member_id"]] = partitions
    return found


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_groups_are_assigned_as_one_by_one(strategy: str) -> None:
    groups = _random_groups(seed=len(strategy))
    expected = {}
    for group, members in groups.items():
        if strategy == "sticky":  # what the column says is in its user data
            members = {
                member: dataclasses.replace(
                    each,
                    user_data=sticky_user_data(
                        each.owned_partitions,
                        None if each.generation_id == -1 else each.generation_id,
                    ),
                )
                for member, each in members.items()
            }
        expected[group] = assign(strategy, CATALOGUE, members)
    batch = _batch(groups)
    assert _lists(BulkAssignor(strategy, CATALOGUE).assign(batch)) == expected
    # A batch of whole groups that was cut out of a larger one.
    start = len(groups["group-000"])
    del expected["group-000"]
    assert _lists(BulkAssignor(strategy, CATALOGUE).assign(batch.slice(start))) == expected


def test_user_data_goes_before_what_is_owned() -> None:
    data = sticky_user_data([("users", 0), ("users", 1)], 7)
    members = {
        "a": Subscription(["users"]),
        "b": Subscription(["users"], owned_partitions=[("users", 2)], user_data=data),
    }
    found = _lists(BulkAssignor("sticky", CATALOGUE).assign(_batch({"g": members})))
    assert found["g"] == assign("sticky", CATALOGUE, members)
    assert found["g"]["b"] == [("users", 0), ("users", 1)]


def test_numbers_of_partitions_may_come_with_the_rows() -> None:
    schema = pa.schema({**COLUMNS, "topics": pa.map_(pa.string(), pa.int32())})
    rows = [
        {"group_id": "g", "member_id": "a", "topics": [("x", 3)]},
        {"group_id": "g", "member_id": "b", "topics": [("x", 3), ("y", 1)]},
        {"group_id": "h", "member_id": "a", "topics": [("x", 2)]},
    ]
    batch = pa.RecordBatch.from_pylist(rows, schema=schema)
    found = _lists(BulkAssignor("range", {}).assign(batch))
    assert found["g"] == assign("range", {"x": 3, "y": 1}, {"a": ["x"], "b": ["x", "y"]})
    assert found["h"] == {"a": [("x", 0), ("x", 1)]}
    rows[1]["topics"] = [("x", 4)]
    refused = r"members: group 'g': topic 'x': has 3 partitions in one row, 4 in another"
    with pytest.raises(ArgumentError, match=refused.replace("'", '"')):
        BulkAssignor("range", {}).assign(pa.RecordBatch.from_pylist(rows, schema=schema))


def test_long_results_come_in_several_batches_of_whole_groups() -> None:
    groups = {f"g{number}": {"m": Subscription(["wide"])} for number in range(5)}
    batches = BulkAssignor("range", {"wide": 400_000}).assign(_batch(groups))
    assert [batch.num_rows for batch in batches] == [3, 2]
    lengths = [len(list_) for batch in batches for list_ in batch.column("partitions")]
    assert lengths == [400_000] * 5


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"member_id": ["a", "a", "c"]}, 'group "g": member "a" is there twice'),
        ({"member_id": ["b", "a", "c"]}, 'group "g": its rows are not sorted by member'),
        ({"group_id": ["g", "g", "f"]}, 'group "g": the rows are not sorted by group'),
        ({"group_id": ["g", None, "h"]}, "column group_id has a NULL"),
        ({"topics": [["x"], None, []]}, 'group "g": column topics is NULL for "b"'),
        ({"topics": [["x"], [None], []]}, 'group "g": column topics has a NULL in it'),
        (
            {"owned_partitions": [None, [{"topic": "orders", "partition": None}], []]},
            'group "g": member "b": column owned_partitions has a NULL in it',
        ),
    ],
)
def test_what_is_wrong_is_named(changed: dict[str, list[Any]], said: str) -> None:
    members = {member: Subscription(["orders"]) for member in ("a", "b")}
    batch = _batch({"g": members, "h": {"c": Subscription(["orders"])}}, **changed)
    with pytest.raises(ArgumentError, match=said):
        BulkAssignor("cooperative-sticky", CATALOGUE).assign(batch)


def test_columns_of_another_type_and_unknown_strategies_are_refused() -> None:
    batch = _batch({"g": {"a": Subscription(["orders"])}})
    for name, column, said in (
        ("member_id", pa.array([1]), "column member_id is Int64, not string"),
        ("topics", pa.array(["orders"]), "column topics is neither"),
        ("generation_id", pa.array(["4"]), "column generation_id is Utf8, not int32"),
    ):
        wrong = batch.set_column(batch.schema.get_field_index(name), name, column)
        with pytest.raises(ArgumentError, match=said):
            BulkAssignor("range", CATALOGUE).assign(wrong)
    with pytest.raises(ArgumentError, match="members: has no column topics"):
        BulkAssignor("range", CATALOGUE).assign(batch.drop_columns("topics"))
    with pytest.raises(ArgumentError, match='strategy: "stiky" is none of range'):
        BulkAssignor("stiky", CATALOGUE)
