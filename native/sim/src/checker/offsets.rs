//! Committed offsets: what was acknowledged is there until something that may take it away does.

use kcoord_core::record::OffsetCommitValue;
use kcoord_core::response::{OffsetCommitResponse, OffsetDeleteResponse, OffsetFetchResponse};
use kcoord_core::{ErrorCode, Shard};

use super::{Checker, Now, number};
use crate::ask::{Ask, Body, Named};
use crate::breaks::{Check, Invariant, check};
use crate::plan::{GROUPS, PARTITIONS, TOPICS};

/// Cells of one group.
pub const CELLS: usize = TOPICS.len() * PARTITIONS;

/// Group, topic, partition.
pub type Key = (usize, usize, i32);

/// A record that was appended for a partition.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub log_offset: i64,
    /// Of the record that holds it: a marker stands behind it.
    pub record_offset: i64,
    /// `None`: a tombstone.
    pub value: Option<i64>,
    pub commit_ms: i64,
    pub expire_ms: i64,
    pub acknowledged: bool,
}

/// One partition's offset in one group: the records since the last that was acknowledged.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    entries: Vec<Entry>,
}

impl Cell {
    /// What all records together give.
    pub fn value(&self) -> Option<i64> {
        self.entries.last().and_then(|entry| entry.value)
    }

    pub fn last_record_offset(&self) -> Option<i64> {
        self.entries.last().map(|entry| entry.record_offset)
    }

    pub fn push(&mut self, entry: Entry) {
        self.entries.push(entry);
    }

    /// The entry that counted before `log_offset` was written.
    fn before(&self, log_offset: i64) -> Option<Entry> {
        self.entries.iter().rev().find(|entry| entry.log_offset < log_offset).copied()
    }

    /// An entry is certain, and what came before it forgotten.
    fn acknowledge(&mut self, at: usize) {
        self.entries.drain(..at);
        self.entries[0].acknowledged = true;
    }
}

/// One thing that a fetch may say of a partition: what was there before its turn, or came in it.
/// All of one partition stand together.
#[derive(Debug)]
pub struct Expected {
    key: Key,
    value: Option<i64>,
    /// Offset of its record, which must be durable by then; -1: there is none.
    log_offset: i64,
}

impl Checker {
    pub(super) fn cell(&mut self, (group, topic, partition): Key) -> &mut Cell {
        &mut self.cells[group * CELLS + topic * PARTITIONS + partition as usize]
    }

    pub(super) fn cells_of(&self, group: usize) -> impl Iterator<Item = (Key, &Cell)> {
        let cells = self.cells[group * CELLS..][..CELLS].iter().enumerate();
        let key = move |at: usize| (group, at / PARTITIONS, (at % PARTITIONS) as i32);
        cells.map(move |(at, cell)| (key(at), cell))
    }

    pub(super) fn offset_written(
        &mut self,
        shard: usize,
        key: Key,
        log_offset: i64,
        value: Option<&OffsetCommitValue<'_>>,
        now: &Now<'_>,
    ) -> Check {
        let entry = Entry {
            log_offset,
            record_offset: log_offset,
            value: value.map(|value| value.offset),
            commit_ms: value.map_or(-1, |value| value.commit_timestamp),
            expire_ms: value.map_or(-1, |value| value.expire_timestamp),
            acknowledged: false,
        };
        if entry.value.is_none() {
            self.check_reason(shard, key, now)?;
            self.pending_deleted(shard, key, log_offset);
        } else {
            let offset = entry.value.unwrap_or_default();
            let commits = |ask: &Ask| match &ask.body {
                Body::Commit { offsets, .. } => {
                    ask.group == key.0 && offsets.contains(&(key.1, key.2, offset))
                }
                _ => false,
            };
            check(self.asked.iter().any(|(_, ask)| commits(ask)), Invariant::Acknowledged, || {
                format!("{} gets an offset that nobody commits now: {offset}", shown(key))
            })?;
        }
        self.cell(key).entries.push(entry);
        Ok(())
    }

    /// An offset is deleted because a client asked for that, its topic is gone, or its time is
    /// over.
    fn check_reason(&mut self, shard: usize, key: Key, now: &Now<'_>) -> Check {
        let (group, topic, partition) = key;
        let is_asked = self.asked.iter().any(|(_, ask)| match &ask.body {
            Body::DeleteOffsets((of, partitions)) => {
                ask.group == group && *of == topic && partitions.contains(&partition)
            }
            Body::DeleteGroups(groups) => groups.contains(&group),
            _ => false,
        });
        if is_asked || self.deleted_topics[shard][topic] {
            return Ok(());
        }
        let empty_since_ms = self.groups[group].empty_since_ms();
        let retention_ms = self.retention_ms;
        let Some(entry) = self.cell(key).entries.last().copied() else {
            return check(false, Invariant::Acknowledged, || {
                format!("{} is deleted, and was never there", shown(key))
            });
        };
        let has_passed = |since_ms: i64| now.node_ms.saturating_sub(since_ms) >= retention_ms;
        let expires = match entry.expire_ms {
            -1 => has_passed(entry.commit_ms) || empty_since_ms.is_some_and(has_passed),
            expire_ms => now.node_ms >= expire_ms,
        };
        self.offsets_expired += u64::from(expires);
        check(expires, Invariant::Acknowledged, || {
            let Entry { value, commit_ms, expire_ms, .. } = entry;
            let now_ms = now.node_ms;
            format!(
                "{} = {value:?} goes at {now_ms} ms, and nobody asked for it: committed at \
                 {commit_ms} ms, expiry {expire_ms}, retention {retention_ms} ms, group empty \
                 since {empty_since_ms:?}",
                shown(key)
            )
        })
    }

