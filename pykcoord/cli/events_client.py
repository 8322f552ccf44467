"""Reads the topic of a server's group events, with no more of Kafka's protocol than that takes:
Metadata v1, ListOffsets v1 and Fetch v4 over one connection for each node.
"""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterator
from typing import NamedTuple

from pykcoord.errors import KcoordError
from pykcoord.log.events import EVENTS_TOPIC, EventRecord, decode_batch
from pykcoord.log.reader import batches_from
from pykcoord.records import partition_of

__all__ = ["Served", "fetch_events"]

_TIMEOUT_SECONDS = 15.0
_FETCH_BYTES = 4 << 20
_LONGEST_REPLY = 256 << 20
_FETCH, _LIST_OFFSETS, _METADATA = 1, 2, 3
_EARLIEST, _LATEST = -2, -1
_UNKNOWN_TOPIC = (3, 29)
_BATCH_HEAD_BYTES = 12


class Served(NamedTuple):
    """What the servers had: events by partition, and what could not be asked, for a line to the
    user."""

    partitions: dict[int, list[EventRecord]]
    missing: list[str]


def fetch_events(servers: str, group_id: str | None = None) -> Served | None:
    """All events that the nodes behind `servers` (HOST:PORT, separated by commas) keep; only those
    of the partition of a group, where one is named. None: they have no such topic. Raises
    KcoordError where none can be reached."""
    nodes, leaders = _metadata(servers)
    if leaders is None:
        return None
    records: dict[int, list[EventRecord]] = {}
    wanted_one = partition_of(group_id, len(leaders)) if group_id is not None else None
    missing: list[str] = []
    by_node: dict[int, list[int]] = {}
    for partition, node in leaders.items():
        if wanted_one is None or partition == wanted_one:
            by_node.setdefault(node, []).append(partition)
    for node, wanted in by_node.items():
        host, port = nodes.get(node, ("", 0))
        try:
            with _Connection.to(host, port) as connection:
                for partition in wanted:
                    records[partition] = list(_partition(connection, partition))
        except (OSError, KcoordError, struct.error) as error:
            missing.append(f"{host}:{port}: {error}")
    if missing and len(missing) == len(by_node):
        raise KcoordError(missing[0])
    return Served(records, missing)


def _metadata(
    servers: str,
) -> tuple[dict[int, tuple[str, int]], dict[int, int] | None]:
    failure = "no server was named"
    for server in filter(None, (one.strip() for one in servers.split(","))):
        host, _, port = server.rpartition(":")
        if not host or not port.isdigit():
            raise KcoordError(f"--bootstrap-servers {server}: write HOST:PORT")
        try:
            with _Connection.to(host.strip("[]"), int(port)) as connection:
                return _read_metadata(connection)
        except (OSError, struct.error) as error:
            failure = f"{server}: {error or type(error).__name__}; is a server running there?"
    raise KcoordError(failure)


def _read_metadata(
    connection: _Connection,
) -> tuple[dict[int, tuple[str, int]], dict[int, int] | None]:
    reply = connection.ask(_METADATA, 1, struct.pack(">i", 1) + _text(EVENTS_TOPIC))
    nodes: dict[int, tuple[str, int]] = {}
    for _ in range(reply.number(">i")):
        node = reply.number(">i")
        host = reply.text() or ""
        nodes[node] = (host, reply.number(">i"))
        reply.text()
    reply.number(">i")
    leaders: dict[int, int] = {}
    for _ in range(reply.number(">i")):
        if reply.number(">h") in _UNKNOWN_TOPIC:
            return nodes, None
        reply.text()
        reply.number(">b")
        for _ in range(reply.number(">i")):
            reply.number(">h")
            partition, leader = reply.number(">i"), reply.number(">i")
            leaders[partition] = leader
            for _ in range(2):
                for _ in range(reply.number(">i")):
                    reply.number(">i")
    return nodes, leaders or None


def _partition(connection: _Connection, partition: int) -> Iterator[EventRecord]:
    offset = _end(connection, partition, _EARLIEST)
    end = _end(connection, partition, _LATEST)
    while offset < end:
        body = struct.pack(">iiiib", -1, 0, 0, _FETCH_BYTES, 0)
        body += struct.pack(">i", 1) + _text(EVENTS_TOPIC) + struct.pack(">i", 1)
        body += struct.pack(">iqi", partition, offset, _FETCH_BYTES)
        reply = connection.ask(_FETCH, 4, body)
        reply.number(">i")
        reply.number(">i")
        reply.text()
        reply.number(">i")
        reply.number(">i")
        code = reply.number(">h")
        reply.number(">q")
        reply.number(">q")
        for _ in range(max(0, reply.number(">i"))):
            reply.number(">q")
            reply.number(">q")
        data = reply.bytes_()
        if code or not data:
            return
        before = offset
        for batch in _batches(batches_from(data, offset)):
            try:
                found = decode_batch(batch)
            except ValueError:
                found = []
            yield from (record for record in found if record.offset >= before)
            last_delta: int = struct.unpack_from(">i", batch, 23)[0]
            offset = int.from_bytes(batch[:8], "big") + last_delta + 1
        if offset == before:
            return


def _batches(data: bytes) -> Iterator[memoryview]:
    view, position = memoryview(data), 0
    while position + _BATCH_HEAD_BYTES <= len(data):
        size = _BATCH_HEAD_BYTES + int.from_bytes(data[position + 8 : position + 12], "big")
        if position + size > len(data):
            return
        yield view[position : position + size]
        position += size


def _end(connection: _Connection, partition: int, timestamp: int) -> int:
    body = struct.pack(">ii", -1, 1) + _text(EVENTS_TOPIC)
    reply = connection.ask(_LIST_OFFSETS, 1, body + struct.pack(">iiq", 1, partition, timestamp))
    reply.number(">i")
    reply.text()
    reply.number(">i")
    reply.number(">i")
    reply.number(">h")
    reply.number(">q")
    return max(0, reply.number(">q"))


class _Connection:
    """One connection to one node: a question, then its answer."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._asked = 0

    @classmethod
    @contextlib.contextmanager
    def to(cls, host: str, port: int) -> Iterator[_Connection]:
        """Within it, connected. Raises OSError."""
        with socket.create_connection((host, port), _TIMEOUT_SECONDS) as connected:
            yield cls(connected)

    def ask(self, key: int, version: int, body: bytes) -> _Reply:
        """Raises OSError, also where the connection is closed."""
        self._asked += 1
        frame = struct.pack(">hhi", key, version, self._asked) + _text("pykcoord-explain") + body
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)
        size = int.from_bytes(self._read(4), "big")
        if not 4 <= size <= _LONGEST_REPLY:
            raise OSError(f"an answer of {size} bytes: this is no Kafka server")
        return _Reply(self._read(size)[4:])

    def _read(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            more = self._socket.recv(min(1 << 20, size - len(parts)))
            if not more:
                raise OSError("the server closed the connection")
            parts += more
        return bytes(parts)


class _Reply:
    """The body of an answer. Raises struct.error where it ends too early."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self, form: str) -> int:
        value: int = struct.unpack_from(form, self._data, self._at)[0]
        self._at += struct.calcsize(form)
        return value

    def text(self) -> str | None:
        length = self.number(">h")
        if length < 0:
            return None
        self._at += length
        return self._data[self._at - length : self._at].decode("utf-8", "replace")

    def bytes_(self) -> bytes:
        length = max(0, self.number(">i"))
        self._at += length
        return self._data[self._at - length : self._at]


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data
