//! JoinGroup (`classicGroupJoin`, states section 5): who may join, under which id, and whether
//! that starts a rebalance.

use kcoord_timer::slab::NO_ROW;

use super::identity::generate_member_id;
use super::member::{Details, Member, flag};
use super::protocol::protocols_match;
use super::state::State;
use crate::error::ErrorCode;
use crate::event::GoneCause;
use crate::group::Machine;
use crate::group::counters::RebalanceCause;
use crate::group::watching::Asking;
use crate::limits;
use crate::request::{JoinGroupRequest, RequestContext};
use crate::response::Response;

/// From this version on an id is handed out first, and the client comes back with it (KIP-394).
pub const MEMBER_ID_REQUIRED_VERSION: i16 = 4;

/// An answer that is smaller costs little more than what it answers, and is not counted.
const UNCOUNTED_BYTES: usize = 4_096;

impl Machine {
    pub fn join_group(
        &mut self,
        now_ms: i64,
        context: &RequestContext<'_>,
        request: &JoinGroupRequest<'_>,
    ) {
        let joined = self.group_to_join(now_ms, context, request).and_then(|group| {
            if self.registry.is_consumer(group) {
                let joined = self.join_consumer_group(now_ms, group, context, request);
                return joined.map_err(|error_code| (error_code, ""));
            }
            if self.holds_newcomer(now_ms, group, context, request) {
                self.settle(group);
                return Ok(());
            }
            let joined = if request.member_id.is_empty() {
                let joined = self.join_new_member(now_ms, group, context, request);
                joined.map_err(|error_code| (error_code, ""))
            } else {
                let joined = self.join_known_member(now_ms, group, context, request);
                // What Kafka trips over is answered by its last resort, which knows no member.
                let echoed = |error_code| match error_code {
                    ErrorCode::UnknownServerError => "",
                    _ => request.member_id,
                };
                joined.map_err(|error_code| (error_code, echoed(error_code)))
            };
            // What was counted to decide need not be kept if that changed nothing.
            self.settle(group);
            joined
        });
        if let Err((error_code, member_id)) = joined {
            let instance_id = request.group_instance_id;
            let asking = Asking::of(context, request.group_id, request.member_id, instance_id);
            self.tell_refused("JoinGroup", asking, error_code);
            self.refuse_join(context.ticket, member_id, error_code);
        }
    }

