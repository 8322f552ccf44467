//! Which partitions have moved from whom to whom, so that a topic does not go back and forth
//! between two members (`AbstractStickyAssignor.PartitionMovements`).

use ahash::RandomState;
use hashbrown::HashMap;

use super::super::java_order::{self, HashSet};

/// All movements of one rebalance.
pub struct Movements {
    /// Where a partition that has moved came from in the first place, and where it is now.
    pairs: HashMap<u32, (u32, u32), RandomState>,
    /// By topic, source and destination.
    moved: HashMap<(u32, u32, u32), HashSet, RandomState>,
}

impl Movements {
    pub fn new() -> Self {
        // Keys are numbers that no peer can choose, so a fixed seed does.
        let hasher = RandomState::with_seeds(1, 2, 3, 4);
        Movements {
            pairs: HashMap::with_hasher(hasher.clone()),
            moved: HashMap::with_hasher(hasher),
        }
    }

    /// The partition to move instead of `partition`, which goes from `old` to `new`: one of the
    /// same topic that came the other way before, if there is one.
    pub fn actual(&self, topic: u32, partition: u32, old: u32, new: u32) -> u32 {
        let source = self.pairs.get(&partition).map_or(old, |&(source, _)| source);
        let reverse = self.moved.get(&(topic, new, source));
        reverse.and_then(HashSet::first).unwrap_or(partition)
    }

    /// `partition` goes from `old` to `new`. `hash` is its hash code in Java.
    pub fn record(&mut self, topic: u32, partition: u32, hash: u32, old: u32, new: u32) {
        let source = match self.pairs.remove(&partition) {
            None => old,
            Some(pair) => {
                let key = (topic, pair.0, pair.1);
                let moved = self.moved.get_mut(&key).expect("the set that a pair belongs to");
                moved.remove(hash, partition);
                if moved.is_empty() {
                    self.moved.remove(&key);
                }
                pair.0
            }
        };
        if source != new {
            self.pairs.insert(partition, (source, new));
            self.moved.entry((topic, source, new)).or_default().insert(hash, partition);
        }
    }
}

/// `TopicPartition.hashCode` of the partitions of a topic.
pub fn partition_hash(topic_name: &str, number: u32) -> u32 {
    java_order::partition_hash_code(java_order::hash_code(topic_name), number)
}
