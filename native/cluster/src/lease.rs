//! Whether a node may answer.

use crate::Millis;
use crate::settings::HELD_UP_MS;

/// Whether a node may answer, by its last proof: at the time of the proof nobody had fenced it.
///
/// A proof is a put in the own journal that succeeded. It counts from **before** the put was asked
/// for: its answer may have been on its way for long. For `lease_ms` the node may answer. Who puts
/// a fence tells of it afterwards; who hears that waits for longer than a lease, and answers then.
#[derive(Clone, Copy, Debug)]
pub struct Lease {
    lease_ms: Millis,
    proved_at: Option<Millis>,
}

impl Lease {
    /// A lease of this length, without a proof yet.
    pub fn new(lease_ms: Millis) -> Self {
        Lease { lease_ms, proved_at: None }
    }

    /// A proof succeeded that was asked for at `started`.
    pub fn proved(&mut self, started: Millis) {
        self.proved_at = Some(self.proved_at.map_or(started, |at| at.max(started)));
    }

    /// Whether the node may answer at `now`.
    pub fn holds(&self, now: Millis) -> bool {
        self.ends_at().is_some_and(|end| now < end)
    }

    /// Whether half of it is over, so that the next proof is due.
    pub fn is_half_over(&self, now: Millis) -> bool {
        self.proved_at.is_none_or(|at| now >= at + self.lease_ms / 2)
    }

    /// When it ends, or ended; `None` before the first proof.
    pub fn ends_at(&self) -> Option<Millis> {
        self.proved_at.map(|at| at + self.lease_ms)
    }
}

/// For how long somebody has waited for a proof in vain. Where the node itself did not run, an
/// answer of the store may have come that it did not read yet: that time counts as little.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unproved {
    waited_ms: Millis,
    ticked_at: Millis,
}

impl Unproved {
    pub fn new(now: Millis) -> Self {
        Unproved { waited_ms: 0, ticked_at: now }
    }

    /// Time passes; `waits`: somebody does now. For how long is returned.
    pub fn tick(&mut self, now: Millis, waits: bool) -> Millis {
        let passed = now.saturating_sub(self.ticked_at).min(HELD_UP_MS);
        self.ticked_at = now;
        self.waited_ms = if waits { self.waited_ms + passed } else { 0 };
        self.waited_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_counts_from_before_the_proof_and_an_older_proof_changes_nothing() {
        let mut lease = Lease::new(500);
        assert!(!lease.holds(0) && lease.is_half_over(0));
        lease.proved(100);
        assert!(lease.holds(599) && !lease.holds(600));
        assert!(!lease.is_half_over(349) && lease.is_half_over(350));
        lease.proved(50);
        assert_eq!(lease.ends_at(), Some(600));
    }
}
