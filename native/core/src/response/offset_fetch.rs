//! OffsetFetch's answer. All of it lies in one allocation: one for each name and each list cost
//! more than finding what is committed.
//!
//! The bytes are, for each topic, its head, its name and its partitions, each of them a row and its
//! metadata; behind all of them the group id and the tail. They are neither stored nor sent so.
//!
//! An answer is its bytes and nothing else, so that it goes from hand to hand in registers. A
//! larger one would be copied in other pieces than those in which it was just written, and each of
//! those waits until older stores are done: the processor cannot forward what was stored in parts.

mod steps;

use core::fmt;

use crate::error::ErrorCode;
use crate::request::Uuid;
use crate::utf8::utf8;

pub use steps::{OffsetFetchPlace, OffsetFetchStep};

/// What stands behind the group id: its length in bytes, the number of topics, the error.
const TAIL_BYTES: usize = 10;
/// What stands before a topic's name: its id, the length of the name and of the partitions in
/// bytes, the number of partitions.
const HEAD_BYTES: usize = 28;
/// What stands before a partition's metadata: the offset, the partition's index, the leader epoch,
/// the error, the length of the metadata in bytes.
const ROW_BYTES: usize = 22;

/// No frame holds more.
const MAX_BYTES: usize = i32::MAX as usize;

/// What is committed in a group (offsets section 4; Kafka's `OffsetFetchResponseGroup`).
#[derive(Clone, PartialEq)]
pub struct OffsetFetchResponse {
    bytes: Box<[u8]>,
}

/// An answer that is being made.
pub struct OffsetFetchResponseBuilder<'a> {
    /// The group's; partitions have their own.
    pub error_code: ErrorCode,
    is_too_large: bool,
    topic_count: u32,
    max_bytes: u32,
    group_id: &'a str,
    bytes: Vec<u8>,
}

/// One topic of an answer.
pub struct OffsetFetchResponseTopic<'a> {
    name: &'a [u8],
    /// Zero where topics go by name, and where all were asked for.
    pub topic_id: Uuid,
    /// Partitions of the topic.
    pub partitions: OffsetFetchResponsePartitions<'a>,
}

/// One partition of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetFetchResponsePartition<'a> {
    /// The partition.
    pub partition_index: i32,
    /// -1: none.
    pub committed_offset: i64,
    /// -1: none.
    pub committed_leader_epoch: i32,
    /// Empty: none.
    pub metadata: &'a str,
    /// `None` where all went well.
    pub error_code: ErrorCode,
}

impl OffsetFetchResponsePartition<'_> {
    /// Nothing is committed, or the answer does not show it.
    pub fn absent(partition_index: i32, error_code: ErrorCode) -> Self {
        OffsetFetchResponsePartition {
            partition_index,
            committed_offset: -1,
            committed_leader_epoch: -1,
            metadata: "",
            error_code,
        }
    }
}

/// The partitions of a topic, in the order in which they were asked for.
#[derive(Clone)]
pub struct OffsetFetchResponsePartitions<'a> {
    count: u32,
    bytes: &'a [u8],
}

impl<'a> OffsetFetchResponseBuilder<'a> {
    /// An answer without topics.
    pub fn new(group_id: &'a str, error_code: ErrorCode) -> Self {
        OffsetFetchResponseBuilder::with_room(group_id, error_code, 0)
    }

    /// The same, with memory for topics of so many bytes: of [`topic_bytes`](Self::topic_bytes)
    /// each.
    #[inline(always)]
    pub fn with_room(group_id: &'a str, error_code: ErrorCode, topics_bytes: usize) -> Self {
        OffsetFetchResponseBuilder {
            error_code,
            is_too_large: false,
            topic_count: 0,
            max_bytes: MAX_BYTES as u32,
            group_id,
            bytes: Vec::with_capacity(topics_bytes + group_id.len() + TAIL_BYTES),
        }
    }

    /// A bound on the bytes of all topics, since a peer may name a partition with metadata any
    /// number of times. Beyond it the answer [`is_too_large`](Self::is_too_large).
    #[inline(always)]
    pub fn bounded(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes.min(MAX_BYTES) as u32;
        self
    }

    /// There was more than fits: what is left is the group's error.
    pub fn is_too_large(&self) -> bool {
        self.is_too_large
    }

    /// Bytes that a topic takes whose partitions have no metadata.
    pub fn topic_bytes(name: &str, partition_count: usize) -> usize {
        HEAD_BYTES + name.len() + partition_count * ROW_BYTES
    }

