//! Consumer groups: what their records say of who has what, and which epochs were told.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use kcoord_core::ErrorCode;
use kcoord_core::Shard;
use kcoord_core::record::RecordKey;
use kcoord_core::record::consumer::{
    ConsumerGroupKey, ConsumerGroupRecord, EpochPartitions, MemberState, RecordChange,
};
use kcoord_core::response::{ConsumerGroupHeartbeatResponse, JoinGroupResponse};

use super::unreadable;
use crate::ask::Ask;
use crate::breaks::{Check, Invariant, check};
use crate::client::native::Place;
use crate::plan::GROUPS;

const JOINS: i32 = 0;

#[derive(Default)]
struct Member {
    epoch: i32,
    is_stable: bool,
    assigned: BTreeSet<Place>,
    revoking: BTreeSet<Place>,
}

#[derive(Default)]
pub struct NativeModel {
    is_there: bool,
    group_epoch: i32,
    /// In the batch that is read: the epoch before it, if the group had members.
    epoch_before: Option<i32>,
    /// And that of a group that went in it.
    went_from: Option<i32>,
    assignment_epoch: i32,
    members: BTreeMap<Rc<str>, Member>,
    /// The last epoch that each member was told since it joined.
    told: BTreeMap<Rc<str>, i32>,
}

impl NativeModel {
    /// A record that the node writes. True: the group goes with it.
    pub fn written(
        &mut self,
        group: usize,
        key: &ConsumerGroupKey<'_>,
        value: Option<&[u8]>,
    ) -> Result<bool, crate::breaks::Violation> {
        let record = ConsumerGroupRecord::parse(key, value);
        let record = record.map_err(|error| unreadable(&error.to_string()))?;
        let id = GROUPS[group];
        match &record.change {
            RecordChange::GroupMetadata(Some(value)) => {
                let (before, now) = (self.group_epoch, value.epoch);
                check(now >= before, Invariant::Epoch, || {
                    format!("{id} goes from epoch {before} to {now} in the log")
                })?;
                self.group_epoch = now;
                self.is_there = true;
            }
            RecordChange::GroupMetadata(None) => {
                let went_from = self.epoch_before;
                *self = NativeModel { went_from, ..NativeModel::default() };
                return Ok(true);
            }
            RecordChange::TargetAssignmentMetadata(Some(value)) => {
                let (before, now) = (self.assignment_epoch, value.assignment_epoch);
                check(now >= before && now <= self.group_epoch, Invariant::Epoch, || {
                    let group_epoch = self.group_epoch;
                    format!("targets of {id}: from epoch {before} to {now} of {group_epoch}")
                })?;
                self.assignment_epoch = now;
            }
            RecordChange::MemberMetadata { member_id, value: None } => {
                self.members.remove(*member_id);
                self.told.remove(*member_id);
            }
            RecordChange::CurrentMemberAssignment { member_id, value: None } => {
                self.members.remove(*member_id);
            }
            RecordChange::CurrentMemberAssignment { member_id, value: Some(value) } => {
                let member = Member {
                    epoch: value.member_epoch,
                    is_stable: value.state == MemberState::Stable,
                    assigned: places(&value.assigned_partitions),
                    revoking: places(&value.partitions_pending_revocation),
                };
                self.move_member(group, member_id, member)?;
            }
            _ => {}
        }
        Ok(false)
    }

    fn move_member(&mut self, group: usize, member_id: &str, member: Member) -> Check {
        let id = GROUPS[group];
        if let Some(before) = self.members.get(member_id) {
            // A static member that left for a while, or comes back, begins anew.
            let begins_anew = member.epoch <= JOINS || before.epoch <= JOINS;
            check(begins_anew || member.epoch >= before.epoch, Invariant::Epoch, || {
                format!("{member_id} of {id}: from {} to {} in the log", before.epoch, member.epoch)
            })?;
        }
        let others = self.members.iter().filter(|(other, _)| ***other != *member_id);
        for (other, has) in others {
            let mut wanted = member.assigned.iter().chain(&member.revoking);
            let twice = wanted.find(|at| has.assigned.contains(at) || has.revoking.contains(at));
            check(twice.is_none(), Invariant::OneOwner, || {
                let partition = twice.map(|at| at.1);
                format!("{id}: partition {partition:?} has {other}, and {member_id} gets it")
            })?;
        }
        self.members.insert(member_id.into(), member);
        Ok(())
    }

