"""The supervisor: it holds the directory, and keeps its nodes running.

It serves no client and decides nothing about groups. A node is started again only when the process
before it was waited for, so that no two write the same shards; each start gets a leader epoch of
its own. At the first start no node changes anything before all have read their shards.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import signal
from collections.abc import Coroutine, Sequence
from typing import Any

import click

from pykcoord.addresses import address_text
from pykcoord.cli.log_queue import LineQueue
from pykcoord.cli.logs import LogFormat, LogLevel
from pykcoord.cli.nodes.ends import EndsRelay
from pykcoord.cli.nodes.messages import Message, Start
from pykcoord.cli.nodes.process import NodeProcess
from pykcoord.cli.serving import (
    STOP_SECONDS,
    Address,
    Options,
    Ready,
    naming_topics,
    when_asked_to_end,
)
from pykcoord.clock import monotonic_seconds
from pykcoord.config import Config
from pykcoord.engine import begin_topics
from pykcoord.errors import KcoordError
from pykcoord.log import Holding
from pykcoord.server import Broker

__all__ = ["Slot", "Supervisor"]

logger = logging.getLogger("pykcoord.nodes")

# Between two starts of a node that ends: first, and at most.
_PAUSE_SECONDS = (0.1, 5.0)
# A node that lived so long is started again without delay.
_LIVED_SECONDS = 10.0
_PING_SECONDS = 0.2
# A node ends by itself within STOP_SECONDS.
_KILL_SECONDS = STOP_SECONDS + 2.0
_LINES_SECONDS = 1.0


class Slot:
    """The place of one node: where it listens, what clients hear of it, and its present process."""

    def __init__(
        self, listen: Address, metrics: Address | None, web: Address | None, broker: Broker
    ) -> None:
        self.listen = listen
        self.metrics = metrics
        self.web = web
        self.broker = broker
        self.starts = 0
        self.process: NodeProcess | None = None
        self.ready = asyncio.Event()
        self.told: Ready | None = None
        self.is_restarting = False


class Supervisor:
    """Keeps a node in each of `slots`, the first of which changes topics. `run` is all there is."""

    def __init__(
        self,
        config: Config,
        options: Options,
        slots: Sequence[Slot],
        holding: Holding,
        log_format: LogFormat,
        log_level: LogLevel,
        lines: LineQueue,
    ) -> None:
        self._config = config
        self._options = options
        self._slots = slots
        self._holding = holding
        self._log: tuple[LogFormat, LogLevel] = (log_format, log_level)
        self._lines = lines
        self._asked: asyncio.Future[str]
        self._error: KcoordError | OSError | None = None
        self._serves = self._has_begun = False
        self._topics = 0
        self._ends = EndsRelay()
        self._tasks: set[asyncio.Task[None]] = set()
        self._rolling: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Serve until a signal ends it; raises KcoordError or OSError where that is not possible,
        or was not any more."""
        self._asked = when_asked_to_end()
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._hang_up)
        keeping = [asyncio.create_task(self._keep(slot)) for slot in self._slots]
        self._spawn(self._watch())
        for task in keeping:
            task.add_done_callback(self._kept)
        await self._asked
        if self._error is None:
            logger.info("%s: ending", self._asked.result(), extra={"event": "stop"})
            self._lines.flush_within(_LINES_SECONDS)  # it comes before the nodes' own
        for task in self._tasks:
            task.cancel()
        for process in self._processes():
            process.end()
        _, late = await asyncio.wait(keeping, timeout=_KILL_SECONDS)
        for process in self._processes():
            process.kill()
        if late:
            await asyncio.wait(late)
        if self._error is not None:
            raise self._error

    async def _keep(self, slot: Slot) -> None:
        """Have a node there until the end."""
        pause, longest = _PAUSE_SECONDS
        while not self._asked.done():
            started = monotonic_seconds()
            process = slot.process = self._new_process(slot)
            code = await process.run()
            slot.ready.clear()
            was_asked, slot.is_restarting = slot.is_restarting, False
            self._tell_topics_to_controller()  # it waits no longer for this one
            self._ends.forget(process)
            if process.is_lost:
                self._fail(KcoordError(process.failure or "the directory is lost"))
            elif self._asked.done():
                self._note_end(process, code)
            elif not self._serves:
                ended = f"node {process.node_id} {_how(code)} before it was ready"
                self._fail(KcoordError(process.failure or ended))
            elif not (was_asked and code == 0):
                if monotonic_seconds() - started > _LIVED_SECONDS:
                    pause = _PAUSE_SECONDS[0]
                self._tell_end(process, code, pause)
                await asyncio.wait({self._asked}, timeout=pause)
                pause = min(2 * pause, longest)

    def _new_process(self, slot: Slot) -> NodeProcess:
        slot.starts += 1
        number = self._slots.index(slot)
        broker = slot.broker
        options = dataclasses.replace(
            self._options,
            directory=self._holding.directory,
            listen=slot.listen,
            advertise=(broker.host, broker.port),
            metrics=slot.metrics,
            topics=(),
            web=self._options.web
            and slot.web
            and dataclasses.replace(self._options.web, listen=slot.web),
        )
        start = Start(
            number,
            [one.broker for one in self._slots],
            slot.starts,
            self._holding.lock.descriptor,
            options,
            dataclasses.replace(self._config, node_id=broker.node_id),
            *self._log,
        )
        return NodeProcess(start, lambda process, message: self._hear(slot, process, message))

    def _hear(self, slot: Slot, process: NodeProcess, message: Message) -> None:
        match message:
            case {"read": _}:
                self._begin_those_that_can()
            case {"ready": [address, *numbers]}:
                slot.told = Ready((address[0], address[1]), *numbers)
                self._is_ready(slot, process)
            case {"topics": _}:
                self._spread_topics()
            case {"has_topics": _}:
                self._tell_topics_to_controller()
            case {"ends": [number, wanted]}:
                self._ends.ask(process, number, wanted, self._processes())
            case {"ends_are": [number, ends]}:
                self._ends.hear(process, number, ends)
            case {"cleaned": offsets}:
                self._spawn(self._cleaned({int(shard): at for shard, at in offsets.items()}))

    # How a node begins to write.

    def _begin_those_that_can(self) -> None:
        """At the first start all together, once all have read; later each for itself."""
        waiting = [one for one in self._processes() if one.newest_epoch is not None]
        if self._has_begun or len(waiting) == len(self._slots):
            self._has_begun = True
            fresh = [one for one in waiting if not one.has_begun]
            for one in fresh:
                one.has_begun = True
            if fresh:
                self._spawn(self._begin(fresh))

    async def _begin(self, processes: Sequence[NodeProcess]) -> None:
        newest = max(one.newest_epoch for one in processes if one.newest_epoch is not None)
        try:
            properties = await asyncio.to_thread(self._holding.begin, newest)
            if not self._serves:
                await asyncio.to_thread(self._begin_topics)
        except (KcoordError, OSError) as error:
            if not self._serves:
                self._fail(error)
                return
            logger.error("%s", error, extra={"event": "node_refused", "error": str(error)})
            for one in processes:
                one.kill()
            return
        for one in processes:
            one.send(begin=[properties.leader_epoch, properties.topic_id.hex()])

    def _begin_topics(self) -> None:
        with naming_topics(self._options.directory):
            begin_topics(self._holding, dict(self._options.topics))

    def _is_ready(self, slot: Slot, process: NodeProcess) -> None:
        slot.ready.set()
        assert slot.told is not None
        led = len(range(self._slots.index(slot), slot.told.shards, len(self._slots)))
        logger.info(
            "node %d (process %d) serves %s: led=%d %s",
            process.node_id,
            process.pid,
            address_text(*slot.told.address),
            led,
            slot.told,
            extra={"event": "node_ready", "node": process.node_id, "pid": process.pid},
        )
        if slot is self._slots[0] and self._serves:
            # What the one before it changed, and had no time to tell.
            self._spread_topics()
        if not self._serves and all(one.told for one in self._slots):
            self._serves = True
            self._tell_ready([one.told for one in self._slots if one.told])

    def _tell_ready(self, told: Sequence[Ready]) -> None:
        groups, offsets = sum(one.groups for one in told), sum(one.offsets for one in told)
        whole = Ready(
            told[0].address, told[0].shards, groups, offsets, max(one.load_ms for one in told)
        )
        listen = ",".join(address_text(*one.address) for one in told)
        pids = ",".join(str(one.pid) for one in self._processes())
        self._lines.flush_within(_LINES_SECONDS)  # they come before the ready line
        click.echo(f"pykcoord ready nodes={len(told)} listen={listen} {whole} pids={pids}")

    # Topics: one node changes them, and the others read them before a client hears of it.

    def _spread_topics(self) -> None:
        self._topics += 1
        for process in self._processes()[1:]:
            process.send(topics=self._topics)
        self._tell_topics_to_controller()

    def _tell_topics_to_controller(self) -> None:
        """Once all have read them that serve; one that hangs reads them when it is started."""
        controller, *others = (slot.process for slot in self._slots)
        late = [
            one
            for one in others
            if one is not None
            and one.is_ready
            and one.unanswered == 0
            and one.has_topics < self._topics
        ]
        if controller is not None and not late:
            controller.send(told=controller.changes)

    async def _cleaned(self, offsets: dict[int, int]) -> None:
        try:
            await asyncio.to_thread(self._holding.cleaned, offsets)
        except (KcoordError, OSError) as error:
            # It spares work only.
            logger.warning("%s", error, extra={"event": "cleaner_checkpoint", "error": str(error)})

    # Nodes that end, hang, or are to be started again.

    async def _watch(self) -> None:
        """Kill what does not answer. Counted in questions, not by the clock: a supervisor that was
        stopped itself must not take it for the fault of its nodes."""
        most = self._config.pykcoord_node_hang_timeout_ms / 1000 / _PING_SECONDS
        while True:
            await asyncio.sleep(_PING_SECONDS)
            for process in self._processes():
                if not process.is_ready or process.is_ending:
                    continue  # one that ends waits for its disk, and has a time of its own
                process.ping()
                if process.unanswered >= most:
                    logger.error(
                        "node %d (process %d) has not answered for %g s, killing it",
                        process.node_id,
                        process.pid,
                        process.unanswered * _PING_SECONDS,
                        extra={"event": "node_hangs", "node": process.node_id, "pid": process.pid},
                    )
                    process.is_ready = False
                    process.kill()

    def _hang_up(self) -> None:
        """SIGHUP."""
        if not self._serves or (self._rolling is not None and not self._rolling.done()):
            logger.warning("SIGHUP: nodes are being started already", extra={"event": "restart"})
            return
        self._rolling = self._spawn(self._roll())

    async def _roll(self) -> None:
        """Start every node again, one at a time: the next when the one before serves."""
        logger.info("SIGHUP: starting every node again", extra={"event": "restart"})
        for slot in self._slots:
            await slot.ready.wait()
            process = slot.process
            assert process is not None
            slot.is_restarting = True
            slot.ready.clear()
            process.end()
            try:
                await asyncio.wait_for(slot.ready.wait(), _KILL_SECONDS)
            except TimeoutError:
                if slot.process is process:
                    process.kill()
                await slot.ready.wait()
        logger.info("every node was started again", extra={"event": "restarted"})

    def _tell_end(self, process: NodeProcess, code: int, pause_seconds: float) -> None:
        logger.error(
            "node %d (process %d) %s, starting it again in %g s%s",
            process.node_id,
            process.pid,
            _how(code),
            pause_seconds,
            f": {process.failure}" if process.failure else "",
            extra={
                "event": "node_ended",
                "node": process.node_id,
                "pid": process.pid,
                "code": code,
                "error": process.failure,
            },
        )

    def _note_end(self, process: NodeProcess, code: int) -> None:
        if code != 0 and self._error is None and process.has_begun:
            text = process.failure or f"node {process.node_id} {_how(code)} when it was to end"
            self._error = KcoordError(text)

    def _fail(self, error: KcoordError | OSError) -> None:
        if self._error is None:
            self._error = error
        if not self._asked.done():
            self._asked.set_result("failure")

    def _kept(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error if isinstance(error, OSError) else KcoordError(repr(error)))

    def _processes(self) -> list[NodeProcess]:
        return [slot.process for slot in self._slots if slot.process is not None]

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._spawned_ended)
        return task

    def _spawned_ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._kept(task)


def _how(code: int) -> str:
    """How a process ended, in words."""
    if code >= 0:
        return f"ended with {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
