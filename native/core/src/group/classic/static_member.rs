//! A static member that comes back under its instance id (KIP-345, states section 7.4): it replaces
//! the id it had, and as a rule other members do not notice.

use super::member::flag;
use super::state::State;
use crate::error::ErrorCode;
use crate::event::GoneCause;
use crate::group::Machine;
use crate::group::counters::RebalanceCause;
use crate::request::{JoinGroupRequest, RequestContext};
use crate::response::{JoinGroupResponse, Response, SyncGroupResponse};

/// KIP-814: from this version on the answer to a leader can say that it must not assign.
const SKIP_ASSIGNMENT_VERSION: i16 = 9;

impl Machine {
    /// `updateStaticMemberThenRebalanceOrCompleteJoin`.
    pub fn replace_static_member(
        &mut self,
        now_ms: i64,
        member: u32,
        member_id: &str,
        context: &RequestContext<'_>,
        request: &JoinGroupRequest<'_>,
    ) {
        let group = self.registry.members[member].group;
        let old_leader_id: Box<str> = self.leader_id(group).into();
        self.fence(member);
        self.tell_member_gone(now_ms, member, GoneCause::StaticMemberReplaced, None);
        self.registry.rename_member(member, member_id);
        self.registry.members[member].clear(flag::NEW);
        // With the session timeout that the old id had.
        self.restart_session(member, now_ms);
        let topics = self.topics_assigned_here(member);
        self.update_member(member, request);
        self.tell_member_joined(member, request.reason);
        let same_topics = topics == self.topics_assigned_here(member);
        let state = self.classic(group).state;
        match state {
            State::Empty => unreachable!("an empty group has no static members"),
            State::PreparingRebalance => {
                self.park(member, flag::AWAITING_JOIN, context.ticket);
                self.maybe_complete_join(now_ms, group, Some(member));
            }
            State::Stable if same_topics && self.keeps_its_protocol(group) => {
                self.answer_replaced(now_ms, member, &old_leader_id, context);
            }
            State::CompletingRebalance | State::Stable => {
                // In CompletingRebalance the leader may be assigning to the id that is gone.
                self.park(member, flag::AWAITING_JOIN, context.ticket);
                self.prepare_rebalance(now_ms, group, RebalanceCause::StaticMemberReplaced);
            }
        }
    }

    /// Answers FENCED_INSTANCE_ID to a request that still waits under the old id.
    fn fence(&mut self, member: u32) {
        let awaited_join = self.registry.members[member].has(flag::AWAITING_JOIN);
        let Some(ticket) = self.unpark(member) else { return };
        if awaited_join {
            let old_member_id: Box<str> = self.registry.members[member].member_id().into();
            return self.refuse_join(ticket, &old_member_id, ErrorCode::FencedInstanceId);
        }
        let response = SyncGroupResponse {
            error_code: ErrorCode::FencedInstanceId,
            protocol_type: None,
            protocol_name: None,
            assignment: Box::default(),
        };
        self.outbox.respond(ticket, Response::SyncGroup(response));
    }

    fn keeps_its_protocol(&mut self, group: u32) -> bool {
        let selected = self.select_protocol(group);
        selected.as_deref() == self.classic(group).protocol_name()
    }

    /// No rebalance: the new id is written, and then answered with the present generation.
    fn answer_replaced(
        &mut self,
        now_ms: i64,
        member: u32,
        old_leader_id: &str,
        context: &RequestContext<'_>,
    ) {
        let group = self.registry.members[member].group;
        if let Err(error_code) = self.emit_stable_group(now_ms, group, Vec::new()) {
            self.refuse_join(context.ticket, "", error_code);
            return self.prepare_rebalance(now_ms, group, RebalanceCause::RecordRefused);
        }
        self.watch_kept(member);
        let is_leader = self.is_leader(group, member);
        let response = if context.api_version >= SKIP_ASSIGNMENT_VERSION {
            JoinGroupResponse { skip_assignment: is_leader, ..self.joined(group, member) }
        } else {
            // The old id, so that a replaced leader does not take itself for one and assign.
            JoinGroupResponse {
                leader: old_leader_id.into(),
                ..self.joined_as_follower(group, member)
            }
        };
        self.respond_for_group(group, context.ticket, Response::JoinGroup(Box::new(response)));
        self.settle(group);
    }
}