    /// What the answer may say, for each partition that was asked for. An answer for all topics is
    /// held against all partitions.
    pub(super) fn expect_fetch(&self, ask: &Ask, topics: Option<&[Named]>) -> Vec<Expected> {
        let mut expected = Vec::new();
        let is_asked = |topic: usize, partition: i32| match topics {
            None => ask.version >= 2,
            Some(topics) => {
                topics.iter().any(|(of, some)| *of == topic && some.contains(&partition))
            }
        };
        for group in ask.groups() {
            let turn_start = self.turn_start[self.shard_of(group)];
            for (key, cell) in self.cells_of(group).filter(|(key, _)| is_asked(key.1, key.2)) {
                let before = cell.before(turn_start);
                let in_turn = cell.entries.iter().filter(|entry| entry.log_offset >= turn_start);
                let (value, log_offset) =
                    before.map_or((None, -1), |entry| (entry.value, entry.log_offset));
                expected.push(Expected { key, value, log_offset });
                expected.extend(in_turn.map(|&Entry { value, log_offset, .. }| Expected {
                    key,
                    value,
                    log_offset,
                }));
            }
        }
        expected
    }

    pub(super) fn fetched(
        &self,
        ask: &Ask,
        groups: &[OffsetFetchResponse],
        expected: &[Expected],
        now: &Now<'_>,
    ) -> Check {
        for (group, answer) in ask.groups().into_iter().zip(groups) {
            if answer.error_code().is_error() {
                continue;
            }
            let log = &now.logs[self.shard_of(group)];
            for may_be in expected.chunk_by(|one, next| one.key == next.key) {
                let key = may_be[0].key;
                if key.0 != group {
                    continue;
                }
                let Some(told) = told(answer, ask.version, key) else { continue };
                let found = may_be.iter().find(|one| one.value == told);
                check(found.is_some(), Invariant::Acknowledged, || {
                    let may_be: Vec<_> = may_be.iter().map(|one| one.value).collect();
                    format!("{} is read as {told:?}, but is one of {may_be:?}", shown(key))
                })?;
                let log_offset = found.expect("just looked at").log_offset;
                check(log_offset < log.synced_end(), Invariant::Durable, || {
                    let end = log.synced_end();
                    format!(
                        "{} = {told:?} is read; its record has offset {log_offset}, and the log is \
                         durable below {end}",
                        shown(key)
                    )
                })?;
            }
        }
        Ok(())
    }

    pub(super) fn committed(
        &mut self,
        ask: &Ask,
        committed: &OffsetCommitResponse,
        by_member: bool,
        now: &Now<'_>,
    ) -> Check {
        let Body::Commit { offsets, .. } = &ask.body else { unreachable!("no commit: {ask}") };
        let shard = self.shard_of(ask.group);
        let mut codes = committed.topics.iter().flat_map(|topic| &topic.partitions);
        // A member that commits too long a note was heard all the same.
        let is_heard = |code| matches!(code, ErrorCode::None | ErrorCode::OffsetMetadataTooLarge);
        let accepted = codes.any(|(_, code)| is_heard(*code));
        if accepted {
            check(by_member || ask.generation_id < 0, Invariant::Member, || {
                format!("{ask} succeeds, and was no member when that was decided")
            })?;
            self.groups[ask.group].contact(ask, ErrorCode::None, now);
        }
        for &(topic, partition, offset) in offsets {
            if !is_accepted(committed, ask.version >= 10, topic, partition, offsets) {
                continue;
            }
            let key = (ask.group, topic, partition);
            let synced_end = now.logs[shard].synced_end();
            let cell = self.cell(key);
            let found = cell.entries.iter().position(|entry| entry.value == Some(offset));
            // A record after which others were acknowledged is forgotten.
            let is_over = cell.entries.first().is_some_and(|entry| entry.acknowledged);
            check(found.is_some() || is_over, Invariant::Durable, || {
                format!("{} = {offset} is acknowledged, and was never written", shown(key))
            })?;
            let Some(at) = found else { continue };
            let log_offset = cell.entries[at].log_offset;
            check(log_offset < synced_end, Invariant::Durable, || {
                format!(
                    "{} = {offset} is acknowledged; its record has offset {log_offset}, and the \
                     log is durable below {synced_end}",
                    shown(key)
                )
            })?;
            cell.acknowledge(at);
        }
        Ok(())
    }

