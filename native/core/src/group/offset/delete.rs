//! OffsetDelete: from which group, and which topics (spec/offsets.md 5).

use crate::error::ErrorCode;
use crate::group::Machine;
use crate::group::classic::state::State;
use crate::group::subscription::{CONSUMER_PROTOCOL_TYPE, SubscribedTopics};
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
        let group = match self.group_to_delete_from(request.group_id) {
            Ok(group) => group,
            Err(error_code) => {
                let response = Response::OffsetDelete(delete::refuse(error_code));
                return self.outbox.respond(context.ticket, response);
            }
        };
        let topics = self.subscribed_topics(group);
        let start_offset = self.outbox.next_offset();
        let of = &mut self.registry.groups[group];
        let is_consumers = of.protocol_type() == CONSUMER_PROTOCOL_TYPE;
        let mut scope = of.offset_scope(&mut self.offsets);
        let subscribed = |topic: &str| is_subscribed(&topics, is_consumers, topic);
        let response = delete::delete(&mut scope, request, subscribed, now_ms, &mut self.outbox);
        self.offsets_written(group, start_offset);
        self.respond_for_group(group, context.ticket, Response::OffsetDelete(response));
    }

    fn group_to_delete_from(&self, group_id: &str) -> Result<u32, ErrorCode> {
        if group_id.is_empty() {
            return Err(ErrorCode::InvalidGroupId);
        }
        // What a group of another type subscribes to is not known here: nothing of it may go.
        let group = self.find_classic(group_id).map_err(|other| match other {
            Some(_) => ErrorCode::NonEmptyGroup,
            None => ErrorCode::GroupIdNotFound,
        })?;
        let of = self.group(group);
        if of.state != State::Empty && of.protocol_type() != CONSUMER_PROTOCOL_TYPE {
            return Err(ErrorCode::NonEmptyGroup);
        }
        Ok(group)
    }
}

/// `isSubscribedToTopic`: consumers whose subscription is unknown count as subscribed to all.
pub fn is_subscribed(topics: &SubscribedTopics, is_consumers: bool, topic: &str) -> bool {
    match topics {
        Some(topics) => topics.contains(topic),
        None => is_consumers,
    }
}
