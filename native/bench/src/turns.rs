//! The turn of a node in which a request arrives that costs more than others: what is not done in
//! slices falls into it.

use std::sync::Arc;

use kcoord_core::Config;
use kcoord_core::request::*;
use kcoord_core::targets::TargetJob;
use kcoord_node::targets::ASIDE_ABOVE;
use kcoord_node::{Frame, Node, Session, Topic, Turn};
use kcoord_wire::api::describing::DescribeGroupsRequest;
use kcoord_wire::api::{self, RequestBody};
use kcoord_wire::header::{ApiKey, begin_request, finish_response};

use crate::requests::NOW_MS;
use crate::work::Work;

/// Of each member of the group that rebalances.
const METADATA_BYTES: usize = 20 << 10;
const CONSUMED_TOPICS: i32 = 50;
/// Of each.
const CONSUMED_PARTITIONS: i32 = 10_000;
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
            let metadata = [7; METADATA_BYTES];
            let first = asked.first_member(&metadata);
            (1..members).for_each(|_| _ = asked.turn(&[join("", &metadata)]));
            join(&first, &metadata)
        })
    }

    pub fn deletes(offsets: usize) -> Self {
        OneTurn::new(offsets, |asked, offsets| {
            asked.commit(offsets);
            let request = DeleteGroupsRequest { groups_names: vec!["g"] };
            framed(ApiKey::DeleteGroups, 1, &RequestBody::DeleteGroups(request))
        })
    }

    /// A member more in a group that has its targets: they are to be computed anew.
    pub fn asks_for_targets(members: usize) -> Self {
        OneTurn::new(members, |asked, members| {
            asked.joins_consumer_group(members);
            asked.compute_targets();
            asked.comes_to_rest();
            asked.now_ms += 2_000;
            consumer_join(members)
        })
    }

    /// The first part of all targets of a group is written.
    pub fn writes_targets(members: usize) -> Self {
        OneTurn::new(members, |asked, members| {
            asked.joins_consumer_group(members);
            asked.compute_targets();
            beat_of_nobody()
        })
    }

    /// All offsets of a group, ten times.
    pub fn fetches(offsets: usize) -> Self {
        OneTurn::new(offsets, |asked, offsets| {
            asked.commit(offsets);
            fetch_all(10)
        })
    }

    /// All offsets of a group are expired, a week after they were committed.
    pub fn expires(offsets: usize) -> Self {
        OneTurn::new(offsets, |asked, offsets| {
            asked.commit(offsets);
            asked.now_ms += 8 * 24 * 3_600_000;
            beat_of_nobody()
        })
    }

    /// The topic of all offsets of a group was deleted.
    pub fn deletes_topic(offsets: usize) -> Self {
        OneTurn::new(offsets, |asked, offsets| {
            asked.commit(offsets);
            asked.set_topics(0);
            beat_of_nobody()
        })
    }

    /// A request that names a group so often.
    pub fn names(groups: usize) -> Self {
        OneTurn::new(groups, |_, groups| fetch_all(groups))
    }

    /// A group of one member with so much metadata.
    pub fn describes(bytes: usize) -> Self {
        OneTurn::new(bytes, |asked, bytes| {
            let first = asked.first_member(&vec![7; bytes]);
            asked.turn(&[sync(&first)]);
            asked.turn(&[]);
            let groups = vec!["g"];
            let request = DescribeGroupsRequest { groups, include_authorized_operations: false };
            framed(ApiKey::DescribeGroups, 5, &RequestBody::DescribeGroups(request))
        })
    }

    /// A consumer group whose members have come to their targets.
    pub fn describes_consumers(members: usize) -> Self {
        OneTurn::new(members, |asked, members| {
            asked.joins_consumer_group(members);
            asked.compute_targets();
            asked.comes_to_rest();
            // Who owns nothing is given all that is free: the first one gives up what it had alone.
            (0..members).for_each(|member| _ = asked.turn(&[consumer_join(member)]));
            let groups = vec!["c"];
            let request = DescribeGroupsRequest { groups, include_authorized_operations: false };
            let body = RequestBody::ConsumerGroupDescribe(request);
            framed(ApiKey::ConsumerGroupDescribe, 1, &body)
        })
    }

    /// All offsets of a group, which are read at one time: what else is done for them is not.
    pub fn fetches_once(offsets: usize) -> Self {
        OneTurn::new(offsets, |asked, offsets| {
            for topic in 1..=(offsets / CONSUMED_PARTITIONS as usize) {
                asked.commit_to(&format!("topic-{topic}"), CONSUMED_PARTITIONS as usize);
            }
            fetch_all(1)
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
    now_ms: i64,
    tickets: u64,
    committed: Vec<(usize, i64)>,
    jobs: Vec<TargetJob>,
}

impl Asked {
    fn new() -> Self {
        let config = Config { group_initial_rebalance_delay_ms: 0, ..Config::default() };
        let mut node = Node::new(config, 1, &[7; 32]);
        node.loaded(0, NOW_MS, 0);
        node.send_in_parts();
        node.hand_targets_out(ASIDE_ABOVE);
        let session = Arc::new(Session::anonymous("/127.0.0.1", "PLAINTEXT"));
        let (committed, jobs) = (Vec::new(), Vec::new());
        let mut asked = Asked { node, session, now_ms: NOW_MS, tickets: 0, committed, jobs };
        asked.set_topics(40_000);
        asked
    }

    /// Those that are consumed, and one of so many partitions.
    fn set_topics(&mut self, orders: i32) {
        let topic = |name: String, id: i32, partitions| Topic {
            name: name.into(),
            id: Uuid(id as u128),
            partitions,
            end_offsets: Vec::new(),
            racks: Vec::new(),
        };
        let consumed =
            (1..=CONSUMED_TOPICS).map(|id| topic(format!("topic-{id}"), id, CONSUMED_PARTITIONS));
        let orders = (orders > 0).then(|| topic("orders".to_owned(), CONSUMED_TOPICS + 1, orders));
        self.node.set_topics(consumed.chain(orders));
    }

    fn turn(&mut self, frames: &[Vec<u8>]) -> Turn {
        let session = &self.session;
        let numbered = (self.tickets..).zip(frames);
        let frames: Vec<Frame<'_>> =
            numbered.map(|(ticket, bytes)| Frame { ticket, session, bytes }).collect();
        self.tickets += frames.len() as u64;
        let turn = self.node.step(self.now_ms, &frames, &self.committed);
        assert!(turn.invalid.is_empty(), "{:?}", turn.invalid);
        let end =
            |(shard, append): &(usize, kcoord_core::outbox::Append)| (*shard, append.end_offset());
        self.committed = turn.appends.iter().map(end).collect();
        self.jobs.extend(std::iter::from_fn(|| self.node.poll_target_job()));
        turn
    }

    /// One member after the other; the first has a target, and the next heartbeat asks for those of all.
    fn joins_consumer_group(&mut self, members: usize) {
        for member in 0..members {
            self.turn(&[consumer_join(member)]);
        }
        self.compute_targets();
        self.turn(&[]);
        self.now_ms += 2_000;
        self.turn(&[consumer_join(0)]);
        // It is told of its first target before anything is measured.
        self.turn(&[]);
    }

    /// The next turn hears of them.
    fn compute_targets(&mut self) {
        for job in std::mem::take(&mut self.jobs) {
            self.node.bring_targets(job.number, Ok(job.input.compute()));
        }
    }

    /// What goes on from turn to turn is done: slices that are written, and answers that leave.
    fn comes_to_rest(&mut self) {
        while self.turn(&[]).next_timeout_ms.is_some_and(|due_ms| due_ms <= self.now_ms + 1) {
            self.now_ms += 1;
        }
    }

    /// The id of a first member, which leads.
    fn first_member(&mut self, metadata: &[u8]) -> String {
        let (mut frame, mut turn) = (Vec::new(), self.turn(&[join("", metadata)]));
        loop {
            turn.parts.iter().for_each(|(_, part)| frame.extend(part));
            if !turn.replies.is_empty() {
                break;
            }
            turn = self.turn(&[]);
        }
        let (_, end) = turn.frames().next().expect("it is answered");
        frame.extend_from_slice(&end);
        let (_, mut body) = kcoord_wire::header::open_response(ApiKey::JoinGroup, 3, &frame[4..])
            .expect("a header");
        match api::decode_response(ApiKey::JoinGroup, 3, &mut body).expect("a body") {
            api::ResponseBody::JoinGroup(joined) => joined.member_id.into(),
            other => panic!("{other:?}"),
        }
    }

    fn commit(&mut self, offsets: usize) {
        self.commit_to("orders", offsets);
    }

    fn commit_to(&mut self, name: &str, offsets: usize) {
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
            topics: vec![OffsetCommitTopic { name, topic_id: Uuid::ZERO, partitions }],
        };
        self.turn(&[framed(ApiKey::OffsetCommit, 7, &RequestBody::OffsetCommit(request))]);
        self.turn(&[]);
        assert!(self.node.shard(0).offset_count_of("g") >= offsets, "they were committed");
    }
}

fn consumer_join(member: usize) -> Vec<u8> {
    let topics: Vec<String> = (1..=CONSUMED_TOPICS).map(|id| format!("topic-{id}")).collect();
    let request = ConsumerGroupHeartbeatRequest {
        group_id: "c",
        member_id: &format!("AAAAAAAAAAAAAAAAA{member:05}"),
        rebalance_timeout_ms: 60_000,
        subscribed_topic_names: Some(topics.iter().map(|topic| &**topic).collect()),
        topic_partitions: Some(Vec::new()),
        ..Default::default()
    };
    let body = RequestBody::ConsumerGroupHeartbeat(request);
    framed(ApiKey::ConsumerGroupHeartbeat, 1, &body)
}

fn fetch_all(times: usize) -> Vec<u8> {
    let group = OffsetFetchRequest {
        group_id: "g",
        member_id: None,
        member_epoch: -1,
        topics: None,
        require_stable: false,
    };
    framed(ApiKey::OffsetFetch, 8, &RequestBody::OffsetFetch(vec![group; times]))
}

fn beat_of_nobody() -> Vec<u8> {
    let request = HeartbeatRequest { group_id: "h", member_id: "m", ..Default::default() };
    framed(ApiKey::Heartbeat, 4, &RequestBody::Heartbeat(request))
}

fn sync(member_id: &str) -> Vec<u8> {
    let request = SyncGroupRequest {
        group_id: "g",
        generation_id: 1,
        member_id,
        group_instance_id: None,
        protocol_type: None,
        protocol_name: None,
        assignments: vec![SyncGroupAssignment { member_id, assignment: b"" }],
    };
    framed(ApiKey::SyncGroup, 3, &RequestBody::SyncGroup(request))
}

fn join(member_id: &str, metadata: &[u8]) -> Vec<u8> {
    let request = JoinGroupRequest {
        group_id: "g",
        session_timeout_ms: 30_000,
        rebalance_timeout_ms: 60_000,
        member_id,
        group_instance_id: None,
        protocol_type: "consumer",
        protocols: vec![JoinGroupProtocol { name: "range", metadata }],
        reason: None,
    };
    framed(ApiKey::JoinGroup, 3, &RequestBody::JoinGroup(request))
}

fn framed(api: ApiKey, version: i16, body: &RequestBody<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    let start = begin_request(&mut out, api, version, 7, Some("client"));
    api::encode_request(&mut out, version, body);
    finish_response(&mut out, start);
    out.split_off(4)
}
