//! N shards behind frames: one [`Node::step`] per turn of the host's loop takes what arrived and
//! what became durable, and gives replies, records to append and the next timeout.
//!
//! This is the API layer (Kafka's `KafkaApis`): it checks topics against the catalogue, routes to
//! shards, splits requests that reach several of them and gathers their answers. It decides
//! nothing about groups, opens nothing, and reads no clock.

#![warn(missing_docs)]

mod answer;
mod arrive;
mod checkpoint;
mod ends;
mod gather;
mod group_configs;
mod heartbeats;
mod leaving;
pub mod outcome;
mod pieces;
pub mod routing;
mod session;
mod shards;
mod slots;
mod stats;
pub mod targets;
mod topics;
mod transactions;
mod turn;
mod uuids;

use std::mem::take;
use std::sync::Arc;

use kcoord_core::budget::AnswerBudget;
use kcoord_core::group_configs::GroupConfigs;
use kcoord_core::inspect::Counters;
use kcoord_core::limits::{MAX_ANSWER_BYTES, MAX_UNSENT_BYTES};
use kcoord_core::response::Response;
use kcoord_core::shard::{Sweep, Swept};
use kcoord_core::{Catalogue, Config, Shard};

pub use arrive::slices;
pub use session::{ANONYMOUS, Session, UNKNOWN_SOFTWARE};
pub use stats::Stats;
pub use topics::Topic;
pub use transactions::{Transactions, Verification};
pub use turn::Turn;

use arrive::{Arrivals, Batch, emptied};
use kcoord_wire::api::RequestBody;
use kcoord_wire::header::ApiKey;
use leaving::Leaving;
use slices::Slices;
use slots::{PART_MASK, Slots};
use targets::Targets;
use topics::Topics;
use transactions::Holding;
use uuids::Uuids;

/// What expires and what deleted topics leave is removed some at a time, as much in a turn, in
/// tombstones. For hosts of [`Node::send_in_parts`]; others have all of it done in one turn.
const TURN_SWEPT: usize = 2_048;

/// One frame of a turn. A ticket has one frame in flight and is never used for another peer.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// The host's number of the request.
    pub ticket: u64,
    /// Of whoever sent it: borrowed, so that a request costs no copy of it.
    pub session: &'a Arc<Session>,
    /// Without its 4-byte length.
    pub bytes: &'a [u8],
}

/// One request of a turn whose header the caller has read, such as a row of a table: it came over no
/// connection, and has no [`Session`]. The ticket is as a frame's.
#[derive(Clone, Debug)]
pub struct Arrived<'a> {
    /// The host's number of the request.
    pub ticket: u64,
    /// Which API.
    pub api: ApiKey,
    /// One that [`ApiSpec::serves`](kcoord_wire::header::ApiSpec::serves).
    pub api_version: i16,
    /// As the client named itself in the request header.
    pub client_id: &'a str,
    /// The client's address, as Java prints it: `/127.0.0.1`.
    pub client_host: &'a str,
    /// The body.
    pub body: RequestBody<'a>,
}

/// What a turn asks of every shard, kept apart from the shards: a turn with one frame must not
/// touch the memory of fifty.
#[derive(Clone, Copy, Debug)]
struct Status {
    /// False while its log is replayed: requests are answered COORDINATOR_LOAD_IN_PROGRESS.
    active: bool,
    /// Another node leads it: requests are answered NOT_COORDINATOR. Never while it is active.
    away: bool,
    /// It may have responses and records to collect.
    touched: bool,
    /// It has not heard of the topics as they are now.
    behind: bool,
    /// What `poll_timeout` said when it was last touched; `i64::MAX`: nothing.
    timeout_ms: i64,
}

const LOADING: Status =
    Status { active: false, away: false, touched: false, behind: true, timeout_ms: i64::MAX };

