//! One shard behind rows: requests with their times from a table, instead of frames from sockets.
//!
//! [`Rows`] drives a [`Node`] of one shard. Rows of one time are one turn; what is due before a row
//! is done at its own time; records are given out and count as durable at once, since whoever has
//! the rows of the answers has those of the records before them. It decides nothing about groups,
//! reads no clock, and does nothing at all with a batch in which any row cannot be right.

#![warn(missing_docs)]

mod answering;
mod arriving;
mod checkpoint;
mod told;
mod turned;

use std::collections::BTreeMap;
use std::fmt;
use std::mem::take;
use std::ops::Range;

use kcoord_core::ErrorCode;
use kcoord_core::event::Event;
use kcoord_core::outbox::Append;
use kcoord_core::record::batch::{Batch, BatchHeader};
use kcoord_core::request::HeartbeatRequest;
use kcoord_core::shard::PREFETCHED_AT_ONCE;

use answering::Came;
use kcoord_node::{Node, Turn};
use kcoord_wire::api;
use told::Told;
use turned::Turned;

/// At most so many rows are one turn, so that its answers stay in the cache. A turn's records are
/// one batch of the log, and logs of streams are followed byte for byte: to change this is to break
/// with the logs that there are.
const ROWS_AT_ONCE: usize = 4096;
/// The one shard of the node.
const SHARD: usize = 0;

/// One request. `None` is a NULL of its column.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// What its answer repeats.
    pub asked: Asked<'a>,
    /// Milliseconds since the epoch; the engine's time when it arrives.
    pub ts: i64,
    /// As the client named itself in the request header.
    pub client_id: Option<&'a str>,
    /// The client's address, as Java prints it: `/127.0.0.1`.
    pub client_host: Option<&'a str>,
    /// The body in Kafka's encoding. A heartbeat with member and generation needs none.
    pub payload: Option<&'a [u8]>,
}

/// What of a row its answer repeats.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Names the request in its answer; nothing else is made of it.
    pub seq: i64,
    /// The group.
    pub group_id: &'a str,
    /// The member.
    pub member_id: Option<&'a str>,
    /// Kafka's number of the API.
    pub api_key: i16,
    /// The version of the body.
    pub api_version: i16,
    /// The generation.
    pub generation: Option<i32>,
}

/// Where rows come from; each is asked for several times.
pub trait Source {
    /// How many there are.
    fn rows(&self) -> usize;
    /// One of them, from 0.
    fn row(&self, at: usize) -> Row<'_>;
    /// The time of a row, alone.
    fn ts(&self, at: usize) -> i64 {
        self.row(at).ts
    }
    /// The number of a row, alone.
    fn seq(&self, at: usize) -> i64 {
        self.asked(at).seq
    }
    /// The group of a row, alone.
    fn group_id(&self, at: usize) -> &str {
        self.asked(at).group_id
    }
    /// What the answer to a row repeats of it.
    fn asked(&self, at: usize) -> Asked<'_> {
        self.row(at).asked
    }
}

impl Source for &[Row<'_>] {
    fn rows(&self) -> usize {
        self.len()
    }

    fn row(&self, at: usize) -> Row<'_> {
        self[at]
    }
}

/// Where answers and records go, turn by turn: the records of a turn, then its answers.
pub trait Sink {
    /// Takes an answer.
    fn answer(&mut self, answer: &Answer<'_>);
    /// Takes a record.
    fn record(&mut self, record: &Record<'_>);
    /// Records that were written together, before each of them.
    fn append(&mut self, _append: &Append) {}
}

/// The answer to a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer<'a> {
    /// Of the row.
    pub seq: i64,
    /// When it was given: later than the row's time if it was parked.
    pub ts: i64,
    /// The group.
    pub group_id: &'a str,
    /// The member: that of the row, or the one that the response gives out.
    pub member_id: Option<&'a str>,
    /// Of the row.
    pub api_key: i16,
    /// The first that the response holds, or why there is none.
    pub error_code: i16,
    /// The generation.
    pub generation: Option<i32>,
    /// `None`: a request that no body can answer (its API or its body cannot be read).
    pub payload: Option<&'a [u8]>,
}

/// A record for the log of the shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its offset in the log of the shard.
    pub offset: i64,
    /// In ms since the epoch.
    pub ts: i64,
    /// The key, in the bytes of `__consumer_offsets`.
    pub key: &'a [u8],
    /// `None`: a tombstone.
    pub value: Option<&'a [u8]>,
    /// `seq` of the row in whose handling it was written; `None`: it came of time, as the end of a
    /// session does.
    pub cause_seq: Option<i64>,
}

/// A row that cannot be right: nothing of its batch was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowError {
    /// Counted from 0.
    pub row: usize,
    /// The column that cannot be right.
    pub column: &'static str,
    /// Why.
    pub reason: String,
}

impl fmt::Display for RowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "row {}, column {}: {}", self.row, self.column, self.reason)
    }
}

impl std::error::Error for RowError {}

