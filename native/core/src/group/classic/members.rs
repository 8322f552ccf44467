//! Members of classic groups in the registry: found, let in, and taken out.

use kcoord_timer::slab::NO_ROW;

use super::group::ClassicGroup;
use super::member::Member;
use super::roster::Roster;
use crate::group::registry::Registry;
use crate::group::text::Shared;

impl Registry {
    /// The classic group in a row.
    pub fn classic(&self, group: u32) -> &ClassicGroup {
        self.groups[group].classic()
    }

    pub fn classic_mut(&mut self, group: u32) -> &mut ClassicGroup {
        self.groups[group].classic_mut()
    }

    /// Groups of one member are looked at where this is called: most heartbeats are theirs.
    #[inline]
    pub fn find_member(&self, group: u32, member_id: &str) -> Option<u32> {
        let of = self.classic(group);
        match &of.roster {
            Some(roster) => self.find_in_roster(roster, member_id),
            None => of.sole().filter(|row| self.members[*row].is_member_id(member_id)),
        }
    }

    #[inline(never)]
    fn find_in_roster(&self, roster: &Roster, member_id: &str) -> Option<u32> {
        roster.members.find(&self.members, self.hash(member_id), member_id)
    }

    pub fn find_static_member(&self, group: u32, group_instance_id: &str) -> Option<u32> {
        let of = self.classic(group);
        match &of.roster {
            Some(roster) => roster.static_members.get(group_instance_id).copied(),
            None => of
                .sole()
                .filter(|row| self.members[*row].group_instance_id() == Some(group_instance_id)),
        }
    }

    /// Lets a row of the member slab join the group, behind those that are there.
    pub fn attach_member(&mut self, group: u32, member: u32) {
        self.members[member].group = group;
        let of = self.classic_mut(group);
        if !of.has_members() && of.roster.is_none() {
            of.sole = member;
            return;
        }
        let mut roster = of.roster.take().unwrap_or_default();
        let sole = core::mem::replace(&mut of.sole, NO_ROW);
        for row in [sole, member].into_iter().filter(|row| *row != NO_ROW) {
            let hash = self.hash(self.members[row].member_id());
            roster.members.insert(&mut self.members, hash, row);
            if let Some(instance_id) = self.members[row].group_instance_id() {
                let earlier = roster.static_members.insert(instance_id.into(), row);
                assert!(earlier.is_none(), "an instance id belongs to one member");
            }
        }
        self.classic_mut(group).roster = Some(roster);
    }

    /// Takes a member's row out of its group and out of the slab.
    pub fn detach_member(&mut self, member: u32) -> Member {
        let (group, hash) =
            (self.members[member].group, self.hash(self.members[member].member_id()));
        let of = self.groups[group].classic_mut();
        match &mut of.roster {
            None => of.sole = NO_ROW,
            Some(roster) => {
                roster.members.remove(&mut self.members, hash, member);
                if let Some(instance_id) = self.members[member].group_instance_id() {
                    roster.static_members.remove(instance_id);
                }
                if roster.members.len() < 2 {
                    of.sole = roster.members.places().first().copied().unwrap_or(NO_ROW);
                    of.roster = None;
                }
            }
        }
        if of.leader == member {
            let earliest = of.member_rows().next();
            of.leader = earliest.unwrap_or(NO_ROW);
        }
        self.members.remove(member)
    }

    /// Gives a member another id.
    pub fn rename_member(&mut self, member: u32, member_id: &str) {
        let old_hash = self.hash(self.members[member].member_id());
        let new_hash = self.hash(member_id);
        let group = self.members[member].group;
        self.members[member].store_member_id(member_id);
        if let Some(roster) = &mut self.groups[group].classic_mut().roster {
            roster.members.rename(old_hash, new_hash, member);
        }
    }

    pub fn set_protocol_type(&mut self, group: u32, protocol_type: &str) {
        if self.classic(group).protocol_type() == protocol_type {
            return;
        }
        let shared = self.intern(protocol_type);
        self.classic_mut(group).protocol_type = shared;
    }

    pub fn set_protocol_name(&mut self, group: u32, protocol_name: Option<&str>) {
        if self.classic(group).protocol_name() == protocol_name {
            return;
        }
        let shared = protocol_name.map(|name| self.interner.intern(&self.hasher, name));
        self.classic_mut(group).protocol_name = shared;
    }

    /// `""` is the same as none (states section 1.1).
    fn intern(&mut self, text: &str) -> Option<Shared> {
        (!text.is_empty()).then(|| self.interner.intern(&self.hasher, text))
    }
}
