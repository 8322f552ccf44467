//! What confused clients ask for.

use kcoord_core::record::{Producer, TransactionResult};
use kcoord_core::request::*;
use proptest::prelude::*;

pub const GROUPS: [&str; 3] = ["g", "h", "a group id that is too long to be kept in its row"];
const MEMBERS: usize = 4;

/// What a client knows.
#[derive(Clone, Default)]
pub struct Client {
    pub member_id: String,
    pub generation_id: i32,
}

#[derive(Clone, Debug)]
pub struct Call {
    pub api: Api,
    pub group: usize,
    pub member: usize,
    pub identity: Identity,
    /// Added to the generation that the member believes in.
    pub generation_off: i32,
    /// Which of some protocol lists, topics, timeouts and versions.
    pub variant: u8,
}

#[derive(Clone, Copy, Debug)]
pub enum Api {
    Join,
    Sync,
    Heartbeat,
    Leave,
    Commit,
    TxnCommit,
    EndTxn,
    Fetch,
    DeleteOffsets,
    Describe,
    List,
    DeleteGroup,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Identity {
    Own,
    /// Under its instance id too.
    Static,
    /// As a static member that starts again.
    Restarted,
    Unknown,
    Nobody,
}

pub fn call() -> impl Strategy<Value = Call> {
    let api = prop_oneof![
        9 => Just(Api::Join),
        8 => Just(Api::Sync),
        4 => Just(Api::Heartbeat),
        2 => Just(Api::Leave),
        3 => Just(Api::Commit),
        2 => Just(Api::TxnCommit),
        2 => Just(Api::EndTxn),
        2 => Just(Api::Fetch),
        1 => Just(Api::DeleteOffsets),
        1 => Just(Api::Describe),
        1 => Just(Api::List),
        1 => Just(Api::DeleteGroup),
    ];
    let identity = prop_oneof![
        12 => Just(Identity::Own),
        3 => Just(Identity::Static),
        2 => Just(Identity::Restarted),
        1 => Just(Identity::Unknown),
        1 => Just(Identity::Nobody),
    ];
    let group = prop_oneof![6 => Just(0usize), 1 => Just(1), 1 => Just(2)];
    let off = prop_oneof![10 => Just(0), 1 => -1..2i32];
    (api, group, 0..MEMBERS, identity, off, 0..8u8).prop_map(
        |(api, group, member, identity, generation_off, variant)| Call {
            api,
            group,
            member,
            identity,
            generation_off,
            variant,
        },
    )
}

pub fn request<'a>(
    ticket: Ticket,
    call: &Call,
    client: &'a Client,
) -> (RequestContext<'a>, Request<'a>) {
    let context = RequestContext {
        ticket,
        api_version: if call.variant & 1 == 0 { 9 } else { 3 },
        client_id: ["app", "consumer"][usize::from(call.variant / 4)],
        client_host: "/127.0.0.1",
        uuid: ticket.into(),
    };
    let group_id = GROUPS[call.group];
    let member_id = match call.identity {
        Identity::Own | Identity::Static => client.member_id.as_str(),
        Identity::Restarted | Identity::Nobody => "",
        Identity::Unknown => "whoever",
    };
    let instance_id = matches!(call.identity, Identity::Static | Identity::Restarted)
        .then_some(["i", "j", "k", "l"][call.member]);
    let generation_id = client.generation_id + call.generation_off;
    let request = match call.api {
        Api::Join => Request::JoinGroup(join(call, group_id, member_id, instance_id)),
        Api::Sync => Request::SyncGroup(SyncGroupRequest {
            group_id,
            generation_id,
            member_id,
            group_instance_id: instance_id,
            protocol_type: (call.variant == 3).then_some("consumer"),
            protocol_name: (call.variant == 4).then_some("sticky"),
            assignments: vec![SyncGroupAssignment { member_id, assignment: b"assigned" }],
        }),
        Api::Heartbeat => Request::Heartbeat(HeartbeatRequest {
            group_id,
            generation_id,
            member_id,
            group_instance_id: instance_id,
        }),
        Api::Leave => Request::LeaveGroup(LeaveGroupRequest {
            group_id,
            members: vec![LeaveGroupMember {
                member_id,
                group_instance_id: instance_id,
                reason: None,
            }],
        }),
        Api::Describe => Request::DescribeGroups(DescribeGroupRequest { group_id }),
        Api::List => Request::ListGroups(ListGroupsRequest::default()),
        Api::DeleteGroup => {
            Request::DeleteGroups(DeleteGroupsRequest { groups_names: vec![group_id] })
        }
        Api::EndTxn => Request::WriteTxnMarkers(TransactionMarker {
            producer: producer(call),
            result: [TransactionResult::Abort, TransactionResult::Commit]
                [usize::from(call.variant / 4)],
            coordinator_epoch: call.variant.into(),
            transaction_version: (call.variant % 3) as i8,
        }),
        Api::TxnCommit => {
            let of = Call { api: Api::Commit, ..call.clone() };
            match offset_request(&of, group_id, member_id, instance_id, generation_id) {
                Request::OffsetCommit(commit) => Request::TxnOffsetCommit(TxnOffsetCommitRequest {
                    transactional_id: "transactions",
                    producer: producer(call),
                    commit: OffsetCommitRequest { retention_time_ms: -1, ..commit },
                }),
                request => unreachable!("{request:?}"),
            }
        }
        Api::Commit | Api::Fetch | Api::DeleteOffsets => {
            offset_request(call, group_id, member_id, instance_id, generation_id)
        }
    };
    (context, request)
}

