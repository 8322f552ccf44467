//! DeleteGroups (42): deletes empty groups with their offsets. v2 flexible; v3 a message with each error,
//! which Kafka gives for streams groups only; v1 only says that quotas apply before the answer (KIP-219).

use kcoord_core::ErrorCode;
use kcoord_core::limits::MAX_ENTRIES_PER_REQUEST;
use kcoord_core::request::DeleteGroupsRequest;
use kcoord_core::response::DeleteGroupsResponse;

use crate::header::ApiKey;
use crate::reader::{Reader, Result};
use crate::writer::Writer;

const API: ApiKey = ApiKey::DeleteGroups;

/// What a request says.
pub type Request<'a> = DeleteGroupsRequest<'a>;
/// What a response says.
pub type Response = DeleteGroupsResponse;

/// Reads the body of a request.
pub fn decode_request<'a>(version: i16, body: &mut Reader<'a>) -> Result<DeleteGroupsRequest<'a>> {
    debug_assert!(API.spec().serves(version));
    let mut left = MAX_ENTRIES_PER_REQUEST;
    let groups_names =
        body.counted_array("groups_names", 1, &mut left, |body, _| body.string("group_id"))?;
    body.tags()?;
    Ok(DeleteGroupsRequest { groups_names })
}

/// Appends the body of a response.
pub fn encode_response(out: &mut Vec<u8>, version: i16, response: &DeleteGroupsResponse) {
    begin_results(out, version, response.results.len());
    for (group_id, error_code) in &response.results {
        encode_result(out, version, group_id, *error_code);
    }
    end_results(out, version);
}

/// What comes before the results.
pub fn begin_results(out: &mut Vec<u8>, version: i16, count: usize) {
    let mut out = Writer::new(out, API.spec().is_flexible(version));
    out.i32(0); // throttle_time_ms
    out.array_length(count);
}

/// Bytes that the result of a group takes at most.
pub fn result_bytes(group_id: &str) -> usize {
    8 + group_id.len()
}

/// The result of one group.
pub fn encode_result(out: &mut Vec<u8>, version: i16, group_id: &str, error_code: ErrorCode) {
    let mut out = Writer::new(out, API.spec().is_flexible(version));
    out.string(group_id);
    out.error_code(error_code);
    if version >= 3 {
        out.nullable_string(None); // error_message
    }
    out.tags();
}

/// What comes behind the results.
pub fn end_results(out: &mut Vec<u8>, version: i16) {
    Writer::new(out, API.spec().is_flexible(version)).tags();
}

/// Every group gets the code.
pub fn error_response(
    request: &DeleteGroupsRequest<'_>,
    error_code: ErrorCode,
) -> DeleteGroupsResponse {
    let results = request.groups_names.iter().map(|&group_id| (group_id.into(), error_code));
    DeleteGroupsResponse { results: results.collect() }
}

/// Each code of a response.
pub fn each_code(response: &Response, mut found: impl FnMut(ErrorCode)) {
    response.results.iter().for_each(|(_, error_code)| found(*error_code));
}

/// Appends the body of a request, as clients do.
pub fn encode_request(out: &mut Vec<u8>, version: i16, request: &DeleteGroupsRequest<'_>) {
    let mut out = Writer::new(out, API.spec().is_flexible(version));
    out.array_length(request.groups_names.len());
    for group_id in &request.groups_names {
        out.string(group_id);
    }
    out.tags();
}

/// Reads the body of a response, as clients do.
pub fn decode_response(version: i16, body: &mut Reader<'_>) -> Result<DeleteGroupsResponse> {
    debug_assert!(API.spec().serves(version));
    body.i32("throttle_time_ms")?;
    let results = body.array("results", 4, |body| {
        let result = (body.string("group_id")?.into(), body.error_code("error_code")?);
        if version >= 3 {
            body.nullable_string("error_message")?;
        }
        body.tags()?;
        Ok(result)
    })?;
    body.tags()?;
    Ok(DeleteGroupsResponse { results })
}
