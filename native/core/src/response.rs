//! What a shard answers. Owned values: a response may wait for its record to be committed, long
//! after the frame it answers is gone.

mod consumer;
mod offset_fetch;

pub use consumer::{
    ConsumerGroupDescribeResponse, ConsumerGroupDescribedMember, ConsumerGroupHeartbeatResponse,
    DescribedTopicPartitions, MemberType, Refusal,
};
pub use offset_fetch::{
    OffsetFetchResponse, OffsetFetchResponseBuilder, OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions, OffsetFetchResponseTopic,
};

use crate::error::ErrorCode;
use crate::request::Uuid;

#[derive(Clone, Debug, PartialEq)]
pub enum Response {
    JoinGroup(Box<JoinGroupResponse>),
    SyncGroup(SyncGroupResponse),
    Heartbeat(ErrorCode),
    LeaveGroup(LeaveGroupResponse),
    ConsumerGroupHeartbeat(Result<ConsumerGroupHeartbeatResponse, Refusal>),
    ConsumerGroupDescribe(Box<ConsumerGroupDescribeResponse>),
    OffsetCommit(OffsetCommitResponse),
    OffsetFetch(OffsetFetchResponse),
    OffsetDelete(OffsetDeleteResponse),
    DescribeGroup(Box<DescribeGroupResponse>),
    DeleteGroups(DeleteGroupsResponse),
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
            Response::OffsetCommit(mut response) => {
                let topics = response.topics.iter_mut();
                topics.flat_map(|t| &mut t.partitions).for_each(|(_, code)| *code = error_code);
                Response::OffsetCommit(response)
            }
            Response::OffsetFetch(response) => {
                Response::OffsetFetch(response.map_partitions(error_code, |partition| {
                    OffsetFetchResponsePartition::absent(partition.partition_index, error_code)
                }))
            }
            Response::OffsetDelete(_) => {
                Response::OffsetDelete(OffsetDeleteResponse { error_code, topics: Vec::new() })
            }
            Response::DescribeGroup(response) => {
                let refused = DescribeGroupResponse::refused(response.group_id, error_code);
                Response::DescribeGroup(Box::new(refused))
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

#[derive(Clone, Debug, PartialEq)]
pub struct JoinGroupResponse {
    pub error_code: ErrorCode,
    /// -1 in errors.
    pub generation_id: i32,
    pub protocol_type: Option<Box<str>>,
    /// `None` and `""` are the same to the core; the codec writes `""` below v7 and null from v7.
    pub protocol_name: Option<Box<str>>,
    pub leader: Box<str>,
    pub skip_assignment: bool,
    pub member_id: Box<str>,
    pub members: Vec<JoinGroupResponseMember>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct JoinGroupResponseMember {
    pub member_id: Box<str>,
    pub group_instance_id: Option<Box<str>>,
    pub metadata: Box<[u8]>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct SyncGroupResponse {
    pub error_code: ErrorCode,
    pub protocol_type: Option<Box<str>>,
    pub protocol_name: Option<Box<str>>,
    pub assignment: Box<[u8]>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct LeaveGroupResponse {
    /// Top level; for v0-2 the codec puts the only member's code here.
    pub error_code: ErrorCode,
    pub members: Vec<LeaveGroupMemberResponse>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct LeaveGroupMemberResponse {
    pub member_id: Box<str>,
    pub group_instance_id: Option<Box<str>>,
    pub error_code: ErrorCode,
}

#[derive(Clone, Debug, PartialEq)]
pub struct OffsetCommitResponse {
    pub topics: Vec<OffsetCommitResponseTopic>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct OffsetCommitResponseTopic {
    pub name: Box<str>,
    pub topic_id: Uuid,
    /// Partition index and its result, in request order.
    pub partitions: Vec<(i32, ErrorCode)>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct OffsetDeleteResponse {
    pub error_code: ErrorCode,
    /// Empty with a top-level error.
    pub topics: Vec<OffsetDeleteResponseTopic>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct OffsetDeleteResponseTopic {
    pub name: Box<str>,
    pub partitions: Vec<(i32, ErrorCode)>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct DescribeGroupResponse {
    pub error_code: ErrorCode,
    /// Sent from v6.
    pub error_message: Option<Box<str>>,
    pub group_id: Box<str>,
    /// `Empty`, `PreparingRebalance`, `CompletingRebalance`, `Stable` or `Dead`.
    pub group_state: &'static str,
    pub protocol_type: Box<str>,
    pub protocol_data: Box<str>,
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

#[derive(Clone, Debug, PartialEq)]
pub struct DescribedGroupMember {
    pub member_id: Box<str>,
    pub group_instance_id: Option<Box<str>>,
    pub client_id: Box<str>,
    pub client_host: Box<str>,
    pub member_metadata: Box<[u8]>,
    pub member_assignment: Box<[u8]>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct DeleteGroupsResponse {
    pub results: Vec<(Box<str>, ErrorCode)>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ListGroupsResponse {
    pub error_code: ErrorCode,
    pub groups: Vec<ListedGroup>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ListedGroup {
    pub group_id: Box<str>,
    pub protocol_type: Box<str>,
    pub group_state: &'static str,
    /// `classic`, `consumer`, `share` or `streams`.
    pub group_type: &'static str,
}
