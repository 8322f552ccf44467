//! Records of consumer groups on their way into the log: written, and applied at once.

use std::sync::Arc;

use super::reconcile::Current;
use crate::group::Machine;
use crate::record::consumer::{
    ConsumerGroupKey, ConsumerRecordType, CurrentMemberAssignmentValue, MemberMetadataValue,
    RecordChange, TargetAssignmentMemberValue,
};
use crate::topic_partition::TopicPartition;

impl Machine {
    /// Writes a record of a consumer group that is there, and applies it.
    pub fn emit_consumer(&mut self, now_ms: i64, group: u32, change: &RecordChange<'_>) {
        let (mut key, mut value) =
            (core::mem::take(&mut self.scratch_key), core::mem::take(&mut self.scratch_value));
        key.clear();
        value.clear();
        change.key(self.group(group).id.as_str()).encode(&mut key);
        let is_value = change.encode_value(&mut value);
        if let RecordChange::GroupMetadata(Some(value)) = change {
            let is_next = value.epoch > self.registry.consumer(group).group_epoch;
            self.counters.consumer_rebalances += u64::from(is_next);
        }
        let offset = self.outbox.emit(now_ms, &key, is_value.then_some(&value[..]));
        self.group_mut(group).last_record_end = offset + 1;
        (self.scratch_key, self.scratch_value) = (key, value);
        self.registry.apply_consumer_record(group, change);
    }

    /// Writes a member's record of type 7, and applies it.
    pub fn emit_target(
        &mut self,
        now_ms: i64,
        group: u32,
        row: u32,
        partitions: &Arc<[TopicPartition]>,
    ) {
        let record_type = ConsumerRecordType::TargetAssignmentMember;
        self.write_of_member(now_ms, group, row, record_type, |value| {
            TargetAssignmentMemberValue::encode_set(partitions, value);
        });
        self.registry.apply_target(row, partitions);
    }

    /// Writes a member's record of type 8, and applies it.
    pub fn emit_current(&mut self, now_ms: i64, group: u32, row: u32, has: &Current<'_>) {
        let record_type = ConsumerRecordType::CurrentMemberAssignment;
        self.write_of_member(now_ms, group, row, record_type, |value| {
            let epochs = (has.member_epoch, has.previous_member_epoch);
            let sets = [has.assigned, has.revoking];
            CurrentMemberAssignmentValue::encode_sets(epochs, has.state, sets, value);
        });
        self.registry.apply_current(row, has);
    }

    /// Writes a record of a member that is there; `encode` appends its value.
    #[inline]
    fn write_of_member(
        &mut self,
        now_ms: i64,
        group: u32,
        row: u32,
        record_type: ConsumerRecordType,
        encode: impl FnOnce(&mut Vec<u8>),
    ) {
        let (mut key, mut value) =
            (core::mem::take(&mut self.scratch_key), core::mem::take(&mut self.scratch_value));
        key.clear();
        value.clear();
        let (group_id, rest) =
            (self.group(group).id.as_str(), &*self.registry.consumer_members[row].id);
        ConsumerGroupKey { record_type, group_id, rest }.encode(&mut key);
        encode(&mut value);
        let offset = self.outbox.emit(now_ms, &key, Some(&value));
        self.group_mut(group).last_record_end = offset + 1;
        (self.scratch_key, self.scratch_value) = (key, value);
    }

    /// Writes a member's record of type 5, and applies what a reader of it finds.
    pub fn emit_member_metadata(
        &mut self,
        now_ms: i64,
        group: u32,
        member_id: &str,
        encoded: &[u8],
    ) {
        let value = MemberMetadataValue::parse(encoded).expect("encoded here");
        let record = RecordChange::MemberMetadata { member_id, value: Some(value) };
        self.emit_consumer(now_ms, group, &record);
    }
}