    /// Puts a topic behind the others. An answer beyond its bound, which is 2 GiB at most, becomes
    /// that of an UNKNOWN_SERVER_ERROR, and takes no topics from then on.
    #[inline]
    pub fn push_topic<'p>(
        &mut self,
        name: &str,
        topic_id: Uuid,
        partitions: impl Iterator<Item = OffsetFetchResponsePartition<'p>>,
    ) {
        self.push_topic_below(self.max_bytes as usize, name, topic_id, partitions);
    }

    /// The same, of partitions that are [`absent`](OffsetFetchResponsePartition::absent).
    pub fn push_absent(
        &mut self,
        name: &str,
        topic_id: Uuid,
        partition_indexes: &[i32],
        error_code: ErrorCode,
    ) {
        let absent = |&at: &i32| OffsetFetchResponsePartition::absent(at, error_code);
        self.push_topic(name, topic_id, partition_indexes.iter().map(absent));
    }

    #[inline]
    fn push_topic_below<'p>(
        &mut self,
        max_bytes: usize,
        name: &str,
        topic_id: Uuid,
        partitions: impl Iterator<Item = OffsetFetchResponsePartition<'p>>,
    ) {
        if self.is_too_large {
            return;
        }
        let head_at = self.bytes.len();
        self.bytes.extend_from_slice(&[0; HEAD_BYTES]);
        self.bytes.extend_from_slice(name.as_bytes());
        let partitions_at = self.bytes.len();
        let mut count = 0u32;
        for partition in partitions {
            self.push(&partition);
            count += 1;
            // Without metadata, what is asked for is not much smaller than its answer.
            if !partition.metadata.is_empty() && self.bytes.len() > max_bytes {
                return self.give_up();
            }
        }
        if self.bytes.len() > max_bytes {
            return self.give_up();
        }
        let partitions_length = length(self.bytes.len() - partitions_at);
        let head = &mut self.bytes[head_at..head_at + HEAD_BYTES];
        head[..16].copy_from_slice(&topic_id.0.to_le_bytes());
        head[16..20].copy_from_slice(&length(name.len()).to_le_bytes());
        head[20..24].copy_from_slice(&partitions_length.to_le_bytes());
        head[24..].copy_from_slice(&count.to_le_bytes());
        self.topic_count += 1;
    }

    #[inline]
    fn push(&mut self, partition: &OffsetFetchResponsePartition<'_>) {
        let metadata = partition.metadata.as_bytes();
        let mut row = [0; ROW_BYTES];
        row[..8].copy_from_slice(&partition.committed_offset.to_le_bytes());
        row[8..12].copy_from_slice(&partition.partition_index.to_le_bytes());
        row[12..16].copy_from_slice(&partition.committed_leader_epoch.to_le_bytes());
        row[16..18].copy_from_slice(&partition.error_code.code().to_le_bytes());
        row[18..].copy_from_slice(&length(metadata.len()).to_le_bytes());
        self.bytes.extend_from_slice(&row);
        if !metadata.is_empty() {
            self.bytes.extend_from_slice(metadata);
        }
    }

    /// What is left is the group's error.
    #[cold]
    fn give_up(&mut self) {
        self.error_code = ErrorCode::UnknownServerError;
        self.is_too_large = true;
        self.topic_count = 0;
        self.bytes = Vec::new();
    }

    /// The answer. The builder, which stays where it is for the same reason, is of no further use.
    #[inline(always)]
    pub fn finish(&mut self) -> OffsetFetchResponse {
        let mut tail = [0; TAIL_BYTES];
        tail[..4].copy_from_slice(&length(self.group_id.len()).to_le_bytes());
        tail[4..8].copy_from_slice(&core::mem::take(&mut self.topic_count).to_le_bytes());
        tail[8..].copy_from_slice(&self.error_code.code().to_le_bytes());
        self.bytes.extend_from_slice(self.group_id.as_bytes());
        self.bytes.extend_from_slice(&tail);
        OffsetFetchResponse { bytes: core::mem::take(&mut self.bytes).into_boxed_slice() }
    }
}

impl OffsetFetchResponse {
    /// An answer without topics.
    pub fn new(group_id: &str, error_code: ErrorCode) -> Self {
        OffsetFetchResponseBuilder::new(group_id, error_code).finish()
    }

    /// The group's; partitions have their own.
    #[inline]
    pub fn error_code(&self) -> ErrorCode {
        error_of(i16::from_le_bytes(part(self.tail(), 8)))
    }

    /// Whether the group's error is one, without a look at which.
    #[inline]
    pub fn has_error(&self) -> bool {
        self.tail()[8..] != [0; 2]
    }

    /// The group.
    pub fn group_id(&self) -> &str {
        text(&self.bytes[self.topics_length()..self.bytes.len() - TAIL_BYTES])
    }

