"""A worker pool that shares work among its workers, through an embedded coordinator.

The work is eight queues of numbers. Each worker joins a group, gets queues, processes them in
batches and commits how far it came. A worker may come or go at any time: the others take its queues
over and go on from the last commit. Before a queue changes hands, the batch in hand is committed
(`on_revoked`), so that nothing is done twice; after a crash, the work since the last commit is.

    python examples/worker_pool.py pool-data

Run it again on the same folder: the commits are still there, so nothing is left to do. It needs
pyarrow (the extra `arrow`) for the two tables at its end.
"""

from __future__ import annotations

import sys
import threading

import pykcoord
from pykcoord.errors import KafkaError

TOPIC, QUEUES = "numbers", 8
ITEMS = 500  # in each queue
BATCH = 50  # items between two commits


class Worker(threading.Thread):
    """Processes the queues that it owns, until all queues are empty or `batches` are done."""

    def __init__(
        self, name: str, coordinator: pykcoord.Coordinator, batches: int | None = None
    ) -> None:
        super().__init__(name=name)
        self.processed = 0
        self._coordinator = coordinator
        self._batches = batches
        self._owned: set[pykcoord.TopicPartition] = set()
        self._busy = threading.Lock()  # held while a batch is processed and committed

    def run(self) -> None:
        with self._coordinator.join(
            "adders", [TOPIC], on_assigned=self._assigned, on_revoked=self._revoked
        ) as member:
            while self._batches != 0 and not self._is_all_done(member):
                for queue in sorted(member.assignment):
                    if self._batches != 0:
                        self._process(member, queue)

    def _assigned(self, queues: frozenset[pykcoord.TopicPartition]) -> None:
        self._owned |= queues

    def _revoked(self, queues: frozenset[pykcoord.TopicPartition]) -> None:
        with self._busy:  # the group waits until the batch in hand is committed
            self._owned -= queues

    def _process(self, member: pykcoord.Member, queue: pykcoord.TopicPartition) -> None:
        with self._busy:
            start = member.committed([queue]).get(queue, 0)
            end = min(start + BATCH, ITEMS)
            if queue not in self._owned or start == end:
                return
            sum(range(start, end))  # the work itself
            try:
                member.commit({queue: end})  # back when it is on disk
            except KafkaError as refused:
                # The worker was too slow and lost its session: another one does this batch again.
                print(f"{self.name}: {queue} is lost: {refused}", file=sys.stderr)
                return
            self.processed += end - start
            if self._batches is not None:
                self._batches -= 1

    def _is_all_done(self, member: pykcoord.Member) -> bool:
        return sum(member.committed().values()) == QUEUES * ITEMS


def main(directory: str) -> None:
    with pykcoord.Coordinator(directory, topics={TOPIC: QUEUES}) as coordinator:
        workers = [Worker("ann", coordinator), Worker("bob", coordinator)]
        workers.append(Worker("eve", coordinator, batches=3))  # goes early
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        print("processed now:", sum(worker.processed for worker in workers))
        for group in coordinator.groups().to_pylist():
            print("group", group["group_id"], "has members:", group["members"])
        offsets = coordinator.offsets()["offset"].to_pylist()
        print("committed:", sum(offsets), "of", QUEUES * ITEMS)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "pool-data")
