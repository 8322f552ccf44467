"""A coordinator of transactions for tests: as much of Kafka's as commits of offsets need, in memory
(docs/spec/offsets.md section 3.2). It sends WriteTxnMarkers over a connection of its own.
"""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.write_txn_markers.v2 import request as markers

from pykcoord.protocol import decode_response, encode_request
from pykcoord.server.api.messages import Fields
from pykcoord.server.api.node_api import Cluster, NodeApi
from pykcoord.session import Session
from pykcoord.transactions import Verification

OFFSETS_TOPIC = "__consumer_offsets"
LONGEST_TIMEOUT_MS = 900_000
NONE = ErrorCode.none
PREPARED = ("PrepareCommit", "PrepareAbort")


@dataclass
class Transaction:
    """What is known of a transactional id."""

    producer_id: int
    timeout_ms: int
    epoch: int = 0
    state: str = "Empty"
    started: float = 0.0
    partitions: set[int] = field(default_factory=set)
    bumped_from: int | None = None  # by a call that named this epoch


class Coordinator:
    """Is asked through `apis` by producers, and by the runtime through `verify`."""

    def __init__(self, partition_of: Callable[[str], int], look_seconds: float) -> None:
        self.address: tuple[str, int] | None = None
        self._partition_of = partition_of
        self._look_seconds = look_seconds
        self._transactions: dict[str, Transaction] = {}
        self._next_producer_id = 1_000
        self._tasks: set[asyncio.Task[None]] = set()
        self._looks = False

    def apis(self) -> tuple[NodeApi, ...]:
        return (
            NodeApi(22, "InitProducerId", 0, 5, self._init),
            NodeApi(25, "AddOffsetsToTxn", 0, 4, self._add),
            NodeApi(26, "EndTxn", 0, 5, self._end),
            NodeApi(65, "DescribeTransactions", 0, 0, self._describe),
        )

    def verify(self, of: Verification, done: Callable[[int], None]) -> None:
        """As AddPartitionsToTxn answers the group's coordinator."""
        known = self._transactions.get(of.transactional_id)
        if known is None or known.producer_id != of.producer_id:
            done(ErrorCode.invalid_producer_id_mapping.value)
        elif known.epoch != of.producer_epoch:
            done(ErrorCode.invalid_producer_epoch.value)
        elif known.state in PREPARED:
            done(ErrorCode.concurrent_transactions.value)
        elif of.adds_partition:
            self._begin(known, of.partition)
            done(0)
        elif known.state == "Ongoing" and of.partition in known.partitions:
            done(0)
        else:
            abortable = of.api_version >= 4
            done(120 if abortable else ErrorCode.invalid_txn_state.value)

    def _init(self, request: Any, version: int, cluster: Cluster, session: Session) -> Fields:
        error, known = self._initialised(request, version)
        producer_id, epoch = (-1, -1) if known is None else (known.producer_id, known.epoch)
        return {"error_code": error, "producer_id": producer_id, "producer_epoch": epoch}

    def _initialised(self, request: Any, version: int) -> tuple[ErrorCode, Transaction | None]:
        named, timeout_ms = request.transactional_id, _milliseconds(request.transaction_timeout)
        expected = getattr(request, "producer_id", -1), getattr(request, "producer_epoch", -1)
        if named == "" or (expected[0] == -1) != (expected[1] == -1):
            return ErrorCode.invalid_request, None
        if named is None:
            return NONE, Transaction(self._fresh_id(), timeout_ms)
        if not 0 < timeout_ms <= LONGEST_TIMEOUT_MS:
            return ErrorCode.invalid_transaction_timeout, None
        known = self._transactions.get(named)
        if known is None:
            known = self._transactions[named] = Transaction(self._fresh_id(), timeout_ms)
            return NONE, known
        if known.state in PREPARED:
            return ErrorCode.concurrent_transactions, None
        retried = False
        if expected[0] != -1:
            retried = expected[1] != known.epoch and expected[1] == known.bumped_from
            if expected[0] != known.producer_id or not (retried or expected[1] == known.epoch):
                return _fenced(version, 4), None
        if known.state == "Ongoing":
            self._finish(known, commit=False, bumps=True, version=0)
            return ErrorCode.concurrent_transactions, None
        if not retried:
            known.bumped_from = known.epoch if expected[0] != -1 else None
            known.epoch += 1
        known.state, known.timeout_ms = "Empty", timeout_ms
        return NONE, known

    def _add(self, request: Any, version: int, cluster: Cluster, session: Session) -> Fields:
        known = self._transactions.get(request.transactional_id)
        error = self._of_producer(known, request, version)
        if error is NONE:
            assert known is not None
            if known.state in PREPARED:
                error = ErrorCode.concurrent_transactions
            else:
                self._begin(known, self._partition_of(request.group_id))
        return {"error_code": error}

    def _end(self, request: Any, version: int, cluster: Cluster, session: Session) -> Fields:
        known = self._transactions.get(request.transactional_id)
        if known is None or known.producer_id != request.producer_id:
            return _ended(ErrorCode.invalid_producer_id_mapping)
        if known.state in PREPARED:
            return _ended(ErrorCode.concurrent_transactions)
        commit, epoch = request.committed, request.producer_epoch
        if version >= 5:
            return self._end_bumping(known, epoch, commit)
        if epoch != known.epoch:
            return _ended(_fenced(version, 2))
        if known.state == "Ongoing":
            self._finish(known, commit, bumps=False, version=0)
            return _ended(NONE)
        is_so = known.state == ("CompleteCommit" if commit else "CompleteAbort")
        return _ended(NONE if is_so else ErrorCode.invalid_txn_state)

    def _end_bumping(self, known: Transaction, epoch: int, commit: bool) -> Fields:
        retried = epoch == known.epoch - 1
        if epoch != known.epoch and not (retried and known.state != "Ongoing"):
            return _ended(ErrorCode.producer_fenced)
        if known.state == "Ongoing":
            self._finish(known, commit, bumps=True, version=2)
        elif retried and known.state == "Empty":
            return _ended(ErrorCode.producer_fenced)
        elif retried:
            if known.state != ("CompleteCommit" if commit else "CompleteAbort"):
                return _ended(ErrorCode.invalid_txn_state)
        elif commit:
            return _ended(ErrorCode.invalid_txn_state)
        else:
            known.epoch += 1
            known.state = "CompleteAbort"
        return _ended(NONE, known.producer_id, known.epoch)

    def _describe(self, request: Any, version: int, cluster: Cluster, session: Session) -> Fields:
        def described(named: str) -> Fields:
            known = self._transactions.get(named)
            error = NONE if known else ErrorCode.transactional_id_not_found
            known = known or Transaction(-1, 0, -1, "")
            return {
                "error_code": error,
                "transactional_id": named,
                "transaction_state": known.state,
                "transaction_timeout": timedelta(milliseconds=known.timeout_ms),
                "transaction_start_time": -1,
                "producer_id": known.producer_id,
                "producer_epoch": known.epoch,
                "topics": [],
            }

        return {"transaction_states": [described(named) for named in request.transactional_ids]}

    def _of_producer(self, known: Transaction | None, request: Any, version: int) -> ErrorCode:
        if known is None or known.producer_id != request.producer_id:
            return ErrorCode.invalid_producer_id_mapping
        return NONE if known.epoch == request.producer_epoch else _fenced(version, 2)

    def _begin(self, known: Transaction, partition: int) -> None:
        if known.state != "Ongoing":
            known.state, known.partitions = "Ongoing", set()
            known.started = time.monotonic()
        known.partitions.add(partition)
        if not self._looks:
            self._looks = True
            self._spawn(self._look())

    def _finish(self, known: Transaction, commit: bool, *, bumps: bool, version: int) -> None:
        known.state = "PrepareCommit" if commit else "PrepareAbort"
        known.epoch += bumps
        known.bumped_from = None
        self._spawn(self._mark(known, commit, version))

    async def _mark(self, known: Transaction, commit: bool, version: int) -> None:
        topic = markers.WritableTxnMarkerTopic(
            name=OFFSETS_TOPIC, partition_indexes=tuple(sorted(known.partitions))
        )
        marker = markers.WritableTxnMarker(
            producer_id=known.producer_id, producer_epoch=known.epoch, transaction_result=commit,
            topics=(topic,), coordinator_epoch=0, transaction_version=version,
        )  # fmt: skip
        request = markers.WriteTxnMarkersRequest(markers=(marker,))
        assert self.address is not None
        response = decode_response(request, await _ask(self.address, encode_request(request)))
        results = [at.error_code for of in response.markers[0].topics for at in of.partitions]
        assert all(result is NONE for result in results), (marker, results)
        known.state = "CompleteCommit" if commit else "CompleteAbort"

    async def _look(self) -> None:
        """Ends transactions that are older than their timeout."""
        while True:
            await asyncio.sleep(self._look_seconds)
            for known in self._transactions.values():
                age_ms = (time.monotonic() - known.started) * 1000
                if known.state == "Ongoing" and age_ms > known.timeout_ms:
                    self._finish(known, commit=False, bumps=True, version=0)

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _fresh_id(self) -> int:
        self._next_producer_id += 1
        return self._next_producer_id


async def _ask(address: tuple[str, int], frame: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(*address)
    try:
        writer.write(struct.pack(">i", len(frame)) + frame)
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        return await reader.readexactly(size)
    finally:
        writer.close()


def _ended(error: ErrorCode, producer_id: int = -1, epoch: int = -1) -> Fields:
    return {"error_code": error, "producer_id": producer_id, "producer_epoch": epoch}


def _fenced(version: int, since: int) -> ErrorCode:
    """PRODUCER_FENCED, where the version knows it."""
    known = version >= since
    return ErrorCode.producer_fenced if known else ErrorCode.invalid_producer_epoch


def _milliseconds(timeout: Any) -> int:
    return timeout if isinstance(timeout, int) else round(timeout.total_seconds() * 1000)
