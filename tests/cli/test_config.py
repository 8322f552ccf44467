"""Names, bounds and messages of the configuration; the syntax of Java's properties."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from pykcoord import assignment_rules, config, properties
from pykcoord._native import Node
from pykcoord.config import SETTINGS, Config
from pykcoord.errors import ConfigError
from pykcoord.kafka_names import KAFKA_NAMES

CORE_CONFIG = Path(__file__).parents[2] / "native/core/src/config.rs"


def _pairs(text: str) -> dict[str, str]:
    return {key: value for _, key, value in properties.parse(text)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1\nb:2\nc 3\n", {"a": "1", "b": "2", "c": "3"}),
        ("  a \t=\t 1 \n", {"a": "1 "}),
        ("# x=1\n! y=2\n\n   # z\na=1", {"a": "1"}),
        ("a = one, \\\n    two\nb=3", {"a": "one, two", "b": "3"}),
        ("a=\\\\\nb=2", {"a": "\\", "b": "2"}),
        ("a\\ b=c\\=d", {"a b": "c=d"}),
        ("a\\:b\\=c=d", {"a:b=c": "d"}),
        ("a=\\u0041\\n\\q", {"a": "A\nq"}),
        ("lonely\nempty=", {"lonely": "", "empty": ""}),
        ("a==b", {"a": "=b"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("# comment \\\na=1", {"a": "1"}),
        ("a=1\\", {"a": "1"}),
        ("a=x\\\n#y\n", {"a": "x#y"}),
        ("\\\n# no value\na=1", {"a": "1"}),
        ("", {}),
    ],
)
def test_properties_read_as_java_reads_them(text: str, expected: dict[str, str]) -> None:
    assert _pairs(text) == expected


def test_a_malformed_escape_names_its_line() -> None:
    with pytest.raises(ValueError, match=r"line 3: malformed \\u00g1"):
        _pairs("a=1\n\nb=\\u00g1")


def test_defaults_are_kafkas() -> None:
    defaults = Config()
    assert defaults.group_min_session_timeout_ms == 6_000
    assert defaults.group_max_session_timeout_ms == 1_800_000
    assert defaults.group_max_size == 2**31 - 1
    assert defaults.offsets_retention_minutes == 10_080
    assert defaults.offsets_topic_num_partitions == 50
    assert defaults.offsets_topic_segment_bytes == 104_857_600
    assert defaults.values() == {name: known.default for name, known in SETTINGS.items()}


def test_a_name_is_kafkas_or_says_that_it_is_ours() -> None:
    assert {name for name, known in SETTINGS.items() if known.ours} == SETTINGS.keys() - KAFKA_NAMES


def test_overrides_win_over_the_file() -> None:
    text = "group.max.size=3\noffsets.topic.num.partitions = 7\n"
    loaded, warnings = config.load(text, ["group.max.size=5"])
    assert (loaded.group_max_size, loaded.offsets_topic_num_partitions) == (5, 7)
    assert warnings == []


def test_a_name_that_only_kafka_needs_is_a_warning() -> None:
    loaded, warnings = config.load("log.cleaner.threads=2\nlisteners=PLAINTEXT://:9092\n")
    assert loaded == Config()
    assert warnings == [
        "log.cleaner.threads is ignored: pykcoord does not need it",
        "listeners is ignored: use --listen",
    ]


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("group.max.sise=3", "group.max.sise: unknown name; did you mean group.max.size?"),
        ("log.cleaner.thread=3", "log.cleaner.thread: unknown name; did you mean "),
        ("qqqq=1", "qqqq: unknown name; docs/configuration.md lists the names"),
        ("group.max.size=0", "group.max.size: 0 is too small: it must be at least 1"),
        ("group.max.size=2147483648", "group.max.size: 2147483648 is too large"),
        ("group.max.size=many", "group.max.size: 'many' is not an integer (members)"),
        ("group.max.size=1_0", "group.max.size: '1_0' is not an integer"),
        ("group.max.size=", "group.max.size: '' is not an integer"),
        ("group.max.size", "group.max.size: write it as key=value"),
        ("=3", "=3: write it as key=value"),
        (
            "group.min.session.timeout.ms=1800001",
            "group.min.session.timeout.ms: 1800001 is more than group.max.session.timeout.ms, "
            "which is 1800000",
        ),
    ],
)
def test_what_is_refused_names_key_value_and_way_out(setting: str, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        config.load("", [setting])


def test_a_broken_file_is_named() -> None:
    with pytest.raises(ConfigError, match=r"^server\.properties: line 1"):
        config.load("a=\\u12", source="server.properties")


def test_a_line_of_the_file_is_named_where_nothing_overrides_it() -> None:
    text = "# mine\ngroup.max.size=0\n"
    with pytest.raises(ConfigError, match=r"at least 1 \(server\.properties, line 2\)$"):
        config.load(text, source="server.properties")
    with pytest.raises(ConfigError, match=r"at least 1$"):
        config.load(text, ["group.max.size=-1"], source="server.properties")


@pytest.mark.parametrize(
    "name", [n for n, known in SETTINGS.items() if known.type in ("int", "long")]
)
def test_every_bound_is_kept(name: str) -> None:
    known = SETTINGS[name]
    attribute = name.replace(".", "_")
    above = known.maximum * 2 if known.type == "double" else known.maximum + 1
    for value in (known.minimum - 1, above):
        with pytest.raises(ConfigError, match=re.escape(name)):
            dataclasses.replace(Config(), **{attribute: value})


def test_attributes_are_checked_too() -> None:
    with pytest.raises(ConfigError, match="True is not an integer"):
        Config(group_max_size=True)


def test_the_native_core_gets_every_field_it_has() -> None:
    fields = set(re.findall(r"^    pub (\w+):", CORE_CONFIG.read_text(), re.MULTILINE))
    native = Config(offsets_retention_minutes=2).native()
    # The host makes the hash seed from the entropy that it passes on its own.
    assert set(native) == fields - {"hash_seed"}
    assert native["offsets_retention_ms"] == 120_000


def test_what_the_coordinator_assigns_reaches_the_native_core() -> None:
    loaded, _ = config.load(
        "group.assignment=coordinator\n"
        "group.assignment.groups= bill:ing-*:weighted , *:lag-aware\n"
        "group.assignment.capacities=big-?:4\n"
        "group.assignment.check=FALSE\n"
    )
    native = loaded.native()
    groups = [("bill:ing-*", "weighted"), ("*", "lag-aware")]
    assert native["assignment"] == (groups, [("big-?", 4)])
    assert native["checks_leaders"] is False
    Node(native, 1, bytes(32))


def test_clients_assign_unless_the_switch_says_otherwise() -> None:
    loaded, _ = config.load("group.assignment.groups=*:uniform\n")
    assert loaded.native()["assignment"] == ([], [])
    # Consumer groups have capacities all the same.
    weighted = Config(group_assignment_capacities="big-*:3")
    assert weighted.native()["assignment"] == ([], [("big-*", 3)])
    assert Config(group_assignment="coordinator").native()["assignment"] == ([("*", "sticky")], [])


def test_the_core_knows_every_strategy() -> None:
    rules = [("*", strategy) for strategy in assignment_rules.STRATEGIES]
    Node({"assignment": (rules, [])}, 1, bytes(32))
    with pytest.raises(ValueError, match=r"no strategy .stickier."):
        Node({"assignment": ([("*", "stickier")], [])}, 1, bytes(32))


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("group.assignment=broker", "'broker' is not one of client, coordinator"),
        ("group.assignment.check=maybe", "'maybe' is not true or false"),
        ("group.assignment.groups=billing", "'billing' is not PATTERN:STRATEGY, such as billing-*"),
        ("group.assignment.groups=a:range,", "'' is not PATTERN:STRATEGY"),
        ("group.assignment.groups=:range", "':range' is not PATTERN:STRATEGY"),
        ("group.assignment.groups=a:rnge", "'a:rnge': 'rnge' is no strategy; there are range, "),
        ("group.assignment.capacities=big*:0", "'big*:0': '0' is no capacity from 1 to 1000000"),
        ("group.assignment.capacities=big*", "'big*' is not PATTERN:CAPACITY, such as big-*:4"),
    ],
)
def test_what_is_no_rule_is_refused_with_its_form(setting: str, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"{setting.partition('=')[0]}: {message}")):
        config.load("", [setting])


def test_settings_of_another_type_are_refused() -> None:
    with pytest.raises(ConfigError, match="'yes' is not true or false"):
        Config(group_assignment_check="yes")
    with pytest.raises(ConfigError, match="5 is not a string"):
        Config(group_assignment=5)


def test_patterns_without_the_setting_that_reads_them_are_told_of() -> None:
    patterns = "group.assignment.groups=billing*:sticky"
    _, warnings = config.load("", [patterns])
    assert warnings == [
        "group.assignment.groups has no effect while clients assign: "
        "set group.assignment=coordinator as well"
    ]
    loaded, warnings = config.load("", [patterns, "group.assignment=coordinator"])
    assert (loaded.group_assignment, warnings) == ("coordinator", [])
