//! Committed offsets (`docs/spec/offsets.md`): their store, and what requests, expiry and replay do
//! to it.
//!
//! Nothing here knows a group's state: the shard asks the group first, and then calls in with a
//! [`GroupScope`]. Durable state changes in `GroupScope::apply*` only, which replay shares.

pub mod apply;
pub mod commit;
pub mod delete;
mod entries;
pub mod expiration;
pub mod fetch;
mod furthest;
mod pending;
pub mod producers;
pub mod store;
pub mod sweep;
pub mod topic_table;
pub mod transaction;

pub use apply::{GroupScope, Stored};
pub use producers::Producers;
pub use store::{CommittedOffset, GroupOffsets};
pub use topic_table::TopicTable;
pub use transaction::OpenTransactions;

/// What the groups of a shard share about offsets.
#[derive(Debug)]
pub struct OffsetTables {
    /// Names and ids of topics.
    pub topics: TopicTable,
    /// Transactions that have not ended.
    pub transactions: OpenTransactions,
    /// Who wrote them.
    pub producers: Producers,
    /// Committed offsets of all groups (Kafka's metric NumOffsets).
    pub committed_count: usize,
    /// Scratch space in which records are encoded.
    key: Vec<u8>,
    value: Vec<u8>,
}

impl OffsetTables {
    /// `hash_seed`: of the shard's configuration. Results never depend on it.
    pub fn new(hash_seed: [u64; 2]) -> Self {
        OffsetTables {
            topics: TopicTable::new(hash_seed),
            transactions: OpenTransactions::default(),
            producers: Producers::default(),
            committed_count: 0,
            key: Vec::new(),
            value: Vec::new(),
        }
    }
}
