"""`pack`: one archive with everything that executors need and a cluster does not have.

Made of the packages that are installed here, without asking an index: pykcoord, pykcoord-spark and
their dependencies. An archive, not `--py-files`: Python imports no extension module from a zip.
"""

from __future__ import annotations

import importlib.util
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from pykcoord.errors import ArgumentError

__all__ = ["Packed", "pack"]

# Packages by the folder that is imported: an editable install lists no files of theirs.
_OURS = {"pykcoord": ["pykcoord"], "pykcoord-spark": ["pykcoord_spark", "pyspark_kcoord"]}
# Needed by optional parts; taken if installed.
_EXTRAS = ("confluent-kafka",)
# Needed by PySpark on executors; packed only when asked for.
_OF_SPARK = {"pandas", "pyarrow"}
# Comes with Spark.
_NEVER = {"pyspark", "py4j", "grpcio", "grpcio-status", "googleapis-common-protos"}
_SOURCES = {".pyx", ".pxd", ".c", ".pyc"}


@dataclass(frozen=True, slots=True)
class Packed:
    """The content of an archive: distributions by name with their versions, and its size."""

    versions: dict[str, str]
    size_bytes: int


def pack(output: Path, *, with_arrow: bool = False) -> Packed:
    """Writes the archive. `with_arrow` adds pandas and pyarrow, for clusters without them.

    Raises ArgumentError if something that is needed is not installed here.
    """
    found = {each.metadata["Name"]: each for each in _distributions(with_arrow)}
    staged = output.with_name(f".{output.name}.part")
    try:
        with zipfile.ZipFile(staged, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for name, path in sorted(_files(found)):
                archive.write(path, name)
        staged.replace(output)
    finally:
        staged.unlink(missing_ok=True)
    versions = {name: found[name].version for name in sorted(found, key=str.lower)}
    return Packed(versions, output.stat().st_size)


def _distributions(with_arrow: bool) -> Iterator[Distribution]:
    """The distributions of the two packages and of all that they need, each once."""
    left_out = _NEVER if with_arrow else _NEVER | _OF_SPARK
    waiting = [*_OURS, *_EXTRAS]
    seen = set(left_out)
    while waiting:
        name = _canonical(waiting.pop())
        if name in seen:
            continue
        seen.add(name)
        try:
            found = distribution(name)
        except PackageNotFoundError:
            if name in _EXTRAS:
                continue
            raise ArgumentError("pack", f"{name} is not installed here: pip install it") from None
        yield found
        waiting += _requirements(found)


def _requirements(of: Distribution) -> list[str]:
    """Names that a distribution needs here, without those of extras."""
    from packaging.requirements import Requirement

    wanted = [Requirement(text) for text in of.requires or ()]
    return [
        each.name for each in wanted if each.marker is None or each.marker.evaluate({"extra": ""})
    ]


def _files(distributions: dict[str, Distribution]) -> Iterator[tuple[str, Path]]:
    """Names in the archive, and where their content is."""
    for name, found in distributions.items():
        ours = _OURS.get(_canonical(name))
        for package in ours or ():
            yield from _package(package)
        for file in found.files or ():
            of_package = ".dist-info/" in str(file) if ours else ".." not in file.parts
            if of_package and file.suffix not in _SOURCES:
                yield str(file), Path(str(file.locate()))


def _package(name: str) -> Iterator[tuple[str, Path]]:
    spec = importlib.util.find_spec(name)
    for folder in (spec and spec.submodule_search_locations) or ():
        root = Path(folder)
        for path in root.rglob("*"):
            if path.is_file() and path.suffix not in _SOURCES:
                yield str(Path(name) / path.relative_to(root)), path


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
