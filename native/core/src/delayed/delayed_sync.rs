//! The wait for every member's SyncGroup after a join phase (states section 8): who has
//! not sent one within the rebalance timeout is evicted, even from a group that is Stable by then.
//! It decides; it must not change the group.

/// Watched under the group's sync key until the rebalance timeout after the join phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelayedSync {
    /// Its row.
    pub group: u32,
    /// The generation whose members are waited for; the operation means nothing to a later one.
    pub generation_id: i32,
}

/// How far the group is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncProgress {
    /// The generation that the group is in now.
    pub generation_id: i32,
    /// The group is CompletingRebalance or Stable: not Empty, PreparingRebalance or Dead.
    pub is_sync_phase: bool,
    /// Members whose SyncGroup has not come yet.
    pub pending_sync_members: usize,
}

impl DelayedSync {
    /// The group waits for no member any more.
    pub fn can_complete(self, progress: SyncProgress) -> bool {
        progress.generation_id != self.generation_id
            || !progress.is_sync_phase
            || progress.pending_sync_members == 0
    }

    /// Whether the pending members, static ones too, are removed and a rebalance started.
    pub fn evicts_pending_members(self, progress: SyncProgress) -> bool {
        !self.can_complete(progress)
    }
}
