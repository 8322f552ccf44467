"""The topics that clients see. They hold no records: a topic is a name, an id, a number of
partitions and, where its owner knows them, end offsets.

`Catalogue` is what the node APIs need, so that a user can bring his own; `TopicCatalogue` is the
default, remembered in a state file. Not thread-safe: use it on the server's loop.

A change is stored before clients see it: what they have seen survives. Until then it is gathered
(`pykcoord.gathering`).
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

from pykcoord.errors import ArgumentError, KcoordError
from pykcoord.gathering import Gathering
from pykcoord.storing import Changes, Store, Table
from pykcoord.topic_ids import new_id, new_id_text

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
_TOPICS, _GROUP_CONFIGS = _OWN = ("topics", "group_configs")


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
    """Another node of this cluster changes topics, or has just changed them. Kafka's
    NOT_CONTROLLER: ask again."""


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


Changed = Mapping[str, tuple[Topic | None, Topic | None]]
"""Topics that were changed, by name, as they were and as they are; None: there was none, or is."""


class Catalogue(Protocol):
    """What the node APIs ask. `version` is another one after each change of anything."""

    @property
    def version(self) -> int: ...
    def topics(self) -> Mapping[str, Topic]: ...
    def by_id(self, topic_id: uuid.UUID) -> Topic | None: ...
    def create(
        self, name: str, partitions: int, configs: Mapping[str, str] | None = None
    ) -> Topic: ...
    def delete(self, name: str, topic_id: uuid.UUID | None = None) -> None: ...
    def group_configs(self) -> Mapping[str, Mapping[str, str]]: ...
    def next_group_configs(self, group_id: str) -> Mapping[str, str]: ...
    def set_group_configs(self, group_id: str, configs: Mapping[str, str]) -> None: ...
    def add_partitions(self, name: str, partitions: int) -> Topic: ...
    def together(self) -> contextlib.AbstractContextManager[None]: ...
    def gathered(self) -> contextlib.AbstractContextManager[Changes]: ...
    def pending(self) -> Sequence[Changes]: ...
    def store_soon(self) -> None: ...
    def on_change(self, callback: Callable[[], None]) -> None: ...


class TopicCatalogue:
    """Topics in memory, remembered in `store` if there is one.

    `topics` (name to number of partitions) are created, or grown, at the start. Raises
    ArgumentError subclasses that name the argument, and what the store raises.
    """

    def __init__(self, topics: Mapping[str, int] | None = None, store: Store | None = None) -> None:
        self._callbacks: list[Callable[[], None]] = []
        self._of_topics: list[Callable[[Changed], None]] = []
        self._untold: deque[tuple[Changed, bool]] = deque()
        self._is_telling = False
        document = store.read() if store is not None else None
        other = {k: v for k, v in (document or {}).items() if k not in _OWN}
        self.cluster_id = other.setdefault("cluster_id", new_id_text())
        topics_of = {topic.name: topic for topic in _topics_of(document)}
        self._topics = Table(topics_of, _fields_of, _topic_of)
        self._by_id = {topic.topic_id: topic for topic in self._topics.current.values()}
        configs_of = _group_configs_of(document)
        self._group_configs: Table[dict[str, str]] = Table(configs_of, dict, _configs_of)
        self._version = 0
        tables: dict[str, Table[Any]] = {
            _TOPICS: self._topics, _GROUP_CONFIGS: self._group_configs,
        }  # fmt: skip
        self._gathering = Gathering(store, other, tables, self._stored, _changed_elsewhere)
        if store is not None and (document is None or "cluster_id" not in document):
            self._gathering.write_all()
        with self.together():
            for name, partitions in (topics or {}).items():
                self.ensure(name, partitions)

    @property
    def version(self) -> int:
        """Goes up with each change."""
        return self._version

    def topics(self) -> Mapping[str, Topic]:
        """All topics by name. Another object after each change but of end offsets."""
        return self._topics.current

    def by_id(self, topic_id: uuid.UUID) -> Topic | None:
        """The topic of that id."""
        return self._by_id.get(topic_id)

    def reload(self) -> None:
        """Take the topics that the store has now: others may change it too. Ends of partitions are
        kept. Changes that are gathered are made on top, unless others have changed the same. Raises
        what the store raises, and StoredCatalogueError."""
        self._gathering.read_now()

    def reload_soon(self) -> asyncio.Future[None]:
        """The same beside the loop, and in slices, where the store gives text; done then, or it has
        the error. To be called on a loop."""
        return self._gathering.read_soon()

    def take(
        self,
        topics: Mapping[str, Topic | None],
        group_configs: Mapping[str, Mapping[str, str]],
        is_all: bool,
    ) -> None:
        """Topics and what is set for groups, as the owner of the store has changed them there;
        None: a topic is gone, and nothing is set for a group without settings. Without `is_all`
        there is more."""
        changes = Changes()
        changes.of[self._topics] = dict(topics)
        changes.of[self._group_configs] = {
            group_id: dict(configs) or None for group_id, configs in group_configs.items()
        }
        self._gathering.take(changes, is_all)

    @property
    def is_behind(self) -> bool:
        """Whether the last `reload` could not read what the store has: it is to be tried again,
        also where the store counts that as read."""
        return self._gathering.is_behind

    def group_configs(self) -> Mapping[str, Mapping[str, str]]:
        """What is set for single groups, by group id and by the name of a setting of Kafka's
        `GroupConfig`; groups for which nothing is set are not there. Another object after each
        change of them."""
        return self._group_configs.current

    def next_group_configs(self, group_id: str) -> Mapping[str, str]:
        """What is set for a group once all that is gathered is stored."""
        return self._gathering.next(self._group_configs, group_id) or {}

    def set_group_configs(self, group_id: str, configs: Mapping[str, str]) -> None:
        """Set exactly these for a group; the caller has checked them. Raises what the store
        raises, and then nothing has changed."""
        with self.together():
            if configs == self.next_group_configs(group_id):
                return
            known = self._group_configs.texts
            others = len(known) - (group_id in known)
            if configs and others >= MAX_CONFIGURED_GROUPS:
                reason = f"at most {MAX_CONFIGURED_GROUPS} groups can have settings of their own"
                raise TooManyConfigsError("group_id", reason)
            self._gathering.gather(self._group_configs, group_id, dict(configs) or None)

    def ensure(self, name: str, partitions: int) -> Topic:
        """The topic with at least `partitions` partitions: created, grown, or as it is."""
        topic = self._gathering.next(self._topics, name)
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
        known = self._topics.texts
        if len(known) >= MAX_CREATED_TOPICS and name not in known:
            raise TooManyTopicsError("name", f"at most {MAX_CREATED_TOPICS} topics can be created")
        return self._new(name, partitions, configs or {})

    def delete(self, name: str, topic_id: uuid.UUID | None = None) -> None:
        """Forget the topic, its id and its partitions; with `topic_id` only the topic that has it,
        which may be about to go already, and a new one of its name about to come."""
        topic = self._topic(name)
        if topic_id not in (None, topic.topic_id):
            raise UnknownTopicError("topic_id", f"no topic has the id {topic_id} any more")
        with self.together():
            self._gathering.gather(self._topics, name, None)

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
        with self.together():
            self._gathering.gather(self._topics, name, topic)
        return topic

    def set_end_offsets(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """Say where partitions end: what ListOffsets answers and lag is measured against. Not
        remembered: it is the owner's knowledge. As one change, which costs less than many."""
        by_topic: dict[str, dict[int, int]] = {}
        for (name, partition), offset in offsets.items():
            topic = _known(name, self._topics.current.get(name))
            if not 0 <= partition < topic.partitions:
                raise ArgumentError("partition", f"topic {name} has {topic.partitions} partitions")
            if offset < 0:
                raise ArgumentError("offset", f"{offset} is negative")
            by_topic.setdefault(name, {})[partition] = offset
        changed = {}
        for name, ends in by_topic.items():
            before = self._topics.current[name]
            topic = replace(before, end_offsets={**before.end_offsets, **ends})
            self._put(topic)
            changed[name] = before, topic
        self._version += 1
        self._tell(changed)

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """All changes within are stored and told once, at the end, with what is gathered. If that
        raises, as the store does, none of them was made."""
        if self._gathering.is_in_block:
            yield
            return
        with self._gathering.block() as changes:
            yield
        if changes:
            self._gathering.store_now()
        if changes.error is not None:
            raise changes.error

    def gathered(self) -> contextlib.AbstractContextManager[Changes]:
        """All changes within are gathered, and stored by `store_soon` or with the next change. If
        it raises, none of them."""
        return self._gathering.block()

    def pending(self) -> Sequence[Changes]:
        """Changes that are gathered, and not stored yet."""
        return self._gathering.pending()

    def store_soon(self) -> None:
        """Begin to store what is gathered, beside the loop where the store can; its `Changes` say
        when that is done. To be called on a loop."""
        self._gathering.store_soon()

    def close(self) -> None:
        """Wait for what is written now. Nothing is told any more."""
        self._gathering.close()

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call `callback()` after each change."""
        self._callbacks.append(callback)

    def on_topics(self, callback: Callable[[Changed], None]) -> None:
        """Call `callback(changed)` after each change of topics, before those of `on_change`."""
        self._of_topics.append(callback)

    def _new(self, name: str, partitions: int, configs: Mapping[str, str]) -> Topic:
        check_name(name)
        if name in self._topics.texts:
            raise TopicExistsError("name", f"topic {name} exists already")
        check_partitions(partitions)
        topic = Topic(name, new_id(), partitions, dict(configs))
        with self.together():
            self._gathering.gather(self._topics, name, topic)
        return topic

    def _topic(self, name: str) -> Topic:
        return _known(name, self._gathering.next(self._topics, name))

    def _put(self, topic: Topic) -> None:
        self._topics.current[topic.name] = self._by_id[topic.topic_id] = topic

    def _stored(self, changes: Changes, is_all: bool) -> Callable[[], None]:
        if configs := changes.of.get(self._group_configs):
            known = self._group_configs.current | configs
            self._group_configs.current = {id_: of for id_, of in known.items() if of is not None}
        changed: dict[str, tuple[Topic | None, Topic | None]] = {}
        if topics := changes.of.get(self._topics):
            # Others may iterate over it. Unlike this, `dict()` is slow where some are gone.
            self._topics.current = self._topics.current.copy()
            changed = {name: self._change(name, topic) for name, topic in topics.items()}
        self._version += 1
        return partial(self._tell, changed, is_all)

    def _change(self, name: str, topic: Topic | None) -> tuple[Topic | None, Topic | None]:
        before = self._topics.current.get(name)
        if before is not None:
            del self._by_id[before.topic_id]
        if topic is None:
            self._topics.current.pop(name, None)
            return before, None
        if before is not None and before.topic_id == topic.topic_id:
            topic = replace(topic, end_offsets=before.end_offsets)
        self._put(topic)
        return before, topic

    def _tell(self, changed: Changed, is_all: bool = True) -> None:
        """All hear of changes in the order in which they were made, also of those that are made by
        somebody who is told. What was raised first is raised at the end."""
        self._untold.append((changed, is_all))
        if self._is_telling:
            return
        failure = None
        self._is_telling = True
        try:
            while self._untold:
                try:
                    self._tell_next(*self._untold.popleft())
                except Exception as error:
                    failure = failure or error
        finally:
            self._is_telling = False
        if failure is not None:
            raise failure

    def _tell_next(self, changed: Changed, is_all: bool) -> None:
        if changed:
            for of_topics in self._of_topics:
                of_topics(changed)
        for callback in self._callbacks if is_all else ():
            callback()


def _changed_elsewhere() -> NotControllerError:
    return NotControllerError("another node has changed the topics; ask again")


def _known(name: str, topic: Topic | None) -> Topic:
    if topic is None:
        raise UnknownTopicError("name", f"topic {name} does not exist")
    return topic


def stored_topics(store: Store) -> list[Topic]:
    """The topics that a store remembers; none where it is empty. Raises StoredCatalogueError."""
    return _topics_of(store.read())


def store_topics(store: Store, topics: Iterable[Topic], cluster_id: str | None = None) -> None:
    """Begins a catalogue of topics that have their ids already; with a new cluster id, if it has
    none."""
    store.write({"cluster_id": cluster_id or new_id_text(), "topics": _document_of(topics)})


def native_topic(topic: Topic) -> tuple[str, bytes, int]:
    """A topic as `_native.Node.set_topics` takes it."""
    return topic.name, topic.topic_id.bytes, topic.partitions


def native_topics(catalogue: Catalogue) -> list[tuple[str, bytes, int]]:
    """The same of all topics."""
    return list(map(native_topic, catalogue.topics().values()))


def native_end_offsets(topics: Iterable[Topic]) -> dict[str, dict[int, int]]:
    """The same of what is known of ends: topic to partition to end offset."""
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
        groups = (document or {}).get("group_configs", {}).items()
    except AttributeError as error:
        raise _unreadable_configs(error) from error
    return {str(group_id): _configs_of(group_id, configs) for group_id, configs in groups}


def _configs_of(group_id: str, configs: Any) -> dict[str, str]:
    try:
        return {str(name): str(int(value)) for name, value in configs.items()}
    except (AttributeError, TypeError, ValueError) as error:
        raise _unreadable_configs(error) from error


def _unreadable_configs(error: Exception) -> StoredCatalogueError:
    return StoredCatalogueError(
        f"the stored configurations of groups cannot be read ({error!r}); restore the state "
        "file from a copy"
    )


def _topics_of(document: dict[str, Any] | None) -> list[Topic]:
    try:
        topics = (document or {}).get("topics", {}).items()
    except AttributeError as error:
        raise _unreadable_topics(error) from error
    return [_topic_of(name, fields) for name, fields in topics]


def _topic_of(name: str, fields: Any) -> Topic:
    try:
        topic_id, partitions = uuid.UUID(fields["topic_id"]), int(fields["partitions"])
        return Topic(name, topic_id, partitions, fields["configs"])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _unreadable_topics(error) from error


def _unreadable_topics(error: Exception) -> StoredCatalogueError:
    return StoredCatalogueError(
        f"the stored topics cannot be read ({error!r}); restore the state file from a copy, "
        "or delete it to begin with new topic ids"
    )