    /// Those of some partitions that have no offset now: their deletion writes nothing.
    pub(super) fn absent_offsets(&self, group: usize, named: &Named) -> Vec<i32> {
        let (topic, partitions) = named;
        let is_absent = |partition: &i32| {
            let at = group * CELLS + topic * PARTITIONS + *partition as usize;
            self.cells[at].value().is_none()
        };
        partitions.iter().copied().filter(is_absent).collect()
    }

    pub(super) fn offsets_deleted(
        &mut self,
        ask: &Ask,
        deleted: &OffsetDeleteResponse,
        absent: &[i32],
        now: &Now<'_>,
    ) -> Check {
        let Body::DeleteOffsets((topic, partitions)) = &ask.body else {
            unreachable!("no deletion: {ask}")
        };
        let synced_end = now.logs[self.shard_of(ask.group)].synced_end();
        let codes = || deleted.topics.iter().flat_map(|topic| &topic.partitions);
        for partition in partitions {
            if !codes().any(|(of, code)| of == partition && *code == ErrorCode::None) {
                continue;
            }
            let key = (ask.group, *topic, *partition);
            let cell = self.cell(key);
            // The first that there is: others may have committed, and deleted the group, behind
            // this one, and wait for their records still.
            let gone = cell.entries.iter().position(|entry| entry.value.is_none());
            let is_gone = gone.is_some_and(|at| cell.entries[at].log_offset < synced_end);
            check(is_gone || absent.contains(partition), Invariant::Durable, || {
                format!("{} is said to be deleted, and is not: {:?}", shown(key), cell.entries)
            })?;
            if let Some(at) = gone {
                cell.acknowledge(at);
            }
        }
        Ok(())
    }

    pub(super) fn offsets_reloaded(
        &mut self,
        group: usize,
        next_offset: i64,
        loaded: &Shard,
    ) -> Check {
        let mut found = [None; CELLS];
        for (topic, partition, committed) in loaded.offsets(GROUPS[group]) {
            let at = number(&TOPICS, topic) * PARTITIONS + partition as usize;
            found[at] = Some(committed.offset);
        }
        for (at, found) in found.into_iter().enumerate() {
            let key = (group, at / PARTITIONS, (at % PARTITIONS) as i32);
            let cell = self.cell(key);
            let lost = cell
                .entries
                .iter()
                .find(|entry| entry.acknowledged && entry.log_offset >= next_offset);
            check(lost.is_none(), Invariant::Acknowledged, || {
                let lost = lost.expect("just looked at");
                format!(
                    "{} = {:?} was acknowledged, and its record (offset {}) is not in the log that \
                     was loaded, which ends at {next_offset}",
                    shown(key),
                    lost.value,
                    lost.log_offset
                )
            })?;
            cell.entries.retain(|entry| entry.log_offset < next_offset);
            check(cell.value() == found, Invariant::Acknowledged, || {
                format!("{} is loaded as {found:?}, but is {:?}", shown(key), cell.value())
            })?;
            if let Some(last) = cell.entries.len().checked_sub(1) {
                cell.acknowledge(last);
            }
        }
        Ok(())
    }
}

/// What an answer says of a partition; `None`: nothing that could be compared.
fn told(answer: &OffsetFetchResponse, version: i16, key: Key) -> Option<Option<i64>> {
    if version >= 10 {
        // By id: what was committed to another topic of this name does not show.
        return None;
    }
    let topics = answer.topics().filter(|topic| topic.name() == TOPICS[key.1]);
    let mut partitions = topics.flat_map(|topic| topic.partitions);
    match partitions.find(|partition| partition.partition_index == key.2) {
        None => Some(None),
        Some(found) if found.error_code.is_error() => None,
        Some(found) => Some((found.committed_offset >= 0).then_some(found.committed_offset)),
    }
}

/// By id topics have no names in the answer: then all must have been accepted.
pub fn is_accepted(
    committed: &OffsetCommitResponse,
    by_id: bool,
    topic: usize,
    partition: i32,
    offsets: &[(usize, i32, i64)],
) -> bool {
    let is_fine = |(_, code): &(i32, ErrorCode)| *code == ErrorCode::None;
    if by_id {
        let all = committed.topics.iter().flat_map(|topic| &topic.partitions);
        return all.clone().all(is_fine) && all.count() == offsets.len();
    }
    let topics = committed.topics.iter().filter(|of| *of.name == *TOPICS[topic]);
    let mut partitions = topics.flat_map(|of| &of.partitions);
    partitions.any(|answer| answer.0 == partition && is_fine(answer))
}

pub fn shown((group, topic, partition): Key) -> String {
    format!("{}/{}-{partition}", GROUPS[group], TOPICS[topic])
}
