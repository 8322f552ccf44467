"""What keeps a node from joining a cluster. Each message says what to do."""

from __future__ import annotations

from pykcoord.errors import KcoordError

__all__ = ["NodeError"]


class NodeError(KcoordError):
    """The cluster does not take this node, or it cannot be of use there."""
