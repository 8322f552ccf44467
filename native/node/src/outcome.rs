//! What a response came to, for the columns beside it: said by the response where one is the whole
//! answer, else read from its body, as its client would.

use kcoord_core::ErrorCode;
use kcoord_core::response::{JoinGroupResponse, Response};
use kcoord_wire::api::consumer_group_heartbeat;
use kcoord_wire::api::{self, ResponseBody};
use kcoord_wire::header::ApiKey;
use kcoord_wire::reader::Reader;

/// What a response amounts to, in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The first error that the response holds.
    pub error_code: ErrorCode,
    /// `None`: the response has none.
    pub generation: Option<i32>,
    /// The id that a join was answered with.
    pub member_id: Option<Box<str>>,
}

impl Outcome {
    /// `None`: what the client reads depends on the version.
    #[inline]
    pub fn of_response(response: Response) -> Option<Self> {
        match response {
            Response::Heartbeat(code) => Some(Outcome::of(code)),
            Response::JoinGroup(response) => Some(joined(*response)),
            Response::ConsumerGroupHeartbeat(answer) => Some(beaten(answer)),
            response => {
                let mut first = ErrorCode::None;
                let is_told = api::each_code_of_whole(&response, |code| keep(&mut first, code));
                is_told.then(|| Outcome::of(first))
            }
        }
    }

    /// Of a body that was just written.
    #[inline]
    pub fn of_body(api: ApiKey, version: i16, body: &mut Reader<'_>) -> Self {
        let response = api::decode_response(api, version, body);
        match response.expect("a body that was just written") {
            ResponseBody::JoinGroup(response) => joined(response),
            ResponseBody::ConsumerGroupHeartbeat(answer) => beaten(answer),
            response => {
                let mut first = ErrorCode::None;
                response.each_code(|code| keep(&mut first, code));
                Outcome::of(first)
            }
        }
    }

    /// Of an error alone.
    pub fn of(error_code: ErrorCode) -> Self {
        Outcome { error_code, generation: None, member_id: None }
    }
}

/// Keeps the first error.
fn keep(first: &mut ErrorCode, code: ErrorCode) {
    if !first.is_error() {
        *first = code;
    }
}

fn joined(response: JoinGroupResponse) -> Outcome {
    Outcome {
        error_code: response.error_code,
        generation: Some(response.generation_id).filter(|generation| *generation >= 0),
        member_id: Some(response.member_id).filter(|member_id| !member_id.is_empty()),
    }
}

fn beaten(answer: consumer_group_heartbeat::Response) -> Outcome {
    match answer {
        Ok(response) => Outcome {
            error_code: ErrorCode::None,
            generation: Some(response.member_epoch),
            member_id: Some((*response.member_id).into()),
        },
        Err(refusal) => Outcome::of(refusal.error_code),
    }
}

#[cfg(test)]
mod tests {
    use kcoord_core::request::Uuid;
    use kcoord_core::response::{
        LeaveGroupMemberResponse, LeaveGroupResponse, OffsetCommitResponse,
        OffsetCommitResponseTopic, OffsetDeleteResponse, OffsetDeleteResponseTopic,
    };

    use super::*;

    /// Whichever of the two is asked, the columns are the same.
    fn assert_same(api: ApiKey, version: i16, response: Response, written: Vec<u8>) -> Outcome {
        let body = &mut Reader::new(&written, api.spec().is_flexible(version));
        let read = Outcome::of_body(api, version, body);
        assert_eq!(Outcome::of_response(response), Some(read.clone()), "{api:?} v{version}");
        read
    }

    fn body(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::new();
        write(&mut out);
        out
    }

    #[test]
    fn commits_and_deletions_come_to_their_first_error() {
        let topics = vec![OffsetCommitResponseTopic {
            name: "orders".into(),
            topic_id: Uuid::ZERO,
            partitions: vec![(0, ErrorCode::None), (1, ErrorCode::OffsetMetadataTooLarge)],
        }];
        let response = OffsetCommitResponse { topics };
        let written = body(|out| api::offset_commit::encode_response(out, 7, &response));
        let of = assert_same(ApiKey::OffsetCommit, 7, Response::OffsetCommit(response), written);
        assert_eq!(of.error_code, ErrorCode::OffsetMetadataTooLarge);
        let partitions = vec![(3, ErrorCode::GroupSubscribedToTopic)];
        let topics = vec![OffsetDeleteResponseTopic { name: "orders".into(), partitions }];
        let response = OffsetDeleteResponse { error_code: ErrorCode::None, topics };
        let written = body(|out| api::offset_delete::encode_response(out, 0, &response));
        let of = assert_same(ApiKey::OffsetDelete, 0, Response::OffsetDelete(response), written);
        assert_eq!(of.error_code, ErrorCode::GroupSubscribedToTopic);
    }

    #[test]
    fn a_leave_comes_to_its_members_error_in_every_version() {
        for version in [0, 2, 3, 5] {
            let member = LeaveGroupMemberResponse {
                member_id: "a".into(),
                group_instance_id: None,
                error_code: ErrorCode::UnknownMemberId,
            };
            let top = if version < 3 { ErrorCode::UnknownMemberId } else { ErrorCode::None };
            let response = LeaveGroupResponse { error_code: top, members: vec![member] };
            let written = body(|out| api::leave_group::encode_response(out, version, &response));
            let response = Response::LeaveGroup(response);
            let of = assert_same(ApiKey::LeaveGroup, version, response, written);
            assert_eq!(of.error_code, ErrorCode::UnknownMemberId);
        }
    }

    #[test]
    fn a_join_tells_generation_and_member_if_it_has_them() {
        for (generation_id, member_id) in [(-1, ""), (-1, "a"), (4, "b")] {
            for version in [0, 4, 7, 9] {
                let response = JoinGroupResponse {
                    error_code: ErrorCode::None,
                    generation_id,
                    protocol_type: None,
                    protocol_name: None,
                    leader: "".into(),
                    skip_assignment: false,
                    member_id: member_id.into(),
                    members: Vec::new(),
                };
                let written = body(|out| api::join_group::encode_response(out, version, &response));
                let response = Response::JoinGroup(Box::new(response));
                let of = assert_same(ApiKey::JoinGroup, version, response, written);
                assert_eq!(of.generation, (generation_id >= 0).then_some(generation_id));
                assert_eq!(of.member_id.as_deref(), Some(member_id).filter(|id| !id.is_empty()));
            }
        }
    }
}
