//! Requests as the tests say them, with what they do not say filled in.

use kcoord_core::ErrorCode;
use kcoord_core::request::*;
use kcoord_core::response::{OffsetFetchResponsePartition, OffsetFetchResponseTopic};
use kcoord_wire::api::describing::{DescribeGroupsRequest, Described};
use kcoord_wire::api::{RequestBody, ResponseBody};

use crate::host::Host;

pub fn join<'a>(group_id: &'a str, member_id: &'a str) -> RequestBody<'a> {
    RequestBody::JoinGroup(JoinGroupRequest {
        group_id,
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 20_000,
        member_id,
        group_instance_id: None,
        protocol_type: "consumer",
        protocols: vec![JoinGroupProtocol { name: "range", metadata: b"m" }],
        reason: None,
    })
}

pub fn sync<'a>(group_id: &'a str, member_id: &'a str, generation_id: i32) -> RequestBody<'a> {
    RequestBody::SyncGroup(SyncGroupRequest {
        group_id,
        generation_id,
        member_id,
        group_instance_id: None,
        protocol_type: Some("consumer"),
        protocol_name: Some("range"),
        assignments: vec![SyncGroupAssignment { member_id, assignment: b"a" }],
    })
}

pub fn heartbeat<'a>(group_id: &'a str, member_id: &'a str, generation_id: i32) -> RequestBody<'a> {
    RequestBody::Heartbeat(HeartbeatRequest {
        group_id,
        generation_id,
        member_id,
        group_instance_id: None,
    })
}

pub fn leave<'a>(group_id: &'a str, member_id: &'a str) -> RequestBody<'a> {
    let members = vec![LeaveGroupMember { member_id, group_instance_id: None, reason: None }];
    RequestBody::LeaveGroup(LeaveGroupRequest { group_id, members })
}

/// A commit without membership: topic (name, id) and partitions; the offset is 10 x partition.
pub fn commit<'a>(group_id: &'a str, topics: &[(&'a str, u128, &[i32])]) -> RequestBody<'a> {
    let partition = |index: &i32| OffsetCommitPartition {
        partition_index: *index,
        committed_offset: i64::from(*index) * 10,
        committed_leader_epoch: -1,
        committed_metadata: Some(""),
    };
    let topic = |(name, id, partitions): &(&'a str, u128, &[i32])| OffsetCommitTopic {
        name,
        topic_id: Uuid(*id),
        partitions: partitions.iter().map(partition).collect(),
    };
    RequestBody::OffsetCommit(OffsetCommitRequest {
        group_id,
        generation_id_or_member_epoch: -1,
        member_id: "",
        group_instance_id: None,
        retention_time_ms: -1,
        topics: topics.iter().map(topic).collect(),
    })
}

/// Groups and, for each, all topics or some (name, id, partitions).
pub type FetchedGroup<'a> = (&'a str, Option<&'a [(&'a str, u128, &'a [i32])]>);

pub fn fetch<'a>(groups: &[FetchedGroup<'a>]) -> RequestBody<'a> {
    let topic = |(name, id, partitions): &(&'a str, u128, &[i32])| OffsetFetchTopic {
        name,
        topic_id: Uuid(*id),
        partition_indexes: partitions.to_vec(),
    };
    let group = |(group_id, topics): &FetchedGroup<'a>| OffsetFetchRequest {
        group_id,
        member_id: None,
        member_epoch: -1,
        topics: topics.map(|topics| topics.iter().map(topic).collect()),
        require_stable: false,
    };
    RequestBody::OffsetFetch(groups.iter().map(group).collect())
}

pub fn delete_offsets<'a>(group_id: &'a str, topics: &[(&'a str, &[i32])]) -> RequestBody<'a> {
    let topic = |(name, partitions): &(&'a str, &[i32])| OffsetDeleteTopic {
        name,
        partitions: partitions.to_vec(),
    };
    let topics = topics.iter().map(topic).collect();
    RequestBody::OffsetDelete(OffsetDeleteRequest { group_id, topics })
}

pub fn describe<'a>(groups: &[&'a str]) -> RequestBody<'a> {
    RequestBody::DescribeGroups(DescribeGroupsRequest {
        groups: groups.to_vec(),
        include_authorized_operations: false,
    })
}

pub fn describe_consumer<'a>(groups: &[&'a str]) -> RequestBody<'a> {
    RequestBody::ConsumerGroupDescribe(DescribeGroupsRequest {
        groups: groups.to_vec(),
        include_authorized_operations: false,
    })
}

