//! A member's session timer (states section 8, timers sections 2.3 and 3.1).
//!
//! A heartbeat must not touch the wheel. It only stores the member's new deadline; the armed entry
//! stays where it is, finds on expiry that the deadline has moved, and is armed again for it.

/// Armed for the session timeout, or for the new-member join timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelayedHeartbeat {
    /// Its row.
    pub group: u32,
    /// Its row.
    pub member: u32,
}

/// What decides over a member's expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberLiveness {
    /// When the session ends, as last restarted.
    pub deadline_ms: i64,
    /// Its first JoinGroup has not been answered yet.
    pub is_new: bool,
    /// Its JoinGroup is parked.
    pub is_awaiting_join: bool,
    /// Its SyncGroup is parked.
    pub is_awaiting_sync: bool,
}

/// What is done when the timer of a session fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeartbeatExpiry {
    /// The deadline has moved: arm again for it.
    ArmAgain {
        /// When the session ends, in ms.
        deadline_ms: i64,
    },
    /// Nothing is done and **nothing is armed** until the timer is restarted (vector P16).
    Ignore,
    /// The session has ended: remove the member, static or not.
    Expire,
}

impl MemberLiveness {
    /// Kafka's `hasSatisfiedHeartbeat`: a parked client cannot heartbeat. A new one is parked too,
    /// but may be dead since; it has the new-member join timeout to be answered within.
    pub fn has_satisfied_heartbeat(self) -> bool {
        !self.is_new && (self.is_awaiting_join || self.is_awaiting_sync)
    }
}

impl DelayedHeartbeat {
    /// `member` is `None` if it has left or goes by another id now. The deadline is looked at
    /// first: in Kafka the entry that fires early here would have been replaced.
    pub fn on_expiration(now_ms: i64, member: Option<MemberLiveness>) -> HeartbeatExpiry {
        match member {
            None => HeartbeatExpiry::Ignore,
            Some(MemberLiveness { deadline_ms, .. }) if deadline_ms > now_ms => {
                HeartbeatExpiry::ArmAgain { deadline_ms }
            }
            Some(member) if member.has_satisfied_heartbeat() => HeartbeatExpiry::Ignore,
            Some(_) => HeartbeatExpiry::Expire,
        }
    }

    /// Whether restarting the timer has to touch the wheel: nothing is armed, or only for later
    /// (a heartbeat cuts the new-member join timeout down to the session timeout).
    pub fn must_arm(armed_ms: Option<i64>, deadline_ms: i64) -> bool {
        armed_ms.is_none_or(|armed_ms| armed_ms > deadline_ms)
    }
}