/// N shards behind frames; see the crate.
pub struct Node {
    config: Config,
    shards: Vec<Shard>,
    /// One for each shard.
    status: Vec<Status>,
    topics: Arc<Topics>,
    /// The same for shards; none before the first [`Node::set_topics`].
    catalogue: Option<Arc<Catalogue>>,
    /// What shards heard of it last.
    told: Option<Arc<Catalogue>>,
    /// Of single consumer groups.
    group_configs: Arc<GroupConfigs>,
    /// A shard may not have heard of it.
    has_news: bool,
    /// What is due waits: see [`Node::hold_timers`].
    timers_held: bool,
    slots: Slots,
    /// Requests that go on in the next turn.
    slices: Slices,
    /// They waited in this turn, for others to be answered.
    has_waited: bool,
    /// Commits in transactions that wait for their coordinators.
    holding: Holding,
    /// Answers that leave in turns to come.
    leaving: Leaving,
    /// Of consumer groups, handed out to be computed.
    targets: Targets,
    /// Its host takes long replies in parts: see [`Node::send_in_parts`].
    sends_in_parts: bool,
    /// What answers may take: lent to the shard that works.
    budget: AnswerBudget,
    uuids: Uuids,
    /// Memory for what arrives in a turn: one for each shard, or none yet; all empty.
    batches: Vec<Batch<'static>>,
    /// Topics that left the catalogue, and the shards that have not heard of it: the others hear
    /// in the next turn, one that is loading when it is loaded.
    deleted: Vec<(usize, Arc<Topic>, Sweep)>,
    /// What happened in shards that were dropped since.
    dropped: Counters,
    tells_events: bool,
}

impl Node {
    /// `seed`: 32 bytes of entropy from the host: member ids and the hash of keys depend on it.
    ///
    /// # Panics
    /// If `shards` is 0.
    pub fn new(mut config: Config, shards: usize, seed: &[u8; 32]) -> Self {
        assert!(shards > 0, "a node hosts at least one shard");
        let mut uuids = Uuids::new(seed);
        let hash_seed = uuids.next();
        config.hash_seed = [hash_seed as u64, (hash_seed >> 64) as u64];
        Node {
            shards: (0..shards).map(|_| Shard::new(config.clone())).collect(),
            status: vec![LOADING; shards],
            topics: Arc::new(Topics::open(config.hash_seed)),
            catalogue: None,
            told: None,
            group_configs: Arc::default(),
            has_news: false,
            timers_held: false,
            slots: Slots::new(config.hash_seed),
            slices: Slices::default(),
            has_waited: false,
            holding: Holding::default(),
            leaving: Leaving::default(),
            targets: Targets::default(),
            sends_in_parts: false,
            budget: AnswerBudget::new(MAX_ANSWER_BYTES, MAX_UNSENT_BYTES, PART_MASK),
            uuids,
            batches: Vec::new(),
            deleted: Vec::new(),
            dropped: Counters::default(),
            tells_events: false,
            config,
        }
    }

    /// The number of shards.
    pub fn shard_count(&self) -> usize {
        self.shards.len()
    }

    /// Read access for introspection.
    pub fn shard(&self, shard: usize) -> &Shard {
        &self.shards[shard]
    }

    /// One turn. `committed`: shard and offset below which everything in its log is durable.
    pub fn step(&mut self, now_ms: i64, frames: &[Frame<'_>], committed: &[(usize, i64)]) -> Turn {
        // Most answers are short; a turn without any takes no memory.
        let capacity = 64 * (frames.len() + committed.len());
        let mut turn = Turn { buffer: Vec::with_capacity(capacity), ..Turn::default() };
        self.begin(now_ms, committed);
        let aside = self.slices.count();
        let decided = self.holding.take_decided();
        if !frames.is_empty() || !decided.is_empty() {
            let topics = Arc::clone(&self.topics);
            let mut arrivals = self.arrivals(&topics, &mut turn);
            decided.iter().for_each(|held| arrivals.go_on(held));
            for frame in frames {
                if let Err(reason) = arrivals.open(frame) {
                    arrivals.turn.invalid.push((frame.ticket, reason));
                }
            }
            let Arrivals { batches, early, .. } = arrivals;
            self.deliver(now_ms, batches, early, &mut turn);
        }
        // Who asks for little is answered first, and does not wait for a slice of what others ask.
        let short = frames.len().saturating_sub(self.slices.count() - aside);
        self.has_waited = short > 0 && !self.has_waited;
        if self.has_waited {
            self.slices.set_now(now_ms);
        } else {
            self.work(now_ms, &mut turn);
        }
        self.end(now_ms, &mut turn);
        turn
    }

    /// The same turn, of requests instead of frames. Their replies are frames all the same, of
    /// correlation id 0, and their outcomes stand beside them. `turn` is one of before: its memory
    /// is used again.
    pub fn step_requests<'a>(
        &mut self,
        now_ms: i64,
        requests: impl Iterator<Item = Arrived<'a>>,
        turn: &mut Turn,
    ) {
        debug_assert!(!self.sends_in_parts, "each of their replies is whole");
        let count = requests.size_hint().1.unwrap_or_default();
        turn.begin(count);
        self.begin(now_ms, &[]);
        let topics = Arc::clone(&self.topics);
        let mut arrivals = self.arrivals(&topics, turn);
        if let [batch] = &mut arrivals.batches[..] {
            batch.reserve(count);
        }
        for request in requests {
            arrivals.take(request);
        }
        let Arrivals { batches, early, .. } = arrivals;
        self.deliver(now_ms, batches, early, turn);
        self.end(now_ms, turn);
    }