/// Of a member of a consumer group that subscribes to topic t; epoch 0 joins.
pub fn beat<'a>(group_id: &'a str, member_id: &'a str, member_epoch: i32) -> RequestBody<'a> {
    let joins = member_epoch == 0;
    RequestBody::ConsumerGroupHeartbeat(ConsumerGroupHeartbeatRequest {
        group_id,
        member_id,
        member_epoch,
        rebalance_timeout_ms: if joins { 20_000 } else { -1 },
        subscribed_topic_names: joins.then(|| vec!["t"]),
        topic_partitions: joins.then(Vec::new),
        ..ConsumerGroupHeartbeatRequest::default()
    })
}

pub fn delete<'a>(groups: &[&'a str]) -> RequestBody<'a> {
    RequestBody::DeleteGroups(DeleteGroupsRequest { groups_names: groups.to_vec() })
}

pub fn list() -> RequestBody<'static> {
    RequestBody::ListGroups(ListGroupsRequest::default())
}

/// One stable member; its id, in generation 1.
pub fn stable(host: &mut Host, group_id: &str) -> String {
    let ResponseBody::JoinGroup(joined) = host.ask(3, &join(group_id, "")) else { panic!() };
    assert_eq!(joined.error_code, ErrorCode::None);
    let member_id = String::from(joined.member_id);
    let ResponseBody::SyncGroup(synced) =
        host.ask(3, &sync(group_id, &member_id, joined.generation_id))
    else {
        panic!()
    };
    assert_eq!(synced.error_code, ErrorCode::None);
    member_id
}

/// Topic, id, and partitions with their codes.
pub type CommittedTopic = (String, u128, Vec<(i32, ErrorCode)>);

/// The topics of a commit's answer.
pub fn committed(answer: ResponseBody) -> Vec<CommittedTopic> {
    let ResponseBody::OffsetCommit(answer) = answer else { panic!("{answer:?}") };
    let topics = answer.topics.into_iter();
    topics.map(|topic| (topic.name.into(), topic.topic_id.0, topic.partitions)).collect()
}

pub type FetchedPartition = (i32, i64, i32, String, ErrorCode);

#[derive(Debug, PartialEq)]
pub struct FetchedTopic {
    pub name: String,
    pub topic_id: u128,
    /// Index, offset, leader epoch, metadata and error.
    pub partitions: Vec<FetchedPartition>,
}

/// Group, its code and its topics, of a fetch's answer.
pub fn fetched(answer: ResponseBody) -> Vec<(String, ErrorCode, Vec<FetchedTopic>)> {
    let ResponseBody::OffsetFetch(groups) = answer else { panic!("{answer:?}") };
    let topic = |topic: OffsetFetchResponseTopic<'_>| FetchedTopic {
        name: topic.name().into(),
        topic_id: topic.topic_id.0,
        partitions: topic.partitions.map(fetched_partition).collect(),
    };
    let group = groups.iter();
    group
        .map(|of| (of.group_id().into(), of.error_code(), of.topics().map(topic).collect()))
        .collect()
}

fn fetched_partition(of: OffsetFetchResponsePartition<'_>) -> FetchedPartition {
    let OffsetFetchResponsePartition { partition_index, committed_offset, .. } = of;
    let metadata = of.metadata.to_owned();
    (partition_index, committed_offset, of.committed_leader_epoch, metadata, of.error_code)
}

pub fn value(index: i32, offset: i64) -> FetchedPartition {
    (index, offset, -1, String::new(), ErrorCode::None)
}

pub fn deleted(answer: ResponseBody) -> Vec<(String, ErrorCode)> {
    let ResponseBody::DeleteGroups(answer) = answer else { panic!("{answer:?}") };
    answer.results.into_iter().map(|(group, code)| (group.into(), code)).collect()
}

/// Group ids, sorted, of a list's answer.
pub fn listed(answer: ResponseBody) -> (ErrorCode, Vec<String>) {
    let ResponseBody::ListGroups(answer) = answer else { panic!("{answer:?}") };
    let mut groups: Vec<String> = answer.groups.into_iter().map(|g| g.group_id.into()).collect();
    groups.sort();
    (answer.error_code, groups)
}

/// Group id, state and code, of a description.
pub fn described(answer: ResponseBody) -> Vec<(String, &'static str, ErrorCode)> {
    let ResponseBody::DescribeGroups(Described { groups, .. }) = answer else {
        panic!("{answer:?}")
    };
    let group = groups.into_iter();
    group.map(|group| (group.group_id.into(), group.group_state, group.error_code)).collect()
}
