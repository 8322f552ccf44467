"""Attacks on a port. Each has a part that prepares it, and returns a function for one pass, which
is called again and again.

`scale` 1 is the size that hurts; tests use less. An attack does not judge; it reports the outcome
of its requests.
"""

from __future__ import annotations

import itertools
import random
import socket
import struct
from collections.abc import Callable, Iterable
from typing import NamedTuple

from fuzz.bodies import Bodies
from fuzz.mutations import mutated

from attack import frames
from attack.wire import (
    JOIN_GROUP,
    SUBSCRIPTION,
    Connection,
    Refused,
    alive_frame,
    become_member,
    commit_frame,
    header,
    heartbeat_frame,
    join_frame,
    joined,
    leave_frame,
    send_in_pieces,
    sized,
)

_PIPELINED = 2_000
_FAT_METADATA_BYTES = 20_000
_FAT_MEMBER_BYTES = 16 << 20
_DESCRIBED_TIMES = 600
_CLAIMED_BYTES = 104_857_600
_PATIENCE_S = 30
# Of members that are to stay while a server beside theirs is attacked.
_LONG_SESSION_MS = 600_000
_SEED = 7


class Outcome(NamedTuple):
    """The outcome of one pass: how many requests were answered or refused, and the bytes of all
    answers."""

    answered: int = 0
    refused: int = 0
    answer_bytes: int = 0


Pass = Callable[[], Outcome]
Prepare = Callable[[int, float], Pass]


def send(port: int, frame: bytes) -> Outcome:
    """Sends one frame on a connection of its own, and waits half a minute for the outcome."""
    with Connection(port, _PATIENCE_S) as connection:
        try:
            connection.send(frame)
            return Outcome(1, 0, connection.skip())
        except Refused:
            return Outcome(0, 1)
        except TimeoutError:
            return Outcome()


def send_all(port: int, sent: Iterable[bytes]) -> Outcome:
    return _sum(send(port, frame) for frame in sent)


def _sum(outcomes: Iterable[Outcome]) -> Outcome:
    total = Outcome()
    for outcome in outcomes:
        total = Outcome(*map(sum, zip(total, outcome, strict=True)))
    return total


def _frame(make: Callable[[float], bytes]) -> Prepare:
    def prepare(port: int, scale: float) -> Pass:
        frame = make(scale)
        return lambda: send(port, frame)

    return prepare


def _lying_counts(port: int, scale: float) -> Pass:
    return lambda: send_all(port, [frames.LYING_COUNT] * 20)


def _fat_member(port: int, scale: float) -> Pass:
    """A member with 16 MiB of metadata, described 600 times in one request of a few KiB."""
    holder = Connection(port)
    member = become_member(holder, "fat", metadata=bytes(int(_FAT_MEMBER_BYTES * scale)))
    frame = frames.describe_groups("fat", _DESCRIBED_TIMES)

    def once() -> Outcome:
        holder.ask(heartbeat_frame(member))  # otherwise its session ends, and its metadata go
        return send(port, frame)

    return once


def _fat_offsets(make: Callable[[float], bytes]) -> Prepare:
    """A group of 12 offsets with 4 KiB of metadata each, asked for again and again."""

    def prepare(port: int, scale: float) -> Pass:
        with Connection(port) as connection:
            connection.ask(commit_frame("fat", dict.fromkeys(range(12), 5), "m" * 4096))
        frame = make(scale)
        return lambda: send(port, frame)

    return prepare


def pipelined(connection: Connection, sent: list[bytes]) -> Outcome:
    """All at once, as many as a socket takes, and the answers as they come."""
    total = Outcome()
    for at in range(0, len(sent), _PIPELINED):
        some = sent[at : at + _PIPELINED]
        send_in_pieces(connection.socket, b"".join(map(sized, some)))
        total = _sum([total, *(Outcome(1, 0, connection.skip()) for _ in some)])
    return total


def _topics_come_and_go(port: int, scale: float) -> Pass:
    """10,000 topics are created, and deleted again."""
    sent = [frames.create_topics(scale / 8), frames.delete_topics(scale / 34)]
    return lambda: send_all(port, sent)


