"""What members of every scheme share: they are context managers, with `with` and `async with`."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import Self

__all__ = ["CLOSE_SECONDS", "WAIT_SECONDS", "MemberScope"]

WAIT_SECONDS = 60.0
CLOSE_SECONDS = 30.0


class MemberScope(ABC):
    """Within it the member has its assignment; it is closed at the end, and where none came."""

    @abstractmethod
    def wait(self, timeout_seconds: float | None = WAIT_SECONDS) -> None:
        """Block until the member has its assignment."""

    @abstractmethod
    async def wait_async(self, timeout_seconds: float | None = WAIT_SECONDS) -> None:
        """`wait`, awaited on any loop."""

    @abstractmethod
    def close(self, timeout_seconds: float | None = CLOSE_SECONDS) -> None:
        """Give up all partitions and leave the group."""

    async def close_async(self, timeout_seconds: float | None = CLOSE_SECONDS) -> None:
        """`close`, awaited on any loop."""
        await asyncio.to_thread(self.close, timeout_seconds)

    def __enter__(self) -> Self:
        try:
            self.wait()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        try:
            await self.wait_async()
        except BaseException:
            await self.close_async()
            raise
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.close_async()
