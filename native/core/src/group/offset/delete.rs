//! OffsetDelete: from which group, and which topics (offsets section 5).

use crate::error::ErrorCode;
use crate::group::Machine;
use crate::limits::check_partitions;
use crate::offset::delete;
use crate::request::{OffsetDeleteRequest, RequestContext};
use crate::response::Response;

impl Machine {
    pub fn delete_offsets(
        &mut self,
        now_ms: i64,
        context: &RequestContext<'_>,
        request: &OffsetDeleteRequest<'_>,
    ) {
        let partitions = request.topics.iter().map(|topic| topic.partitions.len()).sum();
        let admitted = self.group_to_delete_from(request.group_id).and_then(|group| {
            check_partitions(partitions)?;
            Ok(group)
        });
        let group = match admitted {
            Ok(group) => group,
            Err(error_code) => {
                let response = Response::OffsetDelete(delete::refuse(error_code));
                return self.outbox.respond(context.ticket, response);
            }
        };
        let topics = self.consumed_topics(group);
        let start_offset = self.outbox.next_offset();
        let of = &mut self.registry.groups[group];
        let mut scope = of.offset_scope(&mut self.offsets);
        let subscribed = |topic: &str| topics.contains(topic);
        let response = delete::delete(&mut scope, request, subscribed, now_ms, &mut self.outbox);
        self.offsets_written(group, start_offset);
        self.respond_for_group(group, context.ticket, Response::OffsetDelete(response));
    }

    fn group_to_delete_from(&self, group_id: &str) -> Result<u32, ErrorCode> {
        if group_id.is_empty() {
            return Err(ErrorCode::InvalidGroupId);
        }
        let group = self.registry.find(group_id).ok_or(ErrorCode::GroupIdNotFound)?;
        self.check_is_whole(group)?;
        self.admit_offset_delete(group)?;
        Ok(group)
    }
}
