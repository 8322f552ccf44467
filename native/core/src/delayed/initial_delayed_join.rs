//! The first join phase of an empty group: `group.initial.rebalance.delay.ms`, extended while
//! members keep arriving (states section 5.8, KIP-134). It decides; it must not change the group.

/// Watched under the group's join key. No event completes it, only its timer.
///
/// Kafka also keeps the delay that it was armed with and subtracts that on extension. It need not
/// be kept: it is less than the configured delay only in the last round, when nothing remains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitialDelayedJoin {
    /// Its row.
    pub group: u32,
    /// How far the phase may still be extended beyond the running delay, in milliseconds, >= 0.
    pub remaining_ms: i32,
}

/// What is done when the initial delay of a group is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitialJoinExpiry {
    /// Members arrived meanwhile: arm `next` with this delay, and note anew who arrives.
    Extend {
        /// For how long, in ms.
        delay_ms: i32,
        /// What fires then.
        next: InitialDelayedJoin,
    },
    /// End the phase as [`DelayedJoin`](super::DelayedJoin) does.
    Complete,
}

impl InitialDelayedJoin {
    /// To be armed with the configured delay, 0 included. `rebalance_timeout_ms` is the group's at
    /// this moment, that is, the first member's; later members do not change it.
    pub fn new(group: u32, configured_delay_ms: i32, rebalance_timeout_ms: i32) -> Self {
        let remaining_ms = rebalance_timeout_ms.saturating_sub(configured_delay_ms).max(0);
        InitialDelayedJoin { group, remaining_ms }
    }

    /// `new_member_added`: whether one has been added since the timer was armed.
    pub fn on_expiration(
        self,
        configured_delay_ms: i32,
        new_member_added: bool,
    ) -> InitialJoinExpiry {
        if !new_member_added || self.remaining_ms == 0 {
            return InitialJoinExpiry::Complete;
        }
        let delay_ms = configured_delay_ms.min(self.remaining_ms);
        let remaining_ms = self.remaining_ms.saturating_sub(configured_delay_ms).max(0);
        InitialJoinExpiry::Extend { delay_ms, next: InitialDelayedJoin { remaining_ms, ..self } }
    }
}
