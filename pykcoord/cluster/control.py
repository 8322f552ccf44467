"""What a controller and a host say to each other: one line of JSON each way, over TCP.

The controller asks, again and again, with all that it wants: nothing depends on an earlier line.
A host answers its own application's controller, and refuses all others.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

__all__ = ["Answer", "Ask", "ControlClient", "serve_control"]

_LINE_BYTES = 4 * 1024 * 1024
_WATCH_SECONDS = 0.02

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class Ask:
    """`shards` that the host is to lead, each with the last epoch that the controller knows of: a
    host must not claim a shard that was led later, since this may be an old line. `leave`: it is to
    end, and be started elsewhere."""

    application: int
    shards: Mapping[int, int]
    leave: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """`led`: shard to epoch. `loading`: being claimed. `refused`: shard to the later epoch that its
    log has. `failed`: shard to what went wrong with it. `error` instead of all that: not asked
    rightly."""

    led: Mapping[int, int] = field(default_factory=dict)
    loading: tuple[int, ...] = ()
    refused: Mapping[int, int] = field(default_factory=dict)
    failed: Mapping[int, str] = field(default_factory=dict)
    error: str = ""


async def serve_control(
    host: str, application: int, answer: Callable[[Ask], Answer]
) -> asyncio.Server:
    """Answer controllers of `application` on a free port of `host`."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                writer.write(_line(asdict(_answered(line, application, answer))))
                await writer.drain()
        except (ConnectionError, ValueError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    return await asyncio.start_server(serve, host, 0, limit=_LINE_BYTES)


class ControlClient:
    """The controller's connection to one host. Connects when it is used."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, ask: Ask, timeout_seconds: float) -> Answer:
        """Raises ConnectionRefusedError where no host listens, TimeoutError where no answer comes
        in time, OSError for all else."""
        try:
            async with asyncio.timeout(timeout_seconds):
                return await self._ask(ask)
        except BaseException:
            self.close()
            raise

    async def lost(self) -> None:
        """Return when the other end closes the connection."""
        if self._streams is None:
            return
        transport = self._streams[1].transport
        reader = self._streams[0]
        while not transport.is_closing() and not reader.at_eof():
            await asyncio.sleep(_WATCH_SECONDS)

    def close(self) -> None:
        """Close the connection: an answer that comes late must not be taken for the next."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    async def _ask(self, ask: Ask) -> Answer:
        for attempt in (1, 2):
            if self._streams is None:
                self._streams = await asyncio.open_connection(
                    self._host, self._port, limit=_LINE_BYTES
                )
            reader, writer = self._streams
            try:
                writer.write(_line(asdict(ask)))
                line = await reader.readline()
            except ConnectionError:
                line = b""
            if line:
                return _answer(line)
            self.close()  # it ended since; connecting again shows whether the host is gone
            if attempt == 2:
                break
        raise ConnectionResetError(f"{self._host}:{self._port} closed the connection")


def _answered(line: bytes, application: int, answer: Callable[[Ask], Answer]) -> Answer:
    fields = json.loads(line)
    shards = _by_shard(fields["shards"], int)
    ask = Ask(int(fields["application"]), shards, bool(fields["leave"]))
    if ask.application != application:
        return Answer(error=f"this host is of application {application}, not {ask.application}")
    return answer(ask)


def _answer(line: bytes) -> Answer:
    fields = json.loads(line)
    return Answer(
        led=_by_shard(fields["led"], int),
        loading=tuple(fields["loading"]),
        refused=_by_shard(fields["refused"], int),
        failed=_by_shard(fields["failed"], str),
        error=fields["error"],
    )


def _by_shard(values: Mapping[str, Any], kind: Callable[[Any], _Value]) -> dict[int, _Value]:
    """JSON has no numbers for keys."""
    return {int(shard): kind(value) for shard, value in values.items()}


def _line(fields: Mapping[str, object]) -> bytes:
    return json.dumps(fields).encode() + b"\n"
