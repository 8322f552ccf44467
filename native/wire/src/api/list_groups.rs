//! ListGroups (16): lists groups, filtered by state (v4+) and type (v5+). v3 flexible, v4 states
//! (KIP-518), v5 types (KIP-848).

use kcoord_core::ErrorCode;
use kcoord_core::limits::MAX_ENTRIES_PER_REQUEST;
use kcoord_core::request::ListGroupsRequest;
use kcoord_core::response::{ListGroupsResponse, ListedGroup};

use super::known_word;
use crate::header::ApiKey;
use crate::reader::{Reader, Result};
use crate::writer::Writer;

const API: ApiKey = ApiKey::ListGroups;

/// What a request says.
pub type Request<'a> = ListGroupsRequest<'a>;
/// What a response says.
pub type Response = ListGroupsResponse;

/// Reads the body of a request.
pub fn decode_request<'a>(version: i16, body: &mut Reader<'a>) -> Result<ListGroupsRequest<'a>> {
    let mut left = MAX_ENTRIES_PER_REQUEST;
    let request = ListGroupsRequest {
        states_filter: match version {
            ..4 => Vec::new(),
            _ => {
                body.counted_array("states_filter", 1, &mut left, |body, _| body.string("state"))?
            }
        },
        types_filter: match version {
            ..5 => Vec::new(),
            _ => body.counted_array("types_filter", 1, &mut left, |body, _| body.string("type"))?,
        },
    };
    body.tags()?;
    Ok(request)
}

/// Appends the body of a response.
pub fn encode_response(out: &mut Vec<u8>, version: i16, response: &ListGroupsResponse) {
    begin_groups(out, version, response.error_code, response.groups.len());
    encode_groups(out, version, &response.groups);
    end_groups(out, version);
}

/// What comes before the groups.
pub fn begin_groups(out: &mut Vec<u8>, version: i16, error_code: ErrorCode, count: usize) {
    let mut out = Writer::new(out, API.spec().is_flexible(version));
    if version >= 1 {
        out.i32(0); // throttle_time_ms
    }
    out.error_code(error_code);
    out.array_length(count);
}

/// What comes behind the groups.
pub fn end_groups(out: &mut Vec<u8>, version: i16) {
    Writer::new(out, API.spec().is_flexible(version)).tags();
}

/// Bytes that a group takes at most.
pub fn group_bytes(group: &ListedGroup) -> usize {
    let words = group.group_state.len() + group.group_type.len();
    9 + group.group_id.len() + group.protocol_type.len() + words
}

/// Groups, without their number.
pub fn encode_groups(out: &mut Vec<u8>, version: i16, groups: &[ListedGroup]) {
    let mut out = Writer::new(out, API.spec().is_flexible(version));
    for group in groups {
        out.string(&group.group_id);
        out.string(&group.protocol_type);
        if version >= 4 {
            out.string(group.group_state);
        }
        if version >= 5 {
            out.string(group.group_type);
        }
        out.tags();
    }
}

/// A whole request answered with this error.
pub fn error_response(_request: &Request<'_>, error_code: ErrorCode) -> ListGroupsResponse {
    ListGroupsResponse { error_code, groups: Vec::new() }
}

/// Each code of a response.
pub fn each_code(response: &Response, mut found: impl FnMut(ErrorCode)) {
    found(response.error_code);
}

/// Appends the body of a request, as clients do.
pub fn encode_request(out: &mut Vec<u8>, version: i16, request: &ListGroupsRequest<'_>) {
    let mut out = Writer::new(out, API.spec().is_flexible(version));
    if version >= 4 {
        encode_filter(&mut out, &request.states_filter);
    }
    if version >= 5 {
        encode_filter(&mut out, &request.types_filter);
    }
    out.tags();
}

fn encode_filter(out: &mut Writer<'_>, words: &[&str]) {
    out.array_length(words.len());
    for word in words {
        out.string(word);
    }
}

/// Reads the body of a response, as clients do.
pub fn decode_response(version: i16, body: &mut Reader<'_>) -> Result<ListGroupsResponse> {
    if version >= 1 {
        body.i32("throttle_time_ms")?;
    }
    let error_code = body.error_code("error_code")?;
    let groups = body.array("groups", 3, |body| {
        let group = ListedGroup {
            group_id: body.string("group_id")?.into(),
            protocol_type: body.string("protocol_type")?.into(),
            group_state: if version >= 4 { known_word(body, "group_state")? } else { "" },
            group_type: if version >= 5 { known_word(body, "group_type")? } else { "" },
        };
        body.tags()?;
        Ok(group)
    })?;
    body.tags()?;
    Ok(ListGroupsResponse { error_code, groups })
}
