"""Requests and assignments as clients in virtual time make them."""

from __future__ import annotations

import dataclasses
import struct
import typing
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

JOIN, SYNC, HEARTBEAT, LEAVE, COMMIT, CONSUMER = 11, 14, 12, 13, 8, 68
VERSIONS = {JOIN: 9, SYNC: 5, HEARTBEAT: 4, LEAVE: 5, COMMIT: 8, CONSUMER: 1, 42: 2}
NONE, LOADING, UNKNOWN, REBALANCING, ID_REQUIRED, FENCED, OUTSIDE_FENCED, UNRELEASED = (
    0, 14, 25, 27, 79, 82, 110, 111
)  # fmt: skip
COOPERATIVE = "cooperative-sticky"


def build(schema: Any, fields: Mapping[str, Any]) -> Any:
    """A kio entity of the values in `fields` that its version has; missing ones take defaults."""
    values = {}
    for name, nested, many in _plan(schema):
        if name not in fields:
            continue
        value = fields[name]
        if nested is None or value is None:
            values[name] = value
        elif many:
            values[name] = tuple(build(nested, item) for item in value)
        else:
            values[name] = build(nested, value)
    return schema(**values)


@cache
def _plan(schema: Any) -> tuple[tuple[str, type[Any] | None, bool], ...]:
    """Per field: its name, the class of nested structures, whether it is an array of them."""
    hints = typing.get_type_hints(schema)
    return tuple((f.name, *_nested(hints[f.name])) for f in dataclasses.fields(schema))


def _nested(hint: Any) -> tuple[type[Any] | None, bool]:
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) is tuple:
        return (arguments[0], True) if _is_entity(arguments[0]) else (None, False)
    for argument in arguments:  # X | None
        found = _nested(argument)
        if found[0] is not None:
            return found
    return (hint, False) if _is_entity(hint) else (None, False)


def _is_entity(hint: Any) -> bool:
    return isinstance(hint, type) and dataclasses.is_dataclass(hint)


def subscription(topics: tuple[str, ...]) -> bytes:
    """Version 1, without user data or owned partitions."""
    names = b"".join(struct.pack(">h", len(name)) + name.encode() for name in topics)
    return struct.pack(">hi", 1, len(topics)) + names + struct.pack(">ii", -1, 0)


def assigned(topics: Mapping[str, int], members: Mapping[str, bytes]) -> list[dict[str, Any]]:
    """Round about, in the order of the ids' first letters."""
    shares: dict[str, dict[str, list[int]]] = {member: {} for member in sorted(members)}
    for topic, partitions in sorted(topics.items()):
        name = struct.pack(">h", len(topic)) + topic.encode()
        takers = [member for member in shares if name in members[member]]
        for partition in range(partitions if takers else 0):
            shares[takers[partition % len(takers)]].setdefault(topic, []).append(partition)
    return [{"member_id": of, "assignment": assignment(share)} for of, share in shares.items()]


def shares(found: Mapping[str, Iterable[tuple[str, int]]]) -> list[dict[str, Any]]:
    """Partitions of each member, as a leader sends them."""
    sent = []
    for member, partitions in found.items():
        share: dict[str, list[int]] = {}
        for topic, partition in partitions:
            share.setdefault(topic, []).append(partition)
        sent.append({"member_id": member, "assignment": assignment(share)})
    return sent


def assignment(share: Mapping[str, list[int]]) -> bytes:
    out = struct.pack(">hi", 0, len(share))
    for topic, partitions in share.items():
        out += struct.pack(">h", len(topic)) + topic.encode() + struct.pack(">i", len(partitions))
        out += b"".join(struct.pack(">i", partition) for partition in partitions)
    return out + struct.pack(">i", -1)


def partitions_of(assignment: bytes) -> list[tuple[str, int]]:
    if not assignment:
        return []
    found, at = [], 6
    for _ in range(struct.unpack_from(">i", assignment, 2)[0]):
        (length,) = struct.unpack_from(">h", assignment, at)
        topic = assignment[at + 2 : at + 2 + length].decode()
        (count,) = struct.unpack_from(">i", assignment, at + 2 + length)
        at += 6 + length
        found += [(topic, of) for of in struct.unpack_from(f">{count}i", assignment, at)]
        at += 4 * count
    return found
