//! What an assignor works on: topics, members and their claims as dense numbers.
//!
//! Topics are numbered in the order of their names, partitions in the order of (topic, number),
//! and members as they came, so that comparing numbers is comparing names. Equal subscriptions
//! are held once. Nothing here decides anything, and a built group never changes.

use core::ops::Range;

pub use super::racks::NONE;
use super::racks::Racks;

/// A group and its topics, built by [`super::GroupBuilder`].
#[derive(Debug)]
pub struct Group<'a> {
    pub(super) names: Vec<&'a str>,
    /// Per topic its first partition, and one more: 0 partitions if the topic does not exist or
    /// has no subscriber.
    pub(super) firsts: Vec<u32>,
    pub(super) racks: Option<Racks>,
    pub(super) subscriptions: Vec<Subscription>,
    pub(super) members: Vec<Member<'a>>,
    /// Partitions that exist, or numbers above them for `phantoms`.
    pub(super) claims: Vec<u32>,
    /// Claimed partitions (topic, number) that do not exist though their topic does.
    pub(super) phantoms: Vec<(u32, i32)>,
}

/// A list of topics that one member or more subscribe to.
#[derive(Debug)]
pub struct Subscription {
    /// As given: with repetitions and topics that do not exist.
    pub listed: Vec<u32>,
    /// Ascending and distinct, those with partitions.
    pub topics: Vec<u32>,
    /// As many as `listed` has different topics.
    pub distinct: u32,
}

/// One member of the group.
#[derive(Debug)]
pub struct Member<'a> {
    /// The member id.
    pub id: &'a str,
    /// Of a static member (KIP-345).
    pub instance_id: Option<&'a str>,
    /// A number of [`Racks`], or NONE.
    pub rack: u32,
    /// Its place among the distinct subscriptions.
    pub subscription: u32,
    /// Of its subscription; -1: none.
    pub generation: i32,
    /// The generation in which it owned what it claims.
    pub claim_generation: Option<i32>,
    pub(super) claims: Range<u32>,
}

impl<'a> Group<'a> {
    /// Members in the order in which they were added.
    pub fn members(&self) -> &[Member<'a>] {
        &self.members
    }

    /// The topic's name and the number of a partition in an [`super::Assignment`].
    pub fn partition(&self, partition: u32) -> (&'a str, i32) {
        let (topic, number) = self.place(partition);
        (self.names[topic as usize], number)
    }

    /// The same with the topic's number, one of [`Group::topic_names`].
    pub fn place(&self, partition: u32) -> (u32, i32) {
        if partition >= self.partition_count() as u32 {
            return self.phantoms[partition as usize - self.partition_count()];
        }
        let topic = self.firsts.partition_point(|&first| first <= partition) - 1;
        (topic as u32, (partition - self.firsts[topic]) as i32)
    }

    /// Topics by number: those that have a subscriber or exist.
    pub fn topic_names(&self) -> &[&'a str] {
        &self.names
    }

    /// Per topic the number of its first partition, and the number of all partitions at the end.
    pub fn first_partitions(&self) -> &[u32] {
        &self.firsts
    }

    /// How many partitions there are to be assigned.
    pub fn partition_count(&self) -> usize {
        self.firsts[self.names.len()] as usize
    }

    pub(super) fn topic_count(&self) -> usize {
        self.names.len()
    }

    pub(super) fn partitions_of(&self, topic: u32) -> Range<u32> {
        self.firsts[topic as usize]..self.firsts[topic as usize + 1]
    }

    /// How many partitions a topic has.
    pub(super) fn size_of(&self, topic: u32) -> u32 {
        self.partitions_of(topic).len() as u32
    }

    /// The topic of every partition that exists.
    pub(super) fn topic_table(&self) -> Vec<u32> {
        let mut topics = Vec::with_capacity(self.partition_count());
        for topic in 0..self.topic_count() as u32 {
            topics.resize(self.firsts[topic as usize + 1] as usize, topic);
        }
        topics
    }

    pub(super) fn claims_of(&self, member: u32) -> &[u32] {
        let range = &self.members[member as usize].claims;
        &self.claims[range.start as usize..range.end as usize]
    }

    pub(super) fn subscription_of(&self, member: u32) -> &Subscription {
        &self.subscriptions[self.members[member as usize].subscription as usize]
    }

    pub(super) fn is_subscribed(&self, member: u32, topic: u32) -> bool {
        self.subscription_of(member).topics.binary_search(&topic).is_ok()
    }
}

/// Who gets what: partitions by member, each list in the order of the Java class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assignment {
    partitions: Vec<u32>,
    ends: Vec<u32>,
}

impl Assignment {
    /// From who owns each partition of `order`, which is kept inside of every list.
    pub(super) fn collect(
        members: usize,
        order: impl Iterator<Item = (u32, u32)> + Clone,
    ) -> Assignment {
        let mut ends = vec![0u32; members + 1];
        order.clone().for_each(|(member, _)| ends[member as usize + 1] += 1);
        for member in 0..members {
            ends[member + 1] += ends[member];
        }
        let mut partitions = vec![0; ends[members] as usize];
        for (member, partition) in order {
            let end = &mut ends[member as usize];
            partitions[*end as usize] = partition;
            *end += 1;
        }
        ends.truncate(members);
        Assignment { partitions, ends }
    }

    pub(super) fn from_lists(lists: &[Vec<u32>]) -> Assignment {
        let mut partitions = Vec::with_capacity(lists.iter().map(Vec::len).sum());
        let mut ends = Vec::with_capacity(lists.len());
        for list in lists {
            partitions.extend_from_slice(list);
            ends.push(partitions.len() as u32);
        }
        Assignment { partitions, ends }
    }

    /// The partitions of a member, to be read by [`Group::partition`].
    pub fn of(&self, member: usize) -> &[u32] {
        let start = if member == 0 { 0 } else { self.ends[member - 1] };
        &self.partitions[start as usize..self.ends[member] as usize]
    }

    /// How many members there are.
    pub fn member_count(&self) -> usize {
        self.ends.len()
    }

    /// Takes out what `withheld` says, and keeps the order of the rest.
    pub(super) fn retain(&mut self, mut kept: impl FnMut(u32, u32) -> bool) {
        let (mut read, mut write) = (0, 0);
        for (member, end) in self.ends.iter_mut().enumerate() {
            while read < *end as usize {
                let partition = self.partitions[read];
                if kept(member as u32, partition) {
                    self.partitions[write] = partition;
                    write += 1;
                }
                read += 1;
            }
            *end = write as u32;
        }
        self.partitions.truncate(write);
    }
}
