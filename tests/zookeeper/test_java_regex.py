"""White and black lists are expressions of Java: read as Java reads them, or refused."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest
from support.kafka.jars import missing_tool_chain

from pykcoord.zookeeper import PatternError, TopicFilter
from pykcoord.zookeeper.java_regex import compiled

PROGRAM = Path(__file__).parent / "java" / "Regexes.java"
NAMES = [
    "orders",
    "Orders",
    "w.orders",
    "w_orders",
    "audit-7",
    "a",
    "b",
    "ab",
    "aab",
    "abab",
    "A1",
    "x",
    "q",
    "9",
    "a.b",
    "-",
    "_",
    ".",
    "aaa",
    "bbbb",
    "a{2}",
    "__consumer_offsets",
]
# Where the two languages differ, and some more.
LISTED = PROGRAM.with_name("patterns.txt").read_text().splitlines()
# Taken by Java, refused here with these words.
UNSUPPORTED = ("not supported here", "known here")


def _java(patterns: list[str]) -> list[str]:
    lines = "".join("\t".join([pattern, *NAMES]) + "\n" for pattern in patterns)
    result = subprocess.run(
        ["java", "-XX:+UseSerialGC", str(PROGRAM)],
        input=lines, capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    return result.stdout.splitlines()


def _here(pattern: str) -> str:
    try:
        expression = compiled(pattern)
    except PatternError as error:
        return "unsupported" if any(each in str(error) for each in UNSUPPORTED) else "refused"
    return "".join("01"[expression.fullmatch(name) is not None] for name in NAMES)


def _random_pattern(of: random.Random) -> str:
    parts = [
        r"a",
        r"b",
        r".",
        r"w",
        r"[a-c]",
        r"[^a]",
        r"(",
        r")",
        r"|",
        r"*",
        r"+",
        r"?",
        r"{2}",
        r"{1,}",
        r"[",
        r"]",
        r"&&",
        r"-",
        r"^",
        r"$",
        r"\.",
        r"\d",
        r"\w",
        r"\p{Alpha}",
        r"(?i)",
        r"(?:",
        r"(?=",
        r"{",
        r"}",
        r"\Q",
        r"\E",
        r"[a-z&&[^b]]",
        r"A",
        r"9",
        r"(?-i)",
        r"\1",
        r"\b",
    ]
    return "".join(of.choice(parts) for _ in range(of.randint(1, 7)))


@pytest.mark.java
@pytest.mark.skipif(missing_tool_chain() is not None, reason=str(missing_tool_chain()))
def test_patterns_mean_what_they_mean_in_java() -> None:
    of = random.Random(8)
    patterns = LISTED + [_random_pattern(of) for _ in range(3_000)]
    differing = [
        (pattern, java, here)
        for pattern, java in zip(patterns, _java(patterns), strict=True)
        if (here := _here(pattern)) not in (java, "unsupported")
    ]
    assert differing == []


def test_little_is_unsupported() -> None:
    unsupported = [pattern for pattern in LISTED if _here(pattern) == "unsupported"]
    assert unsupported == [r"\p{Foo}"]


def test_a_look_behind_of_no_fixed_length_is_refused() -> None:
    with pytest.raises(PatternError, match="not supported here"):
        compiled("a(?<=a{1,2})b")


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        (" orders, audit ", "orders|audit"),
        ("'orders'", "orders"),
        ('"\'w\\..*"', "w\\..*"),
        ("a b", "ab"),
        ("it's", "it's"),
    ],
)
def test_what_0_8_makes_of_a_list(text: str, expression: str) -> None:
    assert TopicFilter("white_list", text).expression == expression


def test_internal_topics_are_read_only_where_asked_for() -> None:
    black = TopicFilter("black_list", "orders")
    assert not black.allows("orders")
    assert black.allows("audit")
    assert not black.allows("__consumer_offsets")
    assert black.allows("__consumer_offsets", exclude_internal_topics=False)
