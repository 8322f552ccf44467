"""The texts in the znodes of scheme 1: registrations of members, topics, brokers, and offsets.

Pure: no ZooKeeper, no clock. What 0.8.2.2 writes is written to the byte; what it reads is read,
and refused where it fails. Sources: kafka.consumer.TopicCount, TopicFilter, kafka.utils.ZkUtils;
`docs/spec/zookeeper.md`, zookeeper section 1.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pykcoord.errors import ArgumentError
from pykcoord.zookeeper.errors import BadOffsetError, PatternError, RegistrationError
from pykcoord.zookeeper.java_regex import compiled

__all__ = ["Pattern", "Registration", "TopicFilter", "offset_of", "partitions_of", "thread_ids"]

Pattern = Literal["static", "white_list", "black_list"]

VERSION = 1
INTERNAL_TOPICS = frozenset({"__consumer_offsets"})
_INT32 = range(-(2**31), 2**31)
_MAX_OFFSET = 2**63 - 1
_OFFSET = re.compile(r"[0-9]+")
_SHORT_ESCAPES = {
    '"': '\\"', "\\": "\\\\", "/": "\\/", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r",
    "\t": "\\t",
}  # fmt: skip


@dataclass(frozen=True)
class TopicFilter:
    """A white list or black list: an expression of Java that must match a topic's whole name.

    `kind` says which; `text` is as a user writes it; `expression` what 0.8 makes of it: without
    blanks and outer quotes, with `|` for each comma.
    """

    kind: Literal["white_list", "black_list"]
    text: str

    @property
    def expression(self) -> str:
        """The expression that is stored and matched."""
        trimmed = self.text.strip("".join(map(chr, range(33))))
        plain = trimmed.replace(",", "|").replace(" ", "")
        return re.sub(r"^[\"']+|[\"']+$", "", plain)

    def check(self) -> None:
        """Raises PatternError where the expression is none of Java's."""
        compiled(self.expression)

    def allows(self, topic: str, *, exclude_internal_topics: bool = True) -> bool:
        """Whether `topic` is read. Internal topics are not, unless they are asked for.

        Raises PatternError.
        """
        if exclude_internal_topics and topic in INTERNAL_TOPICS:
            return False
        matches = compiled(self.expression).fullmatch(topic) is not None
        return matches == (self.kind == "white_list")


@dataclass(frozen=True)
class Registration:
    """What a member says of itself in `/consumers/GROUP/ids/ID`.

    `subscription`: topic to number of streams (`pattern` is `static`), or one expression to that
    number (`white_list` or `black_list`).
    `timestamp` is a text of milliseconds since the epoch, and `version` 1; both are never read by
    0.8.2.2.
    """

    subscription: Mapping[str, int]
    pattern: Pattern = "static"
    timestamp: str = "0"
    version: int | None = VERSION

    def encode(self) -> bytes:
        """The znode's data, byte for byte as 0.8.2.2 writes it."""
        entries = ",".join(
            f'"{_escaped(name) if self.pattern != "static" else name}":{streams}'
            for name, streams in self.subscription.items()
        )
        text = (
            f'{{"version":{self.version},"subscription":{{{entries}}},'
            f'"pattern":"{self.pattern}","timestamp":"{self.timestamp}"}}'
        )
        return text.encode()

    @classmethod
    def decode(cls, data: bytes | None, path: str) -> Registration:
        """What is read of the data at `path`. Raises RegistrationError, which names the path."""
        document = _object(data, path)
        subscription = document.get("subscription")
        if not isinstance(subscription, dict) or "pattern" not in document:
            raise RegistrationError(path, "a registration without pattern or subscription")
        for name, streams in subscription.items():
            if type(streams) is not int or streams not in range(1, _INT32.stop):
                reason = f"{streams!r} streams of {name!r}; a whole number from 1 on is needed"
                raise RegistrationError(path, reason)
        pattern: Pattern = "static"
        if document["pattern"] in ("white_list", "black_list") and subscription:
            pattern = kind = document["pattern"]
            subscription = dict([next(iter(subscription.items()))])
            try:
                TopicFilter(kind, next(iter(subscription))).check()
            except PatternError as error:
                reason = f"{pattern}: no regular expression of Java: {error}"
                raise RegistrationError(path, reason) from None
        version = document.get("version")
        return cls(
            subscription=subscription,
            pattern=pattern,
            timestamp=str(document.get("timestamp", "")),
            version=version if isinstance(version, int) else None,
        )

    @property
    def filter(self) -> TopicFilter | None:
        """The white or black list, if it is one."""
        if self.pattern == "static":
            return None
        return TopicFilter(self.pattern, next(iter(self.subscription)))

    def streams(
        self, topics: Iterable[str], *, exclude_internal_topics: bool = True
    ) -> dict[str, int]:
        """Number of streams by topic; a list takes those of `topics` (all there are) that it
        allows."""
        if (topic_filter := self.filter) is None:
            return dict(self.subscription)
        (count,) = self.subscription.values()
        return {
            topic: count
            for topic in topics
            if topic_filter.allows(topic, exclude_internal_topics=exclude_internal_topics)
        }


