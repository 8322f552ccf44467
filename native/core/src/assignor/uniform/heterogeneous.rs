//! `uniform` for members with different subscriptions (`UniformHeterogeneousAssignmentBuilder`,
//! assignors section 11.2): topics one by one, those with most partitions for their subscribers
//! first, and then at most 16 rounds of moves. The cost of a round is that of partitions and
//! subscriptions together.

use super::super::group::{Group, NONE};
use super::super::order::Subscribers;
use super::balancer::Balancer;
use super::current_owners;

const ROUNDS: usize = 16;
/// How many levels of load are looked at before all subscribers are sorted.
const LEVELS: u32 = 4;

/// The owner of every partition.
pub fn assign(group: &Group<'_>, order: &[u32]) -> Vec<u32> {
    assign_looking_at(LEVELS, group, order)
}

fn assign_looking_at(levels: u32, group: &Group<'_>, order: &[u32]) -> Vec<u32> {
    let subscribers = Subscribers::new(group, order);
    let topics = group.topic_table();
    let is_subscribed = |member, partition| group.is_subscribed(member, topics[partition as usize]);
    let mut builder = Builder {
        group,
        sizes: vec![0; order.len()],
        owners: current_owners(group, order, is_subscribed),
        balancer: Balancer::default(),
        least: 0,
        levels,
        chosen: Vec::new(),
        range: Vec::new(),
        owned: vec![Vec::new(); order.len()],
    };
    let owned = builder.owners.iter().filter(|&&owner| owner != NONE);
    owned.for_each(|&owner| builder.sizes[owner as usize] += 1);
    let topics = topic_order(group, &subscribers);
    for &topic in &topics {
        builder.assign_rest(topic, subscribers.of(topic));
    }
    let (least, most) = builder.extremes();
    if most.saturating_sub(least) > 1 {
        builder.balance(&topics, &subscribers);
    }
    builder.owners
}

/// By partitions per subscriber descending, then subscribers, then name.
fn topic_order(group: &Group<'_>, subscribers: &Subscribers) -> Vec<u32> {
    let topics = 0..group.topic_count() as u32;
    let mut topics: Vec<u32> = topics.filter(|&topic| group.size_of(topic) > 0).collect();
    topics.sort_by(|&left, &right| {
        let members = |topic: u32| subscribers.of(topic).len() as u64;
        let (left_size, right_size) = (group.size_of(left), group.size_of(right));
        let by_share =
            (u64::from(right_size) * members(left)).cmp(&(u64::from(left_size) * members(right)));
        by_share.then(members(left).cmp(&members(right)))
    });
    topics
}

struct Builder<'a> {
    group: &'a Group<'a>,
    sizes: Vec<u32>,
    owners: Vec<u32>,
    balancer: Balancer,
    /// No subscriber has fewer partitions while partitions are only given.
    least: u32,
    levels: u32,
    chosen: Vec<u32>,
    range: Vec<u32>,
    /// Per member the partitions of the topic at hand, ascending.
    owned: Vec<Vec<u32>>,
}

