"""Every public name says what it is: in Python here, in Rust by the compiler.

Public is what `pykcoord` and `pykcoord_spark` export, what the modules that docs/architecture.md
lists for other packages have in their `__all__`, and what other pages tell readers to import.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
# Public beside those that docs/architecture.md lists.
MODULES = [
    "pykcoord",
    "pykcoord._native",
    "pykcoord.clients.aiokafka",
    "pykcoord.clients.kafka_python",
    "pykcoord.engine",
    "pykcoord.protocol",
    "pykcoord.kafka",
    "pykcoord.watch",
    "pykcoord.zookeeper",
    "pykcoord_spark",
]
# Their fields are settings: each has its text in its metadata, from which the docs are made.
SETTINGS = {"Config"}
CRATES = ["core", "log", "node", "rows", "timer", "wire"]


def _listed() -> list[str]:
    text = (ROOT / "docs/architecture.md").read_text()
    section = text.partition("\n## What Spark builds on\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return [name for row in rows for name in re.findall(r"`([\w.]+)`", row)]


def _own_text(value: type) -> str:
    """The docstring of a class, but not the signature that `dataclass` puts in its place."""
    text = value.__dict__.get("__doc__") or ""
    return "" if text.startswith(f"{value.__name__}(") else text


def _fields(value: type) -> list[str]:
    if dataclasses.is_dataclass(value):
        return [field.name for field in dataclasses.fields(value)]
    return list(getattr(value, "_fields", ()))


def _explained(value: type, text: str) -> str:
    """The class's docstring, with the names that have a docstring of their own below them."""
    if not _fields(value):
        return text
    body = ast.parse(textwrap.dedent(inspect.getsource(value))).body[0]
    assert isinstance(body, ast.ClassDef)
    below = [
        ast.unparse(first.target)
        for first, second in zip(body.body, body.body[1:], strict=False)
        if isinstance(first, ast.AnnAssign)
        and isinstance(second, ast.Expr)
        and isinstance(second.value, ast.Constant)
    ]
    return " ".join([text, *below])


def _silent(name: str, value: Any) -> Iterator[str]:
    """The parts of `value` without a docstring: itself, its public methods, properties and
    fields."""
    if not inspect.isclass(value):
        if inspect.isroutine(value) and not inspect.getdoc(value):
            yield name
        return
    text = _own_text(value)
    if not text:
        yield name
    if value.__name__ not in SETTINGS:
        told = _explained(value, text)
        for field in _fields(value):
            if not field.startswith("_") and not re.search(rf"\b{field}\b", told):
                yield f"{name}.{field}"
    for part, member in vars(value).items():
        if part.startswith("_") or part in _fields(value):
            continue
        is_property = isinstance(member, property | functools.cached_property)
        is_native = inspect.isgetsetdescriptor(member)
        is_callable = inspect.isroutine(member) or isinstance(member, staticmethod | classmethod)
        if (is_property or is_native or is_callable) and not inspect.getdoc(getattr(value, part)):
            yield f"{name}.{part}"


@pytest.mark.parametrize("module", [*MODULES, *_listed()])
def test_every_public_name_has_a_docstring(module: str) -> None:
    home = importlib.import_module(module)
    silent = [] if home.__doc__ else [module]
    for name in home.__all__:
        silent += _silent(f"{module}.{name}", getattr(home, name))
    assert silent == []


def test_a_name_without_a_docstring_is_found() -> None:
    class Loud:
        """`told` is said here."""

        def heard(self) -> None:
            """Something."""

    @dataclasses.dataclass
    class Quiet:
        unsaid: int

        def unheard(self) -> None: ...

        @property
        def unseen(self) -> int:
            return self.unsaid

    assert list(_silent("Loud", Loud)) == []
    found = list(_silent("Quiet", Quiet))
    assert found == ["Quiet", "Quiet.unsaid", "Quiet.unheard", "Quiet.unseen"]


@pytest.mark.parametrize("crate", CRATES)
def test_the_compiler_asks_for_the_docs_of_a_crate(crate: str) -> None:
    """A warning, so that unfinished work compiles; `make lint` refuses warnings."""
    assert "\n#![warn(missing_docs)]\n" in (ROOT / f"native/{crate}/src/lib.rs").read_text()
