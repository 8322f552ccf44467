//! SyncGroup (`classicGroupSync`, states section 7.1): the leader sends the assignment, and
//! each member gets its part once the group is written.

use super::member::flag;
use super::state::State;
use crate::error::ErrorCode;
use crate::group::Machine;
use crate::group::counters::RebalanceCause;
use crate::group::watching::Asking;
use crate::request::{RequestContext, SyncGroupRequest, Ticket};
use crate::response::{Response, SyncGroupResponse};

impl Machine {
    pub fn sync_group(
        &mut self,
        now_ms: i64,
        context: &RequestContext<'_>,
        request: &SyncGroupRequest<'_>,
    ) {
        let (group, member) = match self.syncing_member(request) {
            Ok(found) => found,
            Err(error_code) => return self.sync_elsewhere(now_ms, context, request, error_code),
        };
        match self.classic(group).state {
            State::Empty => unreachable!("an empty group has no members"),
            State::PreparingRebalance => {
                self.refuse_sync(context.ticket, ErrorCode::RebalanceInProgress);
            }
            State::CompletingRebalance => {
                self.park(member, flag::AWAITING_SYNC, context.ticket);
                self.member_has_synced(member);
                if self.classic(group).leader == member {
                    self.assign(now_ms, group, request);
                }
            }
            State::Stable => {
                if self.classic(group).is_assigned_here() && !request.assignments.is_empty() {
                    self.replace_assignments(group, member);
                }
                self.member_has_synced(member);
                self.answer_sync(group, member, context.ticket);
            }
        }
    }

    /// Of no member of a classic group: refused, unless it is one of a consumer group.
    #[cold]
    fn sync_elsewhere(
        &mut self,
        now_ms: i64,
        context: &RequestContext<'_>,
        request: &SyncGroupRequest<'_>,
        error_code: ErrorCode,
    ) {
        let found = self.registry.find(request.group_id);
        let Some(group) = found.filter(|group| self.registry.is_consumer(*group)) else {
            self.tell_refused_sync(context, request, error_code);
            return self.refuse_sync(context.ticket, error_code);
        };
        match self.sync_in_consumer_group(now_ms, group, request) {
            Ok(response) => self.respond_for_group(group, context.ticket, response),
            Err(error_code) => {
                self.tell_refused_sync(context, request, error_code);
                self.refuse_sync(context.ticket, error_code);
            }
        }
    }

    fn tell_refused_sync(
        &mut self,
        context: &RequestContext<'_>,
        request: &SyncGroupRequest<'_>,
        error_code: ErrorCode,
    ) {
        let instance_id = request.group_instance_id;
        let asking = Asking::of(context, request.group_id, request.member_id, instance_id);
        self.tell_refused("SyncGroup", asking, error_code);
    }

    fn syncing_member(&self, request: &SyncGroupRequest<'_>) -> Result<(u32, u32), ErrorCode> {
        if request.group_id.is_empty() {
            return Err(ErrorCode::InvalidGroupId);
        }
        let group = self.find_classic(request.group_id).map_err(|_| ErrorCode::UnknownMemberId)?;
        let of = self.classic(group);
        let member = self.identify(group, request.member_id, request.group_instance_id)?;
        if request.generation_id != of.generation_id {
            return Err(ErrorCode::IllegalGeneration);
        }
        let differs = |given: Option<&str>, own: Option<&str>| {
            given.zip(own).is_some_and(|(given, own)| given != own)
        };
        let own_type = of.protocol_type.as_ref().map(|shared| &***shared);
        if differs(request.protocol_type, own_type)
            || differs(request.protocol_name, of.protocol_name())
        {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        Ok((group, member))
    }

    /// The last member to sync ends the wait for the others.
    fn member_has_synced(&mut self, member: u32) {
        let group = self.registry.members[member].group;
        let was_pending = self.registry.members[member].has(flag::PENDING_SYNC);
        self.end_pending_sync(member);
        if was_pending && self.rebalance_mut(group).pending_sync == 0 {
            let timer = core::mem::take(&mut self.rebalance_mut(group).sync_timer);
            self.wheel.cancel(timer);
            self.settle(group);
        }
    }

    /// The leader's SyncGroup. Members that it does not mention get nothing, ids of no member
    /// are ignored. The group is Stable at once; who waits is answered when the record is durable.
    fn assign(&mut self, now_ms: i64, group: u32, request: &SyncGroupRequest<'_>) {
        self.check_leader(group, request);
        let mut assignments: Vec<(u32, &[u8])> = Vec::with_capacity(request.assignments.len());
        for given in &request.assignments {
            if let Some(row) = self.registry.find_member(group, given.member_id) {
                assignments.push((row, given.assignment));
            }
        }
        let waiting: Vec<u32> = self.parked_syncs(group);
        if let Err(error_code) = self.emit_stable_group(now_ms, group, assignments) {
            self.reset_assignments(group);
            self.refuse_parked_syncs(now_ms, group, error_code);
            return self.prepare_rebalance(now_ms, group, RebalanceCause::RecordRefused);
        }
        self.tell_group_stable(now_ms, group);
        for member in waiting {
            self.restart_session(member, now_ms);
            if let Some(ticket) = self.unpark(member) {
                self.answer_sync(group, member, ticket);
            }
        }
        self.settle(group);
    }

    fn answer_sync(&mut self, group: u32, member: u32, ticket: Ticket) {
        let of = self.classic(group);
        let response = SyncGroupResponse {
            error_code: ErrorCode::None,
            protocol_type: of.protocol_type.as_ref().map(|shared| (**shared).clone()),
            protocol_name: of.protocol_name.as_ref().map(|shared| (**shared).clone()),
            assignment: self.registry.members[member].assignment().into(),
        };
        self.respond_for_group(group, ticket, Response::SyncGroup(response));
    }

    fn refuse_sync(&mut self, ticket: Ticket, error_code: ErrorCode) {
        let response = SyncGroupResponse {
            error_code,
            protocol_type: None,
            protocol_name: None,
            assignment: Box::default(),
        };
        self.outbox.respond(ticket, Response::SyncGroup(response));
    }

    /// Answers all parked SyncGroups with an error; their sessions start again.
    pub fn refuse_parked_syncs(&mut self, now_ms: i64, group: u32, error_code: ErrorCode) {
        for member in self.parked_syncs(group) {
            if let Some(ticket) = self.unpark(member) {
                self.refuse_sync(ticket, error_code);
            }
            self.restart_session(member, now_ms);
        }
    }

    pub fn reset_assignments(&mut self, group: u32) {
        for member in self.classic(group).member_rows().collect::<Vec<u32>>() {
            self.registry.members[member].store_assignment(&[]);
        }
    }

    fn parked_syncs(&self, group: u32) -> Vec<u32> {
        let is_parked = |row: &u32| self.registry.members[*row].has(flag::AWAITING_SYNC);
        self.classic(group).member_rows().filter(is_parked).collect()
    }
}
