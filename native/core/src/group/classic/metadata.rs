//! The GroupMetadata record: when it is written (states section 11.1), and what it does.
//!
//! What it says becomes the group's in [`Machine::apply_to_member`] and
//! [`Machine::apply_generation`] alone. A record that was read comes there by
//! [`Machine::apply_group_metadata`], which finds the members by their ids; a live group comes
//! there directly, since it has written its own, and debug builds hold that a reader of the record
//! would find the group as it is then. This module must not touch timers, parked requests or ids
//! that were handed out.

use kcoord_timer::slab::NO_ROW;

use super::group::ClassicGroup;
use super::member::{Details, Member};
use super::state::State;
use crate::error::ErrorCode;
use crate::group::Machine;
use crate::group::kind::GroupKind;
use crate::group::registry::Registry;
use crate::limits::MAX_GROUP_RECORD_BYTES;
use crate::record::group_metadata::GROUP_METADATA_WRITTEN_VERSION;
use crate::record::{GroupMetadataKey, GroupMetadataMember, GroupMetadataValue};

impl Machine {
    /// First creation of a group by JoinGroup: generation 0 without members, so that it is durable.
    /// `left`: the row of what another group left of itself under this id.
    pub fn emit_new_group(&mut self, now_ms: i64, group_id: &str, left: Option<u32>) -> u32 {
        let value = GroupMetadataValue {
            protocol_type: "",
            generation: 0,
            protocol: None,
            leader: None,
            current_state_timestamp: now_ms,
            members: Vec::new(),
        };
        let mut encoded = core::mem::take(&mut self.scratch_value);
        encoded.clear();
        value.encode(GROUP_METADATA_WRITTEN_VERSION, &mut encoded);
        let group = left.unwrap_or_else(|| self.registry.create(group_id));
        self.emit_group(now_ms, group, encoded);
        self.apply_generation(group, 0, NO_ROW, now_ms);
        debug_assert!(self.is_as_written(group));
        group
    }

    /// A join phase that ended without members.
    pub fn emit_empty_group(&mut self, now_ms: i64, group: u32, generation_id: i32) {
        let mut encoded = core::mem::take(&mut self.scratch_value);
        encoded.clear();
        let of = self.classic(group);
        let value = GroupMetadataValue {
            protocol_type: of.protocol_type(),
            generation: generation_id,
            protocol: None,
            leader: None,
            current_state_timestamp: now_ms,
            members: Vec::new(),
        };
        value.encode(GROUP_METADATA_WRITTEN_VERSION, &mut encoded);
        self.emit_group(now_ms, group, encoded);
        self.registry.set_protocol_name(group, None);
        self.apply_generation(group, generation_id, NO_ROW, now_ms);
        debug_assert!(self.is_as_written(group));
    }

    /// The group with the assignments given here; a member that is not mentioned gets nothing in
    /// CompletingRebalance, and keeps what it has in Stable.
    pub fn emit_stable_group(
        &mut self,
        now_ms: i64,
        group: u32,
        mut assignments: Vec<(u32, &[u8])>,
    ) -> Result<(), ErrorCode> {
        // Of two for the same member the last one counts, as in the map that Kafka builds.
        assignments.sort_by_key(|(row, _)| *row);
        let mut encoded = core::mem::take(&mut self.scratch_value);
        encoded.clear();
        let value = self.group_value(group, &assignments);
        if value.members.iter().map(size_of_member).sum::<usize>() > MAX_GROUP_RECORD_BYTES {
            self.scratch_value = encoded;
            return Err(ErrorCode::UnknownServerError);
        }
        value.encode(GROUP_METADATA_WRITTEN_VERSION, &mut encoded);
        self.emit_group(now_ms, group, encoded);
        let keeps_assignment = self.classic(group).state == State::Stable;
        for place in 0..self.classic(group).place_count() {
            let Some(row) = self.classic(group).member_at(place) else { continue };
            let member = &self.registry.members[row];
            let timeouts_ms = (member.session_timeout_ms, member.rebalance_timeout_ms);
            let assignment = assigned_to(row, &assignments);
            let assignment = assignment.or((!keeps_assignment).then_some(&[][..]));
            self.apply_to_member(row, timeouts_ms, assignment);
        }
        let of = self.classic(group);
        self.apply_generation(group, of.generation_id, of.leader, of.state_timestamp_ms);
        debug_assert!(self.is_as_written(group));
        Ok(())
    }

