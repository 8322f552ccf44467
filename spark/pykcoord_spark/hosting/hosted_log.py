"""The runtime's log in a hosted cluster: for each shard that this host leads, its shared log.

What arrives for a shard while one of its chunks is being put shares the next chunk; shards do not
wait for one another. A chunk that is not put ends the leadership: nothing of it is acknowledged.
Nothing here knows what the records mean, or decides who is to lead.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from pykcoord.errors import LogError
from pykcoord.log._record_batch import frame
from pykcoord.log.protocol import Append, Done, Failure
from pykcoord_spark.shard_log import FencedError, ShardLog

__all__ = ["HostedLog", "ShardLostError"]

# Puts that may be under way at once: they wait for storage, not for this machine.
_WRITERS = 8


class ShardLostError(LogError):
    """This host does not lead the shard any more. `fenced`: because another does."""

    def __init__(self, shard: int, reason: str, *, fenced: bool) -> None:
        super().__init__(f"shard {shard}: {reason}")
        self.shard = shard
        self.fenced = fenced


@dataclass(slots=True)
class _Led:
    """A shard that is led: its log, which one thread at a time writes, and what waits for it."""

    log: ShardLog
    waiting: list[tuple[Append, Done]] = field(default_factory=list)
    putting: list[tuple[Append, Done]] = field(default_factory=list)
    busy: bool = False


class HostedLog:
    """See `pykcoord.log.protocol.Log`. `now_ms` stamps chunks; `on_chunk(shard, log)` is called by
    a writer thread after each chunk that was put, before the next."""

    def __init__(
        self,
        shards: int,
        now_ms: Callable[[], int],
        on_chunk: Callable[[int, ShardLog], None],
    ) -> None:
        self.shards = shards
        self._now_ms = now_ms
        self._on_chunk = on_chunk
        self._led: dict[int, _Led] = {}
        self._gate = threading.Lock()
        self._writers = ThreadPoolExecutor(_WRITERS, thread_name_prefix="pykcoord-put")

    def lead(self, log: ShardLog) -> None:
        """Append to this log, which leads, from now on."""
        with self._gate:
            assert log.shard not in self._led, f"shard {log.shard} is led already"
            self._led[log.shard] = _Led(log)

    def release(self, shard: int) -> None:
        """Append nothing more. What waits is given up; what is being put may still get there, but
        nobody hears of it."""
        with self._gate:
            led = self._led.pop(shard, None)
            given_up = [*led.putting, *led.waiting] if led is not None else []
            if led is not None:
                led.putting, led.waiting = [], []
        for _, done in given_up:
            done([], [])

    def append(self, appends: Sequence[Append], done: Done) -> None:
        """See `Log`. All of `appends` are of one shard: see `Runtime.on_shard_lost`."""
        shard = appends[0].shard
        assert all(append.shard == shard for append in appends), "shards are handed over apart"
        with self._gate:
            led = self._led.get(shard)
            if led is not None:
                led.waiting += [(append, _nothing) for append in appends[:-1]]
                led.waiting.append((appends[-1], done))
                if not led.busy:
                    led.busy = True
                    self._writers.submit(self._write, led)
        if led is None:
            done([], [])

    def close(self) -> None:
        """Wait for what is being put. Nothing is appended afterwards."""
        for shard in list(self._led):
            self.release(shard)
        self._writers.shutdown()

    def next_offset(self, shard: int) -> int:
        """See `Log`."""
        return self._led[shard].log.next_offset

    def read(self, shard: int) -> Iterator[bytes]:
        """Not here: a shard is read when it is claimed."""
        raise AssertionError(f"shard {shard} is read before it is led")

    def reopen(self, shard: int) -> None:
        """Not here: a shard that is lost is claimed again."""
        raise AssertionError(f"shard {shard} is claimed, not reopened")

    def _write(self, led: _Led) -> None:
        """Put chunks until nothing waits."""
        while True:
            with self._gate:
                led.putting, led.waiting = led.waiting, []
                taken = led.putting
                if not taken:
                    led.busy = False
                    return
            shard = led.log.shard
            failure = self._put(led.log, [append for append, _ in taken])
            with self._gate:
                if self._led.get(shard) is not led:
                    return  # released meanwhile, and all were told
                led.putting = []
                if failure is not None:
                    taken = taken + led.waiting
                    del self._led[shard]
            for append, done in taken:
                if failure is None:
                    done([(shard, append.base_offset + append.record_count)], [])
                else:
                    done([], [(shard, failure)])
            if failure is not None:
                return
            self._on_chunk(shard, led.log)

    def _put(self, log: ShardLog, appends: list[Append]) -> Failure | None:
        records = b"".join(
            frame(
                append.records,
                append.record_count,
                append.base_offset,
                append.base_timestamp,
                append.max_timestamp,
                log.epoch,
            )
            for append in appends
        )
        count = sum(append.record_count for append in appends)
        try:
            log.append(records, count, now_ms=self._now_ms())
        except FencedError as error:
            return ShardLostError(log.shard, str(error), fenced=True)
        except Exception as error:  # whatever storage has to say; it is not known what it did
            lost = ShardLostError(log.shard, f"append failed: {error!r}", fenced=False)
            lost.__cause__ = error
            return lost
        return None


def _nothing(committed: object, failed: object) -> None:
    """The last append of a call answers for all."""
