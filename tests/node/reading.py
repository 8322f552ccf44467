"""Groups of every client library that read records and commit what they read, and the checker
beside them."""

from __future__ import annotations

import asyncio
import bisect
import itertools
import threading
import time
from collections import defaultdict
from collections.abc import Callable

from clients.driver import ClientConsumer, ClientError, Partition
from clients.fixtures import SETTINGS, Programs
from cluster.check.clients import Clients
from cluster.check.command import Outcome, _make_topic
from cluster.check.history import Commit, Fetch, History
from cluster.check.wire import Address
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

_WAIT_S = 150.0
_PAUSE_S = 0.1
# Once in so many commits the coordinator is asked for what is committed.
_ASKED = 4
# These do not say whether a commit went well: they are asked for what is committed.
_SILENT = {"sarama", "kafkajs"}
# A broker that has just begun to lead tells what its followers had of the last leader for a moment.
_STALE_S = 10.0


class Reading:
    """One consumer of a library in a group of its own, bootstrapped at the brokers. It commits what
    its application was given, again and again. `failures` are commits that failed, `unanswered` are
    questions for what is committed that did, `wrong` is what no coordinator may say; each with the
    phase in which it was."""

    def __init__(self, programs: Programs, library: str, bootstrap: str, topic: str) -> None:
        self.library = library
        self.group = f"{topic}-{library}"
        self.phase = ""
        self.commits = 0
        self.slowest: dict[str, float] = {}
        self.failures: list[tuple[str, str]] = []
        self.unanswered: list[tuple[str, str]] = []
        self.wrong: list[tuple[str, str]] = []
        self._ends = threading.Event()
        self._maybe: dict[Partition, set[int | None]] = {}
        """What may be committed: what was acknowledged last, and what failed since."""
        settings = SETTINGS | {"topics": [topic], "heartbeat_interval_ms": 1000}
        self.consumer: ClientConsumer = programs.another(library).open(
            library, bootstrap=bootstrap, group=self.group, **settings
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def assignments(self) -> int:
        """How often it was given partitions."""
        return sum(event.kind == "assigned" for event in self.consumer.events)

    @property
    def records(self) -> int:
        """How many its application was given, without those that came twice."""
        return sum(row.next - row.skipped for row in self.consumer.read().values())

    def go_on(self, more: int = 10) -> None:
        """Returns once so many more commits were acknowledged, and records came since."""
        commits, records = self.commits + more, self.records + more
        self._until(lambda: self.commits >= commits and self.records >= records)

    def finish(self, ends: dict[Partition, int]) -> None:
        """Returns once all is read and committed."""
        self._until(lambda: {row: of.next for row, of in self.consumer.read().items()} == ends)
        self.go_on_committing()
        self.end()

    def end(self) -> None:
        """Commits no more, whatever came of it."""
        self._ends.set()
        self._thread.join(_WAIT_S)

    def go_on_committing(self) -> None:
        """Returns once what was read by now is committed."""
        commits = self.commits + 2
        self._until(lambda: self.commits >= commits)

    def committed(self, partitions: dict[Partition, int]) -> dict[Partition, int | None]:
        """What the coordinator says."""
        return self.consumer.committed(partitions)

    def _until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _WAIT_S
        while not condition():
            assert time.monotonic() < deadline, (
                self.library, self.phase, self.commits, self.failures, self.consumer.read(),
                self.consumer.events,
            )  # fmt: skip
            time.sleep(0.2)

    def _run(self) -> None:
        turn = 0
        while not self._ends.wait(_PAUSE_S):
            if not self.consumer.assignment:
                continue
            phase = self.phase
            began = time.monotonic()
            turn += 1
            kept = self.failures
            try:
                self._commit()
                if turn % _ASKED == 0:
                    kept = self.unanswered
                    self._ask()
            except (ClientError, TimeoutError) as error:
                kept.append((phase, str(error)[:200]))
            took = time.monotonic() - began
            self.slowest[phase] = max(self.slowest.get(phase, 0.0), took)

    def _commit(self) -> None:
        offsets = {row: of.next for row, of in self.consumer.read().items()}
        if not offsets:
            return
        for row, offset in offsets.items():
            self._maybe.setdefault(row, {None}).add(offset)
        self.consumer.commit(offsets)
        if self.library in _SILENT and self.consumer.committed(offsets) != offsets:
            raise ClientError("not committed")
        for row, offset in offsets.items():
            self._maybe[row] = {offset}
        self.commits += 1

    def _ask(self) -> None:
        deadline = time.monotonic() + _STALE_S
        while True:
            found = self.consumer.committed(self._maybe)
            lost = {row: at for row, at in found.items() if at not in self._maybe[row]}
            if not lost:
                return
            if time.monotonic() > deadline:
                self.wrong.append((self.phase, f"{lost}, not of {self._maybe}"))
                return
            time.sleep(_PAUSE_S)


class Writing:
    """Records for `topic`, all the time. `failed`: errors of those that may be there or not."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.failed: list[str] = []
        self._bootstrap, self._topic, self._partitions = bootstrap, topic, partitions
        self._ends = threading.Event()
        self._acknowledged: dict[Partition, int] = {}
        # Not idempotent: brokers that are restarted may make that end with a fatal error, which
        # confluent-kafka raises out of `poll`. A record that is there twice does no harm here.
        self._producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0})
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Writes no more, whatever came of it."""
        self._ends.set()

    def stop(self) -> dict[Partition, int]:
        """Writes no more; returns where the partitions end, with all that was acknowledged."""
        self.end()
        self._thread.join(60)
        assert self._producer.flush(60) == 0
        asked = Consumer({"bootstrap.servers": self._bootstrap, "group.id": "unused"})
        try:
            ends = {
                row: asked.get_watermark_offsets(TopicPartition(*row), timeout=60)[1]
                for row in self._acknowledged
            }
        finally:
            asked.close()
        assert all(ends[row] >= end for row, end in self._acknowledged.items())
        return ends

    def _run(self) -> None:
        number = 0
        while not self._ends.wait(0.05):
            for _ in range(3):
                self._producer.produce(
                    self._topic, b"%d" % number, partition=number % self._partitions,
                    on_delivery=self._delivered,
                )  # fmt: skip
                number += 1
            self._producer.poll(0)

    def _delivered(self, error: KafkaError | None, record: Message) -> None:
        """Must not raise: the producer cannot pass it on."""
        if error is not None:
            self.failed.append(f"{record.partition()}: {error}")
            return
        row, offset = (self._topic, record.partition()), record.offset()
        self._acknowledged[row] = max(self._acknowledged.get(row, 0), offset + 1)


class Checking:
    """The check of tests/cluster/check, on a thread of its own until `outcome`."""

    def __init__(self, nodes: list[Address], name: str, groups: int, members: int) -> None:
        self._nodes, self._name = nodes, name
        self._groups, self._members = groups, members
        self._ends = threading.Event()
        self._outcome: Outcome | None = None
        _make_topic(nodes, name)
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)
        self._thread.start()

    async def _run(self) -> None:
        clients = Clients(self._nodes, self._name, seed=1)
        committed, joined = (
            [f"{self._name}-{kind}-{one}" for one in range(self._groups)]
            for kind in ("committed", "joined")
        )
        clients.start(committed, joined, self._members)
        await asyncio.to_thread(self._ends.wait)
        ended = clients.now
        await clients.stop()
        self._outcome = Outcome(clients, ended)

    def outcome(self) -> Outcome:
        """Ends the load, and judges what was seen."""
        self._ends.set()
        self._thread.join(_WAIT_S)
        assert self._outcome is not None, "the check did not end"
        return self._outcome


