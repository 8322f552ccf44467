//! Honest inputs, from which the changed ones are made: sessions of every API in every version,
//! recorded logs, and what consumers write about themselves.

use std::fs;
use std::path::Path;

use kcoord_core::assignor::sticky::user_data::StickyUserData;
use kcoord_core::consumer_protocol::{Assignment, Subscription};
use kcoord_core::record::{Producer, TransactionResult};
use kcoord_core::request::*;
use kcoord_node::Frame;
use kcoord_wire::api::describing::DescribeGroupsRequest;
use kcoord_wire::api::write_txn_markers::{self, Markers};
use kcoord_wire::api::{self, RequestBody, ResponseBody};
use kcoord_wire::header::{APIS, ApiKey, begin_request, finish_response, open_response};

use crate::entry;

/// The form of `entry::session`: no time passes before the frame, and the log answers at once.
pub const AT_ONCE: u8 = 0;

/// One session for each version of each API, which a stable member asks; and each API alone.
pub fn sessions() -> Vec<Vec<u8>> {
    let member_id = first_member_id();
    let mut sessions = Vec::new();
    for spec in APIS.iter() {
        for version in spec.min_version..=spec.max_version {
            let mut session = part(AT_ONCE, &frame(ApiKey::JoinGroup, 3, &join("")));
            for (api, version) in [(ApiKey::SyncGroup, 3), (spec.api, version)] {
                session
                    .extend(part(AT_ONCE, &frame(api, version, &body(api, &member_id, version))));
            }
            session.extend(part(
                AT_ONCE,
                &frame(ApiKey::OffsetFetch, 5, &body(ApiKey::OffsetFetch, &member_id, 5)),
            ));
            sessions.push(session);
        }
    }
    sessions
}

/// Segments that Kafka wrote, the small ones; `tests/segments` says what is in them.
pub fn logs() -> Vec<Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/segments");
    let mut logs = Vec::new();
    for scenario in [
        "classic-1",
        "compacted-1",
        "consumer-1",
        "consumer-2",
        "migration-1",
        "migration-3",
        "offsets-1",
        "transactions-1",
    ] {
        let mut folders = vec![root.join(scenario)];
        while let Some(folder) = folders.pop() {
            let mut entries: Vec<_> = fs::read_dir(&folder)
                .expect("recorded logs")
                .map(|e| e.expect("one").path())
                .collect();
            entries.sort();
            for path in entries {
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|extension| extension == "log") {
                    let bytes = fs::read(&path).expect("a segment");
                    if (1..100_000).contains(&bytes.len()) {
                        logs.push(bytes);
                    }
                }
            }
        }
    }
    assert!(!logs.is_empty(), "no recorded logs");
    logs
}

pub fn member_data() -> Vec<Vec<u8>> {
    let sticky = StickyUserData {
        partitions: vec![(&b"orders"[..], vec![0, 2, 4]), (&b"payments"[..], vec![1])],
        generation: Some(7),
    };
    let mut user_data = Vec::new();
    sticky.encode(&mut user_data);
    let owned = vec![("orders", vec![0, 2, 4]), ("payments", vec![1])];
    let mut seeds = vec![user_data.clone()];
    for version in 0..=3 {
        let mut subscription = Vec::new();
        Subscription {
            version,
            topics: vec!["orders", "payments"],
            user_data: Some(&user_data),
            owned_partitions: if version > 0 { owned.clone() } else { Vec::new() },
            generation_id: if version > 1 { 7 } else { -1 },
            rack_id: if version > 2 { Some("rack-1") } else { None },
        }
        .encode(&mut subscription);
        seeds.push(subscription);
    }
    let mut assignment = Vec::new();
    Assignment { version: 1, assigned_partitions: owned, user_data: None }.encode(&mut assignment);
    seeds.push(assignment);
    seeds
}

pub fn part(control: u8, frame: &[u8]) -> Vec<u8> {
    let length = u16::try_from(frame.len()).expect("a short frame").to_be_bytes();
    [&[control, length[0], length[1]], frame].concat()
}

pub fn frame(api: ApiKey, version: i16, body: &RequestBody<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    let start = begin_request(&mut out, api, version, 77, Some("client"));
    api::encode_request(&mut out, version, body);
    finish_response(&mut out, start);
    out.split_off(4)
}

pub fn join(member_id: &str) -> RequestBody<'_> {
    RequestBody::JoinGroup(JoinGroupRequest {
        group_id: "group",
        session_timeout_ms: 30_000,
        rebalance_timeout_ms: 60_000,
        member_id,
        group_instance_id: None,
        protocol_type: "consumer",
        protocols: vec![JoinGroupProtocol {
            name: "range",
            metadata: b"\0\0\0\0\0\x01\0\x06orders\xff\xff\xff\xff",
        }],
        reason: None,
    })
}

