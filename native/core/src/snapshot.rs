//! A shard's state as batches: what replay of a log built, in a form that replay reads.
//!
//! For a shard that has replayed and was not [`loaded`](Shard::loaded): soft state is not written.
//! What a new shard makes of it by [`Shard::restore`] equals the first, to the offset of each record
//! and each pending transaction, so that the rest of the log does the same to both.

use crate::error::ReplayError;
use crate::group::Machine;
use crate::group::classic::state::State;
use crate::group::replay::Source;
use crate::offset::{CommittedOffset, Producers};
use crate::record::fields::{write_i16, write_i64};
use crate::record::group_metadata::GROUP_METADATA_WRITTEN_VERSION;
use crate::record::offset_commit::OFFSET_COMMIT_KEY_TYPE;
use crate::record::writer::write_record;
use crate::record::{
    Attributes, BatchHeader, DecodeError, GroupMetadataKey, OffsetCommitKey, OffsetCommitValue,
    Reader,
};
use crate::shard::Shard;

/// A chunk ends at the first group with which it is so large.
const CHUNK_BYTES: usize = 512 << 10;
const TRANSACTIONAL: i16 = 1 << 4;
const CONTROL: i16 = 1 << 5;
const NO_PRODUCER: i64 = -1;
/// Record offsets of a batch lie so far above its base at most, in both directions from the first.
const HALF_SPAN: i64 = 1 << 30;

/// How far [`Shard::snapshot`] has come.
#[derive(Debug, Default)]
pub struct Cursor {
    rows: Option<std::vec::IntoIter<u32>>,
    pending: Option<std::vec::IntoIter<(i64, Vec<u32>)>>,
}

impl Shard {
    /// The next chunk of whole batches, without CRCs; to be asked until there is none. The shard
    /// must not change meanwhile.
    ///
    /// # Panics
    /// If the shard was loaded: then it has state that is in no log.
    pub fn snapshot(&self, cursor: &mut Cursor) -> Option<Vec<u8>> {
        let machine = &self.machine;
        assert!(machine.is_loading(), "a shard that serves cannot be written down");
        let mut out = Writer::default();
        let rows = cursor.rows.get_or_insert_with(|| {
            machine.write_unknown(&mut out);
            machine.registry.rows().into_iter()
        });
        for row in rows.by_ref() {
            machine.write_group(row, &mut out);
            if out.len() >= CHUNK_BYTES {
                return Some(out.finish());
            }
        }
        let pending = cursor.pending.get_or_insert_with(|| machine.open_transactions().into_iter());
        for (producer_id, groups) in pending.by_ref() {
            groups.into_iter().for_each(|row| machine.write_pending(producer_id, row, &mut out));
            if out.len() >= CHUNK_BYTES {
                return Some(out.finish());
            }
        }
        let rest = out.finish();
        (!rest.is_empty()).then_some(rest)
    }

    /// Committed and pending offsets of all groups, and the records that are only kept, behind `out`:
    /// a chunk that [`restore`](Self::restore) reads.
    pub(crate) fn write_offsets(&self, out: &mut Vec<u8>) {
        let machine = &self.machine;
        let mut writer = Writer { out: core::mem::take(out), ..Writer::default() };
        machine.write_unknown(&mut writer);
        for row in machine.registry.rows() {
            if machine.group(row).as_classic().is_none() {
                machine.write_group_to_snapshot(row, &mut writer);
            }
            machine.write_offsets_of(row, &mut writer);
        }
        for (producer_id, groups) in machine.open_transactions() {
            groups.into_iter().for_each(|row| machine.write_pending(producer_id, row, &mut writer));
        }
        *out = writer.finish();
    }

    /// Takes in a chunk of a snapshot, in order, before anything is replayed. After an error the
    /// shard is of no use.
    pub fn restore(&mut self, chunk: &[u8]) -> Result<(), ReplayError> {
        self.machine.replay(chunk, Source::Snapshot)
    }
}

impl Machine {
    /// A count that [`write_unknown`](Self::write_unknown) wrote.
    pub(crate) fn restore_count(
        &mut self,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), DecodeError> {
        let record_type = Reader::new(key).i16()?;
        let count = Reader::new(value.unwrap_or_default()).i64()?;
        self.unknown_records.insert(record_type, count as u64);
        Ok(())
    }

    /// The records first: each is counted where it is read.
    fn write_unknown(&self, out: &mut Writer) {
        self.kept_records.iter().for_each(|(key, value)| out.kept(key, value));
        for (record_type, count) in &self.unknown_records {
            let key = |key: &mut Vec<u8>| write_i16(key, *record_type);
            out.record(CONTROL, NO_PRODUCER, None, key, |value| write_i64(value, *count as i64));
        }
        for (producer_id, state) in self.offsets.producers.iter() {
            out.record(
                CONTROL,
                producer_id,
                None,
                |_| {},
                |value| Producers::encode(&state, value),
            );
        }
    }

    fn open_transactions(&self) -> Vec<(i64, Vec<u32>)> {
        let row = |group_id: &str| self.registry.find(group_id).expect("it names its groups");
        let open = self.offsets.transactions.iter();
        open.map(|(producer_id, groups)| (producer_id, groups.map(row).collect())).collect()
    }

