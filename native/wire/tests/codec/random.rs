//! Random requests and responses of every owned API, for the tests beside this file.

use kcoord_core::ErrorCode;
use kcoord_core::request::*;
use kcoord_core::response::*;
use kcoord_core::topic_partition::{TopicPartition, into_set};
use kcoord_wire::api::describing::{DescribeGroupsRequest, Described};
use kcoord_wire::api::{RequestBody, ResponseBody};
use kcoord_wire::header::ApiKey;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

#[path = "random_transactions.rs"]
mod transactions;

/// The long ones take one and two bytes of compact length.
const WORDS: [&str; 8] = [
    "",
    "g",
    "my-group",
    "consumer-1-5c2ff6a0-1a2b-4c3d-8e9f-0123456789ab",
    "группа",
    "消费组🐿",
    ascii(&[b'x'; 126]),
    ascii(&[b'x'; 127]),
];
const BYTES: [&[u8]; 3] = [b"", b"\x00\x01\xff", &[0; 300]];
const CODES: [ErrorCode; 3] =
    [ErrorCode::None, ErrorCode::UnknownServerError, ErrorCode::MemberIdRequired];
const STATES: [&str; 5] = ["Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"];
const TYPES: [&str; 4] = ["classic", "consumer", "share", "streams"];

const fn ascii(bytes: &[u8]) -> &str {
    match core::str::from_utf8(bytes) {
        Ok(word) => word,
        Err(_) => panic!("not ASCII"),
    }
}

fn word() -> impl Strategy<Value = &'static str> {
    select(&WORDS[..])
}

fn bytes() -> impl Strategy<Value = &'static [u8]> {
    select(&BYTES[..])
}

fn code() -> impl Strategy<Value = ErrorCode> {
    select(&CODES[..])
}

fn boxed() -> impl Strategy<Value = Box<str>> {
    word().prop_map(Box::from)
}

fn boxed_bytes() -> impl Strategy<Value = Box<[u8]>> {
    bytes().prop_map(Box::from)
}

fn maybe<S: Strategy>(strategy: S) -> impl Strategy<Value = Option<S::Value>> {
    proptest::option::of(strategy)
}

fn some<S: Strategy>(strategy: S) -> impl Strategy<Value = Vec<S::Value>> {
    vec(strategy, 0..4)
}

fn uuid() -> impl Strategy<Value = Uuid> {
    any::<u128>().prop_map(Uuid)
}

/// Values in every field, also in those that old versions lack.
pub fn requests(api: ApiKey) -> BoxedStrategy<RequestBody<'static>> {
    match api {
        ApiKey::JoinGroup => join_group().prop_map(RequestBody::JoinGroup).boxed(),
        ApiKey::SyncGroup => sync_group().prop_map(RequestBody::SyncGroup).boxed(),
        ApiKey::Heartbeat => heartbeat().prop_map(RequestBody::Heartbeat).boxed(),
        ApiKey::LeaveGroup => leave_group().prop_map(RequestBody::LeaveGroup).boxed(),
        ApiKey::OffsetCommit => offset_commit().prop_map(RequestBody::OffsetCommit).boxed(),
        ApiKey::TxnOffsetCommit => transactions::commits().boxed(),
        ApiKey::WriteTxnMarkers => transactions::markers().boxed(),
        ApiKey::OffsetFetch => offset_fetch().prop_map(RequestBody::OffsetFetch).boxed(),
        ApiKey::OffsetDelete => {
            let topic = (word(), some(any::<i32>()))
                .prop_map(|(name, partitions)| OffsetDeleteTopic { name, partitions });
            (word(), some(topic))
                .prop_map(|(group_id, topics)| OffsetDeleteRequest { group_id, topics })
                .prop_map(RequestBody::OffsetDelete)
                .boxed()
        }
        ApiKey::DescribeGroups => (some(word()), any::<bool>())
            .prop_map(|(groups, include_authorized_operations)| DescribeGroupsRequest {
                groups,
                include_authorized_operations,
            })
            .prop_map(RequestBody::DescribeGroups)
            .boxed(),
        ApiKey::DeleteGroups => some(word())
            .prop_map(|groups_names| DeleteGroupsRequest { groups_names })
            .prop_map(RequestBody::DeleteGroups)
            .boxed(),
        ApiKey::ListGroups => (some(word()), some(word()))
            .prop_map(|(states_filter, types_filter)| ListGroupsRequest {
                states_filter,
                types_filter,
            })
            .prop_map(RequestBody::ListGroups)
            .boxed(),
        ApiKey::ConsumerGroupHeartbeat => {
            consumer_heartbeat().prop_map(RequestBody::ConsumerGroupHeartbeat).boxed()
        }
        ApiKey::ConsumerGroupDescribe => (some(word()), any::<bool>())
            .prop_map(|(groups, include_authorized_operations)| DescribeGroupsRequest {
                groups,
                include_authorized_operations,
            })
            .prop_map(RequestBody::ConsumerGroupDescribe)
            .boxed(),
    }
}

