//! N shards behind frames: one [`Node::step`] per turn of the host's loop takes what arrived and
//! what became durable, and gives replies, records to append and the next timeout.
//!
//! This is the API layer (Kafka's `KafkaApis`): it checks topics against the catalogue, routes to
//! shards, splits requests that reach several of them and gathers their answers. It decides
//! nothing about groups, opens nothing, and reads no clock.

mod answer;
mod arrive;
mod gather;
pub mod routing;
mod slots;
mod split;
mod stats;
mod topics;
mod uuids;

use std::sync::Arc;

use kcoord_core::inspect::Counters;
use kcoord_core::outbox::Append;
use kcoord_core::request::{HeartbeatRequest, Request, RequestContext};
use kcoord_core::response::Response;
use kcoord_core::{Config, ErrorCode, ReplayError, Shard};

pub use stats::Stats;
pub use topics::Topic;

use arrive::Arrivals;
use slots::Slots;
use topics::Topics;
use uuids::Uuids;

/// One frame of a turn. A ticket has one frame in flight and is never used for another peer.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    pub ticket: u64,
    /// As Java prints an `InetAddress`: `/127.0.0.1`.
    pub client_host: &'a str,
    /// Without its 4-byte length.
    pub bytes: &'a [u8],
}

/// What one turn yields. The host writes replies, appends records in the given order, answers
/// foreign frames itself and closes the connections of invalid ones.
#[derive(Debug, Default)]
pub struct Turn {
    /// Reply frames back to back, each with its 4-byte length.
    pub buffer: Vec<u8>,
    /// Ticket, start and end in `buffer`.
    pub replies: Vec<(u64, usize, usize)>,
    pub appends: Vec<(usize, Append)>,
    pub foreign: Vec<u64>,
    pub invalid: Vec<(u64, String)>,
    /// Absolute, on the scale of `now_ms`: call `step` again then.
    pub next_timeout_ms: Option<i64>,
}

struct Hosted {
    shard: Shard,
    /// False while its log is replayed: requests are answered COORDINATOR_LOAD_IN_PROGRESS.
    active: bool,
}

