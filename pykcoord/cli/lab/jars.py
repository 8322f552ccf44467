"""Jars of ZooKeeper and of Kafka 0.8.2.2, fetched by Maven into a cache on first use.

Nothing is fetched unless `library_directory` is called. Several processes may call it at once.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path
from typing import Literal

from pykcoord.errors import KcoordError

__all__ = ["LabError", "library_directory", "missing_tool_chain"]

Library = Literal["zookeeper", "kafka082"]

# Folder in the cache, variable that names another, a jar that must be there, coordinates. The
# server's pom calls metrics-core and snappy-java "provided".
_LIBRARIES: dict[Library, tuple[str, str, str, tuple[str, ...]]] = {
    "zookeeper": (
        "zookeeper-3.9.4",
        "ZOOKEEPER_LIBS",
        "zookeeper-3.9.4.jar",
        (
            "org.apache.zookeeper:zookeeper:3.9.4",
            "io.dropwizard.metrics:metrics-core:4.2.30",
            "org.xerial.snappy:snappy-java:1.1.10.7",
            "commons-cli:commons-cli:1.9.0",
            "org.slf4j:slf4j-simple:2.0.13",
        ),
    ),
    "kafka082": (
        "kafka-0.8.2.2",
        "KAFKA082_LIBS",
        "kafka_2.11-0.8.2.2.jar",
        ("org.apache.kafka:kafka_2.11:0.8.2.2",),
    ),
}
_MAVEN_SECONDS = 600


class LabError(KcoordError):
    """Something that the lab needs is missing, or did not start."""


def missing_tool_chain() -> str | None:
    """What this machine lacks, in one line; None if it has all."""
    for command, what in (("java", "Java 17 or newer"), ("mvn", "Maven")):
        if shutil.which(command) is None:
            return f"{what} is needed for a real ZooKeeper: no `{command}` on PATH"
    return None


def library_directory(library: Library) -> Path:
    """The folder with the jars. Raises LabError, in one line, where they cannot be had."""
    folder, variable, jar, coordinates = _LIBRARIES[library]
    if variable in os.environ:
        return Path(os.environ[variable])
    if (missing := missing_tool_chain()) is not None:
        raise LabError(missing)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pykcoord" / folder
    directory, stamp = cache / "libs", cache / "complete"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists():
            _fetch(cache, directory, coordinates)
            if not (directory / jar).exists():
                raise LabError(f"{directory}: Maven ended well, but {jar} is not there")
            stamp.touch()
    return directory


def _fetch(cache: Path, directory: Path, coordinates: tuple[str, ...]) -> None:
    dependencies = "".join(
        "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>"
        "</dependency>".format(*each.split(":"))
        for each in coordinates
    )
    pom = cache / "pom.xml"
    pom.write_text(
        "<project><modelVersion>4.0.0</modelVersion><groupId>local</groupId>"
        "<artifactId>jars</artifactId><version>1</version>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )
    command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
    command += [f"-DoutputDirectory={directory}", "-DincludeScope=runtime"]
    try:
        result = subprocess.run(
            command, capture_output=True, text=True, timeout=_MAVEN_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise LabError(f"Maven fetched nothing within {_MAVEN_SECONDS} s") from None
    if result.returncode != 0:
        lines = [line for line in result.stdout.splitlines() if line.startswith("[ERROR]")]
        told = lines[0] if lines else (result.stdout + result.stderr)[-200:]
        raise LabError(f"Maven cannot fetch {coordinates[0]}: {told}")