fn join_group() -> impl Strategy<Value = JoinGroupRequest<'static>> {
    let protocol =
        (word(), bytes()).prop_map(|(name, metadata)| JoinGroupProtocol { name, metadata });
    let words = (word(), word(), maybe(word()), word(), maybe(word()));
    (words, any::<i32>(), any::<i32>(), some(protocol)).prop_map(
        |(words, session_timeout_ms, rebalance_timeout_ms, protocols)| {
            let (group_id, member_id, group_instance_id, protocol_type, reason) = words;
            JoinGroupRequest {
                group_id,
                session_timeout_ms,
                rebalance_timeout_ms,
                member_id,
                group_instance_id,
                protocol_type,
                protocols,
                reason,
            }
        },
    )
}

fn sync_group() -> impl Strategy<Value = SyncGroupRequest<'static>> {
    let assignment = (word(), bytes())
        .prop_map(|(member_id, assignment)| SyncGroupAssignment { member_id, assignment });
    let words = (word(), word(), maybe(word()), maybe(word()), maybe(word()));
    (words, any::<i32>(), some(assignment)).prop_map(|(words, generation_id, assignments)| {
        let (group_id, member_id, group_instance_id, protocol_type, protocol_name) = words;
        SyncGroupRequest {
            group_id,
            generation_id,
            member_id,
            group_instance_id,
            protocol_type,
            protocol_name,
            assignments,
        }
    })
}

fn heartbeat() -> impl Strategy<Value = HeartbeatRequest<'static>> {
    (word(), any::<i32>(), word(), maybe(word())).prop_map(
        |(group_id, generation_id, member_id, group_instance_id)| HeartbeatRequest {
            group_id,
            generation_id,
            member_id,
            group_instance_id,
        },
    )
}

fn leave_group() -> impl Strategy<Value = LeaveGroupRequest<'static>> {
    let member = (word(), maybe(word()), maybe(word())).prop_map(
        |(member_id, group_instance_id, reason)| LeaveGroupMember {
            member_id,
            group_instance_id,
            reason,
        },
    );
    (word(), vec(member, 1..4))
        .prop_map(|(group_id, members)| LeaveGroupRequest { group_id, members })
}

fn offset_commit() -> impl Strategy<Value = OffsetCommitRequest<'static>> {
    let partition = (any::<i32>(), any::<i64>(), any::<i32>(), maybe(word())).prop_map(
        |(partition_index, committed_offset, committed_leader_epoch, committed_metadata)| {
            OffsetCommitPartition {
                partition_index,
                committed_offset,
                committed_leader_epoch,
                committed_metadata,
            }
        },
    );
    let topic = (word(), uuid(), some(partition))
        .prop_map(|(name, topic_id, partitions)| OffsetCommitTopic { name, topic_id, partitions });
    (word(), any::<i32>(), word(), maybe(word()), any::<i64>(), some(topic)).prop_map(
        |(group_id, epoch, member_id, group_instance_id, retention_time_ms, topics)| {
            OffsetCommitRequest {
                group_id,
                generation_id_or_member_epoch: epoch,
                member_id,
                group_instance_id,
                retention_time_ms,
                topics,
            }
        },
    )
}

fn offset_fetch() -> impl Strategy<Value = Vec<OffsetFetchRequest<'static>>> {
    let topic =
        (word(), uuid(), some(any::<i32>())).prop_map(|(name, topic_id, partition_indexes)| {
            OffsetFetchTopic { name, topic_id, partition_indexes }
        });
    let group = (word(), maybe(word()), any::<i32>(), maybe(some(topic))).prop_map(
        |(group_id, member_id, member_epoch, topics)| OffsetFetchRequest {
            group_id,
            member_id,
            member_epoch,
            topics,
            require_stable: false,
        },
    );
    (vec(group, 1..4), any::<bool>()).prop_map(|(mut groups, require_stable)| {
        groups.iter_mut().for_each(|group| group.require_stable = require_stable);
        groups
    })
}

