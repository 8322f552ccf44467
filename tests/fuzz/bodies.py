"""Random requests of every API that kio knows, in every version: valid bytes, odd values.

Names come from a small vocabulary, so that requests meet the state that others made.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import functools
import random
import struct
import typing
import uuid
from io import BytesIO
from typing import Any

from kio.index import load_request_schema
from kio.serial import entity_writer
from kio.static.primitive import Interval, i32Timedelta

from pykcoord.protocol import GROUP_APIS
from pykcoord.server.api.registry import APIS

# Beyond what Kafka has: keys and versions that no one serves.
KEYS = range(-1, 96)
ODD_KEYS = (127, 128, 255, 256, 32767, -32768)
# JoinGroup to SyncGroup, and ConsumerGroupHeartbeat: what makes groups.
MEMBERSHIP = (11, 12, 13, 14, 68)
SERVED = tuple(sorted({*APIS, *(api.key for api in GROUP_APIS)}))
_VERSIONS_BEYOND = 2

_GROUPS = (*("g",) * 8, "g1", "g2", "")
_TOPICS = ("orders", "orders", "payments", "range", "absent", "", ".", "a" * 249, "a" * 250)
_WORDS = ("", "range", "consumer", "sticky", "g", "1", "-1", "\x00", "é中\U0001f600", "a" * 300)
_SUBSCRIPTION = b"\0\0\0\0\0\1\0\6orders\xff\xff\xff\xff"
_ASSIGNMENT = b"\0\0\0\0\0\1\0\6orders\0\0\0\1\0\0\0\0\xff\xff\xff\xff"
_HONEST = {"metadata": _SUBSCRIPTION, "assignment": _ASSIGNMENT}
_CLIENT_IDS = (*(b"cli",) * 20, None, None, b"", b"", b"c" * 300, b"\xff\xfe")
# That members of the consumer protocol give themselves.
_MEMBER_IDS = ("m1", "m2", "m3")
_COUNTS = (0, 1, 1, 1, 2, 3)
_MANY = (100, 1_000, 10_000, 60_000)
_LATER = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


@functools.cache
def versions(key: int) -> tuple[int, ...]:
    """The versions of an API that kio can write; none for a key that it does not know."""
    return tuple(version for version in range(30) if _schema(key, version) is not None)


@functools.cache
def _schema(key: int, version: int) -> Any:
    try:
        return load_request_schema(key, version)
    except Exception:  # UnknownEntity, and what an import of a missing version raises
        return None


class Bodies:
    """Writes requests by one generator of random numbers. `member_ids` are those that the server
    gave out: the caller adds them."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.member_ids: list[str] = []
        self._many = 0

    def frame(self) -> bytes:
        """A request without its length: of any API, mostly in a version that Kafka has."""
        rng = self._rng
        keys = (SERVED, MEMBERSHIP, KEYS, ODD_KEYS)
        key = rng.choice(rng.choices(keys, (50, 20, 29, 1))[0])
        known = versions(key)
        if not known or rng.random() < 0.03:
            version = rng.choice((-1, 0, (known or (0,))[-1] + _VERSIONS_BEYOND, 32767, -32768))
            return self._header(key, version, rng.random() < 0.5) + rng.randbytes(rng.randrange(40))
        version = rng.choice(known)
        # Most arrays are short; one of some frames holds many times the same.
        self._many = rng.choice(_MANY) if rng.random() < 0.01 else 0
        schema = _schema(key, version)
        return self._header(key, version, schema.__flexible__) + self._body(schema)

    def _body(self, schema: Any) -> bytes:
        buffer = BytesIO()
        # Where a version cannot hold a value, what is written so far will do.
        with contextlib.suppress(Exception):
            entity_writer(schema)(buffer, self._entity(schema))
        return buffer.getvalue()

    def _header(self, key: int, version: int, flexible: bool) -> bytes:
        rng = self._rng
        client_id = rng.choice(_CLIENT_IDS)
        head = struct.pack(">hhi", key, version, rng.getrandbits(31))
        size = -1 if client_id is None else len(client_id)
        head += struct.pack(">h", size) + (client_id or b"")
        if flexible:
            head += b"\x00" if rng.random() < 0.9 else b"\x01\x05\x03abc"
        return head

    def _entity(self, schema: Any) -> Any:
        values = {}
        for field, hint in _fields(schema):
            has_default = field.default is not dataclasses.MISSING
            if has_default and self._rng.random() < 0.1:
                continue
            of_protocol = field.name == "name" and "Protocol" in schema.__name__
            name = "protocol_name" if of_protocol else field.name
            values[field.name] = self._value(hint, name)
        if schema.__name__ == "ConsumerGroupHeartbeatRequest" and self._rng.random() < 0.8:
            values |= self._heartbeat(values.get("member_epoch"))
        return schema(**values)

    def _heartbeat(self, epoch: int | None) -> dict[str, Any]:
        """What a member says: without it few would ever be one."""
        rng = self._rng
        said = {
            "group_id": rng.choice(_GROUPS[:-1]),
            "member_id": rng.choice(_MEMBER_IDS),
            "instance_id": rng.choice((None, None, "i1")),
            "rack_id": None,
        }
        if epoch == 0:
            said |= {"subscribed_topic_names": ("orders",), "topic_partitions": ()}
        return said

    def _value(self, hint: Any, name: str) -> Any:
        rng = self._rng
        if typing.get_origin(hint) is tuple:
            items = [
                self._value(typing.get_args(hint)[0], name) for _ in range(rng.choice(_COUNTS))
            ]
            if self._many and items:
                items = (items * self._many)[: self._many]
                self._many = 0
            return tuple(items)
        alternatives = typing.get_args(hint)
        if alternatives:
            if type(None) in alternatives and rng.random() < 0.2:
                return None
            return self._value(next(a for a in alternatives if a is not type(None)), name)
        if dataclasses.is_dataclass(hint):
            return self._entity(hint)
        return self._scalar(hint, name)

    def _scalar(self, hint: Any, name: str) -> Any:
        rng = self._rng
        if issubclass(hint, bool):
            return rng.random() < 0.5
        if issubclass(hint, str):
            return self._text(name)
        if name in _HONEST and rng.random() < 0.7:
            return _HONEST[name]
        if issubclass(hint, bytes):
            return rng.choice((b"", _SUBSCRIPTION, _ASSIGNMENT, rng.randbytes(rng.randrange(60))))
        if issubclass(hint, uuid.UUID):
            return uuid.UUID(int=rng.choice((0, 1, rng.getrandbits(128))))
        if issubclass(hint, datetime.timedelta):
            narrow = issubclass(hint, i32Timedelta)
            longest = 2**31 - 1 if narrow else 2**45
            choices = (0, -1, 1, 500, *(60_000,) * 12, longest)
            return datetime.timedelta(milliseconds=rng.choice(choices))
        if issubclass(hint, datetime.datetime):
            return _LATER
        if issubclass(hint, float):
            return rng.choice((0.0, -1.5, 1e300))
        if issubclass(hint, Interval):
            return rng.choice((0, 0, 1, 2, 5, -1, 1_000, hint.__low__, hint.__high__))
        return hint(rng.choice((0, 1)))

    def _text(self, name: str) -> str:
        rng = self._rng
        if rng.random() < 0.1:
            return rng.choice(_WORDS)
        if name == "member_id":
            return rng.choice(("", *_MEMBER_IDS, *self.member_ids))
        if name == "server_assignor":
            return rng.choice(("uniform", "range"))
        if name == "protocol_type":
            return "consumer"
        if name == "protocol_name":
            return rng.choice(("range", "range", "range", "sticky"))
        if "group" in name or name in ("key", "coordinator_keys"):
            return rng.choice(_GROUPS)
        if "topic" in name or name in ("name", "topics"):
            return rng.choice(_TOPICS)
        return rng.choice(_WORDS)


class _OneOfEach(Bodies):
    """One element in each array, nothing null, small values."""

    def _value(self, hint: Any, name: str) -> Any:
        if typing.get_origin(hint) is tuple:
            return (self._value(typing.get_args(hint)[0], name),)
        alternatives = [a for a in typing.get_args(hint) if a is not type(None)]
        if alternatives:
            return self._value(alternatives[0], name)
        if dataclasses.is_dataclass(hint):
            return self._entity(hint)
        if issubclass(hint, str):
            return "orders"
        return b"x" if issubclass(hint, bytes) else self._scalar(hint, name)


def one_of_each(key: int, version: int) -> tuple[bytes, bool]:
    """The body of a request with one element in each array, and whether it is flexible."""
    schema = _schema(key, version)
    return _OneOfEach(random.Random(1))._body(schema), schema.__flexible__


@functools.cache
def _fields(schema: Any) -> tuple[tuple[Any, Any], ...]:
    hints = typing.get_type_hints(schema)
    return tuple((field, hints[field.name]) for field in dataclasses.fields(schema))
