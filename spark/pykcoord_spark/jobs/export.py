"""`python -m pykcoord_spark export`: a shard log as a data directory of segments."""

from __future__ import annotations

import time
from pathlib import Path

import click


@click.command(
    short_help="Make a data directory of Kafka's segments from a shard log.",
    epilog="Needs no Spark: it reads the log where it runs. For a broker, see docs/migration.md.",
)
@click.argument("log", metavar="LOG")
@click.argument("directory", type=click.Path(path_type=Path))
@click.option(
    "--topic-id",
    metavar="ID",
    help="For a broker: the id of its __consumer_offsets, as kafka-topics --describe shows it.",
)
def command(log: str, directory: Path, topic_id: str | None) -> None:
    """Make DIRECTORY, for `pykcoord serve` or a Kafka broker, of the shard log at LOG.

    LOG is the folder or URL that `host` and `stream` write to; it is not changed, and need not be
    at rest. DIRECTORY is new.

    \b
    Example:
      python -m pykcoord_spark export shared/kcoord exported
    """
    from pykcoord.log import decoded_id
    from pykcoord_spark.exporting import export

    wanted = None
    if topic_id is not None:
        try:
            wanted = decoded_id(topic_id)
        except ValueError:
            wanted = b""
        if len(wanted) != 16:
            raise click.UsageError(f"--topic-id {topic_id}: not 22 characters of URL-safe base64")
    began = time.monotonic()
    said = [began]

    def progress(shard: int, shards: int) -> None:
        if time.monotonic() - said[0] > 2:
            said[0] = time.monotonic()
            click.echo(f"shard {shard} of {shards}", err=True)

    exported = export(log, directory, topic_id=wanted, progress=progress)
    click.echo(
        f"{directory}: {exported.shards} partitions, {exported.size_bytes / 1e6:,.1f} MB, in "
        f"{time.monotonic() - began:.1f} s; verified against {log}"
    )
    click.echo(f"  groups  {exported.groups:,}, with {exported.members:,} members")
    click.echo(f"  offsets {exported.offsets:,}, and {exported.pending:,} pending")