    /// A turn without requests.
    pub fn step_due(&mut self, now_ms: i64, turn: &mut Turn) {
        turn.begin(0);
        self.begin(now_ms, &[]);
        self.end(now_ms, turn);
    }

    /// Whether timers wait in the turns to come. For a host that was stopped for long: what its
    /// peers sent meanwhile may renew what is due, and has to be read first.
    pub fn hold_timers(&mut self, held: bool) {
        self.timers_held = held;
    }

    /// Gives back the memory of an append's records, for the next of the shard.
    pub fn reuse(&mut self, shard: usize, records: Vec<u8>) {
        self.shards[shard].reuse(records);
    }

    /// The host counts a shard's records as durable as soon as it takes them: until the shard is
    /// dropped, no answer waits.
    pub fn commit_at_once(&mut self, shard: usize) {
        self.shards[shard].commit_at_once();
    }

    /// Has turns say which request each of a shard's records came of, until the shard is dropped.
    pub fn trace_causes(&mut self, shard: usize) {
        self.shards[shard].trace_causes();
    }

    /// Whether turns say what happens to groups from now on; findings they always do.
    pub fn tell_events(&mut self, on: bool) {
        self.tells_events = on;
        self.shards.iter_mut().for_each(|shard| shard.tell_events(on));
    }

