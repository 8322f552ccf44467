//! The only writers of a group's offsets: what a record does, live and in replay
//! (log-format section 8.2).

use super::OffsetTables;
use super::entries::{Entry, Place, key};
use super::pending::{Extra, PendingOffset};
use super::store::GroupOffsets;
use super::topic_table::TopicIndex;
use crate::outbox::Outbox;
use crate::record::fields::write_i32;
use crate::record::offset_commit::{OFFSET_COMMIT_KEY_TYPE, OffsetCommitKey};
use crate::record::{BatchKind, OffsetCommitValue, TransactionResult};
use crate::utf8::utf8;

/// One group's offsets, beside what all groups of the shard share.
#[derive(Debug)]
pub struct GroupScope<'a> {
    /// The group.
    pub group_id: &'a str,
    /// Its offsets.
    pub offsets: &'a mut GroupOffsets,
    /// What the offsets of all groups share.
    pub tables: &'a mut OffsetTables,
}

/// Where a commit was stored. The next record is likely to be of the next partition.
#[derive(Clone, Copy, Debug)]
pub struct Stored {
    topic: TopicIndex,
    place: Place,
}

impl GroupScope<'_> {
    /// Applies a commit outside of transactions as `apply` does, the topic given as bytes. Its name
    /// is checked only where it is new. `None`: it is not UTF-8.
    #[inline]
    pub fn apply_bytes(
        &mut self,
        topic: &[u8],
        partition: i32,
        value: &OffsetCommitValue<'_>,
        record_offset: i64,
    ) -> Option<Stored> {
        let found = self.tables.topics.find_bytes(topic);
        let name = if found.is_some() { "" } else { utf8(topic)? };
        let place = found.map(|topic| self.offsets.entries.locate(key(topic, partition)));
        Some(self.store(found, place, name, partition, value, record_offset))
    }

    /// The same for the record after one that was stored in this group, of the same topic, with
    /// nothing applied between them.
    #[inline]
    pub fn apply_next(
        &mut self,
        before: Stored,
        partition: i32,
        value: &OffsetCommitValue<'_>,
        record_offset: i64,
    ) -> Stored {
        let Stored { topic, place } = before;
        let place = self.offsets.entries.locate_behind(place, key(topic, partition));
        self.store(Some(topic), Some(place), "", partition, value, record_offset)
    }

    /// Applies an OFFSET_COMMIT record; no value is a tombstone. `producer_id` is the batch's: with
    /// one, the offset waits for the end of its transaction.
    #[inline]
    pub fn apply(
        &mut self,
        topic: &str,
        partition: i32,
        value: Option<&OffsetCommitValue<'_>>,
        record_offset: i64,
        producer_id: Option<i64>,
    ) {
        match (value, producer_id) {
            (Some(value), None) => self.apply_committed(topic, partition, value, record_offset),
            (Some(value), Some(producer_id)) => {
                self.apply_pending(topic, partition, value, record_offset, producer_id);
            }
            (None, _) => {
                if let Some(topic) = self.tables.topics.find(topic) {
                    self.apply_tombstone(topic, partition);
                }
            }
        }
    }

    /// Applies an end marker to this group: what is newer than the committed offset replaces it,
    /// or everything pending is dropped. The caller has taken the group out of the open ones.
    pub fn apply_marker(&mut self, producer_id: i64, result: TransactionResult) {
        let Some(side) = &mut self.offsets.side else { return };
        let pending: Vec<_> = side.pending.remove_producer(producer_id).collect();
        for PendingOffset { entry, extra } in pending {
            let place = self.offsets.entries.locate(entry.key());
            let newer = match place {
                Ok(place) => entry.record_offset > self.offsets.entries.entry(place).record_offset,
                Err(_) => true,
            };
            if result == TransactionResult::Abort || !newer {
                self.tables.topics.release(entry.topic, entry.topic_id);
                continue;
            }
            self.tables.topics.raise(entry.topic, entry.partition, entry.offset);
            match place {
                Ok(place) => {
                    let old = core::mem::replace(self.offsets.entries.entry_mut(place), entry);
                    self.tables.topics.release(old.topic, old.topic_id);
                }
                Err(place) => {
                    self.offsets.entries.insert(place, entry);
                    self.tables.committed_count += 1;
                }
            }
            self.offsets.set_extra(entry.key(), extra);
        }
        self.offsets.drop_empty_side();
    }

    /// Emits and applies a tombstone for a partition that has something to remove.
    pub(super) fn emit_tombstone(
        &mut self,
        topic: TopicIndex,
        partition: i32,
        now_ms: i64,
        outbox: &mut Outbox,
    ) {
        let OffsetTables { topics, key, .. } = &mut *self.tables;
        key.clear();
        let record = OffsetCommitKey { group: self.group_id, topic: topics.name(topic), partition };
        record.encode(OFFSET_COMMIT_KEY_TYPE, key);
        outbox.emit(now_ms, key, None);
        self.apply_tombstone(topic, partition);
    }

    /// Emits and applies commits of one topic, in order.
    #[inline(always)]
    pub(super) fn emit_commits<'v>(
        &mut self,
        topic: &str,
        values: impl Iterator<Item = (i32, OffsetCommitValue<'v>)>,
        kind: BatchKind,
        now_ms: i64,
        outbox: &mut Outbox,
    ) {
        let mut key = core::mem::take(&mut self.tables.key);
        let mut encoded = core::mem::take(&mut self.tables.value);
        key.clear();
        OffsetCommitKey { group: self.group_id, topic, partition: 0 }
            .encode(OFFSET_COMMIT_KEY_TYPE, &mut key);
        for (partition, value) in values {
            key.truncate(key.len() - size_of::<i32>());
            write_i32(&mut key, partition);
            encoded.clear();
            value.encode(value.written_version(), &mut encoded);
            let record_offset = outbox.emit_as(kind, now_ms, &key, Some(&encoded));
            let value = value.as_read_back();
            match kind {
                BatchKind::Transactional(producer) => {
                    self.apply_pending(topic, partition, &value, record_offset, producer.id);
                }
                _ => self.apply_committed(topic, partition, &value, record_offset),
            }
        }
        self.tables.key = key;
        self.tables.value = encoded;
    }

    #[inline]
    fn apply_committed(
        &mut self,
        name: &str,
        partition: i32,
        value: &OffsetCommitValue<'_>,
        record_offset: i64,
    ) {
        let found = self.tables.topics.find(name);
        let place = found.map(|topic| self.offsets.entries.locate(key(topic, partition)));
        self.store(found, place, name, partition, value, record_offset);
    }

    /// `name` is needed where the topic is new, `place` is what `locate` said where it is not.
    // As of `OffsetCommitValue::parse`: what a call returned would be waited for.
    #[inline(always)]
    fn store(
        &mut self,
        found: Option<TopicIndex>,
        place: Option<Result<Place, Place>>,
        name: &str,
        partition: i32,
        value: &OffsetCommitValue<'_>,
        record_offset: i64,
    ) -> Stored {
        let topics = &mut self.tables.topics;
        let entries = &mut self.offsets.entries;
        let (key, stored) = if let Some(Ok(place)) = place {
            let entry = entries.entry_mut(place);
            if topics.topic_id(entry.topic, entry.topic_id) != value.topic_id {
                let old = entry.topic_id;
                entry.topic_id = topics.acquire_id(entry.topic, value.topic_id);
                topics.release(entry.topic, old);
            }
            entry.offset = value.offset;
            entry.commit_timestamp = value.commit_timestamp;
            entry.record_offset = record_offset;
            entry.leader_epoch = value.leader_epoch;
            (entry.key(), Stored { topic: entry.topic, place })
        } else {
            let (topic, topic_id) = topics.acquire(found, name, value.topic_id);
            let entry = Entry::new(value, record_offset, topic, topic_id, partition);
            let place = match place {
                Some(Err(place)) => place,
                _ => entries.locate(entry.key()).expect_err("a topic without a reference"),
            };
            entries.insert(place, entry);
            self.tables.committed_count += 1;
            (entry.key(), Stored { topic, place })
        };
        self.offsets.set_extra(key, Extra::of(value));
        self.tables.topics.raise(stored.topic, partition, value.offset);
        stored
    }

    fn apply_pending(
        &mut self,
        name: &str,
        partition: i32,
        value: &OffsetCommitValue<'_>,
        record_offset: i64,
        producer_id: i64,
    ) {
        let topics = &mut self.tables.topics;
        let (topic, topic_id) = topics.acquire(topics.find(name), name, value.topic_id);
        let entry = Entry::new(value, record_offset, topic, topic_id, partition);
        let pending = PendingOffset { entry, extra: Extra::of(value) };
        let side = self.offsets.side.get_or_insert_default();
        if let Some(replaced) = side.pending.insert(producer_id, pending) {
            topics.release(topic, replaced.entry.topic_id);
        }
        self.tables.transactions.open(producer_id, self.group_id);
    }

    fn apply_tombstone(&mut self, topic: TopicIndex, partition: i32) {
        let key = key(topic, partition);
        let OffsetTables { topics, transactions, committed_count, .. } = &mut *self.tables;
        if let Some(side) = &mut self.offsets.side {
            let emptied = |producer_id| transactions.close_in(producer_id, self.group_id);
            for removed in side.pending.remove_partition(key, emptied) {
                topics.release(topic, removed.entry.topic_id);
            }
        }
        self.offsets.set_extra(key, None);
        if let Ok(place) = self.offsets.entries.locate(key) {
            let entry = self.offsets.entries.remove(place);
            topics.release(topic, entry.topic_id);
            *committed_count -= 1;
        }
    }
}

impl Entry {
    fn new(
        value: &OffsetCommitValue<'_>,
        record_offset: i64,
        topic: TopicIndex,
        topic_id: u32,
        partition: i32,
    ) -> Entry {
        Entry {
            offset: value.offset,
            commit_timestamp: value.commit_timestamp,
            record_offset,
            leader_epoch: value.leader_epoch,
            partition,
            topic,
            topic_id,
        }
    }
}

impl Extra {
    /// `None` for the usual: no metadata, no explicit expiry.
    #[inline]
    fn of(value: &OffsetCommitValue<'_>) -> Option<Extra> {
        (!value.metadata.is_empty() || value.expire_timestamp != -1).then(|| Extra {
            metadata: value.metadata.into(),
            expire_timestamp: value.expire_timestamp,
        })
    }
}
