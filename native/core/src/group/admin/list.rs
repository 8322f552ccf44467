//! ListGroups (states section 9.2): groups of this shard, by id.

use crate::error::ErrorCode;
use crate::group::Machine;
use crate::group::kind::STATE_NAMES;
use crate::record::GroupType;
use crate::request::{ListGroupsRequest, RequestContext};
use crate::response::{ListGroupsResponse, ListedGroup, Response};

/// What a group in a list takes besides its id and protocol type, encoded: its state, its type and
/// the lengths of these.
const LISTED_BYTES: usize = 40;

impl Machine {
    pub fn list_groups(
        &mut self,
        context: &RequestContext<'_>,
        request: &ListGroupsRequest<'_>,
        rows: Vec<u32>,
    ) {
        let bytes = rows.iter().map(|group| self.listed_bytes(*group)).sum();
        if let Err(error_code) = self.budget.take_of_list(context.ticket, bytes) {
            let response = ListGroupsResponse { error_code, groups: Vec::new() };
            return self.outbox.respond(context.ticket, Response::ListGroups(response));
        }
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

    /// Memory that a listed group takes. Lists are encoded as they are gathered.
    fn listed_bytes(&self, group: u32) -> usize {
        let of = self.group(group);
        LISTED_BYTES + of.id.as_bytes().len() + of.protocol_type().len()
    }

    fn listed(&self, group: u32) -> ListedGroup {
        let of = self.group(group);
        ListedGroup {
            group_id: of.id.as_str().into(),
            protocol_type: of.protocol_type().into(),
            group_state: self.state_name(group),
            group_type: of.group_type().name(),
        }
    }
}

impl ListGroupsRequest<'_> {
    /// The same, with each name that there is at most once: a peer may send any number of names,
    /// and each is compared with each group.
    pub fn of_known_names(&self) -> ListGroupsRequest<'static> {
        ListGroupsRequest {
            states_filter: known(&self.states_filter, STATE_NAMES, str::trim),
            types_filter: known(&self.types_filter, GroupType::ALL.map(GroupType::name), |name| {
                name
            }),
        }
    }
}

/// The names that a filter accepts; one that accepts none of them has a name of nothing.
fn known(
    filter: &[&str],
    names: impl IntoIterator<Item = &'static str>,
    read: fn(&str) -> &str,
) -> Vec<&'static str> {
    if filter.is_empty() {
        return Vec::new();
    }
    let mut known: Vec<_> = names.into_iter().filter(|name| accepts(filter, name, read)).collect();
    if known.is_empty() {
        known.push("");
    }
    known
}

/// No filter accepts all; names are compared without case. Kafka trims states and not types.
fn accepts(filter: &[&str], name: &str, read: fn(&str) -> &str) -> bool {
    filter.is_empty() || filter.iter().any(|wanted| read(wanted).eq_ignore_ascii_case(name))
}
