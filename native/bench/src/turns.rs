//! The turn of a node in which a request arrives that costs more than others: what is not done in
//! slices falls into it.

use std::sync::Arc;

use kcoord_core::Config;
use kcoord_core::request::*;
use kcoord_node::{Frame, Node, Session, Turn};
use kcoord_wire::api::{self, RequestBody};
use kcoord_wire::header::{ApiKey, begin_request, finish_response};

use crate::requests::NOW_MS;
use crate::work::Work;

/// Of each member of the group that rebalances.
const METADATA_BYTES: usize = 20 << 10;
/// The frame that costs much, of a node that was made ready for it.
type Ready = fn(&mut Asked, usize) -> Vec<u8>;

pub struct OneTurn {
    ready: Ready,
    entries: usize,
    asked: Asked,
    frame: Vec<u8>,
}

impl OneTurn {
    fn new(entries: usize, ready: Ready) -> Self {
        OneTurn { ready, entries, asked: Asked::new(), frame: Vec::new() }
    }

    /// The last join of a rebalance, whose leader is told what all subscribe to.
    pub fn joins(members: usize) -> Self {
        OneTurn::new(members, |asked, members| {
            asked.turn(&[join("")]);
            let turn = asked.turn(&[]);
            let first = member_id(&turn);
            (1..members).for_each(|_| _ = asked.turn(&[join("")]));
            join(&first)
        })
    }

    pub fn deletes(offsets: usize) -> Self {
        OneTurn::new(offsets, |asked, offsets| {
            asked.commit(offsets);
            let request = DeleteGroupsRequest { groups_names: vec!["g"] };
            framed(ApiKey::DeleteGroups, 1, &RequestBody::DeleteGroups(request))
        })
    }

    /// All offsets of a group, ten times.
    pub fn fetches(offsets: usize) -> Self {
        OneTurn::new(offsets, |asked, offsets| {
            asked.commit(offsets);
            let group = OffsetFetchRequest {
                group_id: "g",
                member_id: None,
                member_epoch: -1,
                topics: None,
                require_stable: false,
            };
            framed(ApiKey::OffsetFetch, 8, &RequestBody::OffsetFetch(vec![group; 10]))
        })
    }
}

impl Work for OneTurn {
    fn prepare(&mut self) {
        self.asked = Asked::new();
        self.frame = (self.ready)(&mut self.asked, self.entries);
    }

    fn round(&mut self) -> u64 {
        self.asked.turn(std::slice::from_ref(&self.frame));
        1
    }
}

/// A node, and what its host reports durable in the next turn.
struct Asked {
    node: Node,
    session: Arc<Session>,
    tickets: u64,
    committed: Vec<(usize, i64)>,
}

impl Asked {
    fn new() -> Self {
        let config = Config { group_initial_rebalance_delay_ms: 0, ..Config::default() };
        let mut node = Node::new(config, 1, &[7; 32]);
        node.loaded(0, NOW_MS, 0);
        node.send_in_parts();
        let session = Arc::new(Session::anonymous("/127.0.0.1", "PLAINTEXT"));
        Asked { node, session, tickets: 0, committed: Vec::new() }
    }

    fn turn(&mut self, frames: &[Vec<u8>]) -> Turn {
        let session = &self.session;
        let numbered = (self.tickets..).zip(frames);
        let frames: Vec<Frame<'_>> =
            numbered.map(|(ticket, bytes)| Frame { ticket, session, bytes }).collect();
        self.tickets += frames.len() as u64;
        let turn = self.node.step(NOW_MS, &frames, &self.committed);
        assert!(turn.invalid.is_empty(), "{:?}", turn.invalid);
        let end =
            |(shard, append): &(usize, kcoord_core::outbox::Append)| (*shard, append.end_offset());
        self.committed = turn.appends.iter().map(end).collect();
        turn
    }

    fn commit(&mut self, offsets: usize) {
        let partition = |partition_index| OffsetCommitPartition {
            partition_index,
            committed_offset: 1_000_000,
            committed_leader_epoch: 3,
            committed_metadata: Some(""),
        };
        let partitions = (0..offsets as i32).map(partition).collect();
        let request = OffsetCommitRequest {
            group_id: "g",
            generation_id_or_member_epoch: -1,
            member_id: "",
            group_instance_id: None,
            retention_time_ms: -1,
            topics: vec![OffsetCommitTopic { name: "orders", topic_id: Uuid::ZERO, partitions }],
        };
        self.turn(&[framed(ApiKey::OffsetCommit, 7, &RequestBody::OffsetCommit(request))]);
        self.turn(&[]);
    }
}

fn join(member_id: &str) -> Vec<u8> {
    let metadata = vec![7; METADATA_BYTES];
    let request = JoinGroupRequest {
        group_id: "g",
        session_timeout_ms: 30_000,
        rebalance_timeout_ms: 60_000,
        member_id,
        group_instance_id: None,
        protocol_type: "consumer",
        protocols: vec![JoinGroupProtocol { name: "range", metadata: &metadata }],
        reason: None,
    };
    framed(ApiKey::JoinGroup, 3, &RequestBody::JoinGroup(request))
}

/// Of a short answer to JoinGroup v3 of a first member, which leads.
fn member_id(turn: &Turn) -> String {
    let (_, frame) = turn.frames().next().expect("it is answered");
    let (_, mut body) =
        kcoord_wire::header::open_response(ApiKey::JoinGroup, 3, &frame[4..]).expect("a header");
    match api::decode_response(ApiKey::JoinGroup, 3, &mut body).expect("a body") {
        api::ResponseBody::JoinGroup(joined) => joined.member_id.into(),
        other => panic!("{other:?}"),
    }
}

fn framed(api: ApiKey, version: i16, body: &RequestBody<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    let start = begin_request(&mut out, api, version, 7, Some("client"));
    api::encode_request(&mut out, version, body);
    finish_response(&mut out, start);
    out.split_off(4)
}
