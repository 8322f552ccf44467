//! What each record does to a consumer group (log-format section 8.2): the same in replay as live.
//! Nothing else changes what a group's records say.

use std::sync::Arc;

use kcoord_timer::slab::Slab;

use super::member::Member;
use super::owned::Owned;
use super::reconcile::Current;
use super::regexes::ResolvedRegex;
use super::subscription::TopicNames;
use super::{ConsumerGroup, flat};
use crate::group::registry::Registry;
use crate::record::consumer::{
    CurrentMemberAssignmentValue, MemberMetadataValue, MemberState, RecordChange,
    TargetAssignmentMetadataValue,
};
use crate::response::MemberId;
use crate::topic_partition::{AssignedPartition, TopicPartition};

/// What a member whose record of type 8 is gone has until its other records follow.
const UNASSIGNED: Current<'static> = Current {
    state: MemberState::Stable,
    member_epoch: -1,
    previous_member_epoch: -1,
    assigned: &[],
    revoking: &[],
};

impl Registry {
    /// The group is a consumer group.
    pub fn apply_consumer_record(&mut self, group: u32, record: &RecordChange<'_>) {
        match record {
            RecordChange::GroupMetadata(Some(value)) => {
                let of = self.consumer_mut(group);
                of.group_epoch = value.epoch;
                of.metadata_hash = value.metadata_hash;
            }
            // The group goes with it: the caller removes it.
            RecordChange::GroupMetadata(None) => {}
            RecordChange::PartitionMetadata(value) => {
                self.consumer_mut(group).has_partition_metadata = value.is_some();
            }
            RecordChange::MemberMetadata { member_id, value: Some(value) } => {
                self.apply_member_metadata(group, member_id, value);
            }
            RecordChange::MemberMetadata { member_id, value: None } => {
                if let Some(row) = self.find_consumer_member(group, member_id) {
                    self.detach_consumer_member(row);
                }
            }
            RecordChange::TargetAssignmentMetadata(value) => {
                let of = self.consumer_mut(group);
                let none =
                    TargetAssignmentMetadataValue { assignment_epoch: -1, assignment_timestamp: 0 };
                let value = value.as_ref().unwrap_or(&none);
                of.assignment_epoch = value.assignment_epoch;
                of.assignment_timestamp_ms = value.assignment_timestamp;
            }
            RecordChange::TargetAssignmentMember { member_id, value: Some(value) } => {
                let row = self.consumer_member_or_new(group, member_id);
                let partitions = flat::targets(&value.topic_partitions);
                self.apply_target(row, &partitions.into());
            }
            RecordChange::TargetAssignmentMember { member_id, value: None } => {
                if let Some(row) = self.find_consumer_member(group, member_id) {
                    self.consumer_members[row].target = None;
                    if !self.consumer_members[row].is_there {
                        self.detach_consumer_member(row);
                    }
                }
            }
            RecordChange::CurrentMemberAssignment { member_id, value: Some(value) } => {
                let row = self.consumer_member_or_new(group, member_id);
                self.apply_current_value(row, value);
            }
            RecordChange::CurrentMemberAssignment { member_id, value: None } => {
                if let Some(row) = self.find_consumer_member(group, member_id) {
                    self.apply_current(row, &UNASSIGNED);
                }
            }
            RecordChange::RegularExpression { regular_expression, value: Some(value) } => {
                let topics = self.topic_names.intern(&self.hasher, &value.topics);
                let resolved = ResolvedRegex {
                    topics,
                    version: value.version,
                    timestamp_ms: value.timestamp,
                    seen_topics: 0,
                };
                self.consumer_mut(group).regexes.insert(regular_expression, resolved);
            }
            RecordChange::RegularExpression { regular_expression, value: None } => {
                self.consumer_mut(group).regexes.remove(regular_expression);
            }
        }
    }

    /// What a record of type 7 with a value does.
    pub fn apply_target(&mut self, row: u32, partitions: &Arc<[TopicPartition]>) {
        self.consumer_members[row].target = Some(Arc::clone(partitions));
    }

    pub fn find_consumer_member(&self, group: u32, member_id: &str) -> Option<u32> {
        self.consumer(group).find(&self.consumer_members, member_id)
    }

    fn consumer_member_or_new(&mut self, group: u32, member_id: &str) -> u32 {
        if let Some(row) = self.find_consumer_member(group, member_id) {
            return row;
        }
        let names = self.topic_names.intern(&self.hasher, &[]);
        let member = Member::new(MemberId::new(member_id), group, Arc::clone(&names));
        let row = self.consumer_members.insert(member);
        let (of, members) = self.consumer_and_members(group);
        let at = of
            .members
            .partition_point(|other| members[*other].id.as_bytes() < member_id.as_bytes());
        of.members.insert(at, row);
        of.count_subscription(&names, 1);
        row
    }

