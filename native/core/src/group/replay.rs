//! The walk through a log at its start: records decoded a window at a time, their groups looked up
//! in stages so that cache misses overlap, and applied one by one, in order.
//!
//! Nearly all of a log are commits, and most follow one of the same group and topic: those are
//! known by their bytes, and nothing is looked up for them. It must never apply a record on a guess
//! that it has not checked, nor one behind a record that cannot be read.

use core::hint::black_box;

use super::Machine;
use crate::error::ReplayError;
use crate::offset::Stored;
use crate::record::offset_commit::OFFSET_COMMIT_KEY_TYPE;
use crate::record::reader::NOT_UTF8;
use crate::record::{Batch, Batches, DecodeError, OffsetCommitValue, Reader, Record};
use crate::utf8::utf8;

/// Records looked up together.
const WINDOW: usize = 128;

/// Where batches come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Log,
    /// What [`crate::snapshot`] wrote: no transaction ends there, so control records are its own.
    Snapshot,
}

/// A record whose turn comes soon.
struct Staged<'a> {
    record: Record<'a>,
    /// Where its batch starts in the chunk.
    position: usize,
    producer_id: i64,
    kind: Kind<'a>,
}

enum Kind<'a> {
    Control,
    Commit(CommitKey<'a>),
    Other,
}

/// The key of a commit as bytes: whether they are UTF-8 is asked only where a name is new.
#[derive(Clone, Copy)]
struct CommitKey<'a> {
    group: &'a [u8],
    topic: &'a [u8],
    partition: i32,
    hash: u64,
    /// The record before is a commit of the same group and topic.
    follows: bool,
    /// The row that probably is the group's.
    guess: Option<u32>,
}

/// The key that was read last, but for the partition at its end.
#[derive(Clone, Copy)]
struct LastKey<'a> {
    head: &'a [u8],
    key: CommitKey<'a>,
}

/// Where the record before was stored: only if it was a commit, and nothing was applied since.
type Recent = Option<(u32, Stored)>;

impl Machine {
    /// Whole batches, in order.
    pub fn replay(&mut self, chunk: &[u8], source: Source) -> Result<(), ReplayError> {
        let mut window: Vec<Staged<'_>> = Vec::with_capacity(WINDOW);
        let mut last = None;
        let mut recent = None;
        for batch in Batches::new(chunk) {
            let staged = batch.and_then(|batch| {
                let is_observed = batch.header.producer_id >= 0 && source == Source::Log;
                let is_control = is_observed && batch.header.attributes.is_control();
                if is_observed && !is_control {
                    self.offsets.producers.observe(&batch.header);
                }
                for record in batch.records() {
                    let record = record?;
                    if is_control {
                        let seen = self.offsets.producers.observe_control(&batch.header, &record);
                        seen.map_err(|error| batch.error(record.offset, error.to_string()))?;
                    }
                    window.push(self.stage(&batch, record, &mut last)?);
                    if window.len() == WINDOW {
                        self.apply_window(&mut window, &mut recent, source)?;
                    }
                }
                Ok(())
            });
            if let Err(error) = staged {
                // What stands before it comes first, and may be at fault itself.
                self.apply_window(&mut window, &mut recent, source)?;
                return Err(error);
            }
        }
        self.apply_window(&mut window, &mut recent, source)
    }

