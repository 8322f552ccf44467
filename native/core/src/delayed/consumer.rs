//! Timers of consumer groups (timers section 3): plain deadlines, each with its own effect.

/// A member's session ends, unless it was renewed meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConsumerSession {
    /// Its row.
    pub member: u32,
}

/// A member has not given up its partitions in time, if it is still at this epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConsumerRebalance {
    /// Its row.
    pub member: u32,
    /// The epoch that it was to leave.
    pub member_epoch: i32,
}

/// A group's regular expressions are looked up: due at once, but after the request that asked for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegexResolution {
    /// Its row.
    pub group: u32,
}

/// Targets of a group go on to be computed or written, or its assignor has taken too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetStep {
    /// Its row.
    pub group: u32,
}

/// A classic member of a consumer group was told to join again, and has not in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassicJoin {
    /// Row of the member.
    pub member: u32,
}

/// A classic member of a consumer group has joined, and has not synced in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassicSync {
    /// Row of the member.
    pub member: u32,
}
