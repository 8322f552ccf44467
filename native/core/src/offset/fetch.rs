//! OffsetFetch, once the group has accepted it (spec/offsets.md 4).

use super::entries::{Entry, key};
use super::store::GroupOffsets;
use super::topic_table::TopicTable;
use crate::error::ErrorCode;
use crate::request::{OffsetFetchRequest, OffsetFetchTopic, Uuid};
use crate::response::{
    OffsetFetchResponse, OffsetFetchResponsePartition, OffsetFetchResponseTopic,
};

/// Answers from a group's offsets; `None`: the group is absent or Dead, which is not an error.
/// Topics come in request order, or by name where all are asked for (then without an id).
pub fn fetch(
    offsets: Option<&GroupOffsets>,
    topics: &TopicTable,
    request: &OffsetFetchRequest<'_>,
) -> OffsetFetchResponse {
    let stable = request.require_stable;
    let found = match (&request.topics, offsets) {
        (Some(wanted), Some(offsets)) => {
            wanted.iter().map(|topic| fetch_topic(offsets, topics, topic, stable)).collect()
        }
        (Some(wanted), None) => wanted.iter().map(nothing).collect(),
        (None, Some(offsets)) => fetch_all(offsets, topics, stable),
        (None, None) => Vec::new(),
    };
    respond(request, ErrorCode::None, found)
}

/// A group's error; the codec repeats it on the partitions where the version has nothing else.
pub fn refuse(request: &OffsetFetchRequest<'_>, error: ErrorCode) -> OffsetFetchResponse {
    respond(request, error, Vec::new())
}

fn respond(
    request: &OffsetFetchRequest<'_>,
    error_code: ErrorCode,
    topics: Vec<OffsetFetchResponseTopic>,
) -> OffsetFetchResponse {
    OffsetFetchResponse { group_id: request.group_id.into(), error_code, topics }
}

fn fetch_topic(
    offsets: &GroupOffsets,
    topics: &TopicTable,
    wanted: &OffsetFetchTopic<'_>,
    require_stable: bool,
) -> OffsetFetchResponseTopic {
    let Some(topic) = topics.find(wanted.name) else { return nothing(wanted) };
    let any_topic_id = wanted.topic_id.is_zero();
    let is_wanted = |entry: &Entry| {
        any_topic_id || same_topic(topics.topic_id(topic, entry.topic_id), wanted.topic_id)
    };
    let pending = if require_stable { offsets.pending() } else { None };
    let mut behind: &[Entry] = &[];
    let partitions = wanted.partition_indexes.iter().map(|&partition| {
        let key = key(topic, partition);
        if pending.is_some_and(|pending| pending.contains(key)) {
            return absent(partition, ErrorCode::UnstableOffsetCommit);
        }
        match offsets.entry_behind(&mut behind, key) {
            Some(entry) if is_wanted(entry) => {
                present(partition, entry.offset, entry.leader_epoch, offsets.metadata(entry))
            }
            _ => absent(partition, ErrorCode::None),
        }
    });
    respond_topic(wanted, partitions.collect())
}

/// Topics with a committed offset only: what is merely pending does not show.
fn fetch_all(
    offsets: &GroupOffsets,
    topics: &TopicTable,
    require_stable: bool,
) -> Vec<OffsetFetchResponseTopic> {
    let fetch_topic = |topic| {
        let partitions = offsets.partitions(topics, topic).map(|(partition, committed)| {
            if require_stable && offsets.is_pending(key(topic, partition)) {
                return absent(partition, ErrorCode::UnstableOffsetCommit);
            }
            present(partition, committed.offset, committed.leader_epoch, committed.metadata)
        });
        OffsetFetchResponseTopic {
            name: topics.name(topic).into(),
            topic_id: Uuid::ZERO,
            partitions: partitions.collect(),
        }
    };
    offsets.topics(topics).into_iter().map(fetch_topic).collect()
}

/// An offset of another incarnation of the topic is as none (4.1+); where one of the ids is
/// unknown, the name decides.
fn same_topic(stored: Uuid, wanted: Uuid) -> bool {
    stored == wanted || stored.is_zero() || wanted.is_zero()
}

fn nothing(wanted: &OffsetFetchTopic<'_>) -> OffsetFetchResponseTopic {
    let partitions = wanted.partition_indexes.iter().map(|&at| absent(at, ErrorCode::None));
    respond_topic(wanted, partitions.collect())
}

fn respond_topic(
    wanted: &OffsetFetchTopic<'_>,
    partitions: Vec<OffsetFetchResponsePartition>,
) -> OffsetFetchResponseTopic {
    OffsetFetchResponseTopic { name: wanted.name.into(), topic_id: wanted.topic_id, partitions }
}

fn present(
    partition_index: i32,
    committed_offset: i64,
    committed_leader_epoch: i32,
    metadata: &str,
) -> OffsetFetchResponsePartition {
    OffsetFetchResponsePartition {
        partition_index,
        committed_offset,
        committed_leader_epoch,
        // Most have none: nothing is to be copied.
        metadata: if metadata.is_empty() { Box::default() } else { metadata.into() },
        error_code: ErrorCode::None,
    }
}

fn absent(partition_index: i32, error_code: ErrorCode) -> OffsetFetchResponsePartition {
    OffsetFetchResponsePartition {
        partition_index,
        committed_offset: -1,
        committed_leader_epoch: -1,
        metadata: "".into(),
        error_code,
    }
}
