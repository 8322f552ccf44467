"""`pykcoord zookeeper import`: offsets of ZooKeeper, or of a file, as a data directory.

They become the records that Kafka would have written for the same commits, and go the way that
`pykcoord log import` goes: carried, read back from the disk, compared, and then published.
"""

from __future__ import annotations

import functools
import struct
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

import click
import uvloop

from pykcoord._native import partition_of
from pykcoord.catalogue import MAX_PARTITIONS, Topic, check_name
from pykcoord.cli.plain import counted
from pykcoord.cli.transfer import Plan, transfer
from pykcoord.clock import Clock
from pykcoord.errors import ArgumentError, KcoordError
from pykcoord.log.protocol import Cut
from pykcoord.log.record_area import encode_record
from pykcoord.log.transfer import Batch, framed
from pykcoord.topic_ids import new_id
from pykcoord.zookeeper.connection import split_connect
from pykcoord.zookeeper.errors import NoSessionError, ZooKeeperError
from pykcoord.zookeeper.groups import Group, read_all, read_export

LiveMembers = Literal["refuse", "skip", "take"]

_KAFKA_STORAGE = "__consumer_offsets"
_DEFAULT_PARTITIONS = 50
_RECORDS_AT_ONCE = 1_000
_MAX_TEXT_BYTES = 2**15 - 1
_INT32 = struct.Struct(">i")
# Version, offset, leader epoch, metadata, time.
_OFFSET_VALUE = struct.Struct(">hqihq")


@click.command(name="import", short_help="Make a data directory of offsets in ZooKeeper.")
@click.argument("source", metavar="CONNECT|FILE")
@click.argument("directory", type=click.Path(path_type=Path))
@click.option(
    "--group", "chosen", multiple=True, metavar="ID", help="Only this group; may be repeated."
)
@click.option(
    "--partitions",
    type=click.IntRange(min=1),
    default=_DEFAULT_PARTITIONS,
    show_default=True,
    help="offsets.topic.num.partitions of DIRECTORY.",
)
@click.option(
    "--live-members",
    type=click.Choice(["refuse", "skip", "take"]),
    default="refuse",
    show_default=True,
    help="Groups with members that still read: refuse all, leave those groups out, or take what "
    "they have committed so far.",
)
@click.option(
    "--kafka-offsets",
    type=click.Choice(["refuse", "take"]),
    default="refuse",
    show_default=True,
    help="Where the cluster has a topic __consumer_offsets: groups with offsets.storage=kafka have "
    "their offsets there, and old ones in ZooKeeper. Refuse, or take what ZooKeeper has.",
)
def import_offsets(
    source: str,
    directory: Path,
    chosen: tuple[str, ...],
    partitions: int,
    live_members: LiveMembers,
    kafka_offsets: Literal["refuse", "take"],
) -> int:
    """Make DIRECTORY, for `pykcoord serve`, of the offsets at CONNECT or in FILE.

    FILE is what `pykcoord zookeeper export` or kafka.tools.ExportZkOffsets wrote. Stop the
    consumers first. ZooKeeper is only read.

    \b
    Example:
      pykcoord zookeeper import localhost:2181 pykcoord-data
      pykcoord zookeeper import offsets.txt pykcoord-data
    """
    path = Path(source)
    if path.is_file():
        groups, topics = _of_file(path, chosen)
    else:
        groups, topics = uvloop.run(_of_zookeeper(source, chosen))
        groups = _without_live(groups, live_members)
        if _KAFKA_STORAGE in topics:
            _judge_kafka_storage(source, groups, kafka_offsets)
    for group in groups.values():
        bad = [problem for problem in group.problems if f"{group.name}/offsets/" in problem]
        if bad:
            raise KcoordError(f"{bad[0]}; nothing was written")
        if not group.offsets:
            _warn(f"group {group.name!r} has no offsets in ZooKeeper; it is left out")
    offsets = OffsetsSource(groups, partitions, Clock().now_ms())
    plan = Plan(
        sources=[],
        directory=directory,
        partitions=partitions,
        topic_id=uuid.uuid4().bytes,
        topic_ids=[],
        topics=_catalogue(source, groups, topics),
        open_transactions="refuse",
    )
    transfer(offsets, plan)
    click.echo(f"next: pykcoord serve {directory} --set offsets.topic.num.partitions={partitions}")
    return 0


