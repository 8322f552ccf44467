//! One cleaning of one partition: Kafka's rules for what stays (Cleaner.java of 4.3).
//!
//! A record stays if it is the last of its key and no tombstone whose time has passed, or lies
//! above what was indexed. Records of aborted transactions go; those of undecided ones are never
//! seen, because the host cleans below the first of them only.

use crate::key_map::{KeyHash, KeyMap};
use crate::rewrite::{write_batch, write_empty};
use crate::transactions::{Observed, Ongoing};
use kcoord_core::ReplayError;
use kcoord_core::record::batch::BATCH_OVERHEAD;
use kcoord_core::record::{Batch, Batches, Record};

/// Keys that are looked up together, so that their cache misses overlap.
const WINDOW: usize = 64;
/// A byte for each field of a record without key and value.
const SMALLEST_RECORD_BYTES: usize = 7;

/// What a cleaning depends on besides its batches.
#[derive(Clone, Debug)]
pub struct Options {
    /// Unpredictable: see [`KeyMap`].
    pub hash_key: [u8; 16],
    /// The memory for keys.
    pub dedupe_buffer_bytes: usize,
    /// The time, in ms since the epoch.
    pub now_ms: i64,
    /// How long a tombstone stays, in ms.
    pub delete_retention_ms: i64,
}

/// The batches of a partition go through it three times, in order; see the crate's contract.
/// After an error it is of no further use.
pub struct Cleaner {
    options: Options,
    observed: Observed,
    map: KeyMap,
    first_dirty_offset: i64,
    /// Where indexing must stop: nothing from there on is cleaned.
    bound: i64,
    /// Behind the last batch whose keys are all indexed.
    end_offset: i64,
    indexing: Ongoing,
    cleaning: Ongoing,
    /// Behind the last batch of the second and of the third pass.
    indexed_offset: i64,
    judged_offset: i64,
    /// Dirty data records up to here, in `index` and in `clean`: both number them alike.
    indexed: usize,
    judged: usize,
    keys: Vec<(KeyHash, usize)>,
    superseded: Vec<bool>,
    scratch: Vec<u8>,
    records_read: u64,
    records_retained: u64,
}

impl Cleaner {
    /// A cleaning that has seen nothing.
    pub fn new(options: Options) -> Self {
        Cleaner {
            map: KeyMap::new(&options.hash_key, options.dedupe_buffer_bytes),
            options,
            observed: Observed::default(),
            first_dirty_offset: 0,
            bound: 0,
            end_offset: 0,
            indexing: Ongoing::default(),
            cleaning: Ongoing::default(),
            indexed_offset: 0,
            judged_offset: 0,
            indexed: 0,
            judged: 0,
            keys: Vec::new(),
            superseded: Vec::new(),
            scratch: Vec::new(),
            records_read: 0,
            records_retained: 0,
        }
    }

    /// First pass, for transactions: what has no producer need not be shown.
    pub fn observe(&mut self, chunk: &[u8]) -> Result<(), ReplayError> {
        for batch in Batches::new(chunk) {
            let batch = batch?;
            if batch.header.producer_id >= 0 {
                self.observed.observe(&batch)?;
            }
        }
        Ok(())
    }

    /// Where the first transaction begins that has no marker yet.
    pub fn first_undecided_offset(&self) -> Option<i64> {
        self.observed.first_undecided_offset()
    }

    /// Ends the first pass: offsets from `first_dirty_offset` up to `bound`, the base offset of a
    /// batch, are to be indexed.
    pub fn start_index(&mut self, first_dirty_offset: i64, bound: i64) {
        self.observed.finish();
        self.first_dirty_offset = first_dirty_offset;
        self.bound = bound;
        self.end_offset = first_dirty_offset;
    }

    /// Second pass. False: the map is full, index no more and clean what is below `end_offset`.
    pub fn index(&mut self, chunk: &[u8]) -> Result<bool, ReplayError> {
        for batch in Batches::new(chunk) {
            let batch = batch?;
            ascend(&mut self.indexed_offset, &batch)?;
            if batch.header.base_offset >= self.bound {
                continue;
            }
            if batch.header.attributes.is_control() {
                self.indexing.control(&self.observed, &batch)?;
            } else if !self.index_data(&batch)? {
                return Ok(false);
            }
            self.end_offset = self.end_offset.max(batch.next_offset());
        }
        self.insert_keys();
        Ok(true)
    }

