//! Racks of partitions and members, by number (KIP-881). Partitions share few sets of racks, so
//! each set is held once.

use std::collections::BTreeMap;

/// No member, rack or subscription.
pub const NONE: u32 = u32::MAX;

/// Distinct sets of racks, each ascending. Set 0 is the empty one.
#[derive(Debug)]
pub struct RackSets {
    sets: Vec<Vec<u32>>,
    numbers: BTreeMap<Vec<u32>, u32>,
}

impl Default for RackSets {
    fn default() -> Self {
        RackSets { sets: vec![Vec::new()], numbers: BTreeMap::from([(Vec::new(), 0)]) }
    }
}

impl RackSets {
    /// The number of a set, which may come in any order and with repetitions.
    pub fn number(&mut self, mut racks: Vec<u32>) -> u32 {
        racks.sort_unstable();
        racks.dedup();
        if let Some(&number) = self.numbers.get(&racks) {
            return number;
        }
        let number = self.sets.len() as u32;
        self.sets.push(racks.clone());
        self.numbers.insert(racks, number);
        number
    }
}

/// The racks of all partitions. Only groups with a member in a rack have one.
#[derive(Debug)]
pub struct Racks {
    sets: Vec<Vec<u32>>,
    count: usize,
    /// Per partition its set.
    set_of: Vec<u32>,
}

impl Racks {
    /// `topics` in order, each with the sets of its partitions or empty; `firsts` as in Group.
    pub fn new<'b>(
        sets: RackSets,
        count: usize,
        topics: impl Iterator<Item = &'b [u32]>,
        firsts: &[u32],
    ) -> Self {
        let mut set_of = vec![0; firsts.last().map_or(0, |&total| total as usize)];
        for (topic, sets) in topics.enumerate() {
            let partitions = firsts[topic] as usize..firsts[topic + 1] as usize;
            if !sets.is_empty() && !partitions.is_empty() {
                set_of[partitions].copy_from_slice(sets);
            }
        }
        Racks { sets: sets.sets, count, set_of }
    }

    /// How many racks there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// How many sets of racks there are.
    pub fn set_count(&self) -> usize {
        self.sets.len()
    }

    /// The number of the partition's set; partitions that do not exist are in no rack.
    pub fn set_of(&self, partition: u32) -> u32 {
        self.set_of.get(partition as usize).copied().unwrap_or(0)
    }

    /// The racks of a set, ascending.
    pub fn set(&self, set: u32) -> &[u32] {
        &self.sets[set as usize]
    }

    /// The racks of the partition's replicas, ascending.
    pub fn of(&self, partition: u32) -> &[u32] {
        self.set(self.set_of(partition))
    }

    /// Whether a consumer in `rack` reads the partition in its own rack. NONE reads everywhere.
    pub fn match_rack(&self, rack: u32, partition: u32) -> bool {
        rack == NONE || self.of(partition).contains(&rack)
    }

    /// Whether racks can make a difference: consumers and replicas share a rack, and not every
    /// partition is in the same racks (`AbstractPartitionAssignor.useRackAwareAssignment`).
    pub fn matter(
        &self,
        consumers: impl Iterator<Item = u32>,
        partitions: impl Iterator<Item = u32> + Clone,
    ) -> bool {
        let mut sets = vec![false; self.sets.len()];
        partitions.for_each(|partition| sets[self.set_of(partition) as usize] = true);
        let present = || (0..sets.len()).filter(|&set| sets[set]);
        let mut replicas = vec![false; self.count];
        present().flat_map(|set| &self.sets[set]).for_each(|&rack| replicas[rack as usize] = true);
        let all = replicas.iter().filter(|&&present| present).count();
        let shared = consumers
            .filter(|&rack| rack != NONE)
            .any(|rack| replicas.get(rack as usize).is_some_and(|&present| present));
        shared && present().any(|set| self.sets[set].len() != all)
    }
}

/// How many members are in each rack, of the rack of each member.
pub fn members_by_rack(of_members: impl Iterator<Item = u32>, racks: &Racks) -> Vec<u32> {
    let mut counts = vec![0; racks.count()];
    of_members.filter(|&rack| rack != NONE).for_each(|rack| counts[rack as usize] += 1);
    counts
}
