//! Members that a timer removes (states section 8).

use kcoord_timer::TimerId;

use super::member::flag;
use super::state::State;
use crate::delayed::{DelayedSync, SyncProgress};
use crate::event::GoneCause;
use crate::group::Machine;
use crate::group::counters::RebalanceCause;

impl Machine {
    /// A member's session has ended: it is removed, static or not.
    pub fn expire_member(&mut self, member: u32, now_ms: i64) {
        let group = self.registry.members[member].group;
        if self.has_ended_members() && self.has_ended(member) {
            // It may go now; how it ended was counted when that happened.
            return self.rebalance_without_ended(now_ms, group, member);
        }
        self.count_departure(now_ms, member);
        if self.puts_removal_off(now_ms, member, GoneCause::SessionExpired, None) {
            return;
        }
        self.tell_session_expired(now_ms, member);
        self.refuse_parked_join(member);
        self.remove_member(member);
        self.counters.members_expired += 1;
        match self.classic(group).state {
            State::Empty => unreachable!("an empty group has no members"),
            State::PreparingRebalance => {
                // Even an initial delay may end by this, as in Kafka (states section 5.6).
                if self.join_progress(group).has_all_members_joined() {
                    self.complete_join(now_ms, group, None);
                }
            }
            State::CompletingRebalance | State::Stable => {
                self.prepare_rebalance(now_ms, group, RebalanceCause::SessionExpired);
            }
        }
    }

    /// The sync phase is over: members that have not synced are removed, static ones too (probe
    /// P18).
    pub fn sync_timer_fired(&mut self, now_ms: i64, fired: DelayedSync) {
        let group = fired.group;
        self.rebalance_mut(group).sync_timer = TimerId::NONE;
        let of = self.classic(group);
        let is_late = |row: &u32| self.registry.members[*row].has(flag::PENDING_SYNC);
        let late: Vec<u32> = of.member_rows().filter(is_late).collect();
        let progress = SyncProgress {
            generation_id: of.generation_id,
            is_sync_phase: matches!(of.state, State::CompletingRebalance | State::Stable),
            pending_sync_members: late.len(),
        };
        if !fired.evicts_pending_members(progress) {
            return self.settle(group);
        }
        for member in late {
            self.count_departure(now_ms, member);
            self.tell_member_gone(now_ms, member, GoneCause::SyncExpired, None);
            self.remove_member(member);
            self.counters.members_expired += 1;
        }
        self.prepare_rebalance(now_ms, group, RebalanceCause::SyncExpired);
    }
}
