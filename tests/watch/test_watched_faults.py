"""Faults of real clients on a cluster of three real brokers that is only watched: explained as far
as the log allows, and nothing is claimed beyond it. `make fault-book-kafka`, or --kafka-all."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import NewTopic
from explain.faults import FAULTS, SECONDS, TOPICS, Book, Fault
from explain.test_faults import begun
from support import orphans
from support.kafka.three import three_brokers

from pykcoord.cli.explain import told_by_log
from pykcoord.explain import Report, explain

from .test_churn import minutes

__all__ = ["minutes"]

pytestmark = [pytest.mark.java, pytest.mark.client, pytest.mark.timeout(900)]

NOT_TOLD = r"went: whether it left, was removed or fell silent, the log does not tell\."
# What only a coordinator can know.
BEYOND = (
    "session timed out", "session timeout", "nothing was heard", "gave no reason", "administrator",
    "poll()", "It says", "waited", "asked for another", "refused", "by request", "had expired",
)  # fmt: skip
SETTINGS = {
    "group.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "100",
}


@dataclass(frozen=True)
class Told:
    """A pattern that is in the story, and the names of what repeats."""

    says: str
    patterns: frozenset[str] = frozenset()


BACK = r" is back\.|in the place of another one of the same client"
TOLD = {
    "killed": Told(rf"killed-doomed-\S+ at \S+ {NOT_TOLD}"),
    "left": Told(rf"left-1-\S+ at \S+ {NOT_TOLD}"),
    "joined": Told(r"Member new-0-\S+ at \S+ joined\. Generation \d+ to \d+, 3 members"),
    "restarted": Told(BACK),
    # It joins again at once under its instance id, in the same generation or the next.
    "removed-by-admin": Told(
        rf"instance removed-by-admin-1 at .* was removed and came back, or|"
        rf"instance removed-by-admin-1 at \S+ {NOT_TOLD}"
    ),
    "instance-twice": Told(
        "instance instance-twice-1 at .* or another process uses its instance id, the log does not"
    ),
    "topic-grew": Told("given 5 partitions of grows, and 2 before"),
    "subscribes-more": Told("changed its subscription: second"),
    "subscribes-less": Told("changed its subscription: no longer second"),
    "too-many-members": Told("3 members", frozenset({"more_members_than_partitions"})),
    "flapping": Told(BACK, frozenset({"flapping_member"})),
    "rolling-deploy": Told(BACK, frozenset({"rolling_deploy"})),
    "waited-for": Told(r"Member new-0-\S+ at \S+ joined\."),
    "deleted": Told("was removed: whether it was deleted or expired, the log does not tell"),
    "native-killed": Told(rf"native-killed-doomed-\S+ at \S+ {NOT_TOLD}"),
    "native-left": Told(rf"native-left-1-\S+ at \S+ {NOT_TOLD}"),
    "native-topic-grew": Told("topics that they subscribe to came, went, grew"),
}
RESET = Told("The committed offset of orders-0 and 1 other partition went back, by 90 at most")


def report_of(path: Path, group: str, since_ms: int | None) -> Report:
    events = [one for of in told_by_log(path, group) for one in of]
    return explain(events, group, since_ms)


def wanting(told: Told, report: Report) -> str | None:
    """What the report lacks, or has too much."""
    story = "\n".join(line.text for line in report.lines)
    if re.search(told.says, story) is None:
        return f"{told.says!r} is not in: {story}"
    if beyond := [words for words in BEYOND if words in story]:
        return f"{beyond} is more than a log tells: {story}"
    found = {pattern.name for pattern in report.patterns}
    return None if found == told.patterns else f"patterns {sorted(found)}: {story}"


def waits_until(lacks: Callable[[], dict[str, str]]) -> None:
    deadline = time.monotonic() + 2 * SECONDS
    while found := lacks():
        assert time.monotonic() < deadline, "\n".join(f"{at}: {text}" for at, text in found.items())
        time.sleep(1)


def unsettled(path: Path, faults: dict[str, Fault]) -> dict[str, str]:
    if not any(path.glob("__consumer_offsets-*")):  # brokers make it for the first group
        return dict.fromkeys(faults, "nothing of the log is here yet")
    found = {}
    for group, fault in faults.items():
        report = report_of(path, group, None)
        last = report.rebalances[-1] if report.rebalances else None
        if last is None or last.ended_ms is None or last.members != fault.members:
            found[group] = f"not settled: {[line.text for line in report.lines]}"
    return found


def reset(book: Book) -> None:
    """Offsets of a group that is empty go back, as a tool sets them."""
    consumer = Consumer({"bootstrap.servers": book.address, "group.id": "reset"})
    places = [TopicPartition("orders", at, 100 - at) for at in (0, 1)]
    consumer.commit(offsets=places, asynchronous=False)
    consumer.close()
    back = ConsumerGroupTopicPartitions(
        "reset", [TopicPartition("orders", at, 10) for at in (0, 1)]
    )
    for future in book.admin.alter_consumer_group_offsets([back]).values():
        future.result()


def test_faults_are_explained_as_far_as_the_log_allows(minutes: float, tmp_path: Path) -> None:
    assert len(TOLD) + 1 >= 10
    faults = {group: FAULTS[group] for group in TOLD}
    copy = tmp_path / "copy"
    settings = {name.replace(".", "_"): value for name, value in SETTINGS.items()}
    with three_brokers(tmp_path / "kafka", **settings) as brokers:
        address = brokers[0].address
        book = Book(address)
        wanted = [NewTopic(name, of, replication_factor=3) for name, of in TOPICS.items()]
        for future in book.admin.create_topics(wanted).values():
            future.result()
        watch = subprocess.Popen(
            [sys.executable, "-m", "pykcoord", "watch", "--bootstrap-servers", address, str(copy)],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        orphans.started(watch)
        try:
            assert watch.stdout is not None
            assert watch.stdout.readline().startswith("pykcoord ready")
            members: dict[str, Any] = {
                group: begun(book, group, of) for group, of in faults.items()
            }
            mortals = {
                group: book.mortal("confluent", {
                    **book.config(group, f"{group}-doomed", **fault.options), "topics": ["orders"],
                })
                for group, fault in faults.items() if fault.is_mortal
            }  # fmt: skip
            waits_until(lambda: unsettled(copy, faults))
            mark = int(time.time() * 1000)
            for process in mortals.values():
                process.kill()
            for group, fault in faults.items():
                fault.act(book, group, members[group])
            reset(book)
            waits_until(
                lambda: {
                    group: text
                    for group, told in {**TOLD, "reset": RESET}.items()
                    if (text := wanting(told, report_of(copy, group, mark))) is not None
                }
            )
            stories = {group: report_of(copy, group, mark).lines for group in TOLD}
            told = [f"{group:20} {line.text}\n" for group, of in stories.items() for line in of]
            (tmp_path / "stories").write_text("".join(told))
        finally:
            book.end()
            watch.send_signal(signal.SIGTERM)
            watch.wait(60)
            orphans.ended(watch)
