//! Step 7 of the general way: moves partitions from loaded members to less loaded ones until
//! nothing changes (`performReassignments`, assignors section 7).
//!
//! A topic whose most loaded owner has at most one partition more than its least loaded
//! subscriber has none to move. Each of Java's rules moves a partition only if that is not so, and
//! so does its test for balance, which is therefore not needed: neither is its preference of a
//! near consumer, since what it prefers is given to the least loaded subscriber all the same.

use super::super::group::Group;
use super::super::order::Subscribers;
use super::claims::Prior;
use super::loads::{Ledger, Loads};
use super::movements::{Movements, partition_hash};

/// Partitions of one topic, ascending.
pub type Run = (u32, Vec<u32>);

/// Moves per member and partition after which the rest is left as it is. Every move makes the
/// sizes more even, but for those that take a partition back, so this is never reached; it is
/// there so that no group can keep a coordinator busy.
const MOVES: u64 = 64;

/// Returns whether anything moved. `movements` are those of the whole rebalance.
pub fn reassign(
    group: &Group<'_>,
    subscribers: &Subscribers,
    prior: &Prior,
    runs: &[Run],
    ledger: &mut Ledger,
    movements: &mut Movements,
) -> bool {
    let mut pass = Pass {
        group,
        prior,
        ledger,
        loads: Loads::default(),
        movements,
        left: MOVES * (group.partition_count() + group.members().len()) as u64,
    };
    let mut performed = false;
    loop {
        let mut modified = false;
        for (topic, partitions) in runs {
            modified |= pass.topic(*topic, subscribers.of(*topic), partitions);
        }
        performed |= modified;
        if !modified || pass.left == 0 {
            return performed;
        }
    }
}

struct Pass<'a> {
    group: &'a Group<'a>,
    prior: &'a Prior,
    ledger: &'a mut Ledger,
    loads: Loads,
    movements: &'a mut Movements,
    left: u64,
}

impl Pass<'_> {
    /// Returns whether anything moved.
    fn topic(&mut self, topic: u32, subscribers: &[u32], partitions: &[u32]) -> bool {
        let ledger = &*self.ledger;
        let size = |&member: &u32| ledger.sizes[member as usize];
        let least = subscribers.iter().map(size).min().unwrap_or(0);
        let owners = partitions.iter().map(|&partition| ledger.owners[partition as usize]);
        let most = owners.map(|owner| size(&owner)).max().unwrap_or(0);
        if most <= least + 1 {
            return false;
        }
        debug_assert!(subscribers.iter().all(|&member| ledger.takes_part[member as usize]));
        self.loads.fill(subscribers.iter().copied(), ledger);
        let mut modified = false;
        for &partition in partitions {
            let owner = self.ledger.owners[partition as usize];
            let Some(new) = self.better_owner(topic, partition, owner) else { continue };
            debug_assert!(self.left > 0, "more moves than any group needs");
            if self.left == 0 {
                break;
            }
            self.left -= 1;
            self.move_partition(topic, partition, owner, new);
            modified = true;
        }
        modified
    }

    /// The member that had the partition before, if that is fair, or else the least loaded
    /// subscriber.
    fn better_owner(&mut self, topic: u32, partition: u32, owner: u32) -> Option<u32> {
        let sizes = &self.ledger.sizes;
        let fair = |&other: &u32| sizes[owner as usize] > sizes[other as usize] + 1;
        let prior = self.prior.of(partition).filter(fair);
        // Java forgets to ask whether the prior owner still subscribes to the topic.
        let prior = prior.filter(|&prior| self.group.is_subscribed(prior, topic));
        prior.or_else(|| self.loads.least(self.ledger).filter(fair))
    }

    fn move_partition(&mut self, topic: u32, partition: u32, owner: u32, new: u32) {
        let actual = self.movements.actual(topic, partition, owner, new);
        let owner = self.ledger.owners[actual as usize];
        let number = actual - self.group.partitions_of(topic).start;
        let hash = partition_hash(self.group.names[topic as usize], number);
        self.movements.record(topic, actual, hash, owner, new);
        self.ledger.give(actual, new);
        self.loads.changed(owner, self.ledger);
        self.loads.changed(new, self.ledger);
    }
}
