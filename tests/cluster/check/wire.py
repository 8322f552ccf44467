"""One connection at a time to the coordinator of one group, found by way of any node."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import struct
from collections import Counter
from collections.abc import Sequence
from typing import Any

from kio.schema.errors import ErrorCode
from support.kio_client import decode, encode

__all__ = ["Coordinator", "RefusedError", "WireError"]

FIND_COORDINATOR = (10, 2)
# A node that is stopped answers nothing; another one may lead its groups soon.
_ANSWER_S = 1.0
# A JoinGroup waits for the other members.
_JOIN_S = 20.0
_AGAIN_S = 0.05

Address = tuple[str, int]


class WireError(Exception):
    """No answer. What was asked for may be done, or may be yet."""


class RefusedError(Exception):
    """An answer with an error code."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


class Coordinator:
    """Asks the coordinator of `group`, and looks for it again after anything that went wrong.

    It stays with a node as long as that answers without an error, whatever others say meanwhile: a
    node that leads no more, and does not know it, is asked again and again. `errors` counts what
    went wrong, by Kafka's name of the error.
    """

    def __init__(self, group: str, nodes: Sequence[Address], errors: Counter[str]) -> None:
        self.group = group
        self.by = ""
        """HOST:PORT of who was asked last."""
        self._nodes = itertools.cycle(nodes)
        self._errors = errors
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, api: tuple[int, int], /, *, is_join: bool = False, **fields: Any) -> Any:
        """The response as kio's message class. Raises WireError. Takes as long as it takes to find
        a coordinator; after that at most one request's time."""
        while self._streams is None:
            self._streams = await self._found()
        try:
            return await _exchange(self._streams, api, _JOIN_S if is_join else _ANSWER_S, fields)
        except (OSError, EOFError, TimeoutError) as error:
            self.failed(type(error).__name__)
            raise WireError(str(error)) from error

    def failed(self, name: str) -> None:
        """Count an error, and look for the coordinator before the next request."""
        self._errors[name] += 1
        self.close()

    def close(self) -> None:
        """Close the connection, without a word."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    async def _found(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        try:
            asked = await _connect(next(self._nodes))
            try:
                fields = {"key": self.group, "key_type": 0}
                found = await _exchange(asked, FIND_COORDINATOR, _ANSWER_S, fields)
            finally:
                asked[1].close()
            if found.error_code == ErrorCode.none:
                self.by = f"{found.host}:{found.port}"
                return await _connect((found.host, found.port))
            self._errors[ErrorCode(found.error_code).name] += 1
        except (OSError, EOFError, TimeoutError) as error:
            self._errors[type(error).__name__] += 1
        await asyncio.sleep(_AGAIN_S)
        return None


async def _connect(address: Address) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    async with asyncio.timeout(_ANSWER_S):
        return await asyncio.open_connection(*address)


async def _exchange(
    streams: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    api: tuple[int, int],
    seconds: float,
    fields: dict[str, Any],
) -> Any:
    reader, writer = streams
    async with asyncio.timeout(seconds):
        writer.write(encode(*api, **fields))
        with contextlib.suppress(ConnectionError):  # reading says so, too
            await writer.drain()
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        return decode(*api, await reader.readexactly(size))
