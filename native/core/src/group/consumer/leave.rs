//! A member leaves: for good, or as a static one for a while (consumer-protocol section 7).

use super::located::{fenced_instance, unknown_instance, unknown_member};
use super::member::LEFT_FOR_A_WHILE;
use super::reconcile::Next;
use crate::error::ErrorCode;
use crate::event::GoneCause;
use crate::group::Machine;
use crate::request::ConsumerGroupHeartbeatRequest;
use crate::response::{ConsumerGroupHeartbeatResponse, Refusal};
use crate::topic_partition::AssignedPartition;

type Request<'a> = ConsumerGroupHeartbeatRequest<'a>;

impl Machine {
    pub fn consumer_leaves(
        &mut self,
        now_ms: i64,
        request: &Request<'_>,
    ) -> Result<(i64, ConsumerGroupHeartbeatResponse), Refusal> {
        let (group, row) = self.leaving_member(request)?;
        let response = ConsumerGroupHeartbeatResponse {
            member_id: self.registry.consumer_members[row].id.clone(),
            member_epoch: request.member_epoch,
            heartbeat_interval_ms: 0,
            assignment: None,
        };
        let group = if request.member_epoch == LEFT_FOR_A_WHILE {
            self.emit_left_for_a_while(now_ms, group, row);
            group
        } else {
            self.fence_member(now_ms, row, GoneCause::Left)
        };
        Ok((self.group(group).last_record_end, response))
    }

    fn leaving_member(&self, request: &Request<'_>) -> Result<(u32, u32), Refusal> {
        let group_id = request.group_id;
        let found = self.registry.find(group_id).filter(|row| self.registry.is_consumer(*row));
        let Some(group) = found else {
            let reason = format!("Group {group_id} is not a consumer group.");
            return Err(Refusal::new(ErrorCode::GroupIdNotFound, reason));
        };
        let of = self.registry.consumer(group);
        let members = &self.registry.consumer_members;
        let row = match request.instance_id {
            None => of.find(members, request.member_id).ok_or_else(|| unknown_member(request))?,
            Some(instance_id) => match of.static_members.get(instance_id).copied() {
                None => return Err(unknown_instance(instance_id)),
                Some(row) if *members[row].id != *request.member_id => {
                    return Err(fenced_instance(&members[row], request.member_id, instance_id));
                }
                Some(row) => row,
            },
        };
        Ok((group, row))
    }

    /// It keeps its partitions, but what it was to give up is free. Its session goes on, and ends
    /// its membership if it does not return.
    fn emit_left_for_a_while(&mut self, now_ms: i64, group: u32, row: u32) {
        let member = &self.registry.consumer_members[row];
        let next = Next {
            state: member.state,
            member_epoch: LEFT_FOR_A_WHILE,
            previous_member_epoch: member.previous_member_epoch,
            // The member that comes back may commit them with any epoch.
            assigned: {
                let had = member.assigned.iter();
                had.map(|had| AssignedPartition { at: had.at, epoch: 0 }).collect()
            },
            revoking: Vec::new(),
        };
        self.emit_current(now_ms, group, row, &next.as_current());
    }
}
