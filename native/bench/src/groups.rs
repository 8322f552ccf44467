//! One shard: groups of one member, what their members ask of it, and a member more for each.
//!
//! Requests are made before they are measured, as a decoder hands them over; their strings live
//! until the program ends. Appended records count as durable at once.

use kcoord_core::request::*;
use kcoord_core::response::Response;
use kcoord_core::{Config, ErrorCode};

use crate::axis::{Work, shuffled};
use crate::hosted::{BEAT_MS, Hosted, moment};

pub const NOW_MS: i64 = 1_700_000_000_000;
pub const TOPIC: &str = "orders-placed";
/// Requests that arrive together.
pub const BATCH: usize = 256;
const TOPIC_ID: Uuid = Uuid(0x1234_5678_9abc_def0_1234_5678_9abc_def0);

pub type Asked = (RequestContext<'static>, Request<'static>);

/// A group's id and its only member's.
#[derive(Clone, Copy)]
pub struct MemberOf<'a> {
    pub group_id: &'a str,
    pub member_id: &'a str,
}

/// One whose names live until the program ends.
pub type Member = MemberOf<'static>;

pub const SESSION_MS: i32 = 45_000;

pub fn config() -> Config {
    Config { group_initial_rebalance_delay_ms: 0, ..Config::default() }
}

pub fn group_id(index: usize) -> String {
    format!("orders-app-{index:07}")
}

pub fn kept(text: &str) -> &'static str {
    String::from(text).leak()
}

pub fn join<'a>(group_id: &'a str, member_id: &'a str) -> Request<'a> {
    Request::JoinGroup(JoinGroupRequest {
        group_id,
        session_timeout_ms: SESSION_MS,
        rebalance_timeout_ms: 300_000,
        member_id,
        group_instance_id: None,
        protocol_type: "consumer",
        protocols: vec![JoinGroupProtocol { name: "range", metadata: &[1; 64] }],
        reason: None,
    })
}

/// The leader assigns; from everybody else `assigned` is empty.
pub fn sync<'a>(member: &MemberOf<'a>, generation_id: i32, assigned: &[&'a str]) -> Request<'a> {
    let assignment: &[u8] = &[7; 48];
    let assigned = assigned.iter();
    Request::SyncGroup(SyncGroupRequest {
        group_id: member.group_id,
        generation_id,
        member_id: member.member_id,
        group_instance_id: None,
        protocol_type: Some("consumer"),
        protocol_name: Some("range"),
        assignments: assigned
            .map(|member_id| SyncGroupAssignment { member_id, assignment })
            .collect(),
    })
}

pub fn heartbeat(member: &Member) -> HeartbeatRequest<'static> {
    HeartbeatRequest {
        group_id: member.group_id,
        generation_id: 1,
        member_id: member.member_id,
        group_instance_id: None,
    }
}

pub fn commit<'a>(member: &MemberOf<'a>, partitions: i32) -> OffsetCommitRequest<'a> {
    let partition = |partition_index| OffsetCommitPartition {
        partition_index,
        committed_offset: 1_000_000 + i64::from(partition_index),
        committed_leader_epoch: 3,
        committed_metadata: Some(""),
    };
    OffsetCommitRequest {
        group_id: member.group_id,
        generation_id_or_member_epoch: 1,
        member_id: member.member_id,
        group_instance_id: None,
        retention_time_ms: -1,
        topics: vec![OffsetCommitTopic {
            name: TOPIC,
            topic_id: TOPIC_ID,
            partitions: (0..partitions).map(partition).collect(),
        }],
    }
}

