//! From the start of a rebalance to the end of its join phase (states sections 5.6 to 5.9).

use std::collections::BTreeMap;

use kcoord_timer::{TimerId, slab::NO_ROW};

use super::member::flag;
use super::protocol::ProtocolCounts;
use super::roster::IdTable;
use super::state::State;
use super::subscription::SubscribedTopics;
use crate::delayed::{
    DelayedJoin, DelayedOperation, DelayedSync, InitialDelayedJoin, InitialJoinExpiry, JoinExpiry,
    JoinProgress,
};
use crate::error::ErrorCode;
use crate::event::GoneCause;
use crate::group::Machine;
use crate::group::counters::RebalanceCause;
use crate::limits;
use crate::response::Response;
use crate::time::deadline;
use crate::topic_partition::TopicPartition;

/// Soft state of a group that is not at rest. Never logged, lost with the shard.
#[derive(Debug, Default)]
pub struct Rebalance {
    /// The rebalance started in `Empty` (`previousState`): it never ends before its timer.
    pub is_initial: bool,
    pub join_timer: TimerId,
    pub sync_timer: TimerId,
    /// Members with a parked JoinGroup.
    pub awaiting_join: usize,
    /// Members without a SyncGroup in this generation.
    pub pending_sync: usize,
    /// Ids handed out with MEMBER_ID_REQUIRED and not used yet (KIP-394).
    pub pending: IdTable,
    pub protocol_counts: Option<ProtocolCounts>,
    /// Topics of the generation that ends; its members may change their metadata meanwhile.
    pub subscribed_topics: Option<SubscribedTopics>,
    /// The group was a consumer group, and its members are assigned what they were to have: this is
    /// what each may read, by member id.
    pub held: Held,
}

/// Partitions by member id.
pub type Held = BTreeMap<Box<str>, Vec<TopicPartition>>;

impl Machine {
    /// `prepareRebalance`: asks all members to join again.
    pub fn prepare_rebalance(&mut self, now_ms: i64, group: u32, cause: RebalanceCause) {
        if self.has_ended_members() {
            self.remove_ended(now_ms, group);
        }
        self.counters.rebalance(cause);
        self.tell_rebalance_started(group, cause);
        let state = self.classic(group).state;
        assert!(state.may_become(State::PreparingRebalance), "rebalance in {state:?}");
        if state == State::CompletingRebalance {
            self.reset_assignments(group);
            self.refuse_parked_syncs(now_ms, group, ErrorCode::RebalanceInProgress);
        }
        self.clear_pending_sync(group);
        if state == State::Empty {
            return self.start_initial_delay(now_ms, group);
        }
        self.enter(group, State::PreparingRebalance, now_ms);
        self.rebalance_mut(group).is_initial = false;
        if self.join_progress(group).has_all_members_joined() {
            self.complete_join(now_ms, group, None);
        } else {
            self.start_join_timer(now_ms, group, self.rebalance_timeout_ms(group));
        }
    }

    fn start_initial_delay(&mut self, now_ms: i64, group: u32) {
        let delay_ms = self.config.group_initial_rebalance_delay_ms;
        let first = InitialDelayedJoin::new(group, delay_ms, self.rebalance_timeout_ms(group));
        self.enter(group, State::PreparingRebalance, now_ms);
        self.rebalance_mut(group).is_initial = true;
        let deadline_ms = deadline(now_ms, delay_ms);
        self.arm_join_timer(group, deadline_ms, DelayedOperation::InitialDelayedJoin(first));
    }

    fn start_join_timer(&mut self, now_ms: i64, group: u32, timeout_ms: i32) {
        let deadline_ms = deadline(now_ms, timeout_ms);
        self.arm_join_timer(
            group,
            deadline_ms,
            DelayedOperation::DelayedJoin(DelayedJoin { group }),
        );
    }

