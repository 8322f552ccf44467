//! What is fuzzed: bytes that nobody vouches for, through the doors by which they come in. Shared
//! by the bounded run beside this and by the targets of native/fuzz.
//!
//! Any panic is a finding; so is what an `assert` here says. Must never depend on more than `data`.

use std::collections::BTreeMap;
use std::sync::Arc;

use kcoord_core::assignor::sticky::user_data::StickyUserData;
use kcoord_core::consumer_protocol::{Assignment, Subscription};
use kcoord_core::record::batch::BatchHeader;
use kcoord_core::record::consumer::ConsumerGroupRecord;
use kcoord_core::record::{
    Batches, GroupMetadataValue, OffsetCommitValue, RecordKey, TransactionResult,
};
use kcoord_core::request::Uuid;
use kcoord_core::{Config, ErrorCode};
use kcoord_node::{Frame, Node, Session, Topic, Transactions, Turn};
use kcoord_wire::header::{Incoming, open_request};

const SHARDS: usize = 2;
/// Before each frame: what the host does with it, and its length in two bytes.
const FRAME_HEADER: usize = 3;

/// A session: frames of any peers into one node, with time that passes between them and a log
/// whose answer may be late. Afterwards the log is read by another node, which must know as many
/// offsets, and the same of every consumer group.
pub fn session(data: &[u8]) {
    play(data);
}

/// The same; the types that the group `group` had after each frame.
pub fn play(data: &[u8]) -> Vec<&'static str> {
    let mut host = Host::new();
    let mut types = Vec::new();
    let mut rest = data;
    while rest.len() > FRAME_HEADER {
        let control = rest[0];
        let length = usize::from(u16::from_be_bytes([rest[1], rest[2]]));
        let (frame, behind) = rest[FRAME_HEADER..].split_at(length.min(rest.len() - FRAME_HEADER));
        host.is_late = control & 1 != 0;
        host.now_ms += [0, 1, 100, 3_000, 70_000, 700_000][usize::from(control >> 1) % 6];
        host.turn(frame);
        types.extend(host.type_of_group());
        if control & 0x80 != 0 {
            host.node.abandon(host.tickets);
        }
        rest = behind;
    }
    host.is_late = false;
    host.turn(&[]);
    host.turn(&[]);
    host.check();
    types
}

/// A chunk of a log, as the log layer hands it on when its CRCs are right: records of any
/// content, then a shard that serves with what came of them.
pub fn log(data: &[u8]) {
    for batch in Batches::new(data).flatten() {
        for record in batch.records().flatten() {
            if let Some(Ok(RecordKey::ConsumerGroup(key))) = record.key.map(RecordKey::parse) {
                let _ = ConsumerGroupRecord::parse(&key, record.value);
            }
            let _ = record.key.map(TransactionResult::parse_key);
            let _ = record.value.map(GroupMetadataValue::parse);
            let _ = record.value.map(OffsetCommitValue::parse);
        }
    }
    let mut host = Host::empty();
    if host.node.replay(0, data).is_ok() {
        host.node.loaded(0, host.now_ms, i64::MAX / 2);
        for _ in 0..4 {
            host.now_ms += 700_000;
            host.node.step(host.now_ms, &[], &[]);
        }
    }
}

/// What consumers hide in a group's opaque bytes.
pub fn member_data(data: &[u8]) {
    if let Ok(subscription) = Subscription::decode(data) {
        let _ = StickyUserData::decode(subscription.user_data);
        if (0..=3).contains(&subscription.version) {
            let mut written = Vec::new();
            subscription.encode(&mut written);
            assert_eq!(Subscription::decode(&written).as_ref(), Ok(&subscription));
        }
    }
    let _ = Assignment::decode(data);
    let read = StickyUserData::decode(Some(data));
    let mut written = Vec::new();
    read.encode(&mut written);
    assert_eq!(StickyUserData::decode(Some(&written)), read);
}

/// The same every time, down to the member ids that it hands out.
pub fn node() -> Node {
    let mut config = Config { group_initial_rebalance_delay_ms: 0, ..Config::default() };
    config.consumer.assignment_interval_ms = 0;
    let mut node = Node::new(config, SHARDS, &[3; 32]);
    let topic = |name: &str, id, partitions| Topic {
        name: name.into(),
        id: Uuid(id),
        partitions,
        end_offsets: Default::default(),
        racks: Default::default(),
    };
    node.set_topics(vec![topic("orders", 1, 4), topic("payments", 2, 2)]);
    node.send_in_parts();
    node.serve_transactions(Transactions::Verified);
    node
}

