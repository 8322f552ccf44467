//! What leaves a shard: records to append, and responses, ready or parked.
//!
//! Records of one turn gather in one open batch (log-format section 9: a batch holds what was
//! queued meanwhile), or in several where they are many. The host takes them with
//! [`Outbox::poll_append`], writes them, and reports the offset up to which the log is committed;
//! responses parked at or below it become ready, in the order in which they were parked.

use std::collections::{BTreeSet, VecDeque};

use crate::record::BatchKind;
use crate::record::writer::write_record;
use crate::request::Ticket;
use crate::response::Response;

/// A batch that has so many bytes takes no further record. With the bound on one record
/// (`limits::MAX_GROUP_RECORD_BYTES`) no batch nears the int32 of its length field.
const FULL_BATCH_BYTES: usize = 16 << 20;

/// Room of a new batch, for a record or two: it grows by doubling.
const FIRST_BYTES: usize = 256;

/// Memory that was given back is kept up to here.
const KEPT_BYTES: usize = 256 << 10;

/// Records for the log: the records area of one RecordBatch v2. The host writes the header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Append {
    /// The offset of the first record.
    pub base_offset: i64,
    /// The number of records, at least 1.
    pub record_count: i32,
    /// Timestamp of the first record, and the largest one, in milliseconds.
    pub base_timestamp: i64,
    /// The latest of its records, in ms since the epoch.
    pub max_timestamp: i64,
    /// Plain, or of a transaction.
    pub kind: BatchKind,
    /// The records area of a RecordBatch v2.
    pub records: Vec<u8>,
}

impl Append {
    /// Offset after the last record: the argument of `handle_committed` once this is durable.
    pub fn end_offset(&self) -> i64 {
        self.base_offset + i64::from(self.record_count)
    }

    /// Whether a record of this kind may go behind the last one.
    #[inline]
    fn takes(&self, kind: BatchKind) -> bool {
        let is_alike = match (self.kind, kind) {
            (BatchKind::Plain, BatchKind::Plain) => true,
            (BatchKind::Transactional(one), BatchKind::Transactional(other)) => one == other,
            _ => false,
        };
        is_alike && self.records.len() < FULL_BATCH_BYTES
    }
}

/// Records to append, and responses that wait until their records are durable.
#[derive(Debug, Default)]
pub struct Outbox {
    /// Batches to append; the last takes further records until it is full.
    appends: VecDeque<Append>,
    /// Memory for the next batch.
    spare: Vec<u8>,
    /// Offset that the next record gets.
    next_offset: i64,
    /// Everything below is durable.
    committed_offset: i64,
    /// So is whatever comes out: nothing waits.
    commits_at_once: bool,
    ready: VecDeque<(Ticket, Response)>,
    parked: VecDeque<(i64, Ticket, Response)>,
    /// Tickets that will never be answered.
    given_up: VecDeque<Ticket>,
    /// `None`: the host has not asked for it.
    causes: Option<Causes>,
}

/// Which request each record came of.
#[derive(Debug, Default)]
struct Causes {
    /// The request that is being handled; `None`: what happens now is time's doing.
    now: Option<Ticket>,
    /// One for each record that was emitted, until it is taken out.
    of_records: VecDeque<Option<Ticket>>,
}

impl Outbox {
    /// Starts at the end of a replayed log: everything in it is committed.
    pub fn start_at(&mut self, next_offset: i64) {
        assert!(self.appends.is_empty() && self.parked.is_empty(), "a live outbox cannot be moved");
        self.next_offset = next_offset;
        self.committed_offset = next_offset;
    }

    /// From now on records count as durable when they are given out.
    pub fn commit_at_once(&mut self) {
        assert!(self.parked.is_empty(), "responses wait already");
        self.commits_at_once = true;
    }

    /// From now on each record's request is kept for [`Outbox::poll_cause`].
    pub fn trace_causes(&mut self) {
        self.causes.get_or_insert_default();
    }

    /// What is emitted from now on comes of this request; `None`: of none.
    #[inline]
    pub fn caused_by(&mut self, ticket: Option<Ticket>) {
        if let Some(causes) = &mut self.causes {
            causes.now = ticket;
        }
    }

    /// The offset that the next record gets.
    pub fn next_offset(&self) -> i64 {
        self.next_offset
    }

    /// Everything below is durable.
    pub fn committed_offset(&self) -> i64 {
        self.committed_offset
    }

