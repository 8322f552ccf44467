//! Request and response bodies, one file per API, in every version that is served. A module reads
//! requests and writes responses (the server's side), and does the reverse for clients: tests, the
//! simulator, load. Bodies only; headers and lengths are `header.rs`. All reads are whole: what a
//! decoder returned was checked to its last byte, and bytes after a body are ignored, as Kafka does.

use kcoord_core::ErrorCode;
use kcoord_core::request::{
    ConsumerGroupHeartbeatRequest, DeleteGroupsRequest, HeartbeatRequest, JoinGroupRequest,
    LeaveGroupRequest, ListGroupsRequest, OffsetCommitRequest, OffsetDeleteRequest,
    OffsetFetchRequest, SyncGroupRequest, Uuid,
};
use kcoord_core::response::{
    ConsumerGroupDescribeResponse, DeleteGroupsResponse, DescribeGroupResponse, JoinGroupResponse,
    LeaveGroupResponse, ListGroupsResponse, OffsetCommitResponse, OffsetDeleteResponse,
    OffsetFetchResponse, SyncGroupResponse,
};

use crate::header::ApiKey;
use crate::reader::{DecodeErrorKind, MAX_STRING_LENGTH, Reader, Result};
use crate::writer::Writer;
use describe_groups::DescribeGroupsRequest;

pub mod consumer_group_describe;
pub mod consumer_group_heartbeat;
pub mod delete_groups;
pub mod describe_groups;
pub mod heartbeat;
pub mod join_group;
pub mod leave_group;
pub mod list_groups;
pub mod offset_commit;
pub mod offset_delete;
pub mod offset_fetch;
pub mod sync_group;

