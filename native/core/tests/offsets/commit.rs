//! OffsetCommit: what is written, refused and answered (offsets section 2).

use kcoord_core::error::ErrorCode;
use kcoord_core::offset::commit;
use kcoord_core::offset::expiration::ExpirationBase;
use kcoord_core::request::{OffsetCommitPartition, OffsetCommitRequest, Uuid};

use crate::story::*;

#[test]
fn writes_what_kafka_4_3_writes() {
    let mut story = Story::new();
    let full = OffsetCommitPartition { committed_metadata: Some("note"), ..partition(3, 42) };
    let results = story.commit(&request(vec![("t", ID, vec![full, partition(1, -7)])]));
    assert_eq!(results, [(3, NONE), (1, NONE)]);
    let record = |offset, metadata: &str| Value {
        version: 4,
        offset,
        leader_epoch: 5,
        metadata: metadata.into(),
        commit_timestamp: NOW_MS,
        expire_timestamp: -1,
        topic_id: ID,
    };
    assert_eq!(
        story.written(),
        [(1, "t".into(), 3, Some(record(42, "note"))), (1, "t".into(), 1, Some(record(-7, ""))),]
    );
    story.check_replay();
}

#[test]
fn explicit_retention_is_a_v1_record_without_epoch_and_id() {
    let mut story = Story::new();
    let mut request = request(vec![("t", ID, vec![partition(0, 5)])]);
    request.retention_time_ms = 1000;
    story.commit(&request);
    let [(_, _, _, Some(value))] = &story.written()[..] else { panic!("one value") };
    assert_eq!((value.version, value.expire_timestamp), (1, NOW_MS + 1000));
    assert_eq!((value.leader_epoch, value.topic_id), (-1, Uuid::ZERO));
    let stored = story.offsets.committed(&story.tables.topics, "t", 0).unwrap();
    assert_eq!((stored.leader_epoch, stored.expire_timestamp), (-1, Some(NOW_MS + 1000)));
    story.check_replay();
    // A later plain commit takes the expiry away.
    story.committed("t", &[(0, 6)]);
    let stored = story.offsets.committed(&story.tables.topics, "t", 0).unwrap();
    assert_eq!((stored.leader_epoch, stored.expire_timestamp), (5, None));
    story.check_replay();
}

#[test]
fn retention_of_hostile_size_saturates() {
    let mut story = Story::new();
    let mut request = request(vec![("t", ID, vec![partition(0, 5)])]);
    request.retention_time_ms = i64::MAX;
    assert_eq!(story.commit(&request), [(0, NONE)]);
    assert!(!story.expire(ExpirationBase::CommitTimestamp, &[]));
}

#[test]
fn metadata_is_counted_in_utf16_units() {
    let mut story = Story::new();
    let long = |unit: &str, count| unit.repeat(count);
    let texts = [
        (long("a", 4096), NONE),
        (long("a", 4097), ErrorCode::OffsetMetadataTooLarge),
        (long("é", 4096), NONE),
        (long("é", 4097), ErrorCode::OffsetMetadataTooLarge),
        // Two units each, four bytes.
        (long("🦀", 2048), NONE),
        (long("🦀", 2049), ErrorCode::OffsetMetadataTooLarge),
    ];
    let with = |(index, (text, _)): (usize, &'static (String, ErrorCode))| {
        let committed_metadata = Some(text.as_str());
        OffsetCommitPartition { committed_metadata, ..partition(index as i32, 1) }
    };
    let texts: &'static [(String, ErrorCode)] = Vec::leak(texts.into());
    let partitions = texts.iter().enumerate().map(with).collect();
    let results = story.commit(&request(vec![("t", ID, partitions)]));
    let expected: Vec<_> =
        texts.iter().enumerate().map(|(index, (_, error))| (index as i32, *error)).collect();
    assert_eq!(results, expected);
    let written: Vec<i32> = story.written().into_iter().map(|(_, _, at, _)| at).collect();
    assert_eq!(written, [0, 2, 4]);
}

#[test]
fn nothing_is_written_if_all_are_refused() {
    let mut story = Story::new();
    story.config.offset_metadata_max_bytes = 0;
    let refused = OffsetCommitPartition { committed_metadata: Some("m"), ..partition(0, 1) };
    let results = story.commit(&request(vec![("t", ID, vec![refused])]));
    assert_eq!(results, [(0, ErrorCode::OffsetMetadataTooLarge)]);
    assert!(story.written().is_empty() && story.offsets.is_empty());
    assert!(story.tables.topics.is_empty());
}

#[test]
fn duplicates_are_written_in_order_and_the_last_wins() {
    let mut story = Story::new();
    let twice = vec![partition(0, 1), partition(0, 2), partition(0, 1)];
    let results = story.commit(&request(vec![("t", ID, twice)]));
    assert_eq!(results, [(0, NONE); 3]);
    assert_eq!(story.written().len(), 3);
    assert_eq!(story.fetch_all(), [("t".into(), vec![(0, 1, NONE)])]);
    assert_eq!(story.tables.committed_count, 1);
}

#[test]
fn a_refusal_is_every_partitions() {
    let request = request(vec![("t", ID, vec![partition(0, 1), partition(1, 1)])]);
    let response = commit::refuse(&request, ErrorCode::IllegalGeneration);
    let [topic] = &response.topics[..] else { panic!("one topic") };
    assert_eq!((&*topic.name, topic.topic_id), ("t", ID));
    let error = ErrorCode::IllegalGeneration;
    assert_eq!(topic.partitions, [(0, error), (1, error)]);
}

/// No record can hold them; nothing may be written, nor may the engine panic.
#[test]
fn strings_that_no_record_can_hold() {
    let mut story = Story::new();
    story.config.offset_metadata_max_bytes = usize::MAX;
    let long = "x".repeat(32_768);
    let unknown = ErrorCode::UnknownServerError;
    let two = vec![("t", ID, vec![partition(0, 1)]), (&*long, ID, vec![partition(1, 1)])];
    assert_eq!(story.commit(&request(two)), [(0, unknown), (1, unknown)]);
    let group =
        OffsetCommitRequest { group_id: &long, ..request(vec![("t", ID, vec![partition(0, 1)])]) };
    assert_eq!(story.commit(&group), [(0, unknown)]);
    assert!(story.written().is_empty());

    let noted = OffsetCommitPartition { committed_metadata: Some(&long), ..partition(0, 1) };
    let mut metadata = request(vec![("t", ID, vec![noted])]);
    for retention_time_ms in [-1, 1000] {
        metadata.retention_time_ms = retention_time_ms;
        assert_eq!(story.commit(&metadata), [(0, ErrorCode::OffsetMetadataTooLarge)]);
    }
    assert!(story.written().is_empty());
}

#[test]
fn the_furthest_offset_stays_where_it_was_until_the_topic_has_no_offset() {
    let mut story = Story::new();
    story.committed("t", &[(0, 42), (33, 7)]);
    story.committed("t", &[(0, 10)]);
    assert_eq!([0, 1, 33].map(|partition| story.furthest("t", partition)), [42, 0, 7]);
    let tombstone = |story: &mut Story, partition| {
        story.with(|scope, _, _| scope.apply("t", partition, None, 99, None));
    };
    tombstone(&mut story, 0);
    assert_eq!(story.furthest("t", 0), 42);
    tombstone(&mut story, 33);
    assert_eq!(story.furthest("t", 0), 0);
    story.committed("t", &[(1, 3)]);
    assert_eq!([0, 1, 33].map(|partition| story.furthest("t", partition)), [0, 3, 0]);
}
