"""Servers with a console, and a browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.browser import CHROMIUM, DRIVER, MISSING, Browser, browser
from support.console import Console
from support.ports import free_port
from support.server import PykcoordServer

Served = tuple[PykcoordServer, Console]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Starts a server with a console, and further options."""
    servers: list[PykcoordServer] = []

    def start(*arguments: str, name: str = "data", **options: object) -> Served:
        address = f"127.0.0.1:{free_port()}"
        server = PykcoordServer(
            tmp_path / name,
            topics={"orders": 6, "payments": 3},
            arguments=["--web", address, *arguments],
            **options,  # type: ignore[arg-type]
        )
        servers.append(server.start())
        return server, Console(f"http://{address}/")

    yield start
    for server in servers:
        if server.running:
            server.stop()


@pytest.fixture(scope="session")
def window() -> Iterator[Browser]:
    """A browser; skips where there is none."""
    if CHROMIUM is None or DRIVER is None:
        pytest.skip(MISSING)
    with browser() as opened:
        yield opened
