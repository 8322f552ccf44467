"""The topics that clients see. They hold no records: a topic is a name, an id, a number of
partitions and, where its owner knows them, end offsets.

`Catalogue` is what the node APIs need, so that a user can bring his own; `TopicCatalogue` is the
default, remembered in a state file. Not thread-safe: use it on the server's loop.
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
import secrets
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

from pykcoord.errors import ArgumentError, KcoordError

# org.apache.kafka.common.internals.Topic
_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
# Name of the state file beside the log, for all who open a directory.
STATE_FILE = "catalogue.json"
# Kafka has no such bound; here one answer of Metadata must not keep the loop from heartbeats.
MAX_PARTITIONS = 10_000
# Nor of topics that clients create: each change costs a write of all of them, and a look at them.
MAX_CREATED_TOPICS = 20_000
# Nor of this: the catalogue is written whole at each change.
MAX_CONFIGURED_GROUPS = 10_000
# Of the document in the store: the rest of it is kept as it is.
_OWN = ("topics", "group_configs")


class Store(Protocol):
    """Where a catalogue is remembered (`pykcoord.log.state_file.StateFile`)."""

    def read(self) -> dict[str, Any] | None: ...
    def write(self, document: dict[str, Any]) -> None: ...


@runtime_checkable
class PartsStore(Store, Protocol):
    """A store that takes a large object within the document as members that are encoded already
    (`pykcoord.log.state_file.StateFile.write_parts`)."""

    def write_parts(self, document: dict[str, Any], name: str, members: Iterable[str]) -> None: ...


class TopicExistsError(ArgumentError):
    """The topic is there already. Kafka's TOPIC_ALREADY_EXISTS."""


class UnknownTopicError(ArgumentError):
    """There is no such topic. Kafka's UNKNOWN_TOPIC_OR_PARTITION."""


class InvalidTopicError(ArgumentError):
    """No legal topic name. Kafka's INVALID_TOPIC_EXCEPTION."""


class InvalidPartitionsError(ArgumentError):
    """No possible number of partitions. Kafka's INVALID_PARTITIONS."""


class TooManyTopicsError(ArgumentError):
    """More topics than clients may create. Kafka's POLICY_VIOLATION."""


class TooManyConfigsError(ArgumentError):
    """Too many groups with settings of their own. Kafka's POLICY_VIOLATION."""


class NotControllerError(KcoordError):
    """Another node of this cluster changes topics. Kafka's NOT_CONTROLLER."""


