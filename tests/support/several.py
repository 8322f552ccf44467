"""Three nodes in the place of one server, as clients of the suite see them: `--server nodes` (of
one directory) and `--server cluster` (over one folder). `strike` kills one of them.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, Self

from support.members import Members
from support.nodes import Nodes

_NODES = 3


class Several(Protocol):
    """Three nodes."""

    def strike(self) -> None:
        """Kill a node. It comes back."""

    def recover(self) -> None:
        """All are there again."""


class NodesServer:
    """`pykcoord serve --nodes 3`: a node that was killed is started again by its supervisor."""

    name = "pykcoord"

    def __init__(
        self,
        directory: Path,
        topics: Mapping[str, int] | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self._nodes = Nodes(directory, topics, settings)
        self._random = random.Random(directory.name)
        self._struck: tuple[int, int] | None = None

    @property
    def address(self) -> str:
        return self._nodes.bootstrap

    def start(self) -> Self:
        self._nodes.start(_NODES)
        return self

    def strike(self) -> None:
        node = self._random.choice([*self._nodes.pids])
        self._struck = (node, self._nodes.kill(node))

    def recover(self) -> None:
        if self._struck is not None:
            self._nodes.wait_started_again(*self._struck)
            self._struck = None

    def restart(self) -> Self:
        """SIGKILL of all, one after the other without waiting; they are started again."""
        killed = [(node, self._nodes.kill(node)) for node in [*self._nodes.pids]]
        for node, before in killed:
            self._nodes.wait_started_again(node, before)
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._nodes.close()


class MembersServer:
    """Three times `pykcoord serve --cluster`."""

    name = "pykcoord"

    def __init__(
        self,
        directory: Path,
        topics: Mapping[str, int] | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        directory.mkdir(parents=True)
        self._members = Members(directory, _NODES, settings)
        self._topics = [f"--topic={name}:{count}" for name, count in (topics or {}).items()]
        self._random = random.Random(directory.name)
        self._struck: int | None = None

    @property
    def address(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self._members.ports.values())

    def start(self) -> Self:
        for node in self._members.ports:
            self._members.start(node, *self._topics)
        self._members.wait_known()
        return self

    def strike(self) -> None:
        self._struck = self._random.choice([*self._members.ports])
        self._members.kill(self._struck)

    def recover(self) -> None:
        if self._struck is not None:
            self._members.start(self._struck)
            self._struck = None

    def restart(self) -> Self:
        for node in self._members.ports:
            self._members.kill(node)
        return self.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._members.close()


SEVERAL = {"nodes": NodesServer, "cluster": MembersServer}
"""By the word of `--server`."""