impl Builder<'_> {
    fn assign_rest(&mut self, topic: u32, subscribers: &[u32]) {
        let free = |&partition: &u32| self.owners[partition as usize] == NONE;
        let free: Vec<u32> = self.group.partitions_of(topic).filter(free).collect();
        if free.is_empty() {
            return;
        }
        if !self.choose_near_least(subscribers, free.len()) {
            self.balancer.start(subscribers, &self.sizes);
            self.chosen.clear();
            self.chosen.extend(free.iter().map(|_| self.balancer.next_least_loaded()));
        }
        for (&partition, &member) in free.iter().zip(&self.chosen) {
            self.owners[partition as usize] = member;
            self.sizes[member as usize] += 1;
        }
    }

    /// Chooses the members that the balancer would come to, without sorting all subscribers, if
    /// they are all nearly as little loaded as any: a round through those at the least level, one
    /// through them and those at the next, and so on.
    fn choose_near_least(&mut self, subscribers: &[u32], wanted: usize) -> bool {
        if !subscribers.iter().any(|&member| self.sizes[member as usize] == self.least) {
            self.least = self.extremes().0;
        }
        self.chosen.clear();
        self.range.clear();
        for level in self.least..self.least + self.levels {
            let known = self.range.len();
            self.chosen.extend(self.range.iter().take(wanted - self.chosen.len()));
            let missing = wanted - self.chosen.len();
            let at_level = |&&member: &&u32| self.sizes[member as usize] == level;
            self.range.extend(subscribers.iter().filter(at_level).take(missing));
            self.chosen.extend_from_slice(&self.range[known..]);
            if self.chosen.len() == wanted {
                return true;
            }
        }
        false
    }

    /// The smallest and the largest size of those who subscribe to anything.
    fn extremes(&self) -> (u32, u32) {
        let takes_part =
            |&(member, _): &(u32, _)| !self.group.subscription_of(member).topics.is_empty();
        let sizes = (0..).zip(self.sizes.iter().copied()).filter(takes_part);
        sizes.fold((u32::MAX, 0), |(least, most), (_, size)| (least.min(size), most.max(size)))
    }

    fn balance(&mut self, topics: &[u32], subscribers: &Subscribers) {
        let topics: Vec<u32> =
            topics.iter().copied().filter(|&topic| subscribers.of(topic).len() >= 2).collect();
        // Ends when a whole round has come by since the topic that moved something last.
        let mut last_moved = 0;
        for round in 0..ROUNDS {
            for (at, &topic) in topics.iter().enumerate() {
                if round > 0 && at == last_moved {
                    return;
                }
                if self.balance_topic(topic, subscribers.of(topic)) {
                    last_moved = at;
                }
            }
        }
    }

    /// Returns whether anything moved.
    fn balance_topic(&mut self, topic: u32, subscribers: &[u32]) -> bool {
        let sizes = subscribers.iter().map(|&member| self.sizes[member as usize]);
        let (least, most) = sizes.fold((u32::MAX, 0), |(l, m), size| (l.min(size), m.max(size)));
        if most - least <= 1 {
            return false;
        }
        subscribers.iter().for_each(|&member| self.owned[member as usize].clear());
        for partition in self.group.partitions_of(topic) {
            self.owned[self.owners[partition as usize] as usize].push(partition);
        }
        self.balancer.start(subscribers, &self.sizes);
        let mut moved = false;
        loop {
            let has_one = |member: u32| !self.owned[member as usize].is_empty();
            let Some(most) = self.balancer.next_most_loaded(has_one) else { return moved };
            let partition = self.owned[most as usize].pop().expect("it has one");
            let least = self.balancer.next_least_loaded();
            if self.balancer.is_balanced() {
                return moved;
            }
            self.owners[partition as usize] = least;
            self.sizes[most as usize] -= 1;
            self.sizes[least as usize] += 1;
            moved = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop, prop_assert_eq, proptest};

    use super::super::super::group::Group;
    use super::super::super::order::id_order;
    use super::super::super::{GroupBuilder, NewMember};
    use super::*;

    fn group<'a>(sizes: &[u32], members: &[(u8, Vec<u32>)], names: &'a [String]) -> Group<'a> {
        let mut builder = GroupBuilder::new(1);
        let topics: Vec<u32> =
            sizes.iter().zip(names).map(|(&size, name)| builder.add_topic(name, size)).collect();
        for ((wanted, owned), name) in members.iter().zip(names) {
            let listed = topics.iter().copied().filter(|topic| wanted >> topic & 1 == 1);
            let subscription = builder.subscription(&listed.collect::<Vec<_>>());
            builder.add_member(NewMember { id: name, ..NewMember::default() }, subscription);
            for &number in owned {
                builder.add_claim(topics[number as usize % topics.len()], number as i32 / 8);
            }
        }
        builder.build().expect("few partitions")
    }

    proptest! {
        #[test]
        fn nobody_is_chosen_whom_the_balancer_would_not_choose(
            sizes in prop::collection::vec(0..12u32, 4),
            members in prop::collection::vec(
                (any::<u8>(), prop::collection::vec(0..64u32, 0..9)), 1..9),
        ) {
            let names: Vec<String> = (0..9).map(|name| format!("{name}")).collect();
            let group = group(&sizes, &members, &names);
            let order = id_order(&group);
            let sorted = assign_looking_at(0, &group, &order);
            prop_assert_eq!(assign(&group, &order), sorted);
        }
    }
}
