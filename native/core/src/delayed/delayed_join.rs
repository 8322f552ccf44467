//! The join phase of a rebalance, waiting for all members to rejoin (states sections 5.6, 5.9).
//! It decides; it must not change the group.

/// Watched under the group's join key until the rebalance timeout, evaluated once at its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelayedJoin {
    /// Its row.
    pub group: u32,
}

/// How far a join phase is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JoinProgress {
    /// The members of the group.
    pub members: usize,
    /// Members with a parked JoinGroup.
    pub awaiting_join: usize,
    /// Ids handed out (KIP-394) whose second JoinGroup has not come yet.
    pub pending_members: usize,
}

/// What a join phase whose time has run out does, after the dynamic members that did not rejoin
/// have been removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinExpiry {
    /// The join phase ends.
    Complete,
    /// Only static members remain and all are absent: none could lead. The same delay again.
    ArmAgain,
}

impl JoinProgress {
    /// Whether nothing is left to wait for.
    pub fn has_all_members_joined(self) -> bool {
        self.members == self.awaiting_join && self.pending_members == 0
    }
}

impl DelayedJoin {
    /// Whether the phase may end now. An initial one (the group was Empty before) waits for its
    /// timer, see [`InitialDelayedJoin`](super::InitialDelayedJoin).
    pub fn can_complete(progress: JoinProgress, is_initial: bool) -> bool {
        !is_initial && progress.has_all_members_joined()
    }

    /// `members` and `awaiting_join` are those left after the removal. An empty group completes.
    pub fn on_expiration(members: usize, awaiting_join: usize) -> JoinExpiry {
        if members > 0 && awaiting_join == 0 { JoinExpiry::ArmAgain } else { JoinExpiry::Complete }
    }
}
