"""The configuration: Kafka's names, units, defaults and bounds, checked before anything starts.

One table, the fields of `Config`, says everything about a setting; messages, `--help` and the
documentation are made from it. This module opens no file and reads no environment.
"""

from __future__ import annotations

import dataclasses
import difflib
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pykcoord import assignment_rules, properties
from pykcoord._setting import Setting, check, parsed
from pykcoord._setting import double as _double
from pykcoord._setting import integer as _setting
from pykcoord._setting import listed as _list
from pykcoord._setting import text as _text
from pykcoord._setting import yes_or_no as _yes_or_no
from pykcoord.config import core
from pykcoord.errors import ConfigError
from pykcoord.kafka_names import BOUNDS, INSTEAD, KAFKA_NAMES

_INT = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """A checked configuration. An attribute is Kafka's name with `_` for `.`.

    Raises ConfigError, which names the setting, the value and the bound, where a value is not of
    its type, is out of bounds, or contradicts another. Source: `GroupCoordinatorConfig`,
    `OffsetConfig`, `CleanerConfig` and `SocketServerConfigs` of Kafka 4.4.0.
    """

    group_min_session_timeout_ms: int = _setting(
        6_000, "Shortest session timeout that a member may ask for.", unit="ms"
    )
    group_max_session_timeout_ms: int = _setting(
        1_800_000, "Longest session timeout that a member may ask for.", unit="ms"
    )
    group_initial_rebalance_delay_ms: int = _setting(
        3_000, "How long the first rebalance of an empty group waits for more members.", unit="ms"
    )
    group_max_size: int = _setting(
        _INT, "Most members that a group may have.", unit="members", minimum=1
    )
    group_new_member_join_timeout_ms: int = _setting(
        300_000,
        "How long a new member may be silent while a rebalance waits for others.",
        unit="ms",
        minimum=1,
        ours=True,
    )
    group_coordinator_rebalance_protocols: str = _list(
        "classic,consumer",
        "Protocols that groups may use, separated by commas; `classic` is always among them. "
        "`streams` and `share` may stand there, and are not served.",
        of=("classic", "consumer", "streams", "share"),
    )
    group_consumer_session_timeout_ms: int = _setting(
        45_000,
        "How long a member of a consumer group may be silent before it is removed.",
        unit="ms",
        minimum=1,
    )
    group_consumer_heartbeat_interval_ms: int = _setting(
        5_000, "How often members of consumer groups are to be heard of.", unit="ms", minimum=1
    )
    group_consumer_min_session_timeout_ms: int = _setting(
        45_000, "Shortest `consumer.session.timeout.ms` of a group.", unit="ms", minimum=1
    )
    group_consumer_max_session_timeout_ms: int = _setting(
        60_000, "Longest `consumer.session.timeout.ms` of a group.", unit="ms", minimum=1
    )
    group_consumer_min_heartbeat_interval_ms: int = _setting(
        5_000, "Shortest `consumer.heartbeat.interval.ms` of a group.", unit="ms", minimum=1
    )
    group_consumer_max_heartbeat_interval_ms: int = _setting(
        15_000, "Longest `consumer.heartbeat.interval.ms` of a group.", unit="ms", minimum=1
    )
    group_consumer_min_assignment_interval_ms: int = _setting(
        0, "Shortest `consumer.assignment.interval.ms` of a group.", unit="ms", minimum=0
    )
    group_consumer_max_assignment_interval_ms: int = _setting(
        15_000, "Longest `consumer.assignment.interval.ms` of a group.", unit="ms", minimum=0
    )
    group_consumer_max_size: int = _setting(
        _INT, "Most members that a consumer group may have.", unit="members", minimum=1
    )
    group_consumer_assignors: str = _list(
        "uniform,range",
        "Assignors that members of consumer groups may name, separated by commas; the first is for "
        "groups whose members name none. `module:Class` is an assignor of one's own, a "
        "`pykcoord.Assignor` ([more](embedding.md#an-assignor-of-ones-own)).",
        of=("uniform", "range", "sticky", "weighted", "lag-aware"),
        or_classes=True,
    )
    group_consumer_assignor_timeout_ms: int = _setting(
        5_000,
        "How long an assignor of one's own has for one target assignment; then `uniform` takes its "
        "place, and a finding says so.",
        unit="ms",
        minimum=1,
        ours=True,
    )
    group_consumer_assignment_interval_ms: int = _setting(
        1_000,
        "Least time between two target assignments of a consumer group.",
        unit="ms",
        minimum=0,
    )
    group_consumer_regex_refresh_interval_ms: int = _setting(
        600_000,
        "How often the regular expressions of consumer groups are looked up in the topics, unless "
        "topics were created meanwhile.",
        unit="ms",
        minimum=10_000,
    )
    group_consumer_migration_policy: str = _text(
        "bidirectional",
        "Whether classic groups with members become consumer groups when a member of that protocol "
        "joins (`upgrade`), consumer groups classic ones when only classic members are left "
        "(`downgrade`), both, or neither; `disabled` also keeps classic members out of consumer "
        "groups that have members.",
        choices=("disabled", "upgrade", "downgrade", "bidirectional"),
        ours=False,
    )
    offset_metadata_max_bytes: int = _setting(
        4_096, "Longest metadata of a committed offset, in UTF-16 units as in Kafka.", unit="units"
    )
    offsets_retention_minutes: int = _setting(
        10_080, "How long offsets of a group without members are kept.", unit="min", minimum=1
    )
    offsets_retention_check_interval_ms: int = _setting(
        600_000, "How often expired offsets are looked for.", unit="ms", minimum=1, long=True
    )
    offsets_history_retention_ms: int = _setting(
        0,
        "How long segments that compaction replaced are kept, so that committed offsets of the "
        "past can be shown and brought back ([more](offset-history.md)); 0: not at all.",
        unit="ms",
        minimum=0,
        long=True,
        ours=True,
    )
    transactional_commits_enable: bool = _yes_or_no(
        False, "Serve [commits in transactions](embedding.md#transactions)."
    )
    group_events_enable: bool = _yes_or_no(
        True,
        "Whether what happens to groups is kept, beside the log of a directory "
        "([more](events.md#what-is-kept)).",
    )
    group_events_retention_ms: int = _setting(
        604_800_000,
        "How long events of groups are kept.",
        unit="ms",
        minimum=1,
        long=True,
        ours=True,
    )
    group_events_retention_bytes: int = _setting(
        16_777_216,
        "How much of them is kept of each shard, the newest.",
        unit="bytes",
        minimum=1,
        long=True,
        ours=True,
    )
    group_events_segment_bytes: int = _setting(
        262_144,
        "Size at which their log begins a new segment file; a full one is written anew, smaller.",
        unit="bytes",
        minimum=4_096,
        ours=True,
    )
    group_events_group_bytes: int = _setting(
        4_194_304,
        "How much of one group is kept, in JSON, the newest.",
        unit="bytes",
        minimum=4_096,
        long=True,
        ours=True,
    )
    group_lag_metrics_groups: int = _setting(
        100, "Groups whose lag metrics tell ([more](lag.md)).", unit="groups", ours=True
    )
    group_lag_metrics_series: int = _setting(
        1_000, "Partitions, and members, of them.", unit="series", ours=True
    )
    group_lag_metrics_include: str = _text(
        "*", "Which groups they may be: patterns with `*` and `?`, separated by commas."
    )
    offsets_topic_num_partitions: int = _setting(
        50,
        "Shards, one partition of __consumer_offsets each. Must not change for a directory.",
        unit="shards",
        minimum=1,
    )
    offsets_topic_segment_bytes: int = _setting(
        104_857_600, "Size at which a new segment file is begun.", unit="bytes", minimum=1
    )
    log_flush_interval_ms: int = _setting(
        1_000,
        "Longest time between two syncs with --flush interval (in Kafka there is no default).",
        unit="ms",
        minimum=1,
        long=True,
    )
    pykcoord_snapshot_interval_ms: int = _setting(
        60_000,
        "How often it is looked whether a shard's state is to be written down beside its log, so "
        "that the next start need not read all of it; 0: never, and no snapshot is used.",
        unit="ms",
        minimum=0,
        long=True,
        ours=True,
    )
    pykcoord_snapshot_min_bytes: int = _setting(
        4_194_304,
        "No snapshot is written for less new log than this, nor for less than half of the last "
        "snapshot.",
        unit="bytes",
        minimum=1,
        long=True,
        ours=True,
    )
    pykcoord_node_hang_timeout_ms: int = _setting(
        2_000,
        "With `--nodes`, a node that has not answered its supervisor for so long is killed and "
        "started again.",
        unit="ms",
        minimum=500,
        ours=True,
    )
    pykcoord_cluster_snapshot_interval_ms: int = _setting(
        120_000, "Cluster: how often new rounds get a snapshot.", unit="ms", minimum=1, ours=True
    )
    pykcoord_cluster_create_enable: bool = _yes_or_no(True, "Cluster: whether a node may make one.")
    pykcoord_cluster_prune_rounds: int = _setting(
        10_000, "Cluster: rounds that go at once, at least.", unit="rounds", minimum=1, ours=True
    )
    log_cleaner_enable: bool = _yes_or_no(
        True, "Whether the log is compacted while it is served.", ours=False
    )
    log_cleaner_min_cleanable_ratio: float = _double(
        0.5,
        "A shard's log is compacted when more than this part of its closed segments is dirty.",
        unit="",
        maximum=1.0,
    )
    log_cleaner_min_compaction_lag_ms: int = _setting(
        0, "Segments with younger records are not compacted.", unit="ms", minimum=0, long=True
    )
    log_cleaner_delete_retention_ms: int = _setting(
        86_400_000,
        "How long compaction keeps tombstones and transaction markers, from when it first meets "
        "them.",
        unit="ms",
        minimum=0,
        long=True,
    )
    log_cleaner_backoff_ms: int = _setting(
        15_000,
        "How often it is looked whether there is something to compact; a full segment is noticed "
        "at once.",
        unit="ms",
        minimum=0,
        long=True,
    )
    log_cleaner_dedupe_buffer_size: int = _setting(
        134_217_728,
        "Most memory for the keys of a compaction, 24 bytes each; more keys take several passes.",
        unit="bytes",
        minimum=1_048_576,
        long=True,
    )
    log_cleaner_io_max_bytes_per_second: float = _double(
        sys.float_info.max, "Most that compaction reads and writes.", unit="bytes/s", minimum=1.0
    )
    connections_max_idle_ms: int = _setting(
        600_000, "A connection that is silent for so long is closed.", unit="ms", long=True
    )
    max_connections: int = _setting(
        _INT, "Most connections at a time; one more is closed at once.", unit="", minimum=0
    )
    max_connections_per_ip: int = _setting(
        _INT, "The same, for one client address.", unit="", minimum=0
    )
    socket_request_max_bytes: int = _setting(
        104_857_600,
        "Largest request; the connection of a larger one is closed.",
        unit="bytes",
        minimum=1,
    )
    socket_receive_buffer_bytes: int = _setting(
        102_400,
        "What the system receives of a connection before it is read; -1: as much as the system "
        "likes, which can be megabytes of each.",
        unit="bytes",
        minimum=-1,
    )
    queued_max_request_bytes: int = _setting(
        536_870_912,
        "Most of all requests of which only a part has come: beyond it, the connections that wait "
        "longest are closed. Half of it is for requests that wait behind another of their "
        "connection; beyond that they wait in the sockets. 0 or less, Kafka's default: no bound.",
        unit="bytes",
        long=True,
    )
    node_id: int = _setting(1, "The id under which the broker shows itself.", unit="", minimum=0)
    group_assignment: str = _text(
        "client",
        "Who assigns partitions: a leading client, as in Kafka, or the coordinator, in groups that "
        "`group.assignment.groups` names ([more](coordinator-assignment.md)).",
        choices=("client", "coordinator"),
    )
    group_assignment_groups: str = _text(
        "*:sticky",
        "`PATTERN:STRATEGY,...`: groups that the coordinator assigns, and how. `*` in a pattern is "
        "any characters, `?` one; the first that matches the whole group id wins.",
    )
    group_assignment_capacities: str = _text(
        "",
        "`PATTERN:CAPACITY,...`: capacities of members for the strategy `weighted`, in consumer "
        "groups too, by client id or `group.instance.id`; 1 where nothing matches.",
    )
    group_rebalance_min_interval_ms: int = _setting(
        0,
        "How long a classic group is left alone once a generation began: newcomers wait, and "
        "members that left or expired are removed afterwards ([more](storms.md)); 0: not at all.",
        unit="ms",
        minimum=0,
        long=True,
        ours=True,
    )
    group_quarantine_flaps: int = _setting(
        0,
        "How often a client may leave a classic group, or be removed from it, within the window; "
        "beyond that its JoinGroup is held ([more](storms.md)); 0: as often as it likes.",
        unit="",
        minimum=0,
        ours=True,
    )
    group_quarantine_window_ms: int = _setting(
        300_000,
        "The window in which `group.quarantine.flaps` counts.",
        unit="ms",
        minimum=1,
        long=True,
        ours=True,
    )
    group_quarantine_ms: int = _setting(
        10_000,
        "For how long the first JoinGroup is held; the next twice as long, and so on.",
        unit="ms",
        minimum=1,
        long=True,
        ours=True,
    )
    group_quarantine_max_ms: int = _setting(
        300_000, "The longest of these times.", unit="ms", minimum=1, long=True, ours=True
    )
    group_assignment_check: bool = _yes_or_no(
        True, "Look for mistakes in what leading clients assign: counted and logged, never changed."
    )

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            check(setting(field.name), getattr(self, field.name))
        for bounds in BOUNDS:
            least, most = (bounds.format(bound) for bound in ("min", "max"))
            shortest, longest = getattr(self, _attribute(least)), getattr(self, _attribute(most))
            if shortest > longest:
                reason = f"{shortest} is more than {most}, which is {longest}"
                raise ConfigError(least, reason)
        if "classic" not in self.group_coordinator_rebalance_protocols.split(","):
            raise ConfigError("group.coordinator.rebalance.protocols", "classic must be among them")
        if self.group_consumer_heartbeat_interval_ms >= self.group_consumer_session_timeout_ms:
            raise ConfigError(
                "group.consumer.heartbeat.interval.ms",
                "it must be less than group.consumer.session.timeout.ms",
            )
        assignment_rules.groups("group.assignment.groups", self.group_assignment_groups)
        assignment_rules.capacities("group.assignment.capacities", self.group_assignment_capacities)

    @classmethod
    def of(cls, values: Mapping[str, str | int | float | bool]) -> tuple[Config, list[str]]:
        """The configuration that `values` (by Kafka's names) make, and warnings, one line each.

        A name that Kafka has and pykcoord does not need is a warning, and so is a setting that
        another one leaves without effect; a name that neither has is a ConfigError with the
        nearest known one.
        """
        attributes: dict[str, Any] = {}
        warnings: list[str] = []
        for name, value in values.items():
            if name in SETTINGS:
                attributes[_attribute(name)] = parsed(SETTINGS[name], value)
            elif name in KAFKA_NAMES:
                instead = INSTEAD.get(name, "pykcoord does not need it")
                warnings.append(f"{name} is ignored: {instead}")
            else:
                raise ConfigError(name, "unknown name" + _nearest(name))
        config = cls(**attributes)
        if "group_assignment_groups" in attributes and config.group_assignment == "client":
            text = "has no effect while clients assign: set group.assignment=coordinator as well"
            warnings.append(f"group.assignment.groups {text}")
        return config, warnings

    @property
    def has_consumer_groups(self) -> bool:
        """Whether `group.coordinator.rebalance.protocols` names `consumer`."""
        return "consumer" in self.group_coordinator_rebalance_protocols.split(",")

    def native(self) -> dict[str, Any]:
        """What the shards need, by the field names of the native core's `Config`."""
        return core.native(self)

    def values(self) -> dict[str, int | float | str | bool]:
        """Every setting by Kafka's name."""
        return {name: getattr(self, _attribute(name)) for name in SETTINGS}


