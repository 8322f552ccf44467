//! One cleaning of one partition: Kafka's rules for what stays (Cleaner.java of 4.3).
//!
//! A record stays if it is the last of its key and no tombstone whose time has passed, or lies
//! above what was indexed. Records of aborted transactions go; those of undecided ones are never
//! seen, because the host cleans below the first of them only.

use crate::offset_map::{KeyHash, OffsetMap};
use crate::record::{RawRecord, for_each};
use crate::rewrite::{write_batch, write_empty};
use crate::transactions::{Observed, Ongoing};
use kcoord_core::ReplayError;
use kcoord_core::record::batch::BATCH_OVERHEAD;
use kcoord_core::record::{Batch, Batches};

/// Keys that are looked up together, so that their cache misses overlap.
const WINDOW: usize = 64;

/// What its key says of a data record below the end offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// The key comes again later, or there is none.
    Superseded,
    LastValue,
    LastTombstone,
}

#[derive(Clone, Debug)]
pub struct Options {
    /// Unpredictable: see [`OffsetMap`].
    pub hash_key: [u8; 16],
    pub dedupe_buffer_bytes: usize,
    pub now_ms: i64,
    pub delete_retention_ms: i64,
}

/// The batches of a partition go through it three times, in order; see the crate's contract.
/// After an error it is of no further use.
pub struct Cleaner {
    options: Options,
    observed: Observed,
    map: OffsetMap,
    first_dirty_offset: i64,
    /// Where indexing must stop: nothing from there on is cleaned.
    bound: i64,
    /// Behind the last batch whose keys are all indexed.
    end_offset: i64,
    indexing: Ongoing,
    cleaning: Ongoing,
    keys: Vec<(KeyHash, i64)>,
    latest: Vec<i64>,
    verdicts: Vec<Verdict>,
    scratch: Vec<u8>,
    records_read: u64,
    records_retained: u64,
}

impl Cleaner {
    pub fn new(options: Options) -> Self {
        Cleaner {
            map: OffsetMap::new(&options.hash_key, options.dedupe_buffer_bytes),
            options,
            observed: Observed::default(),
            first_dirty_offset: 0,
            bound: 0,
            end_offset: 0,
            indexing: Ongoing::default(),
            cleaning: Ongoing::default(),
            keys: Vec::new(),
            latest: Vec::new(),
            verdicts: Vec::new(),
            scratch: Vec::new(),
            records_read: 0,
            records_retained: 0,
        }
    }

