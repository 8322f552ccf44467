"""The shards that this host leads: claimed from the shard log, served, and given up.

Runs on the host's loop; what waits for storage runs in threads. Whether a claim or an append
succeeds is the shard log's decision alone: what is wanted here may be wrong or late.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pykcoord.cluster.control import Answer
from pykcoord.cluster.hosted_log import HostedLog, LaterEpochError
from pykcoord.cluster.registry import View
from pykcoord.log.protocol import Failure, ShardLostError, Taken
from pykcoord.runtime import Runtime

__all__ = ["Leadership"]

logger = logging.getLogger("pykcoord.cluster")

_CLAIMERS = 4
# A claim that others' claims keep failing: give up, the controller asks again.
_CLAIM_ATTEMPTS = 8
# After a failure of storage, and after a log that cannot be read.
_RETRY_SECONDS = 0.5


class Leadership:
    """`announce(shard, epoch)` is awaited after each claim, when the shard serves already."""

    def __init__(
        self,
        runtime: Runtime,
        log: HostedLog,
        *,
        announce: Callable[[int, int], Awaitable[None]],
    ) -> None:
        self.led: dict[int, int] = {}
        """Shard to the epoch under which this host leads it."""
        self._runtime = runtime
        self._log = log
        self._announce = announce
        self._claims: dict[int, asyncio.Task[None]] = {}
        self._refused: dict[int, int] = {}
        self._failed: dict[int, str] = {}
        self._not_before: dict[int, float] = {}
        self._closed = False
        self._threads = ThreadPoolExecutor(_CLAIMERS, thread_name_prefix="pykcoord-claim")
        runtime.on_shard_lost = self._lost

    def want(self, shards: Mapping[int, int]) -> Answer:
        """Lead these shards and no others; see `Ask`. What was refused or failed is reported
        once."""
        if self._closed:
            return Answer()
        for shard in [*self.led, *self._claims]:
            if shard not in shards:
                self.release(shard)
        for shard, known_epoch in shards.items():
            if shard in self.led and self.led[shard] < known_epoch:
                self.release(shard)
            if shard not in self.led and shard not in self._claims:
                self._start_claim(shard, known_epoch)
        refused, self._refused = self._refused, {}
        failed, self._failed = self._failed, {}
        return Answer(dict(self.led), tuple(self._claims), refused, failed)

    def check(self, view: View) -> None:
        """Give up what another has claimed by now, as the registry says."""
        for shard, epoch in list(self.led.items()):
            entry = view.shards.get(shard)
            if entry is not None and entry.epoch > epoch:
                logger.warning("shard %d is led by host %d", shard, entry.node_id)
                self.release(shard)

    def release(self, shard: int) -> None:
        """Stop leading, or claiming, one shard: its requests hear NOT_COORDINATOR."""
        claim = self._claims.pop(shard, None)
        if claim is not None:
            claim.cancel()
        self.led.pop(shard, None)
        self._runtime.release(shard)
        self._log.release(shard)

    def close(self) -> None:
        """Give up everything, for good."""
        self._closed = True
        for shard in [*self.led, *self._claims]:
            self.release(shard)
        self._threads.shutdown(wait=False)

    def _lost(self, shard: int, error: Failure) -> None:
        """An append failed, and the runtime has released the shard."""
        fenced = isinstance(error, ShardLostError) and error.fenced
        logger.log(logging.WARNING if fenced else logging.ERROR, "%s", error)
        self.led.pop(shard, None)
        self._log.release(shard)
        if not fenced:
            self._fail(shard, str(error))

    def _fail(self, shard: int, reason: str) -> None:
        self._failed[shard] = reason
        self._not_before[shard] = asyncio.get_running_loop().time() + _RETRY_SECONDS

    def _start_claim(self, shard: int, known_epoch: int) -> None:
        loop = asyncio.get_running_loop()
        if loop.time() < self._not_before.get(shard, 0.0):
            return
        self._runtime.expect(shard)
        task = loop.create_task(self._claim(shard, known_epoch))
        self._claims[shard] = task
        task.add_done_callback(lambda task: self._claim_ended(shard, task))

    def _claim_ended(self, shard: int, task: asyncio.Task[None]) -> None:
        if self._claims.get(shard) is not task or task.cancelled():
            return  # released
        del self._claims[shard]
        error = task.exception()
        if error is not None:
            self._fail(shard, f"shard {shard}: {error}")
            logger.error("shard %d cannot be led: %s", shard, error)
        if shard not in self.led:
            self._runtime.release(shard)

    async def _claim(self, shard: int, known_epoch: int) -> None:
        taken = await self._take(shard, known_epoch)
        if taken is None:
            return
        self._runtime.adopt(shard, taken.loader, taken.next_offset)
        self.led[shard] = taken.epoch
        logger.info("leads shard %d in epoch %d", shard, taken.epoch)
        await self._announce(shard, taken.epoch)

    async def _take(self, shard: int, known_epoch: int) -> Taken | None:
        """None: it was led later than the controller knew, or others claim it again and again."""
        loop = asyncio.get_running_loop()
        for _ in range(_CLAIM_ATTEMPTS):
            # Made here: the node is the loop's alone.
            made = functools.partial(_given, self._runtime.node.loader())
            take = functools.partial(self._log.take, shard, made, known_epoch)
            try:
                return await loop.run_in_executor(self._threads, take)
            except LaterEpochError as error:
                self._refused[shard] = error.epoch
                return None
            except ShardLostError:
                continue  # the log went on past what was read: read it again
        return None


def _given(loader: Any) -> Any:
    return loader