def setting(attribute: str) -> Setting:
    """The setting behind an attribute of `Config`."""
    return SETTINGS[attribute.replace("_", ".")]


def load(text: str, overrides: Iterable[str] = (), source: str = "") -> tuple[Config, list[str]]:
    """A configuration from the text of a properties file and `key=value` pairs, which win.

    `source` names the text in errors. Returns the configuration and warnings, one line each.
    Raises ConfigError.
    """
    values: dict[str, str | int | bool] = {}
    lines: dict[str, int] = {}
    try:
        for number, name, value in properties.parse(text):
            values[name] = value
            lines[name] = number
    except ValueError as error:
        raise ConfigError(source or "configuration", str(error)) from None
    for override in overrides:
        name, equals, value = override.partition("=")
        if not equals or not name.strip():
            raise ConfigError(override, "write it as key=value")
        values[name.strip()] = value
        lines.pop(name.strip(), None)
    try:
        return Config.of(values)
    except ConfigError as error:
        if source and error.key in lines:
            place = f"{source}, line {lines[error.key]}"
            raise ConfigError(error.key, f"{error.reason} ({place})") from None
        raise


def _nearest(name: str) -> str:
    close = difflib.get_close_matches(name, [*SETTINGS, *sorted(KAFKA_NAMES)], n=1, cutoff=0.6)
    if close:
        return f"; did you mean {close[0]}?"
    return "; docs/configuration.md lists the names"


def _attribute(name: str) -> str:
    return name.replace(".", "_")


def _settings() -> dict[str, Setting]:
    found: dict[str, Setting] = {}
    for field in dataclasses.fields(Config):
        name = field.name.replace("_", ".")
        assert field.default is not dataclasses.MISSING, name
        found[name] = Setting(name=name, default=field.default, **field.metadata)
    return found


SETTINGS: dict[str, Setting] = _settings()
"""Every name that pykcoord reads, in the order of `Config`."""
