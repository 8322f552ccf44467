"""Sets of characters as Java's regular expressions name them, for the names of topics.

A legal name has ASCII characters only (org.apache.kafka.common.internals.Topic), so a set is exact
for ASCII; of all other characters it holds all or none.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

ASCII = frozenset(map(chr, range(128)))


@dataclass(frozen=True)
class Characters:
    """A set. `others`: whether it has the characters beyond ASCII."""

    ascii: frozenset[str]
    others: bool = False

    def __or__(self, other: Characters) -> Characters:
        return Characters(self.ascii | other.ascii, self.others or other.others)

    def __and__(self, other: Characters) -> Characters:
        return Characters(self.ascii & other.ascii, self.others and other.others)

    def __invert__(self) -> Characters:
        return Characters(ASCII - self.ascii, not self.others)

    def folded(self) -> Characters:
        """With both cases of each letter, as the flag `i` means it."""
        both = {each for one in self.ascii for each in (one, one.lower(), one.upper())}
        return Characters(frozenset(both), self.others)

    def pattern(self) -> str:
        """As Python writes it."""
        listed, negated = self.ascii, ""
        if self.others:
            listed, negated = ASCII - self.ascii, "^"
            if not listed:
                return r"[\s\S]"
        elif not listed:
            return "(?!)"
        return f"[{negated}{''.join(map(_escaped, sorted(listed)))}]"


def _escaped(one: str) -> str:
    return re.escape(one) if one.isprintable() and one not in "&~|" else f"\\x{ord(one):02x}"


def single(one: str) -> Characters:
    """The set of one character. One beyond ASCII is in no name of a topic."""
    return Characters(frozenset({one}) & ASCII)


def between(first: str, last: str) -> Characters:
    """The set of a range of characters, both ends in it."""
    return Characters(frozenset(one for one in ASCII if first <= one <= last))


def _of(*members: str) -> Characters:
    return Characters(frozenset("".join(members)))


_LOWER = between("a", "z")
_UPPER = between("A", "Z")
_DIGIT = between("0", "9")
_ALPHA = _LOWER | _UPPER
_SPACE = _of(" \t\n\x0b\f\r")
_PUNCT = _of("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_CONTROL = between("\0", "\x1f") | single("\x7f")
ANY = Characters(ASCII, True)
DOT = ~_of("\n\r")

ESCAPES = {
    "d": _DIGIT,
    "s": _SPACE,
    "w": _ALPHA | _DIGIT | single("_"),
    "h": _of(" \t"),
    "v": _of("\n\x0b\f\r"),
}
_PROPERTIES = {
    "Lower": _LOWER,
    "Upper": _UPPER,
    "ASCII": Characters(ASCII),
    "Alpha": _ALPHA,
    "Digit": _DIGIT,
    "Alnum": _ALPHA | _DIGIT,
    "Punct": _PUNCT,
    "Graph": _ALPHA | _DIGIT | _PUNCT,
    "Print": _ALPHA | _DIGIT | _PUNCT | single(" "),
    "Blank": _of(" \t"),
    "Cntrl": _CONTROL,
    "XDigit": _DIGIT | between("a", "f") | between("A", "F"),
    "Space": _SPACE,
    "javaLowerCase": _LOWER,
    "javaUpperCase": _UPPER,
    "javaAlphabetic": _ALPHA,
    "javaLetter": _ALPHA,
    "javaDigit": _DIGIT,
    "javaLetterOrDigit": _ALPHA | _DIGIT,
    "javaWhitespace": _SPACE | between("\x1c", "\x1f"),
}
# Of the names that Java has after `Is`, in any case: those that tell ASCII characters apart.
_BINARY = {
    "alphabetic": _ALPHA,
    "letter": _ALPHA,
    "lowercase": _LOWER,
    "uppercase": _UPPER,
    "digit": _DIGIT,
    "punctuation": Characters(
        frozenset(one for one in ASCII if unicodedata.category(one).startswith("P"))
    ),
    "white_space": _SPACE,
    "whitespace": _SPACE,
    "latin": _ALPHA,
    "common": ~_ALPHA & Characters(ASCII),
}
_CATEGORY = re.compile(r"[CLMNPSZ][a-z]?")


def named(name: str) -> Characters | None:
    """The set of `\\p{name}`; None where the name is not known here."""
    if name in _PROPERTIES:
        return _PROPERTIES[name]
    plain = name.removeprefix("Is")
    for prefix in ("general_category=", "gc="):
        if plain.lower().startswith(prefix):
            plain = plain[len(prefix) :]
    if plain == "LC":
        return _ALPHA
    if plain == "L1":
        return ANY & Characters(ASCII)
    if _CATEGORY.fullmatch(plain):
        return Characters(frozenset(a for a in ASCII if unicodedata.category(a).startswith(plain)))
    if name.startswith("Is"):
        return _BINARY.get(plain.lower())
    if name in ("InBasicLatin", "InBASIC_LATIN"):
        return Characters(ASCII)
    return None
