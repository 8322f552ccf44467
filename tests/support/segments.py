"""The recorded logs under tests/segments, and those of `--segments`: unpacked copies."""

from __future__ import annotations

import base64
import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

OWN = Path(__file__).parent.parent / "segments"


def folders(config: pytest.Config) -> list[Path]:
    """One folder for each scenario."""
    given = config.getoption("--segments")
    return [path for root in (OWN, *given) for path in sorted(root.iterdir()) if path.is_dir()]


def unpack(source: Path, target: Path) -> Path:
    """A copy that may be written to, without `.gz`."""
    shutil.copytree(source, target)
    for path in [target, *target.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
        if path.suffix == ".gz":
            path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
            path.unlink()
    return target


def expected(folder: Path) -> dict[str, Any]:
    """What Kafka itself read from the log."""
    read: dict[str, Any] = json.loads((folder / "expected.json").read_text())
    return read


def topic_names(expected: dict[str, Any]) -> dict[bytes, str]:
    """By topic id, of the topics that were there at the end."""
    topics = expected["topics"].items()
    return {base64.urlsafe_b64decode(of["id"] + "=="): name for name, of in topics}
