//! Session timers of members and of ids that were handed out (`heartbeat-<group>-<member>`).
//!
//! A heartbeat only writes the deadline. The timer in the wheel may therefore be early: when it
//! fires before the deadline it arms itself again. It must never be late.

use kcoord_timer::{TimerId, TimingWheel};

use super::member::{Member, flag};
use super::state::State;
use crate::delayed::{
    DelayedHeartbeat, DelayedOperation, HeartbeatExpiry, MemberLiveness, PendingExpiry,
    PendingMember,
};
use crate::group::Machine;
use crate::group::counters::RebalanceCause;
use crate::time::deadline;

/// Of more loaded members than this the timers are spread: due in one millisecond, those of all
/// shards of a process would hold it up.
const LOADED_DUE_AT_ONCE: u64 = 128;

/// Ends the session `timeout_ms` from now, unless it is renewed. The wheel is touched only if there
/// is no timer or it would be late.
#[inline]
fn restart(
    row: &mut Member,
    member: u32,
    wheel: &mut TimingWheel<DelayedOperation>,
    now_ms: i64,
    timeout_ms: i32,
) {
    let deadline_ms = deadline(now_ms, timeout_ms);
    // The timer is armed for the deadline at most, so its own entry need not be looked at.
    let armed_ms = (!row.timer.is_none()).then_some(row.deadline_ms);
    row.deadline_ms = deadline_ms;
    if DelayedHeartbeat::must_arm(armed_ms, deadline_ms) {
        wheel.cancel(row.timer);
        row.timer = wheel.insert(deadline_ms, operation(row, member));
    }
}

fn operation(row: &Member, member: u32) -> DelayedOperation {
    let group = row.group;
    if row.has(flag::PENDING) {
        DelayedOperation::PendingMember(PendingMember { group, member })
    } else {
        DelayedOperation::DelayedHeartbeat(DelayedHeartbeat { group, member })
    }
}

impl Machine {
    /// Restarts the session timer ("RT" in states section 4) of a member that is heard of.
    #[inline(always)]
    pub fn renew_session(&mut self, member: u32, now_ms: i64) {
        let row = &mut self.registry.members[member];
        let (timeout_ms, left_ms) = (row.session_timeout_ms, row.deadline_ms - now_ms);
        restart(row, member, &mut self.wheel, now_ms, timeout_ms);
        if left_ms < i64::from(timeout_ms >> 2) {
            self.heard_late(member, i64::from(timeout_ms) - left_ms);
        }
    }

    /// Restarts the session timer as part of a rebalance, with the member's session timeout.
    pub fn restart_session(&mut self, member: u32, now_ms: i64) {
        let timeout_ms = self.registry.members[member].session_timeout_ms;
        self.restart_session_with(member, now_ms, timeout_ms);
    }

    /// Sessions start anew; the surplus of too large a group is shed as its members rejoin.
    pub fn start_loaded_classic_group(
        &mut self,
        now_ms: i64,
        group: u32,
        sessions: &mut impl Iterator<Item = u64>,
    ) {
        let rows = self.classic(group).member_rows().collect::<Vec<u32>>();
        for (member, at) in rows.into_iter().zip(sessions) {
            self.start_loaded_session(member, now_ms, at);
        }
        if self.classic(group).member_count() > self.config.group_max_size {
            self.prepare_rebalance(now_ms, group, RebalanceCause::GroupTooLarge);
        }
    }

    /// Starts the session of the member that was loaded as the `at`-th. Sessions of one length end at
    /// once, but so many timers are not to be due at once: where members are many all are early, over
    /// half of the session, and later ones less so, that those who are gone expire in the order of
    /// `at` if their sessions are as long.
    fn start_loaded_session(&mut self, member: u32, now_ms: i64, at: u64) {
        let count = self.registry.members.len() as u64;
        let row = &mut self.registry.members[member];
        debug_assert!(row.timer.is_none(), "no session runs before the load ends");
        row.deadline_ms = deadline(now_ms, row.session_timeout_ms);
        let early_ms = match count {
            0..=LOADED_DUE_AT_ONCE => 0,
            _ => ((row.deadline_ms - now_ms) as u64 / 2 * (count - at) / count).max(1),
        };
        row.timer = self.wheel.insert(row.deadline_ms - early_ms as i64, operation(row, member));
    }

    /// Arms the timer anew in any case: timers that a rebalance starts together and that are due
    /// together fire in the order in which they were started, the sessions before the group's.
    pub fn restart_session_with(&mut self, member: u32, now_ms: i64, timeout_ms: i32) {
        let row = &mut self.registry.members[member];
        self.wheel.cancel(row.timer);
        row.timer = TimerId::NONE;
        restart(row, member, &mut self.wheel, now_ms, timeout_ms);
    }

    /// Ends the session then, unless it is renewed.
    pub fn end_session_at(&mut self, member: u32, deadline_ms: i64) {
        let row = &mut self.registry.members[member];
        self.wheel.cancel(row.timer);
        row.deadline_ms = deadline_ms;
        row.timer = self.wheel.insert(deadline_ms, operation(row, member));
    }

    /// A member's timer has fired, which took it out of the wheel.
    pub fn session_timer_fired(&mut self, now_ms: i64, fired: DelayedHeartbeat) {
        let row = &mut self.registry.members[fired.member];
        row.timer = TimerId::NONE;
        let liveness = MemberLiveness {
            deadline_ms: row.deadline_ms,
            is_new: row.has(flag::NEW),
            is_awaiting_join: row.has(flag::AWAITING_JOIN),
            is_awaiting_sync: row.has(flag::AWAITING_SYNC),
        };
        match DelayedHeartbeat::on_expiration(now_ms, Some(liveness)) {
            HeartbeatExpiry::ArmAgain { deadline_ms } => {
                row.timer = self.wheel.insert(deadline_ms, operation(row, fired.member));
            }
            HeartbeatExpiry::Ignore => {}
            HeartbeatExpiry::Expire => self.expire_member(fired.member, now_ms),
        }
    }

    /// An id that was handed out did not come back in time. Unlike LeaveGroup this may end an
    /// initial delay early, as in Kafka (probe P2).
    pub fn pending_timer_fired(&mut self, now_ms: i64, fired: PendingMember) {
        let group = fired.group;
        let is_preparing = self.classic(group).state == State::PreparingRebalance;
        let join = is_preparing.then(|| self.join_progress(group));
        let expiry = PendingMember::on_expiration(true, join);
        if is_preparing {
            self.tell_never_joined(fired.member);
        }
        self.remove_pending(fired.member);
        if expiry == PendingExpiry::DropAndCompleteJoin {
            self.complete_join(now_ms, group, None);
        }
        self.settle(group);
    }
}
