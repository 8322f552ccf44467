//! OffsetCommit, once the group has accepted it (offsets sections 2.1, 2.3).

use super::GroupScope;
use crate::config::Config;
use crate::error::ErrorCode;
use crate::outbox::Outbox;
use crate::record::{BatchKind, OffsetCommitValue};
use crate::request::{OffsetCommitPartition, OffsetCommitRequest, OffsetCommitTopic};
use crate::response::{OffsetCommitResponse, OffsetCommitResponseTopic};

/// Strings in records have a 16-bit length; where that is compact, no message has longer ones.
const LONGEST_STRING: usize = i16::MAX as usize;

/// Writes every partition whose metadata is short enough, duplicates in order, and answers in
/// request order. In a producer's transaction the offsets are pending until its end. Nothing is
/// written if all are refused: the outbox's next offset tells. Names that no record can hold fail the
/// request with UNKNOWN_SERVER_ERROR, as in Kafka.
pub fn commit(
    scope: &mut GroupScope<'_>,
    config: &Config,
    request: &OffsetCommitRequest<'_>,
    kind: impl Into<BatchKind>,
    now_ms: i64,
    outbox: &mut Outbox,
) -> OffsetCommitResponse {
    let mut names = request.topics.iter().map(|topic| topic.name).chain([request.group_id]);
    if names.any(|name| name.len() > LONGEST_STRING) {
        return refuse(request, ErrorCode::UnknownServerError);
    }
    let expire_timestamp = match request.retention_time_ms {
        -1 => -1,
        retention_ms => now_ms.saturating_add(retention_ms),
    };
    let kind = kind.into();
    let fits = |partition: &OffsetCommitPartition<'_>| fits(config, partition);
    for topic in &request.topics {
        let accepted = topic.partitions.iter().filter(|partition| fits(partition));
        let values = accepted.map(|partition| {
            let value = OffsetCommitValue {
                offset: partition.committed_offset,
                leader_epoch: partition.committed_leader_epoch,
                metadata: metadata(partition),
                commit_timestamp: now_ms,
                expire_timestamp,
                topic_id: topic.topic_id,
            };
            (partition.partition_index, value)
        });
        scope.emit_commits(topic.name, values, kind, now_ms, outbox);
    }
    respond(request, |partition| {
        if fits(partition) { ErrorCode::None } else { ErrorCode::OffsetMetadataTooLarge }
    })
}

/// Whether a partition's metadata is short enough.
pub fn fits(config: &Config, partition: &OffsetCommitPartition<'_>) -> bool {
    let metadata = metadata(partition);
    metadata.len() <= LONGEST_STRING && utf16_fits(metadata, config.offset_metadata_max_bytes)
}

/// A failure that is every partition's: the group refused the request.
pub fn refuse(request: &OffsetCommitRequest<'_>, error: ErrorCode) -> OffsetCommitResponse {
    respond(request, |_| error)
}

fn respond(
    request: &OffsetCommitRequest<'_>,
    result: impl Fn(&OffsetCommitPartition<'_>) -> ErrorCode,
) -> OffsetCommitResponse {
    let partitions = |topic: &OffsetCommitTopic<'_>| {
        topic.partitions.iter().map(|at| (at.partition_index, result(at))).collect()
    };
    let topics = request.topics.iter().map(|topic| OffsetCommitResponseTopic {
        name: topic.name.into(),
        topic_id: topic.topic_id,
        partitions: partitions(topic),
    });
    OffsetCommitResponse { topics: topics.collect() }
}

fn metadata<'a>(partition: &OffsetCommitPartition<'a>) -> &'a str {
    partition.committed_metadata.unwrap_or_default()
}

/// The limit counts UTF-16 code units (Java's `String.length`), of which there are never more than
/// there are bytes.
fn utf16_fits(metadata: &str, limit: usize) -> bool {
    metadata.len() <= limit || metadata.encode_utf16().count() <= limit
}
