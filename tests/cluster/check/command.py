"""The command line of the check."""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cluster.check.clients import PARTITIONS, Clients
from cluster.check.history import Commit, Fetch, History, Share, Violation, judge
from cluster.check.wire import Address
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

__all__ = ["Outcome", "check", "main"]

_DESCRIPTION = """\
Put load on the group coordinators of a cluster, and judge what the clients saw: offsets are linear
(no acknowledged commit is lost, no read is older than what was acknowledged before it), a partition
has one owner in a generation, and a generation that is over commits nothing.

Kill, stop and cut off nodes meanwhile: that is what it is for. It speaks to any cluster that speaks
Kafka's protocol, and needs a topic of its own, which it makes.
"""
_EPILOG = """\
Exit status: 0 nothing wrong was seen, 1 something was, 2 the check could not be run.

  python -m tests.cluster.check --bootstrap 127.0.0.1:9092,127.0.0.1:9093 --seconds 60
  python -m tests.cluster.check --judge seen.jsonl
"""
_SHOWN = 20


class Outcome:
    """What came of a check."""

    def __init__(self, clients: Clients, seconds: float) -> None:
        self.seconds = seconds
        self.history = History(clients.seen)
        self.violations = judge(self.history)
        self.errors = dict(clients.errors.most_common())
        self.gaps = {
            group: max((b - a for a, b in itertools.pairwise([0.0, *times, seconds])), default=0.0)
            for group, times in clients.acknowledged.items()
        }
        """The longest time in seconds without an acknowledged commit, of each group without
        members."""

    def counts(self) -> dict[str, int]:
        """What was seen, by kind."""
        commits = [one for one in self.history.seen if isinstance(one, Commit)]
        return {
            "commits acknowledged": sum(one.ended is not None for one in commits),
            "commits without": sum(one.ended is None for one in commits),
            "offsets read": sum(isinstance(one, Fetch) for one in self.history.seen),
            "shares given": sum(isinstance(one, Share) for one in self.history.seen),
        }

    def to_json(self) -> dict[str, Any]:
        """Of all but the history."""
        return {
            "seconds": self.seconds,
            "counts": self.counts(),
            "gaps": self.gaps,
            "errors": self.errors,
            "violations": [[one.rule, one.group, one.text] for one in self.violations],
        }


async def check(
    nodes: Sequence[Address],
    seconds: float,
    *,
    groups: int = 4,
    members: int = 3,
    seed: int = 1,
    name: str | None = None,
) -> Outcome:
    """Load for so long: `groups` that are only committed to, and as many with `members` each. They
    are called `name`-committed-0 and on, and `name`-joined-0 and on.

    Raises KafkaException where the topic cannot be made.
    """
    name = name or f"check-{time.time_ns():x}"
    await asyncio.to_thread(_make_topic, nodes, name)
    clients = Clients(nodes, name, seed)
    clients.start(
        [f"{name}-committed-{at}" for at in range(groups)],
        [f"{name}-joined-{at}" for at in range(groups)],
        members,
    )
    await asyncio.sleep(seconds)
    ended = clients.now
    await clients.stop()
    return Outcome(clients, ended)


def _make_topic(nodes: Sequence[Address], name: str) -> None:
    bootstrap = ",".join(f"{host}:{port}" for host, port in nodes)
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    topic = NewTopic(name, PARTITIONS, replication_factor=-1)
    admin.create_topics([topic], operation_timeout=30, request_timeout=30)[name].result(30)


def main() -> int:
    """Returns the exit status."""
    arguments = _parser().parse_args()
    if arguments.judge:
        return _judge_again(arguments.judge)
    if not arguments.bootstrap:
        _tell("--bootstrap HOST:PORT,... is missing: where is the cluster?")
        return 2
    _tell(f"{arguments.seconds:.0f} s of load on {arguments.bootstrap} ...")
    try:
        nodes, sizes = _addresses(arguments.bootstrap), vars(arguments)
        sizes = {name: sizes[name] for name in ("groups", "members", "seed")}
        outcome = asyncio.run(check(nodes, arguments.seconds, **sizes))
    except KafkaException as error:
        _tell(f"no topic can be made at {arguments.bootstrap}: {error}")
        return 2
    if arguments.history:
        outcome.history.write(arguments.history)
    if arguments.json:
        _say(json.dumps(outcome.to_json(), indent=2))
    else:
        _show(outcome)
    return 1 if outcome.violations else 0


def _judge_again(path: Path) -> int:
    try:
        violations = judge(History.read(path))
    except (OSError, ValueError) as error:
        _tell(error)
        return 2
    _show_violations(violations)
    return 1 if violations else 0


def _show(outcome: Outcome) -> None:
    rows = [(name, f"{count:,}") for name, count in outcome.counts().items()]
    rows += [("seconds", f"{outcome.seconds:.1f}")]
    gaps = sorted(outcome.gaps.values())
    rows += [("longest gap, median", f"{gaps[len(gaps) // 2]:.2f} s")]
    rows += [("longest gap of all", f"{gaps[-1]:.2f} s")]
    rows += [(f"error {name}", f"{count:,}") for name, count in outcome.errors.items()]
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        _say(f"{name:{width}}  {value:>12}")
    _say("")
    _show_violations(outcome.violations)


def _show_violations(violations: Sequence[Violation]) -> None:
    for one in violations[:_SHOWN]:
        _say(f"WRONG ({one.rule}) {one.group}: {one.text}")
    if len(violations) > _SHOWN:
        _say(f"and {len(violations) - _SHOWN} more")
    if not violations:
        _say("Nothing wrong was seen.")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def _tell(text: object) -> None:
    sys.stderr.write(f"{text}\n")


def _addresses(text: str) -> list[Address]:
    pairs = [one.rpartition(":") for one in text.split(",")]
    return [(host, int(port)) for host, _, port in pairs]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.cluster.check", description=_DESCRIPTION, epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--bootstrap", metavar="HOST:PORT,...", help="all nodes of the cluster")
    parser.add_argument("--seconds", type=float, default=30.0, help="of load (default 30)")
    parser.add_argument(
        "--groups", type=int, default=4,
        help="so many that are only committed to, and as many with members (default 4)",
    )  # fmt: skip
    parser.add_argument("--members", type=int, default=3, help="of each group (default 3)")
    parser.add_argument("--seed", type=int, default=1, help="of when members leave (default 1)")
    parser.add_argument("--history", type=Path, metavar="FILE", help="write what was seen")
    parser.add_argument("--judge", type=Path, metavar="FILE", help="judge such a file again")
    parser.add_argument("--json", action="store_true", help="the report as JSON")
    return parser