pub struct Node {
    config: Config,
    shards: Vec<Hosted>,
    topics: Arc<Topics>,
    slots: Slots,
    uuids: Uuids,
    /// Topics that left the catalogue since the last turn.
    deleted: Vec<Topic>,
    /// What happened in shards that were dropped since.
    dropped: Counters,
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
        let hosted = || Hosted { shard: Shard::new(config.clone()), active: false };
        Node {
            shards: (0..shards).map(|_| hosted()).collect(),
            topics: Arc::new(Topics::open(config.hash_seed)),
            slots: Slots::default(),
            uuids,
            deleted: Vec::new(),
            dropped: Counters::default(),
            config,
        }
    }

    pub fn shard_count(&self) -> usize {
        self.shards.len()
    }

    /// Read access for introspection.
    pub fn shard(&self, shard: usize) -> &Shard {
        &self.shards[shard].shard
    }

    /// The whole catalogue, at each change of it. Until the first call every topic passes. Offsets
    /// of topics that are gone are deleted in the next turn.
    pub fn set_topics(&mut self, topics: impl IntoIterator<Item = Topic>) {
        let next = Topics::of(self.config.hash_seed, topics);
        self.deleted.extend(self.topics.missing_in(&next));
        self.topics = Arc::new(next);
    }

    /// Applies a chunk of whole, uncompressed batches whose CRCs were checked, in log order.
    ///
    /// # Panics
    /// If the shard already serves: a live shard cannot be replayed into.
    pub fn replay(&mut self, shard: usize, chunk: &[u8]) -> Result<(), ReplayError> {
        let hosted = &mut self.shards[shard];
        assert!(!hosted.active, "shard {shard} is live: drop it before replaying its log");
        hosted.shard.replay(chunk)
    }

    /// The shard's log is read to its end; it serves from now on.
    pub fn loaded(&mut self, shard: usize, now_ms: i64, next_offset: i64) {
        let hosted = &mut self.shards[shard];
        assert!(!hosted.active, "shard {shard} is loaded already");
        hosted.shard.loaded(now_ms, next_offset);
        hosted.active = true;
    }

    /// One turn. `committed`: shard and offset below which everything in its log is durable.
    pub fn step(&mut self, now_ms: i64, frames: &[Frame<'_>], committed: &[(usize, i64)]) -> Turn {
        let mut turn = Turn::default();
        for (shard, offset) in committed {
            let hosted = &mut self.shards[*shard];
            if hosted.active {
                hosted.shard.handle_committed(now_ms, *offset);
            }
        }
        for hosted in self.shards.iter_mut().filter(|hosted| hosted.active) {
            if hosted.shard.poll_timeout().is_some_and(|at| at <= now_ms) {
                hosted.shard.handle_timeout(now_ms);
            }
        }
        for topic in std::mem::take(&mut self.deleted) {
            for hosted in self.shards.iter_mut().filter(|hosted| hosted.active) {
                hosted.shard.handle_topic_deleted(now_ms, &topic.name, topic.id);
            }
        }
        self.arrive(now_ms, frames, &mut turn);
        self.collect(&mut turn);
        turn
    }

    /// Heartbeats without frames: group, member and generation of each; the error codes in order.
    pub fn heartbeat_many<'a>(
        &mut self,
        now_ms: i64,
        beats: impl Iterator<Item = (&'a str, &'a str, i32)>,
    ) -> Vec<ErrorCode> {
        let mut batches: Vec<Vec<_>> = Vec::new();
        batches.resize_with(self.shards.len(), Vec::new);
        let mut count = 0;
        for (row, (group_id, member_id, generation_id)) in beats.enumerate() {
            let context = RequestContext {
                ticket: row as u64,
                api_version: 4,
                client_id: "",
                client_host: "",
                uuid: 0,
            };
            let beat =
                HeartbeatRequest { group_id, generation_id, member_id, group_instance_id: None };
            let shard = routing::shard_of(group_id, self.shards.len());
            batches[shard].push((context, Request::Heartbeat(beat)));
            count += 1;
        }
        let mut codes = vec![ErrorCode::None; count];
        for (hosted, batch) in self.shards.iter_mut().zip(batches).filter(|(h, _)| h.active) {
            hosted.shard.handle_batch(now_ms, &batch);
            while let Some((row, response)) = hosted.shard.poll_response() {
                let Response::Heartbeat(code) = response else {
                    unreachable!("every step empties the outbox of other answers")
                };
                codes[row as usize] = code;
            }
        }
        codes
    }

    /// The peer of this ticket is gone: forget what it waits for.
    pub fn abandon(&mut self, ticket: u64) {
        for core_ticket in self.slots.abandon(ticket) {
            for hosted in &mut self.shards {
                hosted.shard.abandon(core_ticket);
            }
        }
    }

    /// The shard's log failed: what it owes is answered NOT_COORDINATOR, its state is forgotten,
    /// and it waits for `replay` and `loaded` as at the start.
    pub fn drop_shard(&mut self, shard: usize) -> Turn {
        let fresh = Hosted { shard: Shard::new(self.config.clone()), active: false };
        let mut dropped = std::mem::replace(&mut self.shards[shard], fresh);
        self.dropped.add(dropped.shard.counters());
        let mut turn = Turn::default();
        while let Some((ticket, response)) = dropped.shard.poll_response() {
            self.answer(ticket, response, &mut turn);
        }
        for (ticket, response) in dropped.shard.drop_parked() {
            self.answer(ticket, response, &mut turn);
        }
        turn.next_timeout_ms = self.next_timeout_ms();
        turn
    }

    fn arrive(&mut self, now_ms: i64, frames: &[Frame<'_>], turn: &mut Turn) {
        if frames.is_empty() {
            return;
        }
        let topics = Arc::clone(&self.topics);
        let active: Vec<bool> = self.shards.iter().map(|hosted| hosted.active).collect();
        let mut arrivals = Arrivals {
            topics: &topics,
            slots: &mut self.slots,
            uuids: &mut self.uuids,
            active: &active,
            batches: std::iter::repeat_with(Vec::new).take(active.len()).collect(),
            early: Vec::new(),
            turn,
        };
        for frame in frames {
            if let Err(reason) = arrivals.open(frame) {
                arrivals.turn.invalid.push((frame.ticket, reason));
            }
        }
        let Arrivals { batches, early, .. } = arrivals;
        for (hosted, batch) in self.shards.iter_mut().zip(batches) {
            if !batch.is_empty() {
                hosted.shard.handle_batch(now_ms, &batch);
            }
        }
        for (ticket, response) in early {
            self.answer(ticket, response, turn);
        }
    }

    fn collect(&mut self, turn: &mut Turn) {
        for at in 0..self.shards.len() {
            if !self.shards[at].active {
                continue;
            }
            while let Some((ticket, response)) = self.shards[at].shard.poll_response() {
                self.answer(ticket, response, turn);
            }
            if let Some(append) = self.shards[at].shard.poll_append() {
                turn.appends.push((at, append));
            }
        }
        turn.next_timeout_ms = self.next_timeout_ms();
    }

    fn next_timeout_ms(&self) -> Option<i64> {
        let active = self.shards.iter().filter(|hosted| hosted.active);
        active.filter_map(|hosted| hosted.shard.poll_timeout()).min()
    }
}
