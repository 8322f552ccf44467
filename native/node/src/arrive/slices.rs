//! Requests of many entries, and those of all groups: done in slices, some in each turn, so that
//! what one peer asks for does not hold up the others. Each request is in its turn for a slice, in
//! the order of their arrival. A slice (`sliced.rs`) is handed to the shards as a request of its own,
//! and `gather.rs` puts the answers together.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use kcoord_core::request::RequestContext;
use kcoord_core::{ErrorCode, Shard};

use super::sliced::{ENTRY_COST_BYTES, Rest, Sliced, fetch_entries};
use super::{Arrival, Arrivals};
use crate::routing::shard_of;
use crate::slots::Header;
use crate::{Node, Turn};
use kcoord_wire::DecodeError;
use kcoord_wire::api::long::{self, Checking, Long};
use kcoord_wire::api::{self, RequestBody};
use kcoord_wire::header::{ApiKey, Incoming, open_request};
use kcoord_wire::reader::Reader;

/// Of a request that may name many groups or members, in bytes.
pub const MAX_FRAME_BYTES: usize = 8 << 20;

/// In a shorter frame there is no room for names in such numbers that their list would matter.
pub(super) const LONG_FRAME_BYTES: usize = 4 << 10;

/// A longer one is checked in slices: of so many names the check takes long.
const CHECKED_AT_ONCE_BYTES: usize = 16 << 10;

/// Memory of all such requests that are not done yet. COORDINATOR_LOAD_IN_PROGRESS beyond, and
/// clients come back.
pub const MAX_WAITING_BYTES: usize = 128 << 20;

/// A request of fewer entries is done in the turn in which it arrives.
const SMALL_ENTRIES: usize = 32;
/// The same of an OffsetFetch, whose entries cost less.
const SMALL_FETCH_ENTRIES: usize = 1_024;
/// The same of DeleteGroups: offsets of the groups that it names.
const SMALL_DELETED_OFFSETS: usize = 1_024;
/// The same of DescribeGroups and ConsumerGroupDescribe: what the groups take that it names.
const SMALL_DESCRIPTIONS_BYTES: usize = 64 << 10;
/// The same of ListGroups: groups of all shards.
const SMALL_LIST_ROWS: usize = 128;

/// What slices of one turn may cost, in entries. What they put into answers counts too.
pub const TURN_ENTRIES: usize = 512;

/// So many entries cost as much again, all together, as one when their answer is put together and
/// copied.
const ENDED_ENTRIES: usize = 16;

/// Requests that are not done yet.
#[derive(Debug, Default)]
pub struct Slices {
    /// By the tickets of their slots.
    waiting: BTreeMap<u64, Sliced>,
    /// These tickets in their turn, and some of requests that were forgotten since.
    queue: VecDeque<u64>,
    waiting_bytes: usize,
    /// Of the turn that worked on them last.
    now_ms: i64,
}

impl Slices {
    /// At once, if there is something to go on with.
    pub fn due_ms(&self, others_are_due: bool) -> Option<i64> {
        (others_are_due || !self.waiting.is_empty()).then_some(self.now_ms)
    }

    /// Something else is worked on at this time.
    pub fn set_now(&mut self, now_ms: i64) {
        self.now_ms = now_ms;
    }

    /// How many requests are not done yet.
    pub fn count(&self) -> usize {
        self.waiting.len()
    }

    /// Memory of what waits.
    pub fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    /// Its client is gone.
    pub fn forget(&mut self, ticket: u64) {
        // A group that goes is not left half gone.
        if self.waiting.get(&ticket).is_some_and(|sliced| sliced.rest.has_begun_to_delete()) {
            return;
        }
        if let Some(sliced) = self.waiting.remove(&ticket) {
            self.waiting_bytes -= sliced.bytes();
        }
    }

    /// Behind all others.
    fn push(&mut self, sliced: Sliced) {
        self.waiting_bytes += sliced.bytes();
        self.queue.push_back(sliced.ticket);
        self.waiting.insert(sliced.ticket, sliced);
    }

    fn pop(&mut self) -> Option<Sliced> {
        while let Some(ticket) = self.queue.pop_front() {
            if let Some(sliced) = self.waiting.remove(&ticket) {
                self.waiting_bytes -= sliced.bytes();
                return Some(sliced);
            }
        }
        None
    }
}

