//! What members of groups of one ask, as a decoder hands it over: their strings live until the
//! program ends.

use kcoord_core::Config;
use kcoord_core::request::*;

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

/// The leader assigns; from all others `assigned` is empty.
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

/// A fetch of what was committed, in place of the commit.
pub fn ask_for_offsets((_, request): &mut Asked, partitions: i32) {
    let Request::OffsetCommit(asked) = request else { unreachable!("it was a commit") };
    *request = Request::OffsetFetch(fetch(asked.group_id, partitions));
}
