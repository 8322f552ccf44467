"""What other processes have changed in a stored document, found beside the loop.

Documents of thousands of members differ in few. One that was written in parts
(`pykcoord.log.state_file`) has a line for each: lines that are known are not parsed. Other threads
have the interpreter after some. A document of another layout was written by hand: it is parsed
whole, which keeps the interpreter for as long as that takes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from pykcoord.clock import rest

__all__ = ["Comparing", "Known"]

_T = TypeVar("_T")

# What is done without a rest: some 0.2 ms of the processor.
_LINES_BYTES = 32_768
_MEMBERS_AT_ONCE = 64
_TEXTS_AT_ONCE = 1_024
# Long enough for the loop to take the interpreter.
_REST_SECONDS = 0.0002


class Known(NamedTuple):
    """An object of the document, as it was: members by key, and those whose text is known.
    `fields_of` is a value as JSON has it, `value_of` the value of that by its key."""

    current: Mapping[str, Any]
    texts: Mapping[str, str]
    fields_of: Callable[[Any], Any]
    value_of: Callable[[str, Any], Any]


class Comparing:
    """Of one document, with what is known of its objects by name; `rests`: other threads wait for
    the interpreter."""

    def __init__(self, objects: Mapping[str, Known], *, rests: bool) -> None:
        self._objects = objects
        self._rests = rests

    def of_text(self, content: bytes) -> dict[str, dict[str, Any]] | None:
        """By object and key what others have changed; None: it is gone. None in all: the text is
        laid out in another way. Raises what `value_of` raises."""
        found = {}
        for name, known in self._objects.items():
            texts = self._in_rests(known.texts.items(), _TEXTS_AT_ONCE)
            keys = {text: key for key, text in texts}
            lines = self._unknown_lines(content, name, keys)
            members = self._parsed(lines) if lines is not None else None
            if members is None:
                return None
            of_no_text = self._in_rests(known.current, _TEXTS_AT_ONCE)
            missing = [key for key in of_no_text if key not in known.texts]
            found[name] = self._changed(known, members, [*missing, *keys.values()])
        return found

    def of_document(self, document: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """The same of a document that is parsed."""
        found = {}
        for name, known in self._objects.items():
            of = document.get(name, {})
            members = of if isinstance(of, dict) else {"": of}
            found[name] = self._changed(known, members, known.current)
        return found

    def _changed(
        self, known: Known, members: Mapping[str, Any], missing: Iterable[str]
    ) -> dict[str, Any]:
        """`missing`: keys that are gone if they are not among these members."""
        gone = self._in_rests(missing, _TEXTS_AT_ONCE)
        changed: dict[str, Any] = {key: None for key in gone if key not in members}
        for key, fields in self._in_rests(members.items(), _MEMBERS_AT_ONCE):
            before = known.current.get(key)
            if before is None or known.fields_of(before) != fields:
                changed[key] = known.value_of(key, fields)
        return changed

    def _unknown_lines(self, content: bytes, name: str, known: dict[str, str]) -> list[str] | None:
        """Members of an object whose text is not `known`; those that are there are taken out of
        it. None: another layout."""
        if not content.startswith(b"{\n "):
            return None
        at = content.find(f'\n "{name}":'.encode())
        if at < 0:
            return []
        head = f'\n "{name}": {{\n'.encode()
        if not content.startswith(head, at):
            return None
        unknown: list[str] = []
        try:
            for line in self._lines(content, at + len(head)):
                if not line.startswith("  "):
                    return unknown if line in (" }", " },") else None
                text = line[2:-1] if line.endswith(",") else line[2:]
                if known.pop(text, None) is None:
                    unknown.append(text)
        except UnicodeDecodeError:
            return None
        return None

    def _lines(self, content: bytes, at: int) -> Iterator[str]:
        while at < len(content):
            end = content.find(b"\n", at + _LINES_BYTES)
            end = len(content) if end < 0 else end
            yield from content[at:end].decode().split("\n")
            at = end + 1
            self._rest()

    def _parsed(self, lines: Sequence[str]) -> dict[str, Any] | None:
        """Members by key; None: one of them is none, or not alone in its line."""
        parsed: dict[str, Any] = {}
        try:
            for line in self._in_rests(lines, _MEMBERS_AT_ONCE):
                ((key, value),) = json.loads(f"{{{line}}}").items()
                parsed[key] = value
        except ValueError:
            return None
        return parsed

    def _in_rests(self, some: Iterable[_T], at_once: int) -> Iterator[_T]:
        left = iter(some)
        while batch := [*islice(left, at_once)]:
            yield from batch
            self._rest()

    def _rest(self) -> None:
        if self._rests:
            rest(_REST_SECONDS)
