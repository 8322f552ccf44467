"""The writer thread: one for all partitions. Everything that arrives while it works shares the
next round, and a round ends with one sync per file that it touched (group commit).

Must never call a record committed that the flush policy does not cover, and never stop before
everything it was handed is answered.
"""

from __future__ import annotations

import errno
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import NamedTuple

from pykcoord.errors import CoordinatorClosedError, LogError
from pykcoord.log._disk import write_files
from pykcoord.log.partition import Partition
from pykcoord.log.presence import Presence
from pykcoord.log.protocol import Append, Done, Failure, Flush, LogObserver, by_shard
from pykcoord.observers import tell

__all__ = ["Writer"]

_logger = logging.getLogger(__name__)


class _Job(NamedTuple):
    appends: Sequence[Append]
    done: Done


class _Call(NamedTuple):
    function: Callable[[], None]
    result: Future[None]


class _Stop(NamedTuple):
    pass


class Writer:
    """Appends to `partitions` on a thread of its own; see `Log` for what the methods promise."""

    def __init__(
        self,
        partitions: Mapping[int, Partition],
        flush: Flush,
        flush_interval_ms: int,
        observer: LogObserver | None = None,
        monotonic: Callable[[], float] = lambda: 0.0,
        presence: Presence | None = None,
    ) -> None:
        self._partitions = partitions
        self._flush = flush
        self._observer = observer
        self._monotonic = monotonic
        self._lock_name = None if presence is None else presence.name
        self._queue: SimpleQueue[_Job | _Call | _Stop] = SimpleQueue()
        self._expected = {shard: one.next_offset for shard, one in partitions.items()}
        self._submitting = threading.Lock()
        self._closed = False
        self._interval_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pykcoord-log", daemon=True)
        self._thread.start()
        self._flusher: threading.Thread | None = None
        if flush == "interval":
            self._flusher = threading.Thread(
                target=self._tick, args=(flush_interval_ms / 1000,), name="pykcoord-log-flush"
            )
            self._flusher.daemon = True
            self._flusher.start()

    def submit(self, appends: Sequence[Append], done: Done) -> None:
        """Queues the appends. A base offset that is not the next one is the caller's bug."""
        with self._submitting:
            if self._closed:
                raise CoordinatorClosedError("the log is closed")
            for shard, base_offset, record_count, *_ in appends:
                expected = self._expected[shard]
                assert base_offset == expected, (shard, base_offset, expected)
                self._expected[shard] = expected + record_count
            self._queue.put(_Job(appends, done))

    def reopen(self, shard: int) -> None:
        """Recovers a failed partition, after everything that was queued before."""

        def recover() -> None:
            partition = self._partitions[shard]
            if partition.failed is not None:
                partition.reopen()
            with self._submitting:
                self._expected[shard] = partition.next_offset

        self.call(recover)

    def sync(self) -> None:
        """Syncs what was queued before. Raises the first failure."""

        def sync_dirty() -> None:
            dirty = {shard: one for shard, one in self._partitions.items() if one.dirty}
            for error in self._write(dirty, True).values():
                raise error

        self.call(sync_dirty)

    def close(self) -> None:
        """Finishes what is queued and ends the thread; the partitions stay open."""
        with self._submitting:
            if self._closed:
                return
            self._closed = True
            self._queue.put(_Stop())
        self._interval_over.set()
        if self._flusher is not None:
            self._flusher.join()
        self._thread.join()

    def call(self, function: Callable[[], None]) -> None:
        """Calls it on the writer's thread, after what was queued before. Raises what it raises."""
        result: Future[None] = Future()
        with self._submitting:
            if self._closed:
                raise CoordinatorClosedError("the log is closed")
            self._queue.put(_Call(function, result))
        result.result()

    def _run(self) -> None:
        while True:
            jobs: list[_Job] = []
            item = self._queue.get()
            while isinstance(item, _Job):
                jobs.append(item)
                try:
                    item = self._queue.get_nowait()
                except Empty:
                    break
            if jobs:
                self._round(jobs)
            if isinstance(item, _Stop):
                return
            if isinstance(item, _Call):
                try:
                    item.function()
                except BaseException as error:
                    item.result.set_exception(error)
                else:
                    item.result.set_result(None)

    def _round(self, jobs: list[_Job]) -> None:
        """Writes and syncs all jobs together, then answers each of them."""
        failed: dict[int, Failure] = {}
        ready: dict[int, Partition] = {}
        of_all = by_shard(append for job in jobs for append in job.appends)
        for shard, appends in of_all.items():
            partition = self._partitions[shard]
            error = partition.failed or self._prepare(shard, partition, appends)
            if error is None:
                ready[shard] = partition
            else:
                failed[shard] = error
        failed |= self._write(ready, self._flush == "commit")
        for job in jobs:
            _answer(job, failed)
        for partition in ready.values():
            if not partition.epochs_written:
                _write_epochs(partition)

    def _prepare(self, shard: int, partition: Partition, appends: list[Append]) -> Failure | None:
        try:
            size_bytes = partition.prepare(appends)
        except (OSError, LogError) as error:
            partition.fail(error)
            return error
        except Exception as error:
            return _fault(partition, error)
        if self._observer is not None:
            tell(self._observer.appended, shard, len(appends), size_bytes)
        return None

    def _write(self, partitions: dict[int, Partition], sync: bool) -> dict[int, Failure]:
        """Writes what waits in them, and syncs all at the same time. Returns what failed."""
        if not partitions:
            return {}
        started = self._monotonic()
        try:
            requests = [one.request() for one in partitions.values()]
            outcomes = write_files(requests, sync, self._lock_name)
        except Exception as error:  # no memory: nothing was written, or it is taken back
            return {shard: _fault(one, error) for shard, one in partitions.items()}
        if sync and self._observer is not None:
            tell(self._observer.synced, len(partitions), self._monotonic() - started)
        failed: dict[int, Failure] = {}
        for (shard, partition), outcome in zip(partitions.items(), outcomes, strict=True):
            try:
                partition.finish(outcome, sync)
            except (OSError, LogError) as error:
                partition.fail(error)
                failed[shard] = error
            except Exception as error:
                failed[shard] = _fault(partition, error)
        return failed

    def _tick(self, interval_seconds: float) -> None:
        """The flush interval, on a thread of its own, which only rings."""
        while not self._interval_over.wait(interval_seconds):
            try:
                self.sync()
            except CoordinatorClosedError:
                return
            except Exception:
                # The partition is failed now: its next append fails, and the log has this line. Of
                # a fault of ours as well: without this thread nothing would be synced any more.
                _logger.exception("syncing the log")


def _fault(partition: Partition, error: Exception) -> OSError:
    """Our own fault, reported as one of the disk: it closes partitions, but does not end the thread
    that all other appends wait for."""
    _logger.error("appending to %s", partition.directory, exc_info=error)
    fault = OSError(errno.EIO, f"internal error: {error!r}", str(partition.directory))
    partition.fail(fault)
    return fault


def _answer(job: _Job, failed: dict[int, Failure]) -> None:
    ends = {shard: offset + count for shard, offset, count, *_ in job.appends}
    committed = [(shard, end) for shard, end in ends.items() if shard not in failed]
    errors = [(shard, failed[shard]) for shard in ends if shard in failed]
    try:
        job.done(committed, errors)
    except Exception:
        _logger.exception("a done callback of the log raised")


def _write_epochs(partition: Partition) -> None:
    try:
        partition.write_epochs()
    except Exception as error:
        # Nothing depends on it: it is tried again with the next append, and rebuilt at a start. A
        # fault of ours must not end the thread that all appends wait for.
        fault = None if isinstance(error, OSError | LogError) else error
        _logger.warning(
            "no leader-epoch-checkpoint in %s, to be tried again: %s",
            partition.directory,
            error,
            exc_info=fault,
        )
