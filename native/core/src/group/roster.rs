//! Members of one group in the order in which they came, found by id.
//!
//! A group of one keeps its member's row in itself; only larger groups pay for a table.

use std::collections::BTreeMap;

use hashbrown::HashTable;

use super::classic::member::Member;
use super::slab::Slab;

/// Rows of the member slab: in order, and by the hash of their ids.
#[derive(Debug, Default)]
pub struct MemberTable {
    order: Vec<u32>,
    by_id: HashTable<(u32, u32)>,
}

impl MemberTable {
    pub fn rows(&self) -> &[u32] {
        &self.order
    }

    pub fn len(&self) -> usize {
        self.order.len()
    }

    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    pub fn find(&self, members: &Slab<Member>, hash: u64, member_id: &str) -> Option<u32> {
        let tag = tag(hash);
        let is_it = |entry: &(u32, u32)| entry.0 == tag && members[entry.1].is_member_id(member_id);
        self.by_id.find(spread(tag), is_it).map(|entry| entry.1)
    }

    pub fn insert(&mut self, hash: u64, row: u32) {
        let tag = tag(hash);
        self.order.push(row);
        self.by_id.insert_unique(spread(tag), (tag, row), |entry| spread(entry.0));
    }

    /// Takes the row out. `hash` is that of the id it was inserted with.
    pub fn remove(&mut self, hash: u64, row: u32) {
        self.order.retain(|other| *other != row);
        self.forget_id(hash, row);
    }

    /// The row got another id, and keeps its place.
    pub fn rename(&mut self, old_hash: u64, new_hash: u64, row: u32) {
        self.forget_id(old_hash, row);
        let tag = tag(new_hash);
        self.by_id.insert_unique(spread(tag), (tag, row), |entry| spread(entry.0));
    }

    /// Puts the rows in another order. They must be the same rows.
    pub fn reorder(&mut self, order: Vec<u32>) {
        debug_assert_eq!(order.len(), self.order.len());
        self.order = order;
    }

    fn forget_id(&mut self, hash: u64, row: u32) {
        let entry = self.by_id.find_entry(spread(tag(hash)), |entry| entry.1 == row);
        entry.expect("a member's row is found under its id").remove();
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
