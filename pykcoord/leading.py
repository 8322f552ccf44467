"""Leading the same shards for good, as a single process does and each node of one machine: all at
the start, and one again whose append failed. A shard that another process took ends it. The other
way is `pykcoord.cluster.leading`: the shards that a controller asks for.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Sequence
from typing import Any, TypeGuard

from pykcoord.log.protocol import Failure, ShardLostError, WatchedLog
from pykcoord.runtime import LOG_LOST, Runtime

__all__ = ["FixedShards"]

logger = logging.getLogger("pykcoord.runtime")

# Between two attempts to take a shard whose log failed: first, and at most.
_RETRY_SECONDS = (0.1, 5.0)
# The same where the disk works and what it holds cannot be used: somebody has to restore it first.
_RESTORE_SECONDS = 60.0


class FixedShards:
    """Leads `shards` of `runtime.log` in `runtime`, all by default; others lead the rest."""

    def __init__(self, runtime: Runtime, shards: Sequence[int] | None = None) -> None:
        self._runtime = runtime
        self._shards = range(runtime.log.shards) if shards is None else shards
        runtime.on_shard_lost = self._lost

    def lead(self) -> None:
        """Take them, and hear of it when another process does. Blocks; raises what the log or
        replay raises."""
        runtime = self._runtime
        for shard in set(range(runtime.log.shards)).difference(self._shards):
            runtime.leave(shard)
        for shard in self._shards:
            taken = runtime.log.take(shard, runtime.node.loader)
            runtime.adopt(shard, *taken)
        if isinstance(runtime.log, WatchedLog):
            runtime.log.start_watching(runtime.lose_log)

    def _lost(self, shard: int, error: Failure) -> None:
        if _is_fenced(error):
            self._runtime.lose_log(error)
            return
        logger.error(
            "append to shard %d failed, reloading it: %s",
            shard,
            error,
            extra={"event": "append_failed", "shard": shard, "error": str(error)},
        )
        self._runtime.expect(shard)
        self._runtime.spawn(self._take_again(shard))

    async def _take_again(self, shard: int) -> None:
        """Take the shard from the log, off the loop, until it works."""
        runtime, loop = self._runtime, asyncio.get_running_loop()
        pause_seconds, longest_seconds = _RETRY_SECONDS
        while True:
            try:
                # Made here: the node is the loop's alone.
                made = functools.partial(_given, runtime.node.loader())
                taken = await loop.run_in_executor(None, runtime.log.take, shard, made)
                break
            except LOG_LOST:
                raise  # it ends the runtime
            except Exception as error:
                if _is_fenced(error):
                    self._runtime.lose_log(error)
                    return
                if isinstance(error, OSError):
                    level, text = logging.ERROR, "cannot be loaded"
                else:
                    level, text = logging.CRITICAL, "is out of service until its log is restored"
                    pause_seconds = longest_seconds = _RESTORE_SECONDS
                logger.log(
                    level,
                    "shard %d %s, next attempt in %g s: %s",
                    shard,
                    text,
                    pause_seconds,
                    error,
                    extra={"event": "reload_failed", "shard": shard, "error": str(error)},
                )
            await asyncio.sleep(pause_seconds)
            pause_seconds = min(2 * pause_seconds, longest_seconds)
        runtime.adopt(shard, *taken)
        logger.info("shard %d is loaded again", shard, extra={"event": "reload", "shard": shard})


def _is_fenced(error: Exception) -> TypeGuard[ShardLostError]:
    """Whether another process leads the shard: with one that leads all, the two would take it from
    each other for ever."""
    return isinstance(error, ShardLostError) and error.fenced


def _given(loader: Any) -> Any:
    return loader