    /// Everything that comes before the member is looked at (states sections 3.1 and 5.1).
    fn group_to_join<'a>(
        &mut self,
        now_ms: i64,
        context: &RequestContext<'_>,
        request: &JoinGroupRequest<'a>,
    ) -> Result<u32, (ErrorCode, &'a str)> {
        if request.group_id.is_empty() {
            return Err((ErrorCode::InvalidGroupId, request.member_id));
        }
        let session_timeouts_ms =
            self.config.group_min_session_timeout_ms..=self.config.group_max_session_timeout_ms;
        if !session_timeouts_ms.contains(&request.session_timeout_ms) {
            return Err((ErrorCode::InvalidSessionTimeout, request.member_id));
        }
        limits::check_join_group(context, request).map_err(|code| (code, request.member_id))?;
        let found = self.find_classic(request.group_id);
        if let Ok(row) | Err(Some(row)) = found {
            self.check_is_whole(row).map_err(|error_code| (error_code, request.member_id))?;
        }
        let group = match found {
            Ok(group) => group,
            Err(Some(other)) if self.takes_classic_members(other) => return Ok(other),
            Err(Some(other)) if !self.group(other).gives_way_to_classic() => {
                return Err((ErrorCode::InconsistentGroupProtocol, ""));
            }
            Err(_) if !request.member_id.is_empty() => {
                return Err((ErrorCode::UnknownMemberId, request.member_id));
            }
            Err(other) => {
                let was_consumer = other.is_some_and(|other| self.registry.is_consumer(other));
                let left = other.and_then(|other| {
                    self.emit_group_tombstone(now_ms, other);
                    self.registry.find(request.group_id)
                });
                let group = self.emit_new_group(now_ms, request.group_id, left);
                if was_consumer {
                    self.tell_downgraded(group, None, 0);
                } else {
                    self.tell_group_created(group);
                }
                group
            }
        };
        if !self.accepts_joining_member(group, request.member_id) {
            self.forget_refused_member(now_ms, group, request.member_id);
            self.settle(group);
            return Err((ErrorCode::GroupMaxSizeReached, ""));
        }
        Ok(group)
    }

    /// Whether it is a consumer group with members: an Empty one gives way.
    fn takes_classic_members(&self, group: u32) -> bool {
        self.registry.is_consumer(group) && !self.group(group).is_empty()
    }

    /// `acceptJoiningMember`, states section 5.2.
    fn accepts_joining_member(&self, group: u32, member_id: &str) -> bool {
        let of = self.classic(group);
        let member = self.registry.find_member(group, member_id);
        let max_size = self.config.group_max_size;
        match of.state {
            State::Empty => true,
            State::PreparingRebalance => {
                let is_parked = |row| Member::has(&self.registry.members[row], flag::AWAITING_JOIN);
                let awaiting_join = of.rebalance.as_ref().map_or(0, |soft| soft.awaiting_join);
                member.is_some_and(is_parked) || awaiting_join < max_size
            }
            State::CompletingRebalance | State::Stable => {
                member.is_some() || of.member_count() < max_size
            }
        }
    }

    /// Kafka does not look here whether all others have joined by now (probe P1c).
    fn forget_refused_member(&mut self, now_ms: i64, group: u32, member_id: &str) {
        if let Some(member) = self.registry.find_member(group, member_id) {
            self.tell_member_gone(now_ms, member, GoneCause::GroupTooLarge, None);
            self.remove_member(member);
        }
        if let Some(pending) = self.find_pending(group, member_id) {
            self.remove_pending(pending);
        }
    }

    /// `classicGroupJoinNewMember`, states section 5.3. Errors answer without a member id.
    fn join_new_member(
        &mut self,
        now_ms: i64,
        group: u32,
        context: &RequestContext<'_>,
        request: &JoinGroupRequest<'_>,
    ) -> Result<(), ErrorCode> {
        if !self.supports_protocols(group, request) {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        let prefix = request.group_instance_id.unwrap_or(context.client_id);
        let member_id = generate_member_id(prefix, context.uuid);
        let is_static = request.group_instance_id.is_some();
        let known = request
            .group_instance_id
            .and_then(|instance_id| self.registry.find_static_member(group, instance_id));
        match known {
            Some(member) => {
                self.replace_static_member(now_ms, member, &member_id, context, request);
            }
            None if is_static || context.api_version < MEMBER_ID_REQUIRED_VERSION => {
                self.add_member(now_ms, group, &member_id, context, request);
            }
            None => self.hand_out_member_id(now_ms, group, &member_id, context, request)?,
        }
        Ok(())
    }

    /// KIP-394: only an id is kept. The second request has to carry everything again.
    fn hand_out_member_id(
        &mut self,
        now_ms: i64,
        group: u32,
        member_id: &str,
        context: &RequestContext<'_>,
        request: &JoinGroupRequest<'_>,
    ) -> Result<(), ErrorCode> {
        if self.rebalance_mut(group).pending.len() >= limits::MAX_PENDING_MEMBERS_PER_GROUP {
            return Err(ErrorCode::GroupMaxSizeReached);
        }
        let pending = self.insert_pending(group, member_id);
        self.restart_session_with(pending, now_ms, request.session_timeout_ms);
        self.refuse_join(context.ticket, member_id, ErrorCode::MemberIdRequired);
        Ok(())
    }

    /// `classicGroupJoinExistingMember`, states section 5.4. Errors answer with the member id.
    fn join_known_member(
        &mut self,
        now_ms: i64,
        group: u32,
        context: &RequestContext<'_>,
        request: &JoinGroupRequest<'_>,
    ) -> Result<(), ErrorCode> {
        if !self.supports_protocols(group, request) {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        if self.find_pending(group, request.member_id).is_some() {
            if request.group_instance_id.is_some() {
                // Static members never get such an id. Kafka trips over it with this code.
                return Err(ErrorCode::UnknownServerError);
            }
            self.add_member(now_ms, group, request.member_id, context, request);
            return Ok(());
        }
        let member = self.identify(group, request.member_id, request.group_instance_id)?;
        let is_unchanged =
            protocols_match(self.registry.members[member].protocols(), &request.protocols);
        let is_leader = self.is_leader(group, member);
        match self.classic(group).state {
            State::Empty => return Err(ErrorCode::UnknownMemberId),
            State::PreparingRebalance => {
                self.update_and_park(member, context, request);
                self.tell_member_rejoined(now_ms, member, request.reason);
                self.maybe_complete_join(now_ms, group, Some(member));
            }
            State::CompletingRebalance if is_unchanged => self.answer_now(group, member, context),
            State::Stable if is_unchanged && !is_leader => self.answer_now(group, member, context),
            State::CompletingRebalance | State::Stable => {
                if self.classic(group).state == State::CompletingRebalance {
                    // First: a member cannot wait for both of its answers.
                    self.refuse_parked_syncs(now_ms, group, ErrorCode::RebalanceInProgress);
                }
                let changed = match is_unchanged {
                    true => self.subscribed_for_event(group),
                    false => self.changed_metadata(member, request),
                };
                self.update_and_park(member, context, request);
                self.tell_member_rejoined(now_ms, member, request.reason);
                self.events.set_detail(changed);
                self.due_to(member, request.reason);
                let cause = match is_unchanged {
                    true => RebalanceCause::LeaderRejoined,
                    false => RebalanceCause::MetadataChanged,
                };
                self.prepare_rebalance(now_ms, group, cause);
            }
        }
        Ok(())
    }

    /// The answer to a resent JoinGroup: the generation that is there. Changes nothing. The leader's
    /// holds what all members subscribe to, and may be asked for at any rate.
    fn answer_now(&mut self, group: u32, member: u32, context: &RequestContext<'_>) {
        let bytes = self.joined_bytes(group, member);
        if bytes > UNCOUNTED_BYTES
            && let Err(error_code) = self.budget.take_again(context.ticket, bytes)
        {
            let member_id: Box<str> = self.registry.members[member].member_id().into();
            return self.refuse_join(context.ticket, &member_id, error_code);
        }
        let response = Response::JoinGroup(Box::new(self.joined(group, member)));
        self.respond_for_group(group, context.ticket, response);
    }

    fn update_and_park(
        &mut self,
        member: u32,
        context: &RequestContext<'_>,
        request: &JoinGroupRequest<'_>,
    ) {
        self.update_member(member, request);
        self.park(member, flag::AWAITING_JOIN, context.ticket);
    }

    /// Takes protocols and timeouts from a request (`updateMember`).
    pub fn update_member(&mut self, member: u32, request: &JoinGroupRequest<'_>) {
        let group = self.registry.members[member].group;
        self.remember_subscribed_topics(group);
        self.count_protocols(member, -1);
        let row = &mut self.registry.members[member];
        row.store_protocols(offered(request));
        row.session_timeout_ms = request.session_timeout_ms;
        row.rebalance_timeout_ms = request.rebalance_timeout_ms;
        self.count_protocols(member, 1);
    }

    /// `addMemberThenRebalanceOrCompleteJoin`, states section 5.5.
    fn add_member(
        &mut self,
        now_ms: i64,
        group: u32,
        member_id: &str,
        context: &RequestContext<'_>,
        request: &JoinGroupRequest<'_>,
    ) {
        self.remember_subscribed_topics(group);
        let is_initial = self.rebalance_mut(group).is_initial;
        if self.classic(group).state == State::PreparingRebalance && is_initial {
            self.classic_mut(group).new_member_added = true;
        }
        if let Some(pending) = self.find_pending(group, member_id) {
            self.remove_pending(pending);
        }
        if !self.classic(group).has_members() {
            self.registry.set_protocol_type(group, request.protocol_type);
        }
        let details = Details {
            member_id,
            group_instance_id: request.group_instance_id,
            client_id: context.client_id,
            client_host: context.client_host,
            assignment: &[],
            protocols: offered(request),
        };
        let mut row =
            Member::new(&details, request.session_timeout_ms, request.rebalance_timeout_ms);
        row.set(flag::NEW);
        let member = self.registry.members.insert(row);
        self.registry.attach_member(group, member);
        if self.classic(group).leader == NO_ROW {
            self.classic_mut(group).leader = member;
        }
        self.count_protocols(member, 1);
        self.park(member, flag::AWAITING_JOIN, context.ticket);
        // A parked client cannot heartbeat: CLASSIC_GROUP_NEW_MEMBER_JOIN_TIMEOUT_MS.
        self.restart_session_with(member, now_ms, self.config.new_member_join_timeout_ms);
        self.count_arrival(now_ms, member);
        self.tell_member_joined(member, request.reason);
        if self.classic(group).state.can_rebalance() {
            self.prepare_rebalance(now_ms, group, RebalanceCause::MemberJoined);
        } else {
            self.maybe_complete_join(now_ms, group, Some(member));
        }
    }
}

fn offered<'a>(request: &JoinGroupRequest<'a>) -> Vec<(&'a str, &'a [u8])> {
    request.protocols.iter().map(|protocol| (protocol.name, protocol.metadata)).collect()
}
