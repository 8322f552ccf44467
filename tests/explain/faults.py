"""The fault book with real clients: each fault in a group of its own, all side by side on one
server, and what the report must say of it."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from kafka import KafkaAdminClient
from kafka.admin import MemberToRemove
from kio.schema.errors import ErrorCode
from support import orphans
from support.asked import HEARTBEAT, JOIN_GROUP, SYNC_GROUP, Asked

# A ConsumerProtocolAssignment of no partition.
NOTHING = b"\0\0\0\0\0\0\xff\xff\xff\xff"
MORTAL = Path(__file__).with_name("mortal.py")
SECONDS = 120
TOPICS = {
    "orders": 6, "narrow": 2, "grows": 2, "grows-848": 2, "first": 2, "second": 2, "zz-seed": 1,
}  # fmt: skip
SETTINGS = {
    "group.max.size": "4",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "offsets.topic.num.partitions": "5",
}


@dataclass
class Fault:
    """Of a group with so many `members`, of which `begin` makes one if it is given. `causes` are
    among those of its rebalances since the act, `says` is in the story, and `patterns` are these
    and no others."""

    causes: tuple[str, ...]
    says: str
    patterns: frozenset[str] = frozenset()
    begin: Callable[[Book, str], Any] | None = None
    act: Callable[[Book, str, Any], object] = lambda book, group, members: None
    members: int = 2
    options: dict[str, Any] = field(default_factory=dict)
    topics: tuple[str, ...] = ("orders",)
    is_mortal: bool = False


class Book:
    """A server under test, the consumers of this process (polled by one thread), and those of
    processes that are stopped or killed."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.admin = AdminClient({"bootstrap.servers": address})
        self._lock = threading.RLock()
        self._consumers: list[Consumer] = []
        self._idle: set[int] = set()
        self.ends = threading.Event()
        self._thread = threading.Thread(target=self._poll, daemon=True)
        self._thread.start()
        self.processes: list[subprocess.Popen[str]] = []

    def config(self, group: str, name: str, **options: Any) -> dict[str, Any]:
        values: dict[str, Any] = {
            "bootstrap.servers": self.address, "group.id": group, "client.id": name,
            "topic.metadata.refresh.interval.ms": 500, "log_level": 0,
        }  # fmt: skip
        if options.get("group_protocol") != "consumer":
            values |= {"session.timeout.ms": 20_000, "heartbeat.interval.ms": 300}
        return values | {key.replace("_", "."): value for key, value in options.items()}

    def start(self, group: str, name: str, *topics: str, **options: Any) -> Consumer:
        """A consumer that is polled from now on."""
        callbacks = {key: options.pop(key) for key in ("on_revoke",) if key in options}
        consumer = Consumer(self.config(group, name, **options))
        consumer.subscribe(list(topics or ("orders",)), **callbacks)
        with self._lock:
            self._consumers.append(consumer)
        return consumer

    def idle(self, consumer: Consumer) -> None:
        """Its application calls poll() no more."""
        self._idle.add(id(consumer))

    def close(self, consumer: Consumer) -> None:
        """It leaves."""
        with self._lock:
            if consumer in self._consumers:
                self._consumers.remove(consumer)
        consumer.close()

    def mortal(self, library: str, config: dict[str, Any]) -> subprocess.Popen[str]:
        """A consumer in a process of its own."""
        process = subprocess.Popen(
            [sys.executable, str(MORTAL), library, json.dumps(config)],
            stdout=subprocess.PIPE,
            text=True,
        )
        orphans.started(process)
        self.processes.append(process)
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "up"
        return process

    def later(self, seconds: float, act: Callable[[], object]) -> None:
        """Do something then, unless the book is closed."""
        timer = threading.Timer(seconds, lambda: None if self.ends.is_set() else act())
        timer.daemon = True
        timer.start()

    def end(self) -> None:
        self.ends.set()
        self._thread.join()
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()
            orphans.ended(process)
        for consumer in self._consumers:
            closing = threading.Thread(target=consumer.close, daemon=True)
            closing.start()

    def _poll(self) -> None:
        while not self.ends.is_set():
            with self._lock:
                consumers = [one for one in self._consumers if id(one) not in self._idle]
            for consumer in consumers:
                with contextlib.suppress(RuntimeError):  # closed meanwhile
                    consumer.poll(0)
            self.ends.wait(0.02)


def _restart(book: Book, group: str, consumer: Consumer, name: str) -> None:
    book.close(consumer)
    book.later(1.5, lambda: book.start(group, name))


def _flap(book: Book, group: str, members: list[Consumer]) -> None:
    current = [members[1]]

    def again() -> None:
        book.close(current[0])
        time.sleep(1)
        current[0] = book.start(group, f"{group}-1")

    for number in range(4):
        book.later(4 * number, again)


def _roll(book: Book, group: str, members: list[Consumer]) -> None:
    for number, member in enumerate(members):
        book.later(
            4.0 * number,
            lambda member=member, number=number: _restart(book, group, member, f"{group}-{number}"),
        )


