//! OffsetFetch, once the group has accepted it (spec/offsets.md 4).

use super::entries::{Entry, key};
use super::store::GroupOffsets;
use super::topic_table::TopicTable;
use crate::error::ErrorCode;
use crate::request::{OffsetFetchRequest, OffsetFetchTopic, Uuid};
use crate::response::{OffsetFetchResponse, OffsetFetchResponsePartition};

/// Answers from a group's offsets; `None`: the group is absent or Dead, which is not an error.
/// Topics come in request order, or by name where all are asked for (then without an id).
pub fn fetch(
    offsets: Option<&GroupOffsets>,
    topics: &TopicTable,
    request: &OffsetFetchRequest<'_>,
) -> OffsetFetchResponse {
    let wanted = request.topics.as_deref().unwrap_or_default();
    let bytes = |of: &OffsetFetchTopic<'_>| {
        OffsetFetchResponse::topic_bytes(of.name, of.partition_indexes.len())
    };
    let room = wanted.iter().map(bytes).sum();
    let mut response = OffsetFetchResponse::with_room(request.group_id, ErrorCode::None, room);
    let stable = request.require_stable;
    match offsets {
        None => wanted.iter().for_each(|topic| push_nothing(&mut response, topic)),
        Some(offsets) if request.topics.is_none() => {
            push_all(&mut response, offsets, topics, stable);
        }
        Some(offsets) => {
            for topic in wanted {
                push_topic(&mut response, offsets, topics, topic, stable);
            }
        }
    }
    response
}

/// A group's error; the codec repeats it on the partitions where the version has nothing else.
pub fn refuse(request: &OffsetFetchRequest<'_>, error: ErrorCode) -> OffsetFetchResponse {
    OffsetFetchResponse::new(request.group_id, error)
}

fn push_topic(
    response: &mut OffsetFetchResponse,
    offsets: &GroupOffsets,
    topics: &TopicTable,
    wanted: &OffsetFetchTopic<'_>,
    require_stable: bool,
) {
    let Some(topic) = topics.find(wanted.name) else { return push_nothing(response, wanted) };
    let any_topic_id = wanted.topic_id.is_zero();
    let is_wanted = |entry: &Entry| {
        any_topic_id || same_topic(topics.topic_id(topic, entry.topic_id), wanted.topic_id)
    };
    let pending = if require_stable { offsets.pending() } else { None };
    let mut behind: &[Entry] = &[];
    let partitions = wanted.partition_indexes.iter().map(|&partition| {
        let key = key(topic, partition);
        if pending.is_some_and(|pending| pending.contains(key)) {
            return OffsetFetchResponsePartition::absent(
                partition,
                ErrorCode::UnstableOffsetCommit,
            );
        }
        match offsets.entry_behind(&mut behind, key) {
            Some(entry) if is_wanted(entry) => {
                present(partition, entry.offset, entry.leader_epoch, offsets.metadata(entry))
            }
            _ => OffsetFetchResponsePartition::absent(partition, ErrorCode::None),
        }
    });
    response.push_topic(wanted.name, wanted.topic_id, partitions);
}

/// Topics with a committed offset only: what is merely pending does not show.
fn push_all(
    response: &mut OffsetFetchResponse,
    offsets: &GroupOffsets,
    topics: &TopicTable,
    require_stable: bool,
) {
    for topic in offsets.topics(topics) {
        let partitions = offsets.partitions(topics, topic).map(|(partition, committed)| {
            if require_stable && offsets.is_pending(key(topic, partition)) {
                return OffsetFetchResponsePartition::absent(
                    partition,
                    ErrorCode::UnstableOffsetCommit,
                );
            }
            present(partition, committed.offset, committed.leader_epoch, committed.metadata)
        });
        response.push_topic(topics.name(topic), Uuid::ZERO, partitions);
    }
}

/// An offset of another incarnation of the topic is as none (4.1+); where one of the ids is
/// unknown, the name decides.
fn same_topic(stored: Uuid, wanted: Uuid) -> bool {
    stored == wanted || stored.is_zero() || wanted.is_zero()
}

fn push_nothing(response: &mut OffsetFetchResponse, wanted: &OffsetFetchTopic<'_>) {
    let partitions = wanted
        .partition_indexes
        .iter()
        .map(|&at| OffsetFetchResponsePartition::absent(at, ErrorCode::None));
    response.push_topic(wanted.name, wanted.topic_id, partitions);
}

fn present(
    partition_index: i32,
    committed_offset: i64,
    committed_leader_epoch: i32,
    metadata: &str,
) -> OffsetFetchResponsePartition<'_> {
    OffsetFetchResponsePartition {
        partition_index,
        committed_offset,
        committed_leader_epoch,
        metadata,
        error_code: ErrorCode::None,
    }
}
