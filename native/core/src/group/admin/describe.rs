//! DescribeGroups (states section 9.1): one group, its members, and what they were assigned.

use crate::error::ErrorCode;
use crate::group::Machine;
use crate::group::classic::state::{DEAD, State};
use crate::request::{DescribeGroupRequest, RequestContext};
use crate::response::{DescribeGroupResponse, DescribedGroupMember, Response};

/// KIP-1043: from this version on a group that is not there is an error.
const GROUP_ID_NOT_FOUND_VERSION: i16 = 6;

impl Machine {
    pub fn describe_group(
        &mut self,
        context: &RequestContext<'_>,
        request: &DescribeGroupRequest<'_>,
    ) {
        match self.find_classic(request.group_id) {
            Ok(group) => {
                let response = Response::DescribeGroup(Box::new(self.describe(group)));
                self.respond_for_group(group, context.ticket, response);
            }
            Err(other) => {
                let what = match other {
                    Some(_) => "is not a classic group",
                    None => "not found",
                };
                let response = undescribed(context.api_version, request.group_id, what);
                self.respond_for_absent(
                    context.ticket,
                    Response::DescribeGroup(Box::new(response)),
                );
            }
        }
    }

    fn describe(&self, group: u32) -> DescribeGroupResponse {
        let of = self.group(group);
        let protocol = (of.state == State::Stable).then(|| of.protocol_name()).flatten();
        let described = |row: &u32| {
            let member = &self.registry.members[*row];
            let details = member.details();
            DescribedGroupMember {
                member_id: details.member_id.into(),
                group_instance_id: details.group_instance_id.map(Into::into),
                client_id: details.client_id.into(),
                client_host: details.client_host.into(),
                member_metadata: protocol.map_or(&[][..], |name| member.metadata(name)).into(),
                member_assignment: details.assignment.into(),
            }
        };
        DescribeGroupResponse {
            error_code: ErrorCode::None,
            error_message: None,
            group_id: of.id.as_str().into(),
            group_state: of.state.name(),
            protocol_type: of.protocol_type().into(),
            protocol_data: protocol.unwrap_or_default().into(),
            members: of.member_rows().iter().map(described).collect(),
        }
    }
}

fn undescribed(api_version: i16, group_id: &str, what: &str) -> DescribeGroupResponse {
    let is_error = api_version >= GROUP_ID_NOT_FOUND_VERSION;
    DescribeGroupResponse {
        error_code: if is_error { ErrorCode::GroupIdNotFound } else { ErrorCode::None },
        error_message: is_error.then(|| format!("Group {group_id} {what}.").into()),
        group_id: group_id.into(),
        group_state: DEAD,
        protocol_type: "".into(),
        protocol_data: "".into(),
        members: Vec::new(),
    }
}
