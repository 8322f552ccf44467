//! What the log last said of each producer, so that a commit of an old producer epoch and a marker of
//! an old transaction coordinator are refused, and where its open transaction begins (of Kafka's
//! `ProducerStateManager` what appends of a coordinator need).
//!
//! Changed by what is written and replayed alone. A producer that wrote nothing for a day counts as
//! unknown, whether its row is there still or not, so that no answer depends on when it goes.

use std::collections::BTreeMap;

use crate::error::ErrorCode;
use crate::record::fields::{write_i16, write_i32, write_i64};
use crate::record::{BatchHeader, DecodeError, Producer, Reader, Record, TransactionResult};
use crate::request::TransactionMarker;

/// `producer.id.expiration.ms`, Kafka's default.
const EXPIRATION_MS: i64 = 86_400_000;

/// From this version of transactions on (KIP-890) a marker's epoch is above its data's.
const EPOCH_BUMP_VERSION: i8 = 2;

const NONE: i64 = -1;

/// What the log last said of a producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerState {
    /// Of its last batch or marker.
    pub producer_epoch: i16,
    /// Of its last marker; -1: none.
    pub coordinator_epoch: i32,
    /// Of its last batch or marker, in milliseconds.
    pub last_timestamp_ms: i64,
    /// The first offset of its open transaction, if it has one.
    pub first_offset: Option<i64>,
}

/// Producers of a shard, by id.
#[derive(Debug, Default)]
pub struct Producers {
    states: BTreeMap<i64, ProducerState>,
}

impl Producers {
    /// All that are known, by id.
    pub fn iter(&self) -> impl Iterator<Item = (i64, ProducerState)> {
        self.states.iter().map(|(producer_id, state)| (*producer_id, *state))
    }

    /// What is known of a producer, long ago or not.
    pub fn get(&self, producer_id: i64) -> Option<&ProducerState> {
        self.states.get(&producer_id)
    }

    /// Whether a producer may write: INVALID_PRODUCER_EPOCH with an epoch that another has passed.
    pub fn admit(&self, now_ms: i64, producer: Producer) -> Result<(), ErrorCode> {
        let Some(known) = self.known(now_ms, producer.id) else { return Ok(()) };
        if producer.epoch < known.producer_epoch {
            Err(ErrorCode::InvalidProducerEpoch)
        } else {
            Ok(())
        }
    }

    /// Whether a transaction coordinator may end a transaction: INVALID_PRODUCER_EPOCH of a producer's
    /// past, TRANSACTION_COORDINATOR_FENCED of a coordinator's. A marker that is there already may
    /// come again.
    pub fn admit_marker(&self, now_ms: i64, marker: &TransactionMarker) -> Result<(), ErrorCode> {
        let producer = marker.producer;
        let Some(known) = self.known(now_ms, producer.id) else { return Ok(()) };
        let bumps = marker.transaction_version >= EPOCH_BUMP_VERSION;
        let is_same = producer.epoch == known.producer_epoch;
        if producer.epoch < known.producer_epoch || bumps && is_same && known.first_offset.is_some()
        {
            return Err(ErrorCode::InvalidProducerEpoch);
        }
        if marker.coordinator_epoch < known.coordinator_epoch {
            return Err(ErrorCode::TransactionCoordinatorFenced);
        }
        Ok(())
    }

    /// A transactional batch at `offset`.
    pub fn wrote(&mut self, producer: Producer, timestamp_ms: i64, offset: i64) {
        let known = self.of(producer, timestamp_ms);
        known.first_offset.get_or_insert(offset);
    }

    /// A marker.
    pub fn ended(&mut self, producer: Producer, timestamp_ms: i64, coordinator_epoch: i32) {
        let known = self.of(producer, timestamp_ms);
        known.coordinator_epoch = coordinator_epoch;
        known.first_offset = None;
    }

    /// A batch of the log that has a producer, and is no control batch. One that the cleaner emptied
    /// counts as well: it is kept for this.
    #[cold]
    pub fn observe(&mut self, header: &BatchHeader) {
        let known = self.of(producer_of(header), header.max_timestamp);
        if header.attributes.is_transactional() {
            known.first_offset.get_or_insert(header.base_offset);
        }
    }

    /// A record of a control batch of the log: a marker, or nothing that is known here.
    #[cold]
    pub fn observe_control(
        &mut self,
        header: &BatchHeader,
        record: &Record<'_>,
    ) -> Result<(), DecodeError> {
        if TransactionResult::parse_key(record.key.unwrap_or_default())?.is_some() {
            let epoch = TransactionResult::parse_value(record.value.unwrap_or_default())?;
            self.ended(producer_of(header), record.timestamp, epoch);
        }
        Ok(())
    }

    /// Gives up the rows of those that count as unknown.
    pub fn expire(&mut self, now_ms: i64) {
        self.states.retain(|_, state| state.counts(now_ms));
    }

    /// The value of a producer's record in a snapshot.
    pub fn encode(state: &ProducerState, out: &mut Vec<u8>) {
        write_i16(out, state.producer_epoch);
        write_i32(out, state.coordinator_epoch);
        write_i64(out, state.last_timestamp_ms);
        write_i64(out, state.first_offset.unwrap_or(NONE));
    }

    /// Takes in what [`encode`](Self::encode) wrote.
    pub fn restore(&mut self, producer_id: i64, value: &[u8]) -> Result<(), DecodeError> {
        let mut from = Reader::new(value);
        let state = ProducerState {
            producer_epoch: from.i16()?,
            coordinator_epoch: from.i32()?,
            last_timestamp_ms: from.i64()?,
            first_offset: Some(from.i64()?).filter(|offset| *offset != NONE),
        };
        self.states.insert(producer_id, state);
        Ok(())
    }

    fn known(&self, now_ms: i64, producer_id: i64) -> Option<&ProducerState> {
        self.states.get(&producer_id).filter(|state| state.counts(now_ms))
    }

    fn of(&mut self, producer: Producer, timestamp_ms: i64) -> &mut ProducerState {
        let known = self.states.entry(producer.id).or_insert(ProducerState {
            producer_epoch: producer.epoch,
            coordinator_epoch: -1,
            last_timestamp_ms: timestamp_ms,
            first_offset: None,
        });
        known.producer_epoch = producer.epoch;
        known.last_timestamp_ms = timestamp_ms;
        known
    }
}

fn producer_of(header: &BatchHeader) -> Producer {
    Producer { id: header.producer_id, epoch: header.producer_epoch }
}

impl ProducerState {
    fn counts(&self, now_ms: i64) -> bool {
        self.first_offset.is_some() || now_ms.saturating_sub(self.last_timestamp_ms) < EXPIRATION_MS
    }
}
