"""What the metadata log says of a cluster, as far as a node needs it. Pure: records go in.

As Kafka's MetadataImage: brokers with their epochs, topics with their partitions, features, and the
settings of topics, brokers and groups. `offset` is that of the next record.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pykcoord.node import metadata_records as log
from pykcoord.node.metadata_records import decode_record

__all__ = [
    "BROKER_KIND", "GROUP_KIND", "TOPIC_KIND", "Image", "Placement",
]  # fmt: skip

TOPIC_KIND, BROKER_KIND, GROUP_KIND = 2, 4, 32


class Placement(NamedTuple):
    """Where a partition is, and who leads it (-1: nobody). `replicas` in preferred order; `adding`
    and `removing` are those of a reassignment. `epoch` counts the changes of the partition."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    leader: int
    leader_epoch: int
    epoch: int
    recovery_state: int


@dataclass(slots=True)
class Image:
    """The state after the records up to `offset`, of which the last was written in `epoch`.
    `topics` are ids by name, `partitions` by topic id and number, `configs` by kind and name of the
    resource. `topics_version` goes up when a topic comes, goes or grows, or a setting changes.
    `touched` are topics of which anything but leaders changed, and groups whose settings did, by
    kind and name; who follows them takes them out."""

    offset: int = 0
    epoch: int = 0
    features: dict[str, int] = field(default_factory=dict)
    features_offset: int = -1
    brokers: dict[int, log.BrokerRegistered] = field(default_factory=dict)
    topics: dict[str, uuid.UUID] = field(default_factory=dict)
    names: dict[uuid.UUID, str] = field(default_factory=dict)
    partitions: dict[uuid.UUID, dict[int, Placement]] = field(default_factory=dict)
    configs: dict[tuple[int, str], dict[str, str]] = field(default_factory=dict)
    topics_version: int = 0
    touched: dict[tuple[int, str], None] = field(default_factory=dict)
    _waiting: list[Any] | None = None

    def of(self, topic: str) -> Mapping[int, Placement]:
        """The partitions of a topic; none where there is no such topic."""
        topic_id = self.topics.get(topic)
        return {} if topic_id is None else self.partitions[topic_id]

    def replicas_of(self, broker_id: int, topic: str) -> Iterable[int]:
        """Partitions of a topic of which a broker has a replica."""
        for number, placement in self.of(topic).items():
            if broker_id in placement.replicas:
                yield number

    def apply_batch(self, batch: log.MetadataBatch) -> None:
        """Takes in a batch that follows what is there. Raises UnknownRecordError."""
        for value in batch.records:
            record = decode_record(value)
            if record is not None:
                self.apply(record)
        self.offset, self.epoch = batch.next_offset, batch.epoch

    def apply(self, record: Any) -> None:
        """Takes in one record. Those of a transaction of the controller count at its end."""
        match record:
            case log.TransactionBegun():
                self._waiting = []
            case log.TransactionEnded(is_committed):
                waiting, self._waiting = self._waiting or [], None
                for one in waiting if is_committed else ():
                    self._apply(one)
            case _ if self._waiting is not None:
                self._waiting.append(record)
            case _:
                self._apply(record)

    def _apply(self, record: Any) -> None:
        match record:
            case log.FeatureSet(name, level):
                self.features[name] = level
                self.features_offset = self.offset
                if not level:
                    del self.features[name]
            case log.BrokerRegistered():
                self.brokers[record.broker_id] = record
            case log.BrokerGone(broker_id):
                self.brokers.pop(broker_id, None)
            case log.BrokerFenced(broker_id):
                self._change(log.BrokerChanged(broker_id, True, None, None))
            case log.BrokerUnfenced(broker_id):
                self._change(log.BrokerChanged(broker_id, False, None, None))
            case log.BrokerChanged():
                self._change(record)
            case log.PartitionChanged():
                self._change_partition(record)
            case _:
                self._apply_topic(record)

    def _apply_topic(self, record: Any) -> None:
        self.topics_version += 1
        match record:
            case log.TopicSet(name, topic_id):
                self.touched[TOPIC_KIND, name] = None
                self.topics[name], self.names[topic_id] = topic_id, name
                self.partitions.setdefault(topic_id, {})
            case log.TopicGone(topic_id):
                self.partitions.pop(topic_id, None)
                gone = self.names.pop(topic_id, None)
                if gone is not None:
                    self.touched[TOPIC_KIND, gone] = None
                    self.topics.pop(gone, None)
                    self.configs.pop((TOPIC_KIND, gone), None)
            case log.PartitionSet():
                self._touch(record.topic_id)
                self.partitions.setdefault(record.topic_id, {})[record.partition] = Placement(
                    record.replicas, record.isr, record.adding, record.removing, record.leader,
                    record.leader_epoch, record.partition_epoch, record.recovery_state,
                )  # fmt: skip
            case log.ConfigSet(kind, resource, name, value):
                if kind == GROUP_KIND:
                    self.touched[kind, resource] = None
                of = self.configs.setdefault((kind, resource), {})
                if value is None:
                    of.pop(name, None)
                else:
                    of[name] = value

    def _touch(self, topic_id: uuid.UUID) -> None:
        name = self.names.get(topic_id)
        if name is not None:
            self.touched[TOPIC_KIND, name] = None

    def _change(self, change: log.BrokerChanged) -> None:
        known = self.brokers.get(change.broker_id)
        if known is None:
            return
        if change.is_fenced is not None:
            known = known._replace(is_fenced=change.is_fenced)
        if change.is_shutting_down is not None:
            known = known._replace(is_shutting_down=change.is_shutting_down)
        if change.cordoned is not None:
            known = known._replace(cordoned=change.cordoned)
        self.brokers[change.broker_id] = known

    def _change_partition(self, change: log.PartitionChanged) -> None:
        """As Kafka's PartitionRegistration.merge: a change of the leader, also to the same one,
        begins a leader epoch; each change counts in the partition's epoch."""
        known = self.partitions.get(change.topic_id, {}).get(change.partition)
        if known is None:
            return
        if change.replicas is not None:
            self._touch(change.topic_id)
        has_leader = change.leader is not None
        self.partitions[change.topic_id][change.partition] = Placement(
            _or(change.replicas, known.replicas),
            _or(change.isr, known.isr),
            _or(change.adding, known.adding),
            _or(change.removing, known.removing),
            change.leader if change.leader is not None else known.leader,
            known.leader_epoch + has_leader,
            known.epoch + 1,
            known.recovery_state if change.recovery_state is None else change.recovery_state,
        )


def _or(new: tuple[int, ...] | None, old: tuple[int, ...]) -> tuple[int, ...]:
    return old if new is None else new
