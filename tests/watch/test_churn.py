"""Three real brokers, minutes of groups that come and go, a broker killed in between: at each
quiet moment the watcher's tables are what the brokers answer. Long: `make test-kafka`."""

from __future__ import annotations

import asyncio
import itertools
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from clients.fixtures import Crew, Programs, programs
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from support.kafka.broker import KafkaBroker
from support.kafka.three import skip_unless_asked, three_brokers

from pykcoord.log import verify
from pykcoord.watch import Watcher, WatchSettings

from .traffic import Member, commit_in_transaction, produce

__all__ = ["programs"]

pytestmark = [pytest.mark.java, pytest.mark.client, pytest.mark.timeout(1800)]

_PARTITIONS = 6


@pytest.fixture
def minutes(pytestconfig: pytest.Config) -> float:
    skip_unless_asked(pytestconfig)
    return float(pytestconfig.getoption("--kafka-minutes"))


class _Churn:
    """Groups of librdkafka, Java and Python that come and go, until `rest`; and again after
    `resume`. Two of the groups commit by transactions, of which some are aborted."""

    def __init__(self, address: str, programs: Programs, seed: int) -> None:
        self._address = address
        self._random = random.Random(seed)
        self._programs = programs
        self._goes = threading.Event()
        self._ended = threading.Event()
        self._resting = [threading.Event() for _ in range(5)]
        jobs = [self._librdkafka, self._consumer_protocol, self._java_and_python]
        jobs += [self._transactions("txn-1"), self._transactions("txn-2")]
        self.rounds = [0] * len(jobs)
        self._threads = [
            threading.Thread(target=self._run, args=(at, job), daemon=True)
            for at, job in enumerate(jobs)
        ]
        self.failures: list[BaseException] = []
        for thread in self._threads:
            thread.start()

    def resume(self) -> None:
        for one in self._resting:
            one.clear()
        self._goes.set()

    def rest(self) -> None:
        """Returns when nobody does anything any more."""
        self._goes.clear()
        for one in self._resting:
            assert one.wait(300)

    def end(self) -> None:
        self._ended.set()
        self._goes.set()
        for thread in self._threads:
            thread.join(300)

    def _run(self, at: int, job: Callable[[], None]) -> None:
        while True:
            if not self._goes.is_set():
                self._resting[at].set()
            self._goes.wait()
            if self._ended.is_set():
                return
            try:
                job()
                self.rounds[at] += 1
            except (KafkaException, TimeoutError, RuntimeError):
                time.sleep(0.5)  # a broker is gone: clients give up, and come again
            except BaseException as error:
                self.failures.append(error)
                raise

    def _members(self, group: str, **more: object) -> None:
        made = [
            Member(self._address, group, "orders", **{"session.timeout.ms": 6000, **more})
            for _ in range(self._random.randint(1, 3))
        ]
        try:
            for one in made:
                one.assigned.wait(10)
        finally:
            for one in made:
                one.close()

    def _librdkafka(self) -> None:
        self._members(f"rd-{self._random.randrange(6)}")

    def _consumer_protocol(self) -> None:
        group = f"kip848-{self._random.randrange(3)}"
        made = [
            Member(self._address, group, "orders", **{"group.protocol": "consumer"})
            for _ in range(self._random.randint(1, 3))
        ]
        for one in made:
            one.assigned.wait(10)
        for one in made:
            one.close()

    def _java_and_python(self) -> None:
        crew = Crew(self._programs, self._address)
        try:
            for library in ("java", "kafka_python", "aiokafka"):
                if self._programs.is_available(library):
                    consumer = crew.open(library, library, topics=["orders"])
                    consumer.wait_assignment(bool, "has partitions", 30)
                    consumer.commit({next(iter(consumer.assignment)): self._random.randrange(50)})
        finally:
            crew.close()

    def _transactions(self, group: str) -> Callable[[], None]:
        numbers = itertools.count(1)

        def job() -> None:
            number = next(numbers)
            place = ("orders", number % _PARTITIONS, number)
            end = "abort" if number % 3 == 0 else "commit"
            commit_in_transaction(self._address, group, place, end)

        return job


def test_the_tables_are_what_brokers_answer_at_each_quiet_moment(
    minutes: float, tmp_path: Path, programs: Programs
) -> None:
    with three_brokers(
        tmp_path / "brokers", broker_session_timeout_ms="3000", broker_heartbeat_interval_ms="500"
    ) as brokers:
        address = ",".join(broker.address for broker in brokers)
        admin = AdminClient({"bootstrap.servers": address})
        admin.create_topics([NewTopic("orders", _PARTITIONS, 3)])["orders"].result(60)
        produce(address, "orders", _PARTITIONS, 100)
        churn = _Churn(address, programs, seed=29)
        try:
            asyncio.run(_watch(minutes, address, brokers, churn, tmp_path / "copy"))
        finally:
            churn.end()
    assert not churn.failures
    assert verify(tmp_path / "copy").sound


async def _watch(
    minutes: float, address: str, brokers: list[KafkaBroker], churn: _Churn, path: Path
) -> None:
    settings = WatchSettings.of(
        {"bootstrap.servers": address, "watch.check.interval.ms": "1000", "watch.check.groups": "5"}
    )
    watcher = await Watcher.open(settings, path)
    running = asyncio.create_task(watcher.run())
    compared = 0
    try:
        rounds = max(2, round(minutes * 2))
        for number in range(rounds):
            churn.resume()
            await asyncio.sleep(minutes * 60 / rounds)
            if number == rounds // 2:
                await asyncio.to_thread(brokers[watcher.cluster.view.controller_id - 1].kill)
            elif number == rounds // 2 + 1:
                for broker in brokers:
                    if not broker.is_running:
                        await asyncio.to_thread(broker.start)
            await asyncio.to_thread(churn.rest)
            compared += await _compare_all(watcher)
            assert not running.done(), running
        assert watcher.checker is not None
        assert watcher.checker.counts["different"] == 0
        assert watcher.follower is not None
        (path.parent / "told.txt").write_text(
            f"{compared} groups equal at {rounds} quiet moments; {watcher.checker.counts}; "
            f"{watcher.follower.counts}; rounds of clients {churn.rounds}\n"
        )
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await watcher.close()


async def _compare_all(watcher: Watcher) -> int:
    """Every group is as its coordinator describes it; those that still expire are waited for."""
    assert watcher.checker is not None
    left = {group.group_id for group in watcher.source.groups()}
    count = len(left)
    async with asyncio.timeout(120):
        while left:
            for group in watcher.source.groups():
                if group.group_id not in left:
                    continue
                before = watcher.checker.counts["equal"]
                assert await watcher.checker.check(group) == []
                if watcher.checker.counts["equal"] > before:
                    left.discard(group.group_id)
            left &= {group.group_id for group in watcher.source.groups()}
    return count
