//! A shard's configuration: Kafka's names, units and defaults (states section 10).

mod consumer;
mod server_assignor;
mod storm;

pub use consumer::{ConsumerConfig, MigrationPolicy};
pub use server_assignor::ServerAssignor;
pub use storm::StormConfig;

use crate::assignment_rules::AssignmentRules;

/// Values are plain data; the host has validated what Kafka validates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// `group.min.session.timeout.ms`, inclusive.
    pub group_min_session_timeout_ms: i32,
    /// `group.max.session.timeout.ms`, inclusive.
    pub group_max_session_timeout_ms: i32,
    /// `group.initial.rebalance.delay.ms`.
    pub group_initial_rebalance_delay_ms: i32,
    /// `group.max.size`, at least 1.
    pub group_max_size: usize,
    /// CLASSIC_GROUP_NEW_MEMBER_JOIN_TIMEOUT_MS in Kafka: a constant there, a setting for tests here.
    pub new_member_join_timeout_ms: i32,
    /// `offset.metadata.max.bytes`: UTF-16 code units, despite the name.
    pub offset_metadata_max_bytes: usize,
    /// `offsets.retention.minutes` in milliseconds.
    pub offsets_retention_ms: i64,
    /// `offsets.retention.check.interval.ms`.
    pub offsets_retention_check_interval_ms: i64,
    /// Of consumer groups.
    pub consumer: ConsumerConfig,
    /// Of classic groups that would rebalance all the time; pykcoord's own.
    pub storm: StormConfig,
    /// `group.assignment.groups` and what belongs to it; pykcoord's own.
    pub assignment: AssignmentRules,
    /// `group.assignment.check`: look at what a leading client assigns; pykcoord's own.
    pub checks_leaders: bool,
    /// Seed of the hash of keys from the network. Results never depend on it.
    pub hash_seed: [u64; 2],
}

impl Default for Config {
    fn default() -> Self {
        Config {
            group_min_session_timeout_ms: 6_000,
            group_max_session_timeout_ms: 1_800_000,
            group_initial_rebalance_delay_ms: 3_000,
            group_max_size: i32::MAX as usize,
            new_member_join_timeout_ms: 300_000,
            offset_metadata_max_bytes: 4_096,
            offsets_retention_ms: 10_080 * 60_000,
            offsets_retention_check_interval_ms: 600_000,
            consumer: ConsumerConfig::default(),
            storm: StormConfig::default(),
            assignment: AssignmentRules::default(),
            checks_leaders: true,
            hash_seed: [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344],
        }
    }
}
