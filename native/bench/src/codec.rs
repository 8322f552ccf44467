//! Frames: read and answered without a shard behind them, and through a node with 50 shards.

use std::hint::black_box;
use std::sync::Arc;

use kcoord_core::ErrorCode;
use kcoord_core::request::{Request, Uuid};
use kcoord_core::response::*;
use kcoord_node::{Frame, Node, Session, Topic, Turn};
use kcoord_wire::api::{self, RequestBody, ResponseBody};
use kcoord_wire::header::{
    ApiKey, Incoming, begin_request, begin_response, finish_response, open_request, open_response,
};

use crate::hosted::{BEAT_MS, MADE_OVER_MS, moment, seal, succeeded};
use crate::requests::{
    Member, NOW_MS, TOPIC, commit, config, fetch, framed, group_id, heartbeat, join, sync,
};
use crate::work::{Work, shuffled};

/// As many as Kafka's log of offsets has partitions.
pub const SHARDS: usize = 50;
const SEED: [u8; 32] = [7; 32];
const COMMITTED: i32 = 5;
/// Frames of a turn.
const BATCH: usize = 256;

/// The versions that most clients use.
fn version(api: ApiKey) -> i16 {
    match api {
        ApiKey::Heartbeat | ApiKey::JoinGroup | ApiKey::SyncGroup => 3,
        ApiKey::OffsetCommit => 7,
        _ => 5,
    }
}

/// Without its length, as a node takes it.
fn frame(api: ApiKey, body: &RequestBody<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    let start = begin_request(&mut out, api, version(api), 7, Some("orders-service-1"));
    api::encode_request(&mut out, version(api), body);
    finish_response(&mut out, start);
    out.split_off(4)
}

fn heartbeat_frame(member: &Member) -> Vec<u8> {
    frame(ApiKey::Heartbeat, &RequestBody::Heartbeat(heartbeat(member)))
}

fn commit_frame(member: &Member, partitions: i32) -> Vec<u8> {
    frame(ApiKey::OffsetCommit, &RequestBody::OffsetCommit(commit(member, partitions)))
}

fn fetch_frame(member: &Member) -> Vec<u8> {
    let group = fetch(member.group_id, COMMITTED);
    frame(ApiKey::OffsetFetch, &RequestBody::OffsetFetch(vec![group]))
}

/// Reads a request and writes an answer that is there already.
pub struct Codec {
    frame: Vec<u8>,
    answer: ResponseBody,
    buffer: Vec<u8>,
    count: usize,
}

impl Codec {
    fn new(count: usize, frame: impl Fn(&Member) -> Vec<u8>, answer: ResponseBody) -> Self {
        let member = Member {
            group_id: group_id(7).leak(),
            member_id: "orders-service-1-6f1c1d6a-0b54-4c5c-9d0b-7e1f0f3f7f0a",
        };
        Codec { frame: frame(&member), answer, buffer: Vec::new(), count }
    }

    pub fn heartbeats(count: usize) -> Self {
        Codec::new(count, heartbeat_frame, ResponseBody::Heartbeat(ErrorCode::None))
    }

    pub fn commits(count: usize) -> Self {
        let partitions = (0..COMMITTED).map(|partition| (partition, ErrorCode::None)).collect();
        let topic =
            OffsetCommitResponseTopic { name: TOPIC.into(), topic_id: Uuid::ZERO, partitions };
        let answer = OffsetCommitResponse { topics: vec![topic] };
        let frame = |member: &Member| commit_frame(member, COMMITTED);
        Codec::new(count, frame, ResponseBody::OffsetCommit(answer))
    }

    pub fn fetches(count: usize) -> Self {
        let partition = |partition_index| OffsetFetchResponsePartition {
            partition_index,
            committed_offset: 1_000_000,
            committed_leader_epoch: 3,
            metadata: "",
            error_code: ErrorCode::None,
        };
        let group_id = group_id(7);
        let mut answer = OffsetFetchResponseBuilder::new(&group_id, ErrorCode::None);
        answer.push_topic(TOPIC, Uuid::ZERO, (0..COMMITTED).map(partition));
        Codec::new(count, fetch_frame, ResponseBody::OffsetFetch(vec![answer.finish()]))
    }
}

