"""Requests by the million, made by Spark itself: rows of `pykcoord.arrow.REQUEST`.

Of ten requests six commit, two join (and wait, or time out), one fetches and one is the heartbeat
of an unknown member. Each request follows from its number alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

START_MS = 1_790_000_000_000

_KIND = "pmod(id, 10)"
_MINUS_ONE = "X'FFFFFFFF'"
_NULL = "X'FFFF'"


def _string(text: str) -> str:
    data = f"encode({text}, 'utf-8')"
    return f"unhex(lpad(hex(length({data})), 4, '0')), {data}"


def _int(number: str, digits: int = 8) -> str:
    return f"unhex(lpad(hex({number}), {digits}, '0'))"


_GROUP, _TOPIC, _EMPTY = _string("group_id"), _string("'orders'"), "X'0000'"
_PARTITION = _int("pmod(id, 7)")
_COMMIT = (
    f"concat({_GROUP}, {_MINUS_ONE}, {_EMPTY}, {_NULL}, X'00000001', {_TOPIC}, X'00000001', "
    f"{_PARTITION}, {_int('id', 16)}, {_MINUS_ONE}, {_string(repr('note'))})"
)
_JOIN = (
    f"concat({_GROUP}, {_int('10000')}, {_int('3000')}, {_EMPTY}, {_string(repr('consumer'))}, "
    f"X'00000001', {_string(repr('range'))}, X'00000003616263')"
)
_FETCH = f"concat({_GROUP}, X'00000001', {_TOPIC}, X'00000001', {_PARTITION})"
_HEARTBEAT = f"concat({_GROUP}, X'00000001', {_string(repr('nobody'))}, {_NULL})"


def requests(
    spark: SparkSession, count: int, groups: int, *, per_second: int = 100, first: int = 0
) -> DataFrame:
    """`count` requests from number `first` on, of groups drawn from `groups` ids."""
    rows = spark.range(first, first + count).selectExpr(
        "id", f"concat('group-', pmod(xxhash64(id), {groups})) as group_id"
    )
    return rows.selectExpr(
        "id as seq",
        f"{START_MS} + id * 1000 div {per_second} as ts",
        "group_id",
        f"case when {_KIND} = 9 then 'nobody' end as member_id",
        f"cast({_one_of(8, 11, 9, 12)} as smallint) as api_key",
        f"cast({_one_of(7, 3, 5, 3)} as smallint) as api_version",
        f"case when {_KIND} = 9 then 1 end as generation",
        "'client' as client_id",
        "'/10.0.0.7' as client_host",
        f"{_one_of(_COMMIT, _JOIN, _FETCH, _HEARTBEAT)} as payload",
    )


def _one_of(commit: object, join: object, fetch: object, heartbeat: object) -> str:
    return (
        f"case when {_KIND} < 6 then {commit} when {_KIND} < 8 then {join} "
        f"when {_KIND} = 8 then {fetch} else {heartbeat} end"
    )