/// The node of `entry::session` hands out the same ids every time.
pub fn first_member_id() -> String {
    let mut node = entry::node();
    (0..node.shard_count()).for_each(|shard| node.loaded(shard, 0, 0));
    let bytes = frame(ApiKey::JoinGroup, 3, &join(""));
    let session = entry::session_of_peers();
    let asked = [Frame { ticket: 1, session: &session, bytes: &bytes }];
    let mut turn = node.step(1_000_000, &asked, &[]);
    assert_eq!(turn.invalid, []);
    if turn.replies.is_empty() {
        let durable: Vec<_> =
            turn.appends.iter().map(|(n, append)| (*n, append.end_offset())).collect();
        turn = node.step(1_000_000, &[], &durable);
    }
    let (_, start, end) = turn.replies[0];
    let reply = &turn.buffer[start + 4..end];
    let (_, mut body) = open_response(ApiKey::JoinGroup, 3, reply).expect("a header");
    match api::decode_response(ApiKey::JoinGroup, 3, &mut body).expect("a body") {
        ResponseBody::JoinGroup(answer) => answer.member_id.to_string(),
        other => panic!("{other:?}"),
    }
}

const PRODUCER: Producer = Producer { id: 7, epoch: 0 };

fn commit(member_id: &str) -> OffsetCommitRequest<'_> {
    OffsetCommitRequest {
        group_id: "group",
        generation_id_or_member_epoch: 1,
        member_id,
        group_instance_id: None,
        retention_time_ms: -1,
        topics: vec![OffsetCommitTopic {
            name: "orders",
            topic_id: Uuid(1),
            partitions: vec![OffsetCommitPartition {
                partition_index: 3,
                committed_offset: 42,
                committed_leader_epoch: -1,
                committed_metadata: Some("note"),
            }],
        }],
    }
}

pub fn body(api: ApiKey, member_id: &str, version: i16) -> RequestBody<'_> {
    match api {
        ApiKey::JoinGroup => join(member_id),
        ApiKey::SyncGroup => RequestBody::SyncGroup(SyncGroupRequest {
            group_id: "group",
            generation_id: 1,
            member_id,
            group_instance_id: None,
            protocol_type: Some("consumer"),
            protocol_name: Some("range"),
            assignments: vec![SyncGroupAssignment { member_id, assignment: b"\0\0\0\0\0\0" }],
        }),
        ApiKey::Heartbeat => RequestBody::Heartbeat(HeartbeatRequest {
            group_id: "group",
            generation_id: 1,
            member_id,
            group_instance_id: None,
        }),
        ApiKey::LeaveGroup => RequestBody::LeaveGroup(LeaveGroupRequest {
            group_id: "group",
            members: vec![LeaveGroupMember { member_id, group_instance_id: None, reason: None }],
        }),
        ApiKey::OffsetCommit => RequestBody::OffsetCommit(commit(member_id)),
        ApiKey::TxnOffsetCommit => RequestBody::TxnOffsetCommit(TxnOffsetCommitRequest {
            transactional_id: "transactions",
            producer: PRODUCER,
            commit: commit(member_id),
        }),
        ApiKey::WriteTxnMarkers => {
            let marker = TransactionMarker {
                producer: PRODUCER,
                result: TransactionResult::Commit,
                coordinator_epoch: 1,
                transaction_version: 2,
            };
            let topics = vec![("__consumer_offsets", vec![0, 1, 2])];
            let markers = vec![Markers { marker, topics }];
            RequestBody::WriteTxnMarkers(write_txn_markers::Request { markers })
        }
        ApiKey::OffsetFetch => RequestBody::OffsetFetch(vec![OffsetFetchRequest {
            group_id: "group",
            member_id: None,
            member_epoch: -1,
            topics: Some(vec![OffsetFetchTopic {
                name: "orders",
                topic_id: Uuid(1),
                partition_indexes: vec![3],
            }]),
            require_stable: version >= 7,
        }]),
        ApiKey::OffsetDelete => RequestBody::OffsetDelete(OffsetDeleteRequest {
            group_id: "group",
            topics: vec![OffsetDeleteTopic { name: "orders", partitions: vec![3] }],
        }),
        ApiKey::DescribeGroups => RequestBody::DescribeGroups(DescribeGroupsRequest {
            groups: vec!["group"],
            include_authorized_operations: version >= 3,
        }),
        ApiKey::DeleteGroups => {
            RequestBody::DeleteGroups(DeleteGroupsRequest { groups_names: vec!["group"] })
        }
        ApiKey::ListGroups => RequestBody::ListGroups(ListGroupsRequest::default()),
        ApiKey::ConsumerGroupHeartbeat => {
            RequestBody::ConsumerGroupHeartbeat(ConsumerGroupHeartbeatRequest {
                group_id: "next",
                member_id: "member",
                rebalance_timeout_ms: 60_000,
                subscribed_topic_names: Some(vec!["orders"]),
                subscribed_topic_regex: (version >= 1).then_some("pay.*"),
                preferences: Preferences::of(None, Some("range")),
                topic_partitions: Some(Vec::new()),
                ..ConsumerGroupHeartbeatRequest::default()
            })
        }
        ApiKey::ConsumerGroupDescribe => {
            RequestBody::ConsumerGroupDescribe(DescribeGroupsRequest {
                groups: vec!["next"],
                include_authorized_operations: true,
            })
        }
    }
}
