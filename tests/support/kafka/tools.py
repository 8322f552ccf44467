"""Kafka's own command-line tools as functions. Must never parse what they print: tests do."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from support.kafka.jars import library_directory

LOGGING = Path(__file__).with_name("log4j2-errors.properties")
CLASSES = {
    "cluster": "org.apache.kafka.tools.ClusterTool",
    "consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "configs": "org.apache.kafka.tools.ConfigCommand",
    "features": "org.apache.kafka.tools.FeatureCommand",
    "groups": "org.apache.kafka.tools.GroupsCommand",
    "leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "topics": "org.apache.kafka.tools.TopicCommand",
    "console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "transactions": "org.apache.kafka.tools.TransactionsCommand",
    "broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
}
_TIMEOUT_S = 120


def java(*arguments: str, heap: str = "256m", logging: Path = LOGGING) -> list[str]:
    """Returns the command line of a JVM with Kafka's jars on its class path."""
    return [
        "java", "-cp", os.fspath(library_directory() / "*"), f"-Xmx{heap}",
        "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto",
        f"-Dlog4j2.configurationFile={logging.as_uri()}", *arguments,
    ]  # fmt: skip


class ToolError(RuntimeError):
    """A tool that failed or reported an error; the message is all it printed."""


def tool(name: str, *arguments: str, folder: Path | None = None) -> str:
    """Runs the tool that Kafka ships as `bin/kafka-<name>.sh`, in `folder` or here, and returns its
    output.

    Some failures are only printed, and the tool ends with 0: those raise ToolError too.
    """
    command = java(CLASSES[name], *arguments)
    result = subprocess.run(
        command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False, cwd=folder
    )
    printed = result.stdout + result.stderr
    if result.returncode != 0 or "Error" in printed:
        raise ToolError(printed)
    return result.stdout
