//! ConsumerGroupHeartbeat (68): joins, keeps, moves and leaves in a consumer group (KIP-848). v1
//! regular expressions, and the client makes the member id.

use kcoord_core::ErrorCode;
use kcoord_core::limits::MAX_ENTRIES_PER_REQUEST;
use kcoord_core::request::{ConsumerGroupHeartbeatRequest, Preferences};
use kcoord_core::response::{ConsumerGroupHeartbeatResponse, MemberId, Refusal};
use kcoord_core::topic_partition::{TopicPartition, by_topic, into_set};

use super::shorten;
use crate::header::ApiKey;
use crate::reader::{Reader, Result};
use crate::writer::Writer;

const API: ApiKey = ApiKey::ConsumerGroupHeartbeat;

/// Bytes of a topic without partitions.
const TOPIC_BYTES: usize = 18;

/// What a request says.
pub type Request<'a> = ConsumerGroupHeartbeatRequest<'a>;
/// What a response says.
pub type Response = core::result::Result<ConsumerGroupHeartbeatResponse, Refusal>;

/// Reads the body of a request.
pub fn decode_request<'a>(
    version: i16,
    body: &mut Reader<'a>,
) -> Result<ConsumerGroupHeartbeatRequest<'a>> {
    let group_id = body.string("group_id")?;
    let member_id = body.string("member_id")?;
    let member_epoch = body.i32("member_epoch")?;
    let instance_id = body.nullable_string("instance_id")?;
    let rack_id = body.nullable_string("rack_id")?;
    let mut left = MAX_ENTRIES_PER_REQUEST;
    let request = ConsumerGroupHeartbeatRequest {
        group_id,
        member_id,
        member_epoch,
        instance_id,
        rebalance_timeout_ms: body.i32("rebalance_timeout_ms")?,
        subscribed_topic_names: body.nullable_counted_array(
            "subscribed_topic_names",
            1,
            &mut left,
            |body, _| body.string("topic_name"),
        )?,
        subscribed_topic_regex: match version {
            ..1 => None,
            _ => body.nullable_string("subscribed_topic_regex")?,
        },
        preferences: Preferences::of(rack_id, body.nullable_string("server_assignor")?),
        topic_partitions: decode_partitions(body, &mut left)?,
    };
    body.tags()?;
    Ok(request)
}

/// A set, however they were sent.
fn decode_partitions(
    body: &mut Reader<'_>,
    left: &mut usize,
) -> Result<Option<Vec<TopicPartition>>> {
    let mut set = Vec::new();
    let topics =
        body.nullable_counted_array("topic_partitions", TOPIC_BYTES, left, |body, left| {
            let topic_id = body.uuid("topic_id")?;
            let numbers =
                body.counted_array("partitions", 4, left, |body, _| body.i32("partition"))?;
            set.extend(numbers.into_iter().map(|number| TopicPartition::new(topic_id, number)));
            body.tags()
        })?;
    Ok(topics.map(|_| into_set(set)))
}

fn encode_partitions(out: &mut Writer<'_>, set: &[TopicPartition]) {
    out.array_length(by_topic(set).count());
    for (topic_id, part) in by_topic(set) {
        out.uuid(topic_id);
        out.array_length(part.len());
        part.iter().for_each(|at| out.i32(at.partition));
        out.tags();
    }
}

/// Appends the body of a response.
#[inline]
pub fn encode_response(out: &mut Vec<u8>, version: i16, answer: &Response) {
    let mut out = Writer::new(out, API.spec().is_flexible(version));
    out.i32(0); // throttle_time_ms
    match answer {
        Ok(response) => {
            out.error_code(ErrorCode::None);
            out.nullable_string(None);
            out.nullable_string(Some(&response.member_id));
            out.i32(response.member_epoch);
            out.i32(response.heartbeat_interval_ms);
            match &response.assignment {
                Some(assignment) => {
                    out.present_struct();
                    encode_partitions(&mut out, assignment);
                    out.tags();
                }
                None => out.null_struct(),
            }
        }
        Err(refusal) => {
            out.error_code(refusal.error_code);
            out.nullable_string(refusal.error_message.as_deref().map(shorten));
            out.nullable_string(None);
            out.i32(0);
            out.i32(0);
            out.null_struct();
        }
    }
    out.tags();
}

/// Bytes of the assignment in a response.
pub fn assignment_bytes(response: &ConsumerGroupHeartbeatResponse) -> usize {
    let set = response.assignment.as_deref().unwrap_or_default();
    by_topic(set).count() * (TOPIC_BYTES + 4) + size_of::<i32>() * set.len()
}

/// A whole request answered with this error.
pub fn error_response(_request: &Request<'_>, error_code: ErrorCode) -> Response {
    Err(error_code.into())
}

/// Each code of a response.
pub fn each_code(response: &Response, mut found: impl FnMut(ErrorCode)) {
    found(response.as_ref().err().map_or(ErrorCode::None, |refusal| refusal.error_code));
}

/// Appends the body of a request, as clients do.
pub fn encode_request(
    out: &mut Vec<u8>,
    version: i16,
    request: &ConsumerGroupHeartbeatRequest<'_>,
) {
    let mut out = Writer::new(out, API.spec().is_flexible(version));
    out.string(request.group_id);
    out.string(request.member_id);
    out.i32(request.member_epoch);
    out.nullable_string(request.instance_id);
    out.nullable_string(request.rack_id());
    out.i32(request.rebalance_timeout_ms);
    match &request.subscribed_topic_names {
        Some(names) => {
            out.array_length(names.len());
            names.iter().for_each(|name| out.string(name));
        }
        None => out.null_array(),
    }
    if version >= 1 {
        out.nullable_string(request.subscribed_topic_regex);
    }
    out.nullable_string(request.server_assignor());
    match &request.topic_partitions {
        Some(set) => encode_partitions(&mut out, set),
        None => out.null_array(),
    }
    out.tags();
}

/// Reads the body of a response, as clients do.
pub fn decode_response(_version: i16, body: &mut Reader<'_>) -> Result<Response> {
    body.i32("throttle_time_ms")?;
    let error_code = body.error_code("error_code")?;
    let error_message = body.nullable_string("error_message")?.map(Box::from);
    let member_id = body.nullable_string("member_id")?;
    let member_epoch = body.i32("member_epoch")?;
    let heartbeat_interval_ms = body.i32("heartbeat_interval_ms")?;
    let assignment = if body.is_present("assignment")? {
        let assignment = decode_partitions(body, &mut { usize::MAX })?.unwrap_or_default();
        body.tags()?;
        Some(assignment.into())
    } else {
        None
    };
    body.tags()?;
    if error_code.is_error() {
        return Ok(Err(Refusal { error_code, error_message }));
    }
    Ok(Ok(ConsumerGroupHeartbeatResponse {
        member_id: MemberId::new(member_id.unwrap_or_default()),
        member_epoch,
        heartbeat_interval_ms,
        assignment,
    }))
}
