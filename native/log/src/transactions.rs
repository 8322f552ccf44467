//! Transactions as the cleaner needs them: what was aborted, what is undecided, and when a marker
//! has no record left before it (Kafka's CleanedTransactionMetadata, and of its
//! ProducerStateManager what is in the log itself).

use kcoord_core::ReplayError;
use kcoord_core::record::{Batch, TransactionResult};
use std::collections::{BTreeMap, BTreeSet};

/// A producer is remembered for so long after its last batch (producer.id.expiration.ms).
const PRODUCER_ID_EXPIRATION_MS: i64 = 86_400_000;

#[derive(Clone, Copy, Debug)]
struct Aborted {
    first_offset: i64,
    /// Of the marker.
    last_offset: i64,
    producer_id: i64,
}

/// The newest thing that a producer wrote.
#[derive(Clone, Copy, Debug)]
struct LastRecord {
    /// None: a marker of a newer epoch than its data.
    last_data_offset: Option<i64>,
    producer_epoch: i16,
    timestamp: i64,
}

/// What the log says of its transactions, found by one pass in order.
#[derive(Debug, Default)]
pub struct Observed {
    undecided: BTreeMap<i64, i64>,
    aborted: Vec<Aborted>,
    producers: BTreeMap<i64, LastRecord>,
}

impl Observed {
    /// A batch that has a producer.
    pub fn observe(&mut self, batch: &Batch<'_>) -> Result<(), ReplayError> {
        let header = &batch.header;
        let mut timestamp = header.max_timestamp;
        if header.attributes.is_control() {
            // One that was emptied ends nothing any more, but still holds the producer's epoch.
            if let Some(marker) = marker(batch)? {
                timestamp = marker.timestamp;
                self.end(batch, marker.result);
            }
        } else if header.attributes.is_transactional() {
            self.undecided.entry(header.producer_id).or_insert(header.base_offset);
        }
        let last = self.producers.entry(header.producer_id).or_insert(LastRecord {
            last_data_offset: None,
            producer_epoch: header.producer_epoch,
            timestamp,
        });
        if last.producer_epoch != header.producer_epoch {
            last.producer_epoch = header.producer_epoch;
            last.last_data_offset = None;
        }
        last.timestamp = timestamp;
        if !header.attributes.is_control() {
            last.last_data_offset = Some(batch.next_offset() - 1);
        }
        Ok(())
    }

    fn end(&mut self, batch: &Batch<'_>, result: Option<TransactionResult>) {
        let producer_id = batch.header.producer_id;
        let Some(result) = result else { return };
        let Some(first_offset) = self.undecided.remove(&producer_id) else { return };
        if result == TransactionResult::Abort {
            let last_offset = batch.next_offset() - 1;
            self.aborted.push(Aborted { first_offset, last_offset, producer_id });
        }
    }

    /// Where the first transaction begins that has no marker yet: the last stable offset.
    pub fn first_undecided_offset(&self) -> Option<i64> {
        self.undecided.values().copied().min()
    }

    /// All was observed.
    pub fn finish(&mut self) {
        self.aborted.sort_by_key(|aborted| aborted.first_offset);
    }

    /// Whether the batch must stay, if only its header, because it says how far a producer that is
    /// not forgotten yet has come.
    pub fn is_last_of_producer(&self, batch: &Batch<'_>, now_ms: i64) -> bool {
        let header = &batch.header;
        if header.producer_id < 0 {
            return false;
        }
        let Some(last) = self.producers.get(&header.producer_id) else { return false };
        if now_ms.saturating_sub(last.timestamp) >= PRODUCER_ID_EXPIRATION_MS {
            return false;
        }
        match last.last_data_offset {
            Some(offset) => batch.next_offset() - 1 == offset,
            None => header.attributes.is_control() && header.producer_epoch == last.producer_epoch,
        }
    }
}

/// The transactions at one place of a pass over the log.
#[derive(Debug, Default)]
pub struct Ongoing {
    consumed: usize,
    committed: BTreeSet<i64>,
    /// With whether a batch of it was seen in this pass.
    aborted: BTreeMap<i64, bool>,
}

impl Ongoing {
    /// Whether the data batch belongs to an aborted transaction.
    pub fn data(&mut self, observed: &Observed, batch: &Batch<'_>) -> bool {
        self.advance(observed, batch);
        if !batch.header.attributes.is_transactional() {
            return false;
        }
        let producer_id = batch.header.producer_id;
        if let Some(seen) = self.aborted.get_mut(&producer_id) {
            *seen = true;
            return true;
        }
        self.committed.insert(producer_id);
        false
    }

    /// Whether nothing of its transaction is left before the control batch.
    pub fn control(&mut self, observed: &Observed, batch: &Batch<'_>) -> Result<bool, ReplayError> {
        self.advance(observed, batch);
        let Some(marker) = marker(batch)? else {
            return Ok(true); // it was emptied by an earlier cleaning
        };
        let producer_id = batch.header.producer_id;
        Ok(match marker.result {
            Some(TransactionResult::Abort) => self.aborted.remove(&producer_id) != Some(true),
            Some(TransactionResult::Commit) => !self.committed.remove(&producer_id),
            None => false,
        })
    }

    fn advance(&mut self, observed: &Observed, batch: &Batch<'_>) {
        let last_offset = batch.next_offset() - 1;
        while let Some(next) = observed.aborted.get(self.consumed) {
            if next.first_offset > last_offset {
                return;
            }
            // A pass may begin behind a transaction.
            if next.last_offset >= batch.header.base_offset {
                self.aborted.entry(next.producer_id).or_insert(false);
            }
            self.consumed += 1;
        }
    }
}

struct Marker {
    /// None: a control record of another kind.
    result: Option<TransactionResult>,
    timestamp: i64,
}

/// The first record of a control batch; None if it has none any more.
fn marker(batch: &Batch<'_>) -> Result<Option<Marker>, ReplayError> {
    let mut found = None;
    for record in batch.records() {
        let record = record?;
        found.get_or_insert((record.key.unwrap_or_default(), record.timestamp));
    }
    let Some((key, timestamp)) = found else { return Ok(None) };
    let result = TransactionResult::parse_key(key)
        .map_err(|error| batch.error(batch.header.base_offset, error.to_string()))?;
    Ok(Some(Marker { result, timestamp }))
}
