"""A server does not outlive the tests that started it, however they end."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

_TIMEOUT_S = 60.0
_PROGRAM = """
import os, signal, sys
from pathlib import Path
from support.server import PykcoordServer
print(PykcoordServer(Path(sys.argv[1])).start().port, flush=True)
{end}
"""


@pytest.mark.parametrize("end", ["os._exit(1)", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_a_server_ends_with_the_tests(end: str, tmp_path: Path) -> None:
    tests = subprocess.run(
        [sys.executable, "-c", _PROGRAM.format(end=end), os.fspath(tmp_path / "data")],
        cwd=Path(__file__).parent, stdout=subprocess.PIPE, check=False, timeout=2 * _TIMEOUT_S,
    )  # fmt: skip
    port = int(tests.stdout)
    deadline = time.monotonic() + _TIMEOUT_S
    while _is_served(port):
        assert time.monotonic() < deadline, "the server still runs"
        time.sleep(0.01)


def _is_served(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except (ConnectionRefusedError, ConnectionResetError):
        return False
    return True
