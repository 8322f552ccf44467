"""`pykcoord zookeeper state|export|import`: groups that coordinate through a ZooKeeper.

Nothing here writes to ZooKeeper. docs/zookeeper.md has the way from there to pykcoord.
"""

from __future__ import annotations

from pathlib import Path

import click
import uvloop

from pykcoord.cli.plain import counted
from pykcoord.cli.zookeeper.importing import import_offsets
from pykcoord.cli.zookeeper.listing import as_json, print_groups
from pykcoord.errors import KcoordError
from pykcoord.zookeeper.groups import export_lines, read_all

connect_argument = click.argument("connect", metavar="CONNECT")
group_option = click.option(
    "--group", "chosen", multiple=True, metavar="ID", help="Only this group; may be repeated."
)


@click.group(short_help="Look at groups that coordinate through ZooKeeper; take them over.")
def command() -> None:
    """Groups that coordinate through ZooKeeper, as those of Kafka 0.8 and earlier.

    CONNECT is zookeeper.connect of the consumers: host:port,host:port/chroot.

    \b
    Example:
      pykcoord zookeeper state localhost:2181
    """


command.add_command(import_offsets)


@command.command(short_help="Print groups, members, owners and offsets.")
@connect_argument
@group_option
@click.option("--json", "json_wanted", is_flag=True, help="JSON instead of tables.")
def state(connect: str, chosen: tuple[str, ...], json_wanted: bool) -> int:
    """Print the groups at CONNECT: their members, who owns what, and their offsets.

    What cannot be read is told with its path; the exit code is 1 then.

    \b
    Example:
      pykcoord zookeeper state localhost:2181 --group billing
    """
    groups, topics = uvloop.run(read_all(connect, chosen or None))
    if json_wanted:
        click.echo(as_json(groups, topics))
    else:
        print_groups(groups, topics)
    problems = [problem for group in groups.values() for problem in group.problems]
    for problem in problems:
        click.echo(f"pykcoord: {problem}", err=True)
    return 1 if problems else 0


@command.command(name="export", short_help="Write offsets to a file, in the 0.8 tools' format.")
@connect_argument
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@group_option
def export_offsets(connect: str, file: Path, chosen: tuple[str, ...]) -> int:
    """Write the offsets of the groups at CONNECT to FILE, a line for each partition.

    The format is that of kafka.tools.ExportZkOffsets. FILE is there whole, or not at all.

    \b
    Example:
      pykcoord zookeeper export localhost:2181 offsets.txt
    """
    groups, _ = uvloop.run(read_all(connect, chosen or None))
    for group in groups.values():
        bad = [problem for problem in group.problems if f"{group.name}/offsets/" in problem]
        if bad:
            raise KcoordError(f"{bad[0]}; nothing was written")
    beside = file.with_name(f".{file.name}.partial")
    try:
        beside.write_text("".join(export_lines(groups.values())))
        beside.replace(file)
    finally:
        beside.unlink(missing_ok=True)
    count = sum(len(group.offsets) for group in groups.values())
    click.echo(f"{file}: {counted(count, 'offset')} of {counted(len(groups), 'group')}")
    return 0
