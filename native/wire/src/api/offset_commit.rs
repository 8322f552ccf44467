//! OffsetCommit (8): commits offsets, of a member or without one (simple groups). v2-4 retention time,
//! v6 leader epoch, v7 instance id, v8 flexible, v10 topics by id instead of name.

use kcoord_core::ErrorCode;
use kcoord_core::limits::MAX_ENTRIES_PER_REQUEST;
use kcoord_core::request::{OffsetCommitPartition, OffsetCommitRequest, OffsetCommitTopic};
use kcoord_core::response::{OffsetCommitResponse, OffsetCommitResponseTopic};

use super::{decode_topic, encode_topic};
use crate::header::ApiKey;
use crate::reader::{Reader, Result};
use crate::writer::Writer;

const API: ApiKey = ApiKey::OffsetCommit;

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
            decode_commit_topic(version, body, left)
        })?,
    };
    body.tags()?;
    Ok(request)
}

fn decode_commit_topic<'a>(
    version: i16,
    body: &mut Reader<'a>,
    left: &mut usize,
) -> Result<OffsetCommitTopic<'a>> {
    let (name, topic_id) = decode_topic(version, body)?;
    let partitions = body.counted_array("partitions", 14, left, |body, _| {
        let partition = OffsetCommitPartition {
            partition_index: body.i32("partition_index")?,
            committed_offset: body.i64("committed_offset")?,
            committed_leader_epoch: match version {
                ..6 => -1,
                _ => body.i32("committed_leader_epoch")?,
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
        out.array_length(topic.partitions.len());
        for &(partition_index, error_code) in &topic.partitions {
            out.i32(partition_index);
            out.error_code(error_code);
            out.tags();
        }
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
        out.array_length(topic.partitions.len());
        for partition in &topic.partitions {
            out.i32(partition.partition_index);
            out.i64(partition.committed_offset);
            if version >= 6 {
                out.i32(partition.committed_leader_epoch);
            }
            out.nullable_string(partition.committed_metadata);
            out.tags();
        }
        out.tags();
    }
    out.tags();
}

/// Reads the body of a response, as clients do.
pub fn decode_response(version: i16, body: &mut Reader<'_>) -> Result<OffsetCommitResponse> {
    if version >= 3 {
        body.i32("throttle_time_ms")?;
    }
    let topics = body.array("topics", 3, |body| {
        let (name, topic_id) = decode_topic(version, body)?;
        let partitions = body.array("partitions", 6, |body| {
            let partition = (body.i32("partition_index")?, body.error_code("error_code")?);
            body.tags()?;
            Ok(partition)
        })?;
        body.tags()?;
        Ok(OffsetCommitResponseTopic { name: name.into(), topic_id, partitions })
    })?;
    body.tags()?;
    Ok(OffsetCommitResponse { topics })
}