/// [`Asked`] by a row that is parked.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Waiting {
    seq: i64,
    group_id: Box<str>,
    member_id: Option<Box<str>>,
    api_key: i16,
    api_version: i16,
    generation: Option<i32>,
}

/// The parked rows, by ticket.
type AllWaiting = BTreeMap<u64, Waiting>;

/// See the module's first lines.
#[derive(Debug)]
pub struct Rows {
    shard: usize,
    shards: usize,
    next_offset: i64,
    /// When the shard last did something; `None`: it was not loaded yet.
    now_ms: Option<i64>,
    next_timeout_ms: Option<i64>,
    next_ticket: u64,
    waiting: AllWaiting,
    told: Told,
    /// Used again and again: of a heartbeat's answer, of a turn, and of which rows it answered.
    body: Vec<u8>,
    turn: Turn,
    answered: Vec<bool>,
}

impl Rows {
    /// `shard` of `shards` is what the node hosts: rows of other groups are refused. `next_offset`:
    /// what was replayed ends there.
    ///
    /// # Panics
    /// If there is no such shard.
    pub fn new(shard: usize, shards: usize, next_offset: i64) -> Self {
        assert!(shard < shards, "shard {shard} of {shards}");
        Rows {
            shard,
            shards,
            next_offset,
            now_ms: None,
            next_timeout_ms: None,
            next_ticket: 0,
            waiting: BTreeMap::new(),
            told: Told::default(),
            body: Vec::new(),
            turn: Turn::default(),
            answered: Vec::new(),
        }
    }

    /// Offset of the next record.
    pub fn next_offset(&self) -> i64 {
        self.next_offset
    }

    /// Rows that are not answered yet, without those that never will be: a member that asks again
    /// ends the wait of what it asked before, as with a broker.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// When it last did something; `None`: it has served nothing.
    pub fn now_ms(&self) -> Option<i64> {
        self.now_ms
    }

    /// When [`advance`](Self::advance) would find something to do.
    pub fn next_timeout_ms(&self) -> Option<i64> {
        self.next_timeout_ms
    }

    /// What happened to groups since it was last asked: the last 10,000, and no more than 4 MiB of
    /// texts. Findings always, the rest while the node tells events.
    pub fn take_events(&mut self) -> Vec<Event> {
        self.told.take()
    }

    /// Events that were lost, the oldest first, because too many waited.
    pub fn events_dropped(&self) -> u64 {
        self.told.dropped()
    }

    /// Serves all rows, in order.
    ///
    /// # Errors
    /// A row that cannot be right; then nothing was done.
    pub fn process(
        &mut self,
        node: &mut Node,
        source: &impl Source,
        sink: &mut impl Sink,
    ) -> Result<(), RowError> {
        let mut before_ms = self.now_ms.unwrap_or(0);
        for at in 0..source.rows() {
            arriving::check(at, &source.row(at), before_ms, self.shard, self.shards)?;
            before_ms = source.ts(at);
        }
        let (mut start, mut prefetched) = (0, 0);
        while start < source.rows() {
            let ts = source.ts(start);
            if prefetched <= start {
                prefetched = source.rows().min(start + PREFETCHED_AT_ONCE);
                // A turn that is as long prefetches them itself.
                if source.ts(prefetched - 1) != ts {
                    node.prefetch(SHARD, (start..prefetched).map(|at| source.group_id(at)));
                }
            }
            let last = source.rows().min(start + ROWS_AT_ONCE);
            let end = (start..last).find(|at| source.ts(*at) != ts).unwrap_or(last);
            self.catch_up(node, ts.saturating_sub(1), sink);
            self.turn(node, ts, start..end, source, sink);
            start = end;
        }
        Ok(())
    }

    /// Lets time pass up to `now_ms`; one that is over already is no news.
    pub fn advance(&mut self, node: &mut Node, now_ms: i64, sink: &mut impl Sink) {
        self.load(node, now_ms);
        self.catch_up(node, now_ms, sink);
        if self.now_ms.is_none_or(|before| before < now_ms) {
            self.idle(node, now_ms, sink);
        }
    }

    fn load(&mut self, node: &mut Node, now_ms: i64) {
        if self.now_ms.is_none() {
            node.loaded(SHARD, now_ms, self.next_offset);
            serve(node);
            self.now_ms = Some(now_ms);
        }
    }

    /// Does what is due up to `until_ms`, each at its own time.
    fn catch_up(&mut self, node: &mut Node, until_ms: i64, sink: &mut impl Sink) {
        while let Some(due_ms) = self.next_timeout_ms.filter(|due_ms| *due_ms <= until_ms) {
            self.idle(node, due_ms, sink);
        }
    }

    /// A turn without rows.
    fn idle(&mut self, node: &mut Node, now_ms: i64, sink: &mut impl Sink) {
        node.step_due(now_ms, &mut self.turn);
        self.finish_alone(node, now_ms, sink);
    }

