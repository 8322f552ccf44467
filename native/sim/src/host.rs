//! What stands around the node: its clock, its disk, its inbox. It does what a server does, in the
//! same order, and may be lost between any two of its steps.

use std::rc::Rc;
use std::sync::Arc;

use kcoord_core::outbox::Append;
use kcoord_core::record::batch::BatchKind;
use kcoord_core::request::Uuid;
use kcoord_core::{Config, ErrorCode};
use kcoord_node::{Frame, Node, Session, Topic, Transactions, Turn};
use kcoord_wire::api::{self, ResponseBody};
use kcoord_wire::header::open_response;
use rand::RngExt;

use crate::ask::{Ask, Body, CORRELATION_ID, RACK};
use crate::breaks::Break;
use crate::catalogue::Catalogue;
use crate::checker::Now;
use crate::disk::Log;
use crate::plan::{FIRST_MIXED, GROUPS, Plan, TOPICS, random};
use crate::tickets::Tickets;

/// A request that arrived and was not yet handed to the node.
pub struct Arrived {
    pub ticket: u64,
    pub ask: Rc<Ask>,
    pub frame: Vec<u8>,
}

pub struct Host {
    plan_seed: u64,
    targets_aside: Option<usize>,
    config: Config,
    pub shards: usize,
    /// `None`: it was lost, and is not there again.
    pub node: Option<Node>,
    pub logs: Vec<Log>,
    pub inbox: Vec<Arrived>,
    /// Handed to the node, and not answered.
    pub asked: Tickets<Rc<Ask>>,
    /// What became durable and was not yet reported.
    pub committed: Vec<(usize, i64)>,
    /// Shards that serve.
    pub is_active: Vec<bool>,
    /// One more each time that a shard is dropped: what was under way for it is void.
    pub epochs: Vec<u64>,
    /// Node clock minus the world's.
    pub skew_ms: i64,
    /// Of clients, by their hosts.
    sessions: [Arc<Session>; CLIENT_HOSTS.len()],
    pub boots: u64,
    broken: Option<Break>,
    /// Faults have stopped.
    pub is_calm: bool,
}

pub const CLIENT_HOSTS: [&str; 4] = ["/10.0.0.1", "/10.0.0.2", "/10.0.0.3", "/10.0.0.4"];

impl Host {
    pub fn new(plan: &Plan, broken: Option<Break>) -> Host {
        let mut config = plan.config.clone();
        if broken == Some(Break::ExpireEarly) {
            config.offsets_retention_ms /= 2;
        }
        Host {
            plan_seed: plan.seed,
            targets_aside: plan.targets_aside,
            config,
            shards: plan.shards,
            node: None,
            logs: vec![Log::default(); plan.shards],
            inbox: Vec::new(),
            asked: Tickets::default(),
            committed: Vec::new(),
            is_active: vec![false; plan.shards],
            epochs: vec![0; plan.shards],
            skew_ms: 1_700_000_000_000,
            sessions: CLIENT_HOSTS.map(|host| Arc::new(Session::anonymous(host, "PLAINTEXT"))),
            boots: 0,
            broken,
            is_calm: false,
        }
    }

    /// A new process, whose shards have everything to load.
    pub fn boot(&mut self, catalogue: &Catalogue, other_entropy: u64) {
        self.boots += 1;
        let mut entropy = [0; 32];
        random(self.plan_seed ^ other_entropy, 20_000 + self.boots).fill(&mut entropy[..]);
        let mut node = Node::new(self.config.clone(), self.shards, &entropy);
        if let Some(above) = self.targets_aside {
            node.hand_targets_out(above);
        }
        node.set_topics(topics(catalogue, self.broken));
        node.serve_transactions(Transactions::Verified);
        self.node = Some(node);
    }

    pub fn set_topics(&mut self, catalogue: &Catalogue) {
        if let Some(node) = &mut self.node {
            node.set_topics(topics(catalogue, self.broken));
        }
    }