/// Values in every field, also in those that old versions lack.
pub fn responses(api: ApiKey) -> BoxedStrategy<ResponseBody> {
    match api {
        ApiKey::JoinGroup => join_group_response().prop_map(ResponseBody::JoinGroup).boxed(),
        ApiKey::SyncGroup => {
            (code(), maybe(boxed()), maybe(boxed()), boxed_bytes())
                .prop_map(|(error_code, protocol_type, protocol_name, assignment)| {
                    SyncGroupResponse { error_code, protocol_type, protocol_name, assignment }
                })
                .prop_map(ResponseBody::SyncGroup)
                .boxed()
        }
        ApiKey::Heartbeat => code().prop_map(ResponseBody::Heartbeat).boxed(),
        ApiKey::LeaveGroup => leave_group_response().prop_map(ResponseBody::LeaveGroup).boxed(),
        ApiKey::OffsetCommit => some((boxed(), uuid(), some((any::<i32>(), code()))))
            .prop_map(|topics| {
                let topics = topics.into_iter().map(|(name, topic_id, partitions)| {
                    OffsetCommitResponseTopic { name, topic_id, partitions }
                });
                ResponseBody::OffsetCommit(OffsetCommitResponse { topics: topics.collect() })
            })
            .boxed(),
        ApiKey::TxnOffsetCommit => transactions::committed().boxed(),
        ApiKey::WriteTxnMarkers => transactions::written().boxed(),
        ApiKey::OffsetFetch => {
            vec(offset_fetch_response(), 1..4).prop_map(ResponseBody::OffsetFetch).boxed()
        }
        ApiKey::OffsetDelete => (code(), some((boxed(), some((any::<i32>(), code())))))
            .prop_map(|(error_code, topics)| {
                let topics = topics
                    .into_iter()
                    .map(|(name, partitions)| OffsetDeleteResponseTopic { name, partitions });
                let topics = topics.collect();
                ResponseBody::OffsetDelete(OffsetDeleteResponse { error_code, topics })
            })
            .boxed(),
        ApiKey::DescribeGroups => {
            described(described_group()).prop_map(ResponseBody::DescribeGroups).boxed()
        }
        ApiKey::DeleteGroups => some((boxed(), code()))
            .prop_map(|results| ResponseBody::DeleteGroups(DeleteGroupsResponse { results }))
            .boxed(),
        ApiKey::ListGroups => (code(), some(listed_group()))
            .prop_map(|(error_code, groups)| ListGroupsResponse { error_code, groups })
            .prop_map(ResponseBody::ListGroups)
            .boxed(),
        ApiKey::ConsumerGroupHeartbeat => {
            consumer_heartbeat_response().prop_map(ResponseBody::ConsumerGroupHeartbeat).boxed()
        }
        ApiKey::ConsumerGroupDescribe => described(described_consumer_group())
            .prop_map(ResponseBody::ConsumerGroupDescribe)
            .boxed(),
    }
}

fn described<S: Strategy>(group: S) -> impl Strategy<Value = Described<S::Value>> {
    (vec(group, 1..4), any::<i32>())
        .prop_map(|(groups, authorized_operations)| Described { groups, authorized_operations })
}

fn join_group_response() -> impl Strategy<Value = JoinGroupResponse> {
    let member = (boxed(), maybe(boxed()), boxed_bytes()).prop_map(
        |(member_id, group_instance_id, metadata)| JoinGroupResponseMember {
            member_id,
            group_instance_id,
            metadata: (&*metadata).into(),
        },
    );
    let words = (maybe(boxed()), maybe(boxed()), boxed(), boxed());
    (code(), any::<i32>(), words, any::<bool>(), some(member)).prop_map(
        |(error_code, generation_id, words, skip_assignment, members)| {
            let (protocol_type, protocol_name, leader, member_id) = words;
            JoinGroupResponse {
                error_code,
                generation_id,
                protocol_type,
                protocol_name,
                leader,
                skip_assignment,
                member_id,
                members,
            }
        },
    )
}

fn leave_group_response() -> impl Strategy<Value = LeaveGroupResponse> {
    let member =
        (boxed(), maybe(boxed()), code()).prop_map(|(member_id, group_instance_id, error_code)| {
            LeaveGroupMemberResponse { member_id, group_instance_id, error_code }
        });
    (code(), some(member))
        .prop_map(|(error_code, members)| LeaveGroupResponse { error_code, members })
}

fn offset_fetch_response() -> impl Strategy<Value = OffsetFetchResponse> {
    let partition = (any::<i32>(), any::<i64>(), any::<i32>(), boxed(), code());
    let topic = (boxed(), uuid(), some(partition));
    (boxed(), code(), some(topic)).prop_map(|(group_id, error_code, topics)| {
        let mut response = OffsetFetchResponseBuilder::new(&group_id, error_code);
        for (name, topic_id, partitions) in &topics {
            let partitions = partitions.iter().map(|(index, offset, epoch, metadata, code)| {
                OffsetFetchResponsePartition {
                    partition_index: *index,
                    committed_offset: *offset,
                    committed_leader_epoch: *epoch,
                    metadata,
                    error_code: *code,
                }
            });
            response.push_topic(name, *topic_id, partitions);
        }
        response.finish()
    })
}

