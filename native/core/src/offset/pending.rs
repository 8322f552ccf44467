//! Offsets that a transaction will commit or drop: per group, by producer (offsets section 3.1).

use std::collections::BTreeMap;

use super::entries::{Entry, Key};

/// What few committed offsets have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Extra {
    pub metadata: Box<str>,
    /// Milliseconds; -1: none.
    pub expire_timestamp: i64,
}

#[derive(Debug)]
pub(super) struct PendingOffset {
    pub entry: Entry,
    pub extra: Option<Extra>,
}

#[derive(Debug, Default)]
pub(super) struct Pending {
    /// No producer without an offset.
    producers: BTreeMap<i64, BTreeMap<Key, PendingOffset>>,
    /// How many producers have a pending offset for the partition.
    partitions: BTreeMap<Key, usize>,
}

impl Pending {
    pub fn is_empty(&self) -> bool {
        self.producers.is_empty()
    }

    pub fn contains(&self, key: Key) -> bool {
        self.partitions.contains_key(&key)
    }

    /// Partitions with a pending offset of any producer, each with one of its entries.
    pub fn partitions(&self) -> impl Iterator<Item = &Entry> {
        self.producers.values().flat_map(BTreeMap::values).map(|pending| &pending.entry)
    }

    /// What a producer has pending.
    pub fn of_producer(&self, producer_id: i64) -> impl Iterator<Item = &PendingOffset> {
        self.producers.get(&producer_id).into_iter().flat_map(BTreeMap::values)
    }

    /// Returns what it replaces.
    pub fn insert(&mut self, producer_id: i64, pending: PendingOffset) -> Option<PendingOffset> {
        let key = pending.entry.key();
        let replaced = self.producers.entry(producer_id).or_default().insert(key, pending);
        if replaced.is_none() {
            *self.partitions.entry(key).or_default() += 1;
        }
        replaced
    }

    /// Takes all that a producer has pending.
    pub fn remove_producer(&mut self, producer_id: i64) -> impl Iterator<Item = PendingOffset> {
        let offsets = self.producers.remove(&producer_id).unwrap_or_default();
        for key in offsets.keys() {
            self.forget(*key);
        }
        offsets.into_values()
    }

    /// Takes what all producers have pending for a partition. `emptied` hears of each producer
    /// that has nothing else.
    pub fn remove_partition(
        &mut self,
        key: Key,
        mut emptied: impl FnMut(i64),
    ) -> Vec<PendingOffset> {
        if self.partitions.remove(&key).is_none() {
            return Vec::new();
        }
        let mut removed = Vec::new();
        self.producers.retain(|producer_id, offsets| {
            removed.extend(offsets.remove(&key));
            if offsets.is_empty() {
                emptied(*producer_id);
            }
            !offsets.is_empty()
        });
        removed
    }

    fn forget(&mut self, key: Key) {
        let count = self.partitions.get_mut(&key).expect("a pending partition is counted");
        *count -= 1;
        if *count == 0 {
            self.partitions.remove(&key);
        }
    }
}
