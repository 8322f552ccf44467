//! Work on all groups that is done some at a time: what expires, and what a deleted topic leaves.
//! Requests come between; what is left goes by how it is then.

use super::Machine;
use crate::event::DeletionCause;
use crate::offset::delete::delete_some_of_topic;
use crate::offset::expiration::expire_some;
use crate::offset::sweep::{Bounds, Place};
use crate::request::Uuid;

/// Rows that are looked at in one go.
const ROWS: u32 = 2_048;
/// So many rows cost as much as a tombstone, and so many offsets that are only looked at.
const ROWS_COST: usize = 4;
const OFFSETS_COST: usize = 64;

/// How far it has come: a group's row, and what of that group was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sweep {
    row: u32,
    place: Place,
}

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swept {
    /// In tombstones: how many were written, and more for what was looked at.
    pub cost: usize,
    /// What is to be done; `None`: that was all.
    pub left: Option<Sweep>,
}

impl Machine {
    /// Some of what [`expire_groups`](Self::expire_groups) does.
    pub fn expire_some_groups(&mut self, now_ms: i64, from: Sweep) -> Swept {
        self.sweep(from, |machine, group, place, bounds| {
            if machine.group(group).offsets.is_some() {
                let left = machine.expire_some_offsets(now_ms, group, place, bounds);
                if left.is_some() {
                    return left;
                }
            }
            let of = machine.group(group);
            if of.offsets.is_none() && of.expires() && of.is_empty() {
                machine.tell_group_deleted(group, DeletionCause::Expired);
                machine.emit_group_tombstone(now_ms, group);
                bounds.written(1);
            }
            None
        })
    }

    /// Some of what [`delete_topic_offsets`](Self::delete_topic_offsets) does.
    pub fn delete_some_topic_offsets(
        &mut self,
        now_ms: i64,
        name: &str,
        topic_id: Uuid,
        from: Sweep,
    ) -> Swept {
        if self.offsets.topics.find(name).is_none() {
            return Swept { cost: 0, left: None };
        }
        self.sweep(from, |machine, group, place, bounds| {
            machine.group(group).offsets.as_ref()?;
            let start_offset = machine.outbox.next_offset();
            let mut scope = machine.registry.groups[group].offset_scope(&mut machine.offsets);
            let doomed = (name, topic_id);
            let outbox = &mut machine.outbox;
            let left = delete_some_of_topic(&mut scope, doomed, place, bounds, now_ms, outbox);
            machine.offsets_written(group, start_offset);
            left
        })
    }

    fn expire_some_offsets(
        &mut self,
        now_ms: i64,
        group: u32,
        place: Place,
        bounds: &mut Bounds,
    ) -> Option<Place> {
        let (base, topics) = self.expiration_of(group);
        let start_offset = self.outbox.next_offset();
        let of = &mut self.registry.groups[group];
        let mut scope = of.offset_scope(&mut self.offsets);
        let subscribed = |topic: &str| topics.contains(topic);
        let rule = (base, self.config.offsets_retention_ms);
        let outbox = &mut self.outbox;
        let left = expire_some(&mut scope, place, bounds, rule, subscribed, now_ms, outbox);
        self.offsets_written(group, start_offset);
        left
    }

    /// Goes from group to group, as far as one go goes.
    fn sweep(
        &mut self,
        from: Sweep,
        mut some_of: impl FnMut(&mut Self, u32, Place, &mut Bounds) -> Option<Place>,
    ) -> Swept {
        let mut bounds = Bounds::default();
        let Sweep { mut row, mut place } = from;
        let end = self.registry.groups.end();
        let last = end.min(row.saturating_add(ROWS));
        while row < last && !bounds.are_met() {
            let left = match self.registry.is_used(row) {
                true => some_of(self, row, place, &mut bounds),
                false => None,
            };
            match left {
                Some(left) => place = left,
                None => (row, place) = (row + 1, Place::default()),
            }
        }
        let rows = row.saturating_sub(from.row) as usize;
        Swept {
            cost: 1 + bounds.tombstones() + bounds.looked() / OFFSETS_COST + rows / ROWS_COST,
            left: (row < end).then_some(Sweep { row, place }),
        }
    }
}