    fn apply_member_metadata(
        &mut self,
        group: u32,
        member_id: &str,
        value: &MemberMetadataValue<'_>,
    ) {
        let row = self.consumer_member_or_new(group, member_id);
        let names = self.topic_names.intern(&self.hasher, &value.subscribed_topic_names);
        let client = self.clients.intern(&self.hasher, value.client_id, value.client_host);
        let (of, members) = self.consumer_and_members(group);
        let member = &mut members[row];
        if !Arc::ptr_eq(&member.names, &names) {
            of.count_subscription(&member.names, -1);
            of.count_subscription(&names, 1);
            member.names = names;
        }
        if member.instance_id() != value.instance_id {
            of.release_instance_id(member, row);
            if let Some(instance_id) = value.instance_id {
                of.static_members.insert(instance_id.into(), row);
            }
        }
        of.regexes.count(member.regex(), -1);
        of.count_vote(member.server_assignor(), -1);
        of.classic_members -= u32::from(member.classic.is_some());
        member.store_metadata(value, client);
        of.classic_members += u32::from(member.classic.is_some());
        of.regexes.count(member.regex(), 1);
        of.count_vote(member.server_assignor(), 1);
    }

    fn apply_current_value(&mut self, row: u32, value: &CurrentMemberAssignmentValue) {
        let assigned = flat::assigned(&value.assigned_partitions, value.member_epoch);
        let revoking = flat::assigned(&value.partitions_pending_revocation, value.member_epoch);
        self.consumer_members[row].is_there = true;
        self.apply_current(
            row,
            &Current {
                state: value.state,
                member_epoch: value.member_epoch,
                previous_member_epoch: value.previous_member_epoch,
                assigned: &assigned,
                revoking: &revoking,
            },
        );
    }

    /// What a record of type 8 of a member that is there does.
    pub fn apply_current(&mut self, row: u32, has: &Current<'_>) {
        let group = self.consumer_members[row].group;
        let (of, members) = self.consumer_and_members(group);
        let member = &mut members[row];
        if let Some(owned) = &mut of.owned {
            let at = |set: &AssignedPartition| set.at;
            owned.remove_all(member.assigned.iter().chain(&member.revoking).map(at));
            owned.insert_all(has.assigned.iter().chain(has.revoking).map(at));
        }
        member.member_epoch = has.member_epoch;
        member.previous_member_epoch = has.previous_member_epoch;
        member.state = has.state;
        member.assigned = has.assigned.into();
        member.revoking = has.revoking.into();
    }

    /// Takes a member's row out of its group and out of the slab.
    pub fn detach_consumer_member(&mut self, row: u32) -> Member {
        self.apply_current(row, &UNASSIGNED);
        let group = self.consumer_members[row].group;
        let (of, members) = self.consumer_and_members(group);
        let member = &members[row];
        let at = of.members.partition_point(|other| members[*other].id < member.id);
        debug_assert_eq!(of.members[at], row);
        of.members.remove(at);
        of.count_subscription(&member.names, -1);
        of.regexes.count(member.regex(), -1);
        of.count_vote(member.server_assignor(), -1);
        of.classic_members -= u32::from(member.classic.is_some());
        of.release_instance_id(member, row);
        if of.members.len() < 2 {
            of.owned = None;
        }
        members.remove(row)
    }
}

impl ConsumerGroup {
    /// A member subscribes to these names from now on (1), or does not any more (-1).
    fn count_subscription(&mut self, names: &TopicNames, by: i32) {
        let at = self.subscriptions.iter().position(|(known, _)| Arc::ptr_eq(known, names));
        match at {
            Some(at) => {
                let count = &mut self.subscriptions[at].1;
                *count = count.checked_add_signed(by).expect("what is taken out was counted");
                if *count == 0 {
                    self.subscriptions.swap_remove(at);
                }
            }
            None => {
                debug_assert_eq!(by, 1);
                if self.subscriptions.is_empty() {
                    // Nearly all groups have one list: no room for more is kept.
                    self.subscriptions.reserve_exact(1);
                }
                self.subscriptions.push((Arc::clone(names), 1));
            }
        }
    }

    fn release_instance_id(&mut self, member: &Member, row: u32) {
        if let Some(instance_id) = member.instance_id()
            && self.static_members.get(instance_id) == Some(&row)
        {
            self.static_members.remove(instance_id);
        }
    }

    /// Finds out which partitions members have or have yet to give up: kept from then on. A member
    /// alone waits for no other, and needs no table.
    pub fn know_owned(&mut self, members: &Slab<Member>) {
        if self.owned.is_some() || self.members.len() < 2 {
            return;
        }
        let all = self.members.iter().map(|row| &members[*row]);
        let had = all.flat_map(|member| member.assigned.iter().chain(&member.revoking));
        let mut owned = Owned::default();
        owned.insert_all(had.map(|had| had.at));
        self.owned = Some(Box::new(owned));
    }

    /// Whether a member has the partition, or has yet to give it up; `know_owned` came before. Not
    /// asked of what the member that asks has itself.
    pub fn is_owned(&self, partition: TopicPartition) -> bool {
        self.owned.as_ref().is_some_and(|owned| owned.contains(partition))
    }
}
