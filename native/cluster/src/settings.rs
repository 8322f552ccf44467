//! How long is long: all waits of a node.

use crate::Millis;

/// Where this node ticks later than that, it did not run: what others and the store did not answer
/// meanwhile is no fault of theirs.
pub(crate) const HELD_UP_MS: Millis = 100;

/// The waits of a node. All nodes of a cluster must have the same `lease_ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How often the controller asks each node (`pykcoord.node.heartbeat.interval.ms`).
    pub ask_interval_ms: Millis,
    /// After so long without an answer an ask is missed.
    pub ask_timeout_ms: Millis,
    /// So many asks missed in a row: the node is silent.
    pub misses: u32,
    /// How long a proof lets a node answer (`pykcoord.read.lease.ms`).
    pub lease_ms: Millis,
    /// How much longer the next leader waits: for clocks that do not run equally fast.
    pub lease_margin_ms: Millis,
    /// How often the cluster log is read where nothing says that there is news.
    pub poll_ms: Millis,
    /// After so long without a controller's ask a node stands for controller, each further node of
    /// the order by id so much later; twice as long, and once more, where the last one that stood
    /// was not heard either: it must have the time to fence who is silent. In time in which it ran.
    pub election_ms: Millis,
    /// See `election_ms`.
    pub election_step_ms: Millis,
    /// A controller that hears less than half of the nodes may be the one that is cut off: who is
    /// silent has so much longer to have another one lead.
    pub alone_ms: Millis,
    /// A node that begins waits so long before it joins.
    pub join_wait_ms: Millis,
    /// After so long what failed is tried again.
    pub retry_ms: Millis,
    /// Who has not heard of the store for so long, in time in which it ran, says so, and is treated
    /// like a silent node.
    pub store_silence_ms: Millis,
    /// So many shards move at once only because a node has too many.
    pub moves_at_once: usize,
    /// A snapshot of a shard is due after so many rounds of it,
    pub snapshot_rounds: u64,
    /// or after so many rounds of the journal with any of it,
    pub snapshot_journal_rounds: u64,
    /// or after so long, if there are rounds that are not in two snapshots.
    pub snapshot_ms: Millis,
    /// Rounds of the own journal are deleted once so many can go.
    pub prune_rounds: u64,
    /// How often is looked whether rounds can go.
    pub prune_ms: Millis,
    /// How often the controller looks for late objects among what was deleted.
    pub sweep_ms: Millis,
    /// A snapshot of the cluster log is due after so many entries.
    pub log_entries: u64,
    /// So long after a snapshot of the cluster log was seen go the entries that are in the one
    /// before it.
    pub trim_ms: Millis,
    /// Who has not read the end of the cluster log for so long may miss entries that have gone.
    /// Much less than `trim_ms`.
    pub behind_ms: Millis,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            ask_interval_ms: 200,
            ask_timeout_ms: 300,
            misses: 2,
            lease_ms: 500,
            lease_margin_ms: 50,
            poll_ms: 100,
            election_ms: 1_000,
            election_step_ms: 300,
            alone_ms: 2_000,
            join_wait_ms: 0,
            retry_ms: 200,
            store_silence_ms: 1_000,
            moves_at_once: 4,
            snapshot_rounds: 500,
            snapshot_journal_rounds: 5_000,
            snapshot_ms: 120_000,
            prune_rounds: 10_000,
            prune_ms: 600_000,
            sweep_ms: 3_600_000,
            log_entries: 500,
            trim_ms: 3_600_000,
            behind_ms: 1_800_000,
        }
    }
}
