//! The records of groups that are not served: kept, and ended.

use super::ForeignGroup;
use crate::group::Machine;
use crate::group::kind::GroupKind;
use crate::record::{DecodeError, OtherKey};

impl Machine {
    /// A record of a group that is not served; `raw_key` is the whole of `key`.
    pub fn apply_foreign(
        &mut self,
        key: &OtherKey<'_>,
        raw_key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), DecodeError> {
        let found = self.registry.find(key.group_id);
        let Some(value) = value else {
            if let Some(group) = found {
                self.apply_foreign_tombstone(group, key, raw_key);
            }
            return Ok(());
        };
        let group = found.unwrap_or_else(|| self.registry.create(key.group_id));
        let of = self.group_mut(group);
        if of.is_simple() {
            of.kind = GroupKind::Foreign(Box::new(ForeignGroup::new(key.group_type)));
        }
        match &mut of.kind {
            GroupKind::Foreign(foreign) if foreign.group_type == key.group_type => {
                foreign.records.insert(raw_key.into(), value.into());
                Ok(())
            }
            _ => Err(DecodeError("a record of a group that is of another type")),
        }
    }

    fn apply_foreign_tombstone(&mut self, group: u32, key: &OtherKey<'_>, raw_key: &[u8]) {
        let GroupKind::Foreign(foreign) = &mut self.group_mut(group).kind else { return };
        if foreign.group_type != key.group_type {
            return;
        }
        foreign.records.remove(raw_key);
        if key.record_type == key.group_type.group_record_type() || foreign.records.is_empty() {
            self.apply_group_tombstone(group);
        }
    }

    /// Tombstones for all of its records. What stands by itself comes last: that of the group, which
    /// Kafka refuses to end while it has anything else.
    pub fn emit_foreign_tombstones(&mut self, now_ms: i64, group: u32) {
        let GroupKind::Foreign(foreign) = &self.registry.groups[group].kind else { return };
        for key in foreign.records.keys().rev() {
            self.outbox.emit(now_ms, key, None);
        }
    }
}
