"""`__consumer_offsets` is made by brokers when a group first asks for its coordinator."""

from __future__ import annotations

from confluent_kafka import Consumer, KafkaException, TopicPartition

from support.waiting import eventually


def make_offsets_topic(bootstrap: str, topic: str) -> None:
    """Returns once a commit for partition 0 of `topic`, by the group `first`, is acknowledged."""
    eventually(lambda: _is_acknowledged(bootstrap, topic))


def _is_acknowledged(bootstrap: str, topic: str) -> bool:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "first"})
    try:
        consumer.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
    except KafkaException:
        return False
    finally:
        consumer.close()
    return True
