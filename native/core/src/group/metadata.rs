//! The GroupMetadata record: when it is written (states section 11.1), and what it does.
//!
//! [`Machine::apply_group_metadata`] is the only place where durable state of a group changes. A
//! live group goes through it with the record it has just emitted, a loading one with what was
//! read. It must not touch timers, parked requests or ids that were handed out.

use super::Machine;
use super::classic::member::{Details, Member};
use super::classic::state::State;
use super::registry::GroupType;
use crate::error::ErrorCode;
use crate::limits::MAX_GROUP_RECORD_BYTES;
use crate::record::group_metadata::GROUP_METADATA_WRITTEN_VERSION;
use crate::record::{GroupMetadataKey, GroupMetadataMember, GroupMetadataValue};
use crate::slab::NO_ROW;

impl Machine {
    /// First creation of a group by JoinGroup: generation 0 of nobody, so that it is durable.
    pub fn emit_new_group(&mut self, now_ms: i64, group_id: &str) -> u32 {
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
        let group = self.emit_and_apply(now_ms, group_id, &encoded);
        self.scratch_value = encoded;
        group
    }

    /// A join phase that ended with nobody.
    pub fn emit_empty_group(&mut self, now_ms: i64, group: u32, generation_id: i32) {
        let mut encoded = core::mem::take(&mut self.scratch_value);
        encoded.clear();
        let of = self.group(group);
        let value = GroupMetadataValue {
            protocol_type: of.protocol_type(),
            generation: generation_id,
            protocol: None,
            leader: None,
            current_state_timestamp: now_ms,
            members: Vec::new(),
        };
        value.encode(GROUP_METADATA_WRITTEN_VERSION, &mut encoded);
        let group_id = of.id.clone();
        self.emit_and_apply(now_ms, group_id.as_str(), &encoded);
        self.scratch_value = encoded;
    }

    /// The group with the assignments given here; a member that is not mentioned gets nothing in
    /// CompletingRebalance, and keeps what it has in Stable.
    pub fn emit_stable_group(
        &mut self,
        now_ms: i64,
        group: u32,
        assignments: Vec<(u32, &[u8])>,
    ) -> Result<(), ErrorCode> {
        let mut encoded = core::mem::take(&mut self.scratch_value);
        encoded.clear();
        let value = self.group_value(group, assignments);
        let fits =
            value.members.iter().map(size_of_member).sum::<usize>() <= MAX_GROUP_RECORD_BYTES;
        if fits {
            value.encode(GROUP_METADATA_WRITTEN_VERSION, &mut encoded);
            let group_id = self.group(group).id.clone();
            self.emit_and_apply(now_ms, group_id.as_str(), &encoded);
        }
        self.scratch_value = encoded;
        if fits { Ok(()) } else { Err(ErrorCode::UnknownServerError) }
    }

    /// What a record of the group as it is would say.
    pub fn group_value<'a>(
        &'a self,
        group: u32,
        mut assignments: Vec<(u32, &'a [u8])>,
    ) -> GroupMetadataValue<'a> {
        let of = self.group(group);
        let keeps_assignment = of.state == State::Stable;
        let protocol = of.protocol_name();
        // Of two for the same member the last one counts, as in the map that Kafka builds.
        assignments.sort_by_key(|(row, _)| *row);
        let member_value = |row: &u32| {
            let member = &self.registry.members[*row];
            let details = member.details_but_protocols();
            let end = assignments.partition_point(|(other, _)| other <= row);
            let assigned = assignments[..end].last().filter(|(other, _)| other == row);
            GroupMetadataMember {
                member_id: details.member_id,
                group_instance_id: details.group_instance_id,
                client_id: details.client_id,
                client_host: details.client_host,
                rebalance_timeout: member.rebalance_timeout_ms,
                session_timeout: member.session_timeout_ms,
                subscription: member.metadata(protocol.unwrap_or_default()),
                assignment: match assigned {
                    Some((_, assignment)) => assignment,
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
            members: of.member_rows().iter().map(member_value).collect(),
        }
    }

    /// What was written is what is read: the state changes by the bytes of the record.
    fn emit_and_apply(&mut self, now_ms: i64, group_id: &str, encoded: &[u8]) -> u32 {
        self.scratch_key.clear();
        GroupMetadataKey { group: group_id }.encode(&mut self.scratch_key);
        let offset = self.outbox.emit(now_ms, &self.scratch_key, Some(encoded));
        let value = GroupMetadataValue::parse(encoded).expect("encoded here");
        let group = self.apply_group_metadata(group_id, &value);
        self.group_mut(group).last_record_end = offset + 1;
        group
    }

    /// Makes the group what the record says, whatever it was before.
    pub fn apply_group_metadata(&mut self, group_id: &str, value: &GroupMetadataValue<'_>) -> u32 {
        let group = self.registry.find(group_id).unwrap_or_else(|| self.registry.create(group_id));
        self.apply_metadata_to(group, value);
        group
    }

    /// The same for a group that is there.
    pub fn apply_metadata_to(&mut self, group: u32, value: &GroupMetadataValue<'_>) {
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
                let roster = self.group_mut(group).roster.as_mut().expect("it has several");
                roster.members.reorder(order);
                value.leader.and_then(|id| self.registry.find_member(group, id))
            }
        };
        let of = self.group_mut(group);
        of.group_type = GroupType::Classic;
        of.generation_id = value.generation;
        of.leader = leader.unwrap_or(NO_ROW);
        of.state_timestamp_ms = value.current_state_timestamp;
        of.state = if value.members.is_empty() { State::Empty } else { State::Stable };
    }

    /// Takes out every member that the record does not have, or not like this.
    fn drop_members_not_in(&mut self, group: u32, value: &GroupMetadataValue<'_>) {
        if !self.group(group).has_members() {
            return;
        }
        let protocol = value.protocol.unwrap_or_default();
        if let (Some(row), [member]) = (self.group(group).sole(), &value.members[..]) {
            let is_it = self.registry.members[row].is_member_id(member.member_id);
            if !(is_it && self.is_same_member(row, protocol, member)) {
                self.registry.detach_member(row);
            }
            return;
        }
        let mut by_id: Vec<&GroupMetadataMember<'_>> = value.members.iter().collect();
        by_id.sort_unstable_by_key(|member| member.member_id);
        for row in self.group(group).member_rows().to_vec() {
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
            let known = &mut self.registry.members[row];
            known.store_assignment(member.assignment);
            known.session_timeout_ms = member.session_timeout;
            known.rebalance_timeout_ms = rebalance_timeout_ms(member);
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
        let row = Member::new(&details, member.session_timeout, rebalance_timeout_ms(member));
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

fn size_of_member(member: &GroupMetadataMember<'_>) -> usize {
    let names = [member.member_id, member.client_id, member.client_host];
    let names = names.into_iter().chain(member.group_instance_id);
    names.map(str::len).sum::<usize>() + member.subscription.len() + member.assignment.len()
}

/// Records of version 0 have none, and a JoinGroup may say -1 too.
fn rebalance_timeout_ms(member: &GroupMetadataMember<'_>) -> i32 {
    match member.rebalance_timeout {
        -1 => member.session_timeout,
        timeout_ms => timeout_ms,
    }
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
