"""Groups in all the states that a log can show, driven over TCP; the same on any server.

`drive` leaves: stable groups with dynamic and static members and of other protocol types, one that
was emptied, simple ones, offsets with metadata and leader epochs, values written many times over,
and the tombstones of offsets, of a group and of one made again under its id.
"""

from __future__ import annotations

from typing import Any

from kio.schema.errors import ErrorCode

from support.asked import DELETE_GROUPS, LEAVE_GROUP, OFFSET_DELETE, Asked

Answers = tuple[dict[str, Any], dict[str, Any], dict[str, Any]]


def asked_of(asked: Asked) -> Answers:
    """All that the server says of its groups: listed, described, offsets."""
    listed = asked.listed()
    return listed, asked.described(listed), asked.offsets(listed)


def drive(asked: Asked, rounds: int = 20) -> None:
    """Leaves the groups behind. Topic `orders` has at least 4 partitions."""
    _stable(asked, "workers")
    _stable(asked, "static-workers", instance_id="at-home")
    _stable(asked, "connect", protocol_type="connect", protocol="sessioned", metadata=b"\0\xff")
    for round_ in range(rounds):
        _commit(asked, f"simple-{round_ % 3}", round_, metadata=f"round {round_}")
    joined = _stable(asked, "emptied")
    left = asked.ask(
        LEAVE_GROUP, 4, group_id="emptied",
        members=[{"member_id": joined.member_id, "group_instance_id": None}],
    )  # fmt: skip
    assert left.error_code is ErrorCode.none
    _forget_offset(asked, "simple-1")
    for group in ("deleted", "made-again"):
        _commit(asked, group, 5)
        deleted = asked.ask(DELETE_GROUPS, 2, groups_names=(group,))
        assert [result.error_code for result in deleted.results] == [ErrorCode.none]
    _stable(asked, "made-again")
    _commit(asked, "группа-消费组", 7, metadata="über")


def _stable(asked: Asked, group: str, **fields: Any) -> Any:
    joined = asked.join_alone(group, **fields)
    errors = asked.commit(
        group, [("orders", 0, 42), ("orders", 2, 44)], leader_epoch=3, metadata="of a member",
        generation_id=joined.generation_id, member_id=joined.member_id,
    )  # fmt: skip
    assert errors == {ErrorCode.none}
    return joined


def _commit(asked: Asked, group: str, offset: int, **fields: Any) -> None:
    assert asked.commit(group, [("orders", 1, offset), ("orders", 3, 0)], **fields) == {
        ErrorCode.none
    }


def _forget_offset(asked: Asked, group: str) -> None:
    topics = [{"name": "orders", "partitions": [{"partition_index": 3}]}]
    response = asked.ask(OFFSET_DELETE, 0, group_id=group, topics=topics)
    assert response.error_code is ErrorCode.none
    assert response.topics[0].partitions[0].error_code is ErrorCode.none