    /// Prefetches the groups of requests that will come in later turns; see [`Shard::prefetch`].
    pub fn prefetch<'a>(&self, shard: usize, group_ids: impl Iterator<Item = &'a str>) {
        self.shards[shard].prefetch(group_ids);
    }

    /// What comes before the requests of a turn: commits, news of topics, timers.
    fn begin(&mut self, now_ms: i64, committed: &[(usize, i64)]) {
        self.budget.take_worked();
        for (shard, offset) in committed {
            if self.status[*shard].active {
                self.shards[*shard].handle_committed(now_ms, *offset);
                self.status[*shard].touched = true;
            }
        }
        if self.targets.are_due() {
            self.take_targets(now_ms);
        }
        if !self.deleted.is_empty() {
            self.tell_deleted(now_ms);
        }
        if take(&mut self.has_news) {
            self.tell_topics(now_ms);
        }
        // The host gave the topics before this turn: what is due goes by them.
        let mut swept = 0;
        for (shard, status) in self.shards.iter_mut().zip(&mut self.status) {
            if status.timeout_ms > now_ms || self.timers_held {
                continue;
            }
            if !self.sends_in_parts {
                shard.handle_timeout(now_ms);
            } else {
                shard.handle_timers(now_ms);
                if swept < TURN_SWEPT {
                    swept += shard.expire_some(now_ms);
                }
            }
            status.touched = true;
        }
    }

    #[cold]
    fn tell_deleted(&mut self, now_ms: i64) {
        let (shards, status) = (&mut self.shards, &mut self.status);
        let mut swept = 0;
        self.deleted.retain_mut(|(at, topic, from)| {
            if !status[*at].active || swept >= TURN_SWEPT {
                return true;
            }
            let shard = &mut shards[*at];
            status[*at].touched = true;
            if !self.sends_in_parts {
                shard.handle_topic_deleted(now_ms, &topic.name, topic.id);
                return false;
            }
            let Swept { cost, left } =
                shard.delete_some_of_topic(now_ms, &topic.name, topic.id, *from);
            swept += cost;
            *from = left.unwrap_or_default();
            left.is_some()
        });
        self.slices.set_now(now_ms);
    }

    /// Offsets of a topic that is gone are still there.
    fn is_deleting(&self) -> bool {
        self.deleted.iter().any(|(shard, ..)| self.status[*shard].active)
    }

    #[inline]
    fn end(&mut self, now_ms: i64, turn: &mut Turn) {
        self.collect(now_ms, turn);
        if self.leaving.is_due() {
            self.leave(turn);
        }
        self.slots.settle();
        turn.next_timeout_ms = self.next_timeout_ms();
    }

    /// The peer of this ticket is gone: forget what it waits for.
    pub fn abandon(&mut self, ticket: u64) {
        self.holding.forget(ticket);
        let Some((request, mut parts)) = self.slots.abandon(ticket) else { return };
        self.budget.release(request);
        self.slices.forget(request);
        self.leaving.forget(request);
        parts.sort_unstable();
        for of_shard in parts.chunk_by(|a, b| a.0 == b.0) {
            let tickets: Vec<u64> = of_shard.iter().map(|(_, ticket)| *ticket).collect();
            self.shards[of_shard[0].0 as usize].abandon_all(&tickets);
        }
    }

    fn arrivals<'a, 'n>(&'n mut self, topics: &'a Topics, turn: &'n mut Turn) -> Arrivals<'a, 'n> {
        let mut batches = take(&mut self.batches);
        batches.resize_with(self.shards.len(), Vec::new);
        Arrivals {
            config: &self.config,
            topics,
            slots: &mut self.slots,
            slices: &mut self.slices,
            holding: &mut self.holding,
            uuids: &mut self.uuids,
            status: &self.status,
            shards: &self.shards,
            batches,
            early: Vec::new(),
            turn,
        }
    }

    fn deliver(
        &mut self,
        now_ms: i64,
        batches: Vec<Batch<'_>>,
        early: Vec<(u64, Response)>,
        turn: &mut Turn,
    ) {
        for (at, batch) in batches.iter().enumerate() {
            if !batch.is_empty() {
                let shard = &mut self.shards[at];
                std::mem::swap(shard.budget(), &mut self.budget);
                shard.handle_batch(now_ms, batch);
                std::mem::swap(shard.budget(), &mut self.budget);
                self.status[at].touched = true;
            }
        }
        for (ticket, response) in early {
            self.answer(ticket, response, turn);
        }
        self.batches = emptied(batches);
    }

    fn collect(&mut self, now_ms: i64, turn: &mut Turn) {
        if self.sends_in_parts {
            self.answer_late(turn);
        }
        for at in 0..self.status.len() {
            if !self.status[at].touched {
                continue;
            }
            while let Some(cause) = self.shards[at].poll_cause() {
                let found = cause.and_then(|ticket| self.slots.find(ticket));
                turn.causes.push(found.map(|(header, ..)| header.ticket));
            }
            while let Some((ticket, response)) = self.shards[at].poll_response() {
                if self.sends_in_parts && !self.leaving.has_room() && self.slots.waited(ticket) {
                    self.leaving.wait(ticket, response);
                } else {
                    self.answer(ticket, response, turn);
                }
            }
            while let Some(ticket) = self.shards[at].poll_given_up() {
                if let Some((header, ..)) = self.slots.find(ticket) {
                    self.slots.close(ticket);
                    turn.given_up.push(header.ticket);
                }
            }
            while let Some(append) = self.shards[at].poll_append() {
                turn.appends.push((at, append));
            }
            turn.take_events(at, std::iter::from_fn(|| self.shards[at].poll_event(now_ms)));
            if self.shards[at].has_target_jobs() {
                self.pass_targets_on(at);
            }
            let timeout_ms = self.shards[at].poll_timeout().unwrap_or(i64::MAX);
            self.status[at] = Status { touched: false, timeout_ms, ..self.status[at] };
        }
    }

    fn next_timeout_ms(&self) -> Option<i64> {
        if let Some(now_ms) = self.slices.due_ms(self.leaving.is_due() || self.is_deleting()) {
            return Some(now_ms);
        }
        let earliest = self.status.iter().map(|status| status.timeout_ms).min();
        let earliest = earliest.filter(|timeout_ms| *timeout_ms != i64::MAX);
        if self.targets.are_due() { self.targets.due_before(earliest) } else { earliest }
    }
}
