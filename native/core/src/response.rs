//! What a shard answers. Owned values: a response may wait for its record to be committed, long
//! after the frame it answers is gone.

mod consumer;
mod member_id;
mod offset_fetch;

pub use consumer::{
    ConsumerGroupDescribeResponse, ConsumerGroupDescribedMember, ConsumerGroupHeartbeatResponse,
    DescribedTopicPartitions, MemberType, Refusal,
};
pub use member_id::MemberId;
pub use offset_fetch::{
    OffsetFetchPlace, OffsetFetchResponse, OffsetFetchResponseBuilder,
    OffsetFetchResponsePartition, OffsetFetchResponsePartitions, OffsetFetchResponseTopic,
    OffsetFetchStep,
};

use crate::error::ErrorCode;
use crate::request::Uuid;
use crate::shared_bytes::SharedBytes;

/// The answer of a shard.
#[derive(Clone, Debug, PartialEq)]
pub enum Response {
    /// To JoinGroup.
    JoinGroup(Box<JoinGroupResponse>),
    /// To SyncGroup.
    SyncGroup(SyncGroupResponse),
    /// To Heartbeat.
    Heartbeat(ErrorCode),
    /// To LeaveGroup.
    LeaveGroup(LeaveGroupResponse),
    /// To ConsumerGroupHeartbeat.
    ConsumerGroupHeartbeat(Result<ConsumerGroupHeartbeatResponse, Refusal>),
    /// To ConsumerGroupDescribe.
    ConsumerGroupDescribe(Box<ConsumerGroupDescribeResponse>),
    /// To OffsetCommit.
    OffsetCommit(OffsetCommitResponse),
    /// To TxnOffsetCommit.
    TxnOffsetCommit(OffsetCommitResponse),
    /// To a marker of WriteTxnMarkers.
    WriteTxnMarkers(ErrorCode),
    /// To OffsetFetch.
    OffsetFetch(OffsetFetchResponse),
    /// To OffsetDelete.
    OffsetDelete(OffsetDeleteResponse),
    /// To DescribeGroup.
    DescribeGroups(Box<DescribeGroupResponse>),
    /// To DeleteGroups.
    DeleteGroups(DeleteGroupsResponse),
    /// To ListGroups.
    ListGroups(ListGroupsResponse),
    /// A membership request whose shard was dropped while it waited (a failed append, or an
    /// unload): the codec turns it into the API's own shape with this code in it.
    Dropped(ErrorCode),
}

impl Response {
    /// What the same request hears where its shard goes away before the records are committed:
    /// the error in the shape of its API, nothing of what was decided. A list goes without the
    /// shard's groups (states section 3.1).
    pub fn refused(self, error_code: ErrorCode) -> Response {
        match self {
            Response::JoinGroup(_)
            | Response::SyncGroup(_)
            | Response::Heartbeat(_)
            | Response::LeaveGroup(_)
            | Response::Dropped(_) => Response::Dropped(error_code),
            Response::ConsumerGroupHeartbeat(_) => {
                Response::ConsumerGroupHeartbeat(Err(error_code.into()))
            }
            Response::ConsumerGroupDescribe(response) => {
                let refusal = error_code.into();
                let refused = ConsumerGroupDescribeResponse::refused(response.group_id, refusal);
                Response::ConsumerGroupDescribe(Box::new(refused))
            }
            Response::OffsetCommit(response) => {
                Response::OffsetCommit(response.refused(error_code))
            }
            Response::TxnOffsetCommit(response) => {
                Response::TxnOffsetCommit(response.refused(error_code))
            }
            Response::WriteTxnMarkers(_) => Response::WriteTxnMarkers(error_code),
            Response::OffsetFetch(response) => {
                Response::OffsetFetch(response.map_partitions(error_code, |partition| {
                    OffsetFetchResponsePartition::absent(partition.partition_index, error_code)
                }))
            }
            Response::OffsetDelete(_) => {
                Response::OffsetDelete(OffsetDeleteResponse { error_code, topics: Vec::new() })
            }
            Response::DescribeGroups(response) => {
                let refused = DescribeGroupResponse::refused(response.group_id, error_code);
                Response::DescribeGroups(Box::new(refused))
            }
            Response::DeleteGroups(mut response) => {
                response.results.iter_mut().for_each(|(_, code)| *code = error_code);
                Response::DeleteGroups(response)
            }
            Response::ListGroups(_) => Response::ListGroups(ListGroupsResponse {
                error_code: ErrorCode::None,
                groups: Vec::new(),
            }),
        }
    }
}

/// To JoinGroup.
#[derive(Clone, Debug, PartialEq)]
pub struct JoinGroupResponse {
    /// `None` where all went well.
    pub error_code: ErrorCode,
    /// -1 in errors.
    pub generation_id: i32,
    /// `consumer` for consumers; empty for a group that never had members.
    pub protocol_type: Option<Box<str>>,
    /// `None` and `""` are the same to the core; the codec writes `""` below v7 and null from v7.
    pub protocol_name: Option<Box<str>>,
    /// The member that assigns.
    pub leader: Box<str>,
    /// The leader must not assign: the assignment stands (KIP-814).
    pub skip_assignment: bool,
    /// The id of the member, given out now if it had none.
    pub member_id: Box<str>,
    /// For the leader: all members. For others: none.
    pub members: Vec<JoinGroupResponseMember>,
}

