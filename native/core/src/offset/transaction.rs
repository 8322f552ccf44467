//! Which groups have pending offsets of which producer, so that an end marker, which is for all
//! groups of the shard, reaches them without a scan (offsets section 3.1).
//!
//! A marker is applied in two steps: [`OpenTransactions::close`] names the groups, and
//! `GroupScope::apply_marker` does it in each.

use std::collections::{BTreeMap, BTreeSet};

/// Which groups have pending offsets of which producer.
#[derive(Debug, Default)]
pub struct OpenTransactions {
    /// No producer without a group.
    groups: BTreeMap<i64, BTreeSet<Box<str>>>,
}

impl OpenTransactions {
    /// Whether no transaction is open.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Producers with a pending offset in any group, ascending, with those groups by id.
    pub fn iter(&self) -> impl Iterator<Item = (i64, impl Iterator<Item = &str>)> {
        self.groups
            .iter()
            .map(|(producer_id, groups)| (*producer_id, groups.iter().map(|id| &**id)))
    }

    /// Takes the groups in which a producer has pending offsets, by id. Each must have the
    /// marker applied. Empty for an unknown producer: its marker is ignored.
    #[must_use = "each group must have the marker applied"]
    pub fn close(&mut self, producer_id: i64) -> BTreeSet<Box<str>> {
        self.groups.remove(&producer_id).unwrap_or_default()
    }

    pub(super) fn open(&mut self, producer_id: i64, group_id: &str) {
        let groups = self.groups.entry(producer_id).or_default();
        if !groups.contains(group_id) {
            groups.insert(group_id.into());
        }
    }

    /// A tombstone took the producer's last pending offset in the group.
    pub(super) fn close_in(&mut self, producer_id: i64, group_id: &str) {
        let groups = self.groups.get_mut(&producer_id).expect("an open producer has groups");
        groups.remove(group_id);
        if groups.is_empty() {
            self.groups.remove(&producer_id);
        }
    }
}