    /// The number of topics.
    pub fn topic_count(&self) -> usize {
        u32::from_le_bytes(part(self.tail(), 4)) as usize
    }

    /// Topics as they were asked for; by name where all were; those of unknown ids last (v10).
    #[inline]
    pub fn topics(&self) -> impl Iterator<Item = OffsetFetchResponseTopic<'_>> {
        let mut rest = &self.bytes[..self.topics_length()];
        core::iter::from_fn(move || {
            let (topic, behind) = first_topic(rest)?;
            rest = behind;
            Some(topic)
        })
    }

    /// The same with another error, and with each partition as `change` makes it.
    pub fn map_partitions(
        &self,
        error_code: ErrorCode,
        change: impl for<'p> Fn(OffsetFetchResponsePartition<'p>) -> OffsetFetchResponsePartition<'p>,
    ) -> Self {
        let room = self.topics_length();
        let mut changed = OffsetFetchResponseBuilder::with_room(self.group_id(), error_code, room);
        for topic in self.topics() {
            changed.push_topic(topic.name(), topic.topic_id, topic.partitions.map(&change));
        }
        changed.finish()
    }

    /// Bytes of all topics.
    #[inline]
    pub fn topics_length(&self) -> usize {
        let group_id_length = u32::from_le_bytes(part(self.tail(), 0)) as usize;
        self.bytes.len() - TAIL_BYTES - group_id_length
    }

    #[inline]
    fn tail(&self) -> &[u8; TAIL_BYTES] {
        self.bytes.last_chunk().expect("the last thing that is made")
    }
}

impl<'a> OffsetFetchResponseTopic<'a> {
    /// Empty where an id has no name (v10).
    pub fn name(&self) -> &'a str {
        text(self.name)
    }
}

impl fmt::Debug for OffsetFetchResponseTopic<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OffsetFetchResponseTopic")
            .field("name", &self.name())
            .field("topic_id", &self.topic_id)
            .field("partitions", &self.partitions)
            .finish()
    }
}

impl<'a> Iterator for OffsetFetchResponsePartitions<'a> {
    type Item = OffsetFetchResponsePartition<'a>;

    #[inline(always)]
    fn next(&mut self) -> Option<OffsetFetchResponsePartition<'a>> {
        let (row, behind) = self.bytes.split_first_chunk::<ROW_BYTES>()?;
        let code = i16::from_le_bytes(part(row, 16));
        let (metadata, behind) = behind.split_at(u32::from_le_bytes(part(row, 18)) as usize);
        self.bytes = behind;
        self.count -= 1;
        Some(OffsetFetchResponsePartition {
            partition_index: i32::from_le_bytes(part(row, 8)),
            committed_offset: i64::from_le_bytes(part(row, 0)),
            committed_leader_epoch: i32::from_le_bytes(part(row, 12)),
            metadata: if metadata.is_empty() { "" } else { text(metadata) },
            error_code: if code == 0 { ErrorCode::None } else { error_of(code) },
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.count as usize, Some(self.count as usize))
    }
}

impl ExactSizeIterator for OffsetFetchResponsePartitions<'_> {}

impl fmt::Debug for OffsetFetchResponsePartitions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.clone()).finish()
    }
}

impl fmt::Debug for OffsetFetchResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OffsetFetchResponse")
            .field("group_id", &self.group_id())
            .field("error_code", &self.error_code())
            .field("topics", &self.topics().collect::<Vec<_>>())
            .finish()
    }
}

/// The topic with which these bytes begin, and those behind it.
#[inline]
fn first_topic(bytes: &[u8]) -> Option<(OffsetFetchResponseTopic<'_>, &[u8])> {
    let (head, behind) = bytes.split_first_chunk::<HEAD_BYTES>()?;
    let topic_id = Uuid(u128::from_le_bytes(part(head, 0)));
    let length_at = |at| u32::from_le_bytes(part(head, at)) as usize;
    let (name, behind) = behind.split_at(length_at(16));
    let (bytes, behind) = behind.split_at(length_at(20));
    let count = u32::from_le_bytes(part(head, 24));
    let partitions = OffsetFetchResponsePartitions { count, bytes };
    Some((OffsetFetchResponseTopic { name, topic_id, partitions }, behind))
}

#[inline]
fn error_of(code: i16) -> ErrorCode {
    ErrorCode::from_code(code).expect("made from an error code")
}

/// Of what lies in an answer.
fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("an answer, and any string, is below 4 GiB")
}

#[inline]
fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    *bytes[at..].first_chunk().expect("the field lies in the bytes")
}

