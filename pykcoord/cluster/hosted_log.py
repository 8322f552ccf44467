"""The runtime's log in a hosted cluster: for each shard that this host leads, its shared log.

What arrives for a shard while one of its entries is being put shares the next entry; shards do not
wait for one another. An entry that is not put ends the leadership: nothing of it is acknowledged.
Nothing here decides who is to lead.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from pykcoord.cluster.reading import follow_into, load_into
from pykcoord.errors import LogError
from pykcoord.log.protocol import (
    Append,
    Done,
    Failure,
    ShardLostError,
    ShardReleasedError,
    Taken,
    by_shard,
    record_batch,
)
from pykcoord.log.shared import FencedError, ShardLog, Store

__all__ = ["HostedLog", "LaterEpochError"]

# Puts that may be under way at once: they wait for storage, not for this machine.
_WRITERS = 8


class LaterEpochError(LogError):
    """The shard was led in a later epoch than the caller knows of: `epoch`."""

    def __init__(self, shard: int, epoch: int) -> None:
        super().__init__(f"shard {shard} was led in epoch {epoch} by another host")
        self.epoch = epoch


@dataclass(slots=True)
class _Led:
    """A shard that is led: its log, which one thread at a time writes, and what waits for it."""

    log: ShardLog
    waiting: list[tuple[list[Append], Done]] = field(default_factory=list)
    putting: list[tuple[list[Append], Done]] = field(default_factory=list)
    busy: bool = False


class HostedLog:
    """See `pykcoord.log.protocol.Log`. `owner` names this host for people who look at the log.
    `now_ms` stamps entries; `on_entry(shard, log)` is called by a writer thread after each entry
    that was put, before the next."""

    def __init__(
        self,
        store: Store,
        shards: int,
        owner: str,
        now_ms: Callable[[], int],
        on_entry: Callable[[int, ShardLog], None],
    ) -> None:
        self.shards = shards
        self._store = store
        self._owner = owner
        self._now_ms = now_ms
        self._on_entry = on_entry
        self._led: dict[int, _Led] = {}
        self._lost: dict[int, Failure] = {}  # why, until the shard is released or taken
        self._gate = threading.Lock()
        self._writers = ThreadPoolExecutor(_WRITERS, thread_name_prefix="pykcoord-put")

    def take(
        self, shard: int, new_loader: Callable[[], Any], known_epoch: int | None = None
    ) -> Taken:
        """See `Log.take`. Raises LaterEpochError, and claims nothing, if the shard was led later
        than in `known_epoch`; None: an epoch of any leader will do."""
        loader, log = new_loader(), ShardLog(self._store, shard)
        try:
            self._claim(log, loader, known_epoch)
        except FencedError as error:  # it went on past what was read
            raise ShardLostError(shard, str(error), fenced=True) from error
        self._lead(log)
        return Taken(loader, log.next_offset, log.epoch)

    def _claim(self, log: ShardLog, loader: Any, known_epoch: int | None) -> None:
        load_into(log, loader)
        while True:
            if known_epoch is not None and log.epoch > known_epoch:
                raise LaterEpochError(log.shard, log.epoch)
            if log.claim(self._owner, self._now_ms()):
                return
            follow_into(log, loader)

    def _lead(self, log: ShardLog) -> None:
        """Append to this log from now on, unless another thread took the shard later."""
        with self._gate:
            before = self._led.get(log.shard)
            if before is not None and before.log.epoch > log.epoch:
                raise ShardLostError(log.shard, "it was taken once more meanwhile", fenced=True)
        self.release(log.shard)
        with self._gate:
            self._led[log.shard] = _Led(log)

    def release(self, shard: int) -> None:
        """See `Log.release`. What is being put may still get there."""
        with self._gate:
            self._lost.pop(shard, None)
            led = self._led.pop(shard, None)
            given_up = [*led.putting, *led.waiting] if led is not None else []
            if led is not None:
                led.putting, led.waiting = [], []
        for _, done in given_up:
            done([], [(shard, ShardReleasedError(shard))])

    def append(self, appends: Sequence[Append], done: Done) -> None:
        """See `Log.append`. Shards do not wait for one another."""
        refused: list[tuple[int, Failure]] = []
        with self._gate:
            for shard, of_shard in by_shard(appends).items():
                led = self._led.get(shard)
                if led is None:
                    refused.append((shard, self._lost.get(shard) or ShardReleasedError(shard)))
                    continue
                led.waiting.append((of_shard, done))
                if not led.busy:
                    led.busy = True
                    self._writers.submit(self._write, led)
        if refused:
            done([], refused)

    def close(self) -> None:
        """Wait for what is being put. Nothing is appended afterwards."""
        for shard in list(self._led):
            self.release(shard)
        self._writers.shutdown()

    def _write(self, led: _Led) -> None:
        """Put entries until nothing waits."""
        while True:
            with self._gate:
                led.putting, led.waiting = led.waiting, []
                taken = led.putting
                if not taken:
                    led.busy = False
                    return
            shard = led.log.shard
            failure = self._put(led.log, [append for appends, _ in taken for append in appends])
            with self._gate:
                if self._led.get(shard) is not led:
                    return  # released meanwhile, and all callers were answered
                led.putting = []
                if failure is not None:
                    taken = taken + led.waiting
                    self._lost[shard] = failure
                    del self._led[shard]
            for appends, done in taken:
                if failure is None:
                    last = appends[-1]
                    done([(shard, last.base_offset + last.record_count)], [])
                else:
                    done([], [(shard, failure)])
            if failure is not None:
                return
            self._on_entry(shard, led.log)

    def _put(self, log: ShardLog, appends: list[Append]) -> Failure | None:
        records = b"".join(record_batch(append, log.epoch) for append in appends)
        count = sum(append.record_count for append in appends)
        try:
            log.append(records, count, now_ms=self._now_ms())
        except FencedError as error:
            return ShardLostError(log.shard, str(error), fenced=True)
        except Exception as error:  # any error of the storage: it is not known what was done
            lost = ShardLostError(log.shard, f"append failed: {error!r}", fenced=False)
            lost.__cause__ = error
            return lost
        return None
