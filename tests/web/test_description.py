"""The OpenAPI description says what the answers have, field by field; assets need no network."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from support.console import Console

import pykcoord.web
from pykcoord import Coordinator
from pykcoord.web.app import ASSETS
from pykcoord.web.openapi import description

FOLDER = Path(pykcoord.web.__file__).parent / "assets"
TYPES: dict[str, Any] = {
    "string": str,
    "integer": int,
    "boolean": bool,
    "object": dict,
    "array": list,
    "null": type(None),
}
DOCUMENT = description()
MARKUP = [
    "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function",
    "DOMParser", "createContextualFragment", "srcdoc", "javascript:",
]  # fmt: skip


def _check(value: Any, schema: Any, where: str) -> None:
    if "$ref" in schema:
        schema = DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    assert any(isinstance(value, TYPES[kind]) for kind in kinds), f"{where}: {value!r}"
    if "enum" in schema:
        assert value in schema["enum"], where
    if isinstance(value, dict) and "properties" in schema:
        assert value.keys() == schema["properties"].keys(), where
        for name, of in schema["properties"].items():
            _check(value[name], of, f"{where}.{name}")
    if isinstance(value, list):
        for one in value:
            _check(one, schema["items"], f"{where}[]")


def test_answers_are_as_they_are_described(tmp_path: Path) -> None:
    with (
        Coordinator(tmp_path, topics={"orders": 2}, web="127.0.0.1:0") as coordinator,
        coordinator.join("billing", ["orders"]) as member,
        coordinator.join("fraud", ["orders"], protocol="consumer") as other,
    ):
        member.wait()
        other.wait()
        member.commit({("orders", 0): 1})
        assert coordinator.web_url is not None
        console = Console(coordinator.web_url)
        assert console.get("/api/openapi.json") == DOCUMENT
        for path, parameters in (
            ("/api/session", {}),
            ("/api/groups", {}),
            ("/api/group", {"id": "billing"}),
            ("/api/group", {"id": "fraud"}),
            ("/api/cluster", {}),
        ):
            answer = DOCUMENT["paths"][path]["get"]["responses"]["200"]
            schema = answer["content"]["application/json"]["schema"]
            _check(console.get(path, **parameters), schema, path)


def test_every_route_is_described() -> None:
    source = (FOLDER.parent / "app.py").read_text()
    routes = set(re.findall(r'Route\("(/api/[\w/]+)"', source))
    assert routes == set(DOCUMENT["paths"])


def test_the_files_are_those_that_are_served() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {*ASSETS, "index.html", "login.html"}


@pytest.mark.parametrize("path", sorted(FOLDER.iterdir()), ids=lambda path: path.name)
def test_a_browser_needs_nothing_from_elsewhere(path: Path) -> None:
    text = path.read_text()
    names = set(re.findall(r"https?://[^\s\"'`)]+", text))
    assert names <= {"http://www.w3.org/2000/svg"}, "a namespace's name only"
    assert not re.search(r"@import|url\(", text)
    for name in re.findall(r'(?:from |import |src="|href=")"?(?:\./|/assets/)([\w.]+)', text):
        assert name in ASSETS, name


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.js")), ids=lambda path: path.name)
def test_no_text_becomes_markup(path: Path) -> None:
    text = path.read_text()
    for word in MARKUP:
        assert word not in text, word
