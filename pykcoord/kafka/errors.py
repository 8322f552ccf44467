"""What goes wrong with a cluster that is read. Each message names the address and the way out."""

from __future__ import annotations

from pykcoord.errors import KcoordError

__all__ = [
    "AuthenticationError",
    "ClusterError",
    "NonsenseError",
    "NotAllowedError",
    "OldClusterError",
    "OtherClusterError",
    "UnreachableError",
]


class ClusterError(KcoordError):
    """A broker or the cluster refused something. `address` is who: HOST:PORT, or several."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"{address}: {reason}")
        self.address = address
        self.reason = reason


class UnreachableError(ClusterError):
    """No connection, or no answer in time: it may be there again later."""


class NonsenseError(ClusterError):
    """The other side does not speak Kafka's protocol, or breaks it. The connection is closed."""


class AuthenticationError(ClusterError):
    """TLS or SASL failed: asking again with the same configuration does not help."""


class NotAllowedError(ClusterError):
    """The principal lacks a right, which the message names."""


class OldClusterError(ClusterError):
    """The broker does not have a version of an API that is needed."""


class OtherClusterError(ClusterError):
    """The cluster at the address is not the one that was there before."""