class OffsetsSource:
    """Offsets as the log that Kafka would have of them (`pykcoord.transfer.NumberedChunks`).

    `written_ms` is the time of all commits: an offset must not expire for having rested long.
    """

    def __init__(self, groups: Mapping[str, Group], partitions: int, written_ms: int) -> None:
        self.partitions = partitions
        self.cuts: list[Cut] = []
        self._written_ms = written_ms
        placed: list[list[Group]] = [[] for _ in range(partitions)]
        for group in groups.values():
            placed[partition_of(group.name, partitions)].append(group)
        # Read twice: to be counted, and to be carried.
        self._chunks = [list(self._encoded(of)) for of in placed]
        self.size_bytes = sum(len(chunk) for chunks in self._chunks for chunk in chunks)

    def read(self, partition: int) -> Iterator[bytes]:
        """Chunks of whole batches, in order."""
        return iter(self._chunks[partition])

    def _encoded(self, groups: Iterable[Group]) -> Iterator[bytes]:
        offset = 0
        records = bytearray()
        count = 0
        for group in groups:
            key_head = struct.pack(">h", 1) + _text(group.name)
            for (topic, partition), found in group.offsets.items():
                key = key_head + _text(topic) + _INT32.pack(partition)
                value = _OFFSET_VALUE.pack(3, found.offset, -1, 0, self._written_ms)
                records += encode_record(0, count, key, value)
                count += 1
                if count == _RECORDS_AT_ONCE:
                    yield self._batch(count, records, offset)
                    offset += count
                    records, count = bytearray(), 0
        if count:
            yield self._batch(count, records, offset)

    def _batch(self, count: int, records: bytearray, offset: int) -> bytes:
        at_ms = self._written_ms
        return framed(Batch(-1, -1, count, at_ms, at_ms, bytes(records)), offset)


@functools.lru_cache
def _text(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">h", len(encoded)) + encoded


async def _of_zookeeper(
    connect: str, chosen: tuple[str, ...]
) -> tuple[dict[str, Group], dict[str, int]]:
    try:
        split_connect(connect)
    except NoSessionError as error:
        reason = f"{error.reason}, and there is no such file"
        raise NoSessionError(connect, reason) from None
    return await read_all(connect, chosen or None)


def _of_file(path: Path, chosen: tuple[str, ...]) -> tuple[dict[str, Group], dict[str, int]]:
    with path.open(encoding="utf-8", errors="surrogateescape") as lines:
        groups = read_export(lines, str(path))
    for name in chosen:
        if name not in groups:
            raise ZooKeeperError(str(path), f"no group {name!r}")
    _warn(
        f"{path}: a file does not say which groups have members now, which keep their offsets in "
        "Kafka, and how many partitions topics have"
    )
    return {name: group for name, group in groups.items() if not chosen or name in chosen}, {}


def _without_live(groups: dict[str, Group], live_members: LiveMembers) -> dict[str, Group]:
    live = {name: group for name, group in groups.items() if group.members}
    if live and live_members == "refuse":
        name, group = next(iter(live.items()))
        raise KcoordError(
            f"/consumers/{name}/ids: {counted(len(group.members), 'member')} of group {name!r} "
            f"still there ({counted(len(live), 'group')} in all); stop them, or say "
            "--live-members skip or take"
        )
    for name in live:
        told = "left out" if live_members == "skip" else "taken as it is now"
        _warn(f"/consumers/{name}/ids: group {name!r} has members; {told}")
    return {n: g for n, g in groups.items() if n not in live or live_members == "take"}


def _judge_kafka_storage(source: str, groups: Mapping[str, Group], choice: str) -> None:
    told = (
        f"/brokers/topics/{_KAFKA_STORAGE}: this cluster has offsets in Kafka, too; a group with "
        "offsets.storage=kafka has old ones in ZooKeeper"
    )
    if choice == "refuse":
        raise KcoordError(
            f"{told}. Choose by --group those that commit to ZooKeeper, and say --kafka-offsets "
            "take; take the others from the broker's log (`pykcoord log import`)"
        )
    _warn(f"{told}. Taken all the same: {', '.join(sorted(groups)[:5])}")


def _catalogue(source: str, groups: Mapping[str, Group], topics: Mapping[str, int]) -> list[Topic]:
    """The topics as they are there, or as large as the offsets say."""
    sizes = {name: count for name, count in topics.items() if name != _KAFKA_STORAGE and count}
    for group in groups.values():
        for one in group.offsets:
            sizes[one.topic] = max(sizes.get(one.topic, 0), one.partition + 1)
    for name, count in sizes.items():
        try:
            check_name(name)
        except ArgumentError as error:
            raise ArgumentError(source, f"a topic of it: {error.reason}") from None
        if count > MAX_PARTITIONS:
            raise ArgumentError(source, f"topic {name!r} has {count} partitions; at most "
                                f"{MAX_PARTITIONS} are served")  # fmt: skip
    for name in groups:
        if len(name.encode()) > _MAX_TEXT_BYTES:
            raise ArgumentError(source, f"group {name[:40]!r}...: its id is too long for Kafka")
    return [Topic(name, new_id(), count) for name, count in sorted(sizes.items())]


def _warn(text: str) -> None:
    click.echo(f"pykcoord: {text}", err=True)
