//! OffsetDelete, and the deletion of a group and of a topic (offsets sections 5 and 6).

use kcoord_core::error::ErrorCode;
use kcoord_core::offset::delete;
use kcoord_core::request::{OffsetDeleteRequest, OffsetDeleteTopic, Uuid};

use crate::story::*;

fn delete(
    story: &mut Story,
    topics: Vec<(&str, Vec<i32>)>,
) -> Vec<(String, Vec<(i32, ErrorCode)>)> {
    let topic = |(name, partitions)| OffsetDeleteTopic { name, partitions };
    let topics = topics.into_iter().map(topic).collect();
    let request = OffsetDeleteRequest { group_id: "g", topics };
    let subscribed = |topic: &str| topic == "subscribed";
    let response = story
        .with(|scope, now_ms, outbox| delete::delete(scope, &request, subscribed, now_ms, outbox));
    assert_eq!(response.error_code, NONE);
    response.topics.into_iter().map(|topic| (topic.name.to_string(), topic.partitions)).collect()
}

#[test]
fn tombstones_only_for_what_exists() {
    let mut story = Story::new();
    story.committed("t", &[(0, 1), (1, 2)]);
    story.pending(9, "t", 5, 3);
    story.written();
    let found = delete(&mut story, vec![("t", vec![1, 3, 5, 1]), ("unknown", vec![0])]);
    let partitions = vec![(1, NONE), (3, NONE), (5, NONE), (1, NONE)];
    assert_eq!(found, [("t".into(), partitions), ("unknown".into(), vec![(0, NONE)])]);
    assert_eq!(story.tombstones(), [("t".into(), 1), ("t".into(), 5)]);
    assert_eq!(story.fetch_all(), [("t".into(), vec![(0, 1, NONE)])]);
    assert!(!story.offsets.has_open_transactions() && story.tables.transactions.is_empty());
}

#[test]
fn a_subscribed_topic_keeps_its_offsets() {
    let mut story = Story::new();
    story.committed("subscribed", &[(0, 1)]);
    story.committed("t", &[(0, 1)]);
    story.written();
    let found = delete(&mut story, vec![("subscribed", vec![0, 8]), ("t", vec![0])]);
    let refused = ErrorCode::GroupSubscribedToTopic;
    let partitions = vec![(0, refused), (8, refused)];
    assert_eq!(found, [("subscribed".into(), partitions), ("t".into(), vec![(0, NONE)])]);
    assert_eq!(story.tombstones(), [("t".into(), 0)]);
}

/// The last offset takes the topic out of the table while the request still names it.
#[test]
fn the_last_offset_may_be_deleted_twice() {
    let mut story = Story::new();
    story.committed("t", &[(0, 1)]);
    story.written();
    delete(&mut story, vec![("t", vec![0, 0, 1]), ("t", vec![0])]);
    assert_eq!(story.tombstones(), [("t".into(), 0)]);
    assert!(story.offsets.is_empty() && story.tables.topics.is_empty());
}

#[test]
fn a_refusal_has_no_topics() {
    let response = delete::refuse(ErrorCode::GroupIdNotFound);
    assert_eq!((response.error_code, response.topics.len()), (ErrorCode::GroupIdNotFound, 0));
}

#[test]
fn a_deleted_group_leaves_no_offset_behind() {
    let mut story = Story::new();
    story.committed("zebra", &[(1, 1), (0, 1)]);
    story.committed("ant", &[(0, 1)]);
    story.pending(9, "zebra", 0, 3);
    story.pending(9, "bee", 4, 3);
    story.pending(8, "bee", 4, 3);
    story.pending(8, "bee", 2, 3);
    story.written();
    let count = story.with(delete::delete_all);
    // Committed ones first, pending ones only where there is no committed one; each once.
    let expected = [("ant", 0), ("zebra", 0), ("zebra", 1), ("bee", 2), ("bee", 4)];
    assert_eq!(story.tombstones(), expected.map(|(topic, at)| (topic.to_owned(), at)));
    assert_eq!(count, 5);
    assert!(story.offsets.is_empty() && !story.offsets.has_open_transactions());
    assert!(story.tables.topics.is_empty() && story.tables.transactions.is_empty());
    assert_eq!(story.tables.committed_count, 0);
}

#[test]
fn a_deleted_topic_takes_its_own_offsets_only() {
    let mut story = Story::new();
    let other = vec![partition(1, 2)];
    story.committed("t", &[(0, 1)]);
    story.commit(&request(vec![("t", OTHER_ID, other), ("u", ID, vec![partition(0, 3)])]));
    story.with(|scope, _, _| scope.apply("t", 2, Some(&value(4)), 9, None));
    story.pending(9, "t", 3, 5);
    story.pending(9, "t", 1, 5);
    story.written();
    let count =
        story.with(|scope, now_ms, outbox| delete::delete_topic(scope, "t", ID, now_ms, outbox));
    // Partition 0 has the id, 2 and the pending 3 have none; 1 belongs to the topic's successor.
    let expected = [("t".to_owned(), 0), ("t".to_owned(), 2), ("t".to_owned(), 3)];
    assert_eq!((story.tombstones(), count), (expected.to_vec(), 3));
    let left = [("t".into(), vec![(1, 2, NONE)]), ("u".into(), vec![(0, 3, NONE)])];
    assert_eq!(story.fetch_all(), left);
    let unknown = |scope: &mut kcoord_core::offset::GroupScope<'_>, now_ms, outbox: &mut _| {
        delete::delete_topic(scope, "unknown", Uuid::ZERO, now_ms, outbox)
    };
    assert_eq!(story.with(unknown), 0);
}
