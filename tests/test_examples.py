"""Every Python example of the README runs as it stands there. A page of docs/ that has any has a
`test_page.py` of its own, which knows what they print."""

from __future__ import annotations

import re
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from support.pages import ROOT, examples_of, run_example
from support.server import PykcoordServer

EXAMPLES = [code for code, _ in examples_of("README.md")]


def test_every_page_with_examples_has_a_test() -> None:
    pages = {path.stem for path in (ROOT / "docs").glob("*.md") if examples_of(f"docs/{path.name}")}
    tests = "\n".join(test.read_text() for test in (ROOT / "tests").glob("*/test_page.py"))
    assert pages == {page for page in pages if f"docs/{page}.md" in tests} != set()
    assert len(EXAMPLES) >= 3


@pytest.mark.parametrize("code", EXAMPLES)
def test_an_example_runs(code: str, tmp_path: Path) -> None:
    if "localhost:9092" not in code:
        assert run_example(code, tmp_path), "an example shows something"
        return
    with PykcoordServer(tmp_path / "data", topics={"orders": 12}) as server:
        out = run_example(code.replace("localhost:9092", server.address), tmp_path)
    assert out in ("12 partitions; the first is at 42\n", "12 partitions\n")


def test_the_embedded_example_waits_for_no_heartbeat() -> None:
    """Its second member would wait for the first one's next, for 3 s, and nothing is printed."""
    (code,) = [one for one in EXAMPLES if "bob" in one]
    begin = "    ann = coordinator.join("
    assert begin in code
    timed = code.replace(begin, f"    began = time.monotonic()\n{begin}", 1)
    timed = f"import time\n{timed}print(time.monotonic() - began)\n"
    took = []
    for _ in range(3):  # of two that begin together, one may be late where the machine is busy
        with TemporaryDirectory() as directory:
            *_, seconds = run_example(timed, Path(directory)).splitlines()
        took.append(float(seconds))
        if took[-1] < 2.0:
            return
    pytest.fail(f"it took {took} s")


def test_the_first_example_does_not_look_hung() -> None:
    """A new group would wait for more members for seconds, and the example says nothing then."""
    page, _, after = (ROOT / "README.md").read_text().partition("localhost:9092")
    serve = re.findall(r"^    (pykcoord serve .*)$", page, re.MULTILINE)
    assert len(serve) == 1
    assert "group.initial.rebalance.delay.ms=0" in serve[0]
    waits_ms = [int(ms) for ms in re.findall(r"poll\(timeout_ms=(\d+)\)", after)]
    assert max(waits_ms) <= 500, "what is assigned meanwhile is seen at a poll's end only"
    # kafka-python 3.0.12 forgets an assignment that comes as a poll times out. It joins a second
    # time about 200 ms after the first, when it has its metadata.
    assert min(waits_ms) >= 500, "a poll that ends in the second join may lose the assignment"
