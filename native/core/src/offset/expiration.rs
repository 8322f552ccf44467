//! Expiry of offsets: an input that yields records, like a request (offsets section 6).

use std::collections::BTreeSet;

use super::GroupScope;
use super::delete::emit_tombstones;
use super::entries::key;
use super::store::CommittedOffset;
use super::sweep::{Bounds, Place};
use crate::outbox::Outbox;

/// From when the retention of a group's offsets counts. The group's state decides, not the offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpirationBase {
    /// Nothing expires: the group is at work, or its subscriptions cannot be read.
    Never,
    /// Each offset from its own commit.
    CommitTimestamp,
    /// All offsets at once, from when the group became Empty, in milliseconds.
    CurrentStateTimestamp(i64),
}

impl ExpirationBase {
    /// From when on the retention of an offset counts that was committed then; `None`: it does not.
    pub fn of(self, commit_timestamp_ms: i64) -> Option<i64> {
        match self {
            ExpirationBase::Never => None,
            ExpirationBase::CommitTimestamp => Some(commit_timestamp_ms),
            ExpirationBase::CurrentStateTimestamp(timestamp_ms) => Some(timestamp_ms),
        }
    }
}

/// Topics whose offsets a group's members still need.
#[derive(Debug)]
pub enum ConsumedTopics {
    /// None.
    Nothing,
    /// All: it is not known which.
    Everything,
    /// Those with one of these names.
    Named(BTreeSet<Box<str>>),
}

impl ConsumedTopics {
    /// Whether this topic is one of them.
    pub fn contains(&self, topic: &str) -> bool {
        match self {
            ConsumedTopics::Nothing => false,
            ConsumedTopics::Everything => true,
            ConsumedTopics::Named(names) => names.contains(topic),
        }
    }
}

/// From when on an offset is expired, in milliseconds. An explicit expiry holds alone; without one
/// it goes when its retention has passed (`OffsetExpirationConditionImpl`).
pub fn expires_at_ms(
    base_timestamp_ms: i64,
    retention_ms: i64,
    expire_timestamp_ms: Option<i64>,
) -> i64 {
    expire_timestamp_ms.unwrap_or(base_timestamp_ms.saturating_add(retention_ms))
}

/// Writes tombstones for the group's expired offsets. Returns whether none are left and no
/// transaction is open, so that an Empty group may go.
pub fn expire(
    scope: &mut GroupScope<'_>,
    base: ExpirationBase,
    retention_ms: i64,
    subscribed: impl Fn(&str) -> bool,
    now_ms: i64,
    outbox: &mut Outbox,
) -> bool {
    if scope.offsets.is_empty() {
        return !scope.offsets.has_open_transactions();
    }
    if base == ExpirationBase::Never {
        return false;
    }
    let mut all_expired = true;
    let mut doomed = Vec::new();
    let topics = &scope.tables.topics;
    for topic in scope.offsets.topics(topics) {
        if subscribed(topics.name(topic)) {
            all_expired = false;
            continue;
        }
        for (partition, committed) in scope.offsets.partitions(topics, topic) {
            let is_expired = is_expired((base, retention_ms), &committed, now_ms);
            if is_expired && !scope.offsets.is_pending(key(topic, partition)) {
                doomed.push((topic, partition));
            } else {
                all_expired = false;
            }
        }
    }
    emit_tombstones(scope, doomed, now_ms, outbox);
    all_expired && !scope.offsets.has_open_transactions()
}

fn is_expired(
    (base, retention_ms): (ExpirationBase, i64),
    committed: &CommittedOffset<'_>,
    now_ms: i64,
) -> bool {
    base.of(committed.commit_timestamp).is_some_and(|from_ms| {
        now_ms >= expires_at_ms(from_ms, retention_ms, committed.expire_timestamp)
    })
}

/// Writes tombstones for some of the group's expired offsets: from `place` on, within `bounds`, in
/// the order in which they are stored. `rule`: from when the retention counts, and how long it is.
/// Returns where it goes on; `None`: all were looked at.
pub fn expire_some(
    scope: &mut GroupScope<'_>,
    place: Place,
    bounds: &mut Bounds,
    rule: (ExpirationBase, i64),
    subscribed: impl Fn(&str) -> bool,
    now_ms: i64,
    outbox: &mut Outbox,
) -> Option<Place> {
    if rule.0 == ExpirationBase::Never {
        return None;
    }
    let (mut doomed, mut left) = (Vec::new(), None);
    let topics = &scope.tables.topics;
    let mut known = None;
    for entry in scope.offsets.entries.iter_from(place.0) {
        if bounds.are_met() {
            left = Some(Place(entry.key()));
            break;
        }
        bounds.look();
        let is_kept = match known {
            Some((topic, is_kept)) if topic == entry.topic => is_kept,
            _ => subscribed(topics.name(entry.topic)),
        };
        known = Some((entry.topic, is_kept));
        if !is_kept
            && is_expired(rule, &scope.offsets.view(topics, entry), now_ms)
            && !scope.offsets.is_pending(entry.key())
        {
            doomed.push((entry.topic, entry.partition));
            bounds.written(1);
        }
    }
    emit_tombstones(scope, doomed, now_ms, outbox);
    left
}
