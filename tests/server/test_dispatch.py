"""From frame to handler: headers, bodies that end early, answers that are kept."""

from __future__ import annotations

import asyncio
import tracemalloc

import pytest
from support.kio_client import ask, encode

from pykcoord.server.api.messages import SLICE_ELEMENTS, Slicer
from pykcoord.server.api.registry import APIS
from pykcoord.server.kept_answers import _QUESTION_BYTES, question_of

from .conftest import serving
from .test_node_apis import metadata, topic_named
from .test_slices import Rig


@pytest.mark.parametrize("key", sorted(APIS))
def test_a_truncated_body_closes_the_connection(run, key):
    async def main():
        async with serving() as rig:
            other = await rig.connect()
            for body in (b"", b"\x7f\xff\xff\xff", b"\xff" * 12):
                if key == 18:
                    continue
                client = await rig.connect()
                api = APIS[key]
                data = encode_header(key, api.maximum) + body
                client.send(len(data).to_bytes(4, "big") + data)
                assert await client.closed()
            assert await other.ask(encode(18, 0))

    run(main())


def test_a_long_request_is_checked_in_slices(run):
    """One that is cut off is not known to be none before its last byte was looked at."""

    async def main():
        rig = Rig()
        count = 100_000
        whole = encode(10, 4, key_type=0, coordinator_keys=("k",) * count)
        ticket = rig.send(whole[:-1])
        iterations = 0
        while ticket not in rig.refused:
            iterations += 1
            await asyncio.sleep(0)
        assert "bytes are claimed where" in rig.refused[ticket]
        assert iterations > count // (16 * SLICE_ELEMENTS)
        assert rig.at_rest()

    run(main())


def test_a_long_answer_takes_no_more_than_twice_its_size(run):
    async def main():
        rig = Rig({f"t{index}": 1_000 for index in range(60)})
        asked = encode(3, 9, **metadata(None))
        await rig.until_answered(rig.send(asked))  # what is loaded and kept is there
        rig.replies.clear()
        tracemalloc.start()
        try:
            ticket = rig.send(
                encode(3, 9, 1, **metadata([topic_named(f"t{n}") for n in range(59)]))
            )
            while ticket not in rig.replies:
                await asyncio.sleep(0)
            most = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert len(rig.replies[ticket]) > 1_000_000
        assert most < 2 * len(rig.replies[ticket])

    run(main())


def encode_header(key: int, version: int) -> bytes:
    return key.to_bytes(2, "big") + version.to_bytes(2, "big") + b"\x00\x00\x00\x07\xff\xff\x00"


_API_VERSIONS_3 = b"\x00\x12\x00\x03\x00\x00\x00\x07"


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"\x00\x12\x00",
        _API_VERSIONS_3,
        _API_VERSIONS_3 + b"\x00",
        _API_VERSIONS_3 + b"\xff\xfe\x00",
        _API_VERSIONS_3 + b"\x00\x09a",
        _API_VERSIONS_3 + b"\x00\x01\xff\x00",
        _API_VERSIONS_3 + b"\xff\xff\x01\x05",
        _API_VERSIONS_3 + b"\xff\xff\xff\xff\xff\xff\xff\xff",
    ],
)
def test_a_malformed_header_closes_the_connection(run, header):
    async def main():
        async with serving() as rig:
            client = await rig.connect()
            rig.node._handle = lambda turn, now, ticket, data: turn.foreign.append(ticket)
            client.send(max(1, len(header)).to_bytes(4, "big") + (header or b"\x00"))
            assert await client.closed()

    run(main())


def test_unknown_tags_in_the_header_are_skipped(run):
    async def main():
        async with serving() as rig:
            client = await rig.connect()
            whole = encode(60, 0, include_cluster_authorized_operations=False)
            start = 4 + 8 + 2 + 3
            assert whole[start : start + 1] == b"\x00"
            tags = b"\x02\x05\x03abc\x81\x01\x00"
            data = whole[4:start] + tags + whole[start + 1 :]
            client.send(len(data).to_bytes(4, "big") + data)
            assert (await client.read())[:4] == b"\x00\x00\x00\x07"

    run(main())


def test_the_same_question_is_answered_once_until_the_catalogue_changes(run, monkeypatch):
    async def main():
        async with serving(topics={"a": 2}) as rig:
            encoded = []
            write = Slicer.write_response
            monkeypatch.setattr(
                Slicer,
                "write_response",
                lambda slicer, key, *args: encoded.append(key) or write(slicer, key, *args),
            )

            async def partitions() -> int:
                client = await rig.connect()
                response = await ask(client, 3, 9, **metadata([topic_named("a")]))
                return len(response.topics[0].partitions)

            assert [await partitions() for _ in range(3)] == [2, 2, 2]
            assert encoded == [3]
            rig.catalogue.add_partitions("a", 5)
            assert [await partitions() for _ in range(3)] == [5, 5, 5]
            assert encoded == [3, 3]

    run(main())


def test_questions_that_differ_are_not_mixed_up(run, monkeypatch):
    monkeypatch.setattr("pykcoord.server.kept_answers._KNOWN_BYTES", 100_000)

    async def main():
        async with serving() as rig:
            client = await rig.connect()
            kept = []
            for index in range(600):
                response = await ask(client, 10, 4, key_type=0, coordinator_keys=(f"g{index}",))
                assert response.coordinators[0].key == f"g{index}"
                kept.append(len(rig.server._dispatcher._kept._known))
            assert 100 < max(kept) < 300

    run(main())


def test_a_long_question_is_not_copied_to_look_for_its_answer():
    """A request of 2 MiB was copied and hashed, in 2 ms, before it was read."""

    class Watched(bytes):
        def __getitem__(self, at):
            part = super().__getitem__(at)
            assert not isinstance(at, slice) or len(part) <= _QUESTION_BYTES
            return part

    head = encode_header(10, 4)
    for size in (_QUESTION_BYTES, _QUESTION_BYTES + 1, 2 << 20):
        frame = Watched(head + bytes(size))
        question = question_of(10, 4, frame, len(head))
        assert question == ((10, 4, bytes(size)) if size == _QUESTION_BYTES else None)
