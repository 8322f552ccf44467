//! `RoundRobinAssignor`: partitions in the order of the topics' names, one after another to the
//! members in a ring, skipping those who do not subscribe (assignors section 4). It knows
//! neither racks nor earlier assignments.
//!
//! Only subscribers of the topic at hand are looked at, so the cost is that of the partitions and
//! subscriptions together.

use super::group::{Assignment, Group};
use super::order::{Subscribers, hash_order, member_order, ranks};

/// Assigns all partitions of `group`.
pub fn assign(group: &Group<'_>) -> Assignment {
    let ring = member_order(group, hash_order(group));
    let places = ranks(&ring);
    let subscribers = Subscribers::new(group, &ring);
    let mut owners = Vec::with_capacity(group.partition_count());
    // The place in the ring that is asked next.
    let mut pointer = 0;
    for topic in 0..group.topic_count() as u32 {
        if group.size_of(topic) == 0 {
            continue;
        }
        let members = subscribers.of(topic);
        let mut next = members.partition_point(|&member| places[member as usize] < pointer);
        for _ in group.partitions_of(topic) {
            if next == members.len() {
                next = 0;
            }
            owners.push(members[next]);
            pointer = places[members[next] as usize] + 1;
            next += 1;
        }
    }
    let order = owners.iter().zip(0..).map(|(&owner, partition)| (owner, partition));
    Assignment::collect(ring.len(), order)
}
