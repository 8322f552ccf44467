"""Whether a node may enter a cluster: what it is told of the store and of its secret is compared
with what stands there. Must not put anything but the check of a secret, and that only where no node
serves without one.
"""

from __future__ import annotations

import asyncio
import contextlib

from pykcoord.cluster.asking import NONE_HERE, AskClient, MalformedError
from pykcoord.cluster.looking import ClusterFollower, NodeState
from pykcoord.cluster.secret import DifferentSecretError, SecretError, check_secret, has_check
from pykcoord.errors import KcoordError
from pykcoord.log.shared import Store

__all__ = ["require_same_secret"]

_TRY_SECONDS = 1.0


async def require_same_secret(store: Store, location: str, secret: str | None) -> None:
    """Raises DifferentSecretError, also for a secret where nodes serve without one; then these
    nodes have heard of it, too. Raises what the store raises."""
    if secret is not None and not has_check(store):
        for node, reason in await _try_all(store, location, secret):
            if reason == NONE_HERE:
                raise DifferentSecretError(
                    f"{location}: the nodes of this cluster have no secret (node {node.node_id} at "
                    f"{node.host}:{node.port} serves without), this one has one: start it without "
                    "--secret-file; or stop all nodes, and start each of them with it"
                )
    try:
        check_secret(store, location, secret)
    except DifferentSecretError:
        await _try_all(store, location, secret)
        raise


async def _try_all(
    store: Store, location: str, secret: str | None
) -> list[tuple[NodeState, str | None]]:
    """The nodes that are there, and how each refuses this secret, if it does."""
    nodes: list[NodeState] = []
    with contextlib.suppress(KcoordError):  # there is no cluster yet
        nodes = ClusterFollower(location, store).read().nodes
    reasons = await asyncio.gather(*(_refusal(node, secret) for node in nodes))
    return [*zip(nodes, reasons, strict=True)]


async def _refusal(node: NodeState, secret: str | None) -> str | None:
    client = AskClient(node.control_host, node.control_port, secret)
    try:
        await client.ask((0, 0, 0, ()), _TRY_SECONDS)
    except SecretError as error:
        return str(error)
    except (OSError, MalformedError):
        return None  # it is gone, or is no node
    finally:
        client.close()
    return None