/// A member as its leader sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct JoinGroupResponseMember {
    /// The member's id; empty in a first request.
    pub member_id: Box<str>,
    /// Of a static member (KIP-345).
    pub group_instance_id: Option<Box<str>>,
    /// Its subscription, in its bytes.
    pub metadata: SharedBytes,
}

/// To SyncGroup.
#[derive(Clone, Debug, PartialEq)]
pub struct SyncGroupResponse {
    /// `None` where all went well.
    pub error_code: ErrorCode,
    /// `consumer` for consumers; empty for a group that never had members.
    pub protocol_type: Option<Box<str>>,
    /// The assignor that the group uses.
    pub protocol_name: Option<Box<str>>,
    /// In the bytes of the protocol type (ConsumerProtocolAssignment).
    pub assignment: Box<[u8]>,
}

/// To LeaveGroup.
#[derive(Clone, Debug, PartialEq)]
pub struct LeaveGroupResponse {
    /// Top level; for v0-2 the codec puts the only member's code here.
    pub error_code: ErrorCode,
    /// The members.
    pub members: Vec<LeaveGroupMemberResponse>,
}

/// What came of one member.
#[derive(Clone, Debug, PartialEq)]
pub struct LeaveGroupMemberResponse {
    /// The member's id; empty in a first request.
    pub member_id: Box<str>,
    /// Of a static member (KIP-345).
    pub group_instance_id: Option<Box<str>>,
    /// `None` where all went well.
    pub error_code: ErrorCode,
}

/// To OffsetCommit.
#[derive(Clone, Debug, PartialEq)]
pub struct OffsetCommitResponse {
    /// The topics.
    pub topics: Vec<OffsetCommitResponseTopic>,
}

impl OffsetCommitResponse {
    fn refused(mut self, error_code: ErrorCode) -> Self {
        let topics = self.topics.iter_mut();
        topics.flat_map(|t| &mut t.partitions).for_each(|(_, code)| *code = error_code);
        self
    }
}

/// What came of a topic.
#[derive(Clone, Debug, PartialEq)]
pub struct OffsetCommitResponseTopic {
    /// The name of the topic.
    pub name: Box<str>,
    /// The topic, by its id.
    pub topic_id: Uuid,
    /// Partition index and its result, in request order.
    pub partitions: Vec<(i32, ErrorCode)>,
}

/// To OffsetDelete.
#[derive(Clone, Debug, PartialEq)]
pub struct OffsetDeleteResponse {
    /// `None` where all went well.
    pub error_code: ErrorCode,
    /// Empty with a top-level error.
    pub topics: Vec<OffsetDeleteResponseTopic>,
}

/// What came of a topic.
#[derive(Clone, Debug, PartialEq)]
pub struct OffsetDeleteResponseTopic {
    /// The name of the topic.
    pub name: Box<str>,
    /// Partition and outcome.
    pub partitions: Vec<(i32, ErrorCode)>,
}

/// To DescribeGroup.
#[derive(Clone, Debug, PartialEq)]
pub struct DescribeGroupResponse {
    /// `None` where all went well.
    pub error_code: ErrorCode,
    /// Sent from v6.
    pub error_message: Option<Box<str>>,
    /// The group.
    pub group_id: Box<str>,
    /// `Empty`, `PreparingRebalance`, `CompletingRebalance`, `Stable` or `Dead`.
    pub group_state: &'static str,
    /// `consumer` for consumers; empty for a group that never had members.
    pub protocol_type: Box<str>,
    /// The assignor; empty unless the group is stable.
    pub protocol_data: Box<str>,
    /// The members.
    pub members: Vec<DescribedGroupMember>,
}

impl DescribeGroupResponse {
    /// A group that is not described: its id and why.
    pub fn refused(group_id: impl Into<Box<str>>, error_code: ErrorCode) -> Self {
        DescribeGroupResponse {
            error_code,
            error_message: None,
            group_id: group_id.into(),
            group_state: "",
            protocol_type: "".into(),
            protocol_data: "".into(),
            members: Vec::new(),
        }
    }
}

/// A member as administrators see it.
#[derive(Clone, Debug, PartialEq)]
pub struct DescribedGroupMember {
    /// The member's id; empty in a first request.
    pub member_id: Box<str>,
    /// Of a static member (KIP-345).
    pub group_instance_id: Option<Box<str>>,
    /// As the client named itself in the request header.
    pub client_id: Box<str>,
    /// The client's address, as Java prints it: `/127.0.0.1`.
    pub client_host: Box<str>,
    /// Its subscription, in its bytes.
    pub member_metadata: SharedBytes,
    /// Its assignment, in its bytes.
    pub member_assignment: SharedBytes,
}

/// To DeleteGroups.
#[derive(Clone, Debug, PartialEq)]
pub struct DeleteGroupsResponse {
    /// Group and outcome.
    pub results: Vec<(Box<str>, ErrorCode)>,
}

/// To ListGroups.
#[derive(Clone, Debug, PartialEq)]
pub struct ListGroupsResponse {
    /// `None` where all went well.
    pub error_code: ErrorCode,
    /// In the order of rows.
    pub groups: Vec<ListedGroup>,
}

/// A group in a list.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedGroup {
    /// The group.
    pub group_id: Box<str>,
    /// `consumer` for consumers; empty for a group that never had members.
    pub protocol_type: Box<str>,
    /// As Kafka names it: `Stable`.
    pub group_state: &'static str,
    /// `classic`, `consumer`, `share` or `streams`.
    pub group_type: &'static str,
}
