//! Counts and lists of a shard for metrics and tools. Walks everything: never on a request's way.

use std::collections::BTreeMap;

use crate::group::consumer::ConsumerGroupState;
pub use crate::group::counters::Counters;
use crate::offset::GroupOffsets;
use crate::record::Producer;
use crate::shard::Shard;

/// How many of what a shard holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Classic groups by state: the name of each state and its groups.
    pub groups: [(&'static str, u64); 5],
    /// Consumer groups by state, likewise.
    pub consumer_groups: [(&'static str, u64); 4],
    /// Of all groups.
    pub members: u64,
    /// Of all groups.
    pub offsets: u64,
}

/// A transaction with records in a shard that has not ended there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenTransaction {
    /// Whose it is.
    pub producer_id: i64,
    /// Of its last commit.
    pub producer_epoch: i16,
    /// Where it begins: nothing from there on is compacted.
    pub first_offset: i64,
    /// Of its last commit, in milliseconds.
    pub last_timestamp_ms: i64,
    /// Groups with pending offsets of it, by id. None: they were deleted meanwhile.
    pub groups: Vec<String>,
}

impl Counts {
    /// Adds those of another shard.
    pub fn add(&mut self, other: &Counts) {
        for (sum, (name, count)) in self.groups.iter_mut().zip(other.groups) {
            *sum = (name, sum.1 + count);
        }
        for (sum, (name, count)) in self.consumer_groups.iter_mut().zip(other.consumer_groups) {
            *sum = (name, sum.1 + count);
        }
        self.members += other.members;
        self.offsets += other.offsets;
    }
}

impl Shard {
    /// All groups, sorted.
    pub fn group_ids(&self) -> Vec<&str> {
        let registry = &self.machine.registry;
        registry.sorted_groups().into_iter().map(|row| registry.groups[row].id.as_str()).collect()
    }

    /// What happened since the shard was loaded.
    pub fn counters(&self) -> &Counters {
        &self.machine.counters
    }

    /// Groups by state, members and offsets of the shard.
    pub fn counts(&self) -> Counts {
        let names = ["Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"];
        let registry = &self.machine.registry;
        let mut counts = Counts {
            groups: names.map(|name| (name, 0)),
            consumer_groups: ConsumerGroupState::ALL.map(|state| (state.name(), 0)),
            members: (registry.members.len() + registry.consumer_members.len()) as u64,
            offsets: self.offset_count() as u64,
        };
        for row in registry.rows() {
            let group = &registry.groups[row];
            let (counts, state) = match group.as_classic() {
                Some(classic) => (&mut counts.groups[..], classic.state.name()),
                None if registry.is_consumer(row) => {
                    (&mut counts.consumer_groups[..], self.machine.state_name(row))
                }
                None => continue,
            };
            let slot = counts.iter_mut().find(|(name, _)| *name == state);
            slot.expect("every state is counted").1 += 1;
        }
        counts
    }

    /// Whether the producer has a transaction with records here, in this epoch.
    pub fn has_open_transaction(&self, producer: Producer) -> bool {
        let known = self.machine.offsets.producers.get(producer.id);
        known.is_some_and(|state| {
            state.first_offset.is_some() && state.producer_epoch == producer.epoch
        })
    }

    /// Whether a later epoch of the producer wrote here: this one is fenced, whatever its transaction
    /// coordinator says.
    pub fn has_later_epoch(&self, producer: Producer) -> bool {
        let known = self.machine.offsets.producers.get(producer.id);
        known.is_some_and(|state| state.producer_epoch > producer.epoch)
    }

    /// Transactions with records here whose marker has not come, by producer id. One that stays is
    /// ended by an administrator (`kafka-transactions.sh --abort`).
    pub fn open_transactions(&self) -> Vec<OpenTransaction> {
        let offsets = &self.machine.offsets;
        let groups: BTreeMap<i64, Vec<String>> = offsets
            .transactions
            .iter()
            .map(|(producer_id, groups)| (producer_id, groups.map(str::to_owned).collect()))
            .collect();
        let open = offsets.producers.iter().filter_map(|(producer_id, state)| {
            Some(OpenTransaction {
                producer_id,
                producer_epoch: state.producer_epoch,
                first_offset: state.first_offset?,
                last_timestamp_ms: state.last_timestamp_ms,
                groups: groups.get(&producer_id).cloned().unwrap_or_default(),
            })
        });
        open.collect()
    }

    /// Group, topic and partition of every pending transactional offset, sorted.
    pub fn unstable(&self) -> Vec<(String, String, i32)> {
        let topics = &self.machine.offsets.topics;
        let mut found = Vec::new();
        for row in self.machine.registry.rows() {
            let group = &self.machine.registry.groups[row];
            let pending = group.offsets.as_deref().map(GroupOffsets::pending_partitions);
            for (topic, partition) in pending.into_iter().flatten() {
                let topic = topics.name(topic).to_owned();
                found.push((group.id.as_str().to_owned(), topic, partition));
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}
