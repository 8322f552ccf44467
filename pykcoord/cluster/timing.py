"""The waits of a cluster, by the kind of its store. All nodes must have the same."""

from __future__ import annotations

from typing import NamedTuple

from pykcoord.log.shared.store import is_folder

__all__ = ["Timing"]


class Timing(NamedTuple):
    """`lease_ms`: how long a proof lets a node answer; an idle node that is asked puts two a lease.
    `poll_ms`: how often a node reads whether the cluster log goes on; of most news it hears from
    the controller. `store_silence_ms`: after so long without an answer of the store a node says so,
    and others lead its shards. `topics_seconds`: how often it is looked for topics that nobody has
    told of."""

    lease_ms: int
    poll_ms: int
    store_silence_ms: int
    topics_seconds: float = 10.0

    @staticmethod
    def of(location: str) -> Timing:
        """Of a folder, or of an object store, where each call takes longer and costs money."""
        return Timing(500, 800, 1_500) if is_folder(location) else Timing(3_000, 1_000, 2_000)
