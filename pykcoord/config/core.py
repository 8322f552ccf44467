"""What the native core needs of a configuration, by the names that it has for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pykcoord import assignment_rules

if TYPE_CHECKING:
    from pykcoord.config.settings import Config


def native(config: Config) -> dict[str, Any]:
    """By the field names of the core's `Config`; periods in milliseconds."""
    names = (
        "group_min_session_timeout_ms", "group_max_session_timeout_ms",
        "group_initial_rebalance_delay_ms", "group_max_size", "offset_metadata_max_bytes",
        "offsets_retention_check_interval_ms",
    )  # fmt: skip
    values: dict[str, Any] = {name: getattr(config, name) for name in names}
    values["new_member_join_timeout_ms"] = config.group_new_member_join_timeout_ms
    values["offsets_retention_ms"] = config.offsets_retention_minutes * 60_000
    values["consumer"] = {
        "is_enabled": config.has_consumer_groups,
        "session_timeout_ms": config.group_consumer_session_timeout_ms,
        "heartbeat_interval_ms": config.group_consumer_heartbeat_interval_ms,
        "max_size": config.group_consumer_max_size,
        "assignors": config.group_consumer_assignors.split(","),
        "assignor_timeout_ms": config.group_consumer_assignor_timeout_ms,
        "assignment_interval_ms": config.group_consumer_assignment_interval_ms,
        "regex_refresh_interval_ms": config.group_consumer_regex_refresh_interval_ms,
        "migration_policy": config.group_consumer_migration_policy,
    }
    values["storm"] = {
        "min_interval_ms": config.group_rebalance_min_interval_ms,
        "quarantine_flaps": config.group_quarantine_flaps,
        "quarantine_window_ms": config.group_quarantine_window_ms,
        "quarantine_ms": config.group_quarantine_ms,
        "quarantine_max_ms": config.group_quarantine_max_ms,
    }
    values["checks_leaders"] = config.group_assignment_check
    values["assignment"] = assignment_rules.native(
        config.group_assignment, config.group_assignment_groups, config.group_assignment_capacities
    )
    return values
