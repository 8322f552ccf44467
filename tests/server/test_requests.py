"""Requests that are no request, or claim more than they hold: whatever the API and version, they
cost no more than their bytes. kio, whose classes are Kafka's own schemas, says what is one."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import itertools
import random
import tracemalloc
import types
import typing
import uuid
from io import BytesIO
from typing import Any

import pytest
from kio.serial import entity_writer
from support.kio_client import encode

from pykcoord.server._requests import Elements, MalformedError, Shape, Walk
from pykcoord.server.api.later import request_schema
from pykcoord.server.api.registry import APIS
from pykcoord.server.api.requests import request_shape

from .conftest import serving

SERVED = [
    pytest.param(api.key, version, id=f"{api.name}-v{version}")
    for api in APIS.values()
    for version in range(api.minimum, api.maximum + 1)
]
UNBOUNDED = 10**9
MOST = 2**31 - 1
HUGE_COUNTS = [b"\xff\xff\xff\xff\x0f", MOST.to_bytes(4, "big"), b"\xff\xff\xff\xff\x7f"]
WORDS = ["", "orders", "заказы", "x" * 126, "x" * 127, "x" * 300]
VALUES: dict[str, Any] = {
    "bool": lambda source: source.random() < 0.5,
    "int8": lambda source: source.randrange(-(2**7), 2**7),
    "int16": lambda source: source.randrange(-(2**15), 2**15),
    "int32": lambda source: source.randrange(-(2**31), 2**31),
    "int64": lambda source: source.randrange(-(2**63), 2**63),
    "timedelta_i32": lambda source: datetime.timedelta(milliseconds=source.randrange(2**31)),
    "string": lambda source: source.choice(WORDS),
    "records": lambda source: source.choice([b"", b"\x00\xff", bytes(300)]),
    "uuid": lambda source: uuid.UUID(int=source.randrange(1, 2**128)),
}


def random_message(schema: Any, source: random.Random) -> Any:
    hints = typing.get_type_hints(schema)
    return schema(
        **{
            field.name: _random_value(hints[field.name], field.metadata, source)
            for field in dataclasses.fields(schema)
        }
    )


def _random_value(hint: Any, metadata: Any, source: random.Random) -> Any:
    if isinstance(hint, types.UnionType):
        # A tag is left out for null; a zero id is what kio writes for it.
        if source.random() < 0.3:
            return None
        hint = next(option for option in typing.get_args(hint) if option is not type(None))
    if typing.get_origin(hint) is tuple:
        count = source.choice([0, 1, 2, 130 if "kafka_type" in metadata else 3])
        element = typing.get_args(hint)[0]
        return tuple(_random_value(element, metadata, source) for _ in range(count))
    if dataclasses.is_dataclass(hint):
        return random_message(hint, source)
    return VALUES[metadata["kafka_type"]](source)


def body_of(message: Any) -> bytes:
    buffer = BytesIO()
    entity_writer(type(message))(buffer, message)
    return buffer.getvalue()


def same(read: Any, written: Any) -> bool:
    if dataclasses.is_dataclass(written):
        names = [field.name for field in dataclasses.fields(written)]
        return all(same(getattr(read, name), getattr(written, name)) for name in names)
    if isinstance(written, tuple):
        assert isinstance(read, Elements)
        found = list(read)
        return len(read) == len(found) == len(written) and all(map(same, found, written))
    return type(read) is type(written) and read == written


def elements_of(written: Any) -> int:
    if dataclasses.is_dataclass(written):
        return sum(elements_of(getattr(written, f.name)) for f in dataclasses.fields(written))
    return len(written) + sum(map(elements_of, written)) if isinstance(written, tuple) else 0


def walked(value: Any) -> int:
    """Reads all of a request; the number of its values."""
    if isinstance(value, tuple | Elements):
        return 1 + sum(map(walked, value))
    return 1


def checked(shape: Shape, frame: bytes, at: int = 0, most_elements: int = UNBOUNDED) -> Walk:
    """A walk that came to its end, a few elements at a time."""
    walk = Walk(shape, frame, at, most_elements)
    while not walk.go_on(3):
        pass
    return walk


@pytest.mark.parametrize(("key", "version"), SERVED)
def test_requests_of_kio_are_read_as_they_were_written(key, version):
    shape = request_shape(key, version)
    for seed in range(20):
        message = random_message(request_schema(key, version), random.Random(seed))
        body = body_of(message)
        frame = b"head" + body + b"what follows"
        walk = checked(shape, frame, 4)
        assert (walk.at, walk.elements) == (4 + len(body), elements_of(message)), message
        assert same(walk.read(), message), message


@pytest.mark.parametrize(("key", "version"), SERVED)
def test_a_request_that_ends_early_is_refused(key, version):
    shape = request_shape(key, version)
    body = body_of(random_message(request_schema(key, version), random.Random(1)))
    for end in range(len(body)):
        with pytest.raises(MalformedError):
            checked(shape, body[:end])


@pytest.mark.parametrize(("key", "version"), SERVED)
def test_no_count_is_believed_before_its_bytes_are_there(key, version):
    """Every place of a request takes a huge count, and random bytes are changed."""
    shape = request_shape(key, version)
    source = random.Random(version)
    body = body_of(random_message(request_schema(key, version), source))[:2_000]
    bodies = [body[:at] + huge + body[at:] for at in range(len(body)) for huge in HUGE_COUNTS]
    bodies = source.sample(bodies, min(300, len(bodies)))
    for _ in range(200):
        changed = bytearray(body)
        for _ in range(source.randrange(1, 4)):
            if changed:
                changed[source.randrange(len(changed))] = source.choice([0, 1, 127, 128, 255])
        bodies.append(bytes(changed))
    tracemalloc.start()
    try:
        for each in bodies:
            tracemalloc.reset_peak()
            before, _ = tracemalloc.get_traced_memory()
            with contextlib.suppress(MalformedError):
                assert walked(checked(shape, each).read()) <= 10 + 2 * len(each)
            reserved = tracemalloc.get_traced_memory()[1] - before
            assert reserved < 20_000 + 20 * len(each), each.hex()
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("v", [4, 6])
def test_a_frame_of_29_bytes_does_not_end_the_server(run, v, caplog):
    """FindCoordinator that claims 2^31-1 keys."""

    async def main():
        async with serving() as rig:
            other, client = await rig.connect(), await rig.connect()
            head = b"\x00\x0a\x00" + bytes([v]) + b"\x00\x00\x00\x01\x00\x01x\x00"
            data = head + b"\x00" + b"\xff\xff\xff\xff\x0f" + bytes(7)
            client.send(len(data).to_bytes(4, "big") + data)
            assert await client.closed()
            assert await other.ask(encode(18, 0))

    run(main())
    assert "elements are claimed where 7 bytes are left" in caplog.text


def test_elements_of_all_arrays_are_bounded_together():
    shape = request_shape(10, 4)
    body = b"\x00" + b"\x0b" + b"\x02k" * 10 + b"\x00"
    walk = checked(shape, body, most_elements=10)
    assert (walk.at, walk.elements) == (len(body), 10)
    with pytest.raises(MalformedError, match="more than 9 elements"):
        checked(shape, body, most_elements=9)


def test_tags_that_nobody_knows_count_as_elements():
    """Two MiB of them once were walked in one go."""
    shape = request_shape(10, 4)
    tags = b"".join(bytes([128 | tag & 127, tag >> 7, 0]) for tag in range(1_000))
    body = b"\x00\x01" + b"\xe8\x07" + tags
    assert checked(shape, body).elements == 1_000
    with pytest.raises(MalformedError, match="more than 999 elements"):
        checked(shape, body, most_elements=999)


@pytest.mark.parametrize("v", [1, 6])
def test_a_request_is_walked_some_elements_at_a_time_and_once(v):
    """Partitions of two topics, in an array of an array; where they end is not looked for again."""
    shape = request_shape(2, v)
    partitions = [{"partition_index": n, "timestamp": 2} for n in range(1_000)]
    topics = [{"name": name, "partitions": partitions} for name in ("a", "b")]
    frame = encode(2, v, replica_id=-1, isolation_level=0, topics=topics)
    walk = Walk(shape, frame, frame.index(b"\xff\xff\xff\xff"), UNBOUNDED)
    pieces = [walk.at]
    while not walk.go_on(100):
        pieces.append(walk.at)
    assert (walk.at, walk.elements) == (len(frame), 2_002)
    assert len(pieces) == 21
    assert max(after - before for before, after in itertools.pairwise(pieces)) < 2_000
    read = walk.read()
    assert [[p.partition_index for p in t.partitions] for t in read.topics] == [[*range(1_000)]] * 2
    with pytest.raises(ValueError, match="when all of it was checked"):
        Walk(shape, frame, 4, UNBOUNDED).read()


def test_a_null_that_the_protocol_does_not_allow_is_refused(run, caplog):
    """Null keys once raised within the handler, with a traceback for each frame."""

    async def main():
        async with serving() as rig:
            for v, body in [(4, b"\x00\x00\x00"), (4, b"\x00\x02\x00\x00"), (1, b"\xff\xff\x00")]:
                client = await rig.connect()
                tags = b"\x00" if v == 4 else b""
                data = b"\x00\x0a\x00" + bytes([v]) + b"\x00\x00\x00\x01\xff\xff" + tags + body
                client.send(len(data).to_bytes(4, "big") + data)
                assert await client.closed()

    run(main())
    assert caplog.text.count("null, which the protocol does not allow") == 3
    assert "Traceback" not in caplog.text
