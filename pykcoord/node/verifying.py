"""Asks transaction coordinators whether a transaction is open, as a broker's group coordinator asks
(Kafka's `AddPartitionsToTxnManager`): AddPartitionsToTxn, one request at a time to each broker,
which holds what came meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any

from kio.schema.add_partitions_to_txn.v5.request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kio.schema.errors import ErrorCode
from kio.schema.types import ProducerId, TopicName, TransactionalId
from kio.static.primitive import i16, i32, i64

from pykcoord._native import partition_of
from pykcoord.kafka import ClusterError, Connection, Connector
from pykcoord.log.folders import TOPIC
from pykcoord.node.image import Image
from pykcoord.transactions import Verification

__all__ = ["Verifying"]

logger = logging.getLogger("pykcoord.node")

_STATE_TOPIC = "__transaction_state"
# Below the 30 s that a producer waits for an answer.
_SECONDS = 10.0
# From this version of TxnOffsetCommit on a producer knows TRANSACTION_ABORTABLE.
_ABORTABLE_VERSION = 4
_UNREACHABLE = ErrorCode.coordinator_load_in_progress

Done = Callable[[int], None]


class Verifying:
    """See `pykcoord.runtime_parts.Transactions`. `image()` says who leads the partitions of
    `__transaction_state`, `address_of` where a broker is."""

    def __init__(
        self,
        connector: Connector,
        image: Callable[[], Image],
        address_of: Callable[[int], tuple[str, int] | None],
    ) -> None:
        self.asked = 0
        self._connector = connector
        self._image = image
        self._address_of = address_of
        self._waiting: dict[int, deque[tuple[Verification, Done]]] = {}
        self._connections: dict[int, Connection] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}

    def verify(self, verification: Verification, done: Done) -> None:
        """Asks, and tells the error code; what is asked of one broker goes together."""
        placements = self._image().of(_STATE_TOPIC)
        number = partition_of(verification.transactional_id, len(placements)) if placements else 0
        placement = placements.get(number)
        if placement is None or placement.leader < 0:
            done(ErrorCode.coordinator_not_available.value)
            return
        broker = placement.leader
        self._waiting.setdefault(broker, deque()).append((verification, done))
        if broker not in self._tasks:
            task = asyncio.get_running_loop().create_task(self._work(broker))
            self._tasks[broker] = task

    async def close(self) -> None:
        """Asks no more. Who waits is not told: nothing is answered any more."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    async def _work(self, broker: int) -> None:
        waiting = self._waiting[broker]
        try:
            while waiting:
                batch = _taken(waiting)
                try:
                    codes = await self._ask(broker, [of for of, _ in batch])
                except Exception as error:
                    self._tell_failed(broker, error)
                    codes = [_UNREACHABLE] * len(batch)
                for (of, done), code in zip(batch, codes, strict=True):
                    done(told(code, of.api_version).value)
        finally:
            del self._tasks[broker]

    async def _ask(self, broker: int, batch: list[Verification]) -> list[ErrorCode]:
        """What its coordinator says of each. Raises ClusterError, ValueError, KeyError."""
        self.asked += len(batch)
        connection = await self._connection(broker)
        answer = await connection.ask(request_of(batch), seconds=_SECONDS)
        if answer.error_code is not ErrorCode.none:
            return [answer.error_code] * len(batch)
        found = {str(one.transactional_id): _code_of(one) for one in answer.results_by_transaction}
        return [found[of.transactional_id] for of in batch]

    async def _connection(self, broker: int) -> Connection:
        connection = self._connections.get(broker)
        if connection is None or not connection.is_usable:
            if connection is not None:
                connection.close()
            address = self._address_of(broker)
            if address is None:
                raise ValueError(f"broker {broker} is not registered")
            connection = self._connections[broker] = await self._connector.connect(*address)
        return connection

    def _tell_failed(self, broker: int, error: Exception) -> None:
        reason = str(error) if isinstance(error, ClusterError) else repr(error)
        logger.warning(
            "broker %d does not say which transactions are open: %s; producers ask again",
            broker, reason, extra={"event": "transaction"},
        )  # fmt: skip


def _taken(waiting: deque[tuple[Verification, Done]]) -> list[tuple[Verification, Done]]:
    """What goes into one request: each transactional id once, since the answers are told by it."""
    batch: dict[str, tuple[Verification, Done]] = {}
    left = []
    while waiting:
        one = waiting.popleft()
        if one[0].transactional_id in batch:
            left.append(one)
        else:
            batch[one[0].transactional_id] = one
    waiting.extend(left)
    return list(batch.values())


def request_of(batch: list[Verification]) -> AddPartitionsToTxnRequest:
    """The request of a batch in which each transactional id stands once."""
    return AddPartitionsToTxnRequest(
        transactions=tuple(
            AddPartitionsToTxnTransaction(
                transactional_id=TransactionalId(of.transactional_id),
                producer_id=ProducerId(i64(of.producer_id)),
                producer_epoch=i16(of.producer_epoch),
                verify_only=not of.adds_partition,
                topics=(
                    AddPartitionsToTxnTopic(name=TopicName(TOPIC), partitions=(i32(of.partition),)),
                ),
            )
            for of in batch
        )
    )


def _code_of(result: Any) -> ErrorCode:
    (topic,) = result.topic_results
    (partition,) = topic.results_by_partition
    code: ErrorCode = partition.partition_error_code
    return code


def told(code: ErrorCode, api_version: int) -> ErrorCode:
    """What a producer is told in the place of a coordinator's code, as Kafka's group coordinator
    does: `api_version` is that of TxnOffsetCommit (docs/spec/offsets.md section 3)."""
    match code:
        case ErrorCode.producer_fenced:
            return ErrorCode.invalid_producer_epoch
        case ErrorCode.transaction_abortable if api_version < _ABORTABLE_VERSION:
            return ErrorCode.invalid_txn_state
        case ErrorCode.cluster_authorization_failed:
            return ErrorCode.invalid_txn_state
        case ErrorCode.network_exception:
            return _UNREACHABLE
        case _:
            return code
