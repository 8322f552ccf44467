"""Transactional commits, as a host of the core sees them: what to ask a transaction coordinator.

There is no transaction coordinator here. It is Kafka's own, or the host's.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["OpenTransaction", "Verification"]


class Verification(NamedTuple):
    """A TxnOffsetCommit waits for this answer: is the transaction of `transactional_id` open for
    `producer_id` and `producer_epoch`, and is `partition` of `__consumer_offsets` in it?

    `adds_partition`: it is to be added (TxnOffsetCommit 5 and later), else only looked up:
    AddPartitionsToTxn, with `verify_only` or without. `api_version` is the request's: from 4 on its
    client knows TRANSACTION_ABORTABLE, before that it is told INVALID_TXN_STATE. `ticket` is the
    request's. Source: `ReplicaManager.maybeSendPartitionToTransactionCoordinator`.
    """

    ticket: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    partition: int
    adds_partition: bool
    api_version: int


class OpenTransaction(NamedTuple):
    """A transaction with commits in a shard that no marker has ended.

    `producer_id` (int64) and `producer_epoch` (int16) are those of its last commit, which was made
    at `last_timestamp_ms` (since the epoch). Nothing from `first_offset` on is compacted.
    `groups`: those with pending offsets of it, by id; none if they were deleted meanwhile.
    """

    producer_id: int
    producer_epoch: int
    first_offset: int
    last_timestamp_ms: int
    groups: list[str]
