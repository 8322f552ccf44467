"""`pykcoord demo`: the main job, once, in the open.

A coordinator, real consumers, a rebalance, two kills, and an account of what was owned and
committed. It prints what happens while it happens, and exits 0 only if every promise was kept.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click
from rich.console import Console
from rich.table import Table

from pykcoord._native import partition_of
from pykcoord.cli.demo.ledger import Ledger, Settled
from pykcoord.cli.demo.processes import Consumer, Coordinator, DemoError, Event
from pykcoord.cli.running import interrupted_by_signals
from pykcoord.cli.state import state_of
from pykcoord.clock import monotonic_seconds
from pykcoord.log import LogReader

GROUP = "billing"
TOPIC = "orders"
PARTITIONS = 6
_SETTLE_SECONDS = 40.0
_COMMIT_SECONDS = 15.0
_T = TypeVar("_T")


@click.command(short_help="Show the main job once, in the open.")
@click.option("--keep", is_flag=True, help="Keep the log, and say where it is.")
@click.option(
    "--nodes",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Coordinate with so many processes, and kill the one that coordinates the group.",
)
def command(keep: bool, nodes: int) -> int:
    """Show the main job once: real consumers, a rebalance, kill -9, nothing lost.

    Starts a coordinator on a free port with its log in a temporary folder, and three kafka-python
    consumers. A fourth joins, one is killed, then the coordinator is killed and started again
    from its log (of several nodes, one is). About 30 seconds; exit 0 only if no acknowledged commit
    was lost and every partition always had one owner.

    \b
    Example:
      pykcoord demo --keep
      pykcoord demo --nodes 3
    """
    try:
        import kafka  # noqa: F401
    except ImportError:
        raise click.ClickException(
            "demo needs kafka-python, a real client: pip install 'kafka-python>=3.0'"
        ) from None
    with (
        interrupted_by_signals(),
        tempfile.TemporaryDirectory(prefix="pykcoord-demo-") as temporary,
    ):
        directory = Path(tempfile.mkdtemp(prefix="pykcoord-demo-")) if keep else Path(temporary)
        with contextlib.closing(_Demo(directory, nodes)) as demo:
            demo.play()
            problems = demo.account()
        if keep:
            demo.console.print(f"The log is kept: pykcoord log state {directory}", soft_wrap=True)
    return 1 if problems else 0


class _Demo:
    """The story, and the processes it is played with."""

    def __init__(self, directory: Path, nodes: int) -> None:
        # A pipe gets whole lines too: a log file is not wrapped.
        self.console = Console(highlight=False, soft_wrap=True)
        self.ledger = Ledger(PARTITIONS)
        self._directory = directory
        self._nodes = nodes
        self._pids: list[int] = []
        self._shards = 0
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._consumers: dict[str, Consumer] = {}
        self._waiting: set[str] = set()
        self._leaving = False
        self._coordinator: Coordinator | None = None
        self._listen = "127.0.0.1:0"
        self._committed: dict[int, int] = {}
        self._started = monotonic_seconds()

    def play(self) -> None:
        """Everything that happens, in order. Raises DemoError where the story cannot go on."""
        self.console.print(
            "Consumers of a group share the partitions of a topic. A coordinator says who reads\n"
            "which, and remembers how far each was read. Here is one, without a broker:\n"
            f"the topic is '{TOPIC}', with partitions 0 to {PARTITIONS - 1}; the group is "
            f"'{GROUP}'.\n"
        )
        self._start_coordinator()
        self._say("three consumers start (kafka-python, unmodified): ann, bob and cleo")
        for name in ("ann", "bob", "cleo"):
            self._start_consumer(name)
        self._say("a new group waits for more members, 3 s after each that comes")
        self._settle("ann, bob and cleo joined")
        self._watch_commits()

        self._say("a fourth consumer starts: dan")
        self._start_consumer("dan")
        self._settle("dan joined")
        self._watch_commits()

        bob = self._consumers.pop("bob")
        bob.kill()
        self.ledger.revoked("bob")
        self._say("bob is killed (SIGKILL); the group waits for his session to expire, 6 s")
        self._settle("bob was killed")
        self._watch_commits()

        self._settle(self._restart_node() if self._nodes > 1 else self._restart_coordinator())
        self._watch_commits()
        self._leave()

    def account(self) -> list[str]:
        """Print who owned what when, and every broken promise; returns those."""
        self.console.print()
        self.console.print(self._owners())
        problems = self.ledger.problems()
        if problems:
            for problem in problems:
                self.console.print(f"BROKEN: {problem}", style="bold red")
            return problems
        self.console.print(
            f"\nEvery partition had exactly one owner each time the group had settled.\n"
            f"{self.ledger.acknowledged} commits were acknowledged, and none was lost: "
            f"offsets {_offsets(self._committed)}."
        )
        return []

    def close(self) -> None:
        """Kill the processes that still run."""
        for process in (*self._consumers.values(), self._coordinator):
            if process is not None and process.running:
                process.kill()

    def _start_coordinator(self) -> None:
        coordinator = Coordinator(self._directory, self._listen, TOPIC, PARTITIONS, self._nodes)
        self._coordinator = coordinator
        ready = coordinator.ready()
        self._listen = ready["listen"]
        if self._nodes > 1:
            self._shards = int(ready["shards"])
            self._pids = [int(pid) for pid in ready["pids"].split(",")]
            listen = self._listen.replace(",", ", ")
            self._say(f"{self._nodes} nodes coordinate (process {coordinator.pid} watches them)")
            self._say(f"they listen on {listen}")
            return
        known = int(ready["offsets"])
        log = f"read {known} offsets from its log in {ready['load_ms']} ms" if known else "new log"
        self._say(f"the coordinator listens on {self._listen} (process {coordinator.pid}; {log})")

    def _restart_node(self) -> str:
        """Of several, kill the one that coordinates the group; the supervisor starts it again."""
        number = partition_of(GROUP, self._shards) % self._nodes
        node = f"node {number + 1}"
        os.kill(self._pids[number], signal.SIGKILL)
        self._say(f"{node} is killed (SIGKILL), which coordinates the group '{GROUP}'")
        self._drain()
        acknowledged = self.ledger.highest_acked()
        committed = self._fetch_committed()
        self.ledger.check(f"after {node} was killed", committed)
        self._say(
            f"the supervisor has started {node} again from its log; it had acknowledged "
            f"{_offsets(acknowledged)}, and has {_offsets(committed)}"
        )
        return f"{node} was killed"

    def _restart_coordinator(self) -> str:
        assert self._coordinator is not None
        self._coordinator.kill()
        self._say("the coordinator is killed (SIGKILL)")
        # Read while no coordinator runs: once it runs again, the consumers' next commits would hide
        # a loss. What they reported until now was acknowledged before the kill.
        on_disk = self._read_log()
        self._drain()
        self.ledger.check("in the log after the kill", on_disk)
        self._say(
            f"it had acknowledged {_offsets(self.ledger.highest_acked())}; "
            f"its log has {_offsets(on_disk)}"
        )
        self._start_coordinator()
        self.ledger.check("after the restart", self._fetch_committed())
        return "the coordinator was killed"

    def _read_log(self) -> dict[int, int]:
        state = state_of(LogReader.open(self._directory), GROUP)
        partitions = state["offsets"].get(GROUP, {}).get(TOPIC, {})
        return {int(partition): of["offset"] for partition, of in partitions.items()}

    def _start_consumer(self, name: str) -> None:
        self._consumers[name] = Consumer(name, self._listen, GROUP, TOPIC, self._events)

    def _settle(self, what: str) -> None:
        """Wait until the group has settled, and print how."""
        settled = self._wait(lambda: self.ledger.settle(what, self._consumers), _SETTLE_SECONDS)
        if settled is None:
            raise DemoError(f"the group did not settle within {_SETTLE_SECONDS:g} s after {what}")
        owned = ", ".join(f"{name} reads {_numbers(of)}" for name, of in settled.owned.items())
        before = self.ledger.settled[-2].generation if len(self.ledger.settled) > 1 else -1
        still = " still, nobody had to rejoin" if settled.generation == before else ""
        self._say(f"generation {settled.generation}{still}: {owned}", style="bold")

    def _watch_commits(self) -> None:
        """Wait until every partition was committed four times more."""
        wanted = {at: self.ledger.highest_acked().get(at, 0) + 4 for at in range(PARTITIONS)}

        def reached() -> bool | None:
            now = self.ledger.highest_acked()
            return all(now.get(at, 0) >= offset for at, offset in wanted.items()) or None

        if not self._wait(reached, _COMMIT_SECONDS):
            raise DemoError(f"not every partition was committed within {_COMMIT_SECONDS:g} s")
        reached_now = _offsets(self.ledger.highest_acked())
        self._say(f"each commits how far it came, as partition:offset: {reached_now}")

    def _leave(self) -> None:
        self._leaving = True
        for consumer in self._consumers.values():
            consumer.ask_to_end()
        for consumer in self._consumers.values():
            consumer.end()
        self._drain()
        self._say(f"{', '.join(self._consumers)} leave the group (they were asked to end)")
        self._committed = self._fetch_committed()
        self.ledger.check("at the end", self._committed)
        assert self._coordinator is not None
        code = self._coordinator.end()
        if code:
            raise self._coordinator.failure(f"ended with {code} after SIGTERM")
        self._say("the coordinator ends (SIGTERM)")

    def _fetch_committed(self) -> dict[int, int]:
        """What the coordinator holds for the group, asked by a client that was never a member."""
        from kafka import KafkaAdminClient
        from kafka.errors import KafkaError

        def ask() -> dict[int, int] | None:
            try:
                offsets = admin.list_group_offsets(GROUP)[GROUP]
            except KafkaError as error:
                if not error.retriable:
                    raise DemoError(f"the committed offsets cannot be read: {error}") from error
                return None
            return {partition.partition: of.offset for partition, of in offsets.items()}

        admin = KafkaAdminClient(bootstrap_servers=self._listen, client_id="demo")
        try:
            committed = self._wait(ask, _COMMIT_SECONDS)
        finally:
            admin.close()
        if committed is None:
            raise DemoError(f"no committed offsets were told within {_COMMIT_SECONDS:g} s")
        return committed

    def _wait(self, condition: Callable[[], _T | None], seconds: float) -> _T | None:
        deadline = monotonic_seconds() + seconds
        while (left := deadline - monotonic_seconds()) > 0:
            with contextlib.suppress(queue.Empty):
                self._note(self._events.get(timeout=min(left, 0.2)))
            if (result := condition()) is not None:
                return result
            if self._coordinator is not None and not self._coordinator.running:
                raise self._coordinator.failure("ended")
        return None

    def _drain(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                self._note(self._events.get_nowait())

    def _note(self, event: Event) -> None:
        if event.kind == "assigned":
            self.ledger.assigned(event.name, event.generation, event.offsets)
        elif event.kind == "acked":
            self._waiting.discard(event.name)
            self.ledger.acked(event.generation, event.offsets)
        elif event.kind == "revoked":
            self.ledger.revoked(event.name)
        elif event.kind == "failed" and event.name not in self._waiting:
            self._waiting.add(event.name)
            self._say(f"{event.name} tries again ({event.error})", style="dim")
        elif event.kind == "ended" and event.name in self._consumers and not self._leaving:
            raise self._consumers[event.name].failure("ended")

    def _owners(self) -> Table:
        table = Table(title="Who owned what, when", title_justify="left")
        table.add_column("after")
        table.add_column("generation", justify="right")
        names = sorted({name for settled in self.ledger.settled for name in settled.owned})
        for name in names:
            table.add_column(name)
        for settled in self.ledger.settled:
            table.add_row(
                settled.what, str(settled.generation), *(_cell(settled, name) for name in names)
            )
        return table

    def _say(self, text: str, style: str = "") -> None:
        seconds = monotonic_seconds() - self._started
        self.console.print(f"{seconds:5.1f} s  {text}", style=style)


def _offsets(offsets: dict[int, int]) -> str:
    return " ".join(f"{at}:{offset}" for at, offset in sorted(offsets.items())) or "none"


def _numbers(partitions: tuple[int, ...]) -> str:
    return "+".join(map(str, partitions)) or "nothing"


def _cell(settled: Settled, name: str) -> str:
    return _numbers(settled.owned[name]) if name in settled.owned else "-"
