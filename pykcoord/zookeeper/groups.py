"""All that a ZooKeeper holds of groups, read in few round trips; and the 0.8 tools' export format.

What cannot be read is kept as a problem of its path, for the caller to judge. Nothing is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from pykcoord.consumer_protocol import TopicPartition
from pykcoord.zookeeper.connection import Connection
from pykcoord.zookeeper.errors import BadOffsetError, RegistrationError, ZooKeeperError
from pykcoord.zookeeper.operations import Children, Node, NoNodeError
from pykcoord.zookeeper.registration import VERSION, Registration, offset_of, partitions_of

_CONSUMERS = "/consumers"
_TOPICS = "/brokers/topics"
_LINE = re.compile(r"/consumers/([^/]+)/offsets/([^/]+)/([0-9]{1,9}):(.*)")
_MAX_PARTITION = 2**31 - 1
_SESSION_MS = 40_000


@dataclass(frozen=True)
class Offset:
    """The next offset to be read, and when it was written, in ms since the epoch (0: not known)."""

    offset: int
    modified_ms: int = 0


@dataclass
class Group:
    """One group. `members`: consumer id to registration, None where it cannot be read; `owners`:
    partition to thread id; `problems`: one line for each path that cannot be read."""

    name: str
    members: dict[str, Registration | None] = field(default_factory=dict)
    owners: dict[TopicPartition, str] = field(default_factory=dict)
    offsets: dict[TopicPartition, Offset] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


async def read_all(
    connect: str, chosen: Iterable[str] | None = None
) -> tuple[dict[str, Group], dict[str, int]]:
    """What `read_groups` and `read_topics` give, in a session of its own. Raises NoSessionError,
    and what they raise."""
    async with await Connection.begin(connect, session_timeout_ms=_SESSION_MS) as connection:
        topics = await read_topics(connection)
        # Last: no ping is sent while a million offsets are looked at.
        return await read_groups(connection, chosen), topics


async def read_topics(connection: Connection) -> dict[str, int]:
    """Topic to number of partitions. Raises RegistrationError, ZooKeeperError."""
    names = sorted(await _children(connection, [_TOPICS]))
    paths = [path for path, _ in names]
    topics = {}
    for (path, name), node in zip(names, await connection.get_all(paths), strict=True):
        if isinstance(node, Node):
            numbers = partitions_of(node.data, path)
            topics[name] = numbers[-1] + 1 if numbers else 0
    return topics


async def read_groups(
    connection: Connection, chosen: Iterable[str] | None = None
) -> dict[str, Group]:
    """All groups by name, or those that are `chosen`. Raises ZooKeeperError for one that is
    chosen and not there, and where ZooKeeper refuses or is lost."""
    there = {name for _, name in await _children(connection, [_CONSUMERS])}
    wanted = sorted(there if chosen is None else set(chosen))
    for name in wanted:
        if name not in there:
            raise ZooKeeperError(f"{_CONSUMERS}/{name}", "no such group")
    groups = {name: Group(name) for name in wanted}
    await _read_members(connection, groups)
    await _read_leaves(connection, groups, "owners")
    await _read_leaves(connection, groups, "offsets")
    return groups


async def _read_members(connection: Connection, groups: Mapping[str, Group]) -> None:
    parents = [f"{_CONSUMERS}/{name}/ids" for name in groups]
    found = sorted(await _children(connection, parents))
    nodes = await connection.get_all([path for path, _ in found])
    for (path, consumer_id), node in zip(found, nodes, strict=True):
        group = groups[path.split("/")[2]]
        if isinstance(node, NoNodeError):
            continue
        try:
            if isinstance(node, ZooKeeperError):
                raise node
            registration = Registration.decode(node.data, path)
        except ZooKeeperError as error:
            group.members[consumer_id] = None
            group.problems.append(str(error))
            continue
        group.members[consumer_id] = registration
        if registration.version != VERSION:
            group.problems.append(f"{path}: version {registration.version}, not {VERSION}")


async def _read_leaves(connection: Connection, groups: Mapping[str, Group], kind: str) -> None:
    """Owners or offsets: what lies at `/consumers/G/KIND/T/P`."""
    parents = [f"{_CONSUMERS}/{name}/{kind}" for name in groups]
    topics = sorted(await _children(connection, parents))
    leaves = await _children(connection, [path for path, _ in topics])
    nodes = await connection.get_all([path for path, _ in leaves])
    for (path, number), node in zip(leaves, nodes, strict=True):
        _, _, name, _, topic, _ = path.split("/")
        group = groups[name]
        if isinstance(node, NoNodeError):
            continue
        try:
            if isinstance(node, ZooKeeperError):
                raise node
            if not number.isdecimal() or int(number) > _MAX_PARTITION:
                raise RegistrationError(path, "is named as no partition")
            one = TopicPartition(topic, int(number))
            if kind == "owners":
                group.owners[one] = (node.data or b"").decode("utf-8", "replace")
            else:
                group.offsets[one] = Offset(offset_of(node.data, path), node.modified_ms)
        except ZooKeeperError as error:
            group.problems.append(str(error))


async def _children(connection: Connection, parents: list[str]) -> list[tuple[str, str]]:
    """Path and name of all below the parents, by parent and then in no order. A parent that is not
    there has none. Raises ZooKeeperError."""
    found = []
    answers = await connection.ask_all(Children(parent, False) for parent in parents)
    for parent, names in zip(parents, answers, strict=True):
        if isinstance(names, NoNodeError):
            continue
        if isinstance(names, Exception):
            raise names
        found += [(f"{parent}/{name}", name) for name in names]
    return found


def export_lines(groups: Iterable[Group]) -> Iterator[str]:
    """The offsets as the 0.8 tools export them (ExportZkOffsets), in order, each with its line
    end."""
    for group in sorted(groups, key=lambda one: one.name):
        for one in sorted(group.offsets):
            path = f"{_CONSUMERS}/{group.name}/offsets/{one.topic}/{one.partition}"
            yield f"{path}:{group.offsets[one].offset}\n"


def read_export(lines: Iterable[str], name: str) -> dict[str, Group]:
    """The groups of such a file. `name` is for errors. Raises BadOffsetError and
    RegistrationError, which name the line; of a line that is there twice the last counts."""
    groups: dict[str, Group] = {}
    for number, line in enumerate(lines, 1):
        text = line.rstrip("\r\n")
        if not text:
            continue
        where = f"{name}: line {number}"
        found = _LINE.fullmatch(text)
        if found is not None and not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError:
                raise RegistrationError(where, "is no UTF-8") from None
        if found is None:
            shown = text if len(text) <= 80 else text[:80] + "..."
            reason = f"{shown!r} is not /consumers/GROUP/offsets/TOPIC/PARTITION:OFFSET"
            raise RegistrationError(where, reason)
        group, topic, partition, offset = found.groups()
        if int(partition) > _MAX_PARTITION:
            raise RegistrationError(where, f"{partition} is no partition")
        try:
            value = offset_of(offset.encode(), text.rpartition(":")[0])
        except BadOffsetError as error:
            raise BadOffsetError(where, str(error)) from None
        entry = groups.get(group)
        if entry is None:
            entry = groups[group] = Group(group)
        entry.offsets[TopicPartition(topic, int(partition))] = Offset(value)
    return groups
