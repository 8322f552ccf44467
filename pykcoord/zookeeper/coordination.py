"""What a member of scheme 1 does, request by request, as 0.8.2.2 does it. Sans-IO.

Each method is a generator of operations. Where `safe` is set it deviates, in the four ways that
docs/zookeeper.md lists. One member's methods run one at a time, but for `commit`. Source:
kafka.consumer.ZookeeperConsumerConnector; zookeeper sections 3 to 5 and 8.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pykcoord.consumer_protocol import TopicPartition
from pykcoord.zookeeper.assignment import assign, threads_by_topic
from pykcoord.zookeeper.errors import StrategyError, ZooKeeperError
from pykcoord.zookeeper.operations import (
    ANY_VERSION,
    BadVersionError,
    Children,
    Create,
    Delete,
    Exists,
    Get,
    NodeExistsError,
    NoNodeError,
    Revoke,
    Session,
    Set,
    Steps,
    create_ephemeral,
    create_parents,
)
from pykcoord.zookeeper.registration import VERSION, Registration, offset_of, partitions_of

BROKERS = "/brokers/ids"
TOPICS = "/brokers/topics"
_NO_OFFSET = -1


@dataclass
class Outcome:
    """How an attempt ended: `failure` says why nothing is owned, None that it succeeded.
    `conflicts`: claims that somebody else had."""

    failure: str | None = None
    conflicts: int = 0


class Coordination:
    """The coordination of one member: what it has registered, owns, and has seen."""

    def __init__(
        self,
        group_id: str,
        consumer_id: str,
        registration: Registration,
        strategy: str,
        *,
        exclude_internal_topics: bool = True,
        safe: bool = False,
    ) -> None:
        self.group = f"/consumers/{group_id}"
        self.ids = f"{self.group}/ids"
        self.consumer_id = consumer_id
        self.registration = registration
        self.owned: dict[TopicPartition, str] = {}
        """What it believes it owns: partition to thread id."""
        self.warnings: list[str] = []
        """What was odd in the last attempt, and was passed over."""
        self._strategy = strategy
        self._excludes = exclude_internal_topics
        self._safe = safe
        self._session = 0
        # Last read or written, and with `safe` the version of the znode.
        self._offsets: dict[TopicPartition, int] = {}
        self._versions: dict[TopicPartition, int] = {}
        # What is compared after a connection was lost: names of members, and zxids of topics.
        self._seen: dict[str, object] = {}

    @property
    def path(self) -> str:
        """Its registration."""
        return f"{self.ids}/{self.consumer_id}"

    def owner_path(self, one: TopicPartition) -> str:
        """Where a partition is claimed."""
        return f"{self.group}/owners/{one.topic}/{one.partition}"

    def offset_path(self, one: TopicPartition) -> str:
        """Where a partition's offset is."""
        return f"{self.group}/offsets/{one.topic}/{one.partition}"

    def register(self, registration: Registration) -> Steps[bool]:
        """Create the registration. False: another one is there, to be waited for."""
        self.registration = registration
        self._session = yield Session()
        data = registration.encode()
        try:
            yield from create_ephemeral(self.path, data)
        except NodeExistsError:
            try:
                found = yield Get(self.path, False)
            except NoNodeError:
                return False
            return bool(found.data == data)
        return True

    def is_registered(self) -> Steps[bool]:
        """Whether its registration is there, made by the present session."""
        session = yield Session()
        try:
            found = yield Get(self.path, False)
        except NoNodeError:
            return False
        return bool(found.ephemeral_owner == session)

    def subscribe(self) -> Steps[bool]:
        """Set all watches. True: something has changed since it was last seen."""
        before = dict(self._seen)
        yield from self._watch_ids()
        for topic in (yield from self._own_topics(watch=False)):
            path = f"{TOPICS}/{topic}"
            self._see(path, (yield Exists(path, True)))
        if self.registration.filter is not None:
            yield from self._watch_topics()
        return before != self._seen

    def changed(self, path: str) -> Steps[bool]:
        """A watch of `path` fired: look, and set it again. True: it takes a rebalance."""
        if path == self.ids:
            yield from self._watch_ids()
            return True
        if path == TOPICS:
            before = self._seen.get(TOPICS)
            yield from self._watch_topics()
            return self._seen.get(TOPICS) != before
        yield Exists(path, True)
        try:
            if path == BROKERS:
                yield Children(path, True)
            else:
                self._see(path, (yield Get(path, True)))
        except NoNodeError:
            pass
        return True

    def attempt(self) -> Steps[Outcome]:
        """One attempt of a rebalance. Afterwards `owned` is what was claimed, or empty; without
        any broker, what it was."""
        self.warnings = []
        try:
            yield from self._brokers()
            yield from self._own_topics(watch=False, read=True)
            if not (yield from self._brokers()):
                yield Exists(BROKERS, True)
                yield from self._children(BROKERS, True)
                return Outcome()
            yield Revoke()
            yield from self._release()
            wanted = yield from self._look_and_assign()
            offsets = {}
            for one in wanted:
                offsets[one] = yield from self._read_offset(one)
        except (ZooKeeperError, StrategyError) as error:
            return Outcome(failure=str(error))
        return (yield from self._claim(wanted, offsets))

    def forget(self) -> None:
        """Its session is gone, and with it all claims: what is there now may be others'."""
        self.owned = {}

    def commit(self, offsets: Mapping[TopicPartition, int]) -> Steps[None]:
        """Write the offsets that differ from what this member last read or wrote.

        With `safe`: raises ZooKeeperError for a partition that it does not own, or whose offset
        somebody else has changed since it was claimed.
        """
        for one, offset in offsets.items():
            path = self.offset_path(one)
            if self._safe and one not in self.owned:
                raise ZooKeeperError(path, f"not committed: {self.consumer_id} does not own it")
            if self._offsets.get(one) == offset:
                continue
            version = self._versions.get(one, ANY_VERSION) if self._safe else ANY_VERSION
            try:
                self._versions[one] = yield from _write(path, str(offset).encode(), version)
            except BadVersionError:
                reason = "not committed: somebody else has changed it"
                raise ZooKeeperError(path, reason) from None
            self._offsets[one] = offset

    def committed(self, one: TopicPartition) -> Steps[int | None]:
        """The offset of a partition, None without one. Raises BadOffsetError."""
        path = self.offset_path(one)
        try:
            found = yield Get(path, False)
        except NoNodeError:
            return None
        return offset_of(found.data, path)

    def all_committed(self) -> Steps[dict[TopicPartition, int]]:
        """All offsets of the group."""
        found: dict[TopicPartition, int] = {}
        path = f"{self.group}/offsets"
        for topic in sorted((yield from self._children(path))):
            for number in sorted((yield from self._children(f"{path}/{topic}")), key=int):
                one = TopicPartition(topic, int(number))
                offset = yield from self.committed(one)
                if offset is not None:
                    found[one] = offset
        return found

    def _see(self, path: str, node: object) -> None:
        self._seen[path] = getattr(node, "modified_zxid", None)

    def _children(self, path: str, watch: bool = False) -> Steps[list[str]]:
        """The names below a path; none where it is not there."""
        try:
            found: list[str] = yield Children(path, watch)
        except NoNodeError:
            return []
        return found

    def _watch_ids(self) -> Steps[None]:
        yield Exists(self.ids, True)
        self._seen[self.ids] = sorted((yield from self._children(self.ids, True)))

    def _watch_topics(self) -> Steps[None]:
        yield Exists(TOPICS, True)
        names = yield from self._children(TOPICS, True)
        self._seen[TOPICS] = sorted(self._streams(self.registration, names))

    def _streams(self, registration: Registration, topics: list[str]) -> dict[str, int]:
        return registration.streams(topics, exclude_internal_topics=self._excludes)

    def _brokers(self) -> Steps[list[str]]:
        brokers = yield from self._children(BROKERS)
        for broker in brokers:
            yield Get(f"{BROKERS}/{broker}", False)
        return brokers

    def _own_topics(self, *, watch: bool, read: bool = False) -> Steps[dict[str, int]]:
        """Topics with numbers of streams, of the own registration (`read`: as it stands there).
        `watch`: for a list, whether new topics are heard of."""
        registration = self.registration
        if read:
            found = yield Get(self.path, False)
            registration = Registration.decode(found.data, self.path)
        topics: list[str] = []
        if registration.filter is not None:
            topics = yield from self._children(TOPICS, watch)
        return self._streams(registration, topics)

    def _release(self) -> Steps[None]:
        for one, thread in list(self.owned.items()):
            yield from self._give_back(one, thread)
        self.owned = {}

    def _give_back(self, one: TopicPartition, thread: str) -> Steps[None]:
        """Delete a claim: unconditionally, or with `safe` only if it is this session's own."""
        path, version = self.owner_path(one), ANY_VERSION
        try:
            if self._safe:
                found = yield Get(path, False)
                if found.data != thread.encode() or found.ephemeral_owner != self._session:
                    return
                version = found.version
            yield Delete(path, version)
        except (NoNodeError, BadVersionError):
            pass

    def _look_and_assign(self) -> Steps[dict[TopicPartition, str]]:
        """Read topics and members, and compute what this member owns."""
        own = yield from self._own_topics(watch=False, read=True)
        partitions = {}
        for topic in own:
            path = f"{TOPICS}/{topic}"
            try:
                found = yield Get(path, True)
            except NoNodeError:
                continue
            self._see(path, found)
            partitions[topic] = partitions_of(found.data, path)
        names = yield from self._children(self.ids, True)
        self._seen[self.ids] = sorted(names)
        members = {}
        topics: list[str] = []
        for name in names:
            path = f"{self.ids}/{name}"
            found = yield Get(path, False)
            members[name] = Registration.decode(found.data, path)
            if members[name].version != VERSION:
                self.warnings.append(
                    f"{path}: version {members[name].version}, not {VERSION}; read all the same, "
                    "as 0.8.2 does"
                )
            if members[name].filter is not None:
                topics = yield from self._children(TOPICS)
        yield from self._children(self.ids, True)
        threads = threads_by_topic(members, topics, exclude_internal_topics=self._excludes)
        return {
            one: thread
            for one, thread in assign(self._strategy, threads, partitions).items()
            if thread.rpartition("-")[0] == self.consumer_id
        }

    def _read_offset(self, one: TopicPartition) -> Steps[int]:
        path = self.offset_path(one)
        try:
            found = yield Get(path, False)
        except NoNodeError:
            self._versions.pop(one, None)
            return _NO_OFFSET
        self._versions[one] = found.version
        return offset_of(found.data, path)

    def _claim(
        self, wanted: Mapping[TopicPartition, str], offsets: Mapping[TopicPartition, int]
    ) -> Steps[Outcome]:
        claimed: dict[TopicPartition, str] = {}
        outcome = Outcome()
        for one, thread in wanted.items():
            path = self.owner_path(one)
            try:
                owner = yield from self._claim_one(path, thread)
            except ZooKeeperError as error:
                outcome.failure = str(error)
                break
            if owner is None:
                claimed[one] = thread
            else:
                outcome.conflicts += 1
                outcome.failure = f"{path}: is claimed by {owner}, not by {thread}"
        if outcome.failure is None:
            self.owned = claimed
            self._offsets = dict(offsets)
            return outcome
        for one, thread in claimed.items():
            yield from self._give_back(one, thread)
        return outcome

    def _claim_one(self, path: str, thread: str) -> Steps[str | None]:
        """None: it is this member's now; else who has it."""
        try:
            yield from create_ephemeral(path, thread.encode())
            return None
        except NodeExistsError:
            pass
        try:
            found = yield Get(path, False)
        except NoNodeError:
            return "a member that has just let go"
        own = found.data == thread.encode()
        if own and (not self._safe or found.ephemeral_owner == self._session):
            return None
        owner: str = (found.data or b"").decode("utf-8", "replace")
        return f"{owner} of an old session" if own else owner


def _write(path: str, data: bytes, version: int) -> Steps[int]:
    """Set a persistent znode, made where it is not there. Returns its version."""
    try:
        written: int = yield Set(path, data, version)
        return written
    except NoNodeError:
        yield from create_parents(path)
    try:
        yield Create(path, data, False)
        return 0
    except NodeExistsError:
        written = yield Set(path, data, version)
        return written
