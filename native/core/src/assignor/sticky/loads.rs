//! Who owns what and since when, and the least loaded of some members.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use super::super::group::{Assignment, Group, NONE};

/// Owners of partitions, sizes of members, and the order in which things were given.
#[derive(Clone, Debug)]
pub struct Ledger {
    /// Per partition its member, or NONE.
    pub owners: Vec<u32>,
    /// Per partition when it was given: larger is later.
    since: Vec<u32>,
    /// Per member how many partitions it has.
    pub sizes: Vec<u32>,
    /// Per member whether it can get other partitions than it has.
    pub takes_part: Vec<bool>,
    /// Per member its place by member id, and the reverse.
    ranks: Vec<u32>,
    by_rank: Vec<u32>,
    clock: u32,
}

impl Ledger {
    pub fn new(group: &Group<'_>, ranks: Vec<u32>, by_rank: Vec<u32>) -> Self {
        Ledger {
            owners: vec![NONE; group.partition_count()],
            since: vec![0; group.partition_count()],
            sizes: vec![0; ranks.len()],
            takes_part: vec![true; ranks.len()],
            ranks,
            by_rank,
            clock: 0,
        }
    }

    /// Appends the partition to the member's list, and takes it from its owner's, if it has one.
    pub fn give(&mut self, partition: u32, member: u32) {
        let owner = core::mem::replace(&mut self.owners[partition as usize], member);
        if owner != NONE {
            self.sizes[owner as usize] -= 1;
        }
        self.sizes[member as usize] += 1;
        self.since[partition as usize] = self.clock;
        self.clock += 1;
    }

    /// Java's order of consumers: by size, then member id.
    pub fn key(&self, member: u32) -> u64 {
        u64::from(self.sizes[member as usize]) << 32 | u64::from(self.ranks[member as usize])
    }

    /// The sum of the differences in size between any two members that take part.
    pub fn score(&self) -> i64 {
        let members = self.sizes.iter().zip(&self.takes_part);
        let mut sizes: Vec<i64> =
            members.filter(|&(_, &takes_part)| takes_part).map(|(&s, _)| i64::from(s)).collect();
        sizes.sort_unstable();
        let last = sizes.len() as i64 - 1;
        sizes.iter().zip(0..).map(|(&size, at)| size * (2 * at - last)).sum()
    }

    pub fn into_assignment(self) -> Assignment {
        let mut order: Vec<u64> =
            self.since.iter().zip(0u64..).map(|(&since, p)| u64::from(since) << 32 | p).collect();
        order.sort_unstable();
        let given = order.iter().map(|&entry| {
            let partition = entry as u32;
            (self.owners[partition as usize], partition)
        });
        Assignment::collect(self.sizes.len(), given)
    }
}

/// Members by load, the least loaded first. Entries of members whose size has changed since are
/// left in and passed over when they come up.
#[derive(Default)]
pub struct Loads {
    heap: BinaryHeap<Reverse<u64>>,
}

impl Loads {
    pub fn clear(&mut self) {
        self.heap.clear();
    }

    pub fn fill(&mut self, members: impl Iterator<Item = u32>, ledger: &Ledger) {
        let mut keys = core::mem::take(&mut self.heap).into_vec();
        keys.clear();
        keys.extend(members.map(|member| Reverse(ledger.key(member))));
        self.heap = BinaryHeap::from(keys);
    }

    /// To be called when a member has come in, or its size has changed.
    pub fn changed(&mut self, member: u32, ledger: &Ledger) {
        self.heap.push(Reverse(ledger.key(member)));
    }

    pub fn least(&mut self, ledger: &Ledger) -> Option<u32> {
        while let Some(&Reverse(key)) = self.heap.peek() {
            let member = ledger.by_rank[key as u32 as usize];
            if ledger.sizes[member as usize] == (key >> 32) as u32 {
                return Some(member);
            }
            self.heap.pop();
        }
        None
    }
}
