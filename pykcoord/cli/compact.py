"""`pykcoord log compact`: the compaction of a log whose server is stopped, at once.

The one command that changes a log. Takes the lock, and recovers as a start does.
"""

from __future__ import annotations

from pathlib import Path

import click

from pykcoord.compaction import compaction_of
from pykcoord.config import Config
from pykcoord.errors import LogError
from pykcoord.log import LogDirectory, OnCorruption, partitions_of

_KIB, _MIB = 1 << 10, 1 << 20


@click.command(name="compact", short_help="Compact the log of a stopped server.")
@click.argument(
    "directory", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path)
)
@click.option(
    "--on-corruption",
    type=click.Choice(["refuse", "truncate"]),
    default="refuse",
    show_default=True,
    help="Damage with sound batches behind it: leave all as it is, or cut the log there.",
)
def command(directory: Path, on_corruption: OnCorruption) -> int:
    """Compact the log in DIR, a data directory that no server has open.

    What a server does by itself, now and for all of the log: of each key the last record stays.
    Tombstones stay for a day from when compaction first met them.

    \b
    Example:
      pykcoord log compact pykcoord-data
    """
    partitions = partitions_of(directory)
    if partitions == 0:
        raise LogError(f"{directory}: no data directory; give the one that `serve` is given")
    config = Config(offsets_topic_num_partitions=partitions)
    with LogDirectory.open(
        directory,
        partitions=partitions,
        segment_bytes=config.offsets_topic_segment_bytes,
        on_corruption=on_corruption,
    ) as log:
        for cut in log.cuts:
            click.echo(str(cut), err=True)
        before = log.size_bytes
        cleaned = log.compact(compaction_of(config))
        after = log.size_bytes
    for shard, one in cleaned.items():
        click.echo(
            f"shard {shard}: {one.records_after} of {one.records_before} records stay, "
            f"{one.bytes_after} of {one.bytes_before} bytes"
        )
    click.echo(f"{directory}: {_size_text(before)} before, {_size_text(after)} now")
    return 0


def _size_text(count: int) -> str:
    if count < _KIB:
        return f"{count} bytes"
    return f"{count / _KIB:.1f} KiB" if count < _MIB else f"{count / _MIB:.1f} MiB"