    /// What a record of the group as it is would say, with assignments sorted by row.
    pub fn group_value<'a>(
        &'a self,
        group: u32,
        assignments: &[(u32, &'a [u8])],
    ) -> GroupMetadataValue<'a> {
        let of = self.classic(group);
        let keeps_assignment = of.state == State::Stable;
        let protocol = of.protocol_name();
        let member_value = |row: u32| {
            let member = &self.registry.members[row];
            let details = member.details_but_protocols();
            GroupMetadataMember {
                member_id: details.member_id,
                group_instance_id: details.group_instance_id,
                client_id: details.client_id,
                client_host: details.client_host,
                rebalance_timeout: member.rebalance_timeout_ms,
                session_timeout: member.session_timeout_ms,
                subscription: member.metadata(protocol.unwrap_or_default()),
                assignment: match assigned_to(row, assignments) {
                    Some(assignment) => assignment,
                    None if keeps_assignment => details.assignment,
                    None => &[],
                },
            }
        };
        GroupMetadataValue {
            protocol_type: of.protocol_type(),
            generation: of.generation_id,
            protocol,
            leader: (of.leader != NO_ROW).then(|| self.registry.members[of.leader].member_id()),
            current_state_timestamp: of.state_timestamp_ms,
            members: of.member_rows().map(member_value).collect(),
        }
    }

    /// Gives the value's memory back.
    fn emit_group(&mut self, now_ms: i64, group: u32, encoded: Vec<u8>) {
        self.scratch_key.clear();
        let of = &mut self.registry.groups[group];
        GroupMetadataKey { group: of.id.as_str() }.encode(&mut self.scratch_key);
        let offset = self.outbox.emit(now_ms, &self.scratch_key, Some(&encoded));
        of.last_record_end = offset + 1;
        self.scratch_value = encoded;
    }

    /// Whether a reader of the group's last record would find it as it is.
    fn is_as_written(&self, group: u32) -> bool {
        let mut written = GroupMetadataValue::parse(&self.scratch_value).expect("encoded here");
        for member in &mut written.members {
            let timeouts_ms = with_both((member.session_timeout, member.rebalance_timeout));
            (member.session_timeout, member.rebalance_timeout) = timeouts_ms;
        }
        written == self.group_value(group, &[])
    }

    /// Makes the group what the record says, whatever it was before.
    pub fn apply_group_metadata(&mut self, group_id: &str, value: &GroupMetadataValue<'_>) -> u32 {
        let group = self.registry.find(group_id).unwrap_or_else(|| self.registry.create(group_id));
        self.apply_metadata_to(group, value);
        group
    }

    /// The same for a group that is there.
    pub fn apply_metadata_to(&mut self, group: u32, value: &GroupMetadataValue<'_>) {
        if self.group(group).as_classic().is_none() {
            self.close_group(group);
            self.group_mut(group).kind = GroupKind::Classic(ClassicGroup::default());
        }
        self.drop_members_not_in(group, value);
        self.registry.set_protocol_type(group, value.protocol_type);
        self.registry.set_protocol_name(group, value.protocol);
        let leader = match &value.members[..] {
            [] => None,
            [member] => {
                let row = self.apply_member(group, value, member);
                (value.leader == Some(member.member_id)).then_some(row)
            }
            members => {
                let apply = |member| self.apply_member(group, value, member);
                let order: Vec<u32> = members.iter().map(apply).collect();
                let Registry { groups, members, .. } = &mut self.registry;
                let roster = groups[group].classic_mut().roster.as_mut().expect("it has several");
                roster.members.reorder(members, order);
                value.leader.and_then(|id| self.registry.find_member(group, id))
            }
        };
        let leader = leader.unwrap_or(NO_ROW);
        self.apply_generation(group, value.generation, leader, value.current_state_timestamp);
    }

    /// The generation that a record says, of the members that are there.
    fn apply_generation(&mut self, group: u32, generation_id: i32, leader: u32, since_ms: i64) {
        let of = self.classic_mut(group);
        of.generation_id = generation_id;
        of.leader = leader;
        of.state_timestamp_ms = since_ms;
        of.state = if of.has_members() { State::Stable } else { State::Empty };
    }

