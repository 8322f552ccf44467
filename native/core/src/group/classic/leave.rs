//! LeaveGroup (`classicGroupLeave`, states section 7.3), and how a member is taken out of a group.

use super::member::{Details, Member, flag};
use super::state::State;
use crate::error::ErrorCode;
use crate::event::GoneCause;
use crate::group::Machine;
use crate::group::counters::RebalanceCause;
use crate::request::{LeaveGroupMember, LeaveGroupRequest, RequestContext};
use crate::response::{LeaveGroupMemberResponse, LeaveGroupResponse, Response};

impl Machine {
    pub fn leave_group(
        &mut self,
        now_ms: i64,
        context: &RequestContext<'_>,
        request: &LeaveGroupRequest<'_>,
    ) {
        let error_code = ErrorCode::InvalidGroupId;
        if request.group_id.is_empty() {
            let response = LeaveGroupResponse { error_code, members: Vec::new() };
            return self.outbox.respond(context.ticket, Response::LeaveGroup(response));
        }
        let group = match self.find_classic(request.group_id) {
            Ok(group) => Some(group),
            Err(Some(other)) if self.registry.is_consumer(other) => {
                return self.leave_consumer_group(now_ms, other, context, request);
            }
            Err(_) => None,
        };
        let put_off_before = self.counters.removals_put_off;
        let mut members = Vec::with_capacity(request.members.len());
        for entry in &request.members {
            members.push(LeaveGroupMemberResponse {
                member_id: entry.member_id.into(),
                group_instance_id: entry.group_instance_id.map(Into::into),
                error_code: match group {
                    Some(group) => self.leave(now_ms, group, entry),
                    None => ErrorCode::UnknownMemberId,
                },
            });
        }
        let left = members.iter().filter(|member| member.error_code == ErrorCode::None).count();
        let put_off = self.counters.removals_put_off - put_off_before;
        let response =
            Response::LeaveGroup(LeaveGroupResponse { error_code: ErrorCode::None, members });
        match group.filter(|_| left > 0) {
            Some(group) => {
                if left as u64 > put_off || self.have_all_ended(group) {
                    self.go_on_without_them(now_ms, group);
                }
                // The last member has emptied the group, and that is written.
                self.respond_for_group(group, context.ticket, response);
            }
            None => self.outbox.respond(context.ticket, response),
        }
    }

    fn go_on_without_them(&mut self, now_ms: i64, group: u32) {
        match self.classic(group).state {
            State::Empty => self.settle(group),
            State::PreparingRebalance => self.maybe_complete_join(now_ms, group, None),
            State::CompletingRebalance | State::Stable => {
                self.prepare_rebalance(now_ms, group, RebalanceCause::MemberLeft);
            }
        }
    }

    fn leave(&mut self, now_ms: i64, group: u32, entry: &LeaveGroupMember<'_>) -> ErrorCode {
        if entry.member_id.is_empty() {
            // An administrator removes a static member: no fencing (KIP-345).
            let instance_id = entry.group_instance_id;
            let member = instance_id.and_then(|id| self.registry.find_static_member(group, id));
            return match member {
                Some(member) => {
                    let cause = GoneCause::RemovedByAdmin;
                    self.remove_leaving_member(now_ms, member, cause, entry.reason)
                }
                None => ErrorCode::UnknownMemberId,
            };
        }
        if let Some(pending) = self.find_pending(group, entry.member_id) {
            self.remove_pending(pending);
            return ErrorCode::None;
        }
        match self.identify(group, entry.member_id, entry.group_instance_id) {
            Ok(member) => self.remove_leaving_member(now_ms, member, GoneCause::Left, entry.reason),
            Err(error_code) => error_code,
        }
    }

    fn remove_leaving_member(
        &mut self,
        now_ms: i64,
        member: u32,
        cause: GoneCause,
        reason: Option<&str>,
    ) -> ErrorCode {
        if cause == GoneCause::Left {
            self.count_departure(now_ms, member);
            if self.puts_removal_off(now_ms, member, cause, reason) {
                return ErrorCode::None;
            }
        }
        self.tell_member_gone(now_ms, member, cause, reason);
        self.refuse_parked_join(member);
        self.remove_member(member);
        ErrorCode::None
    }

    /// Answers UNKNOWN_MEMBER_ID to a member that waits for a join phase to end.
    pub fn refuse_parked_join(&mut self, member: u32) {
        if self.registry.members[member].has(flag::AWAITING_JOIN)
            && let Some(ticket) = self.unpark(member)
        {
            self.refuse_join(ticket, "", ErrorCode::UnknownMemberId);
        }
    }

    /// Takes a member out of its group, with its timer. A parked request that was not refused
    /// before is never answered: so does Kafka with a leaving member's SyncGroup (probe P8).
    pub fn remove_member(&mut self, member: u32) {
        let group = self.registry.members[member].group;
        self.remember_subscribed_topics(group);
        self.give_up_parked(member);
        self.end_pending_sync(member);
        self.count_protocols(member, -1);
        let removed = self.registry.detach_member(member);
        self.wheel.cancel(removed.timer);
    }

    /// The group waits for one SyncGroup less. The sync timer is the caller's.
    pub fn end_pending_sync(&mut self, member: u32) {
        if self.registry.members[member].has(flag::PENDING_SYNC) {
            self.registry.members[member].clear(flag::PENDING_SYNC);
            let group = self.registry.members[member].group;
            self.rebalance_mut(group).pending_sync -= 1;
        }
    }

    /// An id that was handed out and has not come back.
    pub fn find_pending(&self, group: u32, member_id: &str) -> Option<u32> {
        let soft = self.classic(group).rebalance.as_ref()?;
        soft.pending.find(&self.registry.members, self.registry.hash(member_id), member_id)
    }

    pub fn insert_pending(&mut self, group: u32, member_id: &str) -> u32 {
        let mut row = Member::new(&Details { member_id, ..Details::default() }, 0, 0);
        row.group = group;
        row.set(flag::PENDING);
        let pending = self.registry.members.insert(row);
        let hash = self.registry.hash(member_id);
        self.rebalance_mut(group).pending.insert(hash, pending);
        pending
    }

    pub fn remove_pending(&mut self, pending: u32) {
        let removed = self.registry.members.remove(pending);
        let hash = self.registry.hash(removed.member_id());
        self.rebalance_mut(removed.group).pending.remove(hash, pending);
        self.wheel.cancel(removed.timer);
    }
}