/// Entries of a request, and how many of its kind are done at once; `None`: it has one entry, or
/// its size is its client's own matter (what commits, joins and syncs bring is kept).
fn entries(body: &RequestBody<'_>, shards: &[Shard]) -> Option<(usize, usize)> {
    let shard = |group_id: &str| &shards[shard_of(group_id, shards.len())];
    match body {
        RequestBody::LeaveGroup(leave) => Some((leave.members.len(), SMALL_ENTRIES)),
        RequestBody::DescribeGroups(describe) | RequestBody::ConsumerGroupDescribe(describe) => {
            let groups = &describe.groups;
            let mut left = SMALL_DESCRIPTIONS_BYTES;
            let mut is_small = |group_id: &&str| {
                let bytes = shard(group_id).description_bytes(group_id, left);
                left = left.saturating_sub(bytes);
                left > 0
            };
            let small = groups.len() <= SMALL_ENTRIES && groups.iter().all(&mut is_small);
            Some((groups.len(), if small { SMALL_ENTRIES } else { 0 }))
        }
        RequestBody::DeleteGroups(delete) => {
            let groups = &delete.groups_names;
            let offsets = |group_id: &&str| shard(group_id).deletable_offsets_of(group_id);
            let small = groups.len() <= SMALL_ENTRIES
                && groups.iter().map(offsets).sum::<usize>() <= SMALL_DELETED_OFFSETS;
            Some((groups.len(), if small { SMALL_ENTRIES } else { 0 }))
        }
        RequestBody::OffsetFetch(groups) => {
            let count = groups.iter().map(fetch_entries).sum();
            let of_all = groups.iter().filter(|group| group.topics.is_none());
            let found = of_all.map(|group| shard(group.group_id).offset_count_of(group.group_id));
            let small =
                count <= SMALL_FETCH_ENTRIES && count + found.sum::<usize>() <= SMALL_FETCH_ENTRIES;
            Some((count, if small { SMALL_FETCH_ENTRIES } else { 0 }))
        }
        RequestBody::ListGroups(_) => {
            let rows = shards.iter().map(|shard| shard.group_rows() as usize).sum();
            Some((rows, SMALL_LIST_ROWS))
        }
        _ => None,
    }
}

/// Bytes of a frame, for APIs whose requests are bounded, and done in slices where they are long.
pub fn longest_frame_bytes(api: ApiKey) -> Option<usize> {
    let may_be_many = matches!(
        api,
        ApiKey::LeaveGroup
            | ApiKey::DescribeGroups
            | ApiKey::ConsumerGroupDescribe
            | ApiKey::DeleteGroups
            | ApiKey::OffsetFetch
            | ApiKey::ListGroups
    );
    may_be_many.then_some(MAX_FRAME_BYTES)
}

/// The entries of a request that is done in slices.
pub(super) fn many(body: &RequestBody<'_>, shards: &[Shard]) -> Option<usize> {
    let is_named = !matches!(body, RequestBody::ListGroups(_));
    let (count, small) = entries(body, shards)?;
    (count > small).then_some(if is_named { count } else { 0 })
}

/// How many entries of a request of names are done at once, whatever stands behind these.
fn small(long: &Long<'_>) -> usize {
    match long {
        Long::Fetch { .. } => SMALL_FETCH_ENTRIES,
        _ => SMALL_ENTRIES,
    }
}

impl<'a> Arrivals<'a, '_> {
    /// Puts a request of [`many`] entries aside, to be done in slices.
    #[cold]
    pub(super) fn put_aside(
        &mut self,
        arrival: Arrival<'a>,
        frame: &'a [u8],
        body: RequestBody<'a>,
        entries: usize,
    ) {
        let rest = match body {
            RequestBody::ListGroups(ref request) => Rest::list(request),
            _ => {
                let long = match open_request(frame) {
                    Ok(Incoming::Owned(header, mut body)) => {
                        long::check(header.spec.api, header.api_version, &mut body)
                    }
                    other => unreachable!("{other:?} was opened before"),
                };
                Rest::of(long.ok().flatten().expect("it was read before"), frame)
            }
        };
        if self.has_no_room(frame, entries) {
            return self.reply(&arrival.header, |out, version| {
                let error_code = ErrorCode::CoordinatorLoadInProgress;
                api::encode_error(out, version, &body, error_code);
            });
        }
        self.push(arrival, frame, rest, entries);
    }

    /// The same of a frame in which many names have room: if they are many, they are put aside and
    /// no list of them is made. `body` is at its beginning; false: nothing was done.
    #[cold]
    pub(super) fn put_names_aside(
        &mut self,
        arrival: Arrival<'a>,
        frame: &'a [u8],
        mut body: Reader<'a>,
    ) -> Result<bool, DecodeError> {
        let Header { api, version, .. } = arrival.header;
        let Some((checking, group_id)) = Checking::begin(api, version, &mut body)? else {
            return Ok(false);
        };
        let is_unserved =
            api == ApiKey::LeaveGroup && self.unserved(self.shard_of(group_id)).is_some();
        if is_unserved || self.has_no_room(frame, checking.count()) {
            return Ok(false);
        }
        let is_sliced = frame.len() > CHECKED_AT_ONCE_BYTES && checking.count() > 0;
        let (rest, entries) = if is_sliced {
            let entries = checking.count();
            (Rest::check(checking, group_id, frame), entries)
        } else {
            let long = checking.at_once(&mut body, group_id)?;
            let entries = long.entries();
            if entries <= small(&long) || self.has_no_room(frame, entries) {
                return Ok(false);
            }
            (Rest::of(long, frame), entries)
        };
        self.push(arrival, frame, rest, entries);
        Ok(true)
    }

    fn has_no_room(&self, frame: &[u8], entries: usize) -> bool {
        self.slices.waiting_bytes + Sliced::bytes_of(frame.len(), entries) > MAX_WAITING_BYTES
    }

    fn push(&mut self, arrival: Arrival<'a>, frame: &'a [u8], rest: Rest, entries: usize) {
        let sliced = self.sliced(arrival, frame, rest, entries);
        self.slices.push(sliced);
    }
}