class StoredCatalogueError(KcoordError):
    """What the store holds is no catalogue."""


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic. `end_offsets`: partition to log end offset, 0 where it is not named."""

    name: str
    topic_id: uuid.UUID
    partitions: int
    configs: Mapping[str, str] = field(default_factory=dict)
    end_offsets: Mapping[int, int] = field(default_factory=dict)

    def end_offset(self, partition: int) -> int:
        """The offset that the next record of `partition` would get."""
        return self.end_offsets.get(partition, 0)


class Catalogue(Protocol):
    """What the node APIs ask. `version` is another one after each change of anything."""

    @property
    def version(self) -> int: ...
    def topics(self) -> Mapping[str, Topic]: ...
    def by_id(self, topic_id: uuid.UUID) -> Topic | None: ...
    def create(
        self, name: str, partitions: int, configs: Mapping[str, str] | None = None
    ) -> Topic: ...
    def delete(self, name: str) -> None: ...
    def group_configs(self) -> Mapping[str, Mapping[str, str]]: ...
    def set_group_configs(self, group_id: str, configs: Mapping[str, str]) -> None: ...
    def add_partitions(self, name: str, partitions: int) -> Topic: ...
    def together(self) -> contextlib.AbstractContextManager[None]: ...
    def on_change(self, callback: Callable[[], None]) -> None: ...


class TopicCatalogue:
    """Topics in memory, remembered in `store` if there is one.

    `topics` (name to number of partitions) are created, or grown, at the start. Raises
    ArgumentError subclasses that name the argument, and what the store raises.
    """

    def __init__(self, topics: Mapping[str, int] | None = None, store: Store | None = None) -> None:
        self._store = store
        self._callbacks: list[Callable[[], None]] = []
        document = store.read() if store is not None else None
        self._other = {k: v for k, v in (document or {}).items() if k not in _OWN}
        self._group_configs = _group_configs_of(document)
        self._topics = {topic.name: topic for topic in _topics_of(document)}
        self._by_id = {topic.topic_id: topic for topic in self._topics.values()}
        self._changing = False
        self._touched = False
        self._version = 0
        self._encoded: dict[str, tuple[Topic, str]] = {}
        self.cluster_id = self._other.setdefault("cluster_id", new_id_text())
        if store is not None and (document is None or "cluster_id" not in document):
            self._save()
        with self.together():
            for name, partitions in (topics or {}).items():
                self.ensure(name, partitions)

    @property
    def version(self) -> int:
        """Goes up with each change."""
        return self._version

    def topics(self) -> Mapping[str, Topic]:
        """All topics by name."""
        return self._topics

    def by_id(self, topic_id: uuid.UUID) -> Topic | None:
        """The topic of that id."""
        return self._by_id.get(topic_id)

    def reload(self) -> None:
        """Take the topics that the store has now: others may change it too. Ends of partitions are
        kept. Raises what the store raises, and StoredCatalogueError."""
        document = self._store.read() if self._store is not None else None
        if document is None:
            return
        topics = {topic.name: topic for topic in _topics_of(document)}
        for name, known in self._topics.items():
            if name in topics and topics[name].topic_id == known.topic_id:
                topics[name] = replace(topics[name], end_offsets=known.end_offsets)
        self._topics, self._by_id = topics, {topic.topic_id: topic for topic in topics.values()}
        self._group_configs = _group_configs_of(document)
        self._changed()

    def group_configs(self) -> Mapping[str, Mapping[str, str]]:
        """What is set for single groups, by group id and by the name of a setting of Kafka's
        `GroupConfig`; groups for which nothing is set are not there."""
        return self._group_configs

    def set_group_configs(self, group_id: str, configs: Mapping[str, str]) -> None:
        """Set exactly these for a group; the caller has checked them. Raises what the store
        raises, and then nothing has changed."""
        with self.together():
            if configs == self._group_configs.get(group_id, {}):
                return
            known = len(self._group_configs) - (group_id in self._group_configs)
            if configs and known >= MAX_CONFIGURED_GROUPS:
                reason = f"at most {MAX_CONFIGURED_GROUPS} groups can have settings of their own"
                raise TooManyConfigsError("group_id", reason)
            if configs:
                self._group_configs[group_id] = dict(configs)
            else:
                del self._group_configs[group_id]
            self._touched = True

    def ensure(self, name: str, partitions: int) -> Topic:
        """The topic with at least `partitions` partitions: created, grown, or as it is."""
        topic = self._topics.get(name)
        if topic is None:
            return self._new(name, partitions, {})
        if partitions < topic.partitions:
            raise InvalidPartitionsError(
                "partitions",
                f"topic {name} has {topic.partitions} already; it cannot shrink to {partitions}",
            )
        return self.add_partitions(name, partitions) if partitions > topic.partitions else topic

    def create(self, name: str, partitions: int, configs: Mapping[str, str] | None = None) -> Topic:
        """A new topic with a new id, as a client asks for it. `partitions` is at least 1."""
        if len(self._topics) >= MAX_CREATED_TOPICS and name not in self._topics:
            raise TooManyTopicsError("name", f"at most {MAX_CREATED_TOPICS} topics can be created")
        return self._new(name, partitions, configs or {})

    def delete(self, name: str) -> None:
        """Forget the topic, its id and its partitions."""
        topic = self._topic(name)
        with self.together():
            del self._topics[name], self._by_id[topic.topic_id]
            self._touched = True

    def add_partitions(self, name: str, partitions: int) -> Topic:
        """Grow to `partitions` in all; it must be more than there are."""
        topic = self._topic(name)
        check_partitions(partitions)
        if partitions <= topic.partitions:
            raise InvalidPartitionsError(
                "partitions",
                f"The topic {name} currently has {topic.partitions} partition(s); "
                f"{partitions} would not be an increase.",
            )
        topic = replace(topic, partitions=partitions)
        self._put(topic)
        return topic

    def set_end_offsets(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """Say where partitions end: what ListOffsets answers and lag is measured against. Not
        remembered: it is the owner's knowledge. As one change: each change costs a look at the
        whole catalogue."""
        by_topic: dict[str, dict[int, int]] = {}
        for (name, partition), offset in offsets.items():
            topic = self._topic(name)
            if not 0 <= partition < topic.partitions:
                raise ArgumentError("partition", f"topic {name} has {topic.partitions} partitions")
            if offset < 0:
                raise ArgumentError("offset", f"{offset} is negative")
            by_topic.setdefault(name, {})[partition] = offset
        for name, ends in by_topic.items():
            topic = self._topics[name]
            topic = replace(topic, end_offsets={**topic.end_offsets, **ends})
            self._topics[name] = self._by_id[topic.topic_id] = topic
        self._changed()

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """All changes within are stored and reported once, at the end: each alone costs a write
        of the whole catalogue. If that raises, as the store does, none of them was made."""
        if self._changing:
            yield
            return
        before = self._topics, self._by_id, self._group_configs
        self._topics, self._by_id = dict(self._topics), dict(self._by_id)
        self._group_configs = dict(self._group_configs)
        self._changing, self._touched = True, False
        try:
            yield
            if self._touched:
                self._save()
        except BaseException:
            self._topics, self._by_id, self._group_configs = before
            raise
        finally:
            self._changing = False
        if self._touched:
            self._changed()

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call `callback()` after each change."""
        self._callbacks.append(callback)

    def _new(self, name: str, partitions: int, configs: Mapping[str, str]) -> Topic:
        check_name(name)
        if name in self._topics:
            raise TopicExistsError("name", f"topic {name} exists already")
        check_partitions(partitions)
        topic = Topic(name, new_id(), partitions, dict(configs))
        self._put(topic)
        return topic

    def _topic(self, name: str) -> Topic:
        topic = self._topics.get(name)
        if topic is None:
            raise UnknownTopicError("name", f"topic {name} does not exist")
        return topic

    def _put(self, topic: Topic) -> None:
        if not self._changing:
            with self.together():
                return self._put(topic)
        self._topics[topic.name] = self._by_id[topic.topic_id] = topic
        self._touched = True
        return None

    def _save(self) -> None:
        """Store a change before clients see it: what they have seen survives."""
        if self._store is None:
            return
        document = dict(self._other)
        if self._group_configs:
            document["group_configs"] = self._group_configs
        if isinstance(self._store, PartsStore):
            self._store.write_parts(document, "topics", self._members())
        else:
            self._store.write({**document, "topics": _document_of(self._topics.values())})

    def _members(self) -> list[str]:
        """Each topic as a member of the stored object; encoded once, as most are what they were."""
        before, self._encoded = self._encoded, {}
        for name, topic in self._topics.items():
            known = before.get(name)
            if known is None or known[0] is not topic:
                known = topic, f"{json.dumps(name)}: {json.dumps(_fields_of(topic))}"
            self._encoded[name] = known
        return [text for _, text in self._encoded.values()]

    def _changed(self) -> None:
        self._version += 1
        for callback in self._callbacks:
            callback()


