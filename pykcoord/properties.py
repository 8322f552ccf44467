"""Java's properties syntax, in which Kafka's `server.properties` is written (java.util.Properties).

Pure text to pairs: it opens no file and knows no name.
"""

from __future__ import annotations

from collections.abc import Iterator

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_SPACE = " \t\f"


def parse(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield (line number from 1, key, value) in the order of the text; a key may come twice.

    Raises ValueError, with the line number, for a malformed `\\u` escape: all else has a meaning.
    """
    for number, line in _logical_lines(text):
        key, value = _split(line)
        try:
            yield number, _unescape(key), _unescape(value)
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines without comments and blank ones, a continued one joined and counted as its first."""
    joined, start = "", 0
    natural = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for number, raw in enumerate(natural, 1):
        line = raw.lstrip(_SPACE)
        if not joined:
            if not line or line[0] in "#!":
                continue
            start = number
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            joined += line[:-1]
            continue
        yield start, joined + line
        joined = ""
    if joined:
        yield start, joined


def _split(line: str) -> tuple[str, str]:
    """Key and value, both still escaped: the key ends at the first bare `=`, `:` or white space."""
    at = 0
    while at < len(line) and line[at] not in "=:" + _SPACE:
        at += 2 if line[at] == "\\" else 1
    key, rest = line[:at], line[at:].lstrip(_SPACE)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_SPACE)
    return key, rest


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    out, at = [], 0
    while at < len(text):
        char = text[at]
        if char != "\\":
            out.append(char)
            at += 1
            continue
        escaped = text[at + 1 : at + 2]
        if escaped == "u":
            digits = text[at + 2 : at + 6]
            if len(digits) != 4 or any(digit not in "0123456789abcdefABCDEF" for digit in digits):
                raise ValueError(f"malformed \\u{digits}: four hexadecimal digits are needed")
            out.append(chr(int(digits, 16)))
            at += 6
        else:
            out.append(_ESCAPES.get(escaped, escaped))
            at += 2
    return "".join(out)
