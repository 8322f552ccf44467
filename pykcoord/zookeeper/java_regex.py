"""Regular expressions of Java, as Python's: the white and black lists of Kafka 0.8 are such.

They differ in what they take (`[a-z&&[^q]]`, `\\Q.\\E`, `\\p{Alpha}`, `(?<name>`, `{` that must
repeat something, flags in the middle) and in what they mean (`\\d` is ASCII). Each part is read
by Java's grammar and written down as Python's. Source: java.util.regex.Pattern, of Java 17. Must
never take what Java refuses.
"""

from __future__ import annotations

import functools
import re
import unicodedata

from pykcoord.zookeeper.errors import PatternError
from pykcoord.zookeeper.java_characters import ANY, DOT, ESCAPES, Characters, between, named, single

_MAX_INT = 2**31 - 1
_PLAIN_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_ANCHORS = {
    "A": r"\A",
    "G": r"\A",
    "Z": r"(?=\n?\Z)",
    "z": r"\Z",
    "b": r"\b",
    "B": r"\B",
}
_LOOKS = ("?=", "?!", "?<=", "?<!", "?>", "?:")
_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9]*")
_FLAGS = re.compile(r"\?([idmsuxU]*)(?:-([idmsuxU]*))?([:)])")
_REPEAT = re.compile(r"\{(\d+)(,(\d*))?\}")
_CODE_FORMS = (
    ("x{", re.compile(r"x\{([0-9a-fA-F]+)\}"), 16),
    ("x", re.compile(r"x([0-9a-fA-F]{2})"), 16),
    ("u", re.compile(r"u+([0-9a-fA-F]{4})"), 16),
    ("0", re.compile(r"0([0-3][0-7]{2}|[0-7]{1,2})"), 8),
)


@functools.lru_cache(maxsize=1024)
def compiled(pattern: str) -> re.Pattern[str]:
    """Python's expression that matches what Java's `pattern` matches, in names of topics.

    Raises PatternError for what Java refuses, and for a look-behind of no fixed length, which
    Python does not have.
    """
    translated = _Translator(pattern).translate()
    try:
        return re.compile(translated, re.ASCII)
    except re.error as error:
        raise PatternError(pattern, 0, f"not supported here: {error.msg}") from None


