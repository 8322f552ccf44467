//! DescribeGroups (states section 9.1): one group, its members, and what they were assigned.

use crate::error::ErrorCode;
use crate::group::Machine;
use crate::group::classic::state::{DEAD, State};
use crate::request::{DescribeGroupRequest, RequestContext};
use crate::response::{DescribeGroupResponse, DescribedGroupMember, Response};

/// KIP-1043: from this version on a group that is not there is an error.
const GROUP_ID_NOT_FOUND_VERSION: i16 = 6;

/// Memory that a member of a description takes besides its strings and bytes: five allocations.
const MEMBER_BYTES: usize = 256;

impl Machine {
    pub fn describe_group(
        &mut self,
        context: &RequestContext<'_>,
        request: &DescribeGroupRequest<'_>,
    ) {
        match self.find_classic(request.group_id) {
            Ok(group) => {
                let left = self.budget.left(context.ticket);
                let bytes = self.description_bytes(group, left);
                let response = match self.budget.take(context.ticket, bytes) {
                    Ok(()) => self.describe(group),
                    Err(error_code) => DescribeGroupResponse::refused(request.group_id, error_code),
                };
                let response = Response::DescribeGroups(Box::new(response));
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
                    Response::DescribeGroups(Box::new(response)),
                );
            }
        }
    }

    /// Memory that a description takes; if it is more than `most`, anything above that.
    pub fn description_bytes(&self, group: u32, most: usize) -> usize {
        let of = self.classic(group);
        let least = MEMBER_BYTES * (1 + of.member_count());
        if least > most {
            return least;
        }
        let protocol = (of.state == State::Stable).then(|| of.protocol_name()).flatten();
        let bytes = |row| {
            let member = &self.registry.members[row];
            let details = member.details_but_protocols();
            let texts = [details.member_id, details.client_id, details.client_host];
            MEMBER_BYTES
                + texts.map(str::len).iter().sum::<usize>()
                + details.group_instance_id.map_or(0, str::len)
                + details.assignment.len()
                + protocol.map_or(0, |name| member.metadata(name).len())
        };
        let mut sum = MEMBER_BYTES + self.group(group).id.as_bytes().len();
        for row in of.member_rows() {
            sum += bytes(row);
            if sum > most {
                break;
            }
        }
        sum
    }

    fn describe(&self, group: u32) -> DescribeGroupResponse {
        let of = self.classic(group);
        let protocol = (of.state == State::Stable).then(|| of.protocol_name()).flatten();
        let described = |row: u32| {
            let member = &self.registry.members[row];
            let details = member.details_but_protocols();
            DescribedGroupMember {
                member_id: details.member_id.into(),
                group_instance_id: details.group_instance_id.map(Into::into),
                client_id: details.client_id.into(),
                client_host: details.client_host.into(),
                member_metadata: member
                    .share(protocol.map_or(&[][..], |name| member.metadata(name))),
                member_assignment: member.share(details.assignment),
            }
        };
        DescribeGroupResponse {
            error_code: ErrorCode::None,
            error_message: None,
            group_id: self.group(group).id.as_str().into(),
            group_state: of.state.name(),
            protocol_type: of.protocol_type().into(),
            protocol_data: protocol.unwrap_or_default().into(),
            members: of.member_rows().map(described).collect(),
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
