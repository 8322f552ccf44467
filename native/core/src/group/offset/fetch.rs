//! OffsetFetch: every caller may (spec/offsets.md 4). The answer waits for what it tells.

use crate::error::ErrorCode;
use crate::group::Machine;
use crate::group::registry::GroupType;
use crate::offset::fetch;
use crate::request::{OffsetFetchRequest, RequestContext};
use crate::response::Response;

impl Machine {
    pub fn fetch_offsets(
        &mut self,
        context: &RequestContext<'_>,
        request: &OffsetFetchRequest<'_>,
    ) {
        let topics = &self.offsets.topics;
        let Some(group) = self.registry.find(request.group_id) else {
            let response = Response::OffsetFetch(fetch::fetch(None, topics, request));
            return self.respond_for_absent(context.ticket, response);
        };
        let of = &self.registry.groups[group];
        let names_member = request.member_id.is_some() || request.member_epoch >= 0;
        if of.group_type != GroupType::Classic && names_member {
            // The members of other groups are not known here, so this one is not.
            let response = fetch::refuse(request, ErrorCode::UnknownMemberId);
            return self.outbox.respond(context.ticket, Response::OffsetFetch(response));
        }
        // A group without offsets is no error either.
        self.outbox.make_when_committed(of.last_record_end, context.ticket, || {
            Response::OffsetFetch(fetch::fetch(of.offsets.as_deref(), topics, request))
        });
    }
}
