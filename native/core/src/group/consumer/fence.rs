//! A member is removed: it left, or a timer ended its membership (`consumerGroupFenceMember`,
//! consumer-protocol section 7). Who gets its partitions is decided by a later heartbeat.

use crate::event::{EpochCause, GoneCause};
use crate::group::Machine;
use crate::record::consumer::{
    ConsumerGroupMetadataValue, RecordChange, TargetAssignmentMetadataValue,
};

impl Machine {
    /// Returns the row of its group, which may be a classic one now.
    pub fn fence_member(&mut self, now_ms: i64, row: u32, cause: GoneCause) -> u32 {
        self.tell_consumer_gone(now_ms, row, cause, None);
        self.fence_told_member(now_ms, row, cause)
    }

    /// The same, when an event has said so.
    pub fn fence_told_member(&mut self, now_ms: i64, row: u32, cause: GoneCause) -> u32 {
        let group = self.registry.consumer_members[row].group;
        self.fence_members(now_ms, group, &[row], cause.into())
    }

    /// Several at once, sorted by row. Classic members that are left alone are a classic group, if
    /// they may. Events have said so: `cause` is the last one's. Returns the row of the group.
    pub fn fence_members(
        &mut self,
        now_ms: i64,
        group: u32,
        rows: &[u32],
        cause: EpochCause,
    ) -> u32 {
        if let Some(plan) = self.plan_downgrade(group, rows, None) {
            let by = self.events.take_trigger();
            return self.downgrade(now_ms, group, plan, by, true);
        }
        for row in rows {
            self.remove_consumer_member(now_ms, *row);
        }
        self.end_removal(now_ms, group, cause);
        group
    }

    /// Takes the member out, and what only it subscribed to.
    fn remove_consumer_member(&mut self, now_ms: i64, row: u32) {
        self.cancel_consumer_timers(row);
        let member = &self.registry.consumer_members[row];
        let (group, member_id) = (member.group, member.id.clone());
        let regex: Box<str> = member.regex().into();
        self.emit_member_tombstones(now_ms, group, &member_id);
        self.drop_unused_regex(now_ms, group, &regex);
    }

    /// The group's next epoch, without those who are gone. An empty group has its target at once.
    fn end_removal(&mut self, now_ms: i64, group: u32, cause: EpochCause) {
        let metadata_hash = self.metadata_hash(group);
        let epoch = self.registry.consumer(group).group_epoch.saturating_add(1);
        let value = ConsumerGroupMetadataValue { epoch, metadata_hash };
        self.emit_consumer(now_ms, group, &RecordChange::GroupMetadata(Some(value)));
        self.tell_group_epoch_bumped(group, cause, None);
        if self.registry.consumer(group).members.is_empty() {
            let value =
                TargetAssignmentMetadataValue { assignment_epoch: epoch, assignment_timestamp: 0 };
            self.emit_consumer(now_ms, group, &RecordChange::TargetAssignmentMetadata(Some(value)));
        }
    }
}
