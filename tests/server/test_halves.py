"""Parts of frames are bounded in all connections together: who waits longest for the rest goes."""

from __future__ import annotations

import logging
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from support.scripted_node import HEARTBEAT, JOIN

from .conftest import Client, Rig, frame, serving

_CLAIMED_BYTES = 100 << 20
_PART_BYTES = 256 << 10
_MOST_BYTES = 4 * _PART_BYTES


async def _half(rig: Rig, size: int = _PART_BYTES, claimed: int = _CLAIMED_BYTES) -> Client:
    """A client of whose frame the server has read the beginning."""
    client = await rig.connect()
    before = rig.server.hub.received_bytes_total
    client.send(struct.pack(">ihhi", claimed, JOIN, 5, 1) + bytes(size - 8))
    await rig.until(lambda: rig.server.hub.received_bytes_total >= before + size + 4)
    return client


def test_who_waits_longest_with_a_part_of_a_frame_makes_room(run, caplog):
    """400 connections with a part of 100 MB each once ended the server by memory."""

    async def main():
        async with serving(queued_max_request_bytes=_MOST_BYTES) as rig:
            halves = rig.server.hub.halves
            old = [await _half(rig) for _ in range(4)]
            assert (halves.bytes, len(halves)) == (_MOST_BYTES, 4)
            assert rig.server.hub.refused_total == 0
            late = [await _half(rig) for _ in range(2)]
            assert [await client.closed() for client in old[:2]] == [True, True]
            assert (halves.bytes, len(halves)) == (_MOST_BYTES, 4)
            assert rig.server.hub.refused_total == 2
            kept = [*old[2:], *late]
            assert len(rig.server.hub.connections) == len(kept)
            for client in kept:
                client.close()
            await rig.until(lambda: halves.bytes == 0)
            assert len(halves) == 0
            assert await (await rig.connect()).ask(frame(HEARTBEAT))

    with caplog.at_level(logging.WARNING, "pykcoord.server"):
        run(main())
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 2
    assert f"{_PART_BYTES} of {_CLAIMED_BYTES} bytes wait longest" in lines[0]
    assert lines[0].endswith(f"queued.max.request.bytes={_MOST_BYTES} reached")


@pytest.mark.parametrize("setting", [0, -1])
def test_parts_of_frames_have_no_bound_where_none_is_wanted(run, setting):
    async def main():
        async with serving(queued_max_request_bytes=setting) as rig:
            clients = [await _half(rig) for _ in range(3)]
            assert len(rig.server.hub.halves) == len(rig.server.hub.connections) == len(clients)

    run(main())


def test_a_frame_that_comes_whole_needs_no_room_any_more(run):
    async def main():
        async with serving(queued_max_request_bytes=_MOST_BYTES) as rig:
            halves = rig.server.hub.halves
            for size in (5_000, 70_000, 3 * _PART_BYTES):
                client = await _half(rig, size - 100, size)
                assert (halves.bytes, len(halves)) == (size - 100, 1)
                client.send(bytes(100))
                await rig.until(lambda: not len(halves))
                assert halves.bytes == 0
                client.close()
            assert rig.server.hub.refused_total == 0

    run(main())


def test_the_last_frame_may_be_longer_than_all_that_is_held(run):
    """Else none so long could ever come."""

    async def main():
        async with serving(queued_max_request_bytes=_MOST_BYTES) as rig:
            halves = rig.server.hub.halves
            other = await _half(rig)
            alone = await _half(rig, 3 * _MOST_BYTES)
            assert await other.closed()
            assert (halves.bytes, len(halves)) == (3 * _MOST_BYTES, 1)
            assert len(rig.server.hub.connections) == 1
            alone.close()

    run(main())


def test_little_of_a_frame_neither_counts_nor_is_closed(run):
    """To close so many connections in one iteration of the loop would hold it up."""

    async def main():
        async with serving(queued_max_request_bytes=_PART_BYTES) as rig:
            halves = rig.server.hub.halves
            little = [await _half(rig, 1_000) for _ in range(50)]
            assert (halves.bytes, len(halves)) == (0, 0)
            first, _ = await _half(rig), await _half(rig)
            assert await first.closed()
            assert len(rig.server.hub.connections) == len(little) + 1

    run(main())


def test_little_is_read_ahead_where_pipelined_frames_take_much(run, request):
    """64 KiB wait for each client who sends before it is answered: 10,000 of them took 640 MB."""

    async def main():
        async with serving() as rig:
            hub = rig.server.hub
            rig.node._handle = lambda *of: None  # nobody is answered
            beats = frame(HEARTBEAT) * (200_000 // len(frame(HEARTBEAT)))

            async def pipelined() -> int:
                before = hub.ahead_bytes
                (await rig.connect()).send(beats)
                await rig.until(lambda: hub.ahead_bytes > before)
                return await rig.settled(lambda: hub.ahead_bytes) - before

            assert 65_536 <= await pipelined() < 400_000
            hub.most_ahead_bytes = 0
            if not request.node.callspec.params["run"].endswith("unpolled"):  # the loop reads more
                assert await pipelined() < 8_192

    run(main())


def test_a_long_frame_is_let_go_behind_its_turn(run):
    """A JoinGroup of 100 MiB was kept while its client waited for the others of its group."""

    async def main():
        async with serving() as rig:
            hub = rig.server.hub
            parked = await rig.connect()
            parked.send(frame(JOIN, body=bytes(_PART_BYTES)))
            await rig.until(lambda: rig.node.parked_joins)
            assert hub.in_flight_bytes > _PART_BYTES
            other = await rig.connect()
            assert await other.ask(frame(HEARTBEAT))
            assert (len(hub.in_flight), hub.in_flight_bytes) == (1, 2)
            assert hub.counts.requests().keys() == {HEARTBEAT}
            (ticket,) = hub.in_flight
            hub.answer(ticket, struct.pack(">ii", 4, 7))
            await parked.read()
            assert hub.counts.requests().keys() == {HEARTBEAT, JOIN}

    run(main())


@pytest.mark.skipif(sys.platform != "linux", reason="memory is bounded as Linux does it")
def test_a_frame_for_which_there_is_no_memory_is_counted_no_more():
    """It stayed the oldest for ever: to make room it was closed again and again, without end."""
    program = Path(__file__).parent / "no_memory.py"
    assert subprocess.run([sys.executable, program], timeout=60, check=False).returncode == 0
