//! A member is removed: it left, or a timer ended its membership (`consumerGroupFenceMember`,
//! consumer-protocol section 7). Who gets its partitions is decided by a later heartbeat.

use std::sync::Arc;

use crate::event::GoneCause;
use crate::group::Machine;
use crate::record::consumer::{
    ConsumerGroupMetadataValue, RecordChange, TargetAssignmentMetadataValue,
};

impl Machine {
    /// Returns the row of its group, which may be a classic one now.
    pub fn fence_member(&mut self, now_ms: i64, row: u32, cause: GoneCause) -> u32 {
        self.tell_consumer_gone(row, cause, None);
        self.fence_members(now_ms, self.registry.consumer_members[row].group, &[row])
    }

    /// Several at once, sorted by row. Classic members that are left alone are a classic group, if
    /// they may. Returns the row of the group.
    pub fn fence_members(&mut self, now_ms: i64, group: u32, rows: &[u32]) -> u32 {
        if let Some(plan) = self.plan_downgrade(group, rows, None) {
            return self.downgrade(now_ms, group, plan, true);
        }
        for row in rows {
            self.remove_consumer_member(now_ms, *row);
        }
        self.end_removal(now_ms, group);
        group
    }

    /// Takes the member out, and what only it subscribed to.
    fn remove_consumer_member(&mut self, now_ms: i64, row: u32) {
        self.cancel_consumer_timers(row);
        let member = &self.registry.consumer_members[row];
        let (group, member_id) = (member.group, Arc::clone(&member.id));
        let regex: Box<str> = member.regex().into();
        self.emit_member_tombstones(now_ms, group, &member_id);
        self.drop_unused_regex(now_ms, group, &regex);
    }

    /// The group's next epoch, without those who are gone. An empty group has its target at once.
    fn end_removal(&mut self, now_ms: i64, group: u32) {
        let metadata_hash = self.metadata_hash(group);
        let epoch = self.registry.consumer(group).group_epoch.saturating_add(1);
        let value = ConsumerGroupMetadataValue { epoch, metadata_hash };
        self.emit_consumer(now_ms, group, &RecordChange::GroupMetadata(Some(value)));
        if self.registry.consumer(group).members.is_empty() {
            let value =
                TargetAssignmentMetadataValue { assignment_epoch: epoch, assignment_timestamp: 0 };
            self.emit_consumer(now_ms, group, &RecordChange::TargetAssignmentMetadata(Some(value)));
        }
    }
}