    fn arm_join_timer(&mut self, group: u32, deadline_ms: i64, then: DelayedOperation) {
        let old = self.rebalance_mut(group).join_timer;
        self.wheel.cancel(old);
        self.rebalance_mut(group).join_timer = self.wheel.insert(deadline_ms, then);
    }

    /// The initial delay is over, unless members arrived meanwhile.
    pub fn initial_delay_fired(&mut self, now_ms: i64, delayed: InitialDelayedJoin) {
        let group = delayed.group;
        let configured_ms = self.config.group_initial_rebalance_delay_ms;
        match delayed.on_expiration(configured_ms, self.classic(group).new_member_added) {
            InitialJoinExpiry::Extend { delay_ms, next } => {
                self.classic_mut(group).new_member_added = false;
                let then = DelayedOperation::InitialDelayedJoin(next);
                self.arm_join_timer(group, deadline(now_ms, delay_ms), then);
            }
            InitialJoinExpiry::Complete => self.complete_join(now_ms, group, None),
        }
    }

    /// `maybeCompleteJoinPhase`: an initial rebalance waits for its timer. `last`: the member that has
    /// just joined.
    pub fn maybe_complete_join(&mut self, now_ms: i64, group: u32, last: Option<u32>) {
        let is_preparing = self.classic(group).state == State::PreparingRebalance;
        let is_initial = self.rebalance_mut(group).is_initial;
        if is_preparing && DelayedJoin::can_complete(self.join_progress(group), is_initial) {
            self.complete_join(now_ms, group, last);
        }
    }

    pub fn join_progress(&self, group: u32) -> JoinProgress {
        let of = self.classic(group);
        let soft = of.rebalance.as_ref();
        JoinProgress {
            members: of.member_count(),
            awaiting_join: soft.map_or(0, |soft| soft.awaiting_join),
            pending_members: soft.map_or(0, |soft| soft.pending.len()),
        }
    }

    /// `completeClassicGroupJoin`: drops the dynamic members that did not join, and starts the next
    /// generation with the others.
    pub fn complete_join(&mut self, now_ms: i64, group: u32, last: Option<u32>) {
        self.cancel_join_timer(group);
        let is_gone = |member: &u32| {
            let row = &self.registry.members[*member];
            !row.has(flag::AWAITING_JOIN) && !row.is_static()
        };
        let rows = self.classic(group).member_rows();
        for member in rows.filter(is_gone).collect::<Vec<u32>>() {
            self.count_departure(now_ms, member);
            self.tell_member_gone(now_ms, member, GoneCause::RebalanceTimeout, None);
            self.remove_member(member);
        }
        let progress = self.join_progress(group);
        if progress.members == 0 {
            return self.become_empty(now_ms, group);
        }
        match DelayedJoin::on_expiration(progress.members, progress.awaiting_join) {
            // Probe P11: absent static members alone cannot have a leader.
            JoinExpiry::ArmAgain => {
                let timeout_ms = self.rebalance_timeout_ms(group).max(limits::MIN_JOIN_RETRY_MS);
                self.start_join_timer(now_ms, group, timeout_ms);
            }
            JoinExpiry::Complete => {
                self.elect_joined_leader(group);
                self.start_generation(now_ms, group, last);
            }
        }
    }

    fn cancel_join_timer(&mut self, group: u32) {
        let timer = core::mem::take(&mut self.rebalance_mut(group).join_timer);
        self.wheel.cancel(timer);
    }

    /// No member remains: the next generation has none, and that is made durable.
    fn become_empty(&mut self, now_ms: i64, group: u32) {
        let generation_id = self.classic(group).generation_id.wrapping_add(1);
        self.emit_empty_group(now_ms, group, generation_id);
        self.tell_join_phase_completed(group, None);
        self.settle(group);
    }

