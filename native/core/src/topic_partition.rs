//! Sets of partitions, by topic id: flat slices, ascending, each partition once.
//!
//! One allocation a set, however many topics it has; topics are told apart where something is
//! encoded ([`by_topic`]).

use core::cmp::Ordering;

use crate::request::Uuid;

/// A partition of a topic with an id. 20 bytes: large groups have very many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TopicPartition {
    topic_id: [u8; 16],
    /// The partition.
    pub partition: i32,
}

const _: () = assert!(size_of::<TopicPartition>() == 20);

impl TopicPartition {
    /// Of an id and a number.
    pub fn new(topic_id: Uuid, partition: i32) -> Self {
        TopicPartition { topic_id: topic_id.0.to_be_bytes(), partition }
    }

    /// The topic.
    pub fn topic_id(&self) -> Uuid {
        Uuid(u128::from_be_bytes(self.topic_id))
    }
}

impl Ord for TopicPartition {
    fn cmp(&self, other: &Self) -> Ordering {
        // As the bytes of the id are ordered, in two words.
        let key = |of: &TopicPartition| (u128::from_be_bytes(of.topic_id), of.partition);
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for TopicPartition {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A partition that a member has, and the epoch at which it got it (KIP-1251).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AssignedPartition {
    /// The partition.
    pub at: TopicPartition,
    /// The member epoch at which it got it.
    pub epoch: i32,
}

/// Something that lies at a partition.
pub trait AtPartition: Copy {
    /// Where it lies.
    fn at(&self) -> TopicPartition;
}

impl AtPartition for TopicPartition {
    fn at(&self) -> TopicPartition {
        *self
    }
}

impl AtPartition for AssignedPartition {
    fn at(&self) -> TopicPartition {
        self.at
    }
}

/// The parts of a set, one for each topic.
pub fn by_topic<T: AtPartition>(set: &[T]) -> impl Iterator<Item = (Uuid, &[T])> {
    let parts = set.chunk_by(|left, right| left.at().topic_id == right.at().topic_id);
    parts.map(|part| (part[0].at().topic_id(), part))
}

/// Makes a set of a list in any order. Of several for one partition the first stays.
pub fn into_set<T: AtPartition>(mut list: Vec<T>) -> Vec<T> {
    if !list.is_sorted_by(|left, right| left.at() < right.at()) {
        list.sort_by_key(AtPartition::at);
        list.dedup_by_key(|item| item.at());
    }
    list
}

/// Whether a set holds the partition.
pub fn contains<T: AtPartition>(set: &[T], partition: TopicPartition) -> bool {
    find(set, partition).is_some()
}

/// A set's item at the partition.
pub fn find<T: AtPartition>(set: &[T], partition: TopicPartition) -> Option<&T> {
    set.binary_search_by_key(&partition, AtPartition::at).ok().map(|at| &set[at])
}

/// Whether a set holds each of many partitions, asked in their order: both are walked together.
pub struct Walk<'a, T> {
    rest: &'a [T],
}

impl<'a, T: AtPartition> Walk<'a, T> {
    /// From its first partition on.
    pub fn of(set: &'a [T]) -> Self {
        Walk { rest: set }
    }

    /// Whether the set holds the partition; none that is asked for later is before it.
    pub fn holds(&mut self, partition: TopicPartition) -> bool {
        while let [first, rest @ ..] = self.rest
            && first.at() < partition
        {
            self.rest = rest;
        }
        self.rest.first().is_some_and(|first| first.at() == partition)
    }
}

/// Whether both hold some partition.
pub fn intersects<T: AtPartition, U: AtPartition>(left: &[T], right: &[U]) -> bool {
    let (mut left, mut right) = (left.iter().peekable(), right.iter().peekable());
    while let (Some(l), Some(r)) = (left.peek(), right.peek()) {
        match l.at().cmp(&r.at()) {
            Ordering::Less => left.next().map(drop),
            Ordering::Greater => right.next().map(drop),
            Ordering::Equal => return true,
        };
    }
    false
}

/// Whether `part` holds nothing that `whole` does not.
pub fn is_subset<T: AtPartition, U: AtPartition>(part: &[T], whole: &[U]) -> bool {
    let mut rest = whole.iter();
    part.iter().all(|wanted| rest.by_ref().any(|item| item.at() == wanted.at()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(partitions: &[(u128, i32)]) -> Vec<TopicPartition> {
        partitions.iter().map(|&(id, number)| TopicPartition::new(Uuid(id), number)).collect()
    }

    #[test]
    fn they_sort_by_topic_id_as_a_number_and_then_by_partition() {
        let sorted = set(&[(1, 0), (1, 9), (0x100, 0), (1 << 127, 0)]);
        let mut shuffled = sorted.clone();
        shuffled.reverse();
        shuffled.push(sorted[1]);
        assert_eq!(into_set(shuffled), sorted);
        let topics: Vec<_> = by_topic(&sorted).map(|(id, part)| (id.0, part.len())).collect();
        assert_eq!(topics, [(1, 2), (0x100, 1), (1 << 127, 1)]);
        assert_eq!(sorted[3].topic_id(), Uuid(1 << 127));
    }

    #[test]
    fn sets_are_compared_by_walking_both() {
        let (some, others) = (set(&[(1, 0), (1, 2), (2, 5)]), set(&[(1, 1), (2, 5), (3, 0)]));
        assert!(intersects(&some, &others));
        assert!(!intersects(&some[..2], &others));
        assert!(is_subset(&some[2..], &others) && !is_subset(&some, &others));
        assert!(is_subset(&some[..0], &others[..0]) && !is_subset(&some, &others[..0]));
        assert!(contains(&some, others[1]) && !contains(&some, others[0]));
        let asked = set(&[(0, 9), (1, 0), (1, 0), (1, 1), (2, 5), (2, 6), (3, 0)]);
        let mut walk = Walk::of(&some);
        let held: Vec<bool> = asked.iter().map(|at| walk.holds(*at)).collect();
        assert_eq!(held, asked.iter().map(|at| contains(&some, *at)).collect::<Vec<_>>());
    }
}
