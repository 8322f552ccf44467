"""Records of `__cluster_metadata`, decoded: those that a node needs. Pure.

Layouts are those of Kafka's `metadata/src/main/resources/common/metadata`. A record of a type that
is not needed here is passed over; one that is needed, of a version that is not known, is refused:
what it says might be who leads a partition.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from pykcoord.log._record_batch import header
from pykcoord.node.errors import NodeError

__all__ = [
    "BrokerChanged", "BrokerFenced", "BrokerGone", "BrokerRegistered", "BrokerUnfenced",
    "ConfigSet", "Endpoint", "FeatureSet", "MetadataBatch", "PartitionChanged", "PartitionSet",
    "TopicGone", "TopicSet", "TransactionBegun", "TransactionEnded", "UnknownRecordError",
    "batches_of", "decode_record",
]  # fmt: skip

_CONTROL, _COMPRESSED = 0x20, 0x07
_HEADER_BYTES = 61


class UnknownRecordError(NodeError):
    """The metadata log has a record that this version cannot read."""


class Endpoint(NamedTuple):
    """A listener of a broker: `protocol` is Kafka's number (0: PLAINTEXT, 1: SSL, 2 and 3 with
    SASL)."""

    name: str
    host: str
    port: int
    protocol: int


class FeatureSet(NamedTuple):
    """A feature was finalized at `level`; 0: it is gone."""

    name: str
    level: int


class BrokerRegistered(NamedTuple):
    """A broker registered, under the epoch that the controller gave it; `cordoned` are its log
    directories that get no partitions by themselves (None: not told). An image keeps it, with what
    changed since."""

    broker_id: int
    incarnation: uuid.UUID
    epoch: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None
    is_fenced: bool
    is_shutting_down: bool
    cordoned: tuple[uuid.UUID, ...] | None


class BrokerGone(NamedTuple):
    """A broker was unregistered."""

    broker_id: int


class BrokerFenced(NamedTuple):
    """A broker leads nothing until it is unfenced."""

    broker_id: int


class BrokerUnfenced(NamedTuple):
    """A broker may lead."""

    broker_id: int


class BrokerChanged(NamedTuple):
    """What changed of a broker; None: that did not."""

    broker_id: int
    is_fenced: bool | None
    is_shutting_down: bool | None
    cordoned: tuple[uuid.UUID, ...] | None


class TopicSet(NamedTuple):
    """A topic was created."""

    name: str
    topic_id: uuid.UUID


class TopicGone(NamedTuple):
    """A topic was deleted, with its partitions."""

    topic_id: uuid.UUID


class PartitionSet(NamedTuple):
    """A partition, whole. `leader` -1: nobody."""

    topic_id: uuid.UUID
    partition: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    removing: tuple[int, ...]
    adding: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    recovery_state: int


class PartitionChanged(NamedTuple):
    """What changed of a partition; None: that did not."""

    topic_id: uuid.UUID
    partition: int
    isr: tuple[int, ...] | None
    leader: int | None
    replicas: tuple[int, ...] | None
    removing: tuple[int, ...] | None
    adding: tuple[int, ...] | None
    recovery_state: int | None


class ConfigSet(NamedTuple):
    """A setting of a resource (`kind` is Kafka's number: 2 topic, 4 broker, 32 group); a `value`
    of None: it is gone."""

    kind: int
    resource: str
    name: str
    value: str | None


class TransactionBegun(NamedTuple):
    """What follows counts only once the transaction has ended."""


class TransactionEnded(NamedTuple):
    """The transaction counts, or is dropped."""

    is_committed: bool


class MetadataBatch(NamedTuple):
    """Of the log: `records`, key and value already taken apart, up to `next_offset`; `epoch` of
    the controller that wrote it."""

    base_offset: int
    next_offset: int
    epoch: int
    records: tuple[bytes, ...]


def batches_of(data: bytes) -> Iterator[MetadataBatch]:
    """The whole batches of what a controller sent; a last one that is cut off is left out. Control
    batches have no records. Raises UnknownRecordError for what is no batch."""
    position = 0
    while position + _HEADER_BYTES <= len(data):
        found = header(data, position)
        if found.size < _HEADER_BYTES:
            raise UnknownRecordError("the metadata log: a batch without a header")
        if position + found.size > len(data):
            return
        if found.attributes & _COMPRESSED:
            raise UnknownRecordError("the metadata log: a compressed batch, which nobody writes")
        records: tuple[bytes, ...] = ()
        if not found.attributes & _CONTROL:
            area = data[position + _HEADER_BYTES : position + found.size]
            records = tuple(_values(area, found.record_count))
        yield MetadataBatch(
            found.base_offset,
            found.base_offset + found.last_offset_delta + 1,
            found.partition_leader_epoch,
            records,
        )
        position += found.size


def decode_record(value: bytes) -> Any:
    """One of the types above; None for a record that is not needed. Raises UnknownRecordError."""
    try:
        reader = _Reader(value)
        if (frame := reader.uvarint()) != 1:
            raise UnknownRecordError(f"the metadata log: a record in a frame of version {frame}")
        kind, version = reader.uvarint(), reader.uvarint()
        layout = _LAYOUTS.get(kind)
        if layout is None:
            return None
        newest, decode = layout
        if version > newest:
            raise UnknownRecordError(
                f"the metadata log: a record of type {kind} and version {version}, and up to "
                f"{newest} are known; take a newer pykcoord"
            )
        return decode(reader, version)
    except (struct.error, IndexError, UnicodeDecodeError, ValueError) as error:
        raise UnknownRecordError(f"the metadata log: no record ({error!r})") from None


def _values(area: bytes, count: int) -> Iterator[bytes]:
    reader = _Reader(area)
    for _ in range(count):
        length = reader.varint()
        end = reader.position + length
        reader.position += 1  # attributes
        reader.varint()
        reader.varint()
        key = reader.varint()
        reader.position += max(key, 0)
        size = reader.varint()
        yield reader.take(max(size, 0))
        reader.position = end


class _Reader:
    """Kafka's flexible encoding."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.position = 0

    def take(self, size: int) -> bytes:
        end = self.position + size
        if size < 0 or end > len(self._data):
            raise IndexError(f"{size} bytes at {self.position} of {len(self._data)}")
        taken, self.position = self._data[self.position : end], end
        return taken

    def uvarint(self) -> int:
        value = shift = 0
        while True:
            byte = self._data[self.position]
            self.position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 63:
                raise ValueError("a number of more than 64 bits")

    def varint(self) -> int:
        value = self.uvarint()
        return (value >> 1) ^ -(value & 1)

    def number(self, form: str) -> int:
        found: int = struct.unpack(f">{form}", self.take(struct.calcsize(f">{form}")))[0]
        return found

    def flag(self) -> bool:
        return self.number("b") != 0

    def id(self) -> uuid.UUID:
        return uuid.UUID(bytes=self.take(16))

    def text(self) -> str:
        found = self.nullable_text()
        if found is None:
            raise ValueError("no text")
        return found

    def nullable_text(self) -> str | None:
        length = self.uvarint() - 1
        return None if length < 0 else self.take(length).decode()

    def many(self, one: Callable[[], Any]) -> tuple[Any, ...]:
        return self.nullable_many(one) or ()

    def nullable_many(self, one: Callable[[], Any]) -> tuple[Any, ...] | None:
        count = self.uvarint() - 1
        return None if count < 0 else tuple(one() for _ in range(count))

    def int32s(self) -> tuple[int, ...]:
        return self.many(lambda: self.number("i"))

    def tags(self) -> dict[int, _Reader]:
        found = {}
        for _ in range(self.uvarint()):
            tag = self.uvarint()
            found[tag] = _Reader(self.take(self.uvarint()))
        return found


def _feature(reader: _Reader, version: int) -> FeatureSet:
    return FeatureSet(reader.text(), reader.number("h"))


def _registered(reader: _Reader, version: int) -> BrokerRegistered:
    broker_id = reader.number("i")
    if version >= 2:
        reader.flag()  # of a migration from ZooKeeper
    incarnation, epoch = reader.id(), reader.number("q")

    def endpoint() -> Endpoint:
        found = Endpoint(reader.text(), reader.text(), reader.number("H"), reader.number("h"))
        reader.tags()
        return found

    def feature() -> None:
        reader.text(), reader.number("h"), reader.number("h"), reader.tags()

    endpoints = reader.many(endpoint)
    reader.many(feature)
    rack, is_fenced = reader.nullable_text(), reader.flag()
    is_shutting_down = reader.flag() if version >= 1 else False
    tags = reader.tags()
    cordoned = tags[1].nullable_many(tags[1].id) if 1 in tags else None
    return BrokerRegistered(
        broker_id, incarnation, epoch, endpoints, rack, is_fenced, is_shutting_down, cordoned
    )


def _broker_changed(reader: _Reader, version: int) -> BrokerChanged:
    broker_id, _ = reader.number("i"), reader.number("q")
    tags = reader.tags()
    fenced = tags[0].number("b") if 0 in tags else 0
    shutting_down = tags[1].number("b") if 1 in tags else 0
    cordoned = tags[3].nullable_many(tags[3].id) if 3 in tags else None
    return BrokerChanged(
        broker_id, fenced > 0 if fenced else None, True if shutting_down else None, cordoned
    )


def _topic(reader: _Reader, version: int) -> TopicSet:
    return TopicSet(reader.text(), reader.id())


def _partition(reader: _Reader, version: int) -> PartitionSet:
    partition, topic_id = reader.number("i"), reader.id()
    replicas, isr, removing, adding = (reader.int32s() for _ in range(4))
    leader, leader_epoch, partition_epoch = (reader.number("i") for _ in range(3))
    if version >= 1:
        reader.many(reader.id)
    tags = reader.tags()
    recovery = tags[0].number("b") if 0 in tags else 0
    return PartitionSet(
        topic_id, partition, replicas, isr, removing, adding, leader, leader_epoch,
        partition_epoch, recovery,
    )  # fmt: skip


def _partition_changed(reader: _Reader, version: int) -> PartitionChanged:
    partition, topic_id = reader.number("i"), reader.id()
    tags = reader.tags()

    def ids(tag: int) -> tuple[int, ...] | None:
        return tags[tag].nullable_many(lambda: tags[tag].number("i")) if tag in tags else None

    leader = tags[1].number("i") if 1 in tags else -2
    recovery = tags[5].number("b") if 5 in tags else -1
    return PartitionChanged(
        topic_id, partition, ids(0), None if leader == -2 else leader, ids(2), ids(3), ids(4),
        None if recovery == -1 else recovery,
    )  # fmt: skip


def _config(reader: _Reader, version: int) -> ConfigSet:
    return ConfigSet(reader.number("b"), reader.text(), reader.text(), reader.nullable_text())


_LAYOUTS: dict[int, tuple[int, Callable[[_Reader, int], Any]]] = {
    0: (4, _registered),
    1: (0, lambda reader, version: BrokerGone(reader.number("i"))),
    2: (0, _topic),
    3: (2, _partition),
    4: (0, _config),
    5: (2, _partition_changed),
    7: (0, lambda reader, version: BrokerFenced(reader.number("i"))),
    8: (0, lambda reader, version: BrokerUnfenced(reader.number("i"))),
    9: (0, lambda reader, version: TopicGone(reader.id())),
    12: (0, _feature),
    17: (3, _broker_changed),
    23: (0, lambda reader, version: TransactionBegun()),
    24: (0, lambda reader, version: TransactionEnded(True)),
    25: (0, lambda reader, version: TransactionEnded(False)),
}
