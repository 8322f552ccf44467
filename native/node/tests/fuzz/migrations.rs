//! Honest sessions of consumer groups: members of both protocols, and groups that change their kind.

use kcoord_core::request::*;
use kcoord_core::topic_partition::TopicPartition;
use kcoord_wire::api::RequestBody;
use kcoord_wire::api::describing::DescribeGroupsRequest;
use kcoord_wire::header::ApiKey;

use crate::seeds::{AT_ONCE, body, first_member_id, frame, join, part};

const NATIVE: &str = "native";
const CLASSIC: &str = "classic";
const INSTANCE: &str = "instance";
const COOPERATIVE: &str = "cooperative-sticky";
const RANGE: &str = "range";

/// A consumer group that a classic member joins, and that is a classic group when the other has left;
/// a classic group that becomes a consumer group and is one again; a static member that changes its protocol.
pub fn sessions() -> Vec<Vec<u8>> {
    vec![down(), up_and_down(), static_member()]
}

fn down() -> Vec<u8> {
    let mut session = Vec::new();
    let mut say = |frame: Vec<u8>| session.extend(part(AT_ONCE, &frame));
    say(beat(NATIVE, 0, None, Some(Vec::new())));
    say(classic(CLASSIC, None, false));
    say(sync(CLASSIC, 3, COOPERATIVE));
    say(beat(NATIVE, 2, None, None));
    let orders = |partition| TopicPartition::new(Uuid(1), partition);
    say(beat(NATIVE, 2, None, Some(vec![orders(0), orders(1)])));
    say(commit(NATIVE, 3));
    say(frame(ApiKey::Heartbeat, 4, &heartbeat(CLASSIC, 3)));
    say(classic(CLASSIC, None, true));
    say(describe());
    say(beat(NATIVE, -1, None, None));
    say(classic(CLASSIC, None, true));
    say(sync(CLASSIC, 4, COOPERATIVE));
    session
}

fn up_and_down() -> Vec<u8> {
    let member_id = first_member_id();
    let mut session = part(AT_ONCE, &frame(ApiKey::JoinGroup, 3, &join("")));
    let mut say = |frame: Vec<u8>| session.extend(part(AT_ONCE, &frame));
    say(sync(&member_id, 1, RANGE));
    say(frame(ApiKey::OffsetCommit, 7, &body(ApiKey::OffsetCommit, &member_id, 7)));
    say(beat(NATIVE, 0, None, Some(Vec::new())));
    say(describe());
    say(frame(ApiKey::Heartbeat, 3, &heartbeat(&member_id, 1)));
    say(frame(ApiKey::JoinGroup, 3, &join(&member_id)));
    say(sync(&member_id, 2, RANGE));
    say(frame(ApiKey::ConsumerGroupHeartbeat, 1, &by_regex()));
    say(beat(NATIVE, -1, None, None));
    say(beat("by-regex", -1, None, None));
    say(frame(ApiKey::JoinGroup, 3, &join(&member_id)));
    session
}

fn static_member() -> Vec<u8> {
    let mut session = Vec::new();
    let mut say = |frame: Vec<u8>| session.extend(part(AT_ONCE, &frame));
    say(beat(NATIVE, 0, Some(INSTANCE), Some(Vec::new())));
    say(beat(NATIVE, -2, Some(INSTANCE), None));
    say(beat("again", 0, Some(INSTANCE), Some(Vec::new())));
    say(classic(CLASSIC, None, false));
    say(classic("", Some(INSTANCE), false));
    say(classic(CLASSIC, None, true));
    session
}

fn beat(
    member_id: &str,
    epoch: i32,
    instance_id: Option<&str>,
    owned: Option<Vec<TopicPartition>>,
) -> Vec<u8> {
    let joins = epoch == 0;
    let body = RequestBody::ConsumerGroupHeartbeat(ConsumerGroupHeartbeatRequest {
        group_id: "group",
        member_id,
        member_epoch: epoch,
        instance_id,
        rebalance_timeout_ms: if joins { 60_000 } else { -1 },
        subscribed_topic_names: joins.then(|| vec!["orders"]),
        topic_partitions: owned,
        ..ConsumerGroupHeartbeatRequest::default()
    });
    frame(ApiKey::ConsumerGroupHeartbeat, 0, &body)
}

fn by_regex() -> RequestBody<'static> {
    RequestBody::ConsumerGroupHeartbeat(ConsumerGroupHeartbeatRequest {
        group_id: "group",
        member_id: "by-regex",
        rebalance_timeout_ms: 60_000,
        subscribed_topic_regex: Some("(orders|pay.*)"),
        preferences: Preferences::of(Some("rack"), Some("range")),
        topic_partitions: Some(Vec::new()),
        ..ConsumerGroupHeartbeatRequest::default()
    })
}

/// JoinGroup of a member that has nothing, or keeps the first partition.
fn classic(member_id: &str, group_instance_id: Option<&str>, keeps: bool) -> Vec<u8> {
    let mut metadata = b"\0\x01\0\0\0\x01\0\x06orders\xff\xff\xff\xff".to_vec();
    metadata.extend(match keeps {
        true => &b"\0\0\0\x01\0\x06orders\0\0\0\x01\0\0\0\0"[..],
        false => &[0; 4],
    });
    let body = RequestBody::JoinGroup(JoinGroupRequest {
        group_id: "group",
        session_timeout_ms: 30_000,
        rebalance_timeout_ms: 60_000,
        member_id,
        group_instance_id,
        protocol_type: "consumer",
        protocols: vec![JoinGroupProtocol { name: COOPERATIVE, metadata: &metadata }],
        reason: None,
    });
    frame(ApiKey::JoinGroup, 9, &body)
}

fn sync(member_id: &str, generation_id: i32, protocol_name: &str) -> Vec<u8> {
    let assignment = b"\0\0\0\0\0\x01\0\x06orders\0\0\0\x01\0\0\0\0\xff\xff\xff\xff";
    let body = RequestBody::SyncGroup(SyncGroupRequest {
        group_id: "group",
        generation_id,
        member_id,
        group_instance_id: None,
        protocol_type: Some("consumer"),
        protocol_name: Some(protocol_name),
        assignments: vec![SyncGroupAssignment { member_id, assignment }],
    });
    frame(ApiKey::SyncGroup, 5, &body)
}

fn heartbeat(member_id: &str, generation_id: i32) -> RequestBody<'_> {
    RequestBody::Heartbeat(HeartbeatRequest {
        group_id: "group",
        generation_id,
        member_id,
        group_instance_id: None,
    })
}

fn commit(member_id: &str, epoch: i32) -> Vec<u8> {
    let partition = OffsetCommitPartition {
        partition_index: 2,
        committed_offset: 42,
        committed_leader_epoch: -1,
        committed_metadata: None,
    };
    let topic =
        OffsetCommitTopic { name: "orders", topic_id: Uuid(1), partitions: vec![partition] };
    let body = RequestBody::OffsetCommit(OffsetCommitRequest {
        group_id: "group",
        generation_id_or_member_epoch: epoch,
        member_id,
        group_instance_id: None,
        retention_time_ms: -1,
        topics: vec![topic],
    });
    frame(ApiKey::OffsetCommit, 9, &body)
}

fn describe() -> Vec<u8> {
    let body = RequestBody::ConsumerGroupDescribe(DescribeGroupsRequest {
        groups: vec!["group"],
        include_authorized_operations: false,
    });
    frame(ApiKey::ConsumerGroupDescribe, 1, &body)
}
