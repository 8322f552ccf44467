//! Orders of members, and who subscribes to a topic.

use super::group::Group;
use crate::java_hash::java_hash;
use crate::java_order;

/// Members as a Java `HashMap` iterates them that was filled in the order of JoinGroup's answer.
pub fn hash_order(group: &Group<'_>) -> Vec<u32> {
    let hashes: Vec<u32> = group.members().iter().map(|member| java_hash(member.id)).collect();
    java_order::map_order(&hashes)
}

/// Static members by instance id, then the others by member id
/// (`AbstractPartitionAssignor.MemberInfo.compareTo`); equal ones stay in `order`.
pub fn member_order(group: &Group<'_>, mut order: Vec<u32>) -> Vec<u32> {
    let members = group.members();
    order.sort_by(|&left, &right| {
        let (left, right) = (&members[left as usize], &members[right as usize]);
        match (left.instance_id, right.instance_id) {
            (Some(left), Some(right)) => java_order::compare(left, right),
            (Some(_), None) => core::cmp::Ordering::Less,
            (None, Some(_)) => core::cmp::Ordering::Greater,
            (None, None) => java_order::compare(left.id, right.id),
        }
    });
    order
}

/// Members by member id alone.
pub fn id_order(group: &Group<'_>) -> Vec<u32> {
    let members = group.members();
    let mut order: Vec<u32> = (0..members.len() as u32).collect();
    order.sort_unstable_by(|&left, &right| {
        java_order::compare(members[left as usize].id, members[right as usize].id)
    });
    order
}

/// Per member its place in `order`.
pub fn ranks(order: &[u32]) -> Vec<u32> {
    let mut ranks = vec![0; order.len()];
    order.iter().enumerate().for_each(|(rank, &member)| ranks[member as usize] = rank as u32);
    ranks
}

/// Who subscribes to each topic, each member once, in a given order.
#[derive(Debug)]
pub struct Subscribers {
    /// Empty: all members subscribe to every topic that has partitions.
    starts: Vec<u32>,
    members: Vec<u32>,
}

impl Subscribers {
    pub fn new(group: &Group<'_>, order: &[u32]) -> Self {
        if is_homogeneous(group) {
            return Subscribers { starts: Vec::new(), members: order.to_vec() };
        }
        let mut starts = vec![0u32; group.topic_count() + 2];
        for &member in order {
            for &topic in &group.subscription_of(member).topics {
                starts[topic as usize + 2] += 1;
            }
        }
        for topic in 0..=group.topic_count() {
            starts[topic + 1] += starts[topic];
        }
        let mut members = vec![0; starts[group.topic_count() + 1] as usize];
        for &member in order {
            for &topic in &group.subscription_of(member).topics {
                let end = &mut starts[topic as usize + 1];
                members[*end as usize] = member;
                *end += 1;
            }
        }
        Subscribers { starts, members }
    }

    pub fn of(&self, topic: u32) -> &[u32] {
        if self.starts.is_empty() {
            return &self.members;
        }
        let (start, end) = (self.starts[topic as usize], self.starts[topic as usize + 1]);
        &self.members[start as usize..end as usize]
    }
}

/// Whether all members subscribe to the same topics, of those that have partitions.
pub fn is_homogeneous(group: &Group<'_>) -> bool {
    group.subscriptions.windows(2).all(|pair| pair[0].topics == pair[1].topics)
}
