"""What is asked of ZooKeeper, and what it answers, as values. Must never know a client library.

What a member does (`coordination.py`) is written as generators that yield these and are sent
their answers; `member.py` has kazoo do them, `connection.py` does them on a socket of its own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import Any, NamedTuple, TypeVar

from pykcoord.zookeeper.errors import ZooKeeperError

_Result = TypeVar("_Result")

ANY_VERSION = -1


class Node(NamedTuple):
    """A znode. `data` is None where there is none; `modified_ms` is since the epoch;
    `ephemeral_owner` is a session, or 0."""

    data: bytes | None
    version: int
    modified_zxid: int
    modified_ms: int
    ephemeral_owner: int


class Exists(NamedTuple):
    """Whether it is there. Answer: its Node without data, or None."""

    path: str
    watch: bool


class Get(NamedTuple):
    """Its data. Answer: Node; raises NoNodeError."""

    path: str
    watch: bool


class Children(NamedTuple):
    """The names below it. Answer: a list; raises NoNodeError."""

    path: str
    watch: bool


class Create(NamedTuple):
    """Make it, for everybody. Raises NoNodeError (no parent), NodeExistsError."""

    path: str
    data: bytes | None
    ephemeral: bool


class Delete(NamedTuple):
    """Delete it. Raises NoNodeError, BadVersionError."""

    path: str
    version: int = ANY_VERSION


class Set(NamedTuple):
    """Change its data. Answer: its new version; raises NoNodeError, BadVersionError."""

    path: str
    data: bytes
    version: int = ANY_VERSION


class Session(NamedTuple):
    """Answer: the number of the session that requests are sent on."""


class Revoke(NamedTuple):
    """No request: the member's owner stops reading what it owns, and may commit."""


Operation = Exists | Get | Children | Create | Delete | Set | Session | Revoke
Steps = Generator[Operation, Any, _Result]


class NoNodeError(ZooKeeperError):
    """There is no such znode."""

    def __init__(self, path: str) -> None:
        super().__init__(path, "no such znode")


class NodeExistsError(ZooKeeperError):
    """The znode is there already."""

    def __init__(self, path: str) -> None:
        super().__init__(path, "is there already")


class BadVersionError(ZooKeeperError):
    """The znode was changed by somebody else."""

    def __init__(self, path: str) -> None:
        super().__init__(path, "was changed by somebody else")


class NotPermittedError(ZooKeeperError):
    """The znode's ACL does not allow it."""

    def __init__(self, path: str) -> None:
        super().__init__(path, "no permission (its ACL); Kafka 0.8's are open to everybody")


def create_parents(path: str) -> Steps[None]:
    """Make what is above `path`, from the leaf upwards and back, as 0.8 does it."""
    parent = path.rpartition("/")[0]
    if not parent:
        return
    try:
        yield Create(parent, None, False)
    except NodeExistsError:
        pass
    except NoNodeError:
        yield from create_parents(parent)
        with contextlib.suppress(NodeExistsError):
            yield Create(parent, None, False)


def create_ephemeral(path: str, data: bytes) -> Steps[None]:
    """Make an ephemeral znode, and what is above it. Raises NodeExistsError."""
    try:
        yield Create(path, data, True)
    except NoNodeError:
        yield from create_parents(path)
        yield Create(path, data, True)
