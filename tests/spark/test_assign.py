"""`assign` on Spark: groups stay whole, members keep their partitions, and errors name the
fault."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")
import pyarrow as pa
import pykcoord_spark as ks
from pykcoord_spark.assigning import whole_groups

import pykcoord
from pykcoord.errors import ArgumentError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOPICS = {"orders": 12, "users": 5}
GROUPS = 300


@pytest.fixture(scope="module")
def members(spark: SparkSession) -> DataFrame:
    """Groups of 1 to 4 members; rows of a group are far apart."""
    rows = spark.range(GROUPS * 4).selectExpr(
        f"concat('group-', id % {GROUPS}) as group_id",
        f"concat('member-', id div {GROUPS}) as member_id",
        "array('orders', 'users') as topics",
        "id",
    )
    return rows.where(f"id div {GROUPS} <= id % 4")


def _lists(assigned: DataFrame) -> dict[str, dict[str, list[Any]]]:
    found: dict[str, dict[str, list[Any]]] = {}
    for group, member, partitions in assigned.collect():
        found.setdefault(group, {})[member] = [tuple(each) for each in partitions]
    return found


def test_groups_are_assigned_whole_and_members_keep_what_they_own(members: DataFrame) -> None:
    first = ks.assign(members.where("member_id != 'member-3'"), "cooperative-sticky", TOPICS)
    owned = first.withColumnRenamed("partitions", "owned_partitions")
    joined = members.join(owned, ["group_id", "member_id"], "left")
    found = _lists(ks.assign(joined, "cooperative-sticky", TOPICS))
    assert len(found) == GROUPS
    for number in range(GROUPS):
        names = [f"member-{member}" for member in range(number % 4 + 1)]
        kept = [name for name in names if name != "member-3"]
        before = pykcoord.assign(
            "cooperative-sticky", TOPICS, {name: list(TOPICS) for name in kept}
        )
        subscriptions = {
            name: pykcoord.Subscription(list(TOPICS), owned_partitions=before.get(name, ()))
            for name in names
        }
        wanted = pykcoord.assign("cooperative-sticky", TOPICS, subscriptions)
        assert found[f"group-{number}"] == wanted


def test_a_member_that_is_there_twice_ends_the_job(members: DataFrame) -> None:
    twice = members.where("group_id = 'group-3'").unionByName(members.where("id = 303"))
    with pytest.raises(
        Exception, match='members: group "group-3": member "member-1" is there twice'
    ):
        ks.assign(twice, "range", TOPICS).collect()


def test_what_cannot_be_is_refused_before_a_job_runs(members: DataFrame) -> None:
    for df, strategy, topics, said in (
        (members, "stiky", TOPICS, "strategy: 'stiky' is none of range"),
        (members.drop("group_id"), "range", TOPICS, "members: has no column group_id STRING"),
        (members.drop("topics"), "range", TOPICS, "members: has no column topics"),
        (members.selectExpr("*", "'x' as generation_id"), "range", TOPICS, "generation_id is"),
        (members.selectExpr("*", "array(1) as owned_partitions"), "range", TOPICS, "ARRAY<INT>"),
        (members, "range", None, "topics: is None"),
        (members.selectExpr("*").withColumn("topics", members.id), "range", TOPICS, "is BIGINT"),
    ):
        with pytest.raises(ArgumentError, match=said):
            ks.assign(df, strategy, topics)


def test_batches_are_cut_between_groups() -> None:
    groups = ["a", "a", "b", "c", "c", "c", "c", "c", "d"]
    table = pa.table({"group_id": groups, "member_id": [str(at) for at in range(9)]})
    for size in range(1, 10):
        cut = list(whole_groups(table.to_batches(max_chunksize=size)))
        assert pa.Table.from_batches(cut).equals(table)
        seen = [set(batch.column("group_id").to_pylist()) for batch in cut]
        assert sum(map(len, seen)) == len(set().union(*seen)) == 4
    assert list(whole_groups([])) == []