impl Work for Codec {
    fn round(&mut self) -> u64 {
        self.buffer.clear();
        for _ in 0..self.count {
            let Ok(Incoming::Owned(header, mut reader)) = open_request(black_box(&self.frame))
            else {
                panic!("the frame is sound");
            };
            let (api, version) = (header.spec.api, header.api_version);
            black_box(api::decode_request(api, version, &mut reader).expect("a sound body"));
            let start = begin_response(&mut self.buffer, api, version, header.correlation_id);
            api::encode_response(&mut self.buffer, version, black_box(&self.answer));
            finish_response(&mut self.buffer, start);
        }
        self.count as u64
    }
}

/// The same frames in each round, in turns, from members of groups of one; a round lasts as long as
/// a member takes to beat again.
pub struct OverNode {
    hosted: HostedNode,
    api: ApiKey,
    frames: Vec<Vec<u8>>,
}

impl OverNode {
    /// One round was made, and looked at.
    fn new(count: usize, api: ApiKey, frame: impl Fn(&Member) -> Vec<u8>) -> Self {
        let (hosted, members) = node_of_groups(count);
        OverNode { hosted, api, frames: members.iter().map(frame).collect() }.checked()
    }

    pub fn heartbeats(count: usize) -> Self {
        OverNode::new(count, ApiKey::Heartbeat, heartbeat_frame)
    }

    pub fn commits(count: usize, partitions: i32) -> Self {
        OverNode::new(count, ApiKey::OffsetCommit, |member| commit_frame(member, partitions))
    }

    pub fn fetches(count: usize) -> Self {
        let mut over = OverNode::commits(count, COMMITTED);
        let member = |index| Member { group_id: group_id(index).leak(), member_id: "" };
        over.api = ApiKey::OffsetFetch;
        over.frames = shuffled(count).into_iter().map(|at| fetch_frame(&member(at))).collect();
        over.checked()
    }

    fn checked(mut self) -> Self {
        let api = self.api;
        let mut answered = 0;
        for batch in self.frames.chunks(BATCH) {
            self.hosted.turn(batch, |turn, _, at| {
                assert!(is_success(answer(api, turn, at)));
                answered += 1;
            });
        }
        assert_eq!(answered, self.frames.len());
        self
    }
}

impl Work for OverNode {
    fn round(&mut self) -> u64 {
        let mut answered = 0;
        let (began_ms, turns) = (self.hosted.now_ms, self.frames.len().div_ceil(BATCH));
        for (at, batch) in self.frames.chunks(BATCH).enumerate() {
            self.hosted.now_ms = began_ms + moment(BEAT_MS, at + 1, turns);
            self.hosted.turn(batch, |turn, _, _| {
                black_box(turn);
                answered += 1;
            });
        }
        assert_eq!(answered, self.frames.len() as u64);
        answered
    }
}

/// Heartbeats of many members at once, without frames, each a group's only one.
pub struct NodeBeats {
    hosted: HostedNode,
    members: Vec<Member>,
}

impl NodeBeats {
    pub fn new(count: usize) -> Self {
        let (hosted, members) = node_of_groups(count);
        NodeBeats { hosted, members: framed(members.iter()).collect() }
    }
}

impl Work for NodeBeats {
    fn round(&mut self) -> u64 {
        self.hosted.now_ms += BEAT_MS;
        self.hosted.turn(&[], |_, ticket, _| panic!("nobody asked, and {ticket} is answered"));
        let beats = self.members.iter().map(|one| (one.group_id, one.member_id, 1));
        let codes = self.hosted.node.heartbeat_many(self.hosted.now_ms, beats);
        assert!(codes.iter().all(|code| *code == ErrorCode::None));
        codes.len() as u64
    }
}

/// A node, with what a host does for it.
struct HostedNode {
    node: Node,
    session: Arc<Session>,
    now_ms: i64,
    batch: Vec<u8>,
}

