"""ZooKeeper's client protocol: frames of requests and answers, for `connection.py`.

Pure. Only the operations of `operations.py`. Source: ZooKeeper's zookeeper.jute. It must check
each length before it reads: a server is a stranger, too.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from pykcoord.zookeeper.errors import ZooKeeperError
from pykcoord.zookeeper.operations import (
    BadVersionError,
    Children,
    Create,
    Delete,
    Exists,
    Get,
    Node,
    NodeExistsError,
    NoNodeError,
    NotPermittedError,
    Operation,
    Set,
)

MAX_FRAME_BYTES = 64 * 1024 * 1024
WATCH_XID, PING_XID = -1, -2
SESSION_EXPIRED = -112
MULTI_READ = 22
# Of everybody, with all permissions: what 0.8.2.2 gives to each znode.
_OPEN_ACL = struct.pack(">iii5si6s", 1, 31, 5, b"world", 6, b"anyone")
_STAT = struct.Struct(">qqqqiiiqiiq")
_HEADER = struct.Struct(">iqi")
_ERRORS = {-101: NoNodeError, -110: NodeExistsError, -103: BadVersionError, -102: NotPermittedError}
_GET_HEAD = struct.Struct(">iiii")
_MULTI_HEADER = struct.Struct(">i?i")  # type, whether it is the end, error
_READ_HEAD = struct.Struct(">i?ii")
_CONNECT = struct.Struct(">iiqiqi16s?")
PING = struct.pack(">iii", 8, PING_XID, 11)
CLOSE = struct.pack(">iii", 8, 0, -11)


class FrameError(ZooKeeperError):
    """Bytes that are no frame of ZooKeeper's. `path` is the server."""


def connect_frame(session_timeout_ms: int) -> bytes:
    """The first frame, for a new session, with its length in front."""
    return _CONNECT.pack(_CONNECT.size - 4, 0, 0, session_timeout_ms, 0, 16, bytes(16), False)


def read_connected(frame: bytes) -> tuple[int, int]:
    """Session timeout in ms, as the server wants it, and session id; (0, 0) where it refuses."""
    if len(frame) < 16:
        raise FrameError("session", f"{len(frame)} bytes are no answer of ZooKeeper")
    _, timeout_ms, session_id = struct.unpack_from(">iiq", frame)
    return (0, 0) if timeout_ms <= 0 else (timeout_ms, session_id)


def request_frame(xid: int, operation: Operation) -> bytes:
    """An operation, with its length in front."""
    match operation:
        case Create(path, data, ephemeral):
            body = _text(path) + _buffer(data) + _OPEN_ACL + struct.pack(">i", int(ephemeral))
            number = 1
        case Delete(path, version):
            number, body = 2, _text(path) + struct.pack(">i", version)
        case Exists(path, watch):
            number, body = 3, _text(path) + bytes([watch])
        case Get(path, watch):
            number, body = 4, _text(path) + bytes([watch])
        case Set(path, new, version):
            number, body = 5, _text(path) + _buffer(new) + struct.pack(">i", version)
        case Children(path, watch):
            number, body = 8, _text(path) + bytes([watch])
        case _:
            raise AssertionError(operation)
    return struct.pack(">iii", len(body) + 8, xid, number) + body


def get_frames(first_xid: int, paths: Sequence[str]) -> bytes:
    """Requests for the data of each path, with ascending xids, to be sent in one go."""
    out = bytearray()
    for xid, path in enumerate(paths, first_xid):
        encoded = path.encode()
        length = len(encoded)
        out += _GET_HEAD.pack(length + 13, xid, 4, length)
        out += encoded
        out.append(0)
    return bytes(out)


def multi_read_frame(xid: int, paths: Sequence[str]) -> bytes:
    """One request for the data of all paths (multiRead, of ZooKeeper 3.6 and later)."""
    out = bytearray()
    for path in paths:
        encoded = path.encode()
        out += _READ_HEAD.pack(4, False, -1, len(encoded))
        out += encoded
        out.append(0)
    out += _MULTI_HEADER.pack(-1, True, -1)
    return struct.pack(">iii", len(out) + 8, xid, MULTI_READ) + bytes(out)


def read_multi(frame: bytes, paths: Sequence[str]) -> list[Node | ZooKeeperError]:
    """The nodes of such a request, or what refuses each. Raises FrameError, struct.error."""
    found: list[Node | ZooKeeperError] = []
    at = _HEADER.size
    for path in paths:
        _, done, error = _MULTI_HEADER.unpack_from(frame, at)
        at += _MULTI_HEADER.size
        if done:
            raise FrameError("answer", f"{len(found)} nodes where {len(paths)} were asked for")
        if error:
            found.append(refusal(path, error))
            at += 4
        else:
            data, at = _read_buffer(frame, at)
            found.append(_node(data, frame, at))
            at += _STAT.size
    return found


def refusal(path: str, error: int) -> ZooKeeperError:
    """What an error of ZooKeeper's says of a path."""
    if error in _ERRORS:
        return _ERRORS[error](path)
    return ZooKeeperError(path, f"ZooKeeper's error {error}")


def read_header(frame: bytes) -> tuple[int, int]:
    """xid and error of an answer."""
    if len(frame) < _HEADER.size:
        raise FrameError("answer", f"{len(frame)} bytes are no answer of ZooKeeper")
    xid, _, error = _HEADER.unpack_from(frame)
    return xid, error


def read_watch(frame: bytes) -> tuple[int, str]:
    """Type of event and path of a watch that fired."""
    (kind,) = struct.unpack_from(">i", frame, _HEADER.size)
    return kind, _read_text(frame, _HEADER.size + 8)[0]


def read_answer(operation: Any, error: int, frame: bytes) -> Any:
    """The answer of an operation. Raises what `operations.py` says of it."""
    if error:
        if error == -101 and isinstance(operation, Exists):
            return None
        raise refusal(operation.path, error)
    at = _HEADER.size
    match operation:
        case Get():
            data, at = _read_buffer(frame, at)
            return _node(data, frame, at)
        case Exists():
            return _node(None, frame, at)
        case Set():
            return _node(None, frame, at).version
        case Children():
            (count,) = struct.unpack_from(">i", frame, at)
            at += 4
            names = []
            for _ in range(count):
                name, at = _read_text(frame, at)
                names.append(name)
            return names
    return None


def _node(data: bytes | None, frame: bytes, at: int) -> Node:
    if len(frame) < at + _STAT.size:
        raise FrameError("answer", "a frame that ends too early")
    _, zxid, _, modified_ms, version, _, _, owner, _, _, _ = _STAT.unpack_from(frame, at)
    return Node(data, version, zxid, modified_ms, owner)


def _text(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">i", len(encoded)) + encoded


def _buffer(data: bytes | None) -> bytes:
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


def _read_buffer(frame: bytes, at: int) -> tuple[bytes | None, int]:
    (length,) = struct.unpack_from(">i", frame, at)
    if length < 0:
        return None, at + 4
    if at + 4 + length > len(frame):
        raise FrameError("answer", "a frame that ends too early")
    return frame[at + 4 : at + 4 + length], at + 4 + length


def _read_text(frame: bytes, at: int) -> tuple[str, int]:
    data, at = _read_buffer(frame, at)
    return (data or b"").decode("utf-8", "replace"), at
