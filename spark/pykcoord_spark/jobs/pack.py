"""`python -m pykcoord_spark pack`: the archive for `spark-submit --archives`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

_SUBMIT = """\
spark-submit --master spark://HOST:7077 --archives {file}#kcoord_site \\
  --conf spark.executorEnv.PYTHONPATH=kcoord_site $(python -m pykcoord_spark main-path) JOB ..."""


@click.command(
    short_help="Make the archive for spark-submit --archives.",
    epilog="The archive fits the Python and the platform that it was made with: make it where "
    "they are those of the cluster.",
)
@click.option(
    "-o",
    "--output",
    default="kcoord_site.zip",
    show_default=True,
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Where to write the archive; one that is there is replaced.",
)
@click.option("--with-arrow", is_flag=True, help="Pack pandas and pyarrow as well.")
def command(output: Path, with_arrow: bool) -> None:
    """Make an archive of pykcoord, pykcoord-spark and what they need, as installed here.

    Executors then need nothing of it installed, only Python, pandas and pyarrow.

    \b
    Example:
      python -m pykcoord_spark pack -o kcoord_site.zip
    """
    from pykcoord_spark.packing import pack

    packed = pack(output, with_arrow=with_arrow)
    versions = ", ".join(f"{name} {version}" for name, version in packed.versions.items())
    python = f"Python {sys.version_info.major}.{sys.version_info.minor}, {sys.platform}"
    click.echo(f"{output}: {packed.size_bytes / 1e6:.1f} MB, for {python}")
    click.echo(f"  {versions}")
    click.echo(f"\n{_SUBMIT.format(file=output)}")