pub fn fetch(group_id: &'static str, partitions: i32) -> OffsetFetchRequest<'static> {
    OffsetFetchRequest {
        group_id,
        member_id: None,
        member_epoch: -1,
        topics: Some(vec![OffsetFetchTopic {
            name: TOPIC,
            topic_id: Uuid::ZERO,
            partition_indexes: (0..partitions).collect(),
        }]),
        require_stable: false,
    }
}

/// Names of their own for requests in this order, one after the other, as their frames hold them.
pub fn framed<'a, Members>(members: Members) -> impl Iterator<Item = Member>
where
    Members: Iterator<Item = &'a Member> + Clone,
{
    let names = members.clone().flat_map(|one| [one.group_id, one.member_id]);
    let mut all = String::with_capacity(names.clone().map(str::len).sum());
    all.extend(names);
    let mut rest: &'static str = all.leak();
    let mut take = move |length| {
        let (name, behind) = rest.split_at(length);
        rest = behind;
        name
    };
    members.map(move |one| Member {
        group_id: take(one.group_id.len()),
        member_id: take(one.member_id.len()),
    })
}

/// The same requests again in each round, in batches; a round lasts as long as a member takes to
/// beat again.
struct Repeated {
    hosted: Hosted,
    requests: Vec<Asked>,
}

impl Repeated {
    fn new(count: usize, ask: impl Fn(&Member) -> Request<'static>) -> Self {
        let mut hosted = Hosted::new();
        let ids = hosted.names(count);
        let members = hosted.members_over_time(&ids);
        let order = shuffled(count);
        let members = framed(order.iter().map(|index| &members[*index]));
        let requests = members.map(|member| (hosted.context(), ask(&member))).collect();
        Repeated { hosted, requests }
    }

    fn round(&mut self) -> u64 {
        let mut answered = 0;
        let (began_ms, batches) = (self.hosted.now_ms, self.requests.len().div_ceil(BATCH));
        for (at, batch) in self.requests.chunks(BATCH).enumerate() {
            self.hosted.advance(began_ms + moment(BEAT_MS, at + 1, batches));
            self.hosted.ask(batch);
            answered += self.hosted.answered();
        }
        assert_eq!(answered, self.requests.len() as u64);
        answered
    }
}

pub struct Beats(Repeated);

impl Beats {
    pub fn new(count: usize) -> Self {
        Beats(Repeated::new(count, |member| Request::Heartbeat(heartbeat(member))))
    }
}

impl Work for Beats {
    fn round(&mut self) -> u64 {
        self.0.round()
    }
}

/// Heartbeats in, error codes out: no tickets, and no response that waits in the shard.
pub struct ManyBeats {
    hosted: Hosted,
    beats: Vec<HeartbeatRequest<'static>>,
    codes: Vec<ErrorCode>,
}

impl ManyBeats {
    pub fn new(count: usize) -> Self {
        let mut hosted = Hosted::new();
        let ids = hosted.names(count);
        let members = hosted.members_over_time(&ids);
        let order = shuffled(count);
        let members = framed(order.iter().map(|index| &members[*index]));
        let beats = members.map(|member| heartbeat(&member)).collect();
        ManyBeats { hosted, beats, codes: Vec::with_capacity(BATCH) }
    }
}

impl Work for ManyBeats {
    fn round(&mut self) -> u64 {
        let mut answered = 0;
        let (began_ms, batches) = (self.hosted.now_ms, self.beats.len().div_ceil(BATCH));
        for (at, batch) in self.beats.chunks(BATCH).enumerate() {
            self.hosted.advance(began_ms + moment(BEAT_MS, at + 1, batches));
            self.hosted.shard.heartbeat_batch(self.hosted.now_ms, batch, &mut self.codes);
            assert!(self.codes.iter().all(|code| *code == ErrorCode::None));
            answered += self.codes.len() as u64;
            self.codes.clear();
        }
        assert_eq!(answered, self.beats.len() as u64);
        answered
    }
}

pub struct Commits(Repeated);

impl Commits {
    pub fn new(count: usize, partitions: i32) -> Self {
        let ask = |member: &Member| Request::OffsetCommit(commit(member, partitions));
        let mut repeated = Repeated::new(count, ask);
        repeated.round(); // the first commits of groups are another matter
        Commits(repeated)
    }
}

impl Work for Commits {
    fn round(&mut self) -> u64 {
        self.0.round()
    }
}

pub struct Fetches(Repeated);

impl Fetches {
    pub fn new(count: usize, partitions: i32) -> Self {
        let ask = |member: &Member| Request::OffsetCommit(commit(member, partitions));
        let mut repeated = Repeated::new(count, ask);
        repeated.round();
        repeated.requests.iter_mut().for_each(|asked| ask_for_offsets(asked, partitions));
        Fetches(repeated)
    }
}

/// A fetch of what was committed, in place of the commit.
pub fn ask_for_offsets((_, request): &mut Asked, partitions: i32) {
    let Request::OffsetCommit(asked) = request else { unreachable!("it was a commit") };
    *request = Request::OffsetFetch(fetch(asked.group_id, partitions));
}

impl Work for Fetches {
    fn round(&mut self) -> u64 {
        self.0.round()
    }
}

/// New groups in each round, since a group is new but once.
pub struct Joins {
    hosted: Hosted,
    count: usize,
    next: Vec<Asked>,
}

impl Joins {
    pub fn new(count: usize) -> Self {
        Joins { hosted: Hosted::new(), count, next: Vec::new() }
    }
}

impl Work for Joins {
    /// A shard of their own for each round's, as Kafka's side has.
    fn prepare(&mut self) {
        self.hosted = Hosted::new();
        let ids = self.hosted.names(self.count);
        self.next = ids.iter().map(|id| (self.hosted.context(), join(id, ""))).collect();
    }

    /// The answers' member ids are copied out, as a client would.
    fn round(&mut self) -> u64 {
        let joins = std::mem::take(&mut self.next);
        let mut synced = 0;
        for batch in joins.chunks(BATCH) {
            let mut members = Vec::with_capacity(batch.len());
            self.hosted.join(batch, |group_id, member_id| {
                members.push(Member { group_id, member_id: kept(member_id) });
            });
            let syncs = members.iter().map(|one| sync(one, 1, &[one.member_id]));
            let syncs: Vec<_> = syncs.map(|request| (self.hosted.context(), request)).collect();
            self.hosted.ask(&syncs);
            synced += self.hosted.answered();
        }
        assert_eq!(synced, self.count as u64);
        synced
    }
}

/// A second member for groups of one: it joins, the first joins again, both sync.
pub struct Storm {
    hosted: Hosted,
    count: usize,
    members: Vec<Member>,
    joins: Vec<Asked>,
}

impl Storm {
    pub fn new(count: usize) -> Self {
        Storm { hosted: Hosted::new(), count, members: Vec::new(), joins: Vec::new() }
    }
}

impl Work for Storm {
    fn prepare(&mut self) {
        let ids = self.hosted.names(self.count);
        self.members = ids.chunks(BATCH).flat_map(|some| self.hosted.join_all(some)).collect();
        self.joins.clear();
        for one in &self.members {
            for member_id in ["", one.member_id] {
                let asked = (self.hosted.context(), join(one.group_id, member_id));
                self.joins.push(asked);
            }
        }
    }

    fn round(&mut self) -> u64 {
        let batches = self.joins.chunks(BATCH).zip(self.members.chunks(BATCH / 2));
        let mut synced = 0;
        for (joins, leaders) in batches {
            self.hosted.ask(joins);
            let mut followers = Vec::with_capacity(leaders.len());
            while let Some((_, response)) = self.hosted.shard.poll_response() {
                let Response::JoinGroup(joined) = response else { panic!("{response:?}") };
                assert_eq!((joined.error_code, joined.generation_id), (ErrorCode::None, 2));
                if joined.leader != joined.member_id {
                    followers.push(kept(&joined.member_id));
                }
            }
            assert_eq!(followers.len(), leaders.len());
            for (leader, member_id) in leaders.iter().zip(followers) {
                let follower = Member { group_id: leader.group_id, member_id };
                for (one, assigned) in
                    [(&follower, &[][..]), (leader, &[leader.member_id, member_id][..])]
                {
                    let context = self.hosted.context();
                    let request = sync(one, 2, assigned);
                    self.hosted.shard.handle_request(self.hosted.now_ms, &context, &request);
                }
            }
            self.hosted.settle();
            synced += self.hosted.answered();
        }
        assert_eq!(synced, 2 * self.count as u64);
        self.count as u64
    }
}
