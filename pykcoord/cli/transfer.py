"""`pykcoord log import` and `export`: a log carried from Kafka to pykcoord and back.

The source is only read; the destination is new, verified against the source, and there whole or
not at all. The steps around it, for an operator: docs/migration.md.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import click
from rich.console import Console
from rich.progress import Progress

from pykcoord.catalogue import STATE_FILE, Topic, store_topics, stored_topics
from pykcoord.errors import KcoordError, LogError
from pykcoord.log import OnCorruption
from pykcoord.log.checkpoint import decoded_id
from pykcoord.log.folders import partition_directories
from pykcoord.log.protocol import Cut
from pykcoord.log.state_file import StateFile
from pykcoord.log.transfer import holds_records, kafka_topics, offsets_topic
from pykcoord.topic_ids import new_id
from pykcoord.transfer import (
    Amount,
    NumberedChunks,
    Source,
    Target,
    amount_at,
    amount_of,
    carry,
    difference,
)

OpenTransactions = Literal["refuse", "abort", "keep"]

_SEGMENT_BYTES = 104857600

_destination = click.argument("directory", type=click.Path(path_type=Path))
_open_transactions = click.option(
    "--open-transactions",
    type=click.Choice(["refuse", "abort", "keep"]),
    default="refuse",
    show_default=True,
    help="Offsets of transactions that have not ended: refuse, leave them out, or carry them over "
    "as pending.",
)
_source_partitions = click.option(
    "--source-partitions",
    type=click.IntRange(min=1),
    help="How many partitions the source's topic has, if folders are missing because they held "
    "nothing.",
)
on_corruption_option = click.option(
    "--on-corruption",
    type=click.Choice(["refuse", "truncate"]),
    default="refuse",
    show_default=True,
    help="Damage with sound batches behind it: refuse it, or read up to it as Kafka does.",
)


@dataclass(frozen=True)
class Plan:
    """What is made of a source. `topics`: of a catalogue (None: none is made)."""

    sources: Sequence[Path]
    directory: Path
    partitions: int
    topic_id: bytes
    topic_ids: Sequence[bytes]
    topics: Sequence[Topic] | None
    open_transactions: OpenTransactions


@click.command(name="import", short_help="Take the groups and offsets of a Kafka broker over.")
@click.argument(
    "sources",
    nargs=-1,
    required=True,
    metavar="SOURCE...",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
)
@_destination
@click.option(
    "--partitions",
    type=click.IntRange(min=1),
    help="offsets.topic.num.partitions of DIRECTORY. [default: as many as the source has]",
)
@_source_partitions
@_open_transactions
@on_corruption_option
def import_log(
    sources: Sequence[Path],
    directory: Path,
    partitions: int | None,
    source_partitions: int | None,
    open_transactions: OpenTransactions,
    on_corruption: OnCorruption,
) -> int:
    """Make DIRECTORY, for `pykcoord serve`, of what the log at SOURCE holds.

    SOURCE is the data directory (log.dirs) of a Kafka broker, or of pykcoord, which must be
    stopped. Name those of all brokers that have replicas of __consumer_offsets. Groups,
    offsets and topics, with their ids, come along; SOURCE is not changed.

    \b
    Example:
      pykcoord log import /var/lib/kafka/data pykcoord-data
    """
    with Source.hold(sources, partitions=source_partitions, on_corruption=on_corruption) as source:
        topics = _topics(sources)
        plan = Plan(
            sources=sources,
            directory=directory,
            partitions=partitions or source.partitions,
            topic_id=uuid.uuid4().bytes,
            topic_ids=[topic.topic_id.bytes for topic in topics],
            topics=topics,
            open_transactions=open_transactions,
        )
        transfer(source, plan)
    click.echo(
        f"next: pykcoord serve {directory} --set offsets.topic.num.partitions={plan.partitions}"
    )
    return 0


@click.command(
    name="export", short_help="Make partitions of groups and offsets for a Kafka broker."
)
@click.argument("source", type=click.Path(exists=True, file_okay=False, path_type=Path))
@_destination
@click.option(
    "--broker-log-dir",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Data directory (log.dirs) of the stopped broker: says how many partitions its "
    "__consumer_offsets has, and its topic id.",
)
@click.option("--topic-id", help="The topic id, as kafka-topics --describe shows it, instead.")
@click.option(
    "--partitions",
    type=click.IntRange(min=1),
    help="The number of partitions, with it. [default: as many as the source has]",
)
@_source_partitions
@_open_transactions
@on_corruption_option
def export_log(
    source: Path,
    directory: Path,
    broker_log_dir: Path | None,
    topic_id: str | None,
    partitions: int | None,
    source_partitions: int | None,
    open_transactions: OpenTransactions,
    on_corruption: OnCorruption,
) -> int:
    """Make DIRECTORY of what pykcoord's log at SOURCE holds: __consumer_offsets-N folders to be put
    in place of a Kafka broker's.

    Both must be stopped: pykcoord at SOURCE, which is not changed, and the broker.

    \b
    Example:
      pykcoord log export pykcoord-data exported --broker-log-dir /var/lib/kafka/data
    """
    with Source.hold([source], partitions=source_partitions, on_corruption=on_corruption) as held:
        topic = _topic_asked_for(broker_log_dir, topic_id, partitions, held.partitions)
        plan = Plan(
            sources=[source],
            directory=directory,
            partitions=topic[1],
            topic_id=topic[0],
            topic_ids=_ids_of(broker_log_dir),
            topics=None,
            open_transactions=open_transactions,
        )
        transfer(held, plan)
    click.echo(
        f"next: move the broker's own __consumer_offsets-* away, move "
        f"{directory}/__consumer_offsets-* to their place, start the broker (docs/migration.md)"
    )
    return 0


class Carried(NumberedChunks, Protocol):
    """A source, with its size and what was left out of it."""

    @property
    def size_bytes(self) -> int: ...
    @property
    def cuts(self) -> list[Cut]: ...


def transfer(source: Carried, plan: Plan) -> None:
    """Make the directory of the plan, verified against the source, or nothing. Raises LogError,
    ArgumentError."""
    for cut in source.cuts:
        click.echo(f"pykcoord: left out: {cut.unread}", err=True)
    _check_apart(plan.sources, plan.directory)
    keep_open = plan.open_transactions == "keep"
    with _progress(source.size_bytes) as progress:
        before = amount_of(source, source.partitions, keep_open, progress)
        if plan.open_transactions == "refuse" and before.pending:
            raise LogError(_open_text(plan.sources, before))
        target = Target(plan.directory, plan.partitions, plan.topic_id, _SEGMENT_BYTES)
        try:
            carry(source, target, topic_ids=plan.topic_ids, keep_open=keep_open, progress=progress)
            if plan.topics is not None:
                store_topics(StateFile(target.partial / STATE_FILE), plan.topics)
            target.seal(own=plan.topics is not None)
            after = amount_at(target.partial, plan.partitions, keep_open)
            if (what := difference(before, after)) is not None:
                raise LogError(
                    f"{plan.directory}: not made: {what} would not be what it is in the source; "
                    "report this, with the output of `pykcoord log dump` of the source"
                )
            target.publish()
        except BaseException:
            target.discard()
            raise
    _print_summary(source, target, plan, before, after)


def _topic_asked_for(
    broker_log_dir: Path | None, topic_id: str | None, partitions: int | None, usual: int
) -> tuple[bytes, int]:
    """Topic id and number of partitions of the broker's `__consumer_offsets`."""
    if (broker_log_dir is None) == (topic_id is None):
        raise click.UsageError(
            "either --broker-log-dir DIR or --topic-id ID says which topic the broker has"
        )
    if topic_id is not None:
        try:
            if len(decoded := decoded_id(topic_id)) == 16:
                return decoded, partitions or usual
        except ValueError:
            pass
        raise click.UsageError(f"--topic-id {topic_id}: not 22 characters of URL-safe base64")
    assert broker_log_dir is not None
    if partitions is not None:
        raise click.UsageError(
            "--partitions goes with --topic-id: --broker-log-dir shows how many there are"
        )
    # Its own count, so that the error for a missing folder is that of `offsets_topic`, with advice.
    count = max(partition_directories(broker_log_dir), default=0) + 1
    with Source.hold([broker_log_dir], partitions=count):
        topic = offsets_topic(broker_log_dir)
        assert topic.topic_id is not None
        if holds_records(broker_log_dir):
            click.echo(
                f"pykcoord: {broker_log_dir}: its __consumer_offsets hold records already; what "
                "replaces them does not have those groups",
                err=True,
            )
        return topic.topic_id, topic.partitions


