//! What a JoinGroup is answered (states section 5.10).

use kcoord_timer::slab::NO_ROW;

use crate::error::ErrorCode;
use crate::group::Machine;
use crate::request::Ticket;
use crate::response::{JoinGroupResponse, JoinGroupResponseMember, Response};

impl Machine {
    /// Success: the current generation; who is in it is for the leader alone.
    pub fn joined(&self, group: u32, member: u32) -> JoinGroupResponse {
        let members =
            if self.is_leader(group, member) { self.joined_members(group) } else { Vec::new() };
        JoinGroupResponse { members, ..self.joined_as_follower(group, member) }
    }

    /// Bytes of the members' subscriptions, if the answer to this member holds them.
    pub fn joined_bytes(&self, group: u32, member: u32) -> usize {
        if !self.is_leader(group, member) {
            return 0;
        }
        let of = self.classic(group);
        let protocol_name = of.protocol_name().unwrap_or_default();
        let bytes = |row: u32| 128 + self.registry.members[row].metadata(protocol_name).len();
        of.member_rows().map(bytes).sum()
    }

    /// Success, for a member that must not assign.
    pub fn joined_as_follower(&self, group: u32, member: u32) -> JoinGroupResponse {
        let of = self.classic(group);
        JoinGroupResponse {
            error_code: ErrorCode::None,
            generation_id: of.generation_id,
            protocol_type: of.protocol_type.as_ref().map(|shared| (**shared).clone()),
            protocol_name: of.protocol_name.as_ref().map(|shared| (**shared).clone()),
            leader: self.leader_id(group).into(),
            skip_assignment: false,
            member_id: self.registry.members[member].member_id().into(),
            members: Vec::new(),
        }
    }

    /// The leader in answers to members: empty where the coordinator assigns. All that a known
    /// client does with it is to compare it with its own id.
    pub fn leader_id(&self, group: u32) -> &str {
        match self.classic(group).leader {
            NO_ROW => "",
            _ if self.classic(group).is_assigned_here() => "",
            row => self.registry.members[row].member_id(),
        }
    }

    pub fn is_leader(&self, group: u32, member: u32) -> bool {
        self.classic(group).leader == member && !self.classic(group).is_assigned_here()
    }

    /// An error, or MEMBER_ID_REQUIRED with the id to come back with. Waits for nothing.
    pub fn refuse_join(&mut self, ticket: Ticket, member_id: &str, error_code: ErrorCode) {
        let response = JoinGroupResponse {
            error_code,
            generation_id: -1,
            protocol_type: None,
            protocol_name: None,
            leader: "".into(),
            skip_assignment: false,
            member_id: member_id.into(),
            members: Vec::new(),
        };
        self.outbox.respond(ticket, Response::JoinGroup(Box::new(response)));
    }

    fn joined_members(&self, group: u32) -> Vec<JoinGroupResponseMember> {
        let of = self.classic(group);
        let protocol_name = of.protocol_name().unwrap_or_default();
        let joined = |row: u32| {
            let member = &self.registry.members[row];
            JoinGroupResponseMember {
                member_id: member.member_id().into(),
                group_instance_id: member.group_instance_id().map(Into::into),
                metadata: member.share(member.metadata(protocol_name)),
            }
        };
        of.member_rows().map(joined).collect()
    }
}
