"""Groups of librdkafka on a real cluster: classic, consumer protocol, simple, transactional."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

SECONDS = 60.0


def produce(address: str, topic: str, partitions: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": address})
    for number in range(partitions * count):
        producer.produce(topic, b"x", partition=number % partitions)
    assert producer.flush(SECONDS) == 0


def commit(address: str, group: str, offsets: dict[tuple[str, int], int]) -> None:
    """As a group without members."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": group})
    places = [TopicPartition(*place, offset) for place, offset in offsets.items()]
    consumer.commit(offsets=places, asynchronous=False)
    consumer.close()


def commit_in_transaction(address: str, group: str, place: tuple[str, int, int], end: str) -> None:
    """`end`: commit or abort."""
    producer = Producer({"bootstrap.servers": address, "transactional.id": f"of-{group}"})
    consumer = Consumer({"bootstrap.servers": address, "group.id": group})
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    producer.produce(place[0], b"x", partition=place[1])
    offsets = [TopicPartition(*place)]
    producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), SECONDS)
    if end == "commit":
        producer.commit_transaction(SECONDS)
    else:
        producer.abort_transaction(SECONDS)
    consumer.close()


class Member:
    """A consumer that is polled on a thread of its own and commits what it reads."""

    def __init__(self, address: str, group: str, topic: str, **more: object) -> None:
        self.consumer = Consumer(
            {
                "bootstrap.servers": address, "group.id": group, "auto.offset.reset": "earliest",
                "enable.auto.commit": False, **more,
            }
        )  # fmt: skip
        self.commits = 0
        self.assigned = threading.Event()
        self._ends = threading.Event()
        self.consumer.subscribe([topic], on_assign=self._assigned)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Leaves the group."""
        self._ends.set()
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if partitions:
            self.assigned.set()

    def _run(self) -> None:
        while not self._ends.is_set():
            message = self.consumer.poll(0.1)
            if message is None or message.error():
                continue
            try:
                self.consumer.commit(message, asynchronous=False)
                self.commits += 1
            except KafkaException:  # of a rebalance, or a coordinator that moves
                continue
        self.consumer.close()


@contextmanager
def members(*made: Member) -> Iterator[None]:
    """Within it, each of them has partitions."""
    try:
        for one in made:
            assert one.assigned.wait(SECONDS)
        yield
    finally:
        for one in made:
            one.close()
