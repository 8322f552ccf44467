"""One node of several on this machine: `python -m pykcoord.cli.nodes.node`, started by the
supervisor, which talks to it over stdin and stdout.

It serves its shards as `pykcoord serve` serves all, and ends when it is asked to, or when the
supervisor is gone. Nothing that it acknowledged depends on the supervisor.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any

from pykcoord._native import partition_of
from pykcoord.catalogue import NotControllerError
from pykcoord.cli import logs
from pykcoord.cli.nodes.messages import Message, Start, decoded, encoded
from pykcoord.cli.running import line_of
from pykcoord.cli.serving import Options, Ready, new_runner, raise_file_limit, serve
from pykcoord.engine import Directory, Engine
from pykcoord.errors import KcoordError
from pykcoord.log import Part, Properties
from pykcoord.runtime import LOG_LOST
from pykcoord.server import Broker, Peers
from pykcoord.server._sending import share_cores
from pykcoord.storing import Store

if TYPE_CHECKING:
    from pykcoord.log.state_file import StateFile
    from pykcoord.server.metrics import ServerMetrics

__all__ = ["main", "shards_of"]

logger = logging.getLogger("pykcoord.nodes")

Ends = Mapping[str, Sequence[int]]
"""Ends of some partitions, by topic."""

# What a change of topics waits for the other nodes. One that takes longer reads them when it wakes.
_TOLD_SECONDS = 1.0
_READ_BYTES = 65_536
# After topics could not be read.
_READ_AGAIN_SECONDS = 1.0
# What ListOffsets waits for the other nodes.
_ENDS_SECONDS = 0.5
_GONE = "the supervisor is gone"


def shards_of(node: int, nodes: int, shards: int) -> Sequence[int]:
    """The shards that a node leads: shard s is led by node s mod N."""
    return range(node, shards, nodes)


class SupervisorGoneError(KcoordError):
    """The process that started this node has ended."""


class Channel:
    """Lines to the supervisor, and from it. `send` is for any thread."""

    def __init__(self, received: int, sent: int) -> None:
        # Not a file: Python cannot end while a thread waits in one.
        self._received = received
        self._rest = b""
        self._sent = sent
        self._sending = threading.Lock()

    def send(self, **message: Any) -> None:
        """Say something; where nobody is left to hear it, nothing is lost."""
        line = memoryview(encoded(message))
        with self._sending, contextlib.suppress(BrokenPipeError):
            while line:
                line = line[os.write(self._sent, line) :]

    def receive(self) -> bytes:
        """The next line; empty at the end."""
        while b"\n" not in self._rest:
            if not (more := os.read(self._received, _READ_BYTES)):
                return b""
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\n")
        return line


class FixedPeers:
    """The nodes of one machine: they stay, and so do their shards."""

    def __init__(
        self,
        brokers: Sequence[Broker],
        shards: int,
        ask_ends: Callable[[Mapping[str, Sequence[int]]], asyncio.Future[Ends]],
    ) -> None:
        self.version = 0
        self._ask_ends = ask_ends
        self._brokers = brokers
        self._shards = shards

    @property
    def controller_id(self) -> int | None:
        """The first: it alone changes topics."""
        return self._brokers[0].node_id

    def brokers(self) -> Sequence[Broker]:
        """All, also one that is being started again."""
        return self._brokers

    def coordinator(self, group_id: str) -> Broker | None:
        """Who leads the shard of a group."""
        return self._brokers[partition_of(group_id, self._shards) % len(self._brokers)]

    def ends(self, wanted: Mapping[str, Sequence[int]]) -> asyncio.Future[Ends] | None:
        """What groups of the other nodes have committed at the most."""
        return self._ask_ends(wanted) if len(self._brokers) > 1 else None


class _LedTopics:
    """The topics in their file, of the node that changes them: the others know before a client."""

    def __init__(self, file: StateFile, tell: Callable[[], None]) -> None:
        self._file = file
        self._tell = tell

    def read(self) -> dict[str, Any] | None:
        return self._file.read()

    def as_written(self) -> bytes | None:
        return self._file.as_written()

    def write(self, document: dict[str, Any]) -> None:
        self._file.write(document)
        self._tell()

    def write_parts(self, document: dict[str, Any], objects: Mapping[str, Iterable[str]]) -> None:
        self._file.write_parts(document, objects)
        self._tell()


class _FollowedTopics:
    """The same file, of the other nodes."""

    def __init__(self, file: StateFile, controller: Broker) -> None:
        self._file = file
        self._controller = controller

    def read(self) -> dict[str, Any] | None:
        return self._file.read()

    def as_written(self) -> bytes | None:
        return self._file.as_written()

    def write(self, document: dict[str, Any]) -> None:
        raise NotControllerError(f"node {self._controller.node_id} changes topics, ask that one")

    def write_parts(self, document: dict[str, Any], objects: Mapping[str, Iterable[str]]) -> None:
        self.write(document)


class _Node:
    """What this process is among the nodes: a `pykcoord.cli.serving.Role`."""

    def __init__(self, start: Start, channel: Channel) -> None:
        self._start = start
        self._channel = channel
        shards = start.config.offsets_topic_num_partitions
        self.peers: Peers | None = FixedPeers(start.brokers, shards, self._ask_ends)
        self._part = Part(
            shards_of(start.node, len(start.brokers), shards),
            start.lock_descriptor,
            self._begin,
            lambda offsets: channel.send(cleaned=dict(offsets)),
        )
        self._begun: Future[Properties] = Future()
        self._told = threading.Event()
        self._changes = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._asked: asyncio.Future[str] | None = None
        self._engine: Engine | None = None
        self._questions: dict[int, asyncio.Future[Ends]] = {}
        self._asked_ends = 0

    def store(self, options: Options) -> Directory:
        return Directory(
            options.directory,
            options.flush,
            options.on_corruption,
            part=self._part,
            topics_in=self._topics_in,
        )

    def began(self, asked: asyncio.Future[str]) -> None:
        self._loop, self._asked = asyncio.get_running_loop(), asked
        threading.Thread(target=self._listen, name="supervisor", daemon=True).start()

    def opened(self, engine: Engine, metrics: ServerMetrics | None) -> None:
        self._engine = engine
        if metrics is not None:
            metrics.watch_starts(self._start.starts)

    def ready(self, ready: Ready) -> None:
        self._channel.send(ready=ready)

    def _topics_in(self, file: StateFile) -> Store:
        if self._start.node == 0:
            return _LedTopics(file, self._tell_topics)
        return _FollowedTopics(file, self._start.brokers[0])

    def _begin(self, newest_epoch: int) -> Properties:
        self._channel.send(read=newest_epoch)
        return self._begun.result()

    def _tell_topics(self) -> None:
        """In the thread of the write before it, which goes on when the others have the change."""
        self._changes += 1
        self._told.clear()
        self._channel.send(topics=self._changes)
        self._told.wait(_TOLD_SECONDS)

    def _listen(self) -> None:
        """Hear the supervisor, on a thread of its own, until it is gone."""
        while line := self._channel.receive():
            self._hear(decoded(line))
        if not self._begun.done():
            self._begun.set_exception(SupervisorGoneError(_GONE))
        self._on_loop(self._end)

    def _hear(self, message: Message) -> None:
        match message:
            case {"begin": [epoch, topic_id]}:
                shards = self._start.config.offsets_topic_num_partitions
                self._begun.set_result(Properties(shards, epoch, bytes.fromhex(topic_id), True))
            case {"ping": number}:
                self._on_loop(lambda: self._channel.send(pong=number))
            case {"topics": number}:
                self._on_loop(self._read_topics, number)
            case {"ends": [number, wanted]}:
                self._on_loop(self._tell_ends, number, wanted)
            case {"ends_are": [number, ends]}:
                self._on_loop(self._hear_ends, number, ends)
            case {"told": number} if number == self._changes:
                self._told.set()  # an earlier one comes late where a node was slow

    def _on_loop(self, call: Callable[..., object], *arguments: object) -> None:
        assert self._loop is not None
        with contextlib.suppress(RuntimeError):  # it has ended
            self._loop.call_soon_threadsafe(call, *arguments)

    def _read_topics(self, number: int) -> None:
        # Before it is open it has not read them: it will.
        if self._engine is None:
            self._channel.send(has_topics=number)
            return
        read = self._engine.catalogue.reload_soon()
        read.add_done_callback(partial(self._topics_are_read, number))

    def _topics_are_read(self, number: int, read: asyncio.Future[None]) -> None:
        if (error := read.exception()) is None:
            self._channel.send(has_topics=number)
            return
        logger.error("topics cannot be read: %s", error, extra={"event": "catalogue"})
        assert self._loop is not None
        self._loop.call_later(_READ_AGAIN_SECONDS, self._read_topics, number)

    def _ask_ends(self, wanted: Mapping[str, Sequence[int]]) -> asyncio.Future[Ends]:
        """On the loop. Without an answer in time nothing more is known."""
        assert self._loop is not None
        self._asked_ends += 1
        number = self._asked_ends
        asked = self._questions[number] = self._loop.create_future()
        self._loop.call_later(_ENDS_SECONDS, self._hear_ends, number, {})
        self._channel.send(ends=[number, wanted])
        return asked

    def _hear_ends(self, number: int, ends: Ends) -> None:
        asked = self._questions.pop(number, None)
        if asked is not None and not asked.done():
            asked.set_result(ends)

    def _tell_ends(self, number: int, wanted: Mapping[str, Sequence[int]]) -> None:
        ends = {}
        if self._engine is not None:
            furthest = self._engine.runtime.furthest_offsets
            ends = {topic: list(furthest(topic, of)) for topic, of in wanted.items()}
        self._channel.send(ends_are=[number, ends])

    def _end(self) -> None:
        if self._asked is not None and not self._asked.done():
            self._asked.set_result(_GONE)


def main() -> int:
    """Run one node; returns the exit code."""
    channel = Channel(0, os.dup(1))
    os.dup2(2, 1)  # whatever prints must not pass for a message
    line = channel.receive()
    if not line:
        return 1
    start = Start.of_line(line)
    config = start.config
    with logs.to_stderr(start.log_format, start.log_level, node=config.node_id) as lines:
        raise_file_limit()
        share_cores(len(start.brokers))
        try:
            with new_runner() as runner:
                runner.run(serve(config, start.options, lines, _Node(start, channel)))
        except Exception as error:
            reason = line_of(error)
            channel.send(failed=reason or repr(error), lost=isinstance(error, LOG_LOST))
            if reason is None:
                raise
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
