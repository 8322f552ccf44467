//! A consumer group goes: its last records, and what was in memory for it.

use crate::group::Machine;
use crate::record::consumer::RecordChange;
use crate::response::MemberId;

impl Machine {
    /// Writes the records that end a group, in an order in which Kafka reads them. Members have no
    /// timers any more.
    pub fn emit_consumer_tombstones(&mut self, now_ms: i64, group: u32) {
        let of = self.registry.consumer(group);
        let members = of.members.iter().map(|row| self.registry.consumer_members[*row].id.clone());
        let members: Vec<MemberId> = members.collect();
        let regexes: Vec<Box<str>> = of.regexes.resolved().map(|(regex, _)| regex.into()).collect();
        for member_id in &members {
            let change = RecordChange::CurrentMemberAssignment { member_id, value: None };
            self.emit_consumer(now_ms, group, &change);
        }
        for member_id in &members {
            let change = RecordChange::TargetAssignmentMember { member_id, value: None };
            self.emit_consumer(now_ms, group, &change);
        }
        self.emit_consumer(now_ms, group, &RecordChange::TargetAssignmentMetadata(None));
        for member_id in &members {
            let change = RecordChange::MemberMetadata { member_id, value: None };
            self.emit_consumer(now_ms, group, &change);
        }
        for regular_expression in &regexes {
            let change = RecordChange::RegularExpression { regular_expression, value: None };
            self.emit_consumer(now_ms, group, &change);
        }
        self.emit_consumer(now_ms, group, &RecordChange::PartitionMetadata(None));
        self.emit_consumer(now_ms, group, &RecordChange::GroupMetadata(None));
    }

    /// Drops members and timers.
    pub fn close_consumer_group(&mut self, group: u32) {
        self.drop_computing(group);
        let timer = core::mem::take(&mut self.registry.consumer_mut(group).regexes).timer();
        self.wheel.cancel(timer);
        for row in core::mem::take(&mut self.registry.consumer_mut(group).members).to_vec() {
            self.cancel_consumer_timers(row);
            self.registry.consumer_members.remove(row);
        }
    }
}
