//! What is set for single consumer groups, over the shard's configuration: Kafka's GROUP resources
//! (`GroupConfig`). The host has validated the values, and keeps them.

use std::collections::BTreeMap;

/// The settings of one group; none: as of the shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupConfig {
    /// `consumer.session.timeout.ms`.
    pub session_timeout_ms: Option<i32>,
    /// `consumer.heartbeat.interval.ms`.
    pub heartbeat_interval_ms: Option<i32>,
    /// `consumer.assignment.interval.ms`.
    pub assignment_interval_ms: Option<i32>,
}

/// The settings of all groups that have any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupConfigs(BTreeMap<Box<str>, GroupConfig>);

impl GroupConfigs {
    /// By group id.
    pub fn new(groups: impl IntoIterator<Item = (Box<str>, GroupConfig)>) -> Self {
        GroupConfigs(groups.into_iter().collect())
    }

    /// Whether nothing is set for any group.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What is set for a group.
    pub fn of(&self, group_id: &str) -> GroupConfig {
        self.0.get(group_id).copied().unwrap_or_default()
    }
}
