//! Settings of storm control; pykcoord's own. All off by default.

/// What keeps clients that come and go from making a classic group rebalance all the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StormConfig {
    /// `group.rebalance.min.interval.ms`: so long a classic group is left alone once it is Stable; 0:
    /// not at all.
    pub min_interval_ms: i64,
    /// `group.quarantine.flaps`: how often a client may go within the window; 0: as often as it likes.
    pub quarantine_flaps: u32,
    /// `group.quarantine.window.ms`.
    pub quarantine_window_ms: i64,
    /// `group.quarantine.ms`: for how long the first JoinGroup beyond that is held; each further one
    /// twice as long.
    pub quarantine_ms: i64,
    /// `group.quarantine.max.ms`: and no longer than this.
    pub quarantine_max_ms: i64,
}

impl Default for StormConfig {
    fn default() -> Self {
        StormConfig {
            min_interval_ms: 0,
            quarantine_flaps: 0,
            quarantine_window_ms: 300_000,
            quarantine_ms: 10_000,
            quarantine_max_ms: 300_000,
        }
    }
}

impl StormConfig {
    /// Whether anything of it is on.
    #[inline]
    pub const fn is_on(&self) -> bool {
        self.min_interval_ms > 0 || self.quarantine_flaps > 0
    }
}
