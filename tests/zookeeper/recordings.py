"""The recorded groups of the real old consumer, step by step (recorded/README.md)."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DIRECTORY = Path(__file__).with_name("recorded")
NAMES = sorted(
    path.name.removesuffix(".jsonl.gz")
    for path in DIRECTORY.glob("*.jsonl.gz")
    if ".trace." not in path.name
)


@dataclass
class Step:
    """What was there once a step had settled. `data`: path to the data of each znode."""

    group: str
    did: str
    owners: dict[str, str]
    believed: dict[str, dict[str, list[int]]]
    note: str
    data: dict[str, bytes | None] = field(default_factory=dict)
    nodes: dict[str, dict[str, Any]] = field(default_factory=dict)

    def below(self, path: str) -> dict[str, bytes | None]:
        """The children of a path: name to data."""
        prefix = path + "/"
        return {
            rest: data
            for found, data in self.data.items()
            if found.startswith(prefix) and "/" not in (rest := found.removeprefix(prefix))
        }


def steps(name: str) -> list[Step]:
    found: list[Step] = []
    with gzip.open(DIRECTORY / f"{name}.jsonl.gz", "rt") as lines:
        for text in lines:
            line = json.loads(text)
            if "did" in line:
                believed = line.get("believed", {})
                note = line.get("note", "")
                found.append(Step(name, line["did"], line["owners"], believed, note))
            else:
                data = line["data"]
                found[-1].data[line["path"]] = None if data is None else data.encode()
                found[-1].nodes[line["path"]] = line
    return found


def trace(name: str) -> list[dict[str, Any]]:
    with gzip.open(DIRECTORY / f"{name}.trace.jsonl.gz", "rt") as lines:
        return [json.loads(text) for text in lines]
