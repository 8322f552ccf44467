//! What a partition's records amount to: the last value of every key, with transactions resolved.
//! For carrying a log elsewhere; never on a request's way, and it interprets no group.
//!
//! It must agree with replay about what is left: a marker commits what is newer than the plain
//! commit, a tombstone takes the pending offsets of all producers with it (log-format section 8.2).

use std::collections::BTreeMap;

use super::batch::{Batch, Batches, Record};
use super::control::TransactionResult;
use super::key::RecordKey;
use super::offset_commit::{OFFSET_COMMIT_KEY_TYPE, OffsetCommitValue};
use super::reader::DecodeError;
use super::writer::write_record;
use crate::error::ReplayError;
use crate::request::Uuid;

/// Records of a batch end here, but for one that is larger by itself.
const FULL_RUN_BYTES: usize = 256 << 10;
/// The newest version of an OFFSET_COMMIT value without a topic id: Kafka 2.1 reads it too.
const WITHOUT_TOPIC_ID: i16 = 3;

#[derive(Clone, Debug)]
struct LiveRecord {
    /// In the log it came from.
    offset: i64,
    timestamp: i64,
    /// Producer id and epoch of a transaction that has not ended.
    producer: Option<(i64, i16)>,
    key: Box<[u8]>,
    value: Box<[u8]>,
}

/// The records area of one batch to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The partition of `__consumer_offsets` that it belongs to.
    pub partition: usize,
    /// Producer id and epoch, of a transactional batch.
    pub producer: Option<(i64, i16)>,
    /// The number of records, at least 1.
    pub record_count: i32,
    /// Of the first record, in ms since the epoch.
    pub base_timestamp: i64,
    /// The latest of its records, in ms since the epoch.
    pub max_timestamp: i64,
    /// The records area of a RecordBatch v2.
    pub records: Vec<u8>,
}

/// How the records are written down.
#[derive(Clone, Debug, Default)]
pub struct Rewriting<'a> {
    /// Whether offsets of transactions that have not ended are kept as pending; else they go.
    pub keep_open: bool,
    /// Topic ids that mean the same where the log goes. An offset of any other is written without
    /// one: it counts for any topic of that name.
    pub topic_ids: &'a [Uuid],
}

/// Fed with a partition from its start; then asked for the runs.
#[derive(Debug, Default)]
pub struct LiveRecords {
    records: BTreeMap<Box<[u8]>, LiveRecord>,
    pending: BTreeMap<i64, BTreeMap<Box<[u8]>, LiveRecord>>,
}

impl LiveRecords {
    /// Whole batches, in order, as the log has them.
    pub fn add(&mut self, chunk: &[u8]) -> Result<(), ReplayError> {
        for batch in Batches::new(chunk) {
            let batch = batch?;
            for record in batch.records() {
                let record = record?;
                let added = if batch.header.attributes.is_control() {
                    self.end_transaction(&batch, &record)
                } else {
                    self.add_record(&batch, &record)
                };
                added.map_err(|error| batch.error(record.offset, error.to_string()))?;
            }
        }
        Ok(())
    }

    /// Keys and values of all but offsets and classic groups, by key.
    pub fn uninterpreted(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let classic = |slot: &[u8]| matches!(slot, [0, 0..=2, ..]);
        self.records
            .iter()
            .filter(move |(slot, _)| !classic(slot))
            .map(|(slot, record)| (&**slot, &*record.value))
    }