    fn turn(
        &mut self,
        node: &mut Node,
        ts: i64,
        range: Range<usize>,
        source: &impl Source,
        sink: &mut impl Sink,
    ) {
        self.load(node, ts);
        if let Some(beats) = arriving::beats(source, &range) {
            return self.beat(node, ts, range, &beats, source, sink);
        }
        let mut turned = Turned::new(self.next_ticket, source, range, take(&mut self.answered));
        self.next_ticket += turned.range.len() as u64;
        let mut refused = Vec::new();
        let (first, range) = (turned.first_ticket, turned.range.clone());
        let requests = range.clone().filter_map(|at| {
            let ticket = first + (at - range.start) as u64;
            let arrived = arriving::arrived(ticket, source.row(at));
            arrived.map_err(|code| refused.push((ticket, code))).ok()
        });
        node.step_requests(ts, requests, &mut self.turn);
        self.finish(node, ts, &mut turned, sink);
        for (ticket, code) in refused {
            let came = Came::Refused(code);
            answering::answer(ts, ticket, came, &mut self.waiting, &mut turned, sink);
        }
        self.park(&turned);
        self.answered = turned.into_memory();
    }

    /// A turn of heartbeats alone, which most are: each is answered at once, and by a code.
    fn beat(
        &mut self,
        node: &mut Node,
        ts: i64,
        range: Range<usize>,
        beats: &[HeartbeatRequest<'_>],
        source: &impl Source,
        sink: &mut impl Sink,
    ) {
        let mut codes = Vec::with_capacity(beats.len());
        node.step_heartbeats(ts, beats, &mut codes, &mut self.turn);
        self.finish_alone(node, ts, sink);
        self.next_ticket += range.len() as u64;
        for (at, code) in range.zip(codes) {
            let asked = source.asked(at);
            self.body.clear();
            api::heartbeat::encode_response(&mut self.body, asked.api_version, &code);
            sink.answer(&Answer {
                seq: asked.seq,
                ts,
                group_id: asked.group_id,
                member_id: asked.member_id,
                api_key: asked.api_key,
                error_code: code.code(),
                generation: asked.generation,
                payload: Some(&self.body),
            });
        }
    }

    /// Gives out what a turn yielded: records first, which whoever takes them has to keep before
    /// any answer is believed.
    fn finish<S: Source>(
        &mut self,
        node: &mut Node,
        now_ms: i64,
        turned: &mut Turned<'_, S>,
        sink: &mut impl Sink,
    ) {
        self.now_ms = Some(now_ms);
        let Rows { turn, waiting, .. } = self;
        let mut causes = turn.causes.iter();
        for (_, append) in turn.appends.drain(..) {
            records(&append, sink, || turned.seq((*causes.next()?)?));
            self.next_offset = append.end_offset();
            node.reuse(SHARD, append.records);
        }
        let mut outcomes = turn.outcomes.iter_mut().flatten();
        for (ticket, start, end) in &turn.replies {
            let outcome = outcomes.next().and_then(Option::take);
            let frame = &turn.buffer[*start..*end];
            answering::answer(now_ms, *ticket, Came::Frame(frame, outcome), waiting, turned, sink);
        }
        for ticket in &turn.given_up {
            waiting.remove(ticket);
            turned.give_up(*ticket);
        }
        for (ticket, _) in &turn.invalid {
            let came = Came::Refused(ErrorCode::InvalidRequest);
            answering::answer(now_ms, *ticket, came, waiting, turned, sink);
        }
        if !turn.events.is_empty() {
            self.told.extend(turn.events.drain(..));
        }
        self.next_timeout_ms = turn.next_timeout_ms;
    }

    /// The same for a turn that answers no row of its own.
    fn finish_alone(&mut self, node: &mut Node, now_ms: i64, sink: &mut impl Sink) {
        let nobody: &[Row<'_>] = &[];
        let turned = &mut Turned::new(self.next_ticket, &nobody, 0..0, Vec::new());
        self.finish(node, now_ms, turned, sink);
    }

    /// Keeps what is needed to answer the rows of a turn that it did not answer.
    fn park<S: Source>(&mut self, turned: &Turned<'_, S>) {
        for (ticket, asked) in turned.unanswered() {
            let waiting = Waiting {
                seq: asked.seq,
                group_id: asked.group_id.into(),
                member_id: asked.member_id.map(Into::into),
                api_key: asked.api_key,
                api_version: asked.api_version,
                generation: asked.generation,
            };
            self.waiting.insert(ticket, waiting);
        }
    }
}

/// What a node does for rows only.
fn serve(node: &mut Node) {
    node.commit_at_once(SHARD);
    node.trace_causes(SHARD);
}

fn records(append: &Append, sink: &mut impl Sink, mut cause_seq: impl FnMut() -> Option<i64>) {
    sink.append(append);
    let header = BatchHeader::of(append);
    let batch = Batch { position: 0, header, records: &append.records };
    for record in batch.records() {
        let record = record.expect("a record that was just written");
        sink.record(&Record {
            offset: record.offset,
            ts: record.timestamp,
            key: record.key.expect("every record of a shard has a key"),
            value: record.value,
            cause_seq: cause_seq(),
        });
    }
}
