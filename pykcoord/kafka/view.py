"""What a cluster says of itself: brokers, topics and leaders, merged from one answer to the next.

Pure. An answer may come from a broker that lags: leaders never go back to an older epoch, and a
topic counts as deleted only when two whole answers from two brokers lack its id.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pykcoord.addresses import address_text

__all__ = ["Broker", "ClusterTopic", "ClusterView", "Leader"]

_NO_ID = uuid.UUID(int=0)


class Broker(NamedTuple):
    """A broker of the cluster: `node_id`, advertised `host` and `port`; `rack` is None where it has
    none."""

    node_id: int
    host: str
    port: int
    rack: str | None

    @property
    def address(self) -> str:
        """HOST:PORT, as it is advertised."""
        return address_text(self.host, self.port)


class Leader(NamedTuple):
    """Who leads a partition: `node_id`, -1 is nobody. `epoch` is the leader epoch."""

    node_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class ClusterTopic:
    """A topic of the cluster, its `name` and `topic_id`; `leaders` has one entry for each partition
    that was named."""

    name: str
    topic_id: uuid.UUID
    leaders: Mapping[int, Leader]


@dataclass(slots=True)
class ClusterView:
    """The newest of what all answers said: `cluster_id`, `controller_id` (-1: none), `brokers` by
    their ids, `topics` by their names. `version` goes up with each change; `as_of` is when the
    last answer came (monotonic seconds), `deleted` the names of topics that are gone, by id."""

    cluster_id: str = ""
    controller_id: int = -1
    brokers: dict[int, Broker] = field(default_factory=dict)
    topics: dict[str, ClusterTopic] = field(default_factory=dict)
    deleted: dict[uuid.UUID, str] = field(default_factory=dict)
    version: int = 0
    as_of: float = 0.0
    _by_id: dict[uuid.UUID, ClusterTopic] = field(default_factory=dict)
    # Of a topic that an answer lacked: the brokers that lack it, and how often.
    _lacking: dict[uuid.UUID, list[int]] = field(default_factory=dict)

    def by_id(self, topic_id: uuid.UUID) -> ClusterTopic | None:
        """The topic of that id, if it is not deleted."""
        return self._by_id.get(topic_id)

    def leader(self, topic: str, partition: int) -> Leader:
        """Of a partition; Leader(-1, -1) for one that is not there."""
        found = self.topics.get(topic)
        return (found.leaders.get(partition) if found else None) or Leader(-1, -1)

    def take(self, answer: Any, answered_by: int, now: float) -> bool:
        """Takes in an answer to Metadata of all topics; says whether anything changed.
        `answered_by`: the node's id, -1 of a bootstrap address that is not known yet."""
        before = (self.brokers, self.topics, len(self.deleted), self.controller_id)
        self.cluster_id = answer.cluster_id or ""
        self.controller_id = int(answer.controller_id)
        self.brokers = {
            int(b.node_id): Broker(int(b.node_id), b.host, int(b.port), b.rack)
            for b in answer.brokers
        }
        self.as_of = now
        topics: dict[str, ClusterTopic] = {}
        whole = True
        for one in answer.topics:
            if one.name is None or (one.error_code.value and not one.partitions):
                whole = False  # it is there, but cannot be told of now
                continue
            topic = self._merged(one)
            topics[topic.name] = topic
        ids = {topic.topic_id for topic in topics.values()}
        for topic_id, known in list(self._by_id.items()):
            if topic_id in ids:
                self._lacking.pop(topic_id, None)
            elif self._is_gone(topic_id, answered_by, whole):
                del self._by_id[topic_id], self._lacking[topic_id]
                self.deleted[topic_id] = known.name
            else:
                topics.setdefault(known.name, known)
        for topic in topics.values():
            self._by_id[topic.topic_id] = topic
            self.deleted.pop(topic.topic_id, None)
        self.topics = topics
        changed = before != (self.brokers, self.topics, len(self.deleted), self.controller_id)
        self.version += changed
        return changed

    def _merged(self, one: Any) -> ClusterTopic:
        topic_id = one.topic_id or _NO_ID
        known = self._by_id.get(topic_id)
        leaders: dict[int, Leader] = dict(known.leaders) if known else {}
        for partition in one.partitions:
            index = int(partition.partition_index)
            leader = Leader(int(partition.leader_id), int(partition.leader_epoch))
            before = leaders.get(index)
            if before is None or leader.epoch >= before.epoch:
                leaders[index] = leader
        if known is not None and known.leaders == leaders:
            return known
        return ClusterTopic(str(one.name), topic_id, leaders)

    def _is_gone(self, topic_id: uuid.UUID, answered_by: int, whole: bool) -> bool:
        if not whole:
            return False
        lacking = self._lacking.setdefault(topic_id, [])
        lacking.append(answered_by)
        # A cluster of one broker has no second opinion: it is asked twice.
        return len(set(lacking)) > 1 or (len(self.brokers) == 1 and len(lacking) > 1)
