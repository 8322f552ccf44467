//! The states of a classic group (`ClassicGroupState`, states section 2) and their transitions.
//!
//! `Dead` is never held by a group here: a deleted group is removed by applying its tombstone, and
//! a shard that is dropped takes its groups with it. It is what DescribeGroups calls a group that
//! does not exist.

/// Every state says what it accepts, what it emits and where it leaves to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// No members. Holds offsets, or waits for ids that were handed out to come back.
    ///
    /// * JoinGroup of a new member: add it, start the initial delay -> `PreparingRebalance`
    /// * SyncGroup, Heartbeat, LeaveGroup: UNKNOWN_MEMBER_ID
    /// * OffsetCommit without a generation: stored; with one: UNKNOWN_MEMBER_ID
    /// * OffsetDelete: allowed; DeleteGroups, expiry: emits the tombstone, the group is gone
    #[default]
    Empty,
    /// Members are asked to join again.
    ///
    /// * JoinGroup: parked until all members have joined or the join timer fires
    ///   -> `CompletingRebalance`, or without members `Empty` (emits the group)
    /// * SyncGroup, Heartbeat: REBALANCE_IN_PROGRESS (a heartbeat still renews the session)
    /// * OffsetCommit of the generation that ends: stored
    PreparingRebalance,
    /// Members know the new generation and wait for the leader's assignment.
    ///
    /// * SyncGroup: parked; the leader's emits the group with its assignments -> `Stable`
    /// * Heartbeat: accepted (KAFKA-10134); OffsetCommit: REBALANCE_IN_PROGRESS
    /// * JoinGroup with other metadata or of a new member, a member lost -> `PreparingRebalance`
    CompletingRebalance,
    /// Every member can have its assignment.
    ///
    /// * SyncGroup, Heartbeat, OffsetCommit of this generation: accepted
    /// * JoinGroup of the leader, with other metadata or of a new member, a member lost
    ///   -> `PreparingRebalance`
    /// * JoinGroup that replaces a static member: emits the group, if the protocol stays the same
    Stable,
}

impl State {
    /// As DescribeGroups and ListGroups name it.
    pub const fn name(self) -> &'static str {
        match self {
            State::Empty => "Empty",
            State::PreparingRebalance => "PreparingRebalance",
            State::CompletingRebalance => "CompletingRebalance",
            State::Stable => "Stable",
        }
    }

    pub const fn can_rebalance(self) -> bool {
        !matches!(self, State::PreparingRebalance)
    }

    /// Whether a group may go from this state to `next`. A record replaces whatever was there, so
    /// that `Stable` and `Empty` can follow anything while a log is replayed.
    pub const fn may_become(self, next: State) -> bool {
        match next {
            State::Empty => matches!(self, State::PreparingRebalance),
            State::PreparingRebalance => self.can_rebalance(),
            State::CompletingRebalance => matches!(self, State::PreparingRebalance),
            State::Stable => matches!(self, State::CompletingRebalance | State::Stable),
        }
    }
}

/// DescribeGroups' name for a group that does not exist, or is not classic.
pub const DEAD: &str = "Dead";
