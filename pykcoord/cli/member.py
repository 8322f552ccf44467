"""`pykcoord serve --cluster LOCATION`: one node of a cluster over a shared folder or object store.

Only puts options and the node together; what the node does is in `pykcoord.cluster.member`.
"""

from __future__ import annotations

import click

from pykcoord.cli.serving import (
    Address,
    Options,
    address_text,
    naming_address,
    new_runner,
    when_asked_to_end,
)
from pykcoord.cluster.member import MemberOptions, serve_member
from pykcoord.config import Config

__all__ = ["serve_in_cluster"]


def serve_in_cluster(
    config: Config, options: Options, location: str, control: Address | None
) -> int:
    """Serve as a node of the cluster at `location` until a signal ends it; returns the exit code.
    Raises UsageError for options that a node of a cluster does not have."""
    for name, given in (
        ("--flush", options.flush != "commit"),
        ("--on-corruption", options.on_corruption != "refuse"),
        ("--end-offsets", options.end_offsets is not None),
        ("--metrics", options.metrics is not None),
        ("--web", options.web is not None),
    ):
        if given:
            raise click.UsageError(f"{name} and --cluster: a node of a cluster has no such option")
    member = MemberOptions(
        location,
        options.listen,
        control or (options.listen[0], 0),
        options.advertise,
        dict(options.topics),
    )
    with new_runner() as runner:
        runner.run(_serve(config, member))
    return 0


async def _serve(config: Config, options: MemberOptions) -> None:
    asked = when_asked_to_end()

    def ready(address: Address, shards: int) -> None:
        node = config.node_id
        click.echo(f"pykcoord ready node={node} listen={address_text(address)} shards={shards}")

    with naming_address("--listen", options.listen):
        await serve_member(config, options, asked, ready)