/// A node that serves stable groups of one, joined over a session's time, and their members in
/// random order.
fn node_of_groups(count: usize) -> (HostedNode, Vec<Member>) {
    let mut node = Node::new(config(), SHARDS, &SEED);
    let id = Uuid(0x1234_5678_9abc_def0_1234_5678_9abc_def0);
    let name = TOPIC.into();
    node.set_topics([Topic {
        name,
        id,
        partitions: 100,
        end_offsets: Vec::new(),
        racks: Vec::new(),
    }]);
    (0..SHARDS).for_each(|shard| node.loaded(shard, NOW_MS, 0));
    let session = Arc::new(Session::anonymous("/127.0.0.1", "PLAINTEXT"));
    let mut hosted = HostedNode { node, session, now_ms: NOW_MS, batch: Vec::new() };
    let ids: Vec<&'static str> = (0..count).map(|index| &*group_id(index).leak()).collect();
    let mut members = Vec::with_capacity(count);
    let portions = count.div_ceil(BATCH);
    for (portion, some) in ids.chunks(BATCH).enumerate() {
        hosted.now_ms = NOW_MS + moment(MADE_OVER_MS, portion, portions);
        members.extend(hosted.join_all(some));
    }
    let members = shuffled(count).into_iter().map(|index| members[index]).collect();
    (hosted, members)
}

impl HostedNode {
    /// One turn, and one more if it appended or a timer is due; `replied` gets the ticket of each
    /// answer, which is the frame's place, and where the answer stands.
    fn turn(&mut self, batch: &[Vec<u8>], mut replied: impl FnMut(&Turn, u64, (usize, usize))) {
        let session = Arc::clone(&self.session);
        let numbered = batch.iter().enumerate();
        let frames: Vec<Frame<'_>> = numbered
            .map(|(place, bytes)| Frame { ticket: place as u64, session: &session, bytes })
            .collect();
        let (mut frames, mut committed) = (&frames[..], Vec::new());
        loop {
            let turn = self.node.step(self.now_ms, frames, &committed);
            for (ticket, start, end) in &turn.replies {
                replied(&turn, *ticket, (*start, *end));
            }
            frames = &[];
            committed.clear();
            for (shard, append) in &turn.appends {
                seal(append, &mut self.batch);
                committed.push((*shard, append.end_offset()));
            }
            let is_due = turn.next_timeout_ms.is_some_and(|due_ms| due_ms <= self.now_ms);
            if committed.is_empty() && !is_due {
                break;
            }
        }
    }

    fn join_all(&mut self, ids: &[&'static str]) -> Vec<Member> {
        let body = |group_id: &&'static str| match join(group_id, "") {
            Request::JoinGroup(request) => RequestBody::JoinGroup(request),
            other => unreachable!("{other:?}"),
        };
        let joins: Vec<Vec<u8>> =
            ids.iter().map(|id| frame(ApiKey::JoinGroup, &body(id))).collect();
        let mut members = Vec::with_capacity(ids.len());
        self.turn(&joins, |turn, ticket, at| {
            let ResponseBody::JoinGroup(joined) = answer(ApiKey::JoinGroup, turn, at) else {
                unreachable!("a join is answered as one");
            };
            assert_eq!(joined.error_code, ErrorCode::None);
            let member_id = String::from(joined.member_id).leak();
            members.push(Member { group_id: ids[ticket as usize], member_id });
        });
        let body = |one: &Member| match sync(one, 1, &[one.member_id]) {
            Request::SyncGroup(request) => RequestBody::SyncGroup(request),
            other => unreachable!("{other:?}"),
        };
        let syncs: Vec<Vec<u8>> =
            members.iter().map(|one| frame(ApiKey::SyncGroup, &body(one))).collect();
        let mut synced = 0;
        self.turn(&syncs, |turn, _, at| {
            assert!(is_success(answer(ApiKey::SyncGroup, turn, at)));
            synced += 1;
        });
        assert_eq!(synced, ids.len());
        members
    }
}

/// The answer that stands there.
fn answer(api: ApiKey, turn: &Turn, (start, end): (usize, usize)) -> ResponseBody {
    let version = version(api);
    let (_, mut body) =
        open_response(api, version, &turn.buffer[start + 4..end]).expect("a sound header");
    api::decode_response(api, version, &mut body).expect("a sound body")
}

fn is_success(body: ResponseBody) -> bool {
    match body {
        ResponseBody::Heartbeat(code) => succeeded(&Response::Heartbeat(code)),
        ResponseBody::SyncGroup(synced) => succeeded(&Response::SyncGroup(synced)),
        ResponseBody::OffsetCommit(commit) => succeeded(&Response::OffsetCommit(commit)),
        ResponseBody::OffsetFetch(groups) => {
            groups.into_iter().all(|group| succeeded(&Response::OffsetFetch(group)))
        }
        _ => false,
    }
}