    fn write_group(&self, row: u32, out: &mut Writer) {
        self.write_group_to_snapshot(row, out);
        self.write_offsets_of(row, out);
    }

    pub(crate) fn write_classic_group(&self, row: u32, out: &mut Writer) {
        let (group, classic) = (self.group(row), self.classic(row));
        let group_id = group.id.as_str();
        let has_offsets = group.offsets.as_deref().is_some_and(|offsets| !offsets.is_empty());
        let is_bare = classic.protocol_type.is_none()
            && classic.protocol_name.is_none()
            && classic.generation_id == 0
            && classic.state_timestamp_ms == -1
            && classic.state == State::Empty;
        // A group that nothing else names would not be there again.
        if !is_bare || !has_offsets {
            let value = self.group_value(row, &[]);
            let key = |key: &mut Vec<u8>| GroupMetadataKey { group: group_id }.encode(key);
            out.record(0, NO_PRODUCER, None, key, |to| {
                value.encode(GROUP_METADATA_WRITTEN_VERSION, to);
            });
        }
    }

    fn write_offsets_of(&self, row: u32, out: &mut Writer) {
        let group = self.group(row);
        let offsets = group.offsets.iter().flat_map(|of| of.iter(&self.offsets.topics));
        for (topic, partition, at) in offsets {
            let key = OffsetCommitKey { group: group.id.as_str(), topic, partition };
            out.commit(NO_PRODUCER, &key, &at);
        }
    }

    fn write_pending(&self, producer_id: i64, row: u32, out: &mut Writer) {
        let group = self.group(row);
        let topics = &self.offsets.topics;
        let offsets = group.offsets.iter().flat_map(|of| of.pending_of(producer_id, topics));
        for (topic, partition, at) in offsets {
            let key = OffsetCommitKey { group: group.id.as_str(), topic, partition };
            out.commit(producer_id, &key, &at);
        }
    }
}

/// Records that go into one batch as long as they can.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    out: Vec<u8>,
    records: Vec<u8>,
    /// Of the open batch: what its header says. `records_count` is 0 if there is none.
    attributes: i16,
    producer_id: i64,
    base_offset: i64,
    last_offset: i64,
    records_count: i32,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Writer {
    fn len(&self) -> usize {
        self.out.len() + self.records.len()
    }

    fn commit(&mut self, producer_id: i64, key: &OffsetCommitKey<'_>, at: &CommittedOffset<'_>) {
        let value = OffsetCommitValue {
            offset: at.offset,
            leader_epoch: at.leader_epoch,
            metadata: at.metadata,
            commit_timestamp: at.commit_timestamp,
            expire_timestamp: at.expire_timestamp.unwrap_or(-1),
            topic_id: at.topic_id,
        };
        let attributes = if producer_id >= 0 { TRANSACTIONAL } else { 0 };
        let encode_key = |to: &mut Vec<u8>| key.encode(OFFSET_COMMIT_KEY_TYPE, to);
        self.record(attributes, producer_id, Some(at.record_offset), encode_key, |to| {
            value.encode(value.written_version(), to);
        });
    }

    /// A record that is kept as it is.
    pub(crate) fn kept(&mut self, key: &[u8], value: &[u8]) {
        let (key, value) = (|to: &mut Vec<u8>| to.extend(key), |to: &mut Vec<u8>| to.extend(value));
        self.record(0, NO_PRODUCER, None, key, value);
    }

    /// No `offset`: it does not matter, so it is one that fits.
    fn record(
        &mut self,
        attributes: i16,
        producer_id: i64,
        offset: Option<i64>,
        key: impl FnOnce(&mut Vec<u8>),
        value: impl FnOnce(&mut Vec<u8>),
    ) {
        let offset = offset.unwrap_or(self.base_offset);
        let fits = (self.base_offset..=self.base_offset + 2 * HALF_SPAN - 1).contains(&offset);
        let is_same = (attributes, producer_id) == (self.attributes, self.producer_id);
        if self.records_count == 0 || !fits || !is_same {
            self.close_batch();
            (self.attributes, self.producer_id) = (attributes, producer_id);
            self.base_offset = (offset - HALF_SPAN).max(0);
            self.last_offset = offset;
        }
        self.last_offset = self.last_offset.max(offset);
        self.key.clear();
        self.value.clear();
        key(&mut self.key);
        value(&mut self.value);
        let delta = i32::try_from(offset - self.base_offset).expect("it fits the batch");
        write_record(&mut self.records, 0, delta, &self.key, Some(&self.value));
        self.records_count += 1;
    }

    fn close_batch(&mut self) {
        if self.records_count == 0 {
            return;
        }
        let header = BatchHeader {
            base_offset: self.base_offset,
            partition_leader_epoch: -1,
            crc: 0,
            attributes: Attributes(self.attributes),
            last_offset_delta: i32::try_from(self.last_offset - self.base_offset)
                .expect("it fits the batch"),
            base_timestamp: 0,
            max_timestamp: 0,
            producer_id: self.producer_id,
            producer_epoch: -1,
            base_sequence: -1,
            records_count: self.records_count,
        };
        header.encode(&self.records, &mut self.out);
        self.records.clear();
        self.records_count = 0;
    }

    fn finish(mut self) -> Vec<u8> {
        self.close_batch();
        self.out
    }
}
