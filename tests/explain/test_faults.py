"""The fault book with real clients: `make fault-book`, or --fault-book. Takes a minute."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from support.server import PykcoordServer

from pykcoord.cli.events_client import fetch_events
from pykcoord.explain import Report, explain
from pykcoord.recorded import decode_events
from pykcoord.records import partition_of

from .faults import FAULTS, SECONDS, SETTINGS, TOPICS, Book, Fault

PAGE = Path(__file__).parents[2] / "docs" / "explain.md"
SHARDS = int(SETTINGS["offsets.topic.num.partitions"])
pytestmark = pytest.mark.timeout(600)


def reports(address: str, marks: dict[str, int]) -> dict[str, Report]:
    served = fetch_events(address)
    assert served is not None
    assert served.missing == []
    found = {}
    for group in FAULTS:
        events = served.partitions.get(partition_of(group, SHARDS), [])
        found[group] = explain(decode_events(events), group, marks.get(group))
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


def printed(group: str, report: Report) -> str:
    """The line that names the cause, and what to do."""
    says = FAULTS[group].says
    told = [line.text for line in report.lines if says and says in line.text]
    text = told[0] if told else "Nothing: nobody has to rebalance."
    for pattern in report.patterns:
        text += f" **{pattern.text} {pattern.suggestion}** Seen: {pattern.evidence}."
    return text


def telling(text: str) -> list[str]:
    """Its sentences without numbers, ids and which of several members: as they are each time. What
    a rebalance cost, and how often something was seen, is another each time."""
    text = re.sub(r"-[0-9A-Za-z_+/=-]{8}(?= at )", "-ID", text)
    sentences = re.split(r"(?<=[.*]) ", re.sub(r"\d[\d,.]*(?= |\.|-| ?s\b)", "N", text))
    passing = ("Generation", "Epoch", "Seen:", "N of", "N partition", "N commit", "All waited",
               "The leader,", "by now")  # fmt: skip
    return [one for one in sentences if not one.startswith(passing) and " meanwhile" not in one]


def rows() -> dict[str, str]:
    """What the page has, by fault."""
    table = PAGE.read_text().partition("<!-- clients -->")[2].partition("<!-- end -->")[0]
    return dict(re.findall(r"^\| ([a-z0-9-]+) \| (.+) \|$", table, re.MULTILINE)[1:])


def the_page_has_what_is_printed(told: dict[str, str]) -> None:
    """In docs/explain.md; `UPDATE=1 make fault-book` writes it anew."""
    if os.environ.get("UPDATE"):
        lines = ["| fault | what is printed |", "|---|---|"]
        lines += [f"| {group} | {text} |" for group, text in told.items()]
        pattern = r"(<!-- clients -->\n).*?(<!-- end -->)"
        table = "\n".join(lines)
        PAGE.write_text(
            re.sub(
                pattern, lambda of: f"{of[1]}\n{table}\n\n{of[2]}", PAGE.read_text(),
                flags=re.DOTALL,
            )
        )  # fmt: skip
    on_page = {group: telling(text) for group, text in rows().items()}
    assert on_page == {group: telling(text) for group, text in told.items()}


def test_the_page_has_each_fault_with_its_sentence() -> None:
    found = rows()
    assert found.keys() == FAULTS.keys()
    for group, fault in FAULTS.items():
        assert fault.says in found[group], group


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
            the_page_has_what_is_printed({group: printed(group, found[group]) for group in FAULTS})
        finally:
            book.end()
