//! Timers that only classic members of consumer groups have (consumer-protocol section 9): they must
//! join again when they are told to, and sync when they have joined, each within their rebalance
//! timeout. Heartbeats stop neither.

use kcoord_timer::TimerId;

use crate::delayed::{ClassicJoin, ClassicSync, DelayedOperation};
use crate::event::GoneCause;
use crate::group::Machine;
use crate::time::deadline;

/// Of one member. Few members have any at a time, so they are not a part of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassicTimers {
    pub join: TimerId,
    pub sync: TimerId,
}

impl Machine {
    /// The member was told to join again. The first time counts.
    pub fn await_join(&mut self, now_ms: i64, row: u32) {
        if !self.classic_timers_of(row).join.is_none() {
            return;
        }
        let due_ms = deadline(now_ms, self.registry.consumer_members[row].rebalance_timeout_ms);
        let fires = DelayedOperation::ClassicJoin(ClassicJoin { member: row });
        self.classic_timers.entry(row).or_default().join = self.wheel.insert(due_ms, fires);
    }

    /// The member has joined, and is to sync.
    pub fn await_sync(&mut self, now_ms: i64, row: u32) {
        self.cancel_classic_timers(row);
        let due_ms = deadline(now_ms, self.registry.consumer_members[row].rebalance_timeout_ms);
        let fires = DelayedOperation::ClassicSync(ClassicSync { member: row });
        let sync = self.wheel.insert(due_ms, fires);
        self.classic_timers.insert(row, ClassicTimers { join: TimerId::NONE, sync });
    }

    pub fn stop_awaiting_sync(&mut self, row: u32) {
        let ClassicTimers { join, sync } = self.classic_timers_of(row);
        self.wheel.cancel(sync);
        self.set_classic_timers(row, ClassicTimers { join, sync: TimerId::NONE });
    }

    pub fn cancel_classic_timers(&mut self, row: u32) {
        if let Some(timers) = self.classic_timers.remove(&row) {
            self.wheel.cancel(timers.join);
            self.wheel.cancel(timers.sync);
        }
    }

    pub fn classic_timers_of(&self, row: u32) -> ClassicTimers {
        self.classic_timers.get(&row).copied().unwrap_or_default()
    }

    /// Also for timers that a checkpoint brought.
    pub fn set_classic_timers(&mut self, row: u32, timers: ClassicTimers) {
        if timers == ClassicTimers::default() {
            self.classic_timers.remove(&row);
        } else {
            self.classic_timers.insert(row, timers);
        }
    }

    pub fn classic_join_fired(&mut self, now_ms: i64, fired: ClassicJoin) {
        let timers = ClassicTimers { join: TimerId::NONE, ..self.classic_timers_of(fired.member) };
        self.set_classic_timers(fired.member, timers);
        self.counters.members_expired += 1;
        self.fence_member(now_ms, fired.member, GoneCause::RebalanceTimeout);
    }

    pub fn classic_sync_fired(&mut self, now_ms: i64, fired: ClassicSync) {
        let timers = ClassicTimers { sync: TimerId::NONE, ..self.classic_timers_of(fired.member) };
        self.set_classic_timers(fired.member, timers);
        self.counters.members_expired += 1;
        self.fence_member(now_ms, fired.member, GoneCause::SyncExpired);
    }
}
