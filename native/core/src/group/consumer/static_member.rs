//! A static member comes back (consumer-protocol section 6): what it had goes over to the id that it
//! has now, target and all, so that no other member has to move.

use super::flat;
use crate::event::GoneCause;
use crate::group::Machine;
use crate::record::consumer::{
    CurrentMemberAssignmentValue, MemberMetadataValue, RecordChange, TargetAssignmentMemberValue,
};

impl Machine {
    /// The row of the member that has the place from now on. Its id may be the same.
    pub fn replace_member(&mut self, now_ms: i64, row: u32, member_id: &str) -> u32 {
        self.tell_consumer_gone(now_ms, row, GoneCause::StaticMemberReplaced, None);
        self.cancel_consumer_timers(row);
        let member = &self.registry.consumer_members[row];
        let (group, old_id) = (member.group, member.id.clone());
        let mut metadata = Vec::new();
        member.metadata().encode(&mut metadata);
        let target = flat::of_targets(member.target());
        let current = CurrentMemberAssignmentValue {
            member_epoch: 0,
            previous_member_epoch: 0,
            state: member.state,
            assigned_partitions: flat::of_assigned(&member.assigned),
            partitions_pending_revocation: flat::of_assigned(&member.revoking),
        };
        self.hand_target_on(group, &old_id, member_id);
        self.emit_member_tombstones(now_ms, group, &old_id);
        let metadata = MemberMetadataValue::parse(&metadata).expect("encoded here");
        let target = TargetAssignmentMemberValue { topic_partitions: target };
        for record in [
            RecordChange::MemberMetadata { member_id, value: Some(metadata) },
            RecordChange::TargetAssignmentMember { member_id, value: Some(target) },
            RecordChange::CurrentMemberAssignment { member_id, value: Some(current) },
        ] {
            self.emit_consumer(now_ms, group, &record);
        }
        let row =
            self.registry.find_consumer_member(group, member_id).expect("its records made it");
        self.tell_consumer_joined(row, None);
        row
    }

    /// The records of a member go, in the order in which Kafka can read them again.
    pub fn emit_member_tombstones(&mut self, now_ms: i64, group: u32, member_id: &str) {
        for record in [
            RecordChange::CurrentMemberAssignment { member_id, value: None },
            RecordChange::TargetAssignmentMember { member_id, value: None },
            RecordChange::MemberMetadata { member_id, value: None },
        ] {
            self.emit_consumer(now_ms, group, &record);
        }
    }
}
