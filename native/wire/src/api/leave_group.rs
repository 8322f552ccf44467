//! LeaveGroup (13): leaves, alone or for others (v3+). One member up to v2, a batch from v3 (KIP-345),
//! v4 flexible, v5 reason.

use kcoord_core::ErrorCode;
use kcoord_core::limits::MAX_ENTRIES_PER_REQUEST;
use kcoord_core::request::{LeaveGroupMember, LeaveGroupRequest};
use kcoord_core::response::{LeaveGroupMemberResponse, LeaveGroupResponse};

use crate::header::ApiKey;
use crate::reader::{Reader, Result};
use crate::writer::Writer;

const API: ApiKey = ApiKey::LeaveGroup;

/// What a request says.
pub type Request<'a> = LeaveGroupRequest<'a>;
/// What a response says.
pub type Response = LeaveGroupResponse;

/// Reads the body of a request.
pub fn decode_request<'a>(version: i16, body: &mut Reader<'a>) -> Result<LeaveGroupRequest<'a>> {
    let group_id = body.string("group_id")?;
    let mut left = MAX_ENTRIES_PER_REQUEST;
    let members = match version {
        ..3 => vec![LeaveGroupMember {
            member_id: body.string("member_id")?,
            group_instance_id: None,
            reason: None,
        }],
        _ => body.counted_array("members", 3, &mut left, |body, _| decode_member(version, body))?,
    };
    body.tags()?;
    Ok(LeaveGroupRequest { group_id, members })
}

/// One of the members, from v3.
pub(super) fn decode_member<'a>(
    version: i16,
    body: &mut Reader<'a>,
) -> Result<LeaveGroupMember<'a>> {
    let member = LeaveGroupMember {
        member_id: body.string("member_id")?,
        group_instance_id: body.nullable_string("group_instance_id")?,
        reason: match version {
            ..5 => None,
            _ => body.nullable_string("reason")?,
        },
    };
    body.tags()?;
    Ok(member)
}

/// v0-2 have one code: the top-level one, or else that of the only member.
pub fn encode_response(out: &mut Vec<u8>, version: i16, response: &LeaveGroupResponse) {
    let mut out = Writer::new(out, API.spec().is_flexible(version));
    if version >= 1 {
        out.i32(0); // throttle_time_ms
    }
    if version < 3 {
        let member = response.members.first().map_or(ErrorCode::None, |member| member.error_code);
        let code = if response.error_code.is_error() { response.error_code } else { member };
        out.error_code(code);
        return;
    }
    out.error_code(response.error_code);
    out.array_length(response.members.len());
    encode_members(&mut out, &response.members);
    out.tags();
}

/// What comes before the members, from v3.
pub fn begin_members(out: &mut Vec<u8>, version: i16, count: usize) {
    let mut out = Writer::new(out, API.spec().is_flexible(version));
    out.i32(0); // throttle_time_ms
    out.error_code(ErrorCode::None);
    out.array_length(count);
}

/// Bytes that a member takes at most.
pub fn member_bytes(member: &LeaveGroupMemberResponse) -> usize {
    9 + member.member_id.len() + member.group_instance_id.as_deref().map_or(0, str::len)
}

/// Some of the members, from v3.
pub fn encode_some(out: &mut Vec<u8>, version: i16, members: &[LeaveGroupMemberResponse]) {
    encode_members(&mut Writer::new(out, API.spec().is_flexible(version)), members);
}

/// What comes behind the members.
pub fn end_members(out: &mut Vec<u8>, version: i16) {
    Writer::new(out, API.spec().is_flexible(version)).tags();
}

fn encode_members(out: &mut Writer<'_>, members: &[LeaveGroupMemberResponse]) {
    for member in members {
        out.string(&member.member_id);
        out.nullable_string(member.group_instance_id.as_deref());
        out.error_code(member.error_code);
        out.tags();
    }
}

/// A whole request answered with this error.
pub fn error_response(_request: &Request<'_>, error_code: ErrorCode) -> LeaveGroupResponse {
    LeaveGroupResponse { error_code, members: Vec::new() }
}

/// Each code of a response.
pub fn each_code(response: &Response, mut found: impl FnMut(ErrorCode)) {
    found(response.error_code);
    response.members.iter().for_each(|member| found(member.error_code));
}

/// v0-2 carry the first member.
///
/// # Panics
/// Below v3, if the request names no member.
pub fn encode_request(out: &mut Vec<u8>, version: i16, request: &LeaveGroupRequest<'_>) {
    let mut out = Writer::new(out, API.spec().is_flexible(version));
    out.string(request.group_id);
    if version < 3 {
        out.string(request.members[0].member_id);
        return;
    }
    out.array_length(request.members.len());
    for member in &request.members {
        out.string(member.member_id);
        out.nullable_string(member.group_instance_id);
        if version >= 5 {
            out.nullable_string(member.reason);
        }
        out.tags();
    }
    out.tags();
}

/// Reads the body of a response, as clients do.
pub fn decode_response(version: i16, body: &mut Reader<'_>) -> Result<LeaveGroupResponse> {
    if version >= 1 {
        body.i32("throttle_time_ms")?;
    }
    let error_code = body.error_code("error_code")?;
    let members = match version {
        ..3 => Vec::new(),
        _ => body.array("members", 5, |body| {
            let member = LeaveGroupMemberResponse {
                member_id: body.string("member_id")?.into(),
                group_instance_id: body.nullable_string("group_instance_id")?.map(Box::from),
                error_code: body.error_code("error_code")?,
            };
            body.tags()?;
            Ok(member)
        })?,
    };
    body.tags()?;
    Ok(LeaveGroupResponse { error_code, members })
}
