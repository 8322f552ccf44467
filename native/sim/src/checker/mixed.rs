//! Groups that change their kind: what a shard appends says so, in one batch.

use kcoord_core::record::batch::Batches;
use kcoord_core::record::consumer::{ConsumerGroupRecord, RecordChange};
use kcoord_core::record::{GroupMetadataValue, RecordKey};

use super::{Checker, Now, number, unreadable};
use crate::breaks::{Check, Invariant, Violation, check};
use crate::plan::GROUPS;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Classic,
    Consumer,
}

/// Groups that these batches make, or go on with.
pub fn made(bytes: &[u8]) -> Result<Vec<(usize, Kind)>, Violation> {
    let unread = |error: &dyn std::fmt::Display| unreadable(&error.to_string());
    let mut made = Vec::new();
    for batch in Batches::new(bytes) {
        let batch = batch.map_err(|error| unread(&error))?;
        if batch.header.attributes.is_control() {
            continue;
        }
        for record in batch.records() {
            let record = record.map_err(|error| unread(&error))?;
            let Some(value) = record.value else { continue };
            let key = RecordKey::parse(record.key.unwrap_or_default());
            match key.map_err(|error| unread(&error))? {
                RecordKey::GroupMetadata(key) => {
                    made.push((number(&GROUPS, key.group), Kind::Classic));
                }
                RecordKey::ConsumerGroup(key) => {
                    let record = ConsumerGroupRecord::parse(&key, Some(value));
                    let record = record.map_err(|error| unread(&error))?;
                    if matches!(record.change, RecordChange::GroupMetadata(_)) {
                        made.push((number(&GROUPS, key.group_id), Kind::Consumer));
                    }
                }
                _ => {}
            }
        }
    }
    Ok(made)
}

impl Checker {
    /// Whether it is a member of a classic group, in its present generation.
    pub fn is_classic_member(&self, group: usize, member_id: &str, generation_id: i32) -> bool {
        let of = &self.groups[group];
        of.generation_id == generation_id && of.has_member(member_id)
    }

    /// A classic group goes, and a consumer group comes in its place: with its members it takes its generation
    /// over, and its offsets stay.
    pub(super) fn upgraded(&mut self, group: usize, offset: i64, now: &Now<'_>) {
        let of = &mut self.groups[group];
        if of.has_members() {
            self.natives[group].come_from(of.last_generation_id().unwrap_or_default());
            self.upgraded += 1;
        }
        of.tombstone_of_kind(offset, now);
    }

    /// A consumer group that becomes a classic one with its members goes on in its epoch, or in a later one.
    pub(super) fn check_downgrade(
        &mut self,
        group: usize,
        value: &GroupMetadataValue<'_>,
    ) -> Check {
        let Some(epoch) = self.natives[group].went_from() else { return Ok(()) };
        if value.members.is_empty() {
            return Ok(());
        }
        self.downgraded += 1;
        check(value.generation >= epoch, Invariant::Epoch, || {
            let id = GROUPS[group];
            format!("{id} was in epoch {epoch}, and is a group of generation {}", value.generation)
        })
    }
}
