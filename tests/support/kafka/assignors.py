"""Kafka's own assignor classes, in a JVM behind a pipe: the program of benches/kafka/java.

Compiled where its sources are newer. Must never judge what the classes return.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pykcoord import Subscription
from support.kafka.jars import library_directory
from support.once import alone

_ROOT = Path(__file__).parents[3]
_SOURCES = _ROOT / "benches" / "kafka" / "java"
_CLASSES = _ROOT / "build" / "kafka-assignors"

Lists = dict[str, list[tuple[str, int]]]


def command(*arguments: str, options: tuple[str, ...] = ("-XX:+UseSerialGC",)) -> list[str]:
    """The command line of the program, which is compiled first if need be."""
    libraries = os.fspath(library_directory() / "*")
    with alone(_CLASSES):
        _compile(libraries)
    classes = f"{_CLASSES}{os.pathsep}{libraries}"
    # They log as errors what they then resolve.
    logging = "-Dorg.apache.logging.log4j.level=OFF"
    return ["java", *options, logging, "-cp", classes, "Assignors", *arguments]


def _compile(libraries: str) -> None:
    sources = sorted(_SOURCES.glob("*.java"))
    stamp = _CLASSES / "Assignors.class"
    newest = max(source.stat().st_mtime for source in sources)
    if stamp.exists() and stamp.stat().st_mtime >= newest:
        return
    _CLASSES.mkdir(parents=True, exist_ok=True)
    compiler = ["javac", "-Xlint:all,-processing,-classfile,-path", "-Werror"]
    compiler += ["-cp", libraries, "-d", os.fspath(_CLASSES), *map(os.fspath, sources)]
    result = subprocess.run(compiler, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise RuntimeError(f"javac failed:\n{result.stdout}{result.stderr}")


class JavaAssignors:
    """Asks one JVM for assignments. Use as a context manager."""

    def __enter__(self) -> JavaAssignors:
        self._process = subprocess.Popen(
            command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
        )
        return self

    def __exit__(self, *exception: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)

    def assign(
        self,
        strategy: str,
        topics: Mapping[str, list[list[str]]],
        members: Mapping[str, Subscription],
    ) -> Lists | str:
        """The lists by member id, or the name of the exception. `topics`: the racks of each
        partition's replicas."""
        group = [{"id": member, **_subscription(s)} for member, s in members.items()]
        request = {"strategy": strategy, "topics": topics, "members": group}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(request), file=self._process.stdin, flush=True)
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        if "error" in answer:
            return str(answer["error"])
        lists = answer["lists"].items()
        return {member: [(topic, number) for topic, number in pairs] for member, pairs in lists}


def _subscription(subscription: Subscription) -> dict[str, Any]:
    generation_id, user_data = subscription.generation_id, subscription.user_data
    return {
        "topics": list(subscription.topics),
        "owned": [list(partition) for partition in subscription.owned_partitions],
        "generation_id": -1 if generation_id is None else generation_id,
        "rack_id": subscription.rack_id,
        "instance_id": subscription.group_instance_id,
        "user_data": None if user_data is None else base64.b64encode(user_data).decode(),
    }
