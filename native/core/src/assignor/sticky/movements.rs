//! Which partitions have moved between which members, so that a topic does not go back and forth
//! between two members (`AbstractStickyAssignor.PartitionMovements`).
//!
//! A large group may move most of its partitions, each between two other members, so what is kept
//! of a move is small: its ends in one array, and a place in the list of those with the same ends.

use std::collections::BTreeMap;

use crate::java_hash::java_hash;
use crate::java_order::{self, HashSet};

const NONE: u32 = u32::MAX;

/// Where a partition came from in the first place, and where it is now.
#[derive(Clone, Copy)]
struct Move {
    source: u32,
    destination: u32,
    /// Its hash code in Java.
    hash: u32,
    /// The one that came to the same set before it.
    before: u32,
}

const UNMOVED: Move = Move { source: NONE, destination: NONE, hash: 0, before: NONE };

/// Partitions of a topic that have moved between the same two members.
enum Set {
    /// Few enough for the smallest table of Java: the one that came last; each knows the one
    /// before it.
    Few(u32),
    Many(Box<HashSet>),
}

/// Topic, source and destination.
type Ends = (u32, u32, u32);

/// All movements of one rebalance.
pub struct Movements {
    /// By partition; empty until something moves.
    moves: Vec<Move>,
    partitions: usize,
    sets: BTreeMap<Ends, Set>,
}

impl Movements {
    /// Of so many partitions.
    pub fn new(partitions: usize) -> Self {
        Movements { moves: Vec::new(), partitions, sets: BTreeMap::new() }
    }

    /// The partition to move instead of `partition`, which goes from `old` to `new`: one of the
    /// same topic that came the other way before, if there is one.
    pub fn actual(&self, topic: u32, partition: u32, old: u32, new: u32) -> u32 {
        let source = match self.moves.get(partition as usize) {
            Some(moved) if moved.source != NONE => moved.source,
            _ => old,
        };
        match self.sets.get(&(topic, new, source)) {
            None => partition,
            Some(Set::Few(last)) => self.first(*last),
            Some(Set::Many(set)) => set.first().expect("an empty set is removed"),
        }
    }

    /// `partition` goes from `old` to `new`. `hash` is its hash code in Java.
    pub fn record(&mut self, topic: u32, partition: u32, hash: u32, old: u32, new: u32) {
        if self.moves.is_empty() {
            self.moves = vec![UNMOVED; self.partitions];
        }
        let Move { source, destination, .. } = self.moves[partition as usize];
        let source = if source == NONE {
            old
        } else {
            self.leave((topic, source, destination), partition);
            source
        };
        if source != new {
            let moved = Move { source, destination: new, hash, before: NONE };
            self.moves[partition as usize] = moved;
            self.enter((topic, source, new), partition);
        }
    }

    fn enter(&mut self, ends: Ends, partition: u32) {
        let hash = self.moves[partition as usize].hash;
        match self.sets.get_mut(&ends) {
            None => {
                self.sets.insert(ends, Set::Few(partition));
            }
            Some(Set::Many(set)) => set.insert(hash, partition),
            Some(Set::Few(last)) => {
                let last = *last;
                let buckets = self.list(last).map(|other| self.bucket(other));
                let crowd = buckets.filter(|bucket| *bucket == self.bucket(partition)).count();
                let count = self.list(last).count();
                let set = if java_order::outgrows_smallest_table(count + 1, crowd + 1) {
                    Set::Many(Box::new(self.hash_set(last, partition)))
                } else {
                    self.moves[partition as usize].before = last;
                    Set::Few(partition)
                };
                self.sets.insert(ends, set);
            }
        }
    }

    fn leave(&mut self, ends: Ends, partition: u32) {
        let Move { hash, before, .. } = self.moves[partition as usize];
        self.moves[partition as usize] = UNMOVED;
        let is_empty = match self.sets.get_mut(&ends).expect("the set that a move belongs to") {
            Set::Many(set) => {
                set.remove(hash, partition);
                set.is_empty()
            }
            Set::Few(last) if *last == partition => {
                *last = before;
                before == NONE
            }
            Set::Few(last) => {
                let mut after = *last;
                while self.moves[after as usize].before != partition {
                    after = self.moves[after as usize].before;
                }
                self.moves[after as usize].before = before;
                false
            }
        };
        if is_empty {
            self.sets.remove(&ends);
        }
    }

    /// The elements of a small set, the last that came first.
    fn list(&self, last: u32) -> impl Iterator<Item = u32> + '_ {
        let known = |partition: u32| (partition != NONE).then_some(partition);
        std::iter::successors(known(last), move |at| known(self.moves[*at as usize].before))
    }

    /// The element with which Java's iteration over a small set begins: in the lowest bucket the
    /// one that came first, which is the last of the list.
    fn first(&self, last: u32) -> u32 {
        let lower =
            |first, other| if self.bucket(other) <= self.bucket(first) { other } else { first };
        self.list(last).reduce(lower).expect("an empty set is removed")
    }

    fn bucket(&self, partition: u32) -> usize {
        java_order::smallest_table_bucket(self.moves[partition as usize].hash)
    }

    /// A small set that grows: its elements in the order in which they came, and one more.
    fn hash_set(&self, last: u32, another: u32) -> HashSet {
        let mut elements: Vec<u32> = self.list(last).collect();
        elements.reverse();
        elements.push(another);
        let mut set = HashSet::default();
        for element in elements {
            set.insert(self.moves[element as usize].hash, element);
        }
        set
    }
}

/// `TopicPartition.hashCode` of the partitions of a topic.
pub fn partition_hash(topic_name: &str, number: u32) -> u32 {
    java_order::partition_hash_code(java_hash(topic_name), number)
}
