//! Loads made level by moving as little as that takes: what `weighted` and `lag_aware` share.
//!
//! Partitions without an owner go to the member that is least loaded for its capacity, heavy ones
//! first.
//! Then the most loaded member gives to the least loaded one, for as long as the larger of both
//! shrinks by more than the tolerance. An owner that need not give keeps what it has.

use core::cmp::{Ordering, Reverse};
use std::collections::BTreeSet;

use super::group::{Assignment, Group, NONE};
use super::order::{id_order, ranks};

/// A partition that may move, and what it adds to its owner's load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Item {
    pub weight: u64,
    pub partition: u32,
}

/// Moves for each item and member, beyond which loads are level enough: each move makes the larger
/// of two loads smaller, so it ends anyway, but the last per mille is not worth the wait.
const MOVES_EACH: usize = 16;

/// A member among the others: by load for its capacity, equals by member id.
#[derive(Clone, Copy, Debug)]
struct Place {
    load: u128,
    capacity: u32,
    rank: u32,
    member: u32,
}

impl Ord for Place {
    fn cmp(&self, other: &Self) -> Ordering {
        let own = self.load * u128::from(other.capacity);
        let others = other.load * u128::from(self.capacity);
        own.cmp(&others).then(self.rank.cmp(&other.rank))
    }
}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Place {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Place {}

/// Owners of partitions and loads of members, on their way to being level.
pub struct Levels<'g, 'a> {
    group: &'g Group<'a>,
    capacities: &'g [u32],
    /// The topic of every partition.
    topics: Vec<u32>,
    ranks: Vec<u32>,
    owners: Vec<u32>,
    loads: Vec<u128>,
    /// Added to each load before members are compared as takers: the weight of any item, if all
    /// have the same.
    unit: u128,
    takers: BTreeSet<Place>,
}

impl<'g, 'a> Levels<'g, 'a> {
    /// Starts from what members claim and subscribe to; the first by member id has it.
    pub fn new(group: &'g Group<'a>, capacities: &'g [u32]) -> Self {
        let order = id_order(group);
        let topics = group.topic_table();
        let mut owners = vec![NONE; group.partition_count()];
        for &member in &order {
            for &partition in group.claims_of(member) {
                // A claim may be on a partition that does not exist.
                let Some(owner) = owners.get_mut(partition as usize) else { continue };
                let topic = topics[partition as usize];
                if *owner == NONE && group.is_subscribed(member, topic) {
                    *owner = member;
                }
            }
        }
        Levels {
            group,
            capacities,
            topics,
            ranks: ranks(&order),
            owners,
            loads: vec![0; group.members().len()],
            unit: 0,
            takers: BTreeSet::new(),
        }
    }

    /// Levels these items; what they weigh comes on top of what earlier ones did. `tolerance`: what
    /// a gap must exceed for a partition that has an owner to move.
    pub fn level(&mut self, mut items: Vec<Item>, unit: u64, tolerance: u128) {
        self.unit = unit.into();
        let mut held: Vec<Vec<Item>> = vec![Vec::new(); self.loads.len()];
        items.sort_unstable_by_key(|item| (Reverse(item.weight), item.partition));
        for item in &items {
            let owner = self.owners[item.partition as usize];
            if owner != NONE {
                self.loads[owner as usize] += u128::from(item.weight);
                held[owner as usize].push(*item);
            }
        }
        self.takers = (0..self.loads.len() as u32).map(|member| self.taker(member)).collect();
        for item in items {
            if self.owners[item.partition as usize] == NONE
                && let Some(member) = self.first_subscriber(item)
            {
                self.owners[item.partition as usize] = member;
                self.add(member, item.weight);
                held[member as usize].push(item);
            }
        }
        for list in &mut held {
            list.sort_unstable();
        }
        self.even_out(&mut held, tolerance);
    }

    /// Counts what members own, instead of what it weighs.
    pub fn count(&mut self, counted: impl Iterator<Item = u32>) {
        self.loads.fill(0);
        for partition in counted {
            let owner = self.owners[partition as usize];
            if owner != NONE {
                self.loads[owner as usize] += 1;
            }
        }
    }

    /// Lists in the order of (topic, number).
    pub fn into_assignment(self) -> Assignment {
        let owned = self.owners.iter().zip(0..).filter(|(owner, _)| **owner != NONE);
        let owned = owned.map(|(&owner, partition)| (owner, partition));
        Assignment::collect(self.group.members().len(), owned)
    }

    fn place(&self, member: u32, load: u128) -> Place {
        let at = member as usize;
        Place { load, capacity: self.capacities[at], rank: self.ranks[at], member }
    }

    fn taker(&self, member: u32) -> Place {
        self.place(member, self.loads[member as usize] + self.unit)
    }

    fn giver(&self, member: u32) -> Place {
        self.place(member, self.loads[member as usize])
    }

    fn add(&mut self, member: u32, weight: u64) {
        self.takers.remove(&self.taker(member));
        self.loads[member as usize] += u128::from(weight);
        self.takers.insert(self.taker(member));
    }

    fn subtract(&mut self, member: u32, weight: u64) {
        self.takers.remove(&self.taker(member));
        self.loads[member as usize] -= u128::from(weight);
        self.takers.insert(self.taker(member));
    }

    fn is_subscribed(&self, member: u32, partition: u32) -> bool {
        self.group.is_subscribed(member, self.topics[partition as usize])
    }

    fn first_subscriber(&self, item: Item) -> Option<u32> {
        let mut members = self.takers.iter().map(|place| place.member);
        members.find(|member| self.is_subscribed(*member, item.partition))
    }

    /// The most loaded member gives first; one that cannot give waits until another has given.
    fn even_out(&mut self, held: &mut [Vec<Item>], tolerance: u128) {
        let items: usize = held.iter().map(Vec::len).sum();
        let mut moves_left = MOVES_EACH * (items + held.len());
        loop {
            let mut givers: BTreeSet<Place> =
                (0..held.len() as u32).map(|member| self.giver(member)).collect();
            let before = moves_left;
            while let Some(giver) = givers.pop_last() {
                let from = giver.member;
                let found = self.best_move(from, &held[from as usize], tolerance);
                let Some((to, at)) = found.filter(|_| moves_left > 0) else { continue };
                moves_left -= 1;
                let item = held[from as usize].remove(at);
                let place = held[to as usize].binary_search(&item).unwrap_err();
                held[to as usize].insert(place, item);
                let was_giver = givers.remove(&self.giver(to));
                self.subtract(from, item.weight);
                self.add(to, item.weight);
                self.owners[item.partition as usize] = to;
                givers.insert(self.giver(from));
                if was_giver {
                    givers.insert(self.giver(to));
                }
            }
            if moves_left == before || moves_left == 0 {
                return;
            }
        }
    }

    /// Which of its items a member should give, and to which member; lightest first in `items`.
    fn best_move(&self, from: u32, items: &[Item], tolerance: u128) -> Option<(u32, usize)> {
        let lightest = items.first()?.weight;
        for taker in &self.takers {
            if !self.improves(from, taker.member, lightest, tolerance) {
                return None;
            }
            if let Some(at) = self.best_item(from, taker.member, items, tolerance) {
                return Some((taker.member, at));
            }
        }
        None
    }

    /// The item that comes nearest to half of the gap.
    fn best_item(&self, from: u32, to: u32, items: &[Item], tolerance: u128) -> Option<usize> {
        let gap = self.loads[from as usize].saturating_sub(self.loads[to as usize]);
        let half = items.partition_point(|item| u128::from(item.weight) <= gap / 2);
        let fits = |at: &usize| {
            self.is_subscribed(to, items[*at].partition)
                && self.improves(from, to, items[*at].weight, tolerance)
        };
        let lighter = (0..half).rev().find(fits);
        // Heavier than these it gets no better.
        let heavier = (half..items.len())
            .take_while(|at| self.improves(from, to, items[*at].weight, tolerance))
            .find(fits);
        let distance = |at: &usize| (2 * u128::from(items[*at].weight)).abs_diff(gap);
        lighter.into_iter().chain(heavier).min_by_key(distance)
    }

    /// Whether giving so much leaves the larger of both loads smaller, by more than is tolerated.
    fn improves(&self, from: u32, to: u32, weight: u64, tolerance: u128) -> bool {
        let (from, to) = (from as usize, to as usize);
        let capacities = (u128::from(self.capacities[from]), u128::from(self.capacities[to]));
        let given = (self.loads[to] + u128::from(weight)) * capacities.0;
        self.loads[from] * capacities.1 > given + tolerance * capacities.0 * capacities.1
    }
}
