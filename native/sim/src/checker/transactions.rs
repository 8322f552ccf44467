//! Offsets in transactions: they count from the marker on that commits them, in the order in which
//! they were written, or never.

use std::collections::{BTreeMap, BTreeSet};

use kcoord_core::record::OffsetCommitValue;
use kcoord_core::response::{OffsetCommitResponse, OffsetFetchResponse};
use kcoord_core::{ErrorCode, Shard};
use kcoord_wire::api::write_txn_markers;

use super::offsets::{Entry, Key, is_accepted, shown};
use super::{Checker, Now};
use crate::ask::{Ask, Body};
use crate::breaks::{Check, Invariant, check};
use crate::plan::{GROUPS, TOPICS};

/// A record that waits for its marker, or has had it.
#[derive(Clone, Debug)]
struct Pending {
    producer_id: i64,
    key: Key,
    log_offset: i64,
    value: i64,
    commit_ms: i64,
    acknowledged: bool,
    /// The log offset of the marker or the tombstone that ended it.
    ended: Option<i64>,
}

/// Of one shard.
#[derive(Clone, Debug, Default)]
pub struct Transactions {
    pending: Vec<Pending>,
    /// The last marker of each producer, and whether it was acknowledged.
    markers: BTreeMap<i64, (i64, bool)>,
    /// Offsets that producers have asked to commit, and those of which the end is durable.
    asked: BTreeSet<i64>,
    over: BTreeSet<i64>,
}

impl Transactions {
    pub fn asked(&mut self, ask: &Ask) {
        if let Body::CommitInTransaction { offsets, .. } = &ask.body {
            self.asked.extend(offsets.iter().map(|(_, _, offset)| offset));
        }
    }

    /// Partitions with a pending offset that was there before `log_offset`.
    pub fn open_before(&self, log_offset: i64) -> Vec<Key> {
        let open = self.pending.iter().filter(|of| of.ended.is_none());
        open.filter(|of| of.log_offset < log_offset).map(|of| of.key).collect()
    }
}

impl Checker {
    pub(super) fn pending_written(
        &mut self,
        shard: usize,
        key: Key,
        log_offset: i64,
        value: &OffsetCommitValue<'_>,
        producer_id: i64,
    ) -> Check {
        let transactions = &mut self.transactions[shard];
        check(transactions.asked.contains(&value.offset), Invariant::Acknowledged, || {
            format!("{} gets a pending offset that nobody asked for: {}", shown(key), value.offset)
        })?;
        transactions.pending.push(Pending {
            producer_id,
            key,
            log_offset,
            value: value.offset,
            commit_ms: value.commit_timestamp,
            acknowledged: false,
            ended: None,
        });
        Ok(())
    }

    pub(super) fn marker_written(
        &mut self,
        shard: usize,
        producer_id: i64,
        log_offset: i64,
        commits: bool,
    ) {
        let transactions = &mut self.transactions[shard];
        transactions.markers.insert(producer_id, (log_offset, false));
        let mut last = BTreeMap::new();
        for of in &mut transactions.pending {
            if of.producer_id == producer_id && of.ended.is_none() {
                of.ended = Some(log_offset);
                last.insert(of.key, of.clone());
            }
        }
        for (key, of) in last.into_iter().filter(|_| commits) {
            let cell = self.cell(key);
            if cell.last_record_offset().is_none_or(|before| before < of.log_offset) {
                cell.push(Entry {
                    log_offset,
                    record_offset: of.log_offset,
                    value: Some(of.value),
                    commit_ms: of.commit_ms,
                    expire_ms: -1,
                    acknowledged: false,
                });
            }
        }
    }

    /// An offset is deleted: what is pending for its partition goes with it.
    pub(super) fn pending_deleted(&mut self, shard: usize, key: Key, log_offset: i64) {
        let pending = self.transactions[shard].pending.iter_mut();
        for of in pending.filter(|of| of.key == key && of.ended.is_none()) {
            of.ended = Some(log_offset);
        }
    }

