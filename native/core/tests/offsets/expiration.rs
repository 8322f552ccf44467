//! Expiry and retention (offsets section 6).

use kcoord_core::offset::expiration::{ExpirationBase, expires_at_ms};
use kcoord_core::record::TransactionResult;

use crate::story::*;

const BY_COMMIT: ExpirationBase = ExpirationBase::CommitTimestamp;

#[test]
fn an_explicit_expiry_holds_alone_and_times_saturate() {
    assert_eq!(expires_at_ms(NOW_MS, WEEK_MS, None), NOW_MS + WEEK_MS);
    assert_eq!(expires_at_ms(0, 0, Some(1000)), 1000, "an explicit expiry holds alone");
    assert_eq!(expires_at_ms(1000, WEEK_MS, Some(1000)), 1000);
    assert_eq!(expires_at_ms(i64::MAX, WEEK_MS, None), i64::MAX, "hostile timestamps saturate");
    assert!(expires_at_ms(i64::MIN, WEEK_MS, None) < 0);
}

/// Probe O7.
#[test]
fn a_simple_group_goes_after_a_week() {
    let mut story = Story::new();
    story.committed("t", &[(0, 1)]);
    story.written();
    story.now_ms = NOW_MS + WEEK_MS - 1;
    assert!(!story.expire(BY_COMMIT, &[]));
    assert!(story.tombstones().is_empty());
    story.now_ms += 1;
    assert!(story.expire(BY_COMMIT, &[]));
    assert_eq!(story.tombstones(), [("t".into(), 0)]);
    assert!(story.offsets.is_empty());
    story.check_replay();
}

#[test]
fn each_offset_by_its_own_commit() {
    let mut story = Story::new();
    story.committed("t", &[(0, 1), (1, 1)]);
    story.now_ms += DAY_MS;
    story.committed("t", &[(1, 2)]);
    story.written();
    story.now_ms = NOW_MS + WEEK_MS;
    assert!(!story.expire(BY_COMMIT, &[]));
    assert_eq!(story.tombstones(), [("t".into(), 0)]);
    assert_eq!(story.fetch_all(), [("t".into(), vec![(1, 2, NONE)])]);
}

/// The clock of an Empty group starts when it empties, for all offsets; commits do not restart it.
#[test]
fn all_offsets_of_an_empty_group_at_once() {
    let mut story = Story::new();
    story.committed("t", &[(0, 1)]);
    story.now_ms = NOW_MS + 3 * WEEK_MS;
    let emptied = ExpirationBase::CurrentStateTimestamp(NOW_MS + 2 * WEEK_MS + 1);
    assert!(!story.expire(emptied, &[]), "older than a week, but the group was not empty");
    story.committed("t", &[(1, 1)]);
    story.written();
    story.now_ms += 1;
    assert!(story.expire(emptied, &[]));
    assert_eq!(story.tombstones(), [("t".into(), 0), ("t".into(), 1)]);
}

#[test]
fn subscribed_topics_are_kept_however_old() {
    let mut story = Story::new();
    story.committed("kept", &[(0, 1)]);
    story.committed("gone", &[(0, 1), (1, 1)]);
    story.written();
    story.now_ms += 10 * WEEK_MS;
    assert!(!story.expire(BY_COMMIT, &["kept"]));
    assert_eq!(story.tombstones(), [("gone".into(), 0), ("gone".into(), 1)]);
    assert!(!story.expire(BY_COMMIT, &["kept"]));
    assert!(story.tombstones().is_empty());
}

#[test]
fn nothing_expires_while_the_group_is_at_work() {
    let mut story = Story::new();
    story.committed("t", &[(0, 1)]);
    story.written();
    story.now_ms += 10 * WEEK_MS;
    assert!(!story.expire(ExpirationBase::Never, &[]));
    assert!(story.tombstones().is_empty());
}

#[test]
fn an_explicit_expiry_beats_the_groups_rule() {
    let mut story = Story::new();
    let mut short = request(vec![("t", ID, vec![partition(0, 1)])]);
    short.retention_time_ms = 1000;
    story.commit(&short);
    story.written();
    story.now_ms += 999;
    let long_ago = ExpirationBase::CurrentStateTimestamp(0);
    assert!(!story.expire(long_ago, &[]));
    story.now_ms += 1;
    assert!(story.expire(ExpirationBase::CurrentStateTimestamp(story.now_ms), &[]));
    assert_eq!(story.tombstones(), [("t".into(), 0)]);
}

#[test]
fn a_pending_offset_keeps_its_partition() {
    let mut story = Story::new();
    story.committed("t", &[(0, 1), (1, 1)]);
    story.pending(9, "t", 0, 2);
    story.written();
    story.now_ms += WEEK_MS;
    assert!(!story.expire(BY_COMMIT, &[]));
    assert_eq!(story.tombstones(), [("t".into(), 1)]);
    story.marker(9, TransactionResult::Abort);
    assert!(story.expire(BY_COMMIT, &[]));
}

/// Probe O6, as 4.0 and later answer it.
#[test]
fn a_group_with_pending_offsets_only_stays() {
    let mut story = Story::new();
    assert!(story.expire(BY_COMMIT, &[]), "no offsets at all");
    assert!(story.expire(ExpirationBase::Never, &[]), "whatever the rule");
    story.pending(9, "t", 0, 2);
    story.written();
    story.now_ms += WEEK_MS;
    assert!(!story.expire(BY_COMMIT, &[]));
    assert!(!story.expire(ExpirationBase::Never, &[]));
    assert!(story.written().is_empty());
    story.marker(9, TransactionResult::Commit);
    assert_eq!(story.fetch_all(), [("t".into(), vec![(0, 2, NONE)])]);
}

/// All committed offsets expire, but a transaction is open elsewhere in the group.
#[test]
fn an_open_transaction_keeps_the_group() {
    let mut story = Story::new();
    story.committed("t", &[(0, 1)]);
    story.pending(9, "u", 0, 2);
    story.written();
    story.now_ms += WEEK_MS;
    assert!(!story.expire(BY_COMMIT, &[]));
    assert_eq!(story.tombstones(), [("t".into(), 0)]);
}