def stored_topics(store: Store) -> list[Topic]:
    """The topics that a store remembers; none where it is empty. Raises StoredCatalogueError."""
    return _topics_of(store.read())


def store_topics(store: Store, topics: Iterable[Topic], cluster_id: str | None = None) -> None:
    """Begins a catalogue of topics that have their ids already; with a new cluster id, if it has
    none."""
    store.write({"cluster_id": cluster_id or new_id_text(), "topics": _document_of(topics)})


def native_topics(catalogue: Catalogue) -> list[tuple[str, bytes, int]]:
    """The catalogue as `_native.Node.set_topics` takes it."""
    return [(t.name, t.topic_id.bytes, t.partitions) for t in catalogue.topics().values()]


def native_end_offsets(catalogue: Catalogue) -> dict[str, dict[int, int]]:
    """The same of what is known of ends: topic to partition to end offset."""
    topics = catalogue.topics().values()
    return {topic.name: dict(topic.end_offsets) for topic in topics if topic.end_offsets}


def check_name(name: str) -> None:
    """Raise InvalidTopicError where Kafka would (Topic.validate)."""
    if name in (".", "..") or _LEGAL_NAME.fullmatch(name) is None or name in INTERNAL_TOPICS:
        raise InvalidTopicError(
            "name",
            f"'{name}' is no topic name: 1 to 249 ASCII letters, digits, '.', '_' and '-', "
            "not '.', '..' or the name of an internal topic",
        )


def check_partitions(partitions: int) -> None:
    """Raise InvalidPartitionsError for a number no topic can have."""
    if not 1 <= partitions <= MAX_PARTITIONS:
        raise InvalidPartitionsError(
            "partitions", f"{partitions} is not between 1 and {MAX_PARTITIONS}"
        )


# The number of `-` in URL-safe base64.
_DASH = 62


def new_id() -> uuid.UUID:
    """A topic id whose text does not begin with a dash (as Kafka's Uuid.randomUuid)."""
    while True:
        drawn = secrets.token_bytes(16)
        if drawn[0] >> 2 != _DASH:
            return uuid.UUID(bytes=drawn, version=4)


def new_id_text() -> str:
    """A new id in Kafka's text form: a cluster id."""
    return id_text(new_id())


def id_text(topic_id: uuid.UUID) -> str:
    """URL-safe base64 without padding, as Kafka prints ids."""
    return base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


def _document_of(topics: Iterable[Topic]) -> dict[str, Any]:
    return {topic.name: _fields_of(topic) for topic in topics}


def _fields_of(topic: Topic) -> dict[str, Any]:
    return {
        "topic_id": str(topic.topic_id),
        "partitions": topic.partitions,
        "configs": dict(topic.configs),
    }


def _group_configs_of(document: dict[str, Any] | None) -> dict[str, dict[str, str]]:
    try:
        return {
            str(group_id): {str(name): str(int(value)) for name, value in configs.items()}
            for group_id, configs in (document or {}).get("group_configs", {}).items()
        }
    except (AttributeError, TypeError, ValueError) as error:
        raise StoredCatalogueError(
            f"the stored configurations of groups cannot be read ({error!r}); restore the state "
            "file from a copy"
        ) from error


def _topics_of(document: dict[str, Any] | None) -> list[Topic]:
    try:
        return [
            Topic(name, uuid.UUID(topic["topic_id"]), int(topic["partitions"]), topic["configs"])
            for name, topic in (document or {}).get("topics", {}).items()
        ]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise StoredCatalogueError(
            f"the stored topics cannot be read ({error!r}); restore the state file from a copy, "
            "or delete it to begin with new topic ids"
        ) from error