/// Of every peer.
pub fn session_of_peers() -> Arc<Session> {
    Arc::new(Session::anonymous("/127.0.0.1", "PLAINTEXT"))
}

/// A node with its log in memory.
struct Host {
    node: Node,
    session: Arc<Session>,
    now_ms: i64,
    /// The log has not answered: what is appended is not committed before it does.
    is_late: bool,
    tickets: u64,
    logs: Vec<Vec<u8>>,
    next_offsets: Vec<i64>,
    committed: Vec<(usize, i64)>,
    /// Correlation ids of what is not answered.
    asked: BTreeMap<u64, i32>,
    /// What came of long replies.
    partial: BTreeMap<u64, Vec<u8>>,
}

impl Host {
    fn new() -> Self {
        let mut host = Host::empty();
        (0..SHARDS).for_each(|shard| host.node.loaded(shard, host.now_ms, 0));
        host
    }

    fn empty() -> Self {
        Host {
            node: node(),
            session: session_of_peers(),
            now_ms: 1_000_000,
            is_late: false,
            tickets: 0,
            logs: vec![Vec::new(); SHARDS],
            next_offsets: vec![0; SHARDS],
            committed: Vec::new(),
            asked: BTreeMap::new(),
            partial: BTreeMap::new(),
        }
    }

    /// One turn, with one frame unless it is empty.
    fn turn(&mut self, bytes: &[u8]) {
        let committed = if self.is_late { Vec::new() } else { std::mem::take(&mut self.committed) };
        let mut frames = Vec::new();
        if !bytes.is_empty() {
            self.tickets += 1;
            frames.push(Frame { ticket: self.tickets, session: &self.session, bytes });
            if let Ok(Incoming::Owned(header, _)) = open_request(bytes) {
                self.asked.insert(self.tickets, header.correlation_id);
            }
        }
        let turn = self.node.step(self.now_ms, &frames, &committed);
        self.take(&turn);
    }

    fn take(&mut self, turn: &Turn) {
        for (ticket, part) in &turn.parts {
            assert!(self.asked.contains_key(ticket), "parts of an answer to nothing");
            self.partial.entry(*ticket).or_default().extend(part);
        }
        for (ticket, reply) in turn.frames() {
            let reply = match self.partial.remove(&ticket) {
                Some(parts) => [parts, reply.into_owned()].concat().into(),
                None => reply,
            };
            let word = |at: usize| i32::from_be_bytes(reply[at..at + 4].try_into().expect("four"));
            assert_eq!(word(0) as usize, reply.len() - 4, "the length of a reply");
            assert_eq!(self.asked.remove(&ticket), Some(word(4)), "asked once, answered once");
        }
        for (ticket, _) in &turn.invalid {
            self.asked.remove(ticket);
        }
        for of in &turn.verifications {
            let refused = (of.producer.id % 2 == 0).then_some(ErrorCode::InvalidTxnState);
            self.node.verified(of.ticket, refused);
        }
        for (shard, append) in &turn.appends {
            assert_eq!(append.base_offset, self.next_offsets[*shard], "the log has no holes");
            let header = BatchHeader::of(append);
            header.encode(&append.records, &mut self.logs[*shard]);
            self.next_offsets[*shard] = append.end_offset();
            self.committed.push((*shard, append.end_offset()));
        }
    }

    /// What was written can be read, and says what is there.
    fn check(&self) {
        let mut again = Host::empty();
        for (shard, log) in self.logs.iter().enumerate() {
            again.node.replay(shard, log).expect("its own log");
            again.node.loaded(shard, self.now_ms, self.next_offsets[shard]);
            let known = |node: &Node| node.shard(shard).counts().offsets;
            assert_eq!(known(&again.node), known(&self.node), "offsets of shard {shard}");
            let open = |node: &Node| node.shard(shard).open_transactions();
            assert_eq!(open(&again.node), open(&self.node), "transactions of shard {shard}");
            for group in self.node.shard(shard).groups() {
                let id = &group.group_id;
                let records = |node: &Node| node.shard(shard).consumer_records(id);
                assert_eq!(records(&again.node), records(&self.node), "records of {id:?}");
            }
        }
    }

    fn type_of_group(&self) -> Option<&'static str> {
        let found = (0..SHARDS).find_map(|shard| self.node.shard(shard).group("group"));
        found.map(|group| group.group_type)
    }
}
