"""Kafka's jars, copied by Maven into a cache outside the tree; must never download by itself."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from support.once import alone

VERSION = "4.4.0"
_POM = Path(__file__).with_name("pom.xml")
_MAVEN_TIMEOUT_S = 600


def missing_tool_chain() -> str | None:
    """Returns what a machine lacks to run Kafka, as a reason to skip, or None."""
    for command, what in (("java", "Java 17 or newer"), ("mvn", "Maven")):
        if shutil.which(command) is None:
            return f"{what} is needed: no `{command}` on PATH"
    return None


def library_directory() -> Path:
    """Returns the folder that holds Kafka's jars, filled on first use.

    `KAFKA_LIBS` names another folder that is complete already.
    """
    if "KAFKA_LIBS" in os.environ:
        return Path(os.environ["KAFKA_LIBS"])
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    directory = cache / "pykcoord" / f"kafka-{VERSION}" / "libs"
    stamp = directory / f".complete-{VERSION}"
    with alone(directory):
        if not stamp.exists():
            directory.mkdir(parents=True, exist_ok=True)
            maven(_POM, "dependency:copy-dependencies", f"-DoutputDirectory={directory}",
                  "-DincludeScope=runtime", "-Dmdep.overWriteReleases=false")  # fmt: skip
            stamp.touch()
    return directory


def maven(pom: Path, *arguments: str) -> None:
    """Runs Maven on a pom; raises RuntimeError with its output when it fails."""
    command = ["mvn", "-q", "-B", "-f", os.fspath(pom), *arguments]
    result = subprocess.run(
        command, capture_output=True, text=True, timeout=_MAVEN_TIMEOUT_S, check=False
    )
    if result.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{result.stdout}\n{result.stderr}")
