//! The offsets of one group: at most 48 bytes each where there is no metadata, and one or two
//! allocations for a small group. It changes through [`super::GroupScope`] only.

use std::collections::BTreeMap;

use super::entries::{Entries, Entry, Key, key};
use super::pending::{Extra, Pending, PendingOffset};
use super::topic_table::{TopicIndex, TopicTable};
use crate::request::Uuid;

/// A committed offset, as seen by a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommittedOffset<'a> {
    /// The committed offset.
    pub offset: i64,
    /// -1: none.
    pub leader_epoch: i32,
    /// The client's text beside the offset.
    pub metadata: &'a str,
    /// Milliseconds.
    pub commit_timestamp: i64,
    /// Milliseconds; absent where the coordinator's own retention holds.
    pub expire_timestamp: Option<i64>,
    /// Offset of its record in the log.
    pub record_offset: i64,
    /// Zero: any topic of that name.
    pub topic_id: Uuid,
}

/// The committed offsets of a group, by topic and partition.
#[derive(Debug, Default)]
pub struct GroupOffsets {
    pub(super) entries: Entries,
    pub(super) side: Option<Box<Side>>,
}

/// What most groups do not have. Absent rather than empty.
#[derive(Debug, Default)]
pub(super) struct Side {
    /// The group is being deleted, some of its offsets at a time.
    pub is_going: bool,
    pub extras: BTreeMap<Key, Extra>,
    pub pending: Pending,
}

impl GroupOffsets {
    /// Number of committed offsets.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Prefetches what applying a commit will read.
    #[inline]
    pub(crate) fn prefetch(&self, topic: TopicIndex, partition: i32) -> bool {
        self.entries.prefetch(key(topic, partition))
    }

    /// Some entry, not read yet: for a prefetch.
    #[inline]
    pub(crate) fn first(&self) -> Option<&Entry> {
        self.entries.iter().next()
    }

    /// Some key of what few entries have; finding it fetches the nodes on the way.
    #[inline]
    pub(crate) fn first_extra(&self) -> Option<&Key> {
        self.side.as_ref()?.extras.keys().next()
    }

    /// No committed offset; there may be pending ones.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// A part of them was deleted, and the rest will be: nobody is let in meanwhile.
    #[inline]
    pub fn is_going(&self) -> bool {
        self.side.as_ref().is_some_and(|side| side.is_going)
    }

    /// From now on it [`is_going`](Self::is_going).
    pub fn begin_to_go(&mut self) {
        self.side.get_or_insert_default().is_going = true;
    }

    /// A producer has a pending offset in this group.
    pub fn has_open_transactions(&self) -> bool {
        self.pending().is_some_and(|pending| !pending.is_empty())
    }

    /// A producer has a pending offset for this partition.
    pub fn has_pending(&self, topics: &TopicTable, topic: &str, partition: i32) -> bool {
        topics.find(topic).is_some_and(|topic| self.is_pending(key(topic, partition)))
    }

