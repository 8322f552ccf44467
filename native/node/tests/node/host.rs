//! A node and its host: a clock, a log in memory per shard, and peers that speak frames.

use std::collections::BTreeMap;
use std::sync::Arc;

use kcoord_core::Config;
use kcoord_core::record::batch::BatchHeader;
use kcoord_core::request::Uuid;
use kcoord_core::targets::TargetJob;
use kcoord_node::{Frame, Node, Session, Topic, Turn, Verification, routing};
use kcoord_wire::api::{self, RequestBody, ResponseBody};
use kcoord_wire::header::{ApiKey, begin_request, finish_response, open_response};

pub const CLIENT_ID: &str = "client";
pub const CLIENT_HOST: &str = "/127.0.0.1";

pub struct Host {
    pub node: Node,
    /// Of all peers.
    pub session: Arc<Session>,
    pub now_ms: i64,
    pub shards: usize,
    /// Appended and not reported: nothing becomes durable.
    pub is_held: bool,
    /// What is appended is reported in the next turn that is asked for, not in one of its own.
    pub is_turn_by_turn: bool,
    pub answers: BTreeMap<u64, ResponseBody>,
    pub invalid: Vec<(u64, String)>,
    pub foreign: Vec<u64>,
    pub verifications: Vec<Verification>,
    pub next_timeout_ms: Option<i64>,
    /// What came of long replies, and bytes of the last turn.
    pub partial: BTreeMap<u64, Vec<u8>>,
    pub turn_bytes: usize,
    pub target_jobs: Vec<TargetJob>,
    logs: Vec<Vec<u8>>,
    next_offsets: Vec<i64>,
    committed: Vec<(usize, i64)>,
    asked: BTreeMap<u64, (ApiKey, i16)>,
    tickets: u64,
}

impl Host {
    /// All shards loaded, every topic accepted.
    pub fn new(shards: usize) -> Self {
        let mut host = Host::loading(shards);
        (0..shards).for_each(|shard| host.load(shard));
        host
    }

    pub fn loading(shards: usize) -> Self {
        Host::loading_with(Config::default(), shards)
    }

    /// But for the initial delay, which is none.
    pub fn loading_with(config: Config, shards: usize) -> Self {
        Host::of(Config { group_initial_rebalance_delay_ms: 0, ..config }, shards)
    }

    /// Nothing is loaded yet.
    pub fn of(config: Config, shards: usize) -> Self {
        Host {
            node: Node::new(config, shards, &[7; 32]),
            session: Arc::new(Session::anonymous(CLIENT_HOST, "PLAINTEXT")),
            now_ms: 1_000,
            shards,
            is_held: false,
            is_turn_by_turn: false,
            answers: BTreeMap::new(),
            invalid: Vec::new(),
            foreign: Vec::new(),
            verifications: Vec::new(),
            next_timeout_ms: None,
            partial: BTreeMap::new(),
            turn_bytes: 0,
            target_jobs: Vec::new(),
            logs: vec![Vec::new(); shards],
            next_offsets: vec![0; shards],
            committed: Vec::new(),
            asked: BTreeMap::new(),
            tickets: 0,
        }
    }

    /// Replays the log of a shard, and lets it serve.
    pub fn load(&mut self, shard: usize) {
        self.node.replay(shard, &self.logs[shard]).expect("its own log");
        self.node.loaded(shard, self.now_ms, self.next_offsets[shard]);
    }

    /// Another, on what the logs hold: as after a crash.
    pub fn restarted(&self) -> Self {
        let mut host = Host::loading(self.shards);
        host.logs.clone_from(&self.logs);
        host.next_offsets.clone_from(&self.next_offsets);
        for (shard, end_offset) in &self.committed {
            host.next_offsets[*shard] = *end_offset;
        }
        (0..self.shards).for_each(|shard| host.load(shard));
        host
    }

    pub fn topics(&mut self, topics: &[(&str, u128, i32)]) {
        self.node.set_topics(topics.iter().map(topic));
    }

    pub fn change_topics(&mut self, changed: &[(&str, u128, i32)], gone: &[&str]) {
        let gone = gone.iter().map(|name| Box::from(*name));
        self.node.change_topics(changed.iter().map(topic), gone);
    }

    pub fn shard_of(&self, group_id: &str) -> usize {
        routing::shard_of(group_id, self.shards)
    }

    /// Two group ids of different shards.
    pub fn apart(&self) -> (String, String) {
        let first = String::from("g-0");
        let other = (1..).map(|n| format!("g-{n}"));
        let mut other = other.filter(|id| self.shard_of(id) != self.shard_of("g-0"));
        (first, other.next().expect("there are several shards"))
    }

    /// The answer, once everything that was appended for it is durable.
    pub fn ask(&mut self, version: i16, body: &RequestBody<'_>) -> ResponseBody {
        let ticket = self.send(version, body);
        self.take(ticket)
    }