def _list_groups(port: int, scale: float) -> Pass:
    """100,000 groups, listed by 20 clients at once."""
    with Connection(port) as connection:
        pipelined(connection, [commit_frame(f"g{n}", {0: 1}) for n in range(int(100_000 * scale))])
    frame = header(16, 3, flexible=True) + b"\0"

    def once() -> Outcome:
        clients = [Connection(port) for _ in range(20)]
        for client in clients:
            client.send(frame)
        outcome = _sum(Outcome(1, 0, client.skip()) for client in clients)
        for client in clients:
            client.close()
        return outcome

    return once


def _pending_members(port: int, scale: float) -> Pass:
    """JoinGroup v4 without an id: 200,000 ids of one group are given out and never used."""
    body = join_frame("pending")[len(header(JOIN_GROUP, 3)) :]
    sent = [header(JOIN_GROUP, 4) + body] * int(200_000 * scale)

    def once() -> Outcome:
        with Connection(port) as connection:
            return pipelined(connection, sent)

    return once


def _joins_and_leaves(port: int, scale: float) -> Pass:
    """60,000 times: join, leave. By 100 clients at once: each leave waits for the disk."""
    clients = [Connection(port) for _ in range(100)]
    cycles = max(1, int(60_000 * scale) // len(clients))

    def once() -> Outcome:
        for cycle in range(cycles):
            groups = [f"cycle{number}-{cycle % 5}" for number in range(len(clients))]
            for client, group_id in zip(clients, groups, strict=True):
                client.send(join_frame(group_id))
            for client, group_id in zip(clients, groups, strict=True):
                client.send(leave_frame(joined(client.read(), group_id)))
            for client in clients:
                client.read()
        return Outcome(2 * cycles * len(clients))

    return once


def _fat_group(port: int, scale: float) -> Pass:
    """1,500 members with 20 KB of metadata each, which all join again with other metadata."""
    connections = [Connection(port) for _ in range(max(2, int(1_500 * scale)))]
    changes = itertools.count()
    members: list[str] = [""] * len(connections)
    # The first is there before the others: their joins end when it joins again, and not before.
    first = connections[0].ask(join_frame("fat-group", session_ms=_LONG_SESSION_MS))
    members[0] = joined(first, "fat-group").member_id

    def once() -> Outcome:
        metadata = SUBSCRIPTION + bytes(_FAT_METADATA_BYTES) + struct.pack(">q", next(changes))
        for connection, member_id in reversed(list(zip(connections, members, strict=True))):
            connection.send(
                join_frame("fat-group", member_id, metadata=metadata, session_ms=_LONG_SESSION_MS)
            )
        received = 0
        for number, connection in enumerate(connections):
            reply = connection.read()
            members[number] = joined(reply, "fat-group").member_id
            received += len(reply)
        return Outcome(len(connections), 0, received)

    return once


def _garbage(port: int, scale: float) -> Pass:
    """2,000 connections with random bytes, random frames, random requests."""
    rng = random.Random(_SEED)

    def shot() -> Outcome:
        kind = rng.randrange(3)
        data = rng.randbytes(rng.randrange(1, 400))
        if kind == 1:
            data = sized(data)
        elif kind == 2:
            head = struct.pack(">hhih", rng.randrange(90), rng.randrange(-1, 12), 1, 3) + b"abc"
            data = sized(head + data)
        try:
            with socket.create_connection(("127.0.0.1", port), 5) as client:
                client.sendall(data)
        except OSError:
            return Outcome(0, 1)
        return Outcome(1)

    return lambda: _sum(shot() for _ in range(int(2_000 * scale)))


def _broken_requests(port: int, scale: float) -> Pass:
    """2,000 requests of every API and version, most of them broken on purpose; half of the
    clients go away before they are answered."""
    rng = random.Random(_SEED)
    bodies = Bodies(rng)
    good = [bodies.frame() for _ in range(int(2_000 * scale))]
    sent = [mutated(rng, frame, rng.choice(good)) for frame in good]

    def once() -> Outcome:
        total = Outcome()
        for number, frame in enumerate(sent):
            with Connection(port, 0.05) as connection:
                try:
                    connection.send(frame)
                    size = connection.skip() if number % 2 else 0
                    total = _sum([total, Outcome(1, 0, size)])
                except (Refused, TimeoutError):
                    total = _sum([total, Outcome(0, 1)])
        return total

    return once


def _idle(port: int, scale: float) -> Pass:
    """10,000 connections with 2 KB of a frame that claims 100 MiB; 2,000 send a byte, again and
    again."""
    held = []
    for _ in range(int(10_000 * scale)):
        client = socket.create_connection(("127.0.0.1", port), 30)
        client.sendall(struct.pack(">i", _CLAIMED_BYTES) + b"\0\x0b\0\5" + bytes(2000))
        held.append(client)

    def once() -> Outcome:
        some = held[: int(2_000 * scale)]
        for client in some:
            client.sendall(b"x")
        return Outcome(len(some))

    return once


def _deaf(port: int, scale: float) -> Pass:
    """200 clients pipeline ApiVersions and never read."""
    request = sized(alive_frame()) * 500
    held = []
    for _ in range(int(200 * scale)):
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", port))
        client.setblocking(False)
        held.append(client)

    def once() -> Outcome:
        taken = 0
        for client in held:
            try:
                taken += client.send(request)
            except BlockingIOError:
                continue
        return Outcome(taken // len(request))

    return once


def _half_frames(port: int, scale: float) -> Pass:
    """4 connections with 60 MiB of a frame that claims 100 MiB, which then go away."""
    part = bytes(int((60 << 20) * scale))

    def once() -> Outcome:
        held = [socket.create_connection(("127.0.0.1", port), 30) for _ in range(4)]
        for client in held:
            send_in_pieces(client, struct.pack(">ihhi", _CLAIMED_BYTES, 11, 5, 1) + part)
        for client in held:
            client.close()
        return Outcome(0, len(held))

    return once


def _many_halves(port: int, scale: float) -> Pass:
    """1,000 connections with 1 MB each of a frame that claims 100 MiB."""
    part = struct.pack(">ihhi", _CLAIMED_BYTES, 11, 5, 1) + bytes(1_000_000)
    held: list[socket.socket] = []

    def once() -> Outcome:
        while held:
            held.pop().close()
        for _ in range(int(1_000 * scale)):
            client = socket.create_connection(("127.0.0.1", port), 30)
            send_in_pieces(client, part)
            held.append(client)
        return Outcome(0, len(held))

    return once


def _resets(port: int, scale: float) -> Pass:
    """2,000 connections that are reset behind their first request."""
    request = sized(alive_frame())

    def once() -> Outcome:
        count = int(2_000 * scale)
        for _ in range(count):
            client = socket.create_connection(("127.0.0.1", port), 30)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.sendall(request)
            client.close()
        return Outcome(0, count)

    return once


# Not made on Kafka: it has APIs that stop a broker, refuses a member of 16 MiB, makes a log for
# each topic, and with a heap of 1 GB does not answer beside 10,000 frames that claim 100 MiB.
OURS_ONLY = frozenset(
    {
        "broken requests",
        "DescribeGroups, a fat member 600 times",
        "10,000 topics created and deleted",
        "10,000 idle connections",
    }
)
ATTACKS: dict[str, Prepare] = {
    "counts that lie": _lying_counts,
    **{name: _frame(make) for name, make in frames.NODE_LEVEL.items()},
    **{name: _frame(make) for name, make in frames.GROUP_LEVEL.items()},
    "DescribeGroups, a fat member 600 times": _fat_member,
    "OffsetFetch, a partition 400,000 times": _fat_offsets(frames.fetch_one_partition),
    "OffsetFetch, a group 100,000 times": _fat_offsets(frames.fetch_one_group),
    "10,000 topics created and deleted": _topics_come_and_go,
    "ListGroups, 100,000 groups 20 times": _list_groups,
    "200,000 ids that are never used": _pending_members,
    "60,000 joins and leaves": _joins_and_leaves,
    "1,500 fat members join again": _fat_group,
    "garbage": _garbage,
    "broken requests": _broken_requests,
    "10,000 idle connections": _idle,
    "200 clients that never read": _deaf,
    "halves of frames of 100 MiB": _half_frames,
    "parts of many frames of 100 MiB": _many_halves,
    "connections that are reset": _resets,
}
