//! TxnOffsetCommit (28): commits offsets that count once their transaction is committed. v2 leader epoch,
//! v3 flexible and the member, v4 TRANSACTION_ABORTABLE, v5 adds the partition to the transaction, v6
//! topics by id instead of name.

use kcoord_core::ErrorCode;
use kcoord_core::limits::MAX_ENTRIES_PER_REQUEST;
use kcoord_core::record::Producer;
use kcoord_core::request::{OffsetCommitRequest, TxnOffsetCommitRequest, Uuid};
use kcoord_core::response::{OffsetCommitResponse, OffsetCommitResponseTopic};

use super::offset_commit::{self, decode_commit_topic, encode_commits};
use super::{decode_codes, encode_codes};
use crate::header::ApiKey;
use crate::reader::{Reader, Result};
use crate::writer::Writer;

const API: ApiKey = ApiKey::TxnOffsetCommit;

const LEADER_EPOCH_VERSION: i16 = 2;

/// From this version on topics are named by their ids (KIP-1319).
pub const TOPIC_ID_VERSION: i16 = 6;

/// From this version on the partition is added to the transaction (KIP-890), by the host.
pub const ADDS_PARTITION_VERSION: i16 = 5;

/// What a request says.
pub type Request<'a> = TxnOffsetCommitRequest<'a>;
/// What a response says.
pub type Response = OffsetCommitResponse;

/// Reads the body of a request.
pub fn decode_request<'a>(
    version: i16,
    body: &mut Reader<'a>,
) -> Result<TxnOffsetCommitRequest<'a>> {
    let mut left = MAX_ENTRIES_PER_REQUEST;
    let transactional_id = body.string("transactional_id")?;
    let group_id = body.string("group_id")?;
    let producer = Producer { id: body.i64("producer_id")?, epoch: body.i16("producer_epoch")? };
    let has_member = version >= 3;
    let commit = OffsetCommitRequest {
        group_id,
        generation_id_or_member_epoch: if has_member { body.i32("generation_id")? } else { -1 },
        member_id: if has_member { body.string("member_id")? } else { "" },
        group_instance_id: if has_member {
            body.nullable_string("group_instance_id")?
        } else {
            None
        },
        retention_time_ms: -1,
        topics: body.counted_array("topics", 3, &mut left, |body, left| {
            let topic = decode_topic(version, body)?;
            decode_commit_topic(topic, version >= LEADER_EPOCH_VERSION, body, left)
        })?,
    };
    body.tags()?;
    Ok(TxnOffsetCommitRequest { transactional_id, producer, commit })
}

fn decode_topic<'a>(version: i16, body: &mut Reader<'a>) -> Result<(&'a str, Uuid)> {
    Ok(match version {
        ..TOPIC_ID_VERSION => (body.string("name")?, Uuid::ZERO),
        _ => ("", body.uuid("topic_id")?),
    })
}

fn encode_topic(out: &mut Writer<'_>, version: i16, name: &str, topic_id: Uuid) {
    match version {
        ..TOPIC_ID_VERSION => out.string(name),
        _ => out.uuid(topic_id),
    }
}

/// Appends the body of a response.
pub fn encode_response(out: &mut Vec<u8>, version: i16, response: &OffsetCommitResponse) {
    let mut out = Writer::new(out, API.spec().is_flexible(version));
    out.i32(0); // throttle_time_ms
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
    request: &TxnOffsetCommitRequest<'_>,
    error_code: ErrorCode,
) -> OffsetCommitResponse {
    offset_commit::error_response(&request.commit, error_code)
}

/// Each code of a response.
pub fn each_code(response: &Response, found: impl FnMut(ErrorCode)) {
    offset_commit::each_code(response, found);
}

/// Appends the body of a request, as clients do.
pub fn encode_request(out: &mut Vec<u8>, version: i16, request: &TxnOffsetCommitRequest<'_>) {
    let commit = &request.commit;
    let mut out = Writer::new(out, API.spec().is_flexible(version));
    out.string(request.transactional_id);
    out.string(commit.group_id);
    out.i64(request.producer.id);
    out.i16(request.producer.epoch);
    if version >= 3 {
        out.i32(commit.generation_id_or_member_epoch);
        out.string(commit.member_id);
        out.nullable_string(commit.group_instance_id);
    }
    out.array_length(commit.topics.len());
    for topic in &commit.topics {
        encode_topic(&mut out, version, topic.name, topic.topic_id);
        encode_commits(&mut out, version >= LEADER_EPOCH_VERSION, &topic.partitions);
        out.tags();
    }
    out.tags();
}

/// Reads the body of a response, as clients do.
pub fn decode_response(version: i16, body: &mut Reader<'_>) -> Result<OffsetCommitResponse> {
    body.i32("throttle_time_ms")?;
    let topics = body.array("topics", 3, |body| {
        let (name, topic_id) = decode_topic(version, body)?;
        let partitions = decode_codes(body)?;
        body.tags()?;
        Ok(OffsetCommitResponseTopic { name: name.into(), topic_id, partitions })
    })?;
    body.tags()?;
    Ok(OffsetCommitResponse { topics })
}