    #[inline]
    fn stage<'a>(
        &self,
        batch: &Batch<'a>,
        record: Record<'a>,
        last: &mut Option<LastKey<'a>>,
    ) -> Result<Staged<'a>, ReplayError> {
        let kind = if batch.header.attributes.is_control() {
            Ok(Kind::Control)
        } else {
            self.kind_of(record.key, last)
        };
        let kind = kind.map_err(|error| batch.error(record.offset, error.to_string()))?;
        let producer_id = batch.header.producer_id;
        Ok(Staged { record, position: batch.position, producer_id, kind })
    }

    #[inline]
    fn kind_of<'a>(
        &self,
        key: Option<&'a [u8]>,
        last: &mut Option<LastKey<'a>>,
    ) -> Result<Kind<'a>, DecodeError> {
        let bytes = key.ok_or(DecodeError("a record without a key"))?;
        let split = bytes.split_last_chunk();
        if let (Some((head, partition)), Some(last)) = (split, &*last)
            && head == last.head
        {
            let partition = i32::from_be_bytes(*partition);
            return Ok(Kind::Commit(CommitKey { partition, follows: true, ..last.key }));
        }
        *last = None;
        let mut reader = Reader::new(bytes);
        if !(0..=OFFSET_COMMIT_KEY_TYPE).contains(&reader.i16()?) {
            return Ok(Kind::Other);
        }
        let (group, topic) = (reader.string_bytes()?, reader.string_bytes()?);
        let (partition, hash) = (reader.i32()?, self.registry.hash_bytes(group));
        let key = CommitKey { group, topic, partition, hash, follows: false, guess: None };
        if reader.rest().is_empty() {
            *last = split.map(|(head, _)| LastKey { head, key });
        }
        Ok(Kind::Commit(key))
    }

    fn apply_window(
        &mut self,
        window: &mut Vec<Staged<'_>>,
        recent: &mut Recent,
        source: Source,
    ) -> Result<(), ReplayError> {
        self.prefetch_records(window);
        for staged in window.drain(..) {
            self.apply_staged(&staged, recent, source).map_err(|error| ReplayError {
                offset: staged.record.offset,
                position: staged.position,
                reason: error.to_string(),
            })?;
        }
        Ok(())
    }

    /// Finds all groups, and prefetches what each commit will read; every stage for all before
    /// the next.
    fn prefetch_records(&self, window: &mut [Staged<'_>]) {
        for staged in window.iter_mut() {
            if let Kind::Commit(key) = &mut staged.kind
                && !key.follows
            {
                key.guess = self.registry.guess(key.hash);
            }
        }
        let commits = || {
            window.iter().filter_map(|staged| match &staged.kind {
                Kind::Commit(key) => Some((key, self.group(key.guess?).offsets.as_deref()?)),
                _ => None,
            })
        };
        let groups = commits().count();
        let empty = commits().filter(|(_, offsets)| offsets.is_empty()).count();
        let topics = &self.offsets.topics;
        let prefetched = commits().filter(|(key, offsets)| {
            let topic = topics.find_bytes(key.topic);
            topic.is_some_and(|topic| offsets.prefetch(topic, key.partition))
        });
        black_box((groups, empty, prefetched.count()));
    }

    #[inline]
    fn apply_staged(
        &mut self,
        staged: &Staged<'_>,
        recent: &mut Recent,
        source: Source,
    ) -> Result<(), DecodeError> {
        let record = &staged.record;
        let before = recent.take();
        match &staged.kind {
            Kind::Commit(key) => *recent = self.replay_commit(staged, key, before)?,
            Kind::Other => self.replay_other(record.key.unwrap_or_default(), record.value)?,
            Kind::Control => {
                let key = record.key.ok_or(DecodeError("a control record without a key"))?;
                match source {
                    Source::Log => self.replay_control(staged.producer_id, key)?,
                    Source::Snapshot if staged.producer_id >= 0 => {
                        let value = record.value.unwrap_or_default();
                        self.offsets.producers.restore(staged.producer_id, value)?;
                    }
                    Source::Snapshot => self.restore_count(key, record.value)?,
                }
            }
        }
        Ok(())
    }

    #[inline]
    fn replay_commit(
        &mut self,
        staged: &Staged<'_>,
        key: &CommitKey<'_>,
        before: Recent,
    ) -> Result<Recent, DecodeError> {
        let record = &staged.record;
        let value = record.value.map(OffsetCommitValue::parse).transpose()?;
        if let (Some((group, stored)), Some(value), true, -1) =
            (before, &value, key.follows, staged.producer_id)
        {
            let of = &mut self.registry.groups[group];
            let mut scope = of.offset_scope(&mut self.offsets);
            let stored = scope.apply_next(stored, key.partition, value, record.offset);
            return Ok(Some((group, stored)));
        }
        let (value, Some(group)) = (value, self.group_of(key, record.value.is_some())?) else {
            utf8(key.topic).ok_or(NOT_UTF8)?;
            return Ok(None);
        };
        let of = &mut self.registry.groups[group];
        let mut scope = of.offset_scope(&mut self.offsets);
        if let (Some(value), true) = (&value, staged.producer_id < 0) {
            let stored = scope.apply_bytes(key.topic, key.partition, value, record.offset);
            return stored.map(|stored| Some((group, stored))).ok_or(NOT_UTF8);
        }
        let topic = utf8(key.topic).ok_or(NOT_UTF8)?;
        let producer_id = (staged.producer_id >= 0).then_some(staged.producer_id);
        scope.apply(topic, key.partition, value.as_ref(), record.offset, producer_id);
        if value.is_none() {
            self.offsets_written(group, self.outbox.next_offset());
        }
        Ok(None)
    }

    /// The group that a commit names; made if there is something to store in it.
    #[inline]
    fn group_of(
        &mut self,
        key: &CommitKey<'_>,
        is_needed: bool,
    ) -> Result<Option<u32>, DecodeError> {
        let guess = self.registry.confirmed(key.guess, key.group);
        if let Some(row) = guess.or_else(|| self.registry.find_hashed(key.hash, key.group)) {
            return Ok(Some(row));
        }
        let group_id = utf8(key.group).ok_or(NOT_UTF8)?;
        Ok(is_needed.then(|| self.registry.create_hashed(key.hash, group_id)))
    }
}
