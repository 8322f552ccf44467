//! Members of one group in the order in which they came, found by id.
//!
//! A group of one keeps its member's row in itself; only larger groups pay for a table.

use std::collections::BTreeMap;

use hashbrown::HashTable;
use kcoord_timer::slab::{NO_ROW, Slab};

use super::member::Member;

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
    /// By place; `NO_ROW` where a member has left. Never more than half of it is that, so that one
    /// leaves in constant time, and all are walked in linear time.
    order: Vec<u32>,
    /// No member has a place before this one.
    front: usize,
    ids: IdTable,
}

impl MemberTable {
    /// By place, with `NO_ROW` where a member has left.
    pub fn places(&self) -> &[u32] {
        &self.order[self.front..]
    }

    pub fn len(&self) -> usize {
        self.ids.len()
    }

    pub fn find(&self, members: &Slab<Member>, hash: u64, member_id: &str) -> Option<u32> {
        self.ids.find(members, hash, member_id)
    }

    pub fn insert(&mut self, members: &mut Slab<Member>, hash: u64, row: u32) {
        members[row].place = self.order.len() as u32;
        self.order.push(row);
        self.ids.insert(hash, row);
    }

    /// Takes the row out. `hash` is that of the id it was inserted with.
    pub fn remove(&mut self, members: &mut Slab<Member>, hash: u64, row: u32) {
        let place = members[row].place as usize;
        let left = core::mem::replace(&mut self.order[place], NO_ROW);
        assert_eq!(left, row, "a member's row is in its group");
        self.ids.remove(hash, row);
        while self.order.get(self.front) == Some(&NO_ROW) {
            self.front += 1;
        }
        if self.order.len() > 2 * self.len() {
            let order = self.order.iter().copied().filter(|row| *row != NO_ROW).collect();
            self.reorder(members, order);
        }
    }

    /// The row got another id, and keeps its place.
    pub fn rename(&mut self, old_hash: u64, new_hash: u64, row: u32) {
        self.ids.remove(old_hash, row);
        self.ids.insert(new_hash, row);
    }

    /// Puts the rows in another order. They must be the same rows.
    pub fn reorder(&mut self, members: &mut Slab<Member>, order: Vec<u32>) {
        debug_assert_eq!(order.len(), self.len());
        for (place, row) in order.iter().enumerate() {
            members[*row].place = place as u32;
        }
        self.order = order;
        self.front = 0;
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

#[cfg(test)]
mod tests {
    use super::*;

    const MEMBERS: u32 = 2_000;

    /// A table of so many members, and the order in which they stand.
    fn filled(members: &mut Slab<Member>) -> (MemberTable, Vec<u32>) {
        let mut table = MemberTable::default();
        let rows = (0..MEMBERS).map(|_| members.insert(Member::default())).collect::<Vec<u32>>();
        rows.iter().for_each(|row| table.insert(members, u64::from(*row), *row));
        (table, rows)
    }

    #[test]
    fn members_leave_in_constant_time_and_the_others_keep_their_order() {
        let orders: [fn(u32) -> u32; 3] = [|n| n, |n| MEMBERS - 1 - n, |n| n * 7 % MEMBERS];
        for leaving in orders {
            let mut members = Slab::new();
            let (mut table, mut left) = filled(&mut members);
            let mut walked = 0;
            for number in (0..MEMBERS).map(leaving) {
                let (front, places) = (table.front, table.order.len());
                table.remove(&mut members, u64::from(number), number);
                let is_compacted = table.order.len() < places;
                walked += if is_compacted { places } else { table.front - front };
                left.retain(|row| *row != number);
                let there = table.places().iter().copied().filter(|row| *row != NO_ROW);
                assert!(there.eq(left.iter().copied()));
                assert!(table.order.len() <= 2 * left.len());
            }
            assert!(walked <= 5 * MEMBERS as usize, "{walked} places for {MEMBERS} members");
        }
    }
}
