"""Writes what consumer groups and several nodes keep, for later versions to open: a data directory
of two nodes with snapshots, killed while members of both protocols lived.

    PYTHONPATH=tests python tests/recorded/record_nodes.py tests/recorded/0.1-nodes

Run once for each change of a format, never over a folder that is there: what was recorded stays.
"""

from __future__ import annotations

import asyncio
import datetime
import json
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

from support.hosting import commit_fields
from support.kio_client import decode, encode
from support.nodes import Nodes

from pykcoord.assignors import Subscription, encode_subscription
from pykcoord.log.snapshot import SNAPSHOT_FILE

SHARDS = 2
TIMEOUT = datetime.timedelta(seconds=60)
NOT_COORDINATOR = 16
BEAT, JOIN, COMMIT, CONFIGS = 68, 11, 8, 44
GROUPS = ("native", "mixed", "left", "other")
Ask = Callable[..., Awaitable[Any]]


def beat_fields(group_id: str, member_id: str, epoch: int = 0, **more: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "group_id": group_id,
        "member_id": member_id,
        "member_epoch": epoch,
        "instance_id": None,
        "rack_id": None,
        "rebalance_timeout": TIMEOUT,
        "subscribed_topic_names": ("orders",),
        "subscribed_topic_regex": None,
        "server_assignor": None,
        "topic_partitions": (),
    }
    return fields | more


async def make_groups(ask: Ask) -> None:
    """Members of the consumer protocol, one by an expression, one static and away, one classic."""
    await ask(BEAT, 1, **beat_fields("native", "a", rack_id="r1"))
    await ask(BEAT, 1, **beat_fields("native", "b", instance_id="i", server_assignor="range"))
    await ask(
        BEAT, 1,
        **beat_fields("native", "c", subscribed_topic_names=None, subscribed_topic_regex="ord.*"),
    )  # fmt: skip
    await ask(BEAT, 1, **beat_fields("mixed", "native"))
    metadata = encode_subscription(Subscription(["orders"]), 1)
    await ask(
        JOIN, 3, group_id="mixed", session_timeout=TIMEOUT, rebalance_timeout=TIMEOUT, member_id="",
        protocol_type="consumer", protocols=[{"name": "range", "metadata": metadata}],
    )  # fmt: skip
    await ask(BEAT, 1, **beat_fields("left", "a", instance_id="i"))
    await ask(BEAT, 1, **beat_fields("left", "a", -2, instance_id="i"))
    await ask(BEAT, 1, **beat_fields("other", "x"))


async def commit(ask: Ask, group_id: str, offset: int) -> None:
    """By a member: the epoch is read from the answer to its heartbeat."""
    member_id = {"native": "a", "mixed": "native", "left": "", "other": "x"}[group_id]
    if not member_id:
        return
    found = await ask(BEAT, 1, **beat_fields(group_id, member_id))
    fields = commit_fields(group_id, offset)
    fields |= {"member_id": member_id, "generation_id_or_member_epoch": found.member_epoch}
    response = await ask(COMMIT, 9, **fields)
    assert response.topics[0].partitions[0].error_code == 0, response


def frames(address: tuple[str, int], frame: bytes) -> bytes:
    with socket.create_connection(address, 10) as at:
        at.sendall(frame)
        content = b""
        while len(content) < 4 or len(content) < 4 + struct.unpack_from(">i", content)[0]:
            more = at.recv(65_536)
            assert more, "closed"
            content += more
    return content[4:]


def asking(nodes: Nodes) -> Ask:
    """Asks the node that coordinates the group, whichever it is."""

    async def ask(key: int, version: int, /, **fields: Any) -> Any:
        response = None
        for address in nodes.addresses:
            reply = await asyncio.to_thread(frames, address, encode(key, version, **fields))
            response = decode(key, version, reply)
            if getattr(response, "error_code", 0) != NOT_COORDINATOR and not _is_elsewhere(
                response
            ):
                break
        assert getattr(response, "error_code", 0) in (0, 79), response
        return response

    return ask


def _is_elsewhere(response: Any) -> bool:
    topics = getattr(response, "topics", None) or ()
    return any(of.error_code == NOT_COORDINATOR for topic in topics for of in topic.partitions)


def record_directory(directory: Path) -> None:
    settings = {
        "offsets.topic.num.partitions": str(SHARDS),
        "group.consumer.assignment.interval.ms": "0",
        "pykcoord.snapshot.interval.ms": "100",
        "pykcoord.snapshot.min.bytes": "1",
    }
    nodes = Nodes(directory, {"orders": 6, "mail": 2}, settings).start(2)
    ask = asking(nodes)

    async def fill() -> None:
        await make_groups(ask)
        for offset in _until(lambda: len(list(directory.glob(f"*/{SNAPSHOT_FILE}"))) == SHARDS):
            for group_id in GROUPS:
                await commit(ask, group_id, offset)
            await asyncio.sleep(0.05)
        await ask(
            CONFIGS, 1, validate_only=False,
            resources=[{
                "resource_type": 32, "resource_name": "native",
                "configs": [{
                    "name": "consumer.session.timeout.ms", "config_operation": 0, "value": "50000",
                }],
            }],
        )  # fmt: skip
        # Beyond the snapshots.
        await ask(BEAT, 1, **beat_fields("native", "late"))

    asyncio.run(fill())
    assert nodes.supervisor is not None
    nodes.supervisor.kill()
    for pid in nodes.pids.values():
        os.kill(pid, signal.SIGKILL)
    nodes.wait_ended()


def _until(done: Callable[[], bool]) -> Iterator[int]:
    """Offsets to commit, five at least."""
    for offset in range(100, 10_000):
        if offset >= 105 and done():
            return
        yield offset
    raise AssertionError("no snapshot was written")


def main() -> None:
    root = Path(sys.argv[1])
    root.mkdir(parents=True)
    directory = root / "data-directory"
    record_directory(directory)
    told = subprocess.run(
        [sys.executable, "-m", "pykcoord", "log", "state", str(directory), "--json"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    for leftover in [directory / ".lock", *directory.glob("*/*.tmp")]:
        leftover.unlink(missing_ok=True)
    expected = {"data-directory": json.loads(told.stdout)}
    (root / "expected.json").write_text(json.dumps(expected, indent=1, sort_keys=True) + "\n")


main()
