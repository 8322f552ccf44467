"""An S3 server of this machine: versitygw, a Go program, over a folder.

It is built once, under build/gateway, by Go's own package manager; that takes minutes, so tests
that need it run with `--s3` alone.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from support.hosting import wait_until
from support.once import alone
from support.ports import free_port

SOURCES = Path(__file__).parents[1] / "cluster" / "gateway"
BUILD = Path(__file__).parents[2] / "build" / "gateway"
_PACKAGE = "github.com/versity/versitygw/cmd/versitygw"
_BUILD_S, _START_S = 1_800, 60.0
_KEY, _SECRET = "pykcoord", "pykcoord-of-tests"
BUCKET = "groups"


def missing_tool() -> str | None:
    """Why there can be no gateway on this machine; None if there can."""
    return None if shutil.which("go") else "no `go` on PATH"


def program() -> Path:
    """The program, built before if need be."""
    built = BUILD / "versitygw"
    sums = (SOURCES / "go.sum").read_bytes()
    stamp = BUILD / "go.sum"
    with alone(BUILD):
        if not built.exists() or not stamp.exists() or stamp.read_bytes() != sums:
            BUILD.mkdir(parents=True, exist_ok=True)
            command = ["go", "build", "-o", os.fspath(built), _PACKAGE]
            subprocess.run(command, cwd=SOURCES, check=True, timeout=_BUILD_S)
            stamp.write_bytes(sums)
    return built


class Gateway:
    """A server that runs, with an empty bucket. `port` is where it is reached."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        (folder / "data" / BUCKET).mkdir(parents=True)

    def start(self) -> Gateway:
        (self.folder / "iam").mkdir(exist_ok=True)
        command = [
            os.fspath(program()), "--port", f"127.0.0.1:{self.port}", "--access", _KEY,
            "--secret", _SECRET, "--iam-dir", os.fspath(self.folder / "iam"),
            "posix", os.fspath(self.folder / "data"),
        ]  # fmt: skip
        with (self.folder / "output").open("ab") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=output)
        wait_until(self._answers, _START_S)
        return self

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    @staticmethod
    def environment(port: int) -> Mapping[str, str]:
        """What obstore needs for a server at this port."""
        return {
            "AWS_ACCESS_KEY_ID": _KEY,
            "AWS_SECRET_ACCESS_KEY": _SECRET,
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT": f"http://127.0.0.1:{port}",
            "AWS_ALLOW_HTTP": "true",
        }

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.folder / "output").read_text()
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True


@contextmanager
def running(folder: Path) -> Iterator[Gateway]:
    """A gateway over a new folder."""
    gateway = Gateway(folder)
    try:
        yield gateway.start()
    finally:
        gateway.stop()


if __name__ == "__main__":
    program()