impl Node {
    /// Memory of the requests that are done in slices, and not yet done.
    pub fn waiting_bytes(&self) -> usize {
        self.slices.waiting_bytes()
    }

    /// Goes on with what was put aside, as far as one turn goes.
    pub(crate) fn work(&mut self, now_ms: i64, turn: &mut Turn) {
        self.slices.now_ms = now_ms;
        let mut left = TURN_ENTRIES;
        while left > 0
            && let Some(mut sliced) = self.slices.pop()
        {
            let (cost, is_done) = self.work_on(now_ms, &mut sliced, turn);
            left = left.saturating_sub(cost);
            if !is_done {
                self.slices.push(sliced);
            }
        }
    }

    /// Does one slice of a request: what it cost, in entries, and whether it was the last.
    fn work_on(&mut self, now_ms: i64, sliced: &mut Sliced, turn: &mut Turn) -> (usize, bool) {
        if let Rest::Check(_) = sliced.rest {
            return self.check_on(sliced, turn);
        }
        let Sliced { ticket, header, ref client_id, ref session, ref frame, .. } = *sliced;
        let topics = Arc::clone(&self.topics);
        let rows: Vec<u32> = match &sliced.rest {
            Rest::List { .. } => self.shards.iter().map(|shard| shard.group_rows()).collect(),
            _ => Vec::new(),
        };
        let context = RequestContext {
            ticket,
            api_version: header.version,
            client_id,
            client_host: &session.client_host,
            uuid: 0,
        };
        let arrival = Arrival { header, context, session: Some(session) };
        self.budget.take_worked();
        let mut arrivals = self.arrivals(&topics, turn);
        let mut cost = sliced.rest.hand_on(arrival, frame, &rows, &mut arrivals);
        let Arrivals { batches, early, .. } = arrivals;
        let is_done = sliced.rest.is_done(batches.len());
        if is_done && let Some((_, Some(gather), _)) = self.slots.find(ticket) {
            gather.is_growing = false;
            let answer_cost = self.budget.held_bytes_of(ticket) / ENTRY_COST_BYTES;
            cost += (sliced.entries + answer_cost) / ENDED_ENTRIES;
        }
        self.deliver(now_ms, batches, early, turn);
        (cost.max(1) + self.budget.take_worked() / ENTRY_COST_BYTES, is_done)
    }

    /// Checks some names of a request; the last of them is not its last slice, unless it cannot be
    /// read.
    fn check_on(&mut self, sliced: &mut Sliced, turn: &mut Turn) -> (usize, bool) {
        let Sliced { ticket, header, ref frame, .. } = *sliced;
        let (cost, checked) = sliced.rest.check_on(frame);
        match checked {
            Ok(None) => (cost, false),
            Ok(Some((rest, entries))) => {
                if let Some((_, Some(gather), _)) = self.slots.find(ticket) {
                    gather.parts = rest.parts(header.version);
                }
                (sliced.rest, sliced.entries) = (rest, entries);
                (cost, false)
            }
            Err(error) => {
                self.slots.close(ticket);
                turn.invalid.push((header.ticket, unread(&header, error)));
                (cost, true)
            }
        }
    }
}

/// Why a request cannot be read, for the log.
pub(super) fn unread(header: &Header, error: DecodeError) -> String {
    format!("{} v{}: {error}", header.api.spec().name, header.version)
}