    /// First pass, for transactions. False: none of the batches has a producer, so that it did not
    /// matter to show them.
    pub fn observe(&mut self, chunk: &[u8]) -> Result<bool, ReplayError> {
        let mut has_producers = false;
        for batch in Batches::new(chunk) {
            let batch = batch?;
            if batch.header.producer_id >= 0 {
                has_producers = true;
                self.observed.observe(&batch)?;
            }
        }
        Ok(has_producers)
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
            if batch.header.base_offset >= self.bound {
                break;
            }
            if batch.header.attributes.is_control() {
                self.indexing.control(&self.observed, &batch)?;
            } else if !self.indexing.data(&self.observed, &batch) {
                let count = batch.header.records_count as usize;
                if self.keys.len() + count > WINDOW || !self.map.reserve(self.keys.len() + count) {
                    self.insert_keys();
                }
                if !self.map.reserve(self.keys.len() + count) {
                    return Ok(false);
                }
                self.index_batch(&batch)?;
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
        let verdicts = std::mem::take(&mut self.verdicts);
        let mut rest = &verdicts[..];
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
                let (verdicts, behind) = rest.split_at(batch.header.records_count as usize);
                rest = behind;
                self.clean_data(&batch, whole, verdicts, retained_end, out)?;
            }
        }
        self.verdicts = verdicts;
        Ok(())
    }

    /// Records that `clean` was given, and those that stayed.
    pub fn records(&self) -> (u64, u64) {
        (self.records_read, self.records_retained)
    }

    fn insert_keys(&mut self) {
        self.map.insert(&self.keys);
        self.keys.clear();
    }

    fn index_batch(&mut self, batch: &Batch<'_>) -> Result<(), ReplayError> {
        let Cleaner { map, keys, first_dirty_offset, .. } = self;
        for_each(batch, |record| {
            if let Some(key) = record.key
                && record.offset >= *first_dirty_offset
            {
                keys.push((map.hash(key), record.offset));
            }
        })
    }

    /// A verdict for each data record below the end offset, by its key alone.
    fn judge(&mut self, chunk: &[u8]) -> Result<(), ReplayError> {
        let mut window = Window::default();
        self.verdicts.clear();
        for batch in Batches::new(chunk) {
            let batch = batch?;
            if batch.header.base_offset >= self.end_offset {
                break;
            }
            if batch.header.attributes.is_control() {
                continue;
            }
            let Cleaner { map, latest, verdicts, .. } = self;
            for_each(&batch, |record| {
                window.hashes[window.count] = map.hash(record.key.unwrap_or_default());
                window.records[window.count] =
                    (record.offset, record.key.is_some(), record.is_tombstone);
                window.count += 1;
                if window.count == WINDOW {
                    window.judge(map, latest, verdicts);
                }
            })?;
        }
        window.judge(&self.map, &mut self.latest, &mut self.verdicts);
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
        self.rewrite(batch, Some(self.new_horizon()), |_| true, out)
    }

    fn clean_data(
        &mut self,
        batch: &Batch<'_>,
        whole: &[u8],
        verdicts: &[Verdict],
        retained_end: i64,
        out: &mut Vec<u8>,
    ) -> Result<(), ReplayError> {
        let is_aborted = self.cleaning.data(&self.observed, batch);
        let horizon = delete_horizon_ms(batch);
        let tombstones_stay = !self.is_past(horizon);
        let stays = |verdict: Verdict| match verdict {
            Verdict::Superseded => false,
            Verdict::LastValue => true,
            Verdict::LastTombstone => tombstones_stay,
        };
        let retained = match is_aborted {
            true => 0,
            false => verdicts.iter().filter(|verdict| stays(**verdict)).count(),
        };
        if retained == 0 {
            self.leave_empty(batch, retained_end, out);
            return Ok(());
        }
        self.records_retained += retained as u64;
        let has_tombstones = tombstones_stay && verdicts.contains(&Verdict::LastTombstone);
        let needs_horizon = has_tombstones && horizon.is_none();
        if retained == verdicts.len() && !needs_horizon {
            out.extend_from_slice(whole);
            return Ok(());
        }
        let horizon = if needs_horizon { Some(self.new_horizon()) } else { horizon };
        self.rewrite(batch, horizon, |index| stays(verdicts[index]), out)
    }

    fn rewrite(
        &mut self,
        batch: &Batch<'_>,
        horizon_ms: Option<i64>,
        stays: impl Fn(usize) -> bool,
        out: &mut Vec<u8>,
    ) -> Result<(), ReplayError> {
        let mut retained: Vec<RawRecord<'_>> = Vec::new();
        let mut index = 0;
        for_each(batch, |record| {
            if stays(index) {
                retained.push(record);
            }
            index += 1;
        })?;
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

fn delete_horizon_ms(batch: &Batch<'_>) -> Option<i64> {
    batch.header.attributes.has_delete_horizon().then_some(batch.header.base_timestamp)
}

/// Records whose keys are looked up together: offset, whether there is a key, whether no value.
struct Window {
    hashes: [KeyHash; WINDOW],
    records: [(i64, bool, bool); WINDOW],
    count: usize,
}

impl Default for Window {
    fn default() -> Self {
        Window { hashes: [[0; 2]; WINDOW], records: [(0, false, false); WINDOW], count: 0 }
    }
}

impl Window {
    fn judge(&mut self, map: &OffsetMap, latest: &mut Vec<i64>, verdicts: &mut Vec<Verdict>) {
        latest.clear();
        map.latest(&self.hashes[..self.count], latest);
        let records = self.records[..self.count].iter().zip(latest);
        verdicts.extend(records.map(|((offset, has_key, is_tombstone), latest)| {
            match (*has_key && *offset >= *latest, is_tombstone) {
                (false, _) => Verdict::Superseded,
                (true, false) => Verdict::LastValue,
                (true, true) => Verdict::LastTombstone,
            }
        }));
        self.count = 0;
    }
}
