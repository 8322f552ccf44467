//! Sums over all shards, for metrics.

use kcoord_core::inspect::Counters;
use kcoord_core::inspect::Counts;

use super::Node;

/// What the node holds now, and what happened since its start.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// What there is now.
    pub counts: Counts,
    /// What happened since the start.
    pub counters: Counters,
}

impl Node {
    /// Walks all groups: for a scrape, not for a turn.
    pub fn stats(&self) -> Stats {
        let mut stats = Stats { counts: Counts::default(), counters: self.dropped.clone() };
        for shard in &self.shards {
            stats.counts.add(&shard.counts());
            stats.counters.add(shard.counters());
        }
        stats
    }
}
