//! OffsetCommit (8): commits offsets, of a member or without one (simple groups). v2-4 retention time,
//! v6 leader epoch, v7 instance id, v8 flexible, v10 topics by id instead of name.

use kcoord_core::ErrorCode;
use kcoord_core::limits::MAX_ENTRIES_PER_REQUEST;
use kcoord_core::request::{OffsetCommitPartition, OffsetCommitRequest, OffsetCommitTopic, Uuid};
use kcoord_core::response::{OffsetCommitResponse, OffsetCommitResponseTopic};

use super::{decode_codes, decode_topic, encode_codes, encode_topic};
use crate::header::ApiKey;
use crate::reader::{Reader, Result};
use crate::writer::Writer;

const API: ApiKey = ApiKey::OffsetCommit;

const LEADER_EPOCH_VERSION: i16 = 6;

/// What a request says.
pub type Request<'a> = OffsetCommitRequest<'a>;
/// What a response says.
pub type Response = OffsetCommitResponse;

/// Reads the body of a request.
pub fn decode_request<'a>(version: i16, body: &mut Reader<'a>) -> Result<OffsetCommitRequest<'a>> {
    let mut left = MAX_ENTRIES_PER_REQUEST;
    let request = OffsetCommitRequest {
        group_id: body.string("group_id")?,
        generation_id_or_member_epoch: body.i32("generation_id_or_member_epoch")?,
        member_id: body.string("member_id")?,
        group_instance_id: match version {
            ..7 => None,
            _ => body.nullable_string("group_instance_id")?,
        },
        retention_time_ms: match version {
            ..5 => body.i64("retention_time_ms")?,
            _ => -1,
        },
        topics: body.counted_array("topics", 3, &mut left, |body, left| {
            let topic = decode_topic(version, body)?;
            decode_commit_topic(topic, version >= LEADER_EPOCH_VERSION, body, left)
        })?,
    };
    body.tags()?;
    Ok(request)
}

/// What a request says of a topic, behind its name or id; `left`: elements that it may have still.
#[inline(always)]
pub(super) fn decode_commit_topic<'a>(
    (name, topic_id): (&'a str, Uuid),
    has_leader_epoch: bool,
    body: &mut Reader<'a>,
    left: &mut usize,
) -> Result<OffsetCommitTopic<'a>> {
    let partitions = body.counted_array("partitions", 14, left, |body, _| {
        let partition = OffsetCommitPartition {
            partition_index: body.i32("partition_index")?,
            committed_offset: body.i64("committed_offset")?,
            committed_leader_epoch: match has_leader_epoch {
                true => body.i32("committed_leader_epoch")?,
                false => -1,
            },
            committed_metadata: body.nullable_string("committed_metadata")?,
        };
        body.tags()?;
        Ok(partition)
    })?;
    body.tags()?;
    Ok(OffsetCommitTopic { name, topic_id, partitions })
}

/// Appends the body of a response.
pub fn encode_response(out: &mut Vec<u8>, version: i16, response: &OffsetCommitResponse) {
    let mut out = Writer::new(out, API.spec().is_flexible(version));
    if version >= 3 {
        out.i32(0); // throttle_time_ms
    }
    out.array_length(response.topics.len());
    for topic in &response.topics {
        encode_topic(&mut out, version, &topic.name, topic.topic_id);
        encode_codes(&mut out, &topic.partitions);
        out.tags();
    }
    out.tags();
}

/// Every partition gets the code: there is no other place for it.
pub fn error_response(
    request: &OffsetCommitRequest<'_>,
    error_code: ErrorCode,
) -> OffsetCommitResponse {
    let topics = request.topics.iter().map(|topic| OffsetCommitResponseTopic {
        name: topic.name.into(),
        topic_id: topic.topic_id,
        partitions: topic.partitions.iter().map(|p| (p.partition_index, error_code)).collect(),
    });
    OffsetCommitResponse { topics: topics.collect() }
}

/// Each code of a response.
pub fn each_code(response: &Response, mut found: impl FnMut(ErrorCode)) {
    let partitions = response.topics.iter().flat_map(|topic| &topic.partitions);
    partitions.for_each(|(_, error_code)| found(*error_code));
}

/// Appends the body of a request, as clients do.
pub fn encode_request(out: &mut Vec<u8>, version: i16, request: &OffsetCommitRequest<'_>) {
    let mut out = Writer::new(out, API.spec().is_flexible(version));
    out.string(request.group_id);
    out.i32(request.generation_id_or_member_epoch);
    out.string(request.member_id);
    if version >= 7 {
        out.nullable_string(request.group_instance_id);
    }
    if version < 5 {
        out.i64(request.retention_time_ms);
    }
    out.array_length(request.topics.len());
    for topic in &request.topics {
        encode_topic(&mut out, version, topic.name, topic.topic_id);
        encode_commits(&mut out, version >= LEADER_EPOCH_VERSION, &topic.partitions);
        out.tags();
    }
    out.tags();
}

/// The partitions of a topic in a request.
pub(super) fn encode_commits(
    out: &mut Writer<'_>,
    has_leader_epoch: bool,
    partitions: &[OffsetCommitPartition<'_>],
) {
    out.array_length(partitions.len());
    for partition in partitions {
        out.i32(partition.partition_index);
        out.i64(partition.committed_offset);
        if has_leader_epoch {
            out.i32(partition.committed_leader_epoch);
        }
        out.nullable_string(partition.committed_metadata);
        out.tags();
    }
}

/// Reads the body of a response, as clients do.
pub fn decode_response(version: i16, body: &mut Reader<'_>) -> Result<OffsetCommitResponse> {
    if version >= 3 {
        body.i32("throttle_time_ms")?;
    }
    let topics = body.array("topics", 3, |body| {
        let (name, topic_id) = decode_topic(version, body)?;
        let partitions = decode_codes(body)?;
        body.tags()?;
        Ok(OffsetCommitResponseTopic { name: name.into(), topic_id, partitions })
    })?;
    body.tags()?;
    Ok(OffsetCommitResponse { topics })
}
