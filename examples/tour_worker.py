"""A worker of the tour (tour.md): a consumer that commits ten more offsets each second, as if it
had processed that many records. `python tour_worker.py NAME [HOST:PORT]`; ends with Ctrl-C."""

from __future__ import annotations

import signal
import sys
import time

from kafka import KafkaConsumer
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata


def main(name: str, server: str) -> None:
    consumer = KafkaConsumer(
        "orders", bootstrap_servers=server, group_id="billing", client_id=name,
        session_timeout_ms=6_000, heartbeat_interval_ms=1_000, enable_auto_commit=False,
    )  # fmt: skip
    owned = None
    try:
        while True:
            until = time.monotonic() + 1
            while time.monotonic() < until:
                consumer.poll(timeout_ms=500)  # less may be too little to join
            if consumer.assignment() != owned:
                owned = consumer.assignment()
                print(f"{name} reads {sorted(at.partition for at in owned)}", flush=True)
            done = {
                at: OffsetAndMetadata((consumer.committed(at) or 0) + 10, "", -1) for at in owned
            }
            try:
                if done:
                    consumer.commit(done)
            except KafkaError as error:  # it is not in the group any more, and joins again
                print(f"{name}: {type(error).__name__}", flush=True)
    except KeyboardInterrupt:
        consumer.close()


if __name__ == "__main__":
    # A script starts what is in its background with this signal ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "127.0.0.1:9092")
