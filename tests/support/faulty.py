"""Processes with faults of the code: `strike` has one raise, where `support.faults_inside` says."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from support.members import Members

__all__ = ["FaultyMembers", "environment", "strike"]

_INSIDE = Path(__file__).parent / "faults_inside"


def environment(folder: Path) -> Mapping[str, str]:
    """Of a process whose faults are files in that folder."""
    before = os.environ.get("PYTHONPATH")
    path = os.pathsep.join([os.fspath(_INSIDE), *([before] if before else [])])
    return {"PYTHONPATH": path, "KCOORD_TEST_FAULTS": os.fspath(folder)}


def strike(folder: Path, fault: str) -> None:
    (folder / fault).touch()


class FaultyMembers(Members):
    """Each node has faults of its own."""

    def environment(self, node: int) -> Mapping[str, str]:
        self.faults(node).mkdir(exist_ok=True)
        return environment(self.faults(node))

    def faults(self, node: int) -> Path:
        return self._links / f"faults-{node}"

    def strike(self, node: int, fault: str) -> None:
        strike(self.faults(node), fault)