fn described_group() -> impl Strategy<Value = DescribeGroupResponse> {
    let words = (boxed(), maybe(boxed()), boxed(), boxed());
    let member = (words, boxed_bytes(), boxed_bytes()).prop_map(
        |(words, member_metadata, member_assignment)| {
            let (member_id, group_instance_id, client_id, client_host) = words;
            DescribedGroupMember {
                member_id,
                group_instance_id,
                client_id,
                client_host,
                member_metadata: (&*member_metadata).into(),
                member_assignment: (&*member_assignment).into(),
            }
        },
    );
    let words = (maybe(boxed()), boxed(), boxed(), boxed());
    (code(), words, select(&STATES[..]), some(member)).prop_map(
        |(error_code, words, group_state, members)| {
            let (error_message, group_id, protocol_type, protocol_data) = words;
            DescribeGroupResponse {
                error_code,
                error_message,
                group_id,
                group_state,
                protocol_type,
                protocol_data,
                members,
            }
        },
    )
}

fn listed_group() -> impl Strategy<Value = ListedGroup> {
    (boxed(), boxed(), select(&STATES[..]), select(&TYPES[..])).prop_map(
        |(group_id, protocol_type, group_state, group_type)| ListedGroup {
            group_id,
            protocol_type,
            group_state,
            group_type,
        },
    )
}

fn partitions() -> impl Strategy<Value = Vec<TopicPartition>> {
    let at =
        (0..3u128, any::<i32>()).prop_map(|(id, number)| TopicPartition::new(Uuid(id), number));
    vec(at, 0..6).prop_map(into_set)
}

fn consumer_heartbeat() -> impl Strategy<Value = ConsumerGroupHeartbeatRequest<'static>> {
    let words = (word(), word(), maybe(word()), maybe(word()), maybe(word()), maybe(word()));
    let lists = (maybe(some(word())), maybe(partitions()));
    (words, any::<i32>(), any::<i32>(), lists).prop_map(
        |(words, member_epoch, rebalance_timeout_ms, lists)| {
            let (group_id, member_id, instance_id, rack_id, regex, server_assignor) = words;
            ConsumerGroupHeartbeatRequest {
                group_id,
                member_id,
                member_epoch,
                instance_id,
                rebalance_timeout_ms,
                subscribed_topic_names: lists.0,
                subscribed_topic_regex: regex,
                preferences: Preferences::of(rack_id, server_assignor),
                topic_partitions: lists.1,
            }
        },
    )
}

fn consumer_heartbeat_response()
-> impl Strategy<Value = Result<ConsumerGroupHeartbeatResponse, Refusal>> {
    let refusal = (select(&CODES[1..]), maybe(boxed()))
        .prop_map(|(error_code, error_message)| Refusal { error_code, error_message });
    let accepted = (word(), any::<i32>(), any::<i32>(), maybe(partitions())).prop_map(
        |(member_id, member_epoch, heartbeat_interval_ms, assignment)| {
            ConsumerGroupHeartbeatResponse {
                member_id: MemberId::new(member_id),
                member_epoch,
                heartbeat_interval_ms,
                assignment: assignment.map(Into::into),
            }
        },
    );
    prop_oneof![accepted.prop_map(Ok), refusal.prop_map(Err)]
}

fn described_consumer_group() -> impl Strategy<Value = ConsumerGroupDescribeResponse> {
    let topic = || {
        (uuid(), boxed(), some(any::<i32>())).prop_map(|(topic_id, topic_name, partitions)| {
            DescribedTopicPartitions { topic_id, topic_name, partitions }
        })
    };
    let words = (boxed(), maybe(boxed()), maybe(boxed()), boxed(), boxed(), boxed());
    let member_type = select(&[MemberType::Classic, MemberType::Consumer][..]);
    let lists = (some(boxed()), some(topic()), some(topic()));
    let member = (words, any::<i32>(), lists, member_type).prop_map(
        |(words, member_epoch, lists, member_type)| {
            let (member_id, instance_id, rack_id, client_id, client_host, regex) = words;
            ConsumerGroupDescribedMember {
                member_id,
                instance_id,
                rack_id,
                member_epoch,
                client_id,
                client_host,
                subscribed_topic_names: lists.0.into(),
                subscribed_topic_regex: regex,
                assignment: lists.1,
                target_assignment: lists.2,
                member_type,
            }
        },
    );
    let epochs = (any::<i32>(), any::<i32>());
    let words = (maybe(boxed()), boxed(), select(&STATES[..]), boxed());
    (code(), words, epochs, some(member)).prop_map(|(error_code, words, epochs, members)| {
        let (error_message, group_id, group_state, assignor_name) = words;
        ConsumerGroupDescribeResponse {
            error_code,
            error_message,
            group_id,
            group_state,
            group_epoch: epochs.0,
            assignment_epoch: epochs.1,
            assignor_name,
            members,
        }
    })
}