def _ids_of(broker_log_dir: Path | None) -> list[bytes]:
    found = kafka_topics([broker_log_dir]) if broker_log_dir is not None else []
    return [topic.topic_id for topic in found if topic.topic_id is not None]


def _topics(sources: Sequence[Path]) -> list[Topic]:
    """The topics that a broker's folders, or pykcoord's catalogue, show: with their ids."""
    found = {topic.name: topic for path in sources for topic in stored_topics(_state(path))}
    for name, topic_id, partitions in kafka_topics(sources):
        known = uuid.UUID(bytes=topic_id) if topic_id is not None else new_id()
        found.setdefault(name, Topic(name, known, partitions))
    return [found[name] for name in sorted(found)]


def _state(path: Path) -> StateFile:
    return StateFile(path / STATE_FILE)


def _check_apart(sources: Sequence[Path], directory: Path) -> None:
    target = directory.resolve()
    for source in sources:
        if target == source.resolve() or source.resolve() in target.parents:
            raise KcoordError(f"{directory}: lies in {source}, which is only read; name another")


def _open_text(sources: Sequence[Path], amount: Amount) -> str:
    count, groups = sum(amount.pending.values()), sorted(amount.pending)
    named = ", ".join(map(repr, groups[:3])) + (", ..." if len(groups) > 3 else "")
    return (
        f"{', '.join(map(str, sources))}: {count} offsets of {named} belong to transactions that "
        "have not ended; let their producers end them (kafka-transactions finds and aborts what "
        "hangs), or say --open-transactions abort to leave them out, or keep"
    )