    pub(super) fn committed_in_transaction(
        &mut self,
        ask: &Ask,
        committed: &OffsetCommitResponse,
        now: &Now<'_>,
    ) -> Check {
        let Body::CommitInTransaction { offsets, .. } = &ask.body else {
            unreachable!("no commit in a transaction: {ask}")
        };
        let shard = self.shard_of(ask.group);
        let synced_end = now.logs[shard].synced_end();
        let by_id = ask.version >= 6;
        for &(topic, partition, offset) in offsets {
            if !is_accepted(committed, by_id, topic, partition, offsets) {
                continue;
            }
            let key = (ask.group, topic, partition);
            let transactions = &mut self.transactions[shard];
            let found = transactions.pending.iter_mut().find(|of| of.value == offset);
            let is_durable = match found {
                Some(of) => {
                    of.acknowledged = true;
                    of.log_offset < synced_end
                }
                None => transactions.over.contains(&offset),
            };
            check(is_durable, Invariant::Durable, || {
                format!("{} = {offset} is acknowledged as pending, and not durable", shown(key))
            })?;
        }
        Ok(())
    }

    pub(super) fn transaction_ended(
        &mut self,
        ask: &Ask,
        written: &write_txn_markers::Response,
        now: &Now<'_>,
    ) -> Check {
        let topics = written.markers.iter().flat_map(|of| &of.topics);
        for &(shard, code) in topics.flat_map(|(_, partitions)| partitions) {
            if code != ErrorCode::None {
                continue;
            }
            let shard = shard as usize;
            let synced_end = now.logs[shard].synced_end();
            let transactions = &mut self.transactions[shard];
            let marker = transactions.markers.get_mut(&ask.producer_id());
            let is_durable = marker.is_some_and(|(log_offset, acknowledged)| {
                *acknowledged = true;
                *log_offset < synced_end
            });
            check(is_durable, Invariant::Durable, || {
                format!("{ask}: shard {shard} acknowledges a marker that is not durable")
            })?;
            let is_over = |of: &Pending| of.ended.is_some_and(|ended| ended < synced_end);
            let over = transactions.pending.iter().filter(|of| is_over(of));
            transactions.over.extend(over.map(|of| of.value));
            transactions.pending.retain(|of| !is_over(of));
        }
        Ok(())
    }

    /// What is pending is refused to who asks for stable offsets.
    pub(super) fn fetched_stable(
        &self,
        ask: &Ask,
        groups: &[OffsetFetchResponse],
        unstable: &[Key],
    ) -> Check {
        if !ask.is_stable() || !(7..10).contains(&ask.version) {
            return Ok(());
        }
        for (group, answer) in ask.groups().into_iter().zip(groups) {
            for key in unstable.iter().filter(|key| key.0 == group) {
                let topics = answer.topics().filter(|topic| topic.name() == TOPICS[key.1]);
                let mut partitions = topics.flat_map(|topic| topic.partitions);
                let found = partitions.find(|found| found.partition_index == key.2);
                let is_refused = found.is_none_or(|found| found.error_code.is_error());
                check(is_refused, Invariant::Acknowledged, || {
                    format!("{} is read as stable while a transaction is open", shown(*key))
                })?;
            }
        }
        Ok(())
    }

    /// The shard was loaded again from a log that ends at `next_offset`.
    pub(super) fn transactions_reloaded(
        &mut self,
        shard: usize,
        next_offset: i64,
        loaded: &Shard,
    ) -> Check {
        let transactions = &mut self.transactions[shard];
        let is_lost = |log_offset: i64| log_offset >= next_offset;
        let lost = transactions.pending.iter().find(|of| of.acknowledged && is_lost(of.log_offset));
        check(lost.is_none(), Invariant::Acknowledged, || {
            format!("{lost:?} was acknowledged, and is not in the log, which ends at {next_offset}")
        })?;
        transactions.pending.retain(|of| !is_lost(of.log_offset));
        for of in &mut transactions.pending {
            of.ended = of.ended.filter(|ended| !is_lost(*ended));
        }
        let mut open: Vec<_> = transactions
            .open_before(i64::MAX)
            .into_iter()
            .map(|(group, topic, partition)| {
                (GROUPS[group].to_owned(), TOPICS[topic].to_owned(), partition)
            })
            .collect();
        open.sort_unstable();
        open.dedup();
        let found = loaded.unstable();
        check(found == open, Invariant::Acknowledged, || {
            format!("shard {shard} is loaded with {found:?} pending, but it is {open:?}")
        })
    }
}
