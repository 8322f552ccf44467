"""Random scenarios against a running Kafka broker and pykcoord: `--help` says how.

Not part of the test suite: it needs Java, Maven and, for 1,000 seeds, half an hour to an hour. A
difference is shrunk by the rig and written where `--save` says, for the rig's `replay`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.kafka.broker import KafkaBroker
from support.server import PykcoordServer

from diff.profiles import PROFILES, TOPICS, rig_command

_BROKER = {
    **PROFILES["base"],
    "group.consumer.assignor.offload.enable": "false",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="1:100", metavar="A:B", help="inclusive (1:100)")
    parser.add_argument("--kind", choices=("classic", "848"), default="classic",
                        help="classic groups and offsets, or consumer groups")  # fmt: skip
    parser.add_argument("--traces", metavar="FILE", help="compared answers, for rig/coverage.py")
    parser.add_argument("--steps", type=int, default=60, metavar="K", help="per seed (60)")
    parser.add_argument("--jobs", type=int, default=6, help="scenarios at a time (6)")
    parser.add_argument("--save", metavar="DIR", help="where shrunk scenarios are written")
    parser.add_argument("--replay", nargs="+", metavar="FILE", help="saved scenarios, not seeds")
    parser.add_argument("--self", action="store_true", help="compare the broker with itself")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch, KafkaBroker(
        Path(scratch) / "kafka", settings=_BROKER
    ) as kafka:  # fmt: skip
        if options.self:
            return _compare(kafka.address, kafka.address, options)
        directory = Path(scratch) / "pykcoord"
        with PykcoordServer(directory, topics=TOPICS, settings=PROFILES["base"]) as candidate:
            return _compare(kafka.address, candidate.address, options)


def _compare(reference: str, candidate: str, options: argparse.Namespace) -> int:
    scenarios = ["random", "--kind", options.kind]
    scenarios += ["--seeds", options.seeds, "--steps", str(options.steps)]
    scenarios += ["--save", options.save] if options.save else []
    if options.replay:
        scenarios = ["replay", *options.replay]
    references = ["--ref", reference, "--jobs", str(options.jobs)]
    references += ["--traces", options.traces] if options.traces else []
    command = rig_command(references, {"base": candidate}, *scenarios)
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