/// Of two, each in some epochs.
fn producer(call: &Call) -> Producer {
    Producer { id: call.member as i64 % 2, epoch: (call.generation_off + 1) as i16 }
}

fn join<'a>(
    call: &Call,
    group_id: &'a str,
    member_id: &'a str,
    group_instance_id: Option<&'a str>,
) -> JoinGroupRequest<'a> {
    let lists: [&[&str]; 4] = [&["range"], &["range", "sticky"], &["sticky", "range"], &["other"]];
    let metadata: &[u8] = match call.variant {
        0..5 => b"\0\0\0\0\0\x01\0\x01t\xff\xff\xff\xff",
        5..7 => b"\0\0\0\0\0\x01\0\x01u\xff\xff\xff\xff",
        _ => b"poison",
    };
    let names = lists[[0, 1, 1, 2, 1, 0, 2, 3][usize::from(call.variant)]];
    JoinGroupRequest {
        group_id,
        session_timeout_ms: 6_000 + i32::from(call.variant) * 3_000,
        rebalance_timeout_ms: [5_000, 60_000, 0, 100, -1][usize::from(call.variant % 5)],
        member_id,
        group_instance_id,
        protocol_type: if call.variant == 6 { "connect" } else { "consumer" },
        protocols: names.iter().map(|name| JoinGroupProtocol { name, metadata }).collect(),
        reason: None,
    }
}

fn offset_request<'a>(
    call: &Call,
    group_id: &'a str,
    member_id: &'a str,
    group_instance_id: Option<&'a str>,
    generation_id: i32,
) -> Request<'a> {
    let topic = ["t", "u"][usize::from(call.variant % 2)];
    match call.api {
        Api::Commit => Request::OffsetCommit(OffsetCommitRequest {
            group_id,
            generation_id_or_member_epoch: if member_id.is_empty() { -1 } else { generation_id },
            member_id,
            group_instance_id,
            retention_time_ms: if call.variant == 7 { 500 } else { -1 },
            topics: vec![OffsetCommitTopic {
                name: topic,
                topic_id: Uuid::ZERO,
                partitions: vec![OffsetCommitPartition {
                    partition_index: call.variant.into(),
                    committed_offset: call.generation_off.into(),
                    committed_leader_epoch: -1,
                    committed_metadata: Some(if call.variant == 5 { "a note" } else { "" }),
                }],
            }],
        }),
        Api::Fetch => Request::OffsetFetch(OffsetFetchRequest {
            group_id,
            member_id: None,
            member_epoch: -1,
            topics: None,
            require_stable: call.variant == 1,
        }),
        _ => Request::OffsetDelete(OffsetDeleteRequest {
            group_id,
            topics: vec![OffsetDeleteTopic { name: topic, partitions: vec![call.variant.into()] }],
        }),
    }
}
