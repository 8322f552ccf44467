//! ListGroups (states section 9.2): the groups of this shard, by id.

use crate::error::ErrorCode;
use crate::group::Machine;
use crate::group::registry::GroupType;
use crate::request::{ListGroupsRequest, RequestContext};
use crate::response::{ListGroupsResponse, ListedGroup, Response};

/// What Kafka's clients call a state that they do not know.
const UNKNOWN_STATE: &str = "Unknown";

impl Machine {
    pub fn list_groups(&mut self, context: &RequestContext<'_>, request: &ListGroupsRequest<'_>) {
        let rows = self.registry.sorted_groups();
        let listed = rows.into_iter().map(|group| self.listed(group));
        let groups = listed.filter(|group| {
            accepts(&request.states_filter, group.group_state, str::trim)
                && accepts(&request.types_filter, group.group_type, |name| name)
        });
        let response = ListGroupsResponse { error_code: ErrorCode::None, groups: groups.collect() };
        let end_offset = self.outbox.next_offset();
        let response = Response::ListGroups(response);
        self.outbox.respond_when_committed(end_offset, context.ticket, response);
    }

    fn listed(&self, group: u32) -> ListedGroup {
        let of = self.group(group);
        let is_classic = of.group_type == GroupType::Classic;
        ListedGroup {
            group_id: of.id.as_str().into(),
            // Groups of the other types have the name of their type here too.
            protocol_type: if is_classic { of.protocol_type() } else { of.group_type.name() }
                .into(),
            group_state: if is_classic { of.state.name() } else { UNKNOWN_STATE },
            group_type: of.group_type.name(),
        }
    }
}

/// No filter accepts all; names are compared without case. Kafka trims states and not types.
fn accepts(filter: &[&str], name: &str, read: fn(&str) -> &str) -> bool {
    filter.is_empty() || filter.iter().any(|wanted| read(wanted).eq_ignore_ascii_case(name))
}
