//! Heartbeat (`classicGroupHeartbeat`, states section 7.2): find the member, store its deadline.
//!
//! It must allocate nothing, write nothing, and touch the wheel only where a deadline moves back.

use super::state::State;
use crate::error::ErrorCode;
use crate::group::Machine;
use crate::request::HeartbeatRequest;

impl Machine {
    pub fn heartbeat(&mut self, now_ms: i64, request: &HeartbeatRequest<'_>) -> ErrorCode {
        if request.group_id.is_empty() {
            return ErrorCode::InvalidGroupId;
        }
        match self.registry.find(request.group_id) {
            Some(group) => self.heartbeat_in(group, now_ms, request),
            None => ErrorCode::UnknownMemberId,
        }
    }

    /// A heartbeat whose group was already looked up.
    pub fn heartbeat_in(
        &mut self,
        group: u32,
        now_ms: i64,
        request: &HeartbeatRequest<'_>,
    ) -> ErrorCode {
        let Some(of) = self.group(group).as_classic() else {
            return self.heartbeat_of_another_kind(now_ms, group, request);
        };
        let (state, generation_id) = (of.state, of.generation_id);
        let member = match self.identify(group, request.member_id, request.group_instance_id) {
            Ok(member) => member,
            Err(error_code) => return self.heartbeat_refused(request, error_code),
        };
        if request.generation_id != generation_id {
            return self.heartbeat_refused(request, ErrorCode::IllegalGeneration);
        }
        self.renew_session(member, now_ms);
        match state {
            State::Empty => unreachable!("an empty group has no members"),
            State::PreparingRebalance => ErrorCode::RebalanceInProgress,
            State::CompletingRebalance | State::Stable => ErrorCode::None,
        }
    }

    #[cold]
    #[inline(never)]
    fn heartbeat_of_another_kind(
        &mut self,
        now_ms: i64,
        group: u32,
        request: &HeartbeatRequest<'_>,
    ) -> ErrorCode {
        match self.registry.is_consumer(group) {
            true => self.heartbeat_of_classic_member(now_ms, group, request),
            false => ErrorCode::UnknownMemberId,
        }
    }
}
