"""Snapshots of a served log, as its configuration has them: for `serve` and for `Coordinator`."""

from __future__ import annotations

import os

from pykcoord._native import Node
from pykcoord.config import Config
from pykcoord.log import LogDirectory, Snapshots

__all__ = ["start_snapshots"]


def start_snapshots(log: LogDirectory, config: Config) -> None:
    """Writes snapshots in the background, unless the configuration says never."""
    if config.pykcoord_snapshot_interval_ms > 0:
        # A node of its own: the one that serves belongs to another thread.
        spare = Node(config.native(), 1, os.urandom(32))
        log.start_snapshots(
            Snapshots(
                spare.loader,
                config.pykcoord_snapshot_interval_ms,
                config.pykcoord_snapshot_min_bytes,
            )
        )