    /// Everything below is durable, or counts as such.
    pub fn durable_offset(&self) -> i64 {
        if self.commits_at_once { self.next_offset } else { self.committed_offset }
    }

    /// Nothing waits to be taken out or to be committed.
    pub fn is_idle(&self) -> bool {
        self.appends.is_empty()
            && self.ready.is_empty()
            && self.parked.is_empty()
            && self.given_up.is_empty()
    }

    /// Adds a record to the last batch and returns its offset.
    pub fn emit(&mut self, timestamp_ms: i64, key: &[u8], value: Option<&[u8]>) -> i64 {
        self.emit_as(BatchKind::Plain, timestamp_ms, key, value)
    }

    /// The same of a record that may belong to a transaction: such stand in batches of their own.
    #[inline(always)]
    pub fn emit_as(
        &mut self,
        kind: BatchKind,
        timestamp_ms: i64,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> i64 {
        let offset = self.next_offset;
        if self.appends.back().is_none_or(|batch| !batch.takes(kind)) {
            let mut records = core::mem::take(&mut self.spare);
            records.reserve(FIRST_BYTES);
            self.appends.push_back(Append {
                base_offset: offset,
                record_count: 0,
                base_timestamp: timestamp_ms,
                max_timestamp: timestamp_ms,
                kind,
                records,
            });
        }
        let batch = self.appends.back_mut().expect("a batch was just opened");
        let timestamp_delta = timestamp_ms - batch.base_timestamp;
        write_record(&mut batch.records, timestamp_delta, batch.record_count, key, value);
        batch.record_count += 1;
        batch.max_timestamp = batch.max_timestamp.max(timestamp_ms);
        self.next_offset += 1;
        if let Some(causes) = &mut self.causes {
            causes.of_records.push_back(causes.now);
        }
        offset
    }

    /// Answers now: for errors, heartbeats, and all that depends on no record.
    pub fn respond(&mut self, ticket: Ticket, response: Response) {
        self.ready.push_back((ticket, response));
    }

    /// Answers once everything below `end_offset` is committed; at once if it is.
    pub fn respond_when_committed(&mut self, end_offset: i64, ticket: Ticket, response: Response) {
        self.make_when_committed(end_offset, ticket, || response);
    }

    /// The same, of an answer that is made when its place is there: a value that is handed in is
    /// copied in other pieces than those in which it was just written, and the processor cannot
    /// forward them. (`push_back` would copy, `extend` makes room first.)
    #[inline(always)]
    pub fn make_when_committed(
        &mut self,
        end_offset: i64,
        ticket: Ticket,
        make: impl FnOnce() -> Response,
    ) {
        if self.commits_at_once || end_offset <= self.committed_offset {
            self.ready.extend(core::iter::once_with(|| (ticket, make())));
        } else {
            self.park(end_offset, ticket, make());
        }
    }

    #[inline(never)]
    fn park(&mut self, end_offset: i64, ticket: Ticket, response: Response) {
        debug_assert!(end_offset <= self.next_offset);
        let waiting = (end_offset, ticket, response);
        // Nearly always: what comes later waits for later records.
        if self.parked.back().is_none_or(|(last, _, _)| *last <= end_offset) {
            return self.parked.push_back(waiting);
        }
        let at = self.parked.partition_point(|(offset, _, _)| *offset <= end_offset);
        self.parked.insert(at, waiting);
    }

    /// The host says that everything below `offset` is durable. Reports never go back.
    pub fn committed(&mut self, offset: i64) {
        assert!(offset <= self.next_offset, "committed {offset} of {}", self.next_offset);
        self.committed_offset = self.committed_offset.max(offset);
        while self.parked.front().is_some_and(|(end, _, _)| *end <= self.committed_offset) {
            let (_, ticket, response) = self.parked.pop_front().expect("front was there");
            self.ready.push_back((ticket, response));
        }
    }

    /// The next batch to write, in the order of offsets.
    pub fn poll_append(&mut self) -> Option<Append> {
        self.appends.pop_front()
    }

    /// Gives back the memory of an append that was taken out and is done with.
    pub fn reuse(&mut self, mut records: Vec<u8>) {
        if records.capacity() <= KEPT_BYTES {
            records.clear();
            self.spare = records;
        }
    }

    /// The request of the next record that was emitted, in their order; the inner `None`: it came
    /// of none. Nothing unless causes are traced.
    pub fn poll_cause(&mut self) -> Option<Option<Ticket>> {
        self.causes.as_mut()?.of_records.pop_front()
    }

    /// This ticket will never be answered.
    pub fn give_up(&mut self, ticket: Ticket) {
        self.given_up.push_back(ticket);
    }

    /// The next request that was parked and is not answered here.
    pub fn poll_given_up(&mut self) -> Option<Ticket> {
        self.given_up.pop_front()
    }

    /// The next response that may leave.
    pub fn poll_response(&mut self) -> Option<(Ticket, Response)> {
        self.ready.pop_front()
    }

    /// Drops the responses that wait under tickets: their connections are gone. All at once,
    /// since one request may have been split into very many.
    pub fn forget(&mut self, tickets: &BTreeSet<Ticket>) {
        self.parked.retain(|(_, waiting, _)| !tickets.contains(waiting));
    }

    /// All that still waits for a commit, oldest first: what a dropped shard owes.
    pub fn drain_parked(&mut self) -> impl Iterator<Item = (Ticket, Response)> + '_ {
        self.parked.drain(..).map(|(_, ticket, response)| (ticket, response))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_records_of_one_turn_come_in_several_batches() {
        let mut outbox = Outbox::default();
        let value = vec![7; FULL_BATCH_BYTES / 2];
        for _ in 0..5 {
            outbox.emit(1, b"key", Some(&value));
        }
        let batches: Vec<(i64, i32)> = std::iter::from_fn(|| outbox.poll_append())
            .map(|append| (append.base_offset, append.record_count))
            .collect();
        assert_eq!(batches, [(0, 2), (2, 2), (4, 1)]);
    }

    fn ready(outbox: &mut Outbox) -> Vec<Ticket> {
        std::iter::from_fn(|| outbox.poll_response()).map(|(ticket, _)| ticket).collect()
    }

    fn answer() -> Response {
        Response::Heartbeat(crate::error::ErrorCode::None)
    }

    #[test]
    fn responses_wait_in_the_order_of_their_records() {
        let mut outbox = Outbox::default();
        for _ in 0..3 {
            outbox.emit(1, b"key", None);
        }
        for (end_offset, ticket) in [(1, 10), (3, 30), (2, 20), (3, 31)] {
            outbox.respond_when_committed(end_offset, ticket, answer());
        }
        assert_eq!(ready(&mut outbox), []);
        outbox.committed(2);
        assert_eq!(ready(&mut outbox), [10, 20]);
        outbox.committed(3);
        assert_eq!(ready(&mut outbox), [30, 31]);
    }

    #[test]
    fn each_record_names_its_request_where_that_is_traced() {
        let mut outbox = Outbox::default();
        outbox.caused_by(Some(1));
        outbox.emit(1, b"key", None);
        assert_eq!(outbox.poll_cause(), None);
        outbox.trace_causes();
        for (cause, records) in [(Some(7), 2), (None, 1), (Some(9), 1)] {
            outbox.caused_by(cause);
            (0..records).for_each(|_| _ = outbox.emit(1, b"key", None));
        }
        let causes: Vec<_> = std::iter::from_fn(|| outbox.poll_cause()).collect();
        assert_eq!(causes, [Some(7), Some(7), None, Some(9)]);
    }

    #[test]
    fn memory_that_is_given_back_holds_the_next_batch() {
        let mut outbox = Outbox::default();
        outbox.emit(1, b"key", Some(&[7; 1000]));
        let first = outbox.poll_append().expect("a batch");
        let (capacity, memory) = (first.records.capacity(), first.records.as_ptr());
        outbox.reuse(first.records);
        outbox.emit(2, b"key", None);
        let second = outbox.poll_append().expect("a batch");
        assert_eq!((second.records.capacity(), second.records.as_ptr()), (capacity, memory));
        let mut anew = Outbox::default();
        anew.start_at(1);
        anew.emit(2, b"key", None);
        assert_eq!(Some(second), anew.poll_append());
        // Much of it is not kept.
        outbox.reuse(Vec::with_capacity(KEPT_BYTES + 1));
        outbox.emit(3, b"key", None);
        assert!(outbox.poll_append().expect("a batch").records.capacity() <= KEPT_BYTES);
    }

    #[test]
    fn nothing_waits_where_records_are_durable_at_once() {
        let mut outbox = Outbox::default();
        outbox.commit_at_once();
        let end_offset = outbox.emit(1, b"key", None) + 1;
        outbox.respond_when_committed(end_offset, 7, answer());
        assert_eq!(ready(&mut outbox), [7]);
    }
}
