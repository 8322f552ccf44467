//! What a shard noticed about a group and lets its host know. Nothing is decided by it.
//!
//! Always counted (`inspect::Counters`). Each is an [event](crate::event) once for each generation
//! of a group, and no more than [`MAX_FINDINGS`] wait at a time, since clients can cause them.

/// Findings that wait for their host; more are counted only.
pub const MAX_FINDINGS: usize = 256;

/// What can be noticed about an assignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FindingKind {
    /// A client sent assignments in a group that the coordinator assigns: they count for nothing.
    AssignmentReplaced,
    /// The coordinator should have assigned, and could not: the leader was asked.
    LeftToLeader,
    /// An assignor of the host failed or was late in a consumer group: `uniform` took its place.
    AssignorReplaced,
    /// A leader gave a partition twice.
    DuplicatePartition,
    /// A leader assigned something to an id that is no member of the group.
    UnknownMember,
    /// A leader gave a partition that does not exist.
    UnknownPartition,
    /// A leader gave a partition of a topic that its member does not subscribe to.
    NotSubscribed,
}

impl FindingKind {
    /// All that there are.
    pub const ALL: [FindingKind; 7] = [
        FindingKind::AssignmentReplaced,
        FindingKind::LeftToLeader,
        FindingKind::AssignorReplaced,
        FindingKind::DuplicatePartition,
        FindingKind::UnknownMember,
        FindingKind::UnknownPartition,
        FindingKind::NotSubscribed,
    ];

    /// As logs and metrics name it.
    pub const fn name(self) -> &'static str {
        match self {
            FindingKind::AssignmentReplaced => "assignment_replaced",
            FindingKind::LeftToLeader => "left_to_leader",
            FindingKind::AssignorReplaced => "assignor_replaced",
            FindingKind::DuplicatePartition => "duplicate_partition",
            FindingKind::UnknownMember => "unknown_member",
            FindingKind::UnknownPartition => "unknown_partition",
            FindingKind::NotSubscribed => "not_subscribed",
        }
    }
}
