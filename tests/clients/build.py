"""Builds the client programs with their own package managers, once, under build/clients/.

Each is built when a test first asks for it; `python -m clients.build` builds all that this machine
has the tools for, and fetches Kafka. Must never fetch anything but through package managers.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from support.kafka.jars import library_directory, maven, missing_tool_chain
from support.once import alone

SOURCES = Path(__file__).parent
BUILD = SOURCES.parent.parent / "build" / "clients"
_TIMEOUT_S = 600
_BUILT = {"java": "java", "franz-go": "go", "kafkajs": "node"}
_GO = ("franz-go", "kafka-go", "sarama")
_TOOLS = {"java": ("java", "mvn"), "go": ("go",), "node": ("node", "npm"), "python": ()}


def missing_tool(language: str) -> str | None:
    """Returns why programs of a language cannot run on this machine, or None."""
    for tool in _TOOLS[language]:
        if shutil.which(tool) is None:
            return f"no `{tool}` on PATH"
    return None


def command(library: str) -> list[str]:
    """Returns the command that runs the program of a library, built before if need be."""
    if library == "java":
        directory = _built("java", _build_java)
        path = f"{directory / 'java-client.jar'}{os.pathsep}{directory / 'libs' / '*'}"
        return ["java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
                "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
                "-cp", path, "pykcoord.clients.JavaClient"]  # fmt: skip
    if library in _GO:
        return [os.fspath(_built("go", _build_go) / "client"), library]
    if library == "kafkajs":
        return ["node", os.fspath(_built("node", _build_node) / "client.js")]
    return [sys.executable, os.fspath(SOURCES / "python" / f"{library}_program.py")]


def main() -> None:
    for library, language in _BUILT.items():
        if missing_tool(language) is None:
            command(library)
    if missing_tool_chain() is None:
        library_directory()


def _built(language: str, build: Callable[[Path, Path], None]) -> Path:
    """A build is redone when one of its sources changed."""
    sources, directory = SOURCES / language, BUILD / language
    stamp, digest = directory / ".sources", _digest(sources)
    with alone(directory):
        if not stamp.exists() or stamp.read_text() != digest:
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir(parents=True)
            build(sources, directory)
            stamp.write_text(digest)
    return directory


def _digest(sources: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(path for path in sources.rglob("*") if path.is_file()):
        digest.update(os.fspath(path.relative_to(sources)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _build_java(sources: Path, directory: Path) -> None:
    maven(sources / "pom.xml", f"-DbuildDirectory={directory}", "package",
          "dependency:copy-dependencies", f"-DoutputDirectory={directory / 'libs'}",
          "-DincludeScope=runtime")  # fmt: skip


def _build_go(sources: Path, directory: Path) -> None:
    _run(["go", "build", "-o", os.fspath(directory / "client"), "."], sources)


def _build_node(sources: Path, directory: Path) -> None:
    shutil.copytree(sources, directory, dirs_exist_ok=True)
    _run(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"], directory)


def _run(arguments: list[str], directory: Path) -> None:
    result = subprocess.run(
        arguments, cwd=directory, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
    )
    if result.returncode != 0:
        raise RuntimeError(f"{' '.join(arguments)} failed:\n{result.stdout}\n{result.stderr}")


if __name__ == "__main__":
    main()