    /// What is committed for a partition.
    pub fn committed<'a>(
        &'a self,
        topics: &TopicTable,
        topic: &str,
        partition: i32,
    ) -> Option<CommittedOffset<'a>> {
        let entry = self.entries.run(key(topics.find(topic)?, partition)).first()?;
        Some(self.view(topics, entry))
    }

    /// All committed offsets by topic name, then partition.
    pub fn iter<'a>(
        &'a self,
        topics: &'a TopicTable,
    ) -> impl Iterator<Item = (&'a str, i32, CommittedOffset<'a>)> {
        self.topics(topics).into_iter().flat_map(move |topic| {
            let name = topics.name(topic);
            self.partitions(topics, topic).map(move |(at, committed)| (name, at, committed))
        })
    }

    /// The topics with a committed offset, by name.
    pub(super) fn topics(&self, topics: &TopicTable) -> Vec<TopicIndex> {
        let mut found: Vec<TopicIndex> = self.entries.topics().collect();
        found.sort_unstable_by(|left, right| topics.name(*left).cmp(topics.name(*right)));
        found
    }

    /// The committed offsets of a topic, by partition.
    pub(super) fn partitions<'a>(
        &'a self,
        topics: &'a TopicTable,
        topic: TopicIndex,
    ) -> impl Iterator<Item = (i32, CommittedOffset<'a>)> {
        self.entries_of(topic).map(move |entry| (entry.partition, self.view(topics, entry)))
    }

    /// The same, as they are stored.
    pub(super) fn entries_of(&self, topic: TopicIndex) -> impl Iterator<Item = &Entry> {
        self.entries.iter_from(key(topic, i32::MIN)).take_while(move |entry| entry.topic == topic)
    }

    /// `behind` is what stands behind the one that was asked for before: partitions come in order.
    #[inline]
    pub(super) fn entry_behind<'a>(
        &'a self,
        behind: &mut &'a [Entry],
        key: Key,
    ) -> Option<&'a Entry> {
        let is_next = behind.first().is_some_and(|next| next.key() == key);
        let run = if is_next { *behind } else { self.entries.run(key) };
        let (entry, rest) = run.split_first()?;
        *behind = rest;
        Some(entry)
    }

    #[inline]
    pub(super) fn metadata(&self, entry: &Entry) -> &str {
        self.extra(entry).map_or("", |extra| &extra.metadata)
    }

    /// Partitions with a pending transactional offset; one that two producers hold comes twice.
    pub fn pending_partitions(&self) -> impl Iterator<Item = (TopicIndex, i32)> {
        let entries = self.pending().into_iter().flat_map(Pending::partitions);
        entries.map(|entry| (entry.topic, entry.partition))
    }

    /// What a producer has pending here.
    pub fn pending_of<'a>(
        &'a self,
        producer_id: i64,
        topics: &'a TopicTable,
    ) -> impl Iterator<Item = (&'a str, i32, CommittedOffset<'a>)> {
        let pending = self.pending().into_iter().flat_map(move |of| of.of_producer(producer_id));
        pending.map(|PendingOffset { entry, extra }| {
            (topics.name(entry.topic), entry.partition, view(topics, entry, extra.as_ref()))
        })
    }

    pub(super) fn pending(&self) -> Option<&Pending> {
        self.side.as_ref().map(|side| &side.pending)
    }

    pub(super) fn is_pending(&self, key: Key) -> bool {
        self.pending().is_some_and(|pending| pending.contains(key))
    }

    pub(super) fn set_extra(&mut self, key: Key, extra: Option<Extra>) {
        match extra {
            Some(extra) => {
                self.side.get_or_insert_default().extras.insert(key, extra);
            }
            None => {
                if let Some(side) = &mut self.side {
                    side.extras.remove(&key);
                    self.drop_empty_side();
                }
            }
        }
    }

    pub(super) fn drop_empty_side(&mut self) {
        let empty = |side: &mut Box<Side>| {
            side.extras.is_empty() && side.pending.is_empty() && !side.is_going
        };
        self.side.take_if(empty);
    }

    #[inline(always)]
    pub(super) fn view<'a>(&'a self, topics: &TopicTable, entry: &Entry) -> CommittedOffset<'a> {
        view(topics, entry, self.extra(entry))
    }

    #[inline]
    fn extra(&self, entry: &Entry) -> Option<&Extra> {
        self.side.as_ref()?.extras.get(&entry.key())
    }
}

#[inline(always)]
fn view<'a>(topics: &TopicTable, entry: &Entry, extra: Option<&'a Extra>) -> CommittedOffset<'a> {
    CommittedOffset {
        offset: entry.offset,
        leader_epoch: entry.leader_epoch,
        metadata: extra.map_or("", |extra| &extra.metadata),
        commit_timestamp: entry.commit_timestamp,
        expire_timestamp: extra
            .map(|extra| extra.expire_timestamp)
            .filter(|timestamp| *timestamp != -1),
        record_offset: entry.record_offset,
        topic_id: topics.topic_id(entry.topic, entry.topic_id),
    }
}
