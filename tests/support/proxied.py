"""Nodes of a cluster whose links to each other can be cut; and such over an S3 server."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from support.gateway import BUCKET, Gateway
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


class S3Members(ProxiedMembers):
    """Over an S3 server, which each node reaches by a link of its own."""

    def __init__(
        self,
        folder: Path,
        nodes: int,
        gateway: Gateway,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(folder, nodes, settings)
        self.gateway = gateway
        self.stores = {node: Proxy(("127.0.0.1", gateway.port)) for node in self.ports}
        self._prefix = folder.name

    @property
    def url(self) -> str:
        return f"s3://{BUCKET}/{self._prefix}"

    def location(self, node: int) -> str:
        return self.url

    def environment(self, node: int) -> Mapping[str, str]:
        return Gateway.environment(self.stores[node].port)

    def cut_from_store(self, node: int) -> None:
        self.stores[node].cut()

    def join_to_store(self, node: int) -> None:
        self.stores[node].join()

    def close(self) -> None:
        super().close()
        for proxy in self.stores.values():
            proxy.close()