/// A request as it came over the wire. It differs from the core's `Request` where one frame holds
/// several groups, which the node fans out to the shards.
#[derive(Clone, Debug)]
pub enum RequestBody<'a> {
    /// JoinGroup.
    JoinGroup(JoinGroupRequest<'a>),
    /// SyncGroup.
    SyncGroup(SyncGroupRequest<'a>),
    /// Heartbeat.
    Heartbeat(HeartbeatRequest<'a>),
    /// ConsumerGroupHeartbeat.
    ConsumerGroupHeartbeat(ConsumerGroupHeartbeatRequest<'a>),
    /// ConsumerGroupDescribe.
    ConsumerGroupDescribe(DescribeGroupsRequest<'a>),
    /// LeaveGroup.
    LeaveGroup(LeaveGroupRequest<'a>),
    /// OffsetCommit.
    OffsetCommit(OffsetCommitRequest<'a>),
    /// OffsetFetch.
    OffsetFetch(Vec<OffsetFetchRequest<'a>>),
    /// OffsetDelete.
    OffsetDelete(OffsetDeleteRequest<'a>),
    /// DescribeGroups.
    DescribeGroups(DescribeGroupsRequest<'a>),
    /// DeleteGroups.
    DeleteGroups(DeleteGroupsRequest<'a>),
    /// ListGroups.
    ListGroups(ListGroupsRequest<'a>),
}

/// A response as it goes over the wire, gathered from the shards.
#[derive(Clone, Debug, PartialEq)]
pub enum ResponseBody {
    /// JoinGroup.
    JoinGroup(JoinGroupResponse),
    /// SyncGroup.
    SyncGroup(SyncGroupResponse),
    /// Heartbeat.
    Heartbeat(ErrorCode),
    /// ConsumerGroupHeartbeat.
    ConsumerGroupHeartbeat(consumer_group_heartbeat::Answer),
    /// The groups and their authorized operations.
    ConsumerGroupDescribe(Vec<ConsumerGroupDescribeResponse>, i32),
    /// LeaveGroup.
    LeaveGroup(LeaveGroupResponse),
    /// OffsetCommit.
    OffsetCommit(OffsetCommitResponse),
    /// OffsetFetch.
    OffsetFetch(Vec<OffsetFetchResponse>),
    /// OffsetDelete.
    OffsetDelete(OffsetDeleteResponse),
    /// The groups and their authorized operations.
    DescribeGroups(Vec<DescribeGroupResponse>, i32),
    /// DeleteGroups.
    DeleteGroups(DeleteGroupsResponse),
    /// ListGroups.
    ListGroups(ListGroupsResponse),
}

/// # Errors
/// The body is cut short or malformed.
#[inline]
pub fn decode_request<'a>(
    api: ApiKey,
    version: i16,
    body: &mut Reader<'a>,
) -> Result<RequestBody<'a>> {
    use RequestBody as B;
    Ok(match api {
        ApiKey::Heartbeat => B::Heartbeat(heartbeat::decode_request(version, body)?),
        ApiKey::OffsetCommit => B::OffsetCommit(offset_commit::decode_request(version, body)?),
        ApiKey::OffsetFetch => B::OffsetFetch(offset_fetch::decode_request(version, body)?),
        ApiKey::JoinGroup => B::JoinGroup(join_group::decode_request(version, body)?),
        ApiKey::SyncGroup => B::SyncGroup(sync_group::decode_request(version, body)?),
        ApiKey::LeaveGroup => B::LeaveGroup(leave_group::decode_request(version, body)?),
        ApiKey::DescribeGroups => {
            B::DescribeGroups(describe_groups::decode_request(version, body)?)
        }
        ApiKey::ListGroups => B::ListGroups(list_groups::decode_request(version, body)?),
        ApiKey::DeleteGroups => B::DeleteGroups(delete_groups::decode_request(version, body)?),
        ApiKey::OffsetDelete => B::OffsetDelete(offset_delete::decode_request(version, body)?),
        ApiKey::ConsumerGroupHeartbeat => {
            B::ConsumerGroupHeartbeat(consumer_group_heartbeat::decode_request(version, body)?)
        }
        ApiKey::ConsumerGroupDescribe => {
            B::ConsumerGroupDescribe(consumer_group_describe::decode_request(version, body)?)
        }
    })
}

/// Appends the body of a response.
pub fn encode_response(out: &mut Vec<u8>, version: i16, response: &ResponseBody) {
    use ResponseBody as B;
    match response {
        B::JoinGroup(response) => join_group::encode_response(out, version, response),
        B::SyncGroup(response) => sync_group::encode_response(out, version, response),
        B::Heartbeat(error_code) => heartbeat::encode_response(out, version, *error_code),
        B::LeaveGroup(response) => leave_group::encode_response(out, version, response),
        B::OffsetCommit(response) => offset_commit::encode_response(out, version, response),
        B::OffsetFetch(groups) => offset_fetch::encode_response(out, version, groups),
        B::OffsetDelete(response) => offset_delete::encode_response(out, version, response),
        B::DescribeGroups(groups, operations) => {
            describe_groups::encode_response(out, version, groups.iter(), *operations);
        }
        B::DeleteGroups(response) => delete_groups::encode_response(out, version, response),
        B::ListGroups(response) => list_groups::encode_response(out, version, response),
        B::ConsumerGroupHeartbeat(answer) => {
            consumer_group_heartbeat::encode_response(out, version, answer);
        }
        B::ConsumerGroupDescribe(groups, operations) => {
            consumer_group_describe::encode_response(out, version, groups.iter(), *operations);
        }
    }
}

/// Appends the body that answers a whole request with one error, in the API's own shape (Kafka's
/// `getErrorResponse` and `GroupCoordinatorService`'s exception handlers).
pub fn encode_error(
    out: &mut Vec<u8>,
    version: i16,
    request: &RequestBody<'_>,
    error_code: ErrorCode,
) {
    encode_response(out, version, &error_response(request, error_code));
}

/// See [`encode_error`].
pub fn error_response(request: &RequestBody<'_>, code: ErrorCode) -> ResponseBody {
    use {RequestBody as Q, ResponseBody as A};
    match request {
        Q::JoinGroup(request) => A::JoinGroup(join_group::error_response(request, code)),
        Q::SyncGroup(_) => A::SyncGroup(sync_group::error_response(code)),
        Q::Heartbeat(_) => A::Heartbeat(code),
        Q::LeaveGroup(_) => A::LeaveGroup(leave_group::error_response(code)),
        Q::OffsetCommit(request) => A::OffsetCommit(offset_commit::error_response(request, code)),
        Q::OffsetFetch(groups) => {
            let failed = groups.iter().map(|group| offset_fetch::error_response(group, code));
            A::OffsetFetch(failed.collect())
        }
        Q::OffsetDelete(_) => A::OffsetDelete(offset_delete::error_response(code)),
        Q::DescribeGroups(request) => {
            let groups = request.groups.iter();
            let failed = groups.map(|group_id| describe_groups::error_response(group_id, code));
            A::DescribeGroups(failed.collect(), describe_groups::OPERATIONS_OMITTED)
        }
        Q::DeleteGroups(request) => A::DeleteGroups(delete_groups::error_response(request, code)),
        Q::ListGroups(_) => A::ListGroups(list_groups::error_response(code)),
        Q::ConsumerGroupHeartbeat(_) => A::ConsumerGroupHeartbeat(Err(code.into())),
        Q::ConsumerGroupDescribe(request) => {
            let groups = request.groups.iter();
            let failed = groups.map(|id| consumer_group_describe::error_response(id, code));
            A::ConsumerGroupDescribe(failed.collect(), describe_groups::OPERATIONS_OMITTED)
        }
    }
}

/// Client side: appends the body of a request.
pub fn encode_request(out: &mut Vec<u8>, version: i16, request: &RequestBody<'_>) {
    use RequestBody as B;
    match request {
        B::JoinGroup(request) => join_group::encode_request(out, version, request),
        B::SyncGroup(request) => sync_group::encode_request(out, version, request),
        B::Heartbeat(request) => heartbeat::encode_request(out, version, request),
        B::LeaveGroup(request) => leave_group::encode_request(out, version, request),
        B::OffsetCommit(request) => offset_commit::encode_request(out, version, request),
        B::OffsetFetch(groups) => offset_fetch::encode_request(out, version, groups),
        B::OffsetDelete(request) => offset_delete::encode_request(out, version, request),
        B::DescribeGroups(request) => describe_groups::encode_request(out, version, request),
        B::DeleteGroups(request) => delete_groups::encode_request(out, version, request),
        B::ListGroups(request) => list_groups::encode_request(out, version, request),
        B::ConsumerGroupHeartbeat(request) => {
            consumer_group_heartbeat::encode_request(out, version, request);
        }
        B::ConsumerGroupDescribe(request) => {
            consumer_group_describe::encode_request(out, version, request);
        }
    }
}

/// Client side.
///
/// # Errors
/// The body is cut short or malformed, or holds a code or state that kcoord never sends.
pub fn decode_response(api: ApiKey, version: i16, body: &mut Reader<'_>) -> Result<ResponseBody> {
    use ResponseBody as B;
    Ok(match api {
        ApiKey::Heartbeat => B::Heartbeat(heartbeat::decode_response(version, body)?),
        ApiKey::OffsetCommit => B::OffsetCommit(offset_commit::decode_response(version, body)?),
        ApiKey::OffsetFetch => B::OffsetFetch(offset_fetch::decode_response(version, body)?),
        ApiKey::JoinGroup => B::JoinGroup(join_group::decode_response(version, body)?),
        ApiKey::SyncGroup => B::SyncGroup(sync_group::decode_response(version, body)?),
        ApiKey::LeaveGroup => B::LeaveGroup(leave_group::decode_response(version, body)?),
        ApiKey::DescribeGroups => {
            let (groups, operations) = describe_groups::decode_response(version, body)?;
            B::DescribeGroups(groups, operations)
        }
        ApiKey::ListGroups => B::ListGroups(list_groups::decode_response(version, body)?),
        ApiKey::DeleteGroups => B::DeleteGroups(delete_groups::decode_response(version, body)?),
        ApiKey::OffsetDelete => B::OffsetDelete(offset_delete::decode_response(version, body)?),
        ApiKey::ConsumerGroupHeartbeat => {
            B::ConsumerGroupHeartbeat(consumer_group_heartbeat::decode_response(version, body)?)
        }
        ApiKey::ConsumerGroupDescribe => {
            let (groups, operations) = consumer_group_describe::decode_response(version, body)?;
            let operations = operations.unwrap_or(describe_groups::OPERATIONS_OMITTED);
            B::ConsumerGroupDescribe(groups, operations)
        }
    })
}

/// A topic of OffsetCommit or OffsetFetch: by name, or by id from v10. The other one is empty.
#[inline]
fn decode_topic<'a>(version: i16, body: &mut Reader<'a>) -> Result<(&'a str, Uuid)> {
    Ok(match version {
        ..10 => (body.string("name")?, Uuid::ZERO),
        _ => ("", body.uuid("topic_id")?),
    })
}

#[inline]
fn encode_topic(out: &mut Writer<'_>, version: i16, name: &str, topic_id: Uuid) {
    match version {
        ..10 => out.string(name),
        _ => out.uuid(topic_id),
    }
}

/// A message as far as it fits into a string.
fn shorten(message: &str) -> &str {
    let mut end = message.len().min(MAX_STRING_LENGTH);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    &message[..end]
}

/// Group states and types are a closed set, so that responses need not own them.
fn known_word(body: &mut Reader<'_>, field: &'static str) -> Result<&'static str> {
    const WORDS: [&str; 14] = [
        "",
        "Empty",
        "PreparingRebalance",
        "CompletingRebalance",
        "Stable",
        "Dead",
        "Assigning",
        "Reconciling",
        "NotReady",
        "Unknown",
        "classic",
        "consumer",
        "share",
        "streams",
    ];
    let word = body.string(field)?;
    let known = WORDS.into_iter().find(|known| *known == word);
    known.ok_or_else(|| body.error(field, DecodeErrorKind::UnknownValue))
}
