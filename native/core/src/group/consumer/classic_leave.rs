//! LeaveGroup of members of a consumer group, of either protocol (`classicGroupLeaveToConsumerGroup`,
//! consumer-protocol section 9): all at once, so that the group has one new epoch.

use crate::error::ErrorCode;
use crate::event::{EpochCause, GoneCause};
use crate::group::Machine;
use crate::request::{LeaveGroupMember, LeaveGroupRequest, RequestContext};
use crate::response::{LeaveGroupMemberResponse, LeaveGroupResponse, Response};

impl Machine {
    pub fn leave_consumer_group(
        &mut self,
        now_ms: i64,
        group: u32,
        context: &RequestContext<'_>,
        request: &LeaveGroupRequest<'_>,
    ) {
        let mut members = Vec::with_capacity(request.members.len());
        let mut leaving: Vec<(u32, &LeaveGroupMember<'_>)> = Vec::new();
        for entry in &request.members {
            let error_code = match self.leaving_from_consumer_group(group, entry) {
                Ok(row) => {
                    leaving.push((row, entry));
                    ErrorCode::None
                }
                Err(error_code) => error_code,
            };
            members.push(LeaveGroupMemberResponse {
                member_id: entry.member_id.into(),
                group_instance_id: entry.group_instance_id.map(Into::into),
                error_code,
            });
        }
        let response =
            Response::LeaveGroup(LeaveGroupResponse { error_code: ErrorCode::None, members });
        if leaving.is_empty() {
            return self.outbox.respond(context.ticket, response);
        }
        leaving.sort_by_key(|(row, _)| *row);
        leaving.dedup_by_key(|(row, _)| *row);
        for (row, entry) in &leaving {
            let is_by_admin = entry.member_id.is_empty();
            let cause = if is_by_admin { GoneCause::RemovedByAdmin } else { GoneCause::Left };
            self.tell_consumer_gone(now_ms, *row, cause, entry.reason);
        }
        let rows: Vec<u32> = leaving.iter().map(|(row, _)| *row).collect();
        let group = self.fence_members(now_ms, group, &rows, EpochCause::MemberLeft);
        self.respond_for_group(group, context.ticket, response);
    }

    /// An administrator removes a static member without its member id.
    fn leaving_from_consumer_group(
        &self,
        group: u32,
        entry: &LeaveGroupMember<'_>,
    ) -> Result<u32, ErrorCode> {
        match (entry.member_id, entry.group_instance_id) {
            ("", Some(instance_id)) => {
                let found = self.registry.consumer(group).static_members.get(instance_id);
                found.copied().ok_or(ErrorCode::UnknownMemberId)
            }
            (member_id, instance_id) => self.identify_consumer(group, member_id, instance_id),
        }
    }
}
