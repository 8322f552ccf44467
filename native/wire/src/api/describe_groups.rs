//! DescribeGroups (15): v3 authorized operations, v4 instance id, v5 flexible, v6 error message.

use kcoord_core::ErrorCode;
use kcoord_core::response::{DescribeGroupResponse, DescribedGroupMember};

use super::{known_word, shorten};
use crate::header::ApiKey;
use crate::reader::{Reader, Result};
use crate::writer::Writer;

const API: ApiKey = ApiKey::DescribeGroups;

/// `authorized_operations` of a client that did not ask for them.
pub const OPERATIONS_OMITTED: i32 = i32::MIN;

/// What a broker without an authorizer answers for a group: READ, DELETE, DESCRIBE,
/// DESCRIBE_CONFIGS and ALTER_CONFIGS, as bits by `AclOperation` code.
pub const GROUP_OPERATIONS: i32 = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11;

/// The host splits it: its groups may live in several shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribeGroupsRequest<'a> {
    /// The groups.
    pub groups: Vec<&'a str>,
    /// Asks for operations that the caller may do; there is nothing to say of them.
    pub include_authorized_operations: bool,
}

/// Reads the body of a request.
pub fn decode_request<'a>(
    version: i16,
    body: &mut Reader<'a>,
) -> Result<DescribeGroupsRequest<'a>> {
    let groups = body.array("groups", 1, |body| body.string("group_id"))?;
    let include_authorized_operations =
        version >= 3 && body.boolean("include_authorized_operations")?;
    body.tags()?;
    Ok(DescribeGroupsRequest { groups, include_authorized_operations })
}

/// `authorized_operations`: bits by `AclOperation` code, the same for all groups.
pub fn encode_response<'a>(
    out: &mut Vec<u8>,
    version: i16,
    groups: impl ExactSizeIterator<Item = &'a DescribeGroupResponse>,
    authorized_operations: i32,
) {
    begin_groups(out, version, groups.len());
    for group in groups {
        encode_group(out, version, group, authorized_operations);
    }
    end_groups(out, version);
}

/// What comes before the groups.
pub fn begin_groups(out: &mut Vec<u8>, version: i16, count: usize) {
    let mut out = Writer::new(out, API.spec().is_flexible(version));
    if version >= 1 {
        out.i32(0); // throttle_time_ms
    }
    out.array_length(count);
}

/// What comes behind the groups.
pub fn end_groups(out: &mut Vec<u8>, version: i16) {
    Writer::new(out, API.spec().is_flexible(version)).tags();
}

/// Bytes that a group takes at most; not much less.
pub fn group_bytes(group: &DescribeGroupResponse) -> usize {
    let member = |member: &DescribedGroupMember| {
        let texts = [&member.member_id, &member.client_id, &member.client_host];
        let instance_id = member.group_instance_id.as_deref().map_or(0, str::len);
        let bytes = member.member_metadata.len() + member.member_assignment.len();
        23 + texts.map(|text| text.len()).iter().sum::<usize>() + instance_id + bytes
    };
    let texts = [&group.group_id, &group.protocol_type, &group.protocol_data];
    let message = group.error_message.as_deref().map_or(0, str::len);
    let fields = texts.map(|text| text.len()).iter().sum::<usize>() + group.group_state.len();
    32 + message + fields + group.members.iter().map(member).sum::<usize>()
}

/// One of the groups.
pub fn encode_group(
    out: &mut Vec<u8>,
    version: i16,
    group: &DescribeGroupResponse,
    authorized_operations: i32,
) {
    let mut out = Writer::new(out, API.spec().is_flexible(version));
    encode_fields(&mut out, version, group);
    if version >= 3 {
        out.i32(authorized_operations);
    }
    out.tags();
}

fn encode_fields(out: &mut Writer<'_>, version: i16, group: &DescribeGroupResponse) {
    out.error_code(group.error_code);
    if version >= 6 {
        // It quotes the group's id, and may so be longer than a string can be.
        out.nullable_string(group.error_message.as_deref().map(shorten));
    }
    out.string(&group.group_id);
    out.string(group.group_state);
    out.string(&group.protocol_type);
    out.string(&group.protocol_data);
    out.array_length(group.members.len());
    for member in &group.members {
        out.string(&member.member_id);
        if version >= 4 {
            out.nullable_string(member.group_instance_id.as_deref());
        }
        out.string(&member.client_id);
        out.string(&member.client_host);
        out.bytes(&member.member_metadata);
        out.bytes(&member.member_assignment);
        out.tags();
    }
}

/// One group that cannot be served: its id and the code, nothing else.
pub fn error_response(group_id: &str, error_code: ErrorCode) -> DescribeGroupResponse {
    DescribeGroupResponse::refused(group_id, error_code)
}

/// Appends the body of a request, as clients do.
pub fn encode_request(out: &mut Vec<u8>, version: i16, request: &DescribeGroupsRequest<'_>) {
    let mut out = Writer::new(out, API.spec().is_flexible(version));
    out.array_length(request.groups.len());
    for group_id in &request.groups {
        out.string(group_id);
    }
    if version >= 3 {
        out.boolean(request.include_authorized_operations);
    }
    out.tags();
}

/// The groups, and the first one's authorized operations.
pub fn decode_response(
    version: i16,
    body: &mut Reader<'_>,
) -> Result<(Vec<DescribeGroupResponse>, i32)> {
    if version >= 1 {
        body.i32("throttle_time_ms")?;
    }
    let mut authorized_operations = None;
    let groups = body.array("groups", 12, |body| {
        let group = decode_group(version, body)?;
        if version >= 3 {
            let operations = body.i32("authorized_operations")?;
            authorized_operations.get_or_insert(operations);
        }
        body.tags()?;
        Ok(group)
    })?;
    body.tags()?;
    Ok((groups, authorized_operations.unwrap_or(OPERATIONS_OMITTED)))
}

fn decode_group(version: i16, body: &mut Reader<'_>) -> Result<DescribeGroupResponse> {
    Ok(DescribeGroupResponse {
        error_code: body.error_code("error_code")?,
        error_message: match version {
            ..6 => None,
            _ => body.nullable_string("error_message")?.map(Box::from),
        },
        group_id: body.string("group_id")?.into(),
        group_state: known_word(body, "group_state")?,
        protocol_type: body.string("protocol_type")?.into(),
        protocol_data: body.string("protocol_data")?.into(),
        members: body.array("members", 6, |body| {
            let member = DescribedGroupMember {
                member_id: body.string("member_id")?.into(),
                group_instance_id: match version {
                    ..4 => None,
                    _ => body.nullable_string("group_instance_id")?.map(Box::from),
                },
                client_id: body.string("client_id")?.into(),
                client_host: body.string("client_host")?.into(),
                member_metadata: body.bytes("member_metadata")?.into(),
                member_assignment: body.bytes("member_assignment")?.into(),
            };
            body.tags()?;
            Ok(member)
        })?,
    })
}
