//! A member id that was handed out with MEMBER_ID_REQUIRED (KIP-394) and is waited for
//! (states sections 5.3 and 8). It decides; it must not change the group.

use super::delayed_join::JoinProgress;

/// Armed for the session timeout of the JoinGroup that was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingMember {
    /// Its row.
    pub group: u32,
    /// Its row.
    pub member: u32,
}

/// What is done when an id that was given out has not come back in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PendingExpiry {
    /// The id has become a member's, or was dropped.
    Ignore,
    /// The id is forgotten.
    Drop,
    /// The join phase was waiting for this id alone, and ends.
    DropAndCompleteJoin,
}

impl PendingMember {
    /// `join` is the progress of a running join phase, this id still counted; `None` outside
    /// PreparingRebalance. As in Kafka this also cuts an initial delay short (vector P2).
    pub fn on_expiration(is_pending: bool, join: Option<JoinProgress>) -> PendingExpiry {
        if !is_pending {
            return PendingExpiry::Ignore;
        }
        let without_it = |join: JoinProgress| JoinProgress {
            pending_members: join.pending_members.checked_sub(1).expect("this id is counted"),
            ..join
        };
        match join.map(without_it) {
            Some(join) if join.has_all_members_joined() => PendingExpiry::DropAndCompleteJoin,
            _ => PendingExpiry::Drop,
        }
    }
}
