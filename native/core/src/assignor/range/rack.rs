//! `RangeAssignor` with racks (KIP-881, assignors section 3.3): members first get partitions with
//! a replica in their own rack, as far as that leaves each member's share as it is; topics with the
//! same consumers and as many partitions keep equal numbers together.

use std::collections::BTreeMap;

use super::super::group::{Assignment, Group, NONE};
use super::super::order::Subscribers;
use super::super::racks::Racks;

/// None if racks make no difference for any topic. `topics` in Java's order.
pub fn assign(group: &Group<'_>, topics: &[u32], subscribers: &Subscribers) -> Option<Assignment> {
    let racks = group.racks.as_ref()?;
    let rack_of = |&member: &u32| group.members()[member as usize].rack;
    let matters = |topic: u32| {
        let consumers = subscribers.of(topic).iter().map(rack_of);
        racks.matter(consumers, group.partitions_of(topic))
    };
    let aware: Vec<bool> = topics.iter().map(|&topic| matters(topic)).collect();
    if !aware.contains(&true) {
        return None;
    }
    let state = |(&topic, &aware)| Topic::new(group, racks, topic, subscribers.of(topic), aware);
    let mut states: Vec<Topic<'_>> = topics.iter().zip(&aware).map(state).collect();
    for together in copartitioned(&states) {
        match together.as_slice() {
            [alone] if states[*alone].aware => states[*alone].give_in_rack(racks),
            [_] => {}
            _ => give_together(racks, &mut states, &together),
        }
    }
    for state in &mut states {
        state.give_rest();
    }
    let mut given: Vec<(u32, u32)> = states.iter().flat_map(Topic::given).collect();
    // Every list by topic and number, which is by partition.
    given.sort_unstable_by_key(|&(_, partition)| partition);
    Some(Assignment::collect(group.members().len(), given.iter().copied()))
}

/// Indexes of topics with the same consumers and as many partitions.
fn copartitioned(states: &[Topic<'_>]) -> Vec<Vec<usize>> {
    // Members of a topic always stand in the same order, so equal sets are equal slices.
    let mut sets: BTreeMap<(&[u32], usize), Vec<usize>> = BTreeMap::new();
    for (at, state) in states.iter().enumerate() {
        // Java knows partitions' racks only where a consumer has one.
        let in_racks = state.racks_of.iter().any(|&rack| rack != NONE);
        let partitions = if in_racks { state.owners.len() } else { 0 };
        sets.entry((state.members, partitions)).or_default().push(at);
    }
    sets.into_values().collect()
}

/// One topic while its partitions are given out (`TopicAssignmentState`).
struct Topic<'a> {
    first: u32,
    members: &'a [u32],
    /// Per place in `members` the rack, and how many partitions it has.
    racks_of: Vec<u32>,
    counts: Vec<u32>,
    /// Per partition the place of its owner in `members`, or NONE.
    owners: Vec<u32>,
    quota: u32,
    /// How many members may still exceed the quota.
    extra: i64,
    aware: bool,
}

impl<'a> Topic<'a> {
    fn new(group: &Group<'_>, racks: &Racks, topic: u32, members: &'a [u32], aware: bool) -> Self {
        let partitions = group.size_of(topic);
        let rack_of = |&member: &u32| group.members()[member as usize].rack;
        debug_assert!(members.iter().map(rack_of).all(|r| r == NONE || r < racks.count() as u32));
        Topic {
            first: group.partitions_of(topic).start,
            members,
            racks_of: members.iter().map(rack_of).collect(),
            counts: vec![0; members.len()],
            owners: vec![NONE; partitions as usize],
            quota: partitions / members.len() as u32,
            extra: i64::from(partitions) % members.len() as i64,
            aware,
        }
    }

    fn room(&self, place: usize) -> u32 {
        (self.quota + u32::from(self.extra > 0)).saturating_sub(self.counts[place])
    }

    /// Counts what was given to a member in one go.
    fn gave(&mut self, place: usize, partitions: u32) {
        self.counts[place] += partitions;
        self.extra -= i64::from(self.counts[place] > self.quota);
    }

    fn given(&self) -> impl Iterator<Item = (u32, u32)> {
        let owners = self.owners.iter().zip(self.first..);
        owners.map(|(&place, partition)| (self.members[place as usize], partition))
    }

    /// Each member as many partitions in its own rack as it has room for, lowest numbers first.
    fn give_in_rack(&mut self, racks: &Racks) {
        // Per set of racks what is left of its partitions, lowest last.
        let mut left: Vec<Vec<u32>> = vec![Vec::new(); racks.set_count()];
        for number in (0..self.owners.len() as u32).rev() {
            left[racks.set_of(self.first + number) as usize].push(number);
        }
        for place in 0..self.members.len() {
            let (room, rack) = (self.room(place), self.racks_of[place]);
            let matches = |set: &usize| rack == NONE || racks.set(*set as u32).contains(&rack);
            let sets: Vec<usize> = (0..left.len()).filter(matches).collect();
            let mut taken = 0;
            while taken < room {
                let lowest = |&set: &usize| left[set].last().map(|&number| (number, set));
                let Some((number, set)) = sets.iter().filter_map(lowest).min() else { break };
                left[set].pop();
                self.owners[number as usize] = place as u32;
                taken += 1;
            }
            if taken > 0 {
                self.gave(place, taken);
            }
        }
    }

    /// The remaining partitions, in order, to the members that have room.
    fn give_rest(&mut self) {
        let mut left = (0..self.owners.len()).filter(|&number| self.owners[number] == NONE);
        let left: Vec<usize> = left.by_ref().collect();
        let mut left = left.into_iter().peekable();
        for place in 0..self.members.len() {
            if left.peek().is_none() {
                return;
            }
            let mut taken = 0;
            for number in left.by_ref().take(self.room(place) as usize) {
                self.owners[number] = place as u32;
                taken += 1;
            }
            if taken > 0 {
                self.gave(place, taken);
            }
        }
    }
}

/// Equal numbers of all topics to the first member that reads each of them in its rack and has
/// room in every topic.
fn give_together(racks: &Racks, states: &mut [Topic<'_>], together: &[usize]) {
    let first = &states[together[0]];
    let in_racks = first.racks_of.iter().any(|&rack| rack != NONE);
    if !in_racks {
        return;
    }
    let partitions = first.owners.len();
    // Per rack, and behind them for no rack, the members in order. Room only ever shrinks, so who
    // has none is passed for good.
    let no_rack = racks.count();
    let mut queues: Vec<Vec<usize>> = vec![Vec::new(); no_rack + 1];
    for (place, &rack) in first.racks_of.iter().enumerate().rev() {
        queues[if rack == NONE { no_rack } else { rack as usize }].push(place);
    }
    for number in 0..partitions {
        let of = |topic: &usize| racks.of(states[*topic].first + number as u32);
        let mut shared: Vec<usize> = of(&together[0]).iter().map(|&rack| rack as usize).collect();
        shared.retain(|&rack| together.iter().all(|topic| of(topic).contains(&(rack as u32))));
        shared.push(no_rack);
        let mut chosen = NONE as usize;
        for queue in shared {
            let has_room =
                |place: usize| together.iter().all(|&topic| states[topic].room(place) > 0);
            while queues[queue].last().is_some_and(|&place| !has_room(place)) {
                queues[queue].pop();
            }
            chosen = queues[queue].last().map_or(chosen, |&place| chosen.min(place));
        }
        if chosen == NONE as usize {
            continue;
        }
        for &topic in together {
            states[topic].owners[number] = chosen as u32;
            states[topic].gave(chosen, 1);
        }
    }
}
