//! Settings of consumer groups (KIP-848).

use super::ServerAssignor;

/// Kafka's names, units and defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerConfig {
    /// `group.coordinator.rebalance.protocols` names `consumer`.
    pub is_enabled: bool,
    /// `group.consumer.session.timeout.ms`.
    pub session_timeout_ms: i32,
    /// `group.consumer.heartbeat.interval.ms`.
    pub heartbeat_interval_ms: i32,
    /// `group.consumer.max.size`, at least 1.
    pub max_size: usize,
    /// `group.consumer.assignors`: at least one, and the first is the default.
    pub assignors: Vec<ServerAssignor>,
    /// `group.consumer.assignor.timeout.ms`: how long the host's own assignors have; pykcoord's own.
    pub assignor_timeout_ms: i32,
    /// `group.consumer.assignment.interval.ms`: no two targets of a group within less time.
    pub assignment_interval_ms: i32,
    /// `group.consumer.regex.refresh.interval.ms`.
    pub regex_refresh_interval_ms: i64,
    /// `group.consumer.migration.policy`.
    pub migration_policy: MigrationPolicy,
}

/// Which groups with members may change between the two protocols.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MigrationPolicy {
    /// None, and consumer groups take no classic members.
    Disabled,
    /// Classic groups that a member of the consumer protocol joins.
    Upgrade,
    /// Consumer groups that only have classic members left.
    Downgrade,
    /// Both ways.
    #[default]
    Bidirectional,
}

impl MigrationPolicy {
    /// Every policy.
    pub const ALL: [MigrationPolicy; 4] = [
        MigrationPolicy::Disabled,
        MigrationPolicy::Upgrade,
        MigrationPolicy::Downgrade,
        MigrationPolicy::Bidirectional,
    ];

    /// As the setting has it.
    pub const fn name(self) -> &'static str {
        match self {
            MigrationPolicy::Disabled => "disabled",
            MigrationPolicy::Upgrade => "upgrade",
            MigrationPolicy::Downgrade => "downgrade",
            MigrationPolicy::Bidirectional => "bidirectional",
        }
    }

    /// The policy of this name; `None`: there is none.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }

    /// Whether classic groups with members may become consumer groups.
    pub const fn allows_upgrade(self) -> bool {
        matches!(self, MigrationPolicy::Upgrade | MigrationPolicy::Bidirectional)
    }

    /// Whether consumer groups of classic members alone become classic groups.
    pub const fn allows_downgrade(self) -> bool {
        matches!(self, MigrationPolicy::Downgrade | MigrationPolicy::Bidirectional)
    }

    /// Whether classic members may join a consumer group that has members.
    pub const fn allows_classic_members(self) -> bool {
        !matches!(self, MigrationPolicy::Disabled)
    }
}

impl Default for ConsumerConfig {
    fn default() -> Self {
        ConsumerConfig {
            is_enabled: true,
            session_timeout_ms: 45_000,
            heartbeat_interval_ms: 5_000,
            max_size: i32::MAX as usize,
            assignors: vec![ServerAssignor::Uniform, ServerAssignor::Range],
            assignor_timeout_ms: 5_000,
            assignment_interval_ms: 1_000,
            regex_refresh_interval_ms: 600_000,
            migration_policy: MigrationPolicy::default(),
        }
    }
}

impl ConsumerConfig {
    /// The assignor of this name, if it is configured.
    pub fn assignor(&self, name: &str) -> Option<&ServerAssignor> {
        self.assignors.iter().find(|assignor| assignor.name() == name)
    }

    /// Where no member names one.
    pub fn default_assignor(&self) -> &ServerAssignor {
        &self.assignors[0]
    }

    /// The names of the assignors, in the order of the setting.
    pub fn assignor_names(&self) -> impl Iterator<Item = &str> {
        self.assignors.iter().map(ServerAssignor::name)
    }
}