def registration_of(
    topics: Mapping[str, int] | Iterable[str] | None,
    whitelist: str | None,
    blacklist: str | None,
    streams: int,
) -> Registration:
    """The registration of a member that is asked to read these. Raises ArgumentError unless one
    of the three is given, and for what is no expression of Java."""
    given = [name for name, value in (("topics", topics), ("whitelist", whitelist),
             ("blacklist", blacklist)) if value is not None]  # fmt: skip
    if len(given) != 1:
        raise ArgumentError("topics", "one of topics, whitelist and blacklist is needed")
    if type(streams) is not int or streams not in range(1, _INT32.stop):
        raise ArgumentError("streams", f"{streams!r} is no whole number from 1 on")
    if topics is not None:
        counts = dict(topics) if isinstance(topics, Mapping) else dict.fromkeys(topics, streams)
        if not counts:
            raise ArgumentError("topics", "at least one topic is needed")
        for topic, count in counts.items():
            if type(topic) is not str or re.fullmatch(r"[a-zA-Z0-9._-]{1,255}", topic) is None:
                raise ArgumentError("topics", f"{topic!r} is no name of a topic")
            if type(count) is not int or count not in range(1, _INT32.stop):
                raise ArgumentError("topics", f"{count!r} streams of {topic!r}")
        return Registration(counts)
    kind: Literal["white_list", "black_list"]
    kind, text = ("white_list", whitelist) if whitelist is not None else ("black_list", blacklist)
    topic_filter = TopicFilter(kind, str(text))
    try:
        topic_filter.check()
    except PatternError as error:
        raise ArgumentError(given[0], f"no regular expression of Java: {error}") from None
    return Registration({topic_filter.expression: streams}, kind)


def thread_ids(consumer_id: str, streams: int) -> list[str]:
    """The ids of a member's streams: what owns partitions."""
    return [f"{consumer_id}-{number}" for number in range(streams)]


def partitions_of(data: bytes | None, path: str) -> list[int]:
    """The partitions of a topic, ascending, of the data of `/brokers/topics/T` (None: no such
    topic). Raises RegistrationError."""
    if data is None:
        return []
    partitions = _object(data, path).get("partitions")
    if not isinstance(partitions, dict):
        raise RegistrationError(path, "a topic without partitions")
    try:
        return sorted(map(int, partitions))
    except ValueError:
        raise RegistrationError(path, "a partition that is no number") from None


def offset_of(data: bytes | None, path: str) -> int:
    """The offset in `/consumers/G/offsets/T/P`: the next to be read. Raises BadOffsetError."""
    text = (data or b"").decode("utf-8", "replace")
    if _OFFSET.fullmatch(text) is None or not text.isascii() or int(text) > _MAX_OFFSET:
        shown = text if len(text) <= 40 else text[:40] + "..."
        raise BadOffsetError(path, f"{shown!r} is no offset")
    return int(text)


def _object(data: bytes | None, path: str) -> dict[str, Any]:
    try:
        document = json.loads((data or b"").decode(), parse_float=_no_decimals,
                              parse_constant=_no_decimals)  # fmt: skip
    except (ValueError, RecursionError) as error:
        raise RegistrationError(path, f"no JSON that 0.8.2 reads: {error}") from None
    if not isinstance(document, dict):
        raise RegistrationError(path, "no JSON object")
    return document


def _no_decimals(text: str) -> int:
    raise ValueError(f"{text} is no whole number")


def _escaped(text: str) -> str:
    """kafka.utils.Utils.JSONEscapeString"""

    def escaped(one: str) -> str:
        if one in _SHORT_ESCAPES:
            return _SHORT_ESCAPES[one]
        is_control = one <= "\x1f" or "\x7f" <= one <= "\x9f"
        return f"\\u{ord(one):04x}" if is_control else one

    return "".join(map(escaped, text))
