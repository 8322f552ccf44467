//! Transactional offsets, as replay finds them (offsets section 3.1).

use kcoord_core::offset::{GroupOffsets, GroupScope, OffsetTables};
use kcoord_core::record::TransactionResult::{Abort, Commit};

use crate::story::*;

#[test]
fn commit_moves_and_abort_drops() {
    let mut story = Story::new();
    story.committed("t", &[(0, 1)]);
    story.pending(9, "t", 0, 2);
    story.pending(9, "u", 0, 3);
    story.pending(8, "t", 1, 4);
    assert_eq!(story.fetch_all(), [("t".into(), vec![(0, 1, NONE)])]);
    story.marker(9, Commit);
    story.marker(8, Abort);
    let expected = [("t".into(), vec![(0, 2, NONE)]), ("u".into(), vec![(0, 3, NONE)])];
    assert_eq!(story.fetch_all(), expected);
    assert!(!story.offsets.has_open_transactions() && story.tables.transactions.is_empty());
    assert_eq!((story.tables.committed_count, story.tables.topics.len()), (2, 2));
}

#[test]
fn a_later_write_of_the_same_producer_overwrites() {
    let mut story = Story::new();
    story.pending(9, "t", 0, 1);
    story.pending(9, "t", 0, 2);
    story.pending(8, "t", 0, 3);
    story.marker(9, Commit);
    assert_eq!(story.fetch_all(), [("t".into(), vec![(0, 2, NONE)])]);
    assert!(story.offsets.has_pending(&story.tables.topics, "t", 0), "8 is still open");
    story.marker(8, Commit);
    assert_eq!(story.fetch_all(), [("t".into(), vec![(0, 3, NONE)])]);
}

/// Probe O8: a plain commit made between the transactional write and its marker wins.
#[test]
fn the_larger_record_offset_wins() {
    let mut story = Story::new();
    story.pending(9, "t", 0, 3);
    story.pending(9, "t", 1, 3);
    story.committed("t", &[(0, 9)]);
    story.marker(9, Commit);
    assert_eq!(story.fetch_all(), [("t".into(), vec![(0, 9, NONE), (1, 3, NONE)])]);
    assert_eq!(story.tables.topics.len(), 1);
}

#[test]
fn a_tombstone_removes_all_producers_pending_entries() {
    let mut story = Story::new();
    story.committed("t", &[(0, 1)]);
    story.pending(9, "t", 0, 2);
    story.pending(9, "t", 1, 2);
    story.pending(8, "t", 0, 3);
    story.with(|scope, _, _| scope.apply("t", 0, None, 99, None));
    assert!(!story.offsets.has_pending(&story.tables.topics, "t", 0));
    assert!(story.offsets.has_pending(&story.tables.topics, "t", 1));
    let open: Vec<i64> = story.tables.transactions.iter().map(|(producer, _)| producer).collect();
    assert_eq!(open, [9], "8 has nothing left");
    story.marker(8, Commit);
    story.marker(9, Commit);
    assert_eq!(story.fetch_all(), [("t".into(), vec![(1, 2, NONE)])]);
}

#[test]
fn an_unknown_producers_marker_is_ignored() {
    let mut story = Story::new();
    story.committed("t", &[(0, 1)]);
    story.marker(1234, Commit);
    story.marker(1234, Abort);
    assert_eq!(story.fetch_all(), [("t".into(), vec![(0, 1, NONE)])]);
}

/// A marker is for all groups of the shard, and reaches only those that are concerned.
#[test]
fn a_marker_finds_its_groups() {
    let mut tables = OffsetTables::new([1, 2]);
    let names = ["b", "a", "c"];
    let mut groups: Vec<GroupOffsets> = names.map(|_| GroupOffsets::default()).into();
    for (offsets, group_id) in groups.iter_mut().zip(names).take(2) {
        let mut scope = GroupScope { group_id, offsets, tables: &mut tables };
        scope.apply("t", 0, Some(&value(5)), 1, Some(77));
    }
    let concerned = tables.transactions.close(77);
    assert_eq!(concerned.iter().map(|id| &**id).collect::<Vec<_>>(), ["a", "b"]);
    for group_id in &concerned {
        let at = names.iter().position(|name| *name == &**group_id).unwrap();
        let offsets = &mut groups[at];
        GroupScope { group_id, offsets, tables: &mut tables }.apply_marker(77, Commit);
    }
    assert_eq!(groups.iter().map(GroupOffsets::len).collect::<Vec<_>>(), [1, 1, 0]);
    assert!(tables.transactions.close(77).is_empty());
}

#[test]
fn metadata_survives_the_transaction() {
    let mut story = Story::new();
    let noted = kcoord_core::record::OffsetCommitValue { metadata: "m", ..value(5) };
    story.with(|scope, _, _| scope.apply("t", 0, Some(&noted), 1, Some(9)));
    story.marker(9, Commit);
    let stored = story.offsets.committed(&story.tables.topics, "t", 0).unwrap();
    assert_eq!((stored.metadata, stored.offset, stored.topic_id), ("m", 5, value(5).topic_id));
}

#[test]
fn the_end_of_a_transaction_is_a_commit_for_the_furthest_offset_too() {
    let mut story = Story::new();
    story.committed("t", &[(0, 1)]);
    story.pending(9, "t", 0, 20);
    story.pending(8, "t", 0, 30);
    assert_eq!(story.furthest("t", 0), 1);
    story.marker(9, Commit);
    story.marker(8, Abort);
    assert_eq!(story.furthest("t", 0), 20);
}
