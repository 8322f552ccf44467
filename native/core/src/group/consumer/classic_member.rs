//! A classic member of a consumer group: who it is, its Heartbeat, and its SyncGroup
//! (consumer-protocol section 9). Its generation is its member epoch.

use super::classic_assignment::{encoded_assignment, version_of};
use super::member::{ClassicMember, Member};
use crate::catalogue::known;
use crate::error::ErrorCode;
use crate::group::Machine;
use crate::group::classic::subscription::CONSUMER_PROTOCOL_TYPE;
use crate::record::consumer::MemberState;
use crate::request::{HeartbeatRequest, SyncGroupRequest};
use crate::response::{Response, SyncGroupResponse};
use crate::topic_partition::contains;

impl ClassicMember {
    /// The protocol that it is answered with, and its metadata: the first that it lists.
    pub fn first_protocol(&self) -> Option<(&str, &[u8])> {
        self.protocols.first().map(|(name, metadata)| (&**name, &**metadata))
    }
}

impl Machine {
    /// A member's row, or the error of one that is unknown or fenced.
    pub fn identify_consumer(
        &self,
        group: u32,
        member_id: &str,
        instance_id: Option<&str>,
    ) -> Result<u32, ErrorCode> {
        let of = self.registry.consumer(group);
        let members = &self.registry.consumer_members;
        let Some(instance_id) = instance_id else {
            return of.find(members, member_id).ok_or(ErrorCode::UnknownMemberId);
        };
        let row = of.static_members.get(instance_id).ok_or(ErrorCode::UnknownMemberId)?;
        if *members[*row].id == *member_id { Ok(*row) } else { Err(ErrorCode::FencedInstanceId) }
    }

    /// The same for a request that only a classic member may send, with its generation.
    fn classic_member(
        &self,
        group: u32,
        member_id: &str,
        instance_id: Option<&str>,
        generation_id: i32,
    ) -> Result<(u32, &ClassicMember), ErrorCode> {
        let row = self.identify_consumer(group, member_id, instance_id)?;
        let member = &self.registry.consumer_members[row];
        let classic = member.classic.as_deref().ok_or(ErrorCode::UnknownMemberId)?;
        if generation_id == member.member_epoch {
            Ok((row, classic))
        } else {
            Err(ErrorCode::IllegalGeneration)
        }
    }

    /// REBALANCE_IN_PROGRESS tells it to join again: its target is a newer one, it has partitions to
    /// give up, what it waited for is free, or nobody else is there to have a new target computed.
    pub fn heartbeat_of_classic_member(
        &mut self,
        now_ms: i64,
        group: u32,
        request: &HeartbeatRequest<'_>,
    ) -> ErrorCode {
        let (instance_id, generation_id) = (request.group_instance_id, request.generation_id);
        let found = self.classic_member(group, request.member_id, instance_id, generation_id);
        let (row, session_timeout_ms) = match found {
            Ok((row, classic)) => (row, classic.session_timeout_ms),
            Err(error_code) => return error_code,
        };
        self.renew_consumer_session_with(now_ms, row, session_timeout_ms);
        if !self.must_join_again(group, row) && !self.must_have_target(now_ms, group) {
            return ErrorCode::None;
        }
        self.await_join(now_ms, row);
        ErrorCode::RebalanceInProgress
    }

    /// Whether new targets are due that no heartbeat of the consumer protocol will ask for, because all
    /// members are classic ones. Kafka leaves such a group in Assigning.
    fn must_have_target(&mut self, now_ms: i64, group: u32) -> bool {
        let of = self.registry.consumer(group);
        if of.classic_count() < of.members.len() {
            return false;
        }
        self.update_group_epoch(now_ms, group, None, None);
        self.is_target_due(now_ms, group)
    }

    fn must_join_again(&mut self, group: u32, row: u32) -> bool {
        let (of, members) = self.registry.consumer_and_members(group);
        let member = &members[row];
        if member.member_epoch < of.assignment_epoch {
            return true;
        }
        match member.state {
            MemberState::Stable | MemberState::Unknown => false,
            MemberState::UnrevokedPartitions => true,
            MemberState::UnreleasedPartitions => {
                of.know_owned(members);
                let member = &members[row];
                let is_missing = |at| !contains(&member.assigned, at);
                let mut missing = member.target().iter().filter(|at| is_missing(**at));
                !missing.any(|at| of.is_owned(*at))
            }
        }
    }

    pub fn sync_in_consumer_group(
        &mut self,
        now_ms: i64,
        group: u32,
        request: &SyncGroupRequest<'_>,
    ) -> Result<Response, ErrorCode> {
        let (instance_id, generation_id) = (request.group_instance_id, request.generation_id);
        let (row, classic) =
            self.classic_member(group, request.member_id, instance_id, generation_id)?;
        let (protocol, metadata) = classic.first_protocol().ok_or(ErrorCode::UnknownServerError)?;
        let differs = |given: Option<&str>, own| given.is_some_and(|given| given != own);
        if differs(request.protocol_type, CONSUMER_PROTOCOL_TYPE)
            || differs(request.protocol_name, protocol)
        {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        let member = &self.registry.consumer_members[row];
        let assignment_epoch = self.registry.consumer(group).assignment_epoch;
        if assignment_epoch > member.member_epoch
            && member.state != MemberState::UnrevokedPartitions
        {
            self.await_join(now_ms, row);
            return Err(ErrorCode::RebalanceInProgress);
        }
        let version = version_of(metadata).ok_or(ErrorCode::UnknownServerError)?;
        let session_timeout_ms = classic.session_timeout_ms;
        let response = SyncGroupResponse {
            error_code: ErrorCode::None,
            protocol_type: request.protocol_type.map(Into::into),
            protocol_name: request.protocol_name.map(Into::into),
            assignment: self.classic_assignment(member, version),
        };
        self.stop_awaiting_sync(row);
        self.renew_consumer_session_with(now_ms, row, session_timeout_ms);
        Ok(Response::SyncGroup(response))
    }

    fn classic_assignment(&self, member: &Member, version: i16) -> Box<[u8]> {
        let has: Vec<_> = member.assigned.iter().map(|has| has.at).collect();
        encoded_assignment(known(&self.catalogue), &has, version).into()
    }
}