    /// What the checker gets.
    pub fn now(&self, node_ms: i64) -> Now<'_> {
        Now { node_ms, logs: &self.logs, is_active: &self.is_active }
    }

    /// One turn: all that arrived, and all that became durable.
    pub fn turn(&mut self, node_ms: i64) -> Turn {
        let node = self.node.as_mut().expect("the node is there");
        let mut inbox = std::mem::take(&mut self.inbox);
        let frames: Vec<Frame<'_>> = inbox
            .iter()
            .map(|arrived| Frame {
                ticket: arrived.ticket,
                session: &self.sessions[arrived.ask.client % CLIENT_HOSTS.len()],
                bytes: &arrived.frame,
            })
            .collect();
        let turn = node.step(node_ms, &frames, &self.committed);
        self.committed.clear();
        for arrived in inbox.drain(..) {
            self.asked.insert(arrived.ticket, arrived.ask);
        }
        self.inbox = inbox;
        turn
    }

    /// The replies of a turn, read as their clients read them.
    pub fn answers(&mut self, turn: &Turn) -> Vec<(u64, Rc<Ask>, ResponseBody)> {
        let mut answers = Vec::with_capacity(turn.replies.len());
        let mut end = 0;
        for (_, start, reply_end) in &turn.replies {
            assert_eq!(*start, end, "replies stand back to back");
            end = *reply_end;
        }
        for (ticket, frame) in turn.frames() {
            let ask = self.asked.remove(ticket).expect("asked, and answered once");
            let frame = &frame[4..];
            let (correlation_id, mut body) =
                open_response(ask.api(), ask.version, frame).expect("a response header");
            assert_eq!(correlation_id, CORRELATION_ID);
            let answer = api::decode_response(ask.api(), ask.version, &mut body);
            let mut answer = answer.unwrap_or_else(|error| panic!("{ask}: {error}"));
            assert_eq!(body.remaining(), 0, "{ask}: bytes behind the answer");
            self.mangle(&ask, &mut answer);
            answers.push((ticket, ask, answer));
        }
        answers
    }

    /// Deliberate breaks of what the node says.
    fn mangle(&self, ask: &Ask, answer: &mut ResponseBody) {
        match (self.broken, answer) {
            (Some(Break::StaleGeneration), ResponseBody::JoinGroup(joined))
                if joined.generation_id > 1 && ask.client % 2 == 1 =>
            {
                joined.generation_id -= 1;
            }
            (Some(Break::ForgiveHeartbeat), ResponseBody::Heartbeat(code))
                if matches!(code, ErrorCode::UnknownMemberId | ErrorCode::FencedInstanceId)
                    && !matches!(ask.body, Body::Garbled) =>
            {
                *code = ErrorCode::None;
            }
            (Some(Break::EarlierEpoch), ResponseBody::ConsumerGroupHeartbeat(Ok(beaten)))
                if beaten.member_epoch > 2 && ask.generation_id == beaten.member_epoch =>
            {
                beaten.member_epoch -= 1;
            }
            (Some(Break::SwallowAssignments), ResponseBody::ConsumerGroupHeartbeat(Ok(beaten)))
                if self.is_calm =>
            {
                beaten.assignment = None;
            }
            (Some(Break::SwallowRebalances), ResponseBody::Heartbeat(code))
                if self.is_calm
                    && ask.group >= FIRST_MIXED
                    && *code == ErrorCode::RebalanceInProgress =>
            {
                *code = ErrorCode::None;
            }
            (Some(Break::ReadUndecided), ResponseBody::OffsetFetch(groups)) => {
                for group in groups {
                    *group = group.map_partitions(group.error_code(), |mut partition| {
                        if partition.error_code == ErrorCode::UnstableOffsetCommit {
                            partition.error_code = ErrorCode::None;
                        }
                        partition
                    });
                }
            }
            (Some(Break::StaleRead), ResponseBody::OffsetFetch(groups)) => {
                for group in groups {
                    *group = group.map_partitions(group.error_code(), |mut partition| {
                        partition.committed_offset = (partition.committed_offset - 1).max(-1);
                        partition
                    });
                }
            }
            _ => {}
        }
    }

    /// Deliberate breaks of what the node writes.
    pub fn mangle_records(&self, append: &mut Append) {
        let records = &mut append.records;
        if self.broken == Some(Break::OtherMarker) && matches!(append.kind, BatchKind::EndMarker(_))
        {
            records[MARKER_TYPE_AT] = 0;
        }
        if self.broken == Some(Break::MangleEpoch)
            && let BatchKind::Transactional(producer) = &mut append.kind
        {
            producer.epoch += 1;
        }
        if self.broken == Some(Break::KeepClassic)
            && let Some(at) = upgrade(records)
        {
            records[at + KEY_BYTES - 1] = b'9';
        }
        let text = match self.broken {
            Some(Break::MangleRecord) => CLIENT_HOSTS[0].as_bytes(),
            Some(Break::MangleRack) => RACK.as_bytes(),
            _ => return,
        };
        if let Some(at) = records.windows(text.len()).position(|window| window == text) {
            records[at + text.len() - 1] = b'9';
        }
    }

    /// And of what it decides to write.
    pub fn mangle_decision(&self, records: &mut [u8]) {
        if self.broken == Some(Break::BeginAnew)
            && let Some(at) = upgrade(records)
        {
            let group = [records[at + KEY_BYTES - 2], records[at + KEY_BYTES - 1]];
            let members = position(records, 5, group);
            let of_group = position(records, 3, group);
            if let (Some(members), Some(of_group)) = (members, of_group)
                && members < of_group
            {
                // Behind the length of the value and its version.
                records[of_group + KEY_BYTES + 3..][..4].copy_from_slice(&1i32.to_be_bytes());
            }
        }
    }

    /// The process is gone. What was asked is never answered.
    pub fn lose(&mut self) {
        self.node = None;
        self.inbox.clear();
        self.asked.clear();
        self.committed.clear();
        self.is_active.iter_mut().for_each(|active| *active = false);
        self.epochs.iter_mut().for_each(|epoch| *epoch += 1);
    }
}

