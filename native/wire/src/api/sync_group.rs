//! SyncGroup (14): takes the leader's assignments, and gives each member its own. v3 instance id, v4 flexible, v5 protocol type and name.

use kcoord_core::ErrorCode;
use kcoord_core::limits::MAX_ENTRIES_PER_REQUEST;
use kcoord_core::request::{SyncGroupAssignment, SyncGroupRequest};
use kcoord_core::response::SyncGroupResponse;

use crate::header::ApiKey;
use crate::reader::{Reader, Result};
use crate::writer::Writer;

const API: ApiKey = ApiKey::SyncGroup;

/// What a request says.
pub type Request<'a> = SyncGroupRequest<'a>;
/// What a response says.
pub type Response = SyncGroupResponse;

/// Reads the body of a request.
pub fn decode_request<'a>(version: i16, body: &mut Reader<'a>) -> Result<SyncGroupRequest<'a>> {
    let group_id = body.string("group_id")?;
    let generation_id = body.i32("generation_id")?;
    let member_id = body.string("member_id")?;
    let group_instance_id = match version {
        ..3 => None,
        _ => body.nullable_string("group_instance_id")?,
    };
    let (protocol_type, protocol_name) = match version {
        ..5 => (None, None),
        _ => (body.nullable_string("protocol_type")?, body.nullable_string("protocol_name")?),
    };
    let mut left = MAX_ENTRIES_PER_REQUEST;
    let assignments = body.counted_array("assignments", 3, &mut left, |body, _| {
        let assignment = SyncGroupAssignment {
            member_id: body.string("member_id")?,
            assignment: body.bytes("assignment")?,
        };
        body.tags()?;
        Ok(assignment)
    })?;
    body.tags()?;
    Ok(SyncGroupRequest {
        group_id,
        generation_id,
        member_id,
        group_instance_id,
        protocol_type,
        protocol_name,
        assignments,
    })
}

/// Appends the body of a response.
pub fn encode_response(out: &mut Vec<u8>, version: i16, response: &SyncGroupResponse) {
    let mut out = Writer::new(out, API.spec().is_flexible(version));
    if version >= 1 {
        out.i32(0); // throttle_time_ms
    }
    out.error_code(response.error_code);
    if version >= 5 {
        out.nullable_string(response.protocol_type.as_deref());
        out.nullable_string(response.protocol_name.as_deref());
    }
    out.bytes(&response.assignment);
    out.tags();
}

/// A whole request answered with this error.
pub fn error_response(_request: &Request<'_>, error_code: ErrorCode) -> SyncGroupResponse {
    let assignment = Box::default();
    SyncGroupResponse { error_code, protocol_type: None, protocol_name: None, assignment }
}

/// Each code of a response.
pub fn each_code(response: &Response, mut found: impl FnMut(ErrorCode)) {
    found(response.error_code);
}

/// Appends the body of a request, as clients do.
pub fn encode_request(out: &mut Vec<u8>, version: i16, request: &SyncGroupRequest<'_>) {
    let mut out = Writer::new(out, API.spec().is_flexible(version));
    out.string(request.group_id);
    out.i32(request.generation_id);
    out.string(request.member_id);
    if version >= 3 {
        out.nullable_string(request.group_instance_id);
    }
    if version >= 5 {
        out.nullable_string(request.protocol_type);
        out.nullable_string(request.protocol_name);
    }
    out.array_length(request.assignments.len());
    for assignment in &request.assignments {
        out.string(assignment.member_id);
        out.bytes(assignment.assignment);
        out.tags();
    }
    out.tags();
}

/// Reads the body of a response, as clients do.
pub fn decode_response(version: i16, body: &mut Reader<'_>) -> Result<SyncGroupResponse> {
    if version >= 1 {
        body.i32("throttle_time_ms")?;
    }
    let error_code = body.error_code("error_code")?;
    let (protocol_type, protocol_name) = match version {
        ..5 => (None, None),
        _ => (body.nullable_string("protocol_type")?, body.nullable_string("protocol_name")?),
    };
    let response = SyncGroupResponse {
        error_code,
        protocol_type: protocol_type.map(Box::from),
        protocol_name: protocol_name.map(Box::from),
        assignment: body.bytes("assignment")?.into(),
    };
    body.tags()?;
    Ok(response)
}
