"""Cases of assignors with the results of Kafka's Java classes, as lines of JSON."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pykcoord import Subscription
from pykcoord.assignors import sticky_user_data

NAMES = ("assignors*.jsonl", "seed-examples.jsonl")


Lists = dict[str, list[tuple[str, int]]]


class Case(NamedTuple):
    """One line: what went in, and the lists that came out, or how Java failed."""

    name: str
    strategy: str
    topics: dict[str, Any]
    members: dict[str, Subscription]
    expected: Lists | str


def read(folder: Path) -> Iterator[Case]:
    for path in sorted(path for name in NAMES for path in folder.glob(name)):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            yield _case(f"{path.name}:{number}", json.loads(line))


def broken_laws(case: Case, lists: Lists) -> Iterator[str]:
    """Which partitions are not assigned to exactly one subscriber. A cooperative group may hold
    back partitions that another member claims."""
    sizes = {
        topic: value if isinstance(value, int) else len(value)
        for topic, value in case.topics.items()
    }
    subscribed = {topic for member in case.members.values() for topic in member.topics}
    wanted = {(topic, number) for topic in subscribed for number in range(sizes.get(topic, 0))}
    given: list[tuple[str, int]] = []
    for member, partitions in lists.items():
        for topic, number in partitions:
            given.append((topic, number))
            if topic not in case.members[member].topics:
                yield f"{member} has {topic}-{number} without a subscription"
            if (topic, number) not in wanted:
                yield f"{member} has {topic}-{number}, which does not exist"
    if len(given) != len(set(given)):
        yield f"{len(given)} partitions are {len(set(given))}"
    missing = wanted - set(given)
    if case.strategy == "cooperative-sticky":
        claims = [set(member.owned_partitions) for member in case.members.values()]
        missing = {partition for partition in missing if not any(partition in c for c in claims)}
    if missing:
        yield f"nobody has {sorted(missing)}"


def _case(name: str, line: dict[str, Any]) -> Case:
    case = line["case"]
    lists = line.get("expected")
    expected = {member: _pairs(pairs) for member, pairs in lists.items()} if lists else None
    return Case(
        name=name,
        strategy=case["assignor"],
        topics=case["topics"],
        members={member["id"]: _subscription(member) for member in case["members"]},
        expected=line["java_error"] if expected is None else expected,
    )


def _subscription(member: dict[str, Any]) -> Subscription:
    """User data as the Java classes write it: `prev` that of sticky, `udGen` of cooperative."""
    user_data = None
    if "prev" in member:
        user_data = sticky_user_data(_pairs(member["prev"]), member.get("prevGen"))
    elif "udGen" in member:
        user_data = struct.pack(">i", member["udGen"])
    return Subscription(
        topics=member["topics"],
        owned_partitions=_pairs(member.get("owned", ())),
        generation_id=member.get("gen"),
        rack_id=member.get("rack"),
        user_data=user_data,
        group_instance_id=member.get("instance"),
    )


def _pairs(pairs: Iterable[list[Any]]) -> list[tuple[str, int]]:
    return [(topic, number) for topic, number in pairs]
