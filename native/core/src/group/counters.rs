//! What happened in a shard since it was loaded, for metrics. Nothing is decided by it.

use crate::assignment_rules::GroupStrategy;
use crate::event_cause::HeldCause;
use crate::finding::FindingKind;

/// Why a rebalance started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RebalanceCause {
    /// A new member.
    MemberJoined,
    /// The leader joined again, as it does for another assignment.
    LeaderRejoined,
    /// A member joined again with other metadata.
    MetadataChanged,
    /// A static member came back with another subscription.
    StaticMemberReplaced,
    /// By LeaveGroup, or removed by an administrator.
    MemberLeft,
    /// A member sent no heartbeat for its session timeout.
    SessionExpired,
    /// A member did not send SyncGroup in time.
    SyncExpired,
    /// Loaded with more members than `group.max.size`.
    GroupTooLarge,
    /// The group's record could not be made.
    RecordRefused,
    /// Partitions of a group that the coordinator assigns came or went.
    TopicsChanged,
    /// The group was a consumer group until its last member of that protocol went.
    Downgraded,
}

impl RebalanceCause {
    const ALL: [RebalanceCause; 11] = [
        RebalanceCause::MemberJoined,
        RebalanceCause::LeaderRejoined,
        RebalanceCause::MetadataChanged,
        RebalanceCause::StaticMemberReplaced,
        RebalanceCause::MemberLeft,
        RebalanceCause::SessionExpired,
        RebalanceCause::SyncExpired,
        RebalanceCause::GroupTooLarge,
        RebalanceCause::RecordRefused,
        RebalanceCause::TopicsChanged,
        RebalanceCause::Downgraded,
    ];

    /// As metrics name it.
    pub const fn name(self) -> &'static str {
        match self {
            RebalanceCause::MemberJoined => "member_joined",
            RebalanceCause::LeaderRejoined => "leader_rejoined",
            RebalanceCause::MetadataChanged => "metadata_changed",
            RebalanceCause::StaticMemberReplaced => "static_member_replaced",
            RebalanceCause::MemberLeft => "member_left",
            RebalanceCause::SessionExpired => "session_expired",
            RebalanceCause::SyncExpired => "sync_expired",
            RebalanceCause::GroupTooLarge => "group_too_large",
            RebalanceCause::RecordRefused => "record_refused",
            RebalanceCause::TopicsChanged => "topics_changed",
            RebalanceCause::Downgraded => "downgraded",
        }
    }
}

/// What happened since the start, for metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    rebalances: [u64; RebalanceCause::ALL.len()],
    /// Members removed by a timer: their session ended, or they never synced.
    pub members_expired: u64,
    /// Epochs that consumer groups came to: as often were members' partitions to be decided anew.
    pub consumer_rebalances: u64,
    /// Heartbeats of consumer groups' members that had another epoch than theirs, and were refused.
    pub members_fenced: u64,
    coordinator_assignments: [u64; GroupStrategy::ALL.len()],
    findings: [u64; FindingKind::ALL.len()],
    /// Events that were dropped, because too many waited.
    pub events_dropped: u64,
    joins_held: [u64; HeldCause::ALL.len()],
    /// Members that left, or whose session ended, and that stayed until their group might rebalance.
    pub removals_put_off: u64,
}

impl Counters {
    /// Counts a rebalance.
    pub fn rebalance(&mut self, cause: RebalanceCause) {
        self.rebalances[cause as usize] += 1;
    }

    /// Counts a JoinGroup that is held.
    pub fn join_held(&mut self, cause: HeldCause) {
        self.joins_held[cause as usize] += 1;
    }

    /// JoinGroups that were held, by cause.
    pub fn joins_held(&self) -> impl Iterator<Item = (&'static str, u64)> {
        HeldCause::ALL.into_iter().map(|cause| (cause.name(), self.joins_held[cause as usize]))
    }

    /// Adds those of another shard.
    pub fn add(&mut self, other: &Counters) {
        for (sum, count) in self.rebalances.iter_mut().zip(other.rebalances) {
            *sum += count;
        }
        self.members_expired += other.members_expired;
        self.consumer_rebalances += other.consumer_rebalances;
        self.members_fenced += other.members_fenced;
        self.events_dropped += other.events_dropped;
        self.removals_put_off += other.removals_put_off;
        for (sum, count) in self.joins_held.iter_mut().zip(other.joins_held) {
            *sum += count;
        }
        for (sum, count) in
            self.coordinator_assignments.iter_mut().zip(other.coordinator_assignments)
        {
            *sum += count;
        }
        for (sum, count) in self.findings.iter_mut().zip(other.findings) {
            *sum += count;
        }
    }

    /// Counts an assignment by the coordinator.
    pub fn assigned(&mut self, strategy: GroupStrategy) {
        self.coordinator_assignments[strategy.index()] += 1;
    }

    /// Counts findings.
    pub fn found(&mut self, kind: FindingKind, count: u64) {
        self.findings[kind as usize] += count;
    }

    /// Assignments that the coordinator computed, by strategy.
    pub fn coordinator_assignments(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let strategies = GroupStrategy::ALL.into_iter();
        strategies.map(|strategy| (strategy.name(), self.coordinator_assignments[strategy.index()]))
    }

    /// What was found in assignments, by kind.
    pub fn findings(&self) -> impl Iterator<Item = (&'static str, u64)> {
        FindingKind::ALL.into_iter().map(|kind| (kind.name(), self.findings[kind as usize]))
    }

    /// Rebalances started, by cause.
    pub fn rebalances(&self) -> impl Iterator<Item = (&'static str, u64)> {
        RebalanceCause::ALL.into_iter().map(|cause| (cause.name(), self.rebalances[cause as usize]))
    }
}