    /// All that is left, in the order of the log, as batches of the partitions that `place` names
    /// by the group id; `unknown` takes what names no group.
    pub fn into_runs(
        self,
        rewriting: &Rewriting<'_>,
        unknown: usize,
        place: impl Fn(&str) -> usize,
    ) -> Result<Vec<Run>, DecodeError> {
        let mut left: Vec<LiveRecord> = self.records.into_values().collect();
        if rewriting.keep_open {
            left.extend(self.pending.into_values().flat_map(BTreeMap::into_values));
        }
        left.sort_unstable_by_key(|record| record.offset);
        let mut done = Vec::new();
        let mut open: BTreeMap<usize, Run> = BTreeMap::new();
        for mut record in left {
            let partition = match RecordKey::parse(&record.key)? {
                RecordKey::OffsetCommit(key) => {
                    rewrite_value(&mut record.value, rewriting)?;
                    place(key.group)
                }
                RecordKey::GroupMetadata(key) => place(key.group),
                RecordKey::ConsumerGroup(key) => place(key.group_id),
                RecordKey::Other(key) => place(key.group_id),
                RecordKey::Unknown { .. } => unknown,
            };
            let run = open.entry(partition).or_insert_with(|| Run::new(partition, &record));
            if run.producer != record.producer || run.records.len() >= FULL_RUN_BYTES {
                done.push(core::mem::replace(run, Run::new(partition, &record)));
            }
            run.push(&record);
        }
        done.extend(open.into_values());
        Ok(done)
    }

    fn end_transaction(
        &mut self,
        batch: &Batch<'_>,
        record: &Record<'_>,
    ) -> Result<(), DecodeError> {
        let key = record.key.ok_or(DecodeError("a control record without a key"))?;
        let Some(result) = TransactionResult::parse_key(key)? else { return Ok(()) };
        let ended = self.pending.remove(&batch.header.producer_id).unwrap_or_default();
        if result == TransactionResult::Commit {
            for (slot, pending) in ended {
                let newer = self.records.get(&slot).is_none_or(|of| of.offset < pending.offset);
                if newer {
                    self.records.insert(slot, LiveRecord { producer: None, ..pending });
                }
            }
        }
        Ok(())
    }

    fn add_record(&mut self, batch: &Batch<'_>, record: &Record<'_>) -> Result<(), DecodeError> {
        let key = record.key.ok_or(DecodeError("a record without a key"))?;
        let is_offset = matches!(RecordKey::parse(key)?, RecordKey::OffsetCommit(_));
        let mut slot: Box<[u8]> = key.into();
        if is_offset {
            // Types 0 and 1 are one slot for a reader.
            slot[..2].copy_from_slice(&OFFSET_COMMIT_KEY_TYPE.to_be_bytes());
        }
        let Some(value) = record.value else {
            self.records.remove(&slot);
            self.pending.retain(|_, offsets| {
                offsets.remove(&slot);
                !offsets.is_empty()
            });
            return Ok(());
        };
        let producer = batch.producer_id().filter(|_| is_offset);
        let live = LiveRecord {
            offset: record.offset,
            timestamp: record.timestamp,
            producer: producer.map(|id| (id, batch.header.producer_epoch)),
            key: key.into(),
            value: value.into(),
        };
        let slots = match producer {
            Some(id) => self.pending.entry(id).or_default(),
            None => &mut self.records,
        };
        slots.insert(slot, live);
        Ok(())
    }
}

impl Run {
    fn new(partition: usize, first: &LiveRecord) -> Run {
        Run {
            partition,
            producer: first.producer,
            record_count: 0,
            base_timestamp: first.timestamp,
            max_timestamp: first.timestamp,
            records: Vec::new(),
        }
    }

    fn push(&mut self, record: &LiveRecord) {
        let delta = record.timestamp.wrapping_sub(self.base_timestamp);
        let (key, value) = (&record.key, Some(&*record.value));
        write_record(&mut self.records, delta, self.record_count, key, value);
        self.record_count += 1;
        self.max_timestamp = self.max_timestamp.max(record.timestamp);
    }
}

/// Takes the topic id out of an offset's value, unless it stays valid.
fn rewrite_value(raw: &mut Box<[u8]>, rewriting: &Rewriting<'_>) -> Result<(), DecodeError> {
    let value = OffsetCommitValue::parse(raw)?;
    if raw[..2] != 4i16.to_be_bytes() || rewriting.topic_ids.contains(&value.topic_id) {
        return Ok(());
    }
    let mut encoded = Vec::with_capacity(raw.len());
    value.encode(WITHOUT_TOPIC_ID, &mut encoded);
    *raw = encoded.into();
    Ok(())
}
