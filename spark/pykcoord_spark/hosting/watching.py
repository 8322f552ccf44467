"""What the driver sees of its cluster, by the log alone; it asks no host and leads nothing."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from pykcoord.cluster import ClusterFollower, ClusterState
from pykcoord.errors import KcoordError
from pykcoord.log.shared import open_store
from pykcoord_spark.hosting.registry import HostEntry, Orders, Registry

__all__ = ["Seen", "Watch"]

logger = logging.getLogger("pykcoord_spark.hosting")

# So often a host in one slot is sent away because too many share its executor; then it may stay,
# since there is no other executor, as it seems. If there was one, it may be starting again.
_SENT_AWAY = 6
_SENT_AWAY_LONGER = 30


class Seen(NamedTuple):
    """`hosts` are those of this application that belong to the cluster, by slot; `led` the shards
    that have a leader, each with its node id: not those of hosts of earlier applications."""

    orders: Orders = Orders()
    hosts: tuple[HostEntry, ...] = ()
    led: dict[int, int] = {}  # noqa: RUF012


class Watch:
    """Of application `term` at `log`, which it reads each `poll_seconds`, on a thread. A host that
    comes where `most_together` are in the same executor is sent away, so that others live on
    without it."""

    def __init__(
        self, log: str, term: int, poll_seconds: float, most_together: int | None = None
    ) -> None:
        store = open_store(log)
        self._registry = Registry(store)
        self._cluster = ClusterFollower(log, store)
        self._term = term
        self._poll_seconds = poll_seconds
        self._crowds = Crowds(most_together)
        self._quitting = threading.Event()
        self._changed = threading.Condition()
        self._seen = Seen()
        self._thread = threading.Thread(target=self._run, name="pykcoord-watch", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._quitting.set()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def seen(self) -> Seen:
        """What was seen last."""
        return self._seen

    @property
    def is_superseded(self) -> bool:
        """Whether another application has begun on the log."""
        return self._seen.orders.term > self._term

    def wait_led(
        self, hosts: int, shards: int, timeout_seconds: float, give_up: Callable[[], bool]
    ) -> bool:
        """Wait until so many hosts are there and so many shards are led; False if it takes too
        long, another application has begun or `give_up` says so."""

        def ready() -> bool:
            return len(self._seen.hosts) >= hosts and len(self._seen.led) == shards

        with self._changed:
            self._changed.wait_for(
                lambda: ready() or self.is_superseded or give_up(), timeout_seconds
            )
        return ready() and not self.is_superseded

    def _run(self) -> None:
        while not self._quitting.is_set():
            try:
                self._look()
            except Exception as error:  # of the store: the next look may do
                logger.error("the cluster cannot be seen: %s", error)
            with self._changed:
                self._changed.notify_all()
            self._quitting.wait(self._poll_seconds)

    def _look(self) -> None:
        orders, entries = self._registry.orders(), self._registry.hosts()
        state = self._state()
        there = {node.node_id: node for node in state.nodes} if state is not None else {}
        own = [
            entry
            for entry in entries.values()
            if entry.application == self._term and entry.node_id in there
        ]
        led: dict[int, int] = {}
        for node_id, node in there.items():
            entry = entries.get(node_id)
            if entry is None or entry.application >= self._term:
                led |= dict.fromkeys(node.shards, node_id)
        self._seen = Seen(orders, tuple(sorted(own, key=lambda host: host.slot)), led)
        for entry in self._crowds.to_send_away(own):
            self._registry.send_away(entry.node_id)

    def _state(self) -> ClusterState | None:
        try:
            return self._cluster.read()
        except KcoordError:
            return None  # the first host has not begun it


class Crowds:
    """Which hosts had better be in another executor, of which `most_together` may be in one."""

    def __init__(self, most_together: int | None) -> None:
        self._most_together = most_together
        self._stay: set[int] = set()
        self._judged: set[int] = set()
        self._sent_away: Counter[int] = Counter()
        self._executors: set[str] = set()

    def to_send_away(self, hosts: list[HostEntry]) -> list[HostEntry]:
        """Of the hosts that are there, those that came since the last call and are to go."""
        self._stay &= {host.node_id for host in hosts}
        new = [host for host in hosts if host.node_id not in self._judged]
        gone = [host for host in new if self._is_crowded(host, hosts)]
        self._judged |= {host.node_id for host in new}
        return gone

    def _is_crowded(self, host: HostEntry, hosts: list[HostEntry]) -> bool:
        if self._most_together is None:
            return False
        together = [
            one for one in hosts if one.node_id in self._stay and one.executor == host.executor
        ]
        self._executors.add(host.executor)
        tries = _SENT_AWAY if len(self._executors) == 1 else _SENT_AWAY_LONGER
        if len(together) < self._most_together:
            self._sent_away[host.slot] = 0
        elif self._sent_away[host.slot] < tries:
            self._sent_away[host.slot] += 1
            return True
        else:
            text = "host %d shares an executor with %d others: no other executor has room for it"
            logger.warning(text, host.node_id, len(together))
        self._stay.add(host.node_id)
        return False
