"""A consumer in a process that is killed or stopped: its library (`confluent`, `kafka-python`), and
a JSON object with the configuration of librdkafka and the `topics`."""

from __future__ import annotations

import json
import sys
from typing import Any


def confluent(config: dict[str, Any], topics: list[str]) -> None:
    from confluent_kafka import Consumer

    consumer = Consumer(config)
    consumer.subscribe(topics)
    say_up()
    while True:
        consumer.poll(0.1)


def kafka_python(config: dict[str, Any], topics: list[str]) -> None:
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(
        *topics,
        bootstrap_servers=config["bootstrap.servers"],
        group_id=config["group.id"],
        client_id=config["client.id"],
        session_timeout_ms=config["session.timeout.ms"],
        heartbeat_interval_ms=config["heartbeat.interval.ms"],
    )
    say_up()
    while True:
        consumer.poll(timeout_ms=500)


def say_up() -> None:
    sys.stdout.write("up\n")
    sys.stdout.flush()


def main() -> None:
    config = json.loads(sys.argv[2])
    topics = config.pop("topics")
    {"confluent": confluent, "kafka-python": kafka_python}[sys.argv[1]](config, topics)


main()