    /// The first offset that is not indexed, and stays dirty.
    pub fn end_offset(&self) -> i64 {
        self.end_offset
    }

    /// All up to the bound was indexed: the gap behind the last batch holds nothing.
    pub fn finish_index(&mut self) {
        self.end_offset = self.end_offset.max(self.bound);
    }

    /// How many keys are indexed.
    pub fn keys(&self) -> usize {
        self.map.len()
    }

    /// Third pass: appends to `out` what stays of the chunk. The batch that ends at `retained_end`
    /// stays even if it is empty, so that the file says how far it goes.
    pub fn clean(
        &mut self,
        chunk: &[u8],
        retained_end: i64,
        out: &mut Vec<u8>,
    ) -> Result<(), ReplayError> {
        self.judge(chunk)?;
        let superseded = std::mem::take(&mut self.superseded);
        let mut rest = &superseded[..];
        for batch in Batches::new(chunk) {
            let batch = batch?;
            let whole = &chunk[batch.position..][..BATCH_OVERHEAD + batch.records.len()];
            self.records_read += batch.header.records_count as u64;
            if batch.header.base_offset >= self.end_offset {
                self.records_retained += batch.header.records_count as u64;
                out.extend_from_slice(whole);
            } else if batch.header.attributes.is_control() {
                self.clean_marker(&batch, whole, retained_end, out)?;
            } else {
                let (superseded, behind) = rest.split_at(batch.header.records_count as usize);
                rest = behind;
                self.clean_data(&batch, whole, superseded, retained_end, out)?;
            }
        }
        self.superseded = superseded;
        Ok(())
    }

    /// Records that `clean` was given, and those that stayed.
    pub fn records(&self) -> (u64, u64) {
        (self.records_read, self.records_retained)
    }

    /// False: there is no room for its keys.
    fn index_data(&mut self, batch: &Batch<'_>) -> Result<bool, ReplayError> {
        let is_aborted = self.indexing.data(&self.observed, batch);
        if !self.is_dirty(batch) {
            return Ok(true);
        }
        let count = records_count(batch)?;
        let (keys, end) = (self.keys.len() + count, self.indexed + count);
        if keys > WINDOW || !self.map.reserve(keys, end) {
            self.insert_keys();
            if !self.map.reserve(count, end) {
                return Ok(false);
            }
        }
        if !is_aborted {
            let Cleaner { map, keys, indexed, .. } = self;
            for (number, record) in (*indexed..).zip(batch.records()) {
                match record?.key {
                    Some(key) => keys.push((map.hash(key), number)),
                    None => map.supersede(number),
                }
            }
        }
        self.indexed = end;
        Ok(true)
    }

    fn insert_keys(&mut self) {
        self.map.insert(&self.keys);
        self.keys.clear();
    }

    /// Whether its records are indexed; those of other batches are the last of their keys unless
    /// the key was.
    fn is_dirty(&self, batch: &Batch<'_>) -> bool {
        batch.next_offset() > self.first_dirty_offset
    }

    /// For each data record below the end offset whether a later one of its key takes its place.
    fn judge(&mut self, chunk: &[u8]) -> Result<(), ReplayError> {
        let mut window = Window::default();
        self.superseded.clear();
        for batch in Batches::new(chunk) {
            let batch = batch?;
            ascend(&mut self.judged_offset, &batch)?;
            if batch.header.base_offset >= self.end_offset || batch.header.attributes.is_control() {
                continue;
            }
            let is_dirty = self.is_dirty(&batch);
            let Cleaner { map, superseded, judged, .. } = self;
            if is_dirty {
                window.judge(map, superseded);
                let end = *judged + records_count(&batch)?;
                superseded.extend((*judged..end).map(|number| map.is_superseded(number)));
                *judged = end;
            } else {
                for record in batch.records() {
                    if window.count == WINDOW {
                        window.judge(map, superseded);
                    }
                    let key = record?.key;
                    window.hashes[window.count] = map.hash(key.unwrap_or_default());
                    window.has_key[window.count] = key.is_some();
                    window.count += 1;
                }
            }
        }
        window.judge(&self.map, &mut self.superseded);
        Ok(())
    }

