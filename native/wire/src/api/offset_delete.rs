//! OffsetDelete (47): deletes offsets of topics without subscribers. One version, not flexible
//! (KIP-496).

use kcoord_core::ErrorCode;
use kcoord_core::limits::MAX_ENTRIES_PER_REQUEST;
use kcoord_core::request::{OffsetDeleteRequest, OffsetDeleteTopic};
use kcoord_core::response::{OffsetDeleteResponse, OffsetDeleteResponseTopic};

use crate::reader::{Reader, Result};
use crate::writer::Writer;

/// What a request says.
pub type Request<'a> = OffsetDeleteRequest<'a>;
/// What a response says.
pub type Response = OffsetDeleteResponse;

/// Reads the body of a request.
pub fn decode_request<'a>(_version: i16, body: &mut Reader<'a>) -> Result<OffsetDeleteRequest<'a>> {
    let mut left = MAX_ENTRIES_PER_REQUEST;
    Ok(OffsetDeleteRequest {
        group_id: body.string("group_id")?,
        topics: body.counted_array("topics", 6, &mut left, |body, left| {
            Ok(OffsetDeleteTopic {
                name: body.string("name")?,
                partitions: body
                    .counted_array("partitions", 4, left, |body, _| body.i32("partition_index"))?,
            })
        })?,
    })
}

/// Appends the body of a response.
pub fn encode_response(out: &mut Vec<u8>, _version: i16, response: &OffsetDeleteResponse) {
    let mut out = Writer::new(out, false);
    out.error_code(response.error_code);
    out.i32(0); // throttle_time_ms
    out.array_length(response.topics.len());
    for topic in &response.topics {
        out.string(&topic.name);
        out.array_length(topic.partitions.len());
        for &(partition_index, error_code) in &topic.partitions {
            out.i32(partition_index);
            out.error_code(error_code);
        }
    }
}

/// A whole request answered with this error.
pub fn error_response(_request: &Request<'_>, error_code: ErrorCode) -> OffsetDeleteResponse {
    OffsetDeleteResponse { error_code, topics: Vec::new() }
}

/// Each code of a response.
pub fn each_code(response: &Response, mut found: impl FnMut(ErrorCode)) {
    found(response.error_code);
    let partitions = response.topics.iter().flat_map(|topic| &topic.partitions);
    partitions.for_each(|(_, error_code)| found(*error_code));
}

/// Appends the body of a request, as clients do.
pub fn encode_request(out: &mut Vec<u8>, _version: i16, request: &OffsetDeleteRequest<'_>) {
    let mut out = Writer::new(out, false);
    out.string(request.group_id);
    out.array_length(request.topics.len());
    for topic in &request.topics {
        out.string(topic.name);
        out.array_length(topic.partitions.len());
        for &partition_index in &topic.partitions {
            out.i32(partition_index);
        }
    }
}

/// Reads the body of a response, as clients do.
pub fn decode_response(_version: i16, body: &mut Reader<'_>) -> Result<OffsetDeleteResponse> {
    let error_code = body.error_code("error_code")?;
    body.i32("throttle_time_ms")?;
    let topics = body.array("topics", 6, |body| {
        Ok(OffsetDeleteResponseTopic {
            name: body.string("name")?.into(),
            partitions: body.array("partitions", 6, |body| {
                Ok((body.i32("partition_index")?, body.error_code("error_code")?))
            })?,
        })
    })?;
    Ok(OffsetDeleteResponse { error_code, topics })
}
