"""One shard that takes its requests as rows of Arrow batches: for tables, Spark, simulations.

Like `pykcoord.shard` it must never read a clock, open a file or a socket. Time is in the rows, and
what the shard writes comes out as rows.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pykcoord import _arguments as arguments
from pykcoord._machine import Machine
from pykcoord._native import RowError, Rows
from pykcoord.arrow import arrow_library
from pykcoord.config import Config
from pykcoord.errors import ArgumentError

if TYPE_CHECKING:
    import pyarrow

__all__ = ["ArrowShard"]

_INT64 = range(2**63)
_FRAME = struct.Struct(">4sI")
_MAGIC = b"KCR1"


class ArrowShard(Machine):
    """Kafka's group coordinator for one partition of `__consumer_offsets`, fed with rows.

    >>> import pyarrow
    >>> from pykcoord.arrow import REQUEST
    >>> beat = {"seq": 7, "ts": 0, "group_id": "billing", "member_id": "nobody"}
    >>> beat |= {"generation": 1, "api_key": 12, "api_version": 4}
    >>> answers = ArrowShard().process(pyarrow.RecordBatch.from_pylist([beat], REQUEST))
    >>> answers["error_code"].to_pylist()
    [25]
    """

    def __init__(
        self,
        config: Config | None = None,
        *,
        topics: Mapping[str, int] | None = None,
        seed: bytes | None = None,
        shard: int = 0,
        shards: int = 1,
        epoch: int = 0,
        tells_events: bool = False,
    ) -> None:
        """`config`, `topics`, `seed` and `tells_events` as for `pykcoord.Shard`. This is `shard`
        (from 0) of `shards`: rows of groups that live elsewhere are refused. Its records are of
        the leader epoch `epoch`.
        """
        self.shards = arguments.integer("shards", shards, range(1, 2**31))
        self.shard = arguments.integer("shard", shard, range(self.shards))
        self.epoch = arguments.integer("epoch", epoch, range(2**31))
        super().__init__(config, topics, seed, tells_events)
        self._rows: Rows | None = None  # where the log ends is known once replay is over

    @property
    def events_dropped(self) -> int:
        """Events that were lost, the oldest first: more than 10,000 waited, or 4 MiB of texts."""
        in_rows = 0 if self._rows is None else self._rows.events_dropped
        return self._events_dropped + in_rows

    def process(self, batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
        """Serve requests that are rows: `pykcoord.arrow.REQUEST` in (columns are found by name),
        `pykcoord.arrow.ENVELOPE` out. Requests of one time are a turn: its records come first, then
        its answers, so that no answer comes before the records behind it.

        Time is the rows' `ts`, which must not run back, nor below an earlier batch's; what is due
        before a row is done first, at its own time. The records count as durable at once: a caller
        that keeps the answers must keep the records too, and first. A request without an answer is
        parked; the answer comes from a later `process` or `advance`. Raises ArgumentError that
        names column and row, before anything is done.
        """
        rows, pa = self._begun(), arrow_library()
        if not isinstance(batch, pa.RecordBatch):
            raise ArgumentError("batch", f"a pyarrow.RecordBatch, not {type(batch).__name__}")
        try:
            return rows.process(self._node, batch)
        except RowError as error:
            raise ArgumentError("batch", str(error)) from None
        except OverflowError as error:
            self._dropped = True
            raise ArgumentError("batch", f"{error}; this shard is lost") from None

    def advance(self, now_ms: int) -> pyarrow.RecordBatch:
        """Let time pass up to `now_ms` without requests: what was due till then, as `process`
        gives it. Rows that come later must not be older."""
        rows, _ = self._begun(), arrow_library()
        arguments.integer("now_ms", now_ms, _INT64)
        return rows.advance(self._node, now_ms)

    def take_batches(self, leader_epoch: int = 0) -> bytes:
        """The records that `process` and `advance` gave since this was called last, as a log has
        them: whole RecordBatches v2 with their CRC. What comes from now on is of `leader_epoch`
        (-1: unknown). The first call gives nothing, and asks for them."""
        arguments.integer("leader_epoch", leader_epoch, range(-1, 2**31))
        return self._begun().take_batches(leader_epoch)

    def checkpoint(self) -> bytes:
        """The live state: groups, offsets, sessions, timers, parked requests, and what member ids
        are made of (keep it as safe as the seed).

        Not the settings and not the topics. Raises ArgumentError before the first row or `advance`.
        """
        self._check_alive()
        if self._rows is None or self._rows.now_ms is None:
            raise ArgumentError("shard", "it has served no rows: there is no state yet")
        content = self._rows.checkpoint(self._node)
        return _FRAME.pack(_MAGIC, zlib.crc32(content)) + content

    def resume(self, checkpoint: bytes) -> None:
        """Go on where a `checkpoint` was made, with the same settings and topics, as if nothing had
        happened. Only for a new shard, of the same number among as many; `seed` has no effect.

        Raises ArgumentError for bytes that are no checkpoint, or one of another shard.
        """
        rows = self._begun()
        if rows.now_ms is not None or rows.next_offset > 0:
            raise ArgumentError("shard", "it has a state already: resume in a new one")
        if not isinstance(checkpoint, bytes):
            raise ArgumentError("checkpoint", f"bytes, not {type(checkpoint).__name__}")
        content = checkpoint[_FRAME.size :]
        if checkpoint[: _FRAME.size] != _FRAME.pack(_MAGIC, zlib.crc32(content)):
            reason = "it is not what ArrowShard.checkpoint gave: another format, cut, or changed"
            raise ArgumentError("checkpoint", reason)
        try:
            rows.resume(self._node, content)
        except ValueError as error:
            self._dropped = True
            raise ArgumentError("checkpoint", str(error)) from None

    @property
    def now_ms(self) -> int | None:
        """The time that it has come to, in ms since the epoch; None: before the first row."""
        return None if self._rows is None else self._rows.now_ms

    @property
    def waiting(self) -> int:
        """Requests that have no answer yet, without those that never will have one."""
        return 0 if self._rows is None else self._rows.waiting

    @property
    def next_offset(self) -> int:
        """The offset that the next record gets."""
        return self._next_offset if self._rows is None else self._rows.next_offset

    def _gather(self) -> None:
        if self._rows is not None:
            self._tell(self._rows.take_events())

    def _begun(self) -> Rows:
        self._check_alive()
        if self._rows is None:
            self._rows = Rows(self.shard, self.shards, self.epoch, self._next_offset)
            self._serves = True
        return self._rows