def _raw(book: Book, act: Callable[[Asked], object]) -> None:
    with Asked(book.address) as asked:
        act(asked)


def _join_raw(asked: Asked, group: str, name: str | None, session_s: int, rebalance_s: int) -> Any:
    """A member that does nothing by itself: the answer to its JoinGroup."""
    of: dict[str, Any] = {
        "group_id": group, "group_instance_id": name, "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": _range_metadata()}],
        "session_timeout": timedelta(seconds=session_s),
        "rebalance_timeout": timedelta(seconds=rebalance_s),
    }  # fmt: skip
    joined = asked.ask(JOIN_GROUP, 7, **of, member_id="")
    if joined.error_code is ErrorCode.member_id_required:
        joined = asked.ask(JOIN_GROUP, 7, **of, member_id=joined.member_id)
    return joined


def _never_syncs(book: Book, group: str, members: list[Consumer]) -> None:
    def act() -> None:
        with contextlib.suppress(OSError):
            _raw(book, lambda asked: _join_raw(asked, group, "hangs", 60, 3))

    threading.Thread(target=act, daemon=True).start()


class _Deaf:
    """A member whose heartbeats go on, while its application hangs: it never joins again."""

    def __init__(self, book: Book, group: str) -> None:
        self._book = book
        threading.Thread(target=self._run, args=(group,), daemon=True).start()

    def _run(self, group: str) -> None:
        with contextlib.suppress(OSError), Asked(self._book.address) as asked:
            joined = _join_raw(asked, group, None, 60, 3)
            of = {
                "group_id": group, "generation_id": joined.generation_id,
                "member_id": joined.member_id, "group_instance_id": None,
            }  # fmt: skip
            asked.ask(
                SYNC_GROUP, 5, **of, protocol_type="consumer", protocol_name="range",
                assignments=[{"member_id": joined.member_id, "assignment": NOTHING}],
            )  # fmt: skip
            while not self._book.ends.wait(0.5):
                asked.ask(HEARTBEAT, 4, **of)


def _range_metadata() -> bytes:
    return b"\0\0\0\0\0\1\0\6orders\xff\xff\xff\xff"


def _other_assignor(book: Book, group: str, members: list[Consumer]) -> None:
    book.start(group, "odd", partition_assignment_strategy="roundrobin")


def _zombie(book: Book, group: str, members: list[Consumer]) -> None:
    member_id = members[1].memberid()
    book.close(members[1])

    def commit() -> None:
        _raw(book, lambda asked: asked.commit(
            group, [("orders", 0, 5)], generation_id=1, member_id=member_id
        ))  # fmt: skip

    for number in range(6):
        book.later(2 + number, commit)


def _admin_removes(book: Book, group: str, members: list[Consumer]) -> None:
    admin = KafkaAdminClient(bootstrap_servers=book.address, client_id="operator")
    try:
        admin.remove_group_members(group, [MemberToRemove(None, f"{group}-1", "by the operator")])
    finally:
        admin.close()


def _slow(seconds: float) -> Callable[..., None]:
    def on_revoke(consumer: Consumer, partitions: list[TopicPartition]) -> None:
        time.sleep(seconds)

    return on_revoke


class _OwnThread:
    """A consumer that is polled on a thread of its own, since it is slow."""

    def __init__(self, book: Book, group: str, seconds: float, **options: Any) -> None:
        self.consumer = Consumer(book.config(group, f"{group}-slow", **options))
        self.consumer.subscribe(["orders"], on_revoke=_slow(seconds))
        self._book = book
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while not self._book.ends.is_set():
            with contextlib.suppress(RuntimeError):
                self.consumer.poll(0.05)


def _joins(count: int, *topics: str, gap: float = 4.0) -> Callable[[Book, str, Any], None]:
    def act(book: Book, group: str, members: list[Consumer]) -> None:
        for number in range(count):
            book.later(
                gap * number, lambda number=number: book.start(group, f"new-{number}", *topics)
            )

    return act


def _grow(topic: str, partitions: int) -> Callable[[Book, str, Any], object]:
    def act(book: Book, group: str, members: list[Consumer]) -> None:
        futures = book.admin.create_partitions([NewPartitions(topic, partitions)])
        for future in futures.values():
            future.result()

    return act


def _create(topic: str) -> Callable[[Book, str, Any], object]:
    def act(book: Book, group: str, members: list[Consumer]) -> None:
        for future in book.admin.create_topics([NewTopic(topic, 2)]).values():
            future.result()

    return act


def _delete_group(book: Book, group: str, members: list[Consumer]) -> None:
    for member in members:
        book.close(member)
    for future in book.admin.delete_consumer_groups([group]).values():
        future.result()


RANGE = {"partition_assignment_strategy": "range"}
NATIVE = {"group_protocol": "consumer"}
SLOW = frozenset({"slow_poll_loop"})
SHORT = frozenset({"session_timeout_too_short"})
TWICE = frozenset({"instance_id_used_twice"})