@contextmanager
def _progress(size_bytes: int) -> Iterator[Callable[[int], None]]:
    """A bar on stderr, where that is a terminal, over two passes."""
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("carrying", total=2 * size_bytes)
        yield lambda count: progress.advance(task, count)


def _print_summary(
    source: Carried, target: Target, plan: Plan, before: Amount, after: Amount
) -> None:
    rows: list[tuple[str, str, str]] = [("", "source", "destination")]
    for kind in sorted(before.types | after.types):
        rows.append((f"{kind} groups", _of(before.types, kind), _of(after.types, kind)))
    rows.append(("members", str(before.members), str(after.members)))
    rows.append(("offsets", str(before.offsets), str(after.offsets)))
    first, second = (str(sum(amount.pending.values())) for amount in (before, after))
    rows.append(("pending offsets", first, second))
    rows.append(("partitions", str(source.partitions), str(target.partitions)))
    rows.append(("bytes", str(source.size_bytes), str(target.size_bytes)))
    if plan.topics is not None:
        rows.append(("topics", "", str(len(plan.topics))))
    for name, first, second in rows:
        click.echo(f"{name:<16} {first:>12} {second:>12}".rstrip())
    click.echo(f"{plan.directory}: verified: every group and offset is what it is in the source")


def _of(counts: dict[str, int], kind: str) -> str:
    return str(counts.get(kind, 0))
