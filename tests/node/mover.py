"""A consume-transform-produce loop of librdkafka, exactly once: what it reads goes to another
topic, with the offsets in the same transaction. Ends itself where it cannot go on: whoever started
it starts it again. Arguments: bootstrap servers, group, transactional id, input, output.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

_SECONDS = 30.0
_RECORDS = 20


def main(bootstrap: str, group: str, transactional_id: str, source: str, target: str) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False,
            "auto.offset.reset": "earliest", "isolation.level": "read_committed",
            "session.timeout.ms": 10_000, "log_level": 0,
        }
    )  # fmt: skip
    producer = Producer(
        {
            "bootstrap.servers": bootstrap, "transactional.id": transactional_id,
            "transaction.timeout.ms": 20_000, "log_level": 0,
        }
    )  # fmt: skip
    producer.init_transactions(_SECONDS)
    consumer.subscribe([source])
    while True:
        records = [one for one in consumer.consume(_RECORDS, 0.2) if one.error() is None]
        if not records:
            continue
        producer.begin_transaction()
        ends: dict[int, int] = {}
        for record in records:
            producer.produce(target, record.value())
            ends[record.partition()] = record.offset() + 1
        offsets = [TopicPartition(source, number, end) for number, end in ends.items()]
        retried(
            lambda offsets=offsets: producer.send_offsets_to_transaction(
                offsets, consumer.consumer_group_metadata(), _SECONDS
            )
        )
        retried(lambda: producer.commit_transaction(_SECONDS))


def retried(call: Callable[[], None]) -> None:
    """Again what may be tried again; any other error ends the program, and with it the
    transaction."""
    while True:
        try:
            call()
            return
        except KafkaException as error:
            if not error.args[0].retriable():
                raise


if __name__ == "__main__":
    main(*sys.argv[1:])
