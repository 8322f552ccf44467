"""Who asks: what is known of a peer beside its requests. Kafka's RequestContext is the model.

A `Session` is a value. The server makes one for each client host and replaces a connection's when
more is known of it; each frame goes to the node with the session of its connection, and each
handler of a node-level API is given it. Nobody is authenticated yet: every principal is
`User:ANONYMOUS`.
"""

from __future__ import annotations

import functools

from pykcoord._native import Session, __version__

__all__ = ["EMBEDDED", "Session", "anonymous", "describe", "with_software"]

# Sessions that are shared by the connections of which the same is known.
_SHARED = 4_096
# Longer names are a session's own: 4,096 of Kafka's longest strings would be 268 MB kept for ever.
_SHARED_CHARACTERS = 128
_UNKNOWN = "unknown"

EMBEDDED = Session(
    "/127.0.0.1",
    "EMBEDDED",
    client_software_name="pykcoord",
    client_software_version=__version__,
)
"""Of requests that are made in this process: they come over no listener of a server."""


@functools.lru_cache(maxsize=_SHARED)
def anonymous(client_host: str, listener: str) -> Session:
    """The session of a peer that has not said anything yet."""
    return Session(client_host, listener)


def with_software(session: Session, name: str, version: str) -> Session:
    """The same session, once the client has named its software (ApiVersions v3, KIP-511)."""
    if len(name) + len(version) > _SHARED_CHARACTERS:
        return _named(session, name, version)
    return _named_and_shared(session, name, version)


def _named(session: Session, name: str, version: str) -> Session:
    return Session(
        session.client_host,
        session.listener,
        principal=session.principal,
        client_software_name=name,
        client_software_version=version,
    )


_named_and_shared = functools.lru_cache(maxsize=_SHARED)(_named)


def describe(session: Session) -> str:
    """For a line of log: the client host, and the client's software where it is known."""
    if session.client_software_name == _UNKNOWN:
        return session.client_host
    software = f"{session.client_software_name} {session.client_software_version}"
    return f"{session.client_host} ({software})"
