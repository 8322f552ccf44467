"""examples/tour.md, followed as a reader follows it: its commands, in their order."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from support import orphans
from support.console import Console
from support.ports import free_port
from support.server import PykcoordServer

EXAMPLES = Path(__file__).parents[2] / "examples"
TOUR = (EXAMPLES / "tour.md").read_text()
SECONDS = 60.0


def explained(address: str) -> tuple[int, dict[str, object]]:
    done = subprocess.run(
        [sys.executable, "-m", "pykcoord", "explain", "billing", "--bootstrap-servers", address,
         "--json"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.returncode, json.loads(done.stdout)


def until(condition: Callable[[], bool]) -> None:
    deadline, waited = time.monotonic() + SECONDS, threading.Event()
    while not condition():
        assert time.monotonic() < deadline
        waited.wait(0.2)


def test_every_file_and_command_of_the_tour_is_there() -> None:
    for page in re.findall(r"\]\((\.\./docs/[a-z-]+\.md)\)", TOUR):
        assert (EXAMPLES / page).exists(), page
    assert "python examples/tour_worker.py" in TOUR
    for command in set(re.findall(r"^    pykcoord ([a-z]+)", TOUR, re.MULTILINE)):
        done = subprocess.run(
            [sys.executable, "-m", "pykcoord", command, "--help"], capture_output=True, check=False
        )
        assert done.returncode == 0, command


def test_what_is_broken_is_read_and_undone(tmp_path: Path) -> None:
    web = f"127.0.0.1:{free_port()}"
    ends = tmp_path / "ends.txt"
    ends.write_text("".join(f"orders {at} 1000\n" for at in range(6)))
    arguments = ["--end-offsets", str(ends), "--web", web]
    workers: dict[str, subprocess.Popen[bytes]] = {}
    with PykcoordServer(tmp_path / "data", topics={"orders": 6}, arguments=arguments) as server:
        console = Console(f"http://{web}/")

        def offsets() -> list[int]:
            _, _, body = console.ask("GET", "/api/group", {"id": "billing"})
            return [one["offset"] or 0 for one in json.loads(body).get("offsets", [])]

        try:
            for name in ("ann", "bob", "cy"):
                # As in the background of a script, or of a test run that is in one.
                command = ["env", "--ignore-signal=INT", sys.executable]
                command += [str(EXAMPLES / "tour_worker.py"), name, server.address]
                workers[name] = subprocess.Popen(command)
                orphans.started(workers[name])
            until(lambda: min(offsets() or [0]) > 0)
            workers["cy"].kill()
            workers["bob"].send_signal(signal.SIGSTOP)
            until(lambda: len(console.get("/api/group", id="billing")["members"]) == 1)
            workers["bob"].send_signal(signal.SIGCONT)

            def patterns() -> list[object]:
                found = explained(server.address)[1]["patterns"]
                assert isinstance(found, list)
                return [one["pattern"] for one in found]

            until(lambda: patterns() == ["session_timeout_too_short"])
            assert explained(server.address)[0] == 1
            for name in ("ann", "bob"):
                workers[name].send_signal(signal.SIGINT)
                workers[name].wait(60)
            before = offsets()
            assert min(before) > 0
        finally:
            for worker in workers.values():
                worker.kill()
                worker.wait(60)
                orphans.ended(worker)
