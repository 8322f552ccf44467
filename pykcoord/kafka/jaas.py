"""`sasl.jaas.config`: one login module and its options, in the syntax of Java's JAAS files."""

from __future__ import annotations

import re

__all__ = ["jaas_options"]

_TOKEN = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|([^\s=;"]+)|([=;]))')
_FLAGS = frozenset({"required", "requisite", "sufficient", "optional"})


def jaas_options(text: str) -> tuple[str, dict[str, str]]:
    """The class of the login module, without its package, and its options.

    Raises ValueError where it is not `MODULE required NAME="VALUE" ...;`. The message never holds a
    value: it may be a password.
    """
    tokens = _tokens(text)
    if tokens[-1:] != [";"]:
        raise ValueError("it must end in ;")
    if len(tokens) < 3 or tokens[1].lower() not in _FLAGS:
        raise ValueError('it is not MODULE required NAME="VALUE" ...;')
    options: dict[str, str] = {}
    rest = tokens[2:-1]
    for at in range(0, len(rest), 3):
        if len(rest) < at + 3 or rest[at + 1] != "=":
            raise ValueError(f"option {at // 3 + 1} is not NAME=VALUE")
        options[rest[at]] = rest[at + 2]
    return tokens[0].rpartition(".")[2], options


def _tokens(text: str) -> list[str]:
    found: list[str] = []
    at, end = 0, len(text.rstrip())
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            raise ValueError(f"character {at + 1} does not fit")
        quoted, plain, sign = match.groups()
        found.append(re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else plain or sign)
        at = match.end()
    return found
