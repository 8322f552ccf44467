"""The controller: keeps every shard led by some host that answers. One thread, of any process.

It may be wrong, late or doubled: the shard log decides who leads, and an order that is old is
refused by the epoch it names. Nothing is lost with it; the hosts serve on without it.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pykcoord.clock import monotonic_seconds
from pykcoord.cluster.control import Answer, Ask, ControlClient
from pykcoord.cluster.placement import place
from pykcoord.cluster.registry import HostEntry, Registry, View
from pykcoord.log.shared import Store

__all__ = ["Controller"]

logger = logging.getLogger("pykcoord.cluster")

_PING_SECONDS = 0.2
_ANSWER_SECONDS = 0.3
_MISSES = 2
# A miss does not count where the controller itself came so late to see it; so often in a row.
_HELD_UP_SECONDS = 0.1
_EXCUSES = 2
# So often a host in one slot is sent away because too many share its executor; then it may stay,
# since there is no other executor, as it seems. If there was one, it may be starting again.
_SENT_AWAY = 6
_SENT_AWAY_LONGER = 30
# So often missed, a host is taken off the registry. If it is there after all, it says so again.
_GONE_MISSES = 50
_TRIES = 3


@dataclass(slots=True)
class _Host:
    """What is known of one host. It counts once it has answered, until it has missed twice."""

    entry: HostEntry
    client: ControlClient
    misses: int = 0
    excused: int = 0
    answered: bool = False
    leaves: bool = False
    answer: Answer = field(default_factory=Answer)

    @property
    def lives(self) -> bool:
        return self.answered and self.misses < _MISSES and not self.leaves


class Controller:
    """The controller of application `term` over the registry in `store`. A host that comes where
    `most_together` are in the same executor is sent away, so that others live on without it."""

    def __init__(
        self, store: Store, shards: int, term: int, most_together: int | None = None
    ) -> None:
        self.term = term
        self._registry = Registry(store)
        self._shards = shards
        self._hosts: dict[int, _Host] = {}
        self._placed: dict[int, int] = {}
        self._most_together = most_together
        self._sent_away: Counter[int] = Counter()
        self._executors: set[str] = set()
        self._epochs: dict[int, int] = {}
        self._view = View()
        self._quitting = threading.Event()
        self._changed = threading.Condition()
        self._failures: dict[int, str] = {}
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._run()), name="pykcoord-controller", daemon=True
        )

    def start(self) -> None:
        """Begin to keep the shards led."""
        self._thread.start()

    def stop(self) -> None:
        """Send no host any request any more."""
        self._quitting.set()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def superseded(self) -> bool:
        """Whether another application has taken the log over."""
        return self._view.term > self.term

    def hosts(self) -> list[HostEntry]:
        """The hosts that answer."""
        return [host.entry for host in list(self._hosts.values()) if host.lives]

    def led(self) -> dict[int, int]:
        """Shard to the node id of the living host that said it leads it."""
        return {shard: node_id for shard, (_, node_id) in self._leaders().items()}

    def failures(self) -> dict[int, str]:
        """Of shards without a leader, the last error of a host that tried to lead each."""
        led = self.led()
        return {shard: text for shard, text in self._failures.items() if shard not in led}

    def wait_led(
        self,
        hosts: int,
        timeout_seconds: float,
        give_up: Callable[[], bool] = lambda: False,
    ) -> bool:
        """Wait until so many hosts answer and all shards are led; False if it takes too long,
        another application took over or `give_up` says so."""

        def ready() -> bool:
            return len(self.hosts()) >= hosts and len(self.led()) == self._shards

        def ended() -> bool:
            return ready() or self.superseded or give_up()

        with self._changed:
            self._changed.wait_for(ended, timeout_seconds)
        return ready() and not self.superseded

    async def _run(self) -> None:
        while not self._quitting.is_set():
            started = monotonic_seconds()
            try:
                self._view = await asyncio.to_thread(self._registry.read)
                if self.superseded:
                    logger.error("another application (%d) has taken over", self._view.term)
                    break
                await self._round()
            except Exception as error:  # storage; the next round may do
                logger.error("the controller could not do a round: %s", error)
            with self._changed:
                self._changed.notify_all()
            rest = _PING_SECONDS - (monotonic_seconds() - started)
            if rest > 0:
                await self._pause(rest)
        with self._changed:
            self._changed.notify_all()
        for host in self._hosts.values():
            host.client.close()

    async def _pause(self, seconds: float) -> None:
        """Until the next round, or until a host closes its connection."""
        watches = [asyncio.ensure_future(host.client.lost()) for host in self._hosts.values()]
        if not watches:
            await asyncio.sleep(seconds)
            return
        await asyncio.wait(watches, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for watch in watches:
            watch.cancel()

    async def _round(self) -> None:
        """Ask every host, with what it is to lead; again if one came or went meanwhile."""
        self._meet(self._view)
        for shard, entry in self._view.shards.items():
            self._epochs[shard] = max(self._epochs.get(shard, -1), entry.epoch)
        asked = list(self._hosts)
        for _ in range(_TRIES):
            living = self._living()
            orders = self._orders(living)
            await asyncio.gather(
                *(self._ask(self._hosts[node_id], orders.get(node_id, {})) for node_id in asked)
            )
            asked = self._living()
            if asked == living:
                return

    def _living(self) -> list[int]:
        return [node_id for node_id, host in self._hosts.items() if host.lives]

    def _leaders(self) -> dict[int, tuple[int, int]]:
        """Shard to epoch and node id of who leads it, as living hosts said last."""
        leaders: dict[int, tuple[int, int]] = {}
        for node_id, host in list(self._hosts.items()):
            for shard, epoch in host.answer.led.items() if host.lives else ():
                leaders[shard] = max(leaders.get(shard, (-1, -1)), (epoch, node_id))
        return leaders

    def _orders(self, living: list[int]) -> dict[int, dict[int, int]]:
        """What each host is to lead. One that slept is to lead nothing until it has answered; who
        leads a shard that moves keeps it until the other has claimed it: reading its log takes
        longer than the claim."""
        self._placed = place(self._shards, living, self._placed)
        orders: dict[int, dict[int, int]] = {node_id: {} for node_id in living}
        leaders = self._leaders()
        for shard, node_id in self._placed.items():
            epoch = self._epochs.get(shard, -1)
            orders[node_id][shard] = epoch
            led_epoch, leader = leaders.get(shard, (epoch, node_id))
            # Not if there was a claim since: it would be claimed back.
            if led_epoch == epoch:
                orders[leader][shard] = epoch
        return orders

    def _meet(self, view: View) -> None:
        """Know the hosts that the registry knows, of this application."""
        for node_id, entry in view.hosts.items():
            if entry.application == self.term and node_id not in self._hosts:
                client = ControlClient(entry.host, entry.control_port)
                self._hosts[node_id] = _Host(entry, client)
        for node_id in self._hosts.keys() - view.hosts.keys():
            self._hosts.pop(node_id).client.close()

    async def _ask(self, host: _Host, shards: Mapping[int, int]) -> None:
        node_id, started = host.entry.node_id, monotonic_seconds()
        try:
            ask = Ask(self.term, shards, leave=host.leaves)
            answer = await host.client.ask(ask, _ANSWER_SECONDS)
        except ConnectionRefusedError:
            await self._gone(host)
            return
        except (OSError, ValueError) as error:  # TimeoutError is an OSError
            late = monotonic_seconds() - started - _ANSWER_SECONDS
            if late > _HELD_UP_SECONDS and host.excused < _EXCUSES:
                host.excused += 1  # this process did not run either: it may not be the host's fault
                return
            host.misses += 1
            if host.misses == _MISSES and host.answered:
                logger.warning("host %d does not answer: %r", node_id, error)
            if host.misses % _GONE_MISSES == 0:
                await self._gone(host)
            return
        if answer.error:
            logger.error("host %d: %s", node_id, answer.error)
            await self._gone(host)
            return
        if not host.answered:
            host.leaves = self._is_crowded(host.entry)
        if not host.lives:
            logger.info("host %d answers", node_id)
        host.answered, host.answer, host.misses, host.excused = True, answer, 0, 0
        for shard, epoch in [*answer.refused.items(), *answer.led.items()]:
            self._epochs[shard] = max(self._epochs.get(shard, -1), epoch)
        for shard, text in answer.failed.items():
            if self._failures.get(shard) != text:
                logger.error("host %d: %s", node_id, text)
            self._failures[shard] = text

    def _is_crowded(self, entry: HostEntry) -> bool:
        """Whether a host that answers for the first time had better be elsewhere."""
        if self._most_together is None:
            return False
        together = [host for host in self.hosts() if host.executor == entry.executor]
        self._executors.add(entry.executor)
        slot, tries = entry.slot, _SENT_AWAY if len(self._executors) == 1 else _SENT_AWAY_LONGER
        if len(together) < self._most_together:
            self._sent_away[slot] = 0
            return False
        if self._sent_away[slot] >= tries:
            text = "host %d shares an executor with %d others: no other executor has room for it"
            logger.warning(text, entry.node_id, len(together))
            return False
        self._sent_away[slot] += 1
        return True

    async def _gone(self, host: _Host) -> None:
        """The host's port is closed: the host has ended."""
        node_id = host.entry.node_id
        if host.answered:
            logger.warning("host %d is gone", node_id)
        host.misses = _MISSES
        host.client.close()
        await asyncio.to_thread(self._registry.remove_host, node_id)
