//! `uniform` for members with different subscriptions (`UniformHeterogeneousAssignmentBuilder`,
//! assignors section 11.2): topics one by one, those with most partitions for their subscribers
//! first, and then at most 16 rounds of moves. The cost of a round is that of partitions and
//! subscriptions together.

use super::super::group::{Group, NONE};
use super::super::order::Subscribers;
use super::balancer::Balancer;
use super::current_owners;

const ROUNDS: usize = 16;

/// The owner of every partition.
pub fn assign(group: &Group<'_>, order: &[u32]) -> Vec<u32> {
    let subscribers = Subscribers::new(group, order);
    let mut builder = Builder {
        group,
        sizes: vec![0; order.len()],
        owners: current_owners(group, order),
        balancer: Balancer::default(),
        owned: vec![Vec::new(); order.len()],
    };
    builder.keep_subscribed();
    let topics = topic_order(group, &subscribers);
    for &topic in &topics {
        builder.assign_rest(topic, subscribers.of(topic));
    }
    builder.balance(&topics, &subscribers);
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
    /// Per member the partitions of the topic at hand, ascending.
    owned: Vec<Vec<u32>>,
}

impl Builder<'_> {
    fn keep_subscribed(&mut self) {
        let topics = self.group.topic_table();
        for (owner, topic) in self.owners.iter_mut().zip(topics) {
            if *owner == NONE {
                continue;
            }
            if self.group.is_subscribed(*owner, topic) {
                self.sizes[*owner as usize] += 1;
            } else {
                *owner = NONE;
            }
        }
    }

    fn assign_rest(&mut self, topic: u32, subscribers: &[u32]) {
        let mut started = false;
        for partition in self.group.partitions_of(topic) {
            if self.owners[partition as usize] != NONE {
                continue;
            }
            if !started {
                self.balancer.start(subscribers, &self.sizes);
                started = true;
            }
            let member = self.balancer.next_least_loaded();
            self.owners[partition as usize] = member;
            self.sizes[member as usize] += 1;
        }
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
