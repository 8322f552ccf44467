"""Nodes of a cluster whose links to each other can be cut."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from support.members import Members
from support.ports import free_port
from support.proxy import Proxy


class ProxiedMembers(Members):
    """The others reach the control port of node n by `controls[n]`."""

    def __init__(
        self, folder: Path, nodes: int, settings: Mapping[str, object] | None = None
    ) -> None:
        super().__init__(folder, nodes, settings)
        first = free_port(adjacent=nodes - 1)
        self._control = {node: first + node - 1 for node in self.ports}
        self.controls = {node: Proxy(("127.0.0.1", port)) for node, port in self._control.items()}

    def start(self, node: int, *arguments: str) -> subprocess.Popen[str]:
        return super().start(
            node,
            "--control", f"127.0.0.1:{self._control[node]}",
            "--control-advertise", f"127.0.0.1:{self.controls[node].port}",
            *arguments,
        )  # fmt: skip

    def close(self) -> None:
        super().close()
        for proxy in self.controls.values():
            proxy.close()