    /// A member's epoch never goes back, and it is told what the log says.
    pub fn told(&mut self, ask: &Ask, beaten: &ConsumerGroupHeartbeatResponse) -> Check {
        let Some(member) = self.members.get(&*ask.member_id) else { return Ok(()) };
        if member.epoch != beaten.member_epoch {
            return Ok(());
        }
        if let Some(assignment) = &beaten.assignment {
            let told: BTreeSet<Place> =
                assignment.iter().map(|at| (at.topic_id().0, at.partition)).collect();
            check(told == member.assigned, Invariant::OneOwner, || {
                let has = &member.assigned;
                format!("{ask}: told {told:?}, and its record says {has:?}")
            })?;
        }
        Ok(())
    }

    /// What a client is told of its epoch, since it joined.
    pub fn tell_epoch(&mut self, ask: &Ask, epoch: i32) -> Check {
        if epoch <= JOINS {
            self.told.remove(&*ask.member_id);
            return Ok(());
        }
        let before = self.told.insert(Rc::clone(&ask.member_id), epoch);
        let before = before.filter(|_| ask.generation_id > JOINS).unwrap_or_default();
        check(epoch >= before, Invariant::Epoch, || {
            format!("{ask}: told epoch {epoch}, after {before}")
        })
    }

    /// What a classic member is told of its epoch, which is its generation.
    pub fn joined(&mut self, ask: &Ask, joined: &JoinGroupResponse) -> Check {
        if joined.error_code != ErrorCode::None {
            return Ok(());
        }
        let epoch = joined.generation_id;
        let before = self.told.insert(joined.member_id.as_ref().into(), epoch);
        let before = before.filter(|_| *ask.member_id == *joined.member_id).unwrap_or_default();
        check(epoch >= before, Invariant::Generation, || {
            format!("{ask}: told generation {epoch}, after {before}")
        })
    }

    /// There is a consumer group of this id.
    pub fn is_there(&self) -> bool {
        self.is_there
    }

    /// A classic group of this generation becomes this one.
    pub fn come_from(&mut self, generation_id: i32) {
        self.group_epoch = generation_id;
    }

    pub fn begin_batch(&mut self) {
        self.epoch_before = (!self.members.is_empty()).then_some(self.group_epoch);
        self.went_from = None;
    }

    pub fn went_from(&self) -> Option<i32> {
        self.went_from
    }

    pub fn has_member(&self, member_id: &str) -> bool {
        self.members.contains_key(member_id)
    }

    /// Whether the node counts it as a member at this epoch.
    pub fn has_member_at(&self, member_id: &str, epoch: i32) -> bool {
        self.members.get(member_id).is_some_and(|member| member.epoch == epoch)
    }

    /// What it may read: it has come to its target, and its group to rest.
    pub fn settled(&self, member_id: &str) -> Option<&BTreeSet<Place>> {
        let member = self.members.get(member_id)?;
        let is_at_rest = self.group_epoch == self.assignment_epoch;
        (is_at_rest && member.is_stable && member.epoch == self.assignment_epoch)
            .then_some(&member.assigned)
    }

    /// The shard was loaded: what its log says is the truth.
    pub fn reloaded(&mut self, group: usize, loaded: &Shard) -> Check {
        *self = NativeModel::default();
        for (key, value) in loaded.consumer_records(GROUPS[group]) {
            match RecordKey::parse(&key).map_err(|error| unreadable(&error.to_string()))? {
                RecordKey::ConsumerGroup(key) => _ = self.written(group, &key, Some(&value))?,
                other => return Err(unreadable(&format!("{other:?} in a consumer group"))),
            }
        }
        Ok(())
    }
}

fn places(topics: &[EpochPartitions]) -> BTreeSet<Place> {
    let each = topics
        .iter()
        .flat_map(|topic| topic.partitions.iter().map(|partition| (topic.topic_id.0, *partition)));
    each.collect()
}