    /// What a record says of a member that is there: session and rebalance timeout, and its
    /// assignment; without one it keeps what it has.
    fn apply_to_member(&mut self, row: u32, timeouts_ms: (i32, i32), assignment: Option<&[u8]>) {
        let member = &mut self.registry.members[row];
        if let Some(assignment) = assignment {
            member.store_assignment(assignment);
        }
        (member.session_timeout_ms, member.rebalance_timeout_ms) = with_both(timeouts_ms);
    }

    /// Takes out every member that the record does not have, or not like this.
    fn drop_members_not_in(&mut self, group: u32, value: &GroupMetadataValue<'_>) {
        if !self.classic(group).has_members() {
            return;
        }
        let protocol = value.protocol.unwrap_or_default();
        if let (Some(row), [member]) = (self.classic(group).sole(), &value.members[..]) {
            let is_it = self.registry.members[row].is_member_id(member.member_id);
            if !(is_it && self.is_same_member(row, protocol, member)) {
                self.registry.detach_member(row);
            }
            return;
        }
        let mut by_id: Vec<&GroupMetadataMember<'_>> = value.members.iter().collect();
        by_id.sort_unstable_by_key(|member| member.member_id);
        for row in self.classic(group).member_rows().collect::<Vec<u32>>() {
            let member_id = self.registry.members[row].member_id();
            let found = by_id.binary_search_by_key(&member_id, |member| member.member_id);
            if !found.is_ok_and(|at| self.is_same_member(row, protocol, by_id[at])) {
                let dropped = self.registry.detach_member(row);
                debug_assert!(dropped.timer.is_none(), "a live group writes its own members");
            }
        }
    }

    /// A member of the record: its row, brought up to date or made.
    fn apply_member(
        &mut self,
        group: u32,
        value: &GroupMetadataValue<'_>,
        member: &GroupMetadataMember<'_>,
    ) -> u32 {
        if let Some(row) = self.registry.find_member(group, member.member_id) {
            let timeouts_ms = (member.session_timeout, member.rebalance_timeout);
            self.apply_to_member(row, timeouts_ms, Some(member.assignment));
            return row;
        }
        let details = Details {
            member_id: member.member_id,
            group_instance_id: member.group_instance_id,
            client_id: member.client_id,
            client_host: member.client_host,
            assignment: member.assignment,
            protocols: vec![(value.protocol.unwrap_or_default(), member.subscription)],
        };
        let (session_ms, rebalance_ms) =
            with_both((member.session_timeout, member.rebalance_timeout));
        let row = Member::new(&details, session_ms, rebalance_ms);
        let row = self.registry.members.insert(row);
        self.registry.attach_member(group, row);
        row
    }

    /// Everything but the assignment, the timeouts, and protocols that are not in the record. While
    /// the log is replayed a member has the one protocol that its record names.
    fn is_same_member(&self, row: u32, protocol: &str, member: &GroupMetadataMember<'_>) -> bool {
        let known = &self.registry.members[row];
        let subscribed = match known.protocols().find(|(name, _)| *name == protocol) {
            Some((_, metadata)) => metadata == member.subscription,
            None => member.subscription.is_empty() && !self.is_loading(),
        };
        subscribed
            && known.is_described_as(member.group_instance_id, member.client_id, member.client_host)
    }
}

/// What of a member can be long in a group's record, in bytes.
pub fn size_of_member(member: &GroupMetadataMember<'_>) -> usize {
    let names = [member.member_id, member.client_id, member.client_host];
    let names = names.into_iter().chain(member.group_instance_id);
    names.map(str::len).sum::<usize>() + member.subscription.len() + member.assignment.len()
}

/// Session and rebalance timeout. Records of version 0 have only one, and a JoinGroup may say -1
/// too.
fn with_both((session_ms, rebalance_ms): (i32, i32)) -> (i32, i32) {
    (session_ms, if rebalance_ms == -1 { session_ms } else { rebalance_ms })
}

/// Of assignments sorted by row.
fn assigned_to<'a>(row: u32, assignments: &[(u32, &'a [u8])]) -> Option<&'a [u8]> {
    let end = assignments.partition_point(|(other, _)| *other <= row);
    assignments[..end].last().filter(|(other, _)| *other == row).map(|(_, assignment)| *assignment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_can_be_long_counts() {
        let member = GroupMetadataMember {
            member_id: "1",
            group_instance_id: Some("22"),
            client_id: "333",
            client_host: "4444",
            rebalance_timeout: 0,
            session_timeout: 0,
            subscription: b"55555",
            assignment: b"666666",
        };
        assert_eq!(size_of_member(&member), 21);
    }
}
