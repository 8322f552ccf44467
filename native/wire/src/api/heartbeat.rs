//! Heartbeat (12): keeps a session alive, and says when a rebalance has begun. v3 instance id, v4
//! flexible. The hot path: neither side allocates.

use kcoord_core::ErrorCode;
use kcoord_core::request::HeartbeatRequest;

use crate::header::ApiKey;
use crate::reader::{Reader, Result};
use crate::writer::Writer;

const API: ApiKey = ApiKey::Heartbeat;

/// What a request says.
pub type Request<'a> = HeartbeatRequest<'a>;
/// What a response says.
pub type Response = ErrorCode;

/// Reads the body of a request.
#[inline(always)]
pub fn decode_request<'a>(version: i16, body: &mut Reader<'a>) -> Result<HeartbeatRequest<'a>> {
    let request = HeartbeatRequest {
        group_id: body.string("group_id")?,
        generation_id: body.i32("generation_id")?,
        member_id: body.string("member_id")?,
        group_instance_id: match version {
            ..3 => None,
            _ => body.nullable_string("group_instance_id")?,
        },
    };
    body.tags()?;
    Ok(request)
}

/// Appends the body of a response.
#[inline]
pub fn encode_response(out: &mut Vec<u8>, version: i16, error_code: &ErrorCode) {
    let mut out = Writer::new(out, API.spec().is_flexible(version));
    if version >= 1 {
        out.i32(0); // throttle_time_ms
    }
    out.error_code(*error_code);
    out.tags();
}

/// A whole request answered with this error.
pub fn error_response(_request: &Request<'_>, error_code: ErrorCode) -> Response {
    error_code
}

/// Each code of a response.
pub fn each_code(response: &Response, mut found: impl FnMut(ErrorCode)) {
    found(*response);
}

/// Appends the body of a request, as clients do.
pub fn encode_request(out: &mut Vec<u8>, version: i16, request: &HeartbeatRequest<'_>) {
    let mut out = Writer::new(out, API.spec().is_flexible(version));
    out.string(request.group_id);
    out.i32(request.generation_id);
    out.string(request.member_id);
    if version >= 3 {
        out.nullable_string(request.group_instance_id);
    }
    out.tags();
}

/// Reads the body of a response, as clients do.
pub fn decode_response(version: i16, body: &mut Reader<'_>) -> Result<ErrorCode> {
    if version >= 1 {
        body.i32("throttle_time_ms")?;
    }
    let error_code = body.error_code("error_code")?;
    body.tags()?;
    Ok(error_code)
}
