"""What drives `ClusterNode`, on the node's loop: its actions are done, and it hears what came of
them. What waits for the store runs in threads. Nothing is decided here.

What stores and peers do is expected: OSError, KcoordError, and what cannot be read. All else that
is raised here is a fault of the code, and fails the runtime, which ends the process: a node must
not look like one that serves where a part of it stands still. But where every node would find the
same, in the records of a shard or in the topics: then that shard is not led, and the log says why.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pykcoord._native import ClusterNode
from pykcoord.clock import monotonic_seconds
from pykcoord.cluster.asking import AskClient, MalformedError
from pykcoord.cluster.cluster_log import begin, put_snapshot, read_entries, trim
from pykcoord.cluster.cluster_log import readable_snapshots as readable_log_snapshots
from pykcoord.cluster.journals import Journaling, JournalLog, boot_ms
from pykcoord.cluster.reading import Stretch
from pykcoord.cluster.secret import SecretError
from pykcoord.cluster.watching import Watch
from pykcoord.errors import KcoordError
from pykcoord.log.protocol import Failure, ShardLostError, Taken
from pykcoord.log.shared.pruning import Place, delete_rounds, readable_snapshots
from pykcoord.log.shared.rounds import entry_name, fence_journal
from pykcoord.log.shared.store import Store
from pykcoord.observers import tell
from pykcoord.runtime import Runtime

__all__ = ["Driver", "LeasedRuntime", "how_to_say"]

logger = logging.getLogger("pykcoord.cluster")

_TICK_SECONDS = 0.05
_ASK_SECONDS = 0.3
# A node that no controller has asked for so long may be cut off from the others: it gives way.
_UNHEARD_SECONDS = 0.6
_THREADS = 8
# After so long a read of the cluster log is begun a second time.
_LONG_SECONDS = 0.5
# What the core raises for fields that are none.
_MALFORMED = (TypeError, ValueError, OverflowError)


class LeasedRuntime(Runtime):
    """A runtime that has a turn only while its node may answer: another node may lead its shards
    by now, and acknowledge what this one does not know."""

    may_answer: Callable[[], bool] = staticmethod(lambda: True)
    _is_held = False

    def _turn(self) -> None:
        if self._running and not self.may_answer():
            self._is_held = True  # and awake: `go_on` has the turn
            return
        super()._turn()

    def go_on(self) -> None:
        """Something has changed: have the turn that was held back, if it may be."""
        if self._is_held:
            self._is_held = False
            self._turn()


class Driver(Journaling):
    """Drives `node`, whose journal is `log`, and which serves by `runtime`. `location` names the
    store. `new_loader` makes one that shares nothing with the node, on another thread. `changed` is
    called when the node has read news of the cluster or has none, `ended` once when it has ended,
    `topics_changed` where another node knows a newer version of the topics, `topics`. `watch` tells
    of the node."""

    def __init__(
        self,
        location: str,
        store: Store,
        node: ClusterNode,
        runtime: LeasedRuntime,
        *,
        new_loader: Callable[[], Any],
        changed: Callable[[], None],
        ended: Callable[[], None],
        topics_changed: Callable[[], None],
        watch: Watch,
        secret: str | None = None,
    ) -> None:
        self.node = node
        self.failure: str | None = None
        """What is wrong with the cluster log, if it cannot be read."""
        self.made_cluster = False
        """Whether there was none, and this node has begun it."""
        self.log: JournalLog
        self.topics = 0
        """The newest version of the topics that this node has heard of."""
        self._location, self._store = location, store
        self._runtime = runtime
        self._changed, self._ended = changed, ended
        self._topics_changed = topics_changed
        self._new_loader = new_loader
        self._snapshots = ThreadPoolExecutor(1, thread_name_prefix="pykcoord-snapshot")
        self._loop = asyncio.get_running_loop()
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="pykcoord-cluster")
        self._tasks: set[asyncio.Task[None]] = set()
        self._of_shard: dict[int, asyncio.Task[None]] = {}
        self._epochs: dict[int, int] = {}
        self._taken: dict[int, Taken] = {}
        self._failed: dict[int, int] = {}  # in which epoch: who asks is not told to wait
        self._served: set[int] = set()
        self._asked_at = -math.inf
        self._secret = secret
        self._watch = watch
        self._unled: dict[int, str] = {}  # why, as it was said last
        self._clients: dict[int, AskClient] = {}
        self._read_to = 0
        self._was_healthy = True
        self._is_closed = False
        runtime.may_answer = self._may_answer
        runtime.on_shard_lost = self._lost

    def start(self, log: JournalLog) -> None:
        """Begin to do what the node wants."""
        self.log = log
        self._spawn(self._tick())

    def asked(self, ask: tuple[Any, ...], topics: int) -> tuple[tuple[Any, ...], int]:
        """A controller asks, which knows of this version of the topics. Raises MalformedError for
        what is no question, ConnectionError once this node has ended."""
        if not self._runtime.is_running:
            raise ConnectionAbortedError("this node answers nothing any more")
        try:
            answer = self.node.asked(boot_ms(), ask)
        except _MALFORMED as error:
            raise MalformedError(error) from None
        self._asked_at = monotonic_seconds()
        self._hear_topics(topics)
        self._act()
        return answer, self.topics

    @property
    def was_asked(self) -> bool:
        """Whether a controller has ever asked."""
        return self._asked_at > -math.inf

    def is_told_news(self, seconds: float) -> bool:
        """Whether a controller has asked within so long, or this node is it."""
        is_controller = self.node.controller == self.node.incarnation
        return is_controller or monotonic_seconds() < self._asked_at + seconds

    def know_topics(self, version: int) -> None:
        """This node has this version of the topics: others hear of it."""
        self.topics = max(self.topics, version)

    def _hear_topics(self, version: int) -> None:
        if version > self.topics:
            self.topics = version
            self._topics_changed()

    def leave(self) -> None:
        """Give all shards to other nodes, and end."""
        self.node.leave(boot_ms())
        self._act()

    def close(self) -> None:
        """Do nothing more. Shards that are served are given up."""
        self._is_closed = True
        for task in [*self._tasks]:
            task.cancel()
        for client in self._clients.values():
            client.close()
        for shard in [*self._served]:
            self._give_up(shard)
        tell(self._watch.tell_shards)
        self._runtime.go_on()
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._snapshots.shutdown(wait=False, cancel_futures=True)

    # What the journal's thread says.

    def proved(self, started: int, next_index: int, leaderships: Sequence[tuple[int, int]]) -> None:
        """See `Journaling`."""
        tell(self._watch.proved, started)
        self._hear(lambda: self.node.proved(boot_ms(), started, next_index, [*leaderships]))

    def prove_failed(self) -> None:
        """See `Journaling`."""
        self._hear(lambda: self.node.prove_failed(boot_ms()))

    def fenced(self) -> None:
        """See `Journaling`."""
        self._hear(lambda: self.node.own_journal_fenced())

    def failed(self, error: BaseException) -> None:
        """See `Journaling`."""
        self._runtime.fail(error)

    def _hear(self, said: Callable[[], None]) -> None:
        def on_loop() -> None:
            said()
            self._act()
            self._runtime.go_on()

        try:
            self._loop.call_soon_threadsafe(on_loop)
        except RuntimeError:
            return  # the loop was closed: nobody waits for it

    def _may_answer(self) -> bool:
        if not self._served or self.node.may_answer(boot_ms()):
            return True
        self._act()
        return False

    def _lost(self, shard: int, error: Failure) -> None:
        """An append failed, and the runtime has released the shard."""
        fenced = isinstance(error, ShardLostError) and error.fenced
        logger.log(logging.WARNING if fenced else logging.DEBUG, "%s", error)
        self._served.discard(shard)
        self._failed[shard] = epoch = self._epochs.get(shard, -1)
        self.node.lost(boot_ms(), shard, epoch)

    async def _tick(self) -> None:
        while self._runtime.is_running:
            self.log.gives_way = not self.is_told_news(_UNHEARD_SECONDS)
            self.node.tick(boot_ms())
            self._act()
            tell(self._watch.look, boot_ms())
            self._runtime.go_on()
            await asyncio.sleep(_TICK_SECONDS)

    def _act(self) -> None:
        if self._is_closed or not self._runtime.is_running:
            return
        for name, *arguments in self.node.actions():
            getattr(self, f"_do_{name}")(*arguments)
        read = (self.node.next_index, self.node.is_healthy(boot_ms()))
        if read != (self._read_to, self._was_healthy):
            self._read_to, self._was_healthy = read
            self._forget_gone()
            self._changed()
        if self.node.stop is not None:
            self._ended()

    def _forget_gone(self) -> None:
        """The end of a connection that the other end has closed stays open until it is closed."""
        for gone in self._clients.keys() - {one[0] for one in self.node.members}:
            self._clients.pop(gone).close()

    def _do_follow(self, start: int) -> None:
        def read() -> str | list[str] | KcoordError | UnicodeDecodeError:
            try:
                snapshot = begin(self._location, self._store) if start == 0 else None
                return read_entries(self._store, start) if snapshot is None else snapshot
            except (KcoordError, UnicodeDecodeError) as error:
                return error

        async def follow() -> None:
            found = await self._one_of_two(read)
            try:
                if isinstance(found, str):
                    self.node.restored(boot_ms(), found)
                elif isinstance(found, KcoordError):
                    self._fail(str(found))
                elif isinstance(found, UnicodeDecodeError):
                    raise found
                else:
                    self.node.followed(boot_ms(), start, found)
            except ValueError as error:
                self._fail(f"{self._location}: the cluster log cannot be read: {error}")

        self._spawn(follow())

    def _fail(self, reason: str) -> None:
        self.failure = reason
        self._ended()

    def _do_put(self, index: int, text: str) -> None:
        async def put() -> None:
            create = self._store.create
            made = await self._in_thread(lambda: create(entry_name(index), text.encode()))
            self.made_cluster |= made is True and index == 0
            self.node.entry_put(boot_ms(), index, made)

        self._spawn(put())

    def _do_look_log(self) -> None:
        self._look_log(lambda: readable_log_snapshots(self._store))

    def _do_snapshot_log(self, index: int, text: str) -> None:
        self._look_log(lambda: put_snapshot(self._store, index, text))

    def _look_log(self, call: Callable[[], list[int]]) -> None:
        async def look() -> None:
            self.node.log_snapshots(boot_ms(), await self._in_thread(call))

        self._spawn(look())

    def _do_trim(self, head: int, below: int) -> None:
        async def delete() -> None:
            done = await self._in_thread(lambda: trim(self._store, head, below))
            self.node.trimmed(boot_ms(), bool(done))

        self._spawn(delete())

    def _do_fence(self, incarnation: int, start: int) -> None:
        async def fence() -> None:
            own = self.log.incarnation
            end = await self._in_thread(lambda: fence_journal(self._store, incarnation, start, own))
            self.node.fenced(boot_ms(), incarnation, end)

        tell(self._watch.fences, incarnation)
        self._spawn(fence())

    def _do_ask(self, to: int, ask: tuple[Any, ...]) -> None:
        async def send() -> None:
            seats = [one for one in self.node.members if one[0] == to]
            if not seats:
                return
            client = self._clients.setdefault(to, AskClient(*seats[0][4:], self._secret))
            try:
                answer, topics = await client.ask(ask, _ASK_SECONDS, self.topics)
            except ConnectionRefusedError:
                self.node.refused(boot_ms(), to)
            except (SecretError, MalformedError) as error:
                tell(self._watch.refused, to, str(error))
            except OSError:
                return  # the node counts what is not answered
            else:
                self._answered(to, answer, topics)

        self._spawn(send())

    def _answered(self, to: int, answer: tuple[Any, ...], topics: int) -> None:
        try:
            self.node.answered(boot_ms(), to, answer)
        except _MALFORMED as error:
            tell(self._watch.refused, to, str(MalformedError(error)))
        else:
            self._hear_topics(topics)

    def _do_prove(self) -> None:
        self.log.prove()

    def _do_take(
        self, shard: int, epoch: int, lineage: list[tuple[int, int, int, int, int]]
    ) -> None:
        if self._failed.get(shard) != epoch:
            self._runtime.expect(shard)
        self._epochs[shard] = epoch
        tell(self._watch.takes, shard, lineage)
        loader = self._runtime.node.loader()  # made here: the node is the loop's alone
        stretches = [Stretch(*one) for one in lineage]

        def take() -> Taken | BaseException:
            self.log.assign(shard, epoch, stretches)
            try:
                return self.log.take(shard, lambda: loader)
            except BaseException as error:  # pyo3's PanicException is no Exception
                return error

        async def taking() -> None:
            taken = await self._loop.run_in_executor(self._threads, take)
            if isinstance(taken, BaseException):
                self._say_unled(shard, taken)
                self._runtime.release(shard)  # who asks may find another node that leads it
                self._failed[shard] = epoch
                self.node.lost(boot_ms(), shard, epoch)
                return
            if self._epochs.get(shard) == epoch:
                self._taken[shard] = taken
                self._unled.pop(shard, None)
                self.node.taken(boot_ms(), shard, epoch)

        self._after_others(shard, taking)

    def _do_serve(self, shard: int, epoch: int) -> None:
        taken = self._taken.pop(shard, None)
        if taken is not None and taken.epoch == epoch:
            self._runtime.expect(shard)
            self._runtime.adopt(shard, *taken)
            self._served.add(shard)
            tell(self._watch.serves, shard, epoch)

    def _do_release(self, shard: int, epoch: int) -> None:
        tell(self._watch.releases, shard, epoch)
        self._give_up(shard)

        async def release() -> None:
            end = await self._loop.run_in_executor(self._threads, self.log.decided, shard)
            self.node.released(boot_ms(), shard, epoch, end)

        self._after_others(shard, release)

    def _do_snapshot(
        self, shard: int, epoch: int, lineage: list[tuple[int, int, int, int, int]]
    ) -> None:
        stretches = [Stretch(*one) for one in lineage]

        def write() -> list[Place] | None:
            try:
                return self.log.snapshot(shard, epoch, stretches, self._new_loader())
            except BaseException as error:  # nothing depends on it; there is another one later
                level, fault = how_to_say(error)
                logger.log(level, "no snapshot of shard %d: %s", shard, error, exc_info=fault)
                return None

        async def snapshot() -> None:
            places = await self._loop.run_in_executor(self._snapshots, write)
            self.node.snapshots(boot_ms(), shard, places)

        self._spawn(snapshot())

    def _do_look(self, shard: int) -> None:
        async def look() -> None:
            places = await self._in_thread(lambda: readable_snapshots(self._store, shard))
            self.node.snapshots(boot_ms(), shard, places)

        self._spawn(look())

    def _do_delete(self, incarnation: int, below: int) -> None:
        async def delete() -> None:
            done = await self._in_thread(lambda: delete_rounds(self._store, incarnation, below))
            self.node.deleted(boot_ms(), incarnation, bool(done))

        self._spawn(delete())

    def _give_up(self, shard: int) -> None:
        """Its requests hear NOT_COORDINATOR."""
        if shard in self._served:
            self._failed[shard] = self._epochs[shard]
        self._served.discard(shard)
        self._taken.pop(shard, None)
        self._epochs.pop(shard, None)
        self._runtime.release(shard)

    def _after_others(self, shard: int, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """What is done with one shard is done in order."""
        before = self._of_shard.get(shard)

        async def in_order() -> None:
            if before is not None:
                await asyncio.wait({before})
            await work()

        self._of_shard[shard] = self._spawn(in_order())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._runtime.fail(error)
            return
        self._act()
        self._runtime.go_on()

    async def _in_thread(self, call: Callable[[], Any]) -> Any:
        """What it returns; None where the store does not do it, or holds what cannot be read."""
        try:
            return await self._loop.run_in_executor(self._threads, call)
        except (OSError, KcoordError, ValueError) as error:
            level, _ = how_to_say(error)
            logger.log(level, "the store of the cluster: %s", error)
            return None

    async def _one_of_two(self, call: Callable[[], Any]) -> Any:
        """The same, of the first of two calls to end, where the first takes long: one that hangs is
        not the store's silence yet."""
        calls = {asyncio.ensure_future(self._in_thread(call))}
        done, _ = await asyncio.wait(calls, timeout=_LONG_SECONDS)
        if not done:
            calls.add(asyncio.ensure_future(self._in_thread(call)))
            done, _ = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        return done.pop().result()

    def _say_unled(self, shard: int, error: BaseException) -> None:
        """It is tried again and again: say what is new of it."""
        level, fault = how_to_say(error)
        if level == logging.ERROR and self._unled.get(shard) != repr(error):
            self._unled[shard] = repr(error)
            logger.error("shard %d cannot be led: %s", shard, error, exc_info=fault)


def how_to_say(error: BaseException) -> tuple[int, BaseException | None]:
    """How loud, and with which traceback: that of a fault of the code. What the store itself raises
    is said by `WatchedStore`, once, and that a shard is lost where it is."""
    if isinstance(error, OSError | ShardLostError):
        return logging.DEBUG, None
    return logging.ERROR, None if isinstance(error, KcoordError) else error
