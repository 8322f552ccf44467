//! A consumer group as its records say it: for snapshots, and to compare groups.

use super::flat;
use super::member::Member;
use crate::group::Machine;
use crate::record::consumer::{
    ConsumerGroupMetadataValue, CurrentMemberAssignmentValue, PartitionMetadataValue, RecordChange,
    RegularExpressionValue, TargetAssignmentMemberValue, TargetAssignmentMetadataValue,
};
use crate::shard::Shard;
use crate::snapshot;

impl Shard {
    /// Keys and values of the records that make a consumer group what it is; none of another group.
    pub fn consumer_records(&self, group_id: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
        let machine = &self.machine;
        let group = machine.registry.find(group_id);
        let mut records = Vec::new();
        if let Some(group) = group.filter(|group| machine.registry.is_consumer(*group)) {
            machine.each_consumer_record(group, |change| {
                let (mut key, mut value) = (Vec::new(), Vec::new());
                change.key(group_id).encode(&mut key);
                change.encode_value(&mut value);
                records.push((key, value));
            });
        }
        records
    }
}

impl Machine {
    pub(crate) fn write_consumer_group(&self, group: u32, out: &mut snapshot::Writer) {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        self.each_consumer_record(group, |change| {
            key.clear();
            value.clear();
            change.key(self.group(group).id.as_str()).encode(&mut key);
            let is_value = change.encode_value(&mut value);
            debug_assert!(is_value, "what is there is no tombstone");
            out.kept(&key, &value);
        });
    }

    /// All records that make the group what it is, in an order in which they can be read.
    pub fn each_consumer_record(&self, group: u32, mut each: impl FnMut(&RecordChange<'_>)) {
        let of = self.registry.consumer(group);
        let value =
            ConsumerGroupMetadataValue { epoch: of.group_epoch, metadata_hash: of.metadata_hash };
        each(&RecordChange::GroupMetadata(Some(value)));
        if of.has_partition_metadata {
            let value = PartitionMetadataValue { topics: Vec::new() };
            each(&RecordChange::PartitionMetadata(Some(value)));
        }
        for row in of.members.iter() {
            each_of_member(&self.registry.consumer_members[*row], &mut each);
        }
        let value = TargetAssignmentMetadataValue {
            assignment_epoch: of.assignment_epoch,
            assignment_timestamp: of.assignment_timestamp_ms,
        };
        each(&RecordChange::TargetAssignmentMetadata(Some(value)));
        for (regular_expression, resolved) in of.regexes.resolved() {
            let value = Some(RegularExpressionValue {
                topics: resolved.topics.iter().map(|name| &**name).collect(),
                version: resolved.version,
                timestamp: resolved.timestamp_ms,
            });
            each(&RecordChange::RegularExpression { regular_expression, value });
        }
    }
}

fn each_of_member(member: &Member, each: &mut impl FnMut(&RecordChange<'_>)) {
    let member_id = &*member.id;
    if member.is_there {
        let value = Some(member.metadata());
        each(&RecordChange::MemberMetadata { member_id, value });
    }
    if let Some(target) = &member.target {
        let topic_partitions = flat::of_targets(target);
        let value = Some(TargetAssignmentMemberValue { topic_partitions });
        each(&RecordChange::TargetAssignmentMember { member_id, value });
    }
    if member.is_there {
        let value = Some(CurrentMemberAssignmentValue {
            member_epoch: member.member_epoch,
            previous_member_epoch: member.previous_member_epoch,
            state: member.state,
            assigned_partitions: flat::of_assigned(&member.assigned),
            partitions_pending_revocation: flat::of_assigned(&member.revoking),
        });
        each(&RecordChange::CurrentMemberAssignment { member_id, value });
    }
}