FAULTS: dict[str, Fault] = {
    "killed": Fault(("session_expired",), "nothing was heard of it for", is_mortal=True,
                    options={"session_timeout_ms": 4_000}),
    "paused": Fault(("session_expired", "member_joined"), "is back", SHORT, is_mortal=True,
                    options={**RANGE, "session_timeout_ms": 4_000}),
    "left": Fault(("left",), "left and gave no reason.",
                  act=lambda book, group, members: book.close(members[1])),
    "joined": Fault(("member_joined",), "Member new-0-", act=_joins(1)),
    "restarted": Fault(("left", "member_joined"), "restarted-1 is back",
                       act=lambda book, group, members: _restart(
                           book, group, members[1], f"{group}-1")),
    "removed-by-admin": Fault(("removed_by_admin",), "An administrator removed instance",
                              act=_admin_removes, options={"group_instance_id": True}),
    "static-restart": Fault((), "", act=lambda book, group, members: None),
    "instance-twice": Fault((), "instance-twice-1", TWICE,
                            act=lambda book, group, members: book.start(
                                group, "twin", group_instance_id=f"{group}-1"),
                            options={"group_instance_id": True}),
    "topic-grew": Fault(("topics_changed",), "topic grows grew from 2 to 5 partitions",
                        act=_grow("grows", 5), topics=("grows",)),
    "topic-created": Fault(("metadata_changed",), "changed its subscription: ax-new",
                           act=_create("ax-new"), topics=("^ax-.*", "zz-seed")),
    "subscribes-more": Fault(("metadata_changed",), "changed its subscription: second.",
                             act=lambda book, group, members: members[1].subscribe(
                                 ["first", "second"]), topics=("first",)),
    "subscribes-less": Fault(("metadata_changed",), "no longer second",
                             act=lambda book, group, members: members[1].subscribe(["first"]),
                             topics=("first", "second")),
    "protocols-differ": Fault((), "INCONSISTENT_GROUP_PROTOCOL", frozenset({"protocols_differ"}),
                              act=_other_assignor, options=RANGE),
    "too-many-members": Fault(("member_joined",), "3 members",
                              frozenset({"more_members_than_partitions"}),
                              act=_joins(1, "narrow"), topics=("narrow",)),
    "flapping": Fault(("left", "member_joined"), "flapping-1 is back",
                      frozenset({"flapping_member"}), act=_flap),
    "rolling-deploy": Fault(("left", "member_joined"), "rolling-deploy-2 is back",
                            frozenset({"rolling_deploy"}), act=_roll, members=3),
    "full": Fault((), "GROUP_MAX_SIZE_REACHED", frozenset({"group_full"}),
                  act=lambda book, group, members: book.start(group, "one-more"), members=4),
    "bad-session": Fault((), "INVALID_SESSION_TIMEOUT",
                         frozenset({"session_timeout_out_of_bounds"}),
                         act=lambda book, group, members: book.start(
                             group, "hasty", session_timeout_ms=50, heartbeat_interval_ms=10)),
    "zombie-commits": Fault(("left",), "OffsetCommit of", frozenset({"commits_refused"}),
                            act=_zombie),
    "never-syncs": Fault(("member_joined", "sync_expired"), "sent no SyncGroup",
                         frozenset({"never_synced"}), act=_never_syncs,
                         options={**RANGE, "session_timeout_ms": 3_000,
                                  "max_poll_interval_ms": 4_000}),
    # librdkafka gives no reason.
    "slow-poll": Fault(("left",), "left and gave no reason.",
                       act=lambda book, group, members: book.idle(members[1]),
                       options={"session_timeout_ms": 3_000, "max_poll_interval_ms": 4_000}),
    "waited-for": Fault(("member_joined",), "All waited",
                        begin=lambda book, group: _OwnThread(book, group, 2.5), act=_joins(1),
                        ),
    "never-rejoins": Fault(("member_joined",), "did not join again and was removed", SLOW,
                           begin=_Deaf, members=1,
                           act=lambda book, group, members: book.start(
                               group, "new-0", session_timeout_ms=3_000,
                               max_poll_interval_ms=4_000, **RANGE)),
    "deleted": Fault(("left",), "deleted by request", act=_delete_group),
    "native-killed": Fault(("session_expired",), "nothing was heard of it for", is_mortal=True,
                           options=NATIVE),
    "native-paused": Fault(("session_expired", "member_joined"), "is back", SHORT,
                           is_mortal=True, options=NATIVE),
    "native-left": Fault(("left",), "left and gave no reason.",
                         act=lambda book, group, members: book.close(members[1]),
                         options=NATIVE),
    "native-topic-grew": Fault(("topics_changed",), "topic grows-848 grew from 2 to 4",
                               act=_grow("grows-848", 4), topics=("grows-848",), options=NATIVE),
}  # fmt: skip
