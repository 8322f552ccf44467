//! Counts and lists of a shard for metrics and tools. Walks everything: never on a request's way.

use crate::group::consumer::ConsumerGroupState;
pub use crate::group::counters::Counters;
use crate::offset::GroupOffsets;
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
