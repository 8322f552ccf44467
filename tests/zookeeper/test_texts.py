"""What stands in the znodes, and orders: what can be read, and what is refused with its path."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykcoord.errors import ArgumentError
from pykcoord.zookeeper import (
    BadOffsetError,
    Registration,
    RegistrationError,
    StrategyError,
    assign,
    java_hash,
    offset_of,
    partitions_of,
    threads_by_topic,
    utf16_order,
)
from pykcoord.zookeeper.registration import registration_of

PATH = "/consumers/billing/ids/billing_c1"
ASTRAL, PRIVATE = "\U0001f40d", "\uff5e"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"{", "no JSON"),
        (b"\xff", "no JSON"),
        (None, "no JSON"),
        (b"[1]", "no JSON object"),
        (b'{"version":1,"pattern":"static"}', "without pattern or subscription"),
        (b'{"version":1,"subscription":{"A":1}}', "without pattern or subscription"),
        (b'{"subscription":{"A":1.0},"pattern":"static"}', "1.0 is no whole number"),
        (b'{"subscription":{"A":0},"pattern":"static"}', "0 streams of 'A'"),
        (b'{"subscription":{"A":"1"},"pattern":"static"}', "'1' streams of 'A'"),
        (b'{"subscription":{"(":1},"pattern":"white_list"}', "no regular expression of Java"),
        (b"[" * 100_000, "no JSON"),
    ],
)
def test_a_registration_that_is_refused_names_its_path(data: bytes | None, reason: str) -> None:
    with pytest.raises(RegistrationError, match=reason) as caught:
        Registration.decode(data, PATH)
    assert str(caught.value).startswith(f"{PATH}: ")


def test_a_version_and_a_timestamp_are_never_needed() -> None:
    other = Registration.decode(b'{"version":9,"subscription":{"A":2},"pattern":"odd"}', PATH)
    assert (other.version, other.pattern, other.streams([])) == (9, "static", {"A": 2})


def test_an_empty_subscription_is_static() -> None:
    empty = Registration.decode(b'{"subscription":{},"pattern":"white_list"}', PATH)
    assert (empty.pattern, empty.streams(["A"])) == ("static", {})


def test_an_expression_is_escaped_as_0_8_does_it() -> None:
    registration = registration_of(None, 'a\\.b/"c"\x1f, d', None, 2)
    assert registration.encode().startswith(
        b'{"version":1,"subscription":{"a\\\\.b\\/\\"c\\"\\u001f|d":2},"pattern":"white_list",'
    )
    assert json.loads(registration.encode())["subscription"] == {'a\\.b/"c"\x1f|d': 2}


@pytest.mark.parametrize(
    ("topics", "whitelist", "blacklist", "streams", "named"),
    [
        (None, None, None, 1, "topics"),
        (["A"], "A", None, 1, "topics"),
        ([], None, None, 1, "topics"),
        (["a/b"], None, None, 1, "topics"),
        ({"A": 0}, None, None, 1, "topics"),
        (["A"], None, None, 0, "streams"),
        (None, "(", None, 1, "whitelist"),
        (None, None, "*", 1, "blacklist"),
    ],
)
def test_arguments_that_cannot_be_right(
    topics: object, whitelist: str | None, blacklist: str | None, streams: int, named: str
) -> None:
    with pytest.raises(ArgumentError) as caught:
        registration_of(topics, whitelist, blacklist, streams)  # type: ignore[arg-type]
    assert caught.value.argument == named


@pytest.mark.parametrize("data", [b"", b"-1", b"1.5", b"0x1", b"9" * 20, b" 1", None, "٣".encode()])
def test_an_offset_that_is_no_number(data: bytes | None) -> None:
    path = "/consumers/billing/offsets/orders/0"
    with pytest.raises(BadOffsetError, match=path):
        offset_of(data, path)


def test_partitions_ascend_as_numbers() -> None:
    data = b'{"version":1,"partitions":{"10":[1],"9":[1],"0":[1]}}'
    assert partitions_of(data, "/brokers/topics/A") == [0, 9, 10]
    assert partitions_of(None, "/brokers/topics/A") == []
    for broken in (b'{"partitions":{"x":[]}}', b"{}", b"no"):
        with pytest.raises(RegistrationError, match="/brokers/topics/A"):
            partitions_of(broken, "/brokers/topics/A")


def test_java_hashes() -> None:
    """Of `String.hashCode` in Java 17."""
    hashes = {"": 0, "[A,0]": 86020691, "Aa": 2112, "BB": 2112, "[w.orders,11]": 1263367336}
    assert {text: java_hash(text) for text in hashes} == hashes
    assert java_hash(ASTRAL) == 31 * 0xD83D + 0xDC0D


def test_texts_sort_by_utf16_units() -> None:
    """A character beyond the first plane begins with a surrogate, below U+FF5E."""
    assert sorted([PRIVATE, ASTRAL], key=utf16_order) == [ASTRAL, PRIVATE]
    assert sorted([PRIVATE, ASTRAL]) == [PRIVATE, ASTRAL]
    members = {f"g_{one}": Registration({"A": 1}) for one in (PRIVATE, ASTRAL)}
    owners = assign("range", threads_by_topic(members, ["A"]), {"A": [0, 1]})
    assert list(owners.values()) == [f"g_{ASTRAL}-0", f"g_{PRIVATE}-0"]


def test_only_the_exact_word_is_the_other_strategy() -> None:
    threads = {"A": ["c1-0", "c2-0"]}
    partitions = {"A": [0, 1, 2, 3]}
    assert assign("RoundRobin", threads, partitions) == assign("range", threads, partitions)
    assert assign("roundrobin", threads, partitions) != assign("range", threads, partitions)


def test_roundrobin_names_the_stream_that_breaks_its_rule() -> None:
    with pytest.raises(StrategyError, match=r"'c2-0' has not both 'A' and 'B'"):
        assign("roundrobin", {"A": ["c1-0", "c2-0"], "B": ["c1-0"]}, {"A": [0], "B": [0]})


@given(
    st.dictionaries(st.sampled_from("ABCD"), st.integers(0, 40), min_size=1),
    st.dictionaries(st.text(min_size=1, max_size=3), st.integers(1, 12), min_size=1, max_size=8),
    st.sampled_from(["range", "roundrobin"]),
)
def test_every_partition_has_one_owner_and_shares_are_even(
    topics: dict[str, int], members: dict[str, int], strategy: str
) -> None:
    registered = {
        name: Registration(dict.fromkeys(topics, streams)) for name, streams in members.items()
    }
    partitions = {topic: list(range(count)) for topic, count in topics.items()}
    owners = assign(strategy, threads_by_topic(registered, topics), partitions)
    assert len(owners) == sum(topics.values())
    for topic in topics if strategy == "range" else [None]:
        owned = [thread for one, thread in owners.items() if topic in (None, one.topic)]
        counts = {thread: owned.count(thread) for thread in owned}
        if owned:
            everyone = len(counts) == sum(members.values())
            assert max(counts.values()) - (min(counts.values()) if everyone else 0) <= 1
