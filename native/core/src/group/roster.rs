//! Members of one group in the order in which they came, found by id.
//!
//! A group of one keeps its member's row in itself; only larger groups pay for a table.

use std::collections::BTreeMap;

use hashbrown::HashTable;

use super::classic::member::Member;
use crate::slab::Slab;

/// Rows of the member slab by the hash of their ids. One leaves as fast as it came, however many
/// there are.
#[derive(Debug, Default)]
pub struct IdTable {
    by_id: HashTable<(u32, u32)>,
}

impl IdTable {
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    pub fn find(&self, members: &Slab<Member>, hash: u64, member_id: &str) -> Option<u32> {
        let tag = tag(hash);
        let is_it = |entry: &(u32, u32)| entry.0 == tag && members[entry.1].is_member_id(member_id);
        self.by_id.find(spread(tag), is_it).map(|entry| entry.1)
    }

    pub fn insert(&mut self, hash: u64, row: u32) {
        let tag = tag(hash);
        self.by_id.insert_unique(spread(tag), (tag, row), |entry| spread(entry.0));
    }

    /// Takes the row out. `hash` is that of the id it was inserted with.
    pub fn remove(&mut self, hash: u64, row: u32) {
        let entry = self.by_id.find_entry(spread(tag(hash)), |entry| entry.1 == row);
        entry.expect("a member's row is found under its id").remove();
    }

    /// All rows, by number: never in the order of their hashes.
    pub fn sorted_rows(&self) -> Vec<u32> {
        let mut rows: Vec<u32> = self.by_id.iter().map(|entry| entry.1).collect();
        rows.sort_unstable();
        rows
    }
}

/// Rows of the member slab in the order in which they came, and by id.
#[derive(Debug, Default)]
pub struct MemberTable {
    order: Vec<u32>,
    ids: IdTable,
}

impl MemberTable {
    pub fn rows(&self) -> &[u32] {
        &self.order
    }

    pub fn len(&self) -> usize {
        self.order.len()
    }

    pub fn find(&self, members: &Slab<Member>, hash: u64, member_id: &str) -> Option<u32> {
        self.ids.find(members, hash, member_id)
    }

    pub fn insert(&mut self, hash: u64, row: u32) {
        self.order.push(row);
        self.ids.insert(hash, row);
    }

    /// Takes the row out. `hash` is that of the id it was inserted with.
    pub fn remove(&mut self, hash: u64, row: u32) {
        let at = self.order.iter().position(|other| *other == row);
        self.order.remove(at.expect("a member's row is in its group"));
        self.ids.remove(hash, row);
    }

    /// The row got another id, and keeps its place.
    pub fn rename(&mut self, old_hash: u64, new_hash: u64, row: u32) {
        self.ids.remove(old_hash, row);
        self.ids.insert(new_hash, row);
    }

    /// Puts the rows in another order. They must be the same rows.
    pub fn reorder(&mut self, order: Vec<u32>) {
        debug_assert_eq!(order.len(), self.order.len());
        self.order = order;
    }
}

fn tag(hash: u64) -> u32 {
    hash as u32
}

/// The table wants its high bits to differ too.
fn spread(tag: u32) -> u64 {
    u64::from(tag) | u64::from(tag) << 32
}

/// The members of a group that has, or had since it was last alone, more than one.
#[derive(Debug, Default)]
pub struct Roster {
    pub members: MemberTable,
    /// `group.instance.id` to row.
    pub static_members: BTreeMap<Box<str>, u32>,
}