    /// Keeps a leader that has joined, else takes the earliest member that has.
    fn elect_joined_leader(&mut self, group: u32) {
        let members = &self.registry.members;
        let of = self.classic(group);
        let has_joined = |row: &u32| members[*row].has(flag::AWAITING_JOIN);
        let leader = Some(of.leader).filter(|row| *row != NO_ROW && has_joined(row));
        let leader = leader.or_else(|| of.member_rows().find(has_joined));
        self.classic_mut(group).leader = leader.expect("somebody has joined");
    }

    fn start_generation(&mut self, now_ms: i64, group: u32, last: Option<u32>) {
        let protocol_name = self.select_protocol(group);
        self.registry.set_protocol_name(group, protocol_name.as_deref());
        let generation_id = self.classic(group).generation_id.wrapping_add(1);
        self.classic_mut(group).generation_id = generation_id;
        self.enter(group, State::CompletingRebalance, now_ms);
        self.rebalance_mut(group).subscribed_topics = None;
        self.rebalance_mut(group).held = Held::new();
        self.tell_join_phase_completed(group, last);
        self.assign_as_coordinator(now_ms, group);

        for place in 0..self.classic(group).place_count() {
            let Some(member) = self.classic(group).member_at(place) else { continue };
            if self.registry.members[member].has(flag::AWAITING_JOIN) {
                let response = Response::JoinGroup(Box::new(self.joined(group, member)));
                if let Some(ticket) = self.unpark(member) {
                    self.respond_for_group(group, ticket, response);
                }
            }
            self.restart_session(member, now_ms);
            let row = &mut self.registry.members[member];
            row.clear(flag::NEW);
            row.set(flag::PENDING_SYNC);
            self.rebalance_mut(group).pending_sync += 1;
        }
        let deadline_ms = deadline(now_ms, self.rebalance_timeout_ms(group));
        let then = DelayedOperation::DelayedSync(DelayedSync { group, generation_id });
        self.rebalance_mut(group).sync_timer = self.wheel.insert(deadline_ms, then);
    }

    /// The largest rebalance timeout of the members that are there now.
    fn rebalance_timeout_ms(&self, group: u32) -> i32 {
        let timeout_ms = |row: u32| self.registry.members[row].rebalance_timeout_ms;
        self.classic(group).member_rows().map(timeout_ms).max().unwrap_or(0)
    }

    /// A transition that is not durable.
    pub fn enter(&mut self, group: u32, next: State, now_ms: i64) {
        let of = self.classic_mut(group);
        assert!(of.state.may_become(next), "{:?} cannot become {next:?}", of.state);
        of.state = next;
        of.state_timestamp_ms = now_ms;
    }

    /// The group expects no SyncGroup any more.
    pub fn clear_pending_sync(&mut self, group: u32) {
        if self.classic(group).rebalance.is_none() {
            return;
        }
        for place in 0..self.classic(group).place_count() {
            let Some(member) = self.classic(group).member_at(place) else { continue };
            self.registry.members[member].clear(flag::PENDING_SYNC);
        }
        let soft = self.rebalance_mut(group);
        soft.pending_sync = 0;
        let timer = core::mem::take(&mut soft.sync_timer);
        self.wheel.cancel(timer);
    }

    /// Drops the soft state that a group at rest does not need.
    pub fn settle(&mut self, group: u32) {
        let state = self.classic(group).state;
        if !matches!(state, State::Empty | State::Stable) {
            return;
        }
        let keeps_topics = state == State::Stable && self.remembers_other_topics(group);
        let Some(soft) = &mut self.classic_mut(group).rebalance else { return };
        // The protocols stay counted: a member that asks for an id needs them.
        if !keeps_topics {
            soft.subscribed_topics = None;
        }
        if soft.pending.is_empty() && soft.pending_sync == 0 && !keeps_topics {
            debug_assert!(soft.join_timer.is_none() && soft.awaiting_join == 0);
            let timer = soft.sync_timer;
            self.classic_mut(group).rebalance = None;
            self.wheel.cancel(timer);
        }
    }
}
