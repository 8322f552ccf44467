//! Timers of consumer groups' members: sessions, and the time in which partitions are to be given up.
//!
//! A heartbeat only writes the session's deadline: a timer that fires before it arms itself again.

use kcoord_timer::TimerId;

use crate::delayed::{ConsumerRebalance, ConsumerSession, DelayedHeartbeat, DelayedOperation};
use crate::event::GoneCause;
use crate::group::Machine;
use crate::record::consumer::MemberState;
use crate::time::deadline;

impl Machine {
    /// A member of the consumer protocol was heard of: its session starts anew.
    pub fn renew_consumer_session(&mut self, now_ms: i64, row: u32) {
        let timeout_ms = self.session_timeout_ms_of(self.registry.consumer_members[row].group);
        self.renew_consumer_session_with(now_ms, row, timeout_ms);
    }

    /// The same with a session of this length: a classic member has its own.
    #[inline]
    pub fn renew_consumer_session_with(&mut self, now_ms: i64, row: u32, timeout_ms: i32) {
        let member = &self.registry.consumer_members[row];
        let is_late = member.deadline_ms - now_ms < i64::from(timeout_ms >> 2);
        if is_late && !member.session_timer.is_none() {
            self.consumer_heard_late(now_ms, row, timeout_ms);
        }
        let member = &mut self.registry.consumer_members[row];
        let armed_ms = (!member.session_timer.is_none()).then_some(member.deadline_ms);
        member.deadline_ms = deadline(now_ms, timeout_ms);
        if DelayedHeartbeat::must_arm(armed_ms, member.deadline_ms) {
            self.wheel.cancel(member.session_timer);
            let fires = DelayedOperation::ConsumerSession(ConsumerSession { member: row });
            member.session_timer = self.wheel.insert(member.deadline_ms, fires);
        }
    }

    pub fn consumer_session_fired(&mut self, now_ms: i64, fired: ConsumerSession) {
        let member = &mut self.registry.consumer_members[fired.member];
        member.session_timer = TimerId::NONE;
        if member.deadline_ms > now_ms {
            let again = DelayedOperation::ConsumerSession(fired);
            member.session_timer = self.wheel.insert(member.deadline_ms, again);
            return;
        }
        self.counters.members_expired += 1;
        self.tell_consumer_session_expired(now_ms, fired.member);
        self.fence_told_member(now_ms, fired.member, GoneCause::SessionExpired);
    }

    /// After the member's record was written: it has partitions to give up, or not any more.
    pub fn update_rebalance_timer(&mut self, now_ms: i64, row: u32) {
        let member = &mut self.registry.consumer_members[row];
        self.wheel.cancel(core::mem::replace(&mut member.rebalance_timer, TimerId::NONE));
        if member.state == MemberState::UnrevokedPartitions {
            let fires = ConsumerRebalance { member: row, member_epoch: member.member_epoch };
            let due_ms = deadline(now_ms, member.rebalance_timeout_ms);
            let fires = DelayedOperation::ConsumerRebalance(fires);
            member.rebalance_timer = self.wheel.insert(due_ms, fires);
        }
    }

    pub fn consumer_rebalance_fired(&mut self, now_ms: i64, fired: ConsumerRebalance) {
        let member = &mut self.registry.consumer_members[fired.member];
        member.rebalance_timer = TimerId::NONE;
        if member.member_epoch == fired.member_epoch {
            self.counters.members_expired += 1;
            self.fence_member(now_ms, fired.member, GoneCause::RebalanceTimeout);
        }
    }

    pub fn cancel_consumer_timers(&mut self, row: u32) {
        let member = &mut self.registry.consumer_members[row];
        self.wheel.cancel(core::mem::replace(&mut member.session_timer, TimerId::NONE));
        self.wheel.cancel(core::mem::replace(&mut member.rebalance_timer, TimerId::NONE));
        self.cancel_classic_timers(row);
        self.fenced_epochs.remove(&row);
    }

    /// The shard was loaded: members are heard of within a whole session, and give up within their
    /// whole time. A classic member has the group's session until it is heard of, as in Kafka.
    pub fn start_loaded_consumers(&mut self, now_ms: i64, group: u32) {
        let rows = self.registry.consumer(group).members.to_vec();
        for row in rows {
            if !self.registry.consumer_members[row].is_there {
                // Of its records only a target was left, which belongs to no member.
                self.registry.detach_consumer_member(row);
                continue;
            }
            self.renew_consumer_session(now_ms, row);
            self.update_rebalance_timer(now_ms, row);
        }
    }
}