def without_new_leaders(history: History, node: str) -> History:
    """Without what a broker says of offsets until it has acknowledged a commit of that group. A
    broker that has just begun to lead answers with what its followers had confirmed to the last
    leader, which may be less than was acknowledged, until they fetch again. What `node` says is
    all there."""
    acknowledged: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for one in history.seen:
        if isinstance(one, Commit) and one.ended is not None:
            acknowledged[one.group].append((one.ended, one.by))
    for of_group in acknowledged.values():
        of_group.sort()

    def counts(fetch: Fetch) -> bool:
        if fetch.by == node:
            return True
        of_group = acknowledged[fetch.group]
        at = bisect.bisect_left(of_group, (fetch.began, "")) - 1
        return at >= 0 and of_group[at][1] == fetch.by

    return History(one for one in history.seen if not isinstance(one, Fetch) or counts(one))


def stale_reads(history: History) -> list[tuple[str, float]]:
    """Of each read that says less than was acknowledged before it was asked: by whom, and how many
    seconds before."""
    acknowledged: dict[tuple[str, int], list[tuple[float, int]]] = defaultdict(list)
    for one in history.seen:
        if isinstance(one, Commit) and one.ended is not None:
            acknowledged[one.group, one.partition].append((one.ended, one.offset))
    for of_register in acknowledged.values():
        of_register.sort()
        highest = itertools.accumulate((offset for _, offset in of_register), max)
        of_register[:] = zip((ended for ended, _ in of_register), highest, strict=True)
    found = []
    for one in history.seen:
        if not isinstance(one, Fetch):
            continue
        of_register = acknowledged[one.group, one.partition]
        at = bisect.bisect_left(of_register, (one.began, -1)) - 1
        if at >= 0 and of_register[at][1] > one.offset:
            found.append((one.by, one.began - of_register[at][0]))
    return found
