"""The fault book with real clients: `make fault-book`, or --fault-book. Takes a minute."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import pytest
from support.server import PykcoordServer

from pykcoord.cli.events_client import fetch_events
from pykcoord.cli.explain import read
from pykcoord.explain import Report, explain
from pykcoord.records import partition_of

from .faults import FAULTS, SECONDS, SETTINGS, TOPICS, Book, Fault

SHARDS = int(SETTINGS["offsets.topic.num.partitions"])
pytestmark = pytest.mark.timeout(600)


def reports(address: str, marks: dict[str, int]) -> dict[str, Report]:
    served = fetch_events(address)
    assert served is not None
    assert served.missing == []
    found = {}
    for group in FAULTS:
        events = served.partitions.get(partition_of(group, SHARDS), [])
        found[group] = explain(read(events), group, marks.get(group))
    return found


def wanting(fault: Fault, report: Report) -> str | None:
    """What the report lacks, or has too much."""
    story = "\n".join(line.text for line in report.lines)
    causes = [of.trigger.cause for of in report.rebalances]
    if missing := [cause for cause in fault.causes if cause not in causes]:
        return f"no rebalance by {missing}, but {causes}: {story}"
    if fault.says not in story:
        return f"{fault.says!r} is not in: {story}"
    found = {pattern.name for pattern in report.patterns}
    if found != fault.patterns:
        return f"patterns {sorted(found)}: {story}"
    return None


def begun(book: Book, group: str, fault: Fault) -> list[Any]:
    options = dict(fault.options)
    by_instance = options.pop("group_instance_id", False)
    members: list[Any] = []
    others = fault.is_mortal + (fault.begin is not None)
    for number in range(fault.members - others):
        named = {"group_instance_id": f"{group}-{number}"} if by_instance else {}
        members.append(book.start(group, f"{group}-{number}", *fault.topics, **options, **named))
    if fault.begin is not None:
        fault.begin(book, group)
    return members


def settled(address: str) -> None:
    """All members are there, and nothing rebalances."""
    deadline = time.monotonic() + SECONDS
    while True:
        found = reports(address, {})
        waiting = [group for group, fault in FAULTS.items() if not is_settled(fault, found[group])]
        if not waiting:
            return
        assert time.monotonic() < deadline, waiting
        time.sleep(1)


def is_settled(fault: Fault, report: Report) -> bool:
    if not report.rebalances or report.rebalances[-1].ended_ms is None:
        return False
    if report.rebalances[-1].kind == "consumer":
        return len([one for one in report.rebalances if one.came]) >= fault.members
    return report.rebalances[-1].members == fault.members


def test_each_fault_is_named(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    if not request.config.getoption("--fault-book"):
        pytest.skip("long: `make fault-book`, or --fault-book")
    assert len(FAULTS) >= 25
    server = PykcoordServer(tmp_path / "data", topics=TOPICS, settings=SETTINGS)
    with server:
        book = Book(server.address)
        try:
            members = {group: begun(book, group, fault) for group, fault in FAULTS.items()}
            mortals = {
                group: book.mortal(
                    # librdkafka does not come back under its old id.
                    "kafka-python" if group == "paused" else "confluent",
                    {
                        **book.config(group, f"{group}-doomed", **fault.options),
                        "topics": ["orders"],
                    },
                )
                for group, fault in FAULTS.items()
                if fault.is_mortal
            }
            settled(server.address)
            mark = int(time.time() * 1000)
            marks = dict.fromkeys(FAULTS, mark)
            for group, process in mortals.items():
                if "paused" in group:
                    process.send_signal(signal.SIGSTOP)
                    book.later(12, lambda process=process: process.send_signal(signal.SIGCONT))
                else:
                    process.kill()
            for group, fault in FAULTS.items():
                fault.act(book, group, members[group])
            deadline = time.monotonic() + SECONDS
            while True:
                found = reports(server.address, marks)
                lacks = {
                    group: text
                    for group, fault in FAULTS.items()
                    if (text := wanting(fault, found[group])) is not None
                }
                if not lacks or time.monotonic() > deadline:
                    break
                time.sleep(1)
            assert lacks == {}, "\n".join(f"{group}: {text}" for group, text in lacks.items())
        finally:
            book.end()