class _Translator:
    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._at = 0
        self._folds = False
        self._comments = False
        self._groups = 0
        self._closed: set[int] = set()
        self._names: dict[str, int] = {}

    def translate(self) -> str:
        result = self._alternatives()
        if self._at < len(self._text):
            raise self._error("a ')' too many")
        return result

    def _error(self, reason: str, at: int | None = None) -> PatternError:
        return PatternError(self._text, self._at if at is None else at, reason)

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self) -> str:
        one = self._peek()
        if not one:
            raise self._error("ends too early")
        self._at += 1
        return one

    def _skip_comments(self) -> None:
        while self._comments and (one := self._peek()):
            if one in " \t\n\x0b\f\r":
                self._at += 1
            elif one == "#":
                end = self._text.find("\n", self._at)
                self._at = len(self._text) if end < 0 else end + 1
            else:
                return

    def _alternatives(self) -> str:
        """To the end of the group or pattern. Flags that are set in it end with it."""
        before = self._folds, self._comments
        parts = [self._sequence()]
        while self._peek() == "|":
            self._at += 1
            parts.append(self._sequence())
        self._folds, self._comments = before
        return "|".join(parts)

    def _sequence(self) -> str:
        parts: list[str] = []
        while True:
            self._skip_comments()
            if self._peek() in ("", "|", ")"):
                return "".join(parts)
            if self._peek() == "{":
                self._quantifier()  # of nothing: Java takes it
                continue
            if atom := self._atom():  # flags alone are none, and cannot be repeated
                self._skip_comments()
                atom += self._quantifier()
            parts.append(atom)

    def _quantifier(self) -> str:
        one = self._peek()
        if one and one in "*+?":
            self._at += 1
            return one + self._mode()
        if one != "{":
            return ""
        found = _REPEAT.match(self._text, self._at)
        if found is None:
            raise self._error("a '{' that repeats nothing; write \\{ for the character")
        low = int(found[1])
        high = low if found[2] is None else int(found[3]) if found[3] else _MAX_INT
        if low > high or high > _MAX_INT or low > _MAX_INT:
            raise self._error(f"{found[0]} is no range of repetitions")
        self._at = found.end()
        return found[0] + self._mode()

    def _mode(self) -> str:
        """Lazy or possessive."""
        one = self._peek()
        if one and one in "?+":
            self._at += 1
            return one
        return ""

    def _atom(self) -> str:
        begin = self._at
        one = self._take()
        match one:
            case "*" | "+" | "?":
                raise self._error(f"a {one!r} that repeats nothing", begin)
            case "(":
                return self._group(begin)
            case "[":
                return self._class(begin).pattern()
            case ".":
                return DOT.pattern()
            case "^":
                return r"(?:\A)"
            case "$":
                return r"(?:(?=\n?\Z))"
            case "\\":
                return self._escape(begin)
        return self._literal(one)

    def _literal(self, one: str) -> str:
        if one.isascii():
            characters = single(one)
            return (characters.folded() if self._folds else characters).pattern()
        return re.escape(one)

    def _group(self, begin: int) -> str:
        if self._peek() != "?":
            return self._capturing(begin, "(")
        for look in _LOOKS:
            if self._text.startswith(look, self._at):
                self._at += len(look)
                return self._closed_group(begin, f"({look}")
        if self._text.startswith("?<", self._at):
            self._at += 2
            found = _NAME.match(self._text, self._at)
            if found is None or self._text[found.end() : found.end() + 1] != ">":
                raise self._error("a name of a group is letters and digits, and then '>'")
            if found[0] in self._names:
                raise self._error(f"the name {found[0]!r} is there twice")
            self._names[found[0]] = self._groups + 1
            self._at = found.end() + 1
            return self._capturing(begin, f"(?P<{found[0]}>")
        flags = _FLAGS.match(self._text, self._at)
        if flags is None:
            raise self._error("an unknown kind of group")
        self._at = flags.end()
        before = self._folds, self._comments
        on, off = flags[1], flags[2] or ""
        self._folds = ("i" in on or self._folds) and "i" not in off
        self._comments = ("x" in on or self._comments) and "x" not in off
        if flags[3] == ")":
            return ""  # to the end of the group that it is in
        inner = self._closed_group(begin, "(?:")
        self._folds, self._comments = before
        return inner

    def _capturing(self, begin: int, opening: str) -> str:
        self._groups += 1
        number = self._groups
        inner = self._closed_group(begin, opening)
        self._closed.add(number)
        return inner

    def _closed_group(self, begin: int, opening: str) -> str:
        inner = self._alternatives()
        if self._peek() != ")":
            raise self._error("a '(' that nothing closes", begin)
        self._at += 1
        # Around what looks only, so that it can be repeated, as in Java.
        whole = f"{opening}{inner})"
        return f"(?:{whole})" if opening[2:3] in ("=", "!", "<") else whole

    def _escape(self, begin: int) -> str:
        one = self._take()
        if one == "Q":
            return self._quoted()
        if one in _ANCHORS:
            if one == "b" and self._peek() == "{":
                raise self._error(r"\b{...} is not supported here", begin)
            return f"(?:{_ANCHORS[one]})"
        if one == "R":
            return r"(?:\r\n|[\n\x0b\f\r\x85\u2028\u2029])"
        if one == "X":
            return ANY.pattern()
        if one == "k":
            found = re.compile(r"<([a-zA-Z][a-zA-Z0-9]*)>").match(self._text, self._at)
            if found is None or found[1] not in self._names:
                raise self._error(r"\k without the name of a group before it", begin)
            self._at = found.end()
            return self._reference(self._names[found[1]])
        if one in "123456789":
            number = int(one)
            while (digit := self._peek()).isdigit() and 10 * number + int(digit) <= self._groups:
                number = 10 * number + int(self._take())
            return self._reference(number)
        if (characters := self._set_escape(one, begin)) is not None:
            return characters.pattern()
        return self._literal(self._character(one, begin))

    def _reference(self, number: int) -> str:
        if number not in self._closed:
            return "(?!)"  # a group that has matched nothing matches nothing
        return f"(?i:\\{number})" if self._folds else f"(?:\\{number})"

    def _quoted(self) -> str:
        end = self._text.find(r"\E", self._at)
        quoted = self._text[self._at :] if end < 0 else self._text[self._at : end]
        self._at = len(self._text) if end < 0 else end + 2
        return "".join(map(self._literal, quoted))

    def _set_escape(self, one: str, begin: int) -> Characters | None:
        """The set that an escape names, if it names one."""
        if one.lower() in ESCAPES:
            characters = ESCAPES[one.lower()]
            return ~characters if one.isupper() else characters
        if one not in "pP":
            return None
        name = self._take()
        if name == "{":
            end = self._text.find("}", self._at)
            if end < 0:
                raise self._error(rf"a \{one}{{ that nothing closes", begin)
            name, self._at = self._text[self._at : end], end + 1
        known = named(name)
        if known is None:
            raise self._error(rf"\{one}{{{name}}} is no set of characters known here", begin)
        if self._folds:
            known = known.folded()
        return ~known if one == "P" else known

    def _character(self, one: str, begin: int) -> str:
        """The character that an escape names; `one` is what follows the backslash."""
        if one in _PLAIN_ESCAPES:
            return _PLAIN_ESCAPES[one]
        for start, form, base in _CODE_FORMS:
            if self._text.startswith(start, self._at - 1):
                found = form.match(self._text, self._at - 1)
                code = int(found[1], base) if found is not None else -1
                if found is None or code > 0x10FFFF:
                    raise self._error("no code of a character", begin)
                self._at = found.end()
                return chr(code)
        if one == "c":
            return chr(ord(self._take()) ^ 64)
        if one == "N" and self._peek() == "{":
            end = self._text.find("}", self._at)
            try:
                found_name = unicodedata.lookup(self._text[self._at + 1 : end])
            except KeyError:
                raise self._error("no name of a character", begin) from None
            self._at = end + 1
            return found_name
        if one.isascii() and one.isalpha():
            raise self._error(rf"\{one} means nothing", begin)
        return one

    def _class(self, begin: int) -> Characters:
        """A class whose '[' is taken: unions, of which `&&` makes an intersection."""
        negated = self._peek() == "^"
        if negated:
            self._at += 1
        whole: Characters | None = None
        part: Characters | None = None
        while True:
            if not self._peek():
                raise self._error("a '[' that nothing closes", begin)
            if self._peek() == "]" and (whole is not None or part is not None):
                self._at += 1
                break
            if self._text.startswith("&&", self._at):
                self._at += 2
                if self._peek() not in ("&", "]"):  # else Java overlooks it
                    whole, part = _intersection(whole, part), None
                elif whole is None and part is None:
                    raise self._error("a class of nothing", begin)
                continue
            item = self._class_item(begin)
            part = item if part is None else part | item
        result = _intersection(whole, part)
        if result is None:
            raise self._error("a class of nothing", begin)
        return ~result if negated else result

    def _class_item(self, begin: int) -> Characters:
        at = self._at
        one = self._take()
        if one == "[":
            return self._class(at)
        if one == "\\":
            escape = self._take()
            if escape == "Q":
                end = self._text.find(r"\E", self._at)
                if end < 0:
                    raise self._error("a '[' that nothing closes", begin)
                quoted, self._at = self._text[self._at : end], end + 2
                return self._as_folded(Characters(frozenset(filter(str.isascii, quoted))))
            if (characters := self._set_escape(escape, at)) is not None:
                return characters
            one = self._character(escape, at)
        following = self._text[self._at + 1 : self._at + 2]
        if self._peek() == "-" and following not in ("]", "[", ""):
            self._at += 1
            last = self._take()
            if last == "\\":
                last = self._character(self._take(), at)
            if last < one:
                raise self._error(f"{one}-{last} is no range", at)
            return self._as_folded(between(one, last))
        return self._as_folded(single(one))

    def _as_folded(self, characters: Characters) -> Characters:
        return characters.folded() if self._folds else characters


def _intersection(whole: Characters | None, part: Characters | None) -> Characters | None:
    if whole is None or part is None:
        return whole if part is None else part
    return whole & part
