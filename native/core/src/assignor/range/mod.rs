//! `RangeAssignor`: per topic, contiguous blocks in the order of the members, the first members
//! one partition more (assignors section 3). It does not know earlier assignments, so
//! a member that joins or leaves moves most partitions.
//!
//! With racks (KIP-881) see `rack`. The cost is that of partitions and subscriptions together.

mod rack;

use super::group::{Assignment, Group};
use super::order::{Subscribers, hash_order, member_order};
use crate::java_hash::java_hash;
use crate::java_order;

/// Assigns all partitions of `group` as a consumer's leader does.
pub fn assign(group: &Group<'_>) -> Assignment {
    let by_hash = hash_order(group);
    let topics = topic_order(group, &by_hash);
    let members = member_order(group, by_hash);
    let subscribers = Subscribers::new(group, &members);
    if let Some(assignment) = rack::assign(group, &topics, &subscribers) {
        return assignment;
    }
    blocks(group, topics.into_iter(), &subscribers)
}

/// The server's `range` (KIP-848, assignors section 11.3): the same blocks, racks ignored, topics
/// in the order of their names.
pub fn assign_server(group: &Group<'_>) -> Assignment {
    let members = member_order(group, super::order::id_order(group));
    let subscribers = Subscribers::new(group, &members);
    let topics = 0..group.topic_count() as u32;
    blocks(group, topics.filter(|&topic| group.size_of(topic) > 0), &subscribers)
}

fn blocks(
    group: &Group<'_>,
    topics: impl Iterator<Item = u32>,
    subscribers: &Subscribers,
) -> Assignment {
    let mut given: Vec<(u32, u32)> = Vec::with_capacity(group.partition_count());
    for topic in topics {
        let members = subscribers.of(topic);
        let partitions = group.size_of(topic) as usize;
        let (quota, extra) = (partitions / members.len(), partitions % members.len());
        let mut next = group.partitions_of(topic).start;
        // The members behind the last partition get nothing and are not looked at.
        for (place, &member) in members.iter().take(partitions).enumerate() {
            let end = next + quota as u32 + u32::from(place < extra);
            given.extend((next..end).map(|partition| (member, partition)));
            next = end;
        }
    }
    Assignment::collect(group.members().len(), given.iter().copied())
}

/// Topics with partitions, in the order of `partitionsPerTopic`: a HashMap that was filled in the
/// order of a HashSet of all subscribed topics.
fn topic_order(group: &Group<'_>, by_hash: &[u32]) -> Vec<u32> {
    let mut met = vec![false; group.topic_count()];
    let mut listed = vec![false; group.subscriptions.len()];
    let mut subscribed = Vec::new();
    for &member in by_hash {
        let subscription = group.members()[member as usize].subscription as usize;
        if core::mem::replace(&mut listed[subscription], true) {
            continue;
        }
        for &topic in &group.subscriptions[subscription].listed {
            if !core::mem::replace(&mut met[topic as usize], true) {
                subscribed.push(topic);
            }
        }
    }
    let mut topics = in_map_order(group, &subscribed);
    topics.retain(|&topic| group.size_of(topic) > 0);
    in_map_order(group, &topics)
}

fn in_map_order(group: &Group<'_>, topics: &[u32]) -> Vec<u32> {
    let hashes: Vec<u32> =
        topics.iter().map(|&topic| java_hash(group.names[topic as usize])).collect();
    java_order::map_order(&hashes).into_iter().map(|at| topics[at as usize]).collect()
}