#[inline]
fn text(bytes: &[u8]) -> &str {
    utf8(bytes).expect("made from a string")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partition(partition_index: i32, metadata: &str) -> OffsetFetchResponsePartition<'_> {
        OffsetFetchResponsePartition {
            partition_index,
            committed_offset: i64::MAX ^ i64::from(partition_index),
            committed_leader_epoch: 7,
            metadata,
            error_code: ErrorCode::UnstableOffsetCommit,
        }
    }

    #[test]
    fn what_goes_in_comes_out() {
        let mut builder = OffsetFetchResponseBuilder::new("группа", ErrorCode::NotCoordinator);
        let orders = [partition(3, "m"), partition(i32::MIN, ""), partition(0, "消费组")];
        let all = [
            ("orders", Uuid(9), &orders[..]),
            ("", Uuid(u128::MAX), &[]),
            ("t", Uuid(0), &orders[1..]),
        ];
        for (name, topic_id, partitions) in all {
            builder.push_topic(name, topic_id, partitions.iter().copied());
        }
        let answer = builder.finish();
        assert_eq!((answer.group_id(), answer.error_code()), ("группа", ErrorCode::NotCoordinator));
        assert!(answer.has_error());
        assert_eq!((answer.topics().count(), answer.topic_count()), (all.len(), all.len()));
        for (topic, (name, topic_id, partitions)) in answer.topics().zip(all) {
            assert_eq!((topic.name(), topic.topic_id), (name, topic_id));
            assert_eq!(topic.partitions.len(), partitions.len());
            assert!(topic.partitions.eq(partitions.iter().copied()), "{answer:?}");
        }
        assert_eq!(builder.finish(), OffsetFetchResponse::new("группа", ErrorCode::NotCoordinator));
    }

    #[test]
    fn the_room_is_that_of_partitions_without_metadata() {
        let room = OffsetFetchResponseBuilder::topic_bytes("orders", 2);
        let mut builder = OffsetFetchResponseBuilder::with_room("g", ErrorCode::None, room);
        let capacity = builder.bytes.capacity();
        builder.push_topic("orders", Uuid::ZERO, [partition(0, ""), partition(1, "")].into_iter());
        assert_eq!(builder.bytes.len(), room);
        assert_eq!(builder.finish().bytes.len(), capacity);
    }

    #[test]
    fn what_fits_no_frame_becomes_an_error() {
        let mut builder = OffsetFetchResponseBuilder::new("g", ErrorCode::None);
        let ten = || (0..10).map(|at| partition(at, "metadata"));
        let room = OffsetFetchResponseBuilder::topic_bytes("t", 10) + 10 * "metadata".len();
        builder.push_topic_below(room, "t", Uuid(1), ten());
        assert_eq!((builder.topic_count, builder.error_code), (1, ErrorCode::None));
        assert!(!OffsetFetchResponse::new("g", ErrorCode::None).has_error());
        builder.push_topic_below(room + 1_000, "u", Uuid(2), ten().cycle());
        assert_eq!(builder.bytes.capacity(), 0);
        builder.push_topic("v", Uuid(3), ten());
        let refused = OffsetFetchResponse::new("g", ErrorCode::UnknownServerError);
        assert_eq!(builder.finish(), refused);
        assert_eq!((refused.group_id(), refused.topic_count()), ("g", 0));
        assert!(refused.topics().next().is_none());
    }

    #[test]
    fn nothing_is_minus_one() {
        let nothing = OffsetFetchResponsePartition {
            partition_index: 7,
            committed_offset: -1,
            committed_leader_epoch: -1,
            metadata: "",
            error_code: ErrorCode::UnknownTopicId,
        };
        let mut builder = OffsetFetchResponseBuilder::new("g", ErrorCode::None);
        builder.push_absent("t", Uuid(1), &[7, 7], ErrorCode::UnknownTopicId);
        assert!(builder.finish().topics().next().unwrap().partitions.eq([nothing, nothing]));
    }

    #[test]
    fn partitions_and_the_error_are_changed_and_all_else_stays() {
        let answer = |error_code, indexes: [i32; 2]| {
            let mut builder = OffsetFetchResponseBuilder::new("g", error_code);
            for (name, topic_id) in [("t", Uuid(1)), ("u", Uuid(2))] {
                let [one, other] = indexes;
                let partitions = [partition(one, "m"), partition(other, "")];
                builder.push_topic(name, topic_id, partitions.into_iter());
            }
            builder.finish()
        };
        let moved = answer(ErrorCode::None, [0, 1])
            .map_partitions(ErrorCode::NotCoordinator, |of| {
                partition(of.partition_index + 10, of.metadata)
            });
        assert_eq!(moved, answer(ErrorCode::NotCoordinator, [10, 11]));
    }
}
