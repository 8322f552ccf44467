//! The settings of a node, from a dict of Python.

use kcoord_core::Config;
use kcoord_core::assignment_rules::{AssignmentRules, GroupStrategy, Pattern};
use kcoord_core::config::{ConsumerConfig, MigrationPolicy, ServerAssignor, StormConfig};
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Names are the fields of [`Config`]; what is not named keeps Kafka's default.
pub fn config_from(values: &Bound<'_, PyDict>) -> PyResult<Config> {
    let mut config = Config::default();
    for (name, value) in values {
        let name: String = name.extract()?;
        match name.as_str() {
            "group_min_session_timeout_ms" => {
                config.group_min_session_timeout_ms = value.extract()?;
            }
            "group_max_session_timeout_ms" => {
                config.group_max_session_timeout_ms = value.extract()?;
            }
            "group_initial_rebalance_delay_ms" => {
                config.group_initial_rebalance_delay_ms = value.extract()?;
            }
            "group_max_size" => config.group_max_size = value.extract()?,
            "new_member_join_timeout_ms" => config.new_member_join_timeout_ms = value.extract()?,
            "offset_metadata_max_bytes" => config.offset_metadata_max_bytes = value.extract()?,
            "offsets_retention_ms" => config.offsets_retention_ms = value.extract()?,
            "assignment" => config.assignment = rules_from(&value)?,
            "consumer" => config.consumer = consumer_from(&value.extract()?)?,
            "checks_leaders" => config.checks_leaders = value.extract()?,
            "storm" => config.storm = storm_from(&value.extract()?)?,
            "offsets_retention_check_interval_ms" => {
                config.offsets_retention_check_interval_ms = value.extract()?;
            }
            _ => return Err(PyKeyError::new_err(format!("config: no setting {name:?}"))),
        }
    }
    Ok(config)
}

/// The same of [`StormConfig`].
fn storm_from(values: &Bound<'_, PyDict>) -> PyResult<StormConfig> {
    let mut config = StormConfig::default();
    for (name, value) in values {
        let name: String = name.extract()?;
        match name.as_str() {
            "min_interval_ms" => config.min_interval_ms = value.extract()?,
            "quarantine_flaps" => config.quarantine_flaps = value.extract()?,
            "quarantine_window_ms" => config.quarantine_window_ms = value.extract()?,
            "quarantine_ms" => config.quarantine_ms = value.extract()?,
            "quarantine_max_ms" => config.quarantine_max_ms = value.extract()?,
            _ => return Err(PyKeyError::new_err(format!("config: no setting storm.{name:?}"))),
        }
    }
    Ok(config)
}

/// The same of [`ConsumerConfig`].
fn consumer_from(values: &Bound<'_, PyDict>) -> PyResult<ConsumerConfig> {
    let mut config = ConsumerConfig::default();
    for (name, value) in values {
        let name: String = name.extract()?;
        match name.as_str() {
            "is_enabled" => config.is_enabled = value.extract()?,
            "session_timeout_ms" => config.session_timeout_ms = value.extract()?,
            "heartbeat_interval_ms" => config.heartbeat_interval_ms = value.extract()?,
            "max_size" => config.max_size = value.extract()?,
            "assignors" => {
                let names: Vec<String> = value.extract()?;
                config.assignors = names.iter().map(|name| ServerAssignor::of_name(name)).collect();
            }
            "assignor_timeout_ms" => config.assignor_timeout_ms = value.extract()?,
            "assignment_interval_ms" => config.assignment_interval_ms = value.extract()?,
            "regex_refresh_interval_ms" => config.regex_refresh_interval_ms = value.extract()?,
            "migration_policy" => {
                let name: String = value.extract()?;
                let unknown = || PyKeyError::new_err(format!("config: no policy {name:?}"));
                config.migration_policy = MigrationPolicy::of_name(&name).ok_or_else(unknown)?;
            }
            _ => return Err(PyKeyError::new_err(format!("config: no consumer setting {name:?}"))),
        }
    }
    Ok(config)
}

/// (pattern, value) pairs, the first match first.
type Rules<T> = Vec<(String, T)>;

/// Patterns of group ids with the names of strategies, and patterns of members with capacities.
fn rules_from(value: &Bound<'_, PyAny>) -> PyResult<AssignmentRules> {
    let (groups, capacities): (Rules<String>, Rules<u32>) = value.extract()?;
    let rule = |(pattern, name): (String, String)| match GroupStrategy::of_name(&name) {
        Some(strategy) => Ok((Pattern::new(&pattern), strategy)),
        None => Err(PyValueError::new_err(format!("assignment: no strategy {name:?}"))),
    };
    let capacity = |(pattern, capacity): (String, u32)| (Pattern::new(&pattern), capacity);
    Ok(AssignmentRules {
        groups: groups.into_iter().map(rule).collect::<PyResult<_>>()?,
        capacities: capacities.into_iter().map(capacity).collect(),
    })
}
