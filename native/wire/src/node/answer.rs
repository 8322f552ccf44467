//! A core response becomes a reply frame: at once, or when the last of its parts is there.

use kcoord_core::ErrorCode;
use kcoord_core::request::{
    HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest,
};
use kcoord_core::response::{
    DeleteGroupsResponse, OffsetFetchResponse, OffsetFetchResponseBuilder, Response,
};

use super::gather::{FetchPart, Gather, Parts};
use super::slots::Header;
use super::topics::Topics;
use super::{Node, Turn};
use crate::api::{self, RequestBody};
use crate::header::{ApiKey, begin_response};
use crate::outcome::Outcome;

impl Node {
    /// Writes the reply that `response` makes possible; an abandoned request's is dropped.
    pub(super) fn answer(&mut self, core_ticket: u64, response: Response, turn: &mut Turn) {
        let Some((header, gather, part)) = self.slots.find(core_ticket) else { return };
        let out = &mut turn.buffer;
        let start;
        let mut outcome = None;
        if let Some(gather) = gather {
            if !gather.take(part, response) {
                return;
            }
            let gather = self.slots.close(core_ticket).expect("it was gathering");
            start = begin_response(out, header.api, header.version, header.correlation_id);
            encode_gathered(out, &header, *gather, &self.topics);
        } else {
            self.slots.close(core_ticket);
            start = begin_response(out, header.api, header.version, header.correlation_id);
            encode(out, &header, &response);
            if turn.outcomes.is_some() {
                outcome = Outcome::of_response(response);
            }
        }
        turn.end_reply(header.ticket, start, outcome);
    }
}

fn encode(out: &mut Vec<u8>, header: &Header, response: &Response) {
    let version = header.version;
    match response {
        Response::Heartbeat(code) => api::heartbeat::encode_response(out, version, *code),
        Response::JoinGroup(response) => api::join_group::encode_response(out, version, response),
        Response::SyncGroup(response) => api::sync_group::encode_response(out, version, response),
        Response::LeaveGroup(response) => api::leave_group::encode_response(out, version, response),
        Response::OffsetCommit(response) => {
            api::offset_commit::encode_response(out, version, response);
        }
        Response::OffsetFetch(response) => {
            api::offset_fetch::encode_response(out, version, std::slice::from_ref(response));
        }
        Response::OffsetDelete(response) => {
            api::offset_delete::encode_response(out, version, response);
        }
        Response::Dropped(code) => encode_dropped(out, header, *code),
        other => unreachable!("{other:?} comes in parts"),
    }
}

fn encode_gathered(out: &mut Vec<u8>, header: &Header, gather: Gather, topics: &Topics) {
    let version = header.version;
    match gather.parts {
        Parts::OffsetCommit(response) => {
            api::offset_commit::encode_response(out, version, &response);
        }
        Parts::OffsetDelete(response) => {
            api::offset_delete::encode_response(out, version, &response);
        }
        Parts::OffsetFetch(parts) => {
            let groups: Vec<OffsetFetchResponse> =
                parts.into_iter().map(|part| fetched(part, version, topics)).collect();
            api::offset_fetch::encode_response(out, version, &groups);
        }
        Parts::DescribeGroups { groups, authorized_operations } => {
            let described = groups.iter().map(|group| group.as_ref().expect("all are there"));
            api::describe_groups::encode_response(out, version, described, authorized_operations);
        }
        Parts::DeleteGroups { results, .. } => {
            let response = DeleteGroupsResponse { results };
            api::delete_groups::encode_response(out, version, &response);
        }
        Parts::ListGroups(response) => api::list_groups::encode_response(out, version, &response),
    }
}

/// By id (v10), an answer for all topics leaves out those that the catalogue does not know.
fn fetched(part: FetchPart, version: i16, topics: &Topics) -> OffsetFetchResponse {
    let told = part.response.expect("all are there");
    if version < 10 || !part.all && part.unknown.is_empty() {
        return told;
    }
    let (group_id, error_code) = (told.group_id(), told.error_code());
    let mut response =
        OffsetFetchResponseBuilder::with_room(group_id, error_code, told.topics_length());
    for topic in told.topics() {
        let known = if part.all { topics.topic_id(topic.name()) } else { Some(topic.topic_id) };
        if let Some(topic_id) = known {
            response.push_topic(topic.name(), topic_id, topic.partitions);
        }
    }
    for (topic_id, partitions) in part.unknown {
        response.push_absent("", topic_id, &partitions, ErrorCode::UnknownTopicId);
    }
    response.finish()
}

/// A membership request whose shard went away while it waited.
fn encode_dropped(out: &mut Vec<u8>, header: &Header, code: ErrorCode) {
    let (group_id, member_id, group_instance_id) = ("", "", None);
    let request = match header.api {
        ApiKey::JoinGroup => RequestBody::JoinGroup(JoinGroupRequest {
            group_id,
            session_timeout_ms: 0,
            rebalance_timeout_ms: 0,
            member_id,
            group_instance_id,
            protocol_type: "",
            protocols: Vec::new(),
            reason: None,
        }),
        ApiKey::SyncGroup => RequestBody::SyncGroup(SyncGroupRequest {
            group_id,
            generation_id: -1,
            member_id,
            group_instance_id,
            protocol_type: None,
            protocol_name: None,
            assignments: Vec::new(),
        }),
        ApiKey::LeaveGroup => {
            RequestBody::LeaveGroup(LeaveGroupRequest { group_id, members: Vec::new() })
        }
        ApiKey::Heartbeat => RequestBody::Heartbeat(HeartbeatRequest {
            group_id,
            generation_id: -1,
            member_id,
            group_instance_id,
        }),
        other => unreachable!("a dropped {other:?} is answered in its own shape"),
    };
    api::encode_error(out, header.version, &request, code);
}