    pub fn send(&mut self, version: i16, body: &RequestBody<'_>) -> u64 {
        let frame = frame(version, body);
        self.send_frames(&[frame])[0]
    }

    /// All in one turn.
    pub fn send_frames(&mut self, frames: &[Vec<u8>]) -> Vec<u64> {
        let tickets: Vec<u64> = (self.tickets..).take(frames.len()).collect();
        self.tickets += frames.len() as u64;
        for (ticket, bytes) in tickets.iter().zip(frames) {
            if let Ok(kcoord_wire::header::Incoming::Owned(header, _)) =
                kcoord_wire::header::open_request(bytes)
            {
                self.asked.insert(*ticket, (header.spec.api, header.api_version));
            }
        }
        let session = Arc::clone(&self.session);
        let frames: Vec<Frame<'_>> = tickets
            .iter()
            .zip(frames)
            .map(|(ticket, bytes)| Frame { ticket: *ticket, session: &session, bytes })
            .collect();
        self.step(&frames);
        tickets
    }

    pub fn take(&mut self, ticket: u64) -> ResponseBody {
        self.answers.remove(&ticket).unwrap_or_else(|| panic!("ticket {ticket} is not answered"))
    }

    pub fn waits(&self, ticket: u64) -> bool {
        !self.answers.contains_key(&ticket)
    }

    pub fn sleep(&mut self, ms: i64) {
        self.now_ms += ms;
        self.step(&[]);
    }

    /// What was held becomes durable.
    pub fn release(&mut self) {
        self.is_held = false;
        self.step(&[]);
    }

    /// What was held is lost, as with a failed append.
    pub fn drop_shard(&mut self, shard: usize) {
        self.committed.retain(|(held, _)| *held != shard);
        let turn = self.node.drop_shard(shard);
        assert!(turn.appends.is_empty());
        self.deliver(&turn);
    }

    fn step(&mut self, frames: &[Frame<'_>]) {
        let committed = if self.is_held { Vec::new() } else { std::mem::take(&mut self.committed) };
        for (shard, offset) in &committed {
            self.next_offsets[*shard] = *offset;
        }
        let turn = self.node.step(self.now_ms, frames, &committed);
        self.deliver(&turn);
        if !self.is_held && !self.is_turn_by_turn && !self.committed.is_empty() {
            self.step(&[]);
        }
    }

    fn deliver(&mut self, turn: &Turn) {
        let mut end = 0;
        for (_, start, reply_end) in &turn.replies {
            assert_eq!(*start, end, "replies stand back to back");
            end = *reply_end;
        }
        assert_eq!(end, turn.buffer.len());
        self.turn_bytes = turn.buffer.len();
        for (ticket, part) in &turn.parts {
            self.turn_bytes += part.len();
            self.partial.entry(*ticket).or_default().extend(part);
        }
        for (ticket, frame) in turn.frames() {
            let frame = match self.partial.remove(&ticket) {
                Some(parts) => [parts, frame.into_owned()].concat().into(),
                None => frame,
            };
            let (api, version) = self.asked.remove(&ticket).expect("asked, and answered once");
            let length = u32::from_be_bytes(frame[..4].try_into().expect("four bytes"));
            assert_eq!(length as usize, frame.len() - 4);
            let (correlation_id, mut body) =
                open_response(api, version, &frame[4..]).expect("a header");
            assert_eq!(correlation_id, 77);
            let answer = api::decode_response(api, version, &mut body).expect("a body");
            self.answers.insert(ticket, answer);
        }
        for (shard, append) in &turn.appends {
            if !self.is_held {
                batch(append).iter().for_each(|byte| self.logs[*shard].push(*byte));
            }
            self.committed.push((*shard, append.end_offset()));
        }
        self.invalid.extend(turn.invalid.iter().cloned());
        self.foreign.extend(&turn.foreign);
        self.verifications.extend(turn.verifications.iter().cloned());
        self.target_jobs.extend(std::iter::from_fn(|| self.node.poll_target_job()));
        self.next_timeout_ms = turn.next_timeout_ms;
    }
}

fn topic((name, id, partitions): &(&str, u128, i32)) -> Topic {
    Topic {
        name: Box::from(*name),
        id: Uuid(*id),
        partitions: *partitions,
        end_offsets: Vec::new(),
        racks: Vec::new(),
    }
}

/// Without its length, as the node takes it.
pub fn frame(version: i16, body: &RequestBody<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    let start = begin_request(&mut out, body.api(), version, 77, Some(CLIENT_ID));
    api::encode_request(&mut out, version, body);
    finish_response(&mut out, start);
    out.split_off(4)
}

fn batch(append: &kcoord_core::outbox::Append) -> Vec<u8> {
    let mut bytes = Vec::new();
    BatchHeader::of(append).encode(&append.records, &mut bytes);
    bytes
}
