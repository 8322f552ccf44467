"""Random scenarios against a running Kafka broker and pykcoord: `--help` says how.

Not part of the test suite: it needs Java, Maven and, for 1,000 seeds, half an hour to an hour. A
difference is shrunk by the rig and written where `--save` says, for the rig's `replay`. Seeds whose
difference is a known flaw of Kafka are named in known_seeds.toml, with the reason: only others make
the exit status 1.

Transactions are asked of a node in a cluster of its own, which leads all of `__consumer_offsets`;
the broker of that cluster has the transaction coordinator.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.kafka.broker import KafkaBroker
from support.kafka.offsets_topic import make_offsets_topic
from support.server import PykcoordServer

from diff.profiles import PROFILES, TOPICS, rig_command
from pykcoord import cli

KNOWN = Path(__file__).with_name("known_seeds.toml")
# As the rig heads what it tells of a seed that differs.
_DIFFERS = re.compile(r"^seed848_(\d+): \d+ of \d+ steps are enough")
_BROKER = {
    **PROFILES["base"],
    "group.consumer.assignor.offload.enable": "false",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "400",
}
_NODE = 100


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="1:100", metavar="A:B", help="inclusive (1:100)")
    parser.add_argument("--kind", choices=("classic", "848", "txn", "txn44"), default="classic",
                        help="classic groups and offsets, consumer groups, or commits in "
                        "transactions (txn44: with TxnOffsetCommit v6)")  # fmt: skip
    parser.add_argument("--traces", metavar="FILE", help="compared answers, for rig/coverage.py")
    parser.add_argument("--steps", type=int, default=60, metavar="K", help="per seed (60)")
    parser.add_argument("--jobs", type=int, default=6, help="scenarios at a time (6)")
    parser.add_argument("--save", metavar="DIR", help="where shrunk scenarios are written")
    parser.add_argument("--no-shrink", action="store_true", help="differences as they are: quicker")
    parser.add_argument("--replay", nargs="+", metavar="FILE", help="saved scenarios, not seeds")
    parser.add_argument("--self", action="store_true", help="compare the broker with itself")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch, KafkaBroker(
        Path(scratch) / "kafka", settings=_BROKER
    ) as kafka:  # fmt: skip
        if options.self:
            return _compare(kafka.address, kafka.address, options)
        served = _served_by_a_node if options.kind.startswith("txn") else _served
        with served(Path(scratch)) as candidate:
            return _compare(kafka.address, candidate, options)


@contextlib.contextmanager
def _served(scratch: Path) -> Iterator[str]:
    directory = scratch / "pykcoord"
    with PykcoordServer(directory, topics=TOPICS, settings=PROFILES["base"]) as server:
        yield server.address


@contextlib.contextmanager
def _served_by_a_node(scratch: Path) -> Iterator[str]:
    """The address of a node that was given all partitions of a cluster of one broker."""
    with KafkaBroker(scratch / "cluster", settings=_BROKER, topics=TOPICS) as broker:
        make_offsets_topic(broker.address, next(iter(TOPICS)))
        settings = {**PROFILES["base"], "node.id": str(_NODE)}
        joins = ["--kafka", broker.address, "--as", "node"]
        with PykcoordServer(scratch / "node", settings=settings, arguments=joins) as node:
            of_the_node = ["--bootstrap-servers", broker.address, "--node", str(_NODE)]
            if cli.run(["kafka", "take", *of_the_node]) != 0:
                raise SystemExit("the node was not given its partitions")
            yield node.address


def _compare(reference: str, candidate: str, options: argparse.Namespace) -> int:
    scenarios = ["random", "--kind", options.kind]
    scenarios += ["--seeds", options.seeds, "--steps", str(options.steps)]
    scenarios += ["--save", options.save] if options.save else []
    scenarios += ["--no-shrink"] if options.no_shrink else []
    if options.replay:
        scenarios = ["replay", *options.replay]
    references = ["--ref", reference, "--jobs", str(options.jobs)]
    references += ["--traces", options.traces] if options.traces else []
    command = rig_command(references, {"base": candidate}, *scenarios)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as rig:
        assert rig.stdout is not None
        differing = set()
        for line in rig.stdout:
            sys.stdout.write(line)
            sys.stdout.flush()
            if (found := _DIFFERS.match(line)) is not None:
                differing.add(int(found[1]))
    known = known_seeds() if options.kind == "848" else {}
    for seed in sorted(differing & known.keys()):
        sys.stdout.write(f"seed {seed} is known: {known[seed]}\n")
    if differing <= known.keys() and rig.returncode == 1 and differing:
        return 0
    return rig.returncode


def known_seeds() -> dict[int, str]:
    """Why Kafka answers otherwise, by seed."""
    flaws = tomllib.loads(KNOWN.read_text())["known"]
    return {seed: flaw["reason"] for flaw in flaws for seed in flaw["seeds"]}


if __name__ == "__main__":
    sys.exit(main())