    /// A marker stays as long as a record of its transaction does, and for the retention time of
    /// tombstones from when it was first seen without.
    fn clean_marker(
        &mut self,
        batch: &Batch<'_>,
        whole: &[u8],
        retained_end: i64,
        out: &mut Vec<u8>,
    ) -> Result<(), ReplayError> {
        let of_nothing = self.cleaning.control(&self.observed, batch)?;
        let horizon = delete_horizon_ms(batch);
        if batch.header.records_count == 0 || (of_nothing && self.is_past(horizon)) {
            self.leave_empty(batch, retained_end, out);
            return Ok(());
        }
        self.records_retained += batch.header.records_count as u64;
        if !of_nothing || horizon.is_some() {
            out.extend_from_slice(whole);
            return Ok(());
        }
        let records = batch.records().collect::<Result<Vec<_>, _>>()?;
        let horizon_ms = Some(self.new_horizon());
        write_batch(&batch.header, &records, horizon_ms, &mut self.scratch, out);
        Ok(())
    }

    fn clean_data(
        &mut self,
        batch: &Batch<'_>,
        whole: &[u8],
        superseded: &[bool],
        retained_end: i64,
        out: &mut Vec<u8>,
    ) -> Result<(), ReplayError> {
        let is_aborted = self.cleaning.data(&self.observed, batch);
        let horizon = delete_horizon_ms(batch);
        let tombstones_stay = !self.is_past(horizon);
        let mut retained: Vec<Record<'_>> = Vec::new();
        let mut has_tombstones = false;
        if !is_aborted && superseded.contains(&false) {
            for (record, is_superseded) in batch.records().zip(superseded) {
                let record = record?;
                let is_tombstone = record.value.is_none();
                if !is_superseded && (tombstones_stay || !is_tombstone) {
                    has_tombstones |= is_tombstone;
                    retained.push(record);
                }
            }
        }
        if retained.is_empty() {
            self.leave_empty(batch, retained_end, out);
            return Ok(());
        }
        self.records_retained += retained.len() as u64;
        let needs_horizon = has_tombstones && horizon.is_none();
        if retained.len() == superseded.len() && !needs_horizon {
            out.extend_from_slice(whole);
            return Ok(());
        }
        let horizon_ms = if needs_horizon { Some(self.new_horizon()) } else { horizon };
        write_batch(&batch.header, &retained, horizon_ms, &mut self.scratch, out);
        Ok(())
    }

    /// Nothing of the batch stays, or its header only.
    fn leave_empty(&self, batch: &Batch<'_>, retained_end: i64, out: &mut Vec<u8>) {
        if batch.next_offset() == retained_end
            || self.observed.is_last_of_producer(batch, self.options.now_ms)
        {
            write_empty(&batch.header, out);
        }
    }

    fn is_past(&self, horizon_ms: Option<i64>) -> bool {
        horizon_ms.is_some_and(|horizon_ms| horizon_ms <= self.options.now_ms)
    }

    fn new_horizon(&self) -> i64 {
        self.options.now_ms.saturating_add(self.options.delete_retention_ms)
    }
}

/// Records are numbered alike in two passes: offsets that run back would give them other numbers.
fn ascend(next_offset: &mut i64, batch: &Batch<'_>) -> Result<(), ReplayError> {
    if batch.header.base_offset < *next_offset {
        let reason = format!("the batch before it ends at {next_offset}");
        return Err(batch.error(batch.header.base_offset, reason));
    }
    *next_offset = batch.next_offset();
    Ok(())
}

/// Not believed before there are bytes for so many.
fn records_count(batch: &Batch<'_>) -> Result<usize, ReplayError> {
    let count = batch.header.records_count as usize;
    if count > batch.records.len() / SMALLEST_RECORD_BYTES {
        let reason = format!("{count} records in {} bytes", batch.records.len());
        return Err(batch.error(batch.header.base_offset, reason));
    }
    Ok(count)
}

fn delete_horizon_ms(batch: &Batch<'_>) -> Option<i64> {
    batch.header.attributes.has_delete_horizon().then_some(batch.header.base_timestamp)
}

/// Records whose keys are looked up together.
struct Window {
    hashes: [KeyHash; WINDOW],
    has_key: [bool; WINDOW],
    count: usize,
}

impl Default for Window {
    fn default() -> Self {
        Window { hashes: [[0; 2]; WINDOW], has_key: [false; WINDOW], count: 0 }
    }
}

impl Window {
    fn judge(&mut self, map: &KeyMap, superseded: &mut Vec<bool>) {
        let start = superseded.len();
        map.contains(&self.hashes[..self.count], superseded);
        for (verdict, has_key) in superseded[start..].iter_mut().zip(self.has_key) {
            *verdict |= !has_key;
        }
        self.count = 0;
    }
}
