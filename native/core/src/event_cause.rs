//! Why something happened to a group, as events say it.

/// Why a member is no longer one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GoneCause {
    /// LeaveGroup with its member id.
    Left,
    /// LeaveGroup with its instance id alone, as an administrator sends it (KIP-345).
    RemovedByAdmin,
    /// It sent no heartbeat for its session timeout.
    SessionExpired,
    /// It did not join before the join phase ended.
    RebalanceTimeout,
    /// It did not sync in time.
    SyncExpired,
    /// A static member came back, and has another id now.
    StaticMemberReplaced,
    /// It rejoined a group that has more members than `group.max.size`.
    GroupTooLarge,
    /// It asked for a member id (KIP-394), and did not come back with it while others waited.
    NeverJoined,
}

impl GoneCause {
    /// As hosts and logs name it.
    pub const fn name(self) -> &'static str {
        match self {
            GoneCause::Left => "left",
            GoneCause::RemovedByAdmin => "removed_by_admin",
            GoneCause::SessionExpired => "session_expired",
            GoneCause::RebalanceTimeout => "rebalance_timeout",
            GoneCause::SyncExpired => "sync_expired",
            GoneCause::StaticMemberReplaced => "static_member_replaced",
            GoneCause::GroupTooLarge => "group_too_large",
            GoneCause::NeverJoined => "never_joined",
        }
    }
}

/// Why a group is no longer there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeletionCause {
    /// DeleteGroups.
    Requested,
    /// It was empty, and its last offset has expired.
    Expired,
}

impl DeletionCause {
    /// As hosts and logs name it.
    pub const fn name(self) -> &'static str {
        match self {
            DeletionCause::Requested => "requested",
            DeletionCause::Expired => "expired",
        }
    }
}

/// Why the JoinGroup of a newcomer waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldCause {
    /// The group has rebalanced within `group.rebalance.min.interval.ms`.
    Interval,
    /// Its client came and went more often than `group.quarantine.flaps`.
    Quarantine,
}

impl HeldCause {
    /// Every one.
    pub const ALL: [HeldCause; 2] = [HeldCause::Interval, HeldCause::Quarantine];

    /// As hosts and logs name it.
    pub const fn name(self) -> &'static str {
        match self {
            HeldCause::Interval => "rebalance_interval",
            HeldCause::Quarantine => "quarantine",
        }
    }
}

/// Why the epoch of a consumer group was bumped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EpochCause {
    /// A new member subscribes to topics.
    MemberJoined,
    /// A member subscribes to other topics.
    SubscriptionChanged,
    /// Members prefer another assignor.
    AssignorChanged,
    /// Topics that it subscribes to came, went, or have other partitions.
    TopicsChanged,
    /// Its regular expressions match other topics.
    RegexResolved,
    /// A member left, or an administrator removed it.
    MemberLeft,
    /// A member sent no heartbeat for its session timeout.
    SessionExpired,
    /// A member did not give up partitions, or did not join again, within its rebalance timeout.
    RebalanceTimeout,
    /// A classic member did not sync in time.
    SyncExpired,
}

impl EpochCause {
    /// As hosts and logs name it.
    pub const fn name(self) -> &'static str {
        match self {
            EpochCause::MemberJoined => "member_joined",
            EpochCause::SubscriptionChanged => "subscription_changed",
            EpochCause::AssignorChanged => "assignor_changed",
            EpochCause::TopicsChanged => "topics_changed",
            EpochCause::RegexResolved => "regex_resolved",
            EpochCause::MemberLeft => "member_left",
            EpochCause::SessionExpired => "session_expired",
            EpochCause::RebalanceTimeout => "rebalance_timeout",
            EpochCause::SyncExpired => "sync_expired",
        }
    }
}

impl From<GoneCause> for EpochCause {
    fn from(cause: GoneCause) -> Self {
        match cause {
            GoneCause::SessionExpired => EpochCause::SessionExpired,
            GoneCause::RebalanceTimeout => EpochCause::RebalanceTimeout,
            GoneCause::SyncExpired => EpochCause::SyncExpired,
            GoneCause::Left
            | GoneCause::RemovedByAdmin
            | GoneCause::StaticMemberReplaced
            | GoneCause::GroupTooLarge
            | GoneCause::NeverJoined => EpochCause::MemberLeft,
        }
    }
}

/// Why a member of a consumer group was refused with FENCED_MEMBER_EPOCH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FencedCause {
    /// It comes with an epoch that is over.
    OldEpoch,
    /// It comes with an epoch that it was not given: its log was lost, or it is another's.
    NewerEpoch,
    /// A later release wrote its record, which cannot be understood here.
    UnknownState,
}

impl FencedCause {
    /// As hosts and logs name it.
    pub const fn name(self) -> &'static str {
        match self {
            FencedCause::OldEpoch => "old_epoch",
            FencedCause::NewerEpoch => "newer_epoch",
            FencedCause::UnknownState => "unknown_state",
        }
    }
}

/// Of which kind a group is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MigrationCause {
    /// A classic group is a consumer group: a member of the consumer protocol came.
    Upgraded,
    /// A consumer group is a classic group: its last member of the consumer protocol is gone, or it was empty.
    Downgraded,
}

impl MigrationCause {
    /// As hosts and logs name it.
    pub const fn name(self) -> &'static str {
        match self {
            MigrationCause::Upgraded => "upgraded",
            MigrationCause::Downgraded => "downgraded",
        }
    }
}
