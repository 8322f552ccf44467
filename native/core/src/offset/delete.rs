//! Removal of offsets: OffsetDelete, the deletion of a group, and of a topic
//! (offsets sections 5 and 6).

use super::GroupScope;
use super::entries::key;
use super::sweep::{Bounds, Place};
use super::topic_table::TopicIndex;
use crate::error::ErrorCode;
use crate::outbox::Outbox;
use crate::request::{OffsetDeleteRequest, Uuid};
use crate::response::{OffsetDeleteResponse, OffsetDeleteResponseTopic};

/// OffsetDelete in a group that allows it. Partitions of a topic for which `subscribed` holds are
/// refused; for the others a tombstone is written if there is something to remove.
pub fn delete(
    scope: &mut GroupScope<'_>,
    request: &OffsetDeleteRequest<'_>,
    subscribed: impl Fn(&str) -> bool,
    now_ms: i64,
    outbox: &mut Outbox,
) -> OffsetDeleteResponse {
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in &request.topics {
        let refused = subscribed(topic.name);
        let error = if refused { ErrorCode::GroupSubscribedToTopic } else { ErrorCode::None };
        for &partition in topic.partitions.iter().filter(|_| !refused) {
            // Looked up each time: the tombstone before may have been the topic's last mention.
            if let Some(found) = scope.tables.topics.find(topic.name)
                && has_something(scope, found, partition)
            {
                scope.emit_tombstone(found, partition, now_ms, outbox);
            }
        }
        topics.push(OffsetDeleteResponseTopic {
            name: topic.name.into(),
            partitions: topic.partitions.iter().map(|&partition| (partition, error)).collect(),
        });
    }
    OffsetDeleteResponse { error_code: ErrorCode::None, topics }
}

/// A failure of the whole request: the topic list is empty.
pub fn refuse(error_code: ErrorCode) -> OffsetDeleteResponse {
    OffsetDeleteResponse { error_code, topics: Vec::new() }
}

/// Tombstones for all offsets of a group that goes: the committed ones by topic and partition,
/// then the pending ones of partitions that have no committed one. Returns their number.
pub fn delete_all(scope: &mut GroupScope<'_>, now_ms: i64, outbox: &mut Outbox) -> usize {
    let mut doomed = committed_partitions(scope, |_, _| true);
    doomed.extend(pending_partitions(scope, |_, _| true));
    emit_tombstones(scope, doomed, now_ms, outbox)
}

/// Tombstones for some of the committed offsets of a group that goes: `most`, or what there is.
pub fn delete_some(scope: &mut GroupScope<'_>, most: usize, now_ms: i64, outbox: &mut Outbox) {
    let some = scope.offsets.entries.iter().take(most);
    let doomed = some.map(|entry| (entry.topic, entry.partition)).collect();
    emit_tombstones(scope, doomed, now_ms, outbox);
}

/// Tombstones for the offsets of a deleted topic: those with its id or none, so that offsets of a
/// topic created again under the name survive (4.3). Returns their number.
pub fn delete_topic(
    scope: &mut GroupScope<'_>,
    name: &str,
    topic_id: Uuid,
    now_ms: i64,
    outbox: &mut Outbox,
) -> usize {
    let Some(topic) = scope.tables.topics.find(name) else { return 0 };
    let of_topic = |found, id: Uuid| found == topic && (id == topic_id || id.is_zero());
    let mut doomed = committed_partitions(scope, of_topic);
    doomed.extend(pending_partitions(scope, of_topic));
    emit_tombstones(scope, doomed, now_ms, outbox)
}

/// The same for some of them: from `place` on, within `bounds`. Returns where it goes on; `None`: all
/// were looked at.
pub fn delete_some_of_topic(
    scope: &mut GroupScope<'_>,
    (name, topic_id): (&str, Uuid),
    place: Place,
    bounds: &mut Bounds,
    now_ms: i64,
    outbox: &mut Outbox,
) -> Option<Place> {
    let topics = &scope.tables.topics;
    let topic = topics.find(name)?;
    let of_topic = |found, id: Uuid| found == topic && (id == topic_id || id.is_zero());
    let (mut doomed, mut left) = (Vec::new(), None);
    let first = place.0.max(key(topic, i32::MIN));
    let entries = scope.offsets.entries.iter_from(first);
    for entry in entries.take_while(|entry| entry.topic == topic) {
        if bounds.are_met() {
            left = Some(Place(entry.key()));
            break;
        }
        bounds.look();
        if of_topic(topic, topics.topic_id(topic, entry.topic_id)) {
            doomed.push((topic, entry.partition));
            bounds.written(1);
        }
    }
    if left.is_none() {
        doomed.extend(pending_partitions(scope, of_topic));
    }
    emit_tombstones(scope, doomed, now_ms, outbox);
    left
}

fn has_something(scope: &GroupScope<'_>, topic: TopicIndex, partition: i32) -> bool {
    let key = key(topic, partition);
    scope.offsets.entries.locate(key).is_ok() || scope.offsets.is_pending(key)
}

fn committed_partitions(
    scope: &GroupScope<'_>,
    wanted: impl Fn(TopicIndex, Uuid) -> bool,
) -> Vec<(TopicIndex, i32)> {
    let topics = &scope.tables.topics;
    let mut found = Vec::new();
    for topic in scope.offsets.topics(topics) {
        let partitions = scope.offsets.partitions(topics, topic);
        let partitions = partitions.filter(|(_, committed)| wanted(topic, committed.topic_id));
        found.extend(partitions.map(|(partition, _)| (topic, partition)));
    }
    found
}

fn pending_partitions(
    scope: &GroupScope<'_>,
    wanted: impl Fn(TopicIndex, Uuid) -> bool,
) -> Vec<(TopicIndex, i32)> {
    let topics = &scope.tables.topics;
    let mut found: Vec<_> = scope
        .offsets
        .pending()
        .into_iter()
        .flat_map(|pending| pending.partitions())
        .filter(|entry| scope.offsets.entries.locate(entry.key()).is_err())
        .filter(|entry| wanted(entry.topic, topics.topic_id(entry.topic, entry.topic_id)))
        .map(|entry| (entry.topic, entry.partition))
        .collect();
    found.sort_unstable_by_key(|(topic, partition)| (topics.name(*topic), *partition));
    found.dedup();
    found
}

pub(super) fn emit_tombstones(
    scope: &mut GroupScope<'_>,
    doomed: Vec<(TopicIndex, i32)>,
    now_ms: i64,
    outbox: &mut Outbox,
) -> usize {
    let count = doomed.len();
    // Indexes stay good: each partition that is still to come holds its topic in the table.
    for (topic, partition) in doomed {
        scope.emit_tombstone(topic, partition, now_ms, outbox);
    }
    count
}