/// Bytes of a key that has a group's id and nothing else.
const KEY_BYTES: usize = 6;

/// Of an end marker's record: the low byte of the type in its key, behind five varints of a byte
/// each and the key's version.
const MARKER_TYPE_AT: usize = 8;

/// Where the key of a record of a group stands.
fn position(records: &[u8], key_type: u8, group: [u8; 2]) -> Option<usize> {
    let key = [0, key_type, 0, 2, group[0], group[1]];
    records.windows(KEY_BYTES).position(|window| window == key)
}

/// Where the key of a classic group stands whose members make a consumer group.
fn upgrade(records: &[u8]) -> Option<usize> {
    GROUPS[FIRST_MIXED..].iter().find_map(|id| {
        let group = [id.as_bytes()[0], id.as_bytes()[1]];
        let at = position(records, 2, group)?;
        let is_tombstone = records.get(at + KEY_BYTES) == Some(&1);
        let becomes = position(records, 3, group).is_some_and(|other| other > at);
        (is_tombstone && becomes).then_some(at)
    })
}

fn topics(catalogue: &Catalogue, broken: Option<Break>) -> Vec<Topic> {
    let phantoms = i32::from(broken == Some(Break::PhantomPartition));
    let topics = TOPICS.into_iter().zip(catalogue.topics);
    let existing = topics.filter_map(|(name, topic)| {
        topic.map(|topic| Topic {
            name: name.into(),
            id: Uuid(topic.id),
            partitions: topic.partitions + phantoms,
            end_offsets: Default::default(),
            racks: Default::default(),
        })
    });
    existing.collect()
}
