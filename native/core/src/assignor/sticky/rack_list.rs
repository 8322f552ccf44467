//! A list of members that is searched for the first in one of several racks, without looking at
//! all the others.

use std::collections::BTreeSet;

use super::super::group::NONE;

/// Members by their place in the list; places of those that left stay empty.
pub struct RackList {
    members: Vec<u32>,
    racks: Vec<u32>,
    by_rack: Vec<BTreeSet<u32>>,
}

impl RackList {
    pub fn new(racks: usize, members: &[u32], rack: impl Fn(u32) -> u32) -> Self {
        let mut list = RackList {
            members: Vec::with_capacity(members.len()),
            racks: Vec::with_capacity(members.len()),
            by_rack: vec![BTreeSet::new(); racks],
        };
        members.iter().for_each(|&member| list.push(member, rack(member)));
        list
    }

    pub fn push(&mut self, member: u32, rack: u32) {
        if rack != NONE {
            self.by_rack[rack as usize].insert(self.members.len() as u32);
        }
        self.members.push(member);
        self.racks.push(rack);
    }

    /// The first member in one of `racks` at `start` or behind it, else from the beginning: its
    /// place, and who it is.
    pub fn first_from(&self, racks: &[u32], start: u32) -> Option<(u32, u32)> {
        let lists = || racks.iter().map(|&rack| &self.by_rack[rack as usize]);
        let behind = lists().filter_map(|places| places.range(start..).next()).min();
        let place = behind.or_else(|| lists().filter_map(BTreeSet::first).min())?;
        Some((*place, self.members[*place as usize]))
    }

    pub fn remove(&mut self, place: u32) {
        let at = place as usize;
        self.members[at] = NONE;
        if self.racks[at] != NONE {
            self.by_rack[self.racks[at] as usize].remove(&place);
        }
    }

    pub fn clear(&mut self) {
        self.members.fill(NONE);
        self.by_rack.iter_mut().for_each(BTreeSet::clear);
    }

    pub fn into_members(mut self) -> Vec<u32> {
        self.members.retain(|&member| member != NONE);
        self.members
    }
}
