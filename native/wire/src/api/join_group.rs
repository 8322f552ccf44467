//! JoinGroup (11): joins, rejoins, and starts the rebalance. v1 rebalance timeout, v5 instance id, v6
//! flexible, v7 protocol type in the response, v8 reason, v9 skip assignment (KIP-814).

use kcoord_core::ErrorCode;
use kcoord_core::limits::MAX_ENTRIES_PER_REQUEST;
use kcoord_core::request::{JoinGroupProtocol, JoinGroupRequest};
use kcoord_core::response::{JoinGroupResponse, JoinGroupResponseMember};

use crate::header::ApiKey;
use crate::reader::{Reader, Result};
use crate::writer::Writer;

const API: ApiKey = ApiKey::JoinGroup;

/// What a request says.
pub type Request<'a> = JoinGroupRequest<'a>;
/// What a response says.
pub type Response = JoinGroupResponse;

/// Reads the body of a request.
pub fn decode_request<'a>(version: i16, body: &mut Reader<'a>) -> Result<JoinGroupRequest<'a>> {
    let group_id = body.string("group_id")?;
    let session_timeout_ms = body.i32("session_timeout_ms")?;
    let mut left = MAX_ENTRIES_PER_REQUEST;
    let request = JoinGroupRequest {
        group_id,
        session_timeout_ms,
        rebalance_timeout_ms: match version {
            0 => session_timeout_ms,
            _ => body.i32("rebalance_timeout_ms")?,
        },
        member_id: body.string("member_id")?,
        group_instance_id: match version {
            ..5 => None,
            _ => body.nullable_string("group_instance_id")?,
        },
        protocol_type: body.string("protocol_type")?,
        protocols: body.counted_array("protocols", 3, &mut left, |body, _| {
            let protocol =
                JoinGroupProtocol { name: body.string("name")?, metadata: body.bytes("metadata")? };
            body.tags()?;
            Ok(protocol)
        })?,
        reason: match version {
            ..8 => None,
            _ => body.nullable_string("reason")?,
        },
    };
    body.tags()?;
    Ok(request)
}

/// Appends the body of a response.
pub fn encode_response(out: &mut Vec<u8>, version: i16, response: &JoinGroupResponse) {
    begin_response(out, version, response);
    for member in &response.members {
        begin_member(out, version, member);
        out.extend_from_slice(&member.metadata);
        end_member(out, version);
    }
    end_response(out, version);
}

/// What stands before the members.
pub fn begin_response(out: &mut Vec<u8>, version: i16, response: &JoinGroupResponse) {
    let mut out = Writer::new(out, API.spec().is_flexible(version));
    if version >= 2 {
        out.i32(0); // throttle_time_ms
    }
    out.error_code(response.error_code);
    out.i32(response.generation_id);
    // An absent name is "" below v7 and null from v7 (KAFKA-14204, Kafka's JoinGroupResponse).
    let protocol_name = response.protocol_name.as_deref().unwrap_or_default();
    if version >= 7 {
        out.nullable_string(response.protocol_type.as_deref());
        out.nullable_string((!protocol_name.is_empty()).then_some(protocol_name));
    } else {
        out.string(protocol_name);
    }
    out.string(&response.leader);
    if version >= 9 {
        out.boolean(response.skip_assignment);
    }
    out.string(&response.member_id);
    out.array_length(response.members.len());
}

/// What stands before a member's metadata, their length included.
pub fn begin_member(out: &mut Vec<u8>, version: i16, member: &JoinGroupResponseMember) {
    let mut out = Writer::new(out, API.spec().is_flexible(version));
    out.string(&member.member_id);
    if version >= 5 {
        out.nullable_string(member.group_instance_id.as_deref());
    }
    out.array_length(member.metadata.len());
}

/// What stands behind a member's metadata.
pub fn end_member(out: &mut Vec<u8>, version: i16) {
    Writer::new(out, API.spec().is_flexible(version)).tags();
}

/// What stands behind the members.
pub fn end_response(out: &mut Vec<u8>, version: i16) {
    Writer::new(out, API.spec().is_flexible(version)).tags();
}

/// How long the response will be.
pub fn response_bytes(version: i16, response: &JoinGroupResponse) -> usize {
    let mut out = Vec::with_capacity(256);
    begin_response(&mut out, version, response);
    end_response(&mut out, version);
    let mut bytes = out.len();
    for member in &response.members {
        out.clear();
        begin_member(&mut out, version, member);
        end_member(&mut out, version);
        bytes += out.len() + member.metadata.len();
    }
    bytes
}

/// The answer of a coordinator that does not serve the group (states.md section 5.10).
pub fn error_response(request: &JoinGroupRequest<'_>, error_code: ErrorCode) -> JoinGroupResponse {
    JoinGroupResponse {
        error_code,
        generation_id: -1,
        protocol_type: None,
        protocol_name: None,
        leader: "".into(),
        skip_assignment: false,
        member_id: request.member_id.into(),
        members: Vec::new(),
    }
}

/// Each code of a response.
pub fn each_code(response: &Response, mut found: impl FnMut(ErrorCode)) {
    found(response.error_code);
}

/// Appends the body of a request, as clients do.
pub fn encode_request(out: &mut Vec<u8>, version: i16, request: &JoinGroupRequest<'_>) {
    let mut out = Writer::new(out, API.spec().is_flexible(version));
    out.string(request.group_id);
    out.i32(request.session_timeout_ms);
    if version >= 1 {
        out.i32(request.rebalance_timeout_ms);
    }
    out.string(request.member_id);
    if version >= 5 {
        out.nullable_string(request.group_instance_id);
    }
    out.string(request.protocol_type);
    out.array_length(request.protocols.len());
    for protocol in &request.protocols {
        out.string(protocol.name);
        out.bytes(protocol.metadata);
        out.tags();
    }
    if version >= 8 {
        out.nullable_string(request.reason);
    }
    out.tags();
}

/// Reads the body of a response, as clients do.
pub fn decode_response(version: i16, body: &mut Reader<'_>) -> Result<JoinGroupResponse> {
    if version >= 2 {
        body.i32("throttle_time_ms")?;
    }
    let response = JoinGroupResponse {
        error_code: body.error_code("error_code")?,
        generation_id: body.i32("generation_id")?,
        protocol_type: match version {
            ..7 => None,
            _ => body.nullable_string("protocol_type")?.map(Box::from),
        },
        protocol_name: match version {
            ..7 => Some(body.string("protocol_name")?.into()),
            _ => body.nullable_string("protocol_name")?.map(Box::from),
        },
        leader: body.string("leader")?.into(),
        skip_assignment: version >= 9 && body.boolean("skip_assignment")?,
        member_id: body.string("member_id")?.into(),
        members: body.array("members", 3, |body| {
            let member = JoinGroupResponseMember {
                member_id: body.string("member_id")?.into(),
                group_instance_id: match version {
                    ..5 => None,
                    _ => body.nullable_string("group_instance_id")?.map(Box::from),
                },
                metadata: body.bytes("metadata")?.into(),
            };
            body.tags()?;
            Ok(member)
        })?,
    };
    body.tags()?;
    Ok(response)
}
