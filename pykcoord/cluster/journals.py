"""The runtime's log in a cluster: one journal for all shards that this node leads.

What arrives while a round is being put shares the next one. One round at a time: until it is
decided whether a round stands at its number, nothing else is put. Where the store does not answer,
its callers hear a failure, and an empty round is put in its place: what they were told was not
written does not come later. Nothing here decides who leads.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pykcoord._native import JournalWriter, ReplayError
from pykcoord.clock import boot_seconds
from pykcoord.cluster.reading import Stretch, read_pieces
from pykcoord.errors import KcoordError, LogError
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
from pykcoord.log.shared.entry import CorruptEntryError, Snapshot, encode
from pykcoord.log.shared.pruning import Place, keep_snapshots, snapshot_name
from pykcoord.log.shared.rounds import Part, Round, read_round, round_name
from pykcoord.log.shared.store import Store

__all__ = ["JournalLog", "Journaling", "boot_ms"]

logger = logging.getLogger("pykcoord.cluster")

# So often a round is put before its callers are told that it failed.
_ATTEMPTS = 3
_RETRY_SECONDS = 0.1
# Who puts a fence reads what it finds at a number, and tries the next: two calls of the store where
# the owner of the journal needs one. A node that gives way pauses for so many times its last put.
_GIVE_WAY = 3.0
_GIVE_WAY_SECONDS = 1.0
# Rounds that were read stay for the other shards that are in them.
_KEPT_BYTES = 64 * 1024 * 1024


def boot_ms() -> int:
    """Milliseconds since the machine started, those in which it slept included."""
    return int(boot_seconds() * 1000)


class Journaling:
    """Who hears of the journal, on the thread that writes it. Times are those of `boot_ms`."""

    def proved(self, started: int, next_index: int, leaderships: Sequence[tuple[int, int]]) -> None:
        """A round stands that was put from `started` on, with records of these shards, each with
        the epoch in which it is led."""

    def prove_failed(self) -> None:
        """The store did not answer, or said no."""

    def fenced(self) -> None:
        """Another node has ended the journal."""

    def failed(self, error: BaseException) -> None:
        """A fault of the code: nothing is put any more, and who waits for an append hears
        nothing."""


@dataclass(frozen=True)
class _Led:
    epoch: int


@dataclass
class _Call:
    """The appends of one shard of one call."""

    shard: int
    led: _Led
    appends: list[Append]
    done: Done | None

    @property
    def end(self) -> int:
        return self.appends[-1].base_offset + self.appends[-1].record_count


class JournalLog:
    """See `pykcoord.log.protocol.Log`. The journal of `incarnation` must be a new one."""

    def __init__(
        self,
        store: Store,
        shards: int,
        incarnation: int,
        told: Journaling | None = None,
    ) -> None:
        self.shards = shards
        self.incarnation = incarnation
        self.gives_way = False
        """Whether it leaves others time to put a fence between two rounds, however much it has to
        write. For any thread."""
        self._store = store
        self._told = told or Journaling()
        self._assigned: dict[int, tuple[int, Sequence[Stretch]]] = {}
        self._led: dict[int, _Led] = {}
        self._lost: dict[int, Failure] = {}
        self._waiting: list[_Call] = []
        self._putting: list[_Call] = []
        self._is_putting = False
        self._wants_proof = False
        self._is_closed = False
        self._is_fenced = False
        self._writer = JournalWriter()
        self._changed = threading.Condition()
        self._kept: OrderedDict[tuple[int, int], tuple[int, Round]] = OrderedDict()
        self._kept_bytes = 0
        self._gate = threading.Lock()
        self._retry = threading.Event()  # never set: what it is waited for is time
        self._thread = threading.Thread(target=self._run, name="pykcoord-journal", daemon=True)
        self._thread.start()

    def assign(self, shard: int, epoch: int, lineage: Sequence[Stretch]) -> None:
        """What `take` is to read of the shard; the last stretch is this node's own, of `epoch`."""
        with self._changed:
            self._assigned[shard] = (epoch, lineage)

    def take(self, shard: int, new_loader: Callable[[], Any]) -> Taken:
        """See `Log.take`. Raises LogError for a shard that was not assigned or whose rounds are
        not as they were written."""
        end = self.decided(shard)
        with self._changed:
            if shard not in self._assigned:
                raise LogError(f"shard {shard} is not assigned to this node")
            epoch, lineage = self._assigned[shard]
        loader = new_loader()
        offset = self._read(shard, lineage, end, loader)
        with self._changed:
            if self._is_fenced:
                raise ShardLostError(shard, "this node was fenced", fenced=True)
            self._lost.pop(shard, None)
            self._led[shard] = _Led(epoch)
        return Taken(loader, offset, epoch)

    def snapshot(
        self, shard: int, epoch: int, lineage: Sequence[Stretch], loader: Any
    ) -> list[Place] | None:
        """Write down what the rounds of a shard that is led amount to, so that who takes it reads
        what came later only, and delete old snapshots. `lineage` is as for `assign`, `loader` is a
        new one. Returns the newest two that can be read, the newest first; None if the shard is not
        led in this epoch. Raises as `take`."""
        with self._changed:
            if self._led.get(shard) != _Led(epoch):
                return None
            end = self._writer.next
        offset = self._read(shard, lineage, end, loader)
        content = b"".join(iter(loader.snapshot_chunk, None))
        written = encode(Snapshot(epoch, offset, content=content))
        self._store.create(snapshot_name(shard, (epoch, end)), written)
        return keep_snapshots(self._store, shard)

    def _read(self, shard: int, lineage: Sequence[Stretch], own_end: int, loader: Any) -> int:
        """All of the shard, from its newest snapshot on: the next offset."""
        offset = 0
        known = [one if one.end is not None else one._replace(end=own_end) for one in lineage]
        for piece in read_pieces(self._store, shard, known, self._parts):
            offset = piece.next_offset
            try:
                if not piece.is_snapshot:
                    loader.replay(piece.content)
                elif piece.content:
                    loader.restore(piece.content)
            except ReplayError as error:
                raise CorruptEntryError(piece.name, f"shard {shard}: {error}") from error
        return offset

    def decided(self, shard: int) -> int:
        """Release the shard, and wait until no round with records of it is under way. Returns the
        journal's next number. Blocks as long as the store does not answer."""
        self.release(shard)
        with self._changed:
            self._changed.wait_for(lambda: not self._is_putting)
            return self._writer.next

    def release(self, shard: int) -> None:
        """See `Log.release`. What is being put may still get there: see `decided`."""
        with self._changed:
            self._led.pop(shard, None)
            self._lost.pop(shard, None)
            calls = self._take_out(lambda call: call.shard == shard)
        for done in calls:
            done([], [(shard, ShardReleasedError(shard))])

    def append(self, appends: Sequence[Append], done: Done) -> None:
        """See `Log.append`."""
        refused: list[tuple[int, Failure]] = []
        with self._changed:
            for shard, of_shard in by_shard(appends).items():
                led = self._led.get(shard)
                if led is None:
                    refused.append((shard, self._lost.get(shard) or ShardReleasedError(shard)))
                else:
                    self._waiting.append(_Call(shard, led, of_shard, done))
            self._changed.notify_all()
        if refused:
            done([], refused)

    def prove(self) -> None:
        """Have a round put soon, an empty one if there are no records."""
        with self._changed:
            self._wants_proof = True
            self._changed.notify_all()

    def close(self) -> None:
        """See `Log.close`."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._thread.join()

    def _take_out(self, which: Callable[[_Call], bool]) -> list[Done]:
        """Whom to tell of these calls, each once. What is being put goes on without them."""
        taken = []
        for call in [*self._putting, *self._waiting]:
            if which(call) and call.done is not None:
                taken.append(call.done)
                call.done = None
        self._waiting = [call for call in self._waiting if call.done is not None]
        return taken

    def _run(self) -> None:
        try:
            self._put_rounds()
        except BaseException as error:
            self._told.failed(error)
            with self._changed:  # who waits for what is under way hears of it after that
                self._is_putting, self._is_closed = False, True
                self._changed.notify_all()

    def _put_rounds(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(
                    lambda: self._waiting or self._wants_proof or self._is_closed
                )
                if not self._waiting and (self._is_closed or not self._wants_proof):
                    return
                index = self._writer.begin()
                if index is None:
                    return
                self._putting, self._waiting = self._waiting, []
                self._is_putting, self._wants_proof = True, False
                parts = self._new_parts()
            started = boot_ms()
            stands = self._put(index, Round(parts).encode())
            with self._changed:
                self._is_putting = False
                calls, self._putting = [*self._putting], []
                told = [
                    (call.done, call.shard, call.end) for call in calls if call.done is not None
                ]
                for call in calls:
                    call.done = None
                self._changed.notify_all()
            if stands is None:
                return
            if not stands:
                self._fence([(done, shard) for done, shard, _ in told])
                return
            took = (boot_ms() - started) / 1000
            self._told.proved(started, index + 1, [part[:2] for part in parts])
            for done, shard, end in told:
                done([(shard, end)], [])
            if self.gives_way:
                self._retry.wait(min(_GIVE_WAY * took, _GIVE_WAY_SECONDS))

    def _new_parts(self) -> list[Part]:
        """One part a shard, of all that is being put."""
        putting: dict[int, list[_Call]] = {}
        for call in self._putting:
            putting.setdefault(call.shard, []).append(call)
        parts = []
        for shard, calls in putting.items():
            appends = [append for call in calls for append in call.appends]
            epoch = calls[0].led.epoch
            batches = b"".join(record_batch(append, epoch) for append in appends)
            count = sum(append.record_count for append in appends)
            parts.append(Part(shard, epoch, appends[0].base_offset, count, batches))
        return parts

    def _put(self, index: int, content: bytes) -> bool | None:
        """Put until it is decided. False: there is a fence; None: this log is closed, and the
        store does not answer."""
        name, attempts = round_name(self.incarnation, index), 0
        while True:
            try:
                step, _ = self._writer.answered(self._store.create(name, content))
                if step == "read":
                    found = read_round(self._store, self.incarnation, index)
                    if found is None:
                        raise CorruptEntryError(name, "it is there, and cannot be read")
                    step, _ = self._writer.read(found.fenced_by is None)
                return step == "durable"
            except (OSError, KcoordError) as error:  # as stores raise
                attempts += 1
                self._told.prove_failed()
                self._give_up(attempts, name, error)
            if attempts >= _ATTEMPTS:
                content = Round().encode()
                if self._is_closed:
                    return None
            self._retry.wait(_RETRY_SECONDS)

    def _give_up(self, attempts: int, name: str, error: Exception) -> None:
        """Tell the callers, once it has failed so often: their shards are to be taken again."""
        logger.debug("%s cannot be put: %s", name, error)
        if attempts != _ATTEMPTS:
            return
        with self._changed:
            lost = {call.shard for call in self._putting}
            failures: dict[int, Failure] = {}
            for shard in lost:
                reason = f"{name} cannot be put: {error!r}"
                failures[shard] = ShardLostError(shard, reason, fenced=False)
                if self._led.pop(shard, None) is not None:
                    self._lost[shard] = failures[shard]
            told = [
                (call.done, call.shard)
                for call in [*self._putting, *self._waiting]
                if call.shard in lost and call.done is not None
            ]
            self._take_out(lambda call: call.shard in lost)
        for done, shard in told:
            done([], [(shard, failures[shard])])

    def _fence(self, told: list[tuple[Done, int]]) -> None:
        """The journal has ended: nothing is appended any more."""
        with self._changed:
            self._is_fenced = True
            for shard in self._led:
                self._lost[shard] = _fenced(shard)
            self._led.clear()
            told = [*told, *((call.done, call.shard) for call in self._waiting if call.done)]
            self._waiting = []
        for done, shard in told:
            done([], [(shard, _fenced(shard))])
        self._told.fenced()

    def _parts(self, incarnation: int, index: int) -> Sequence[Part]:
        """A round's, from memory if another shard was read from it lately."""
        key = (incarnation, index)
        with self._gate:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key][1].parts
        found = read_round(self._store, incarnation, index)
        if found is None:
            raise CorruptEntryError(round_name(incarnation, index), "there is no such object")
        size = 200 + sum(len(part.batches) for part in found.parts)
        with self._gate:
            if key not in self._kept:
                self._kept[key] = (size, found)
                self._kept_bytes += size
            while self._kept_bytes > _KEPT_BYTES:
                _, (size, _) = self._kept.popitem(last=False)
                self._kept_bytes -= size
        return found.parts


def _fenced(shard: int) -> ShardLostError:
    return ShardLostError(shard, "another node has fenced this one", fenced=True)
