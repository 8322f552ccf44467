"""One consumer of the demo: kafka-python, unmodified, as a process of its own.

`python -m pykcoord.cli.demo.consumer BOOTSTRAP GROUP TOPIC NAME` subscribes, and four times a
second commits the next offset of every partition it owns, as a consumer would that reads one
message each. It reports what happens on stdout, one JSON object a line, and leaves the group when
its stdin ends. It imports nothing of pykcoord: it knows the coordinator only by its port.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

_SESSION_TIMEOUT_MS = 6_000
_PAUSE_MS = 250
# kafka-python 3.0 loses an assignment that arrives just after a poll gave up waiting for it. So
# while one is awaited, polls are few and long; and after so many in vain it subscribes anew.
_JOIN_MS = 2_000
_JOIN_POLLS = 5
_COMMIT_TIMEOUT_MS = 3_000


def _tell(**event: Any) -> None:
    print(json.dumps(event), flush=True)  # noqa: T201  (stdout is how the demo listens)


class _Consumer(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, bootstrap: str, group: str, topic: str, name: str) -> None:
        self.consumer = KafkaConsumer(
            bootstrap_servers=bootstrap,
            client_id=name,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            session_timeout_ms=_SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=500,
            reconnect_backoff_max_ms=500,
        )
        self.topic = topic
        self.next: dict[int, int] = {}
        self.fresh = False
        self.waited_polls = 0
        self.consumer.subscribe([topic], listener=self)

    def on_partitions_revoked(self, revoked: object) -> None:
        self.next = {}
        self.fresh = False
        _tell(event="revoked")

    def on_partitions_assigned(self, assigned: list[Any]) -> None:
        # The committed offsets are read after this callback: it must not wait.
        self.next = dict.fromkeys((partition.partition for partition in assigned), 0)
        self.fresh = True

    def turn(self) -> None:
        self.consumer.poll(timeout_ms=_PAUSE_MS if self.next else _JOIN_MS)
        self.waited_polls = 0 if self.next else self.waited_polls + 1
        if self.waited_polls == _JOIN_POLLS:
            self.consumer.unsubscribe()
            self.consumer.subscribe([self.topic], listener=self)
            self.waited_polls = 0
        generation = self.consumer.group_metadata().generation_id
        try:
            if self.fresh:
                self._resume(generation)
            elif self.next:
                self._commit(generation)
        except KafkaError as error:
            _tell(event="failed", error=type(error).__name__)

    def _resume(self, generation: int) -> None:
        for partition in self.next:
            committed = self.consumer.committed(
                TopicPartition(self.topic, partition), timeout_ms=_COMMIT_TIMEOUT_MS
            )
            self.next[partition] = committed or 0
        self.fresh = False
        _tell(event="assigned", generation=generation, offsets=self.next)

    def _commit(self, generation: int) -> None:
        ahead = {partition: offset + 1 for partition, offset in self.next.items()}
        offsets = {
            TopicPartition(self.topic, partition): OffsetAndMetadata(offset, "", -1)
            for partition, offset in ahead.items()
        }
        self.consumer.commit(offsets, timeout_ms=_COMMIT_TIMEOUT_MS)
        self.next = ahead
        _tell(event="acked", generation=generation, offsets=ahead)


def main(bootstrap: str, group: str, topic: str, name: str) -> None:
    """Consume until stdin ends, then leave."""
    # What goes wrong on purpose is reported as an event.
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    ended = threading.Event()

    def wait_for_end() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait_for_end, daemon=True).start()
    consumer = _Consumer(bootstrap, group, topic, name)
    while not ended.is_set():
        try:
            consumer.turn()
        except KafkaError as error:
            # From `poll`, while the coordinator is away: poll again, but not at once.
            if not error.retriable:
                raise
            _tell(event="failed", error=type(error).__name__)
            ended.wait(_PAUSE_MS / 1000)
    consumer.consumer.close(autocommit=False, timeout_ms=_COMMIT_TIMEOUT_MS)
    _tell(event="left")


if __name__ == "__main__":
    main(*sys.argv[1:])
