//! What a response came to, for the columns beside it: read from its body, as its client would.

use kcoord_core::ErrorCode;

use crate::api::{self, ResponseBody};
use crate::header::ApiKey;
use crate::reader::Reader;

pub struct Outcome {
    /// The first error that the response holds.
    pub error_code: ErrorCode,
    /// `None`: the response tells none.
    pub generation: Option<i32>,
    /// The id that a join was answered with.
    pub member_id: Option<Box<str>>,
}

impl Outcome {
    fn of(error_code: ErrorCode) -> Self {
        Outcome { error_code, generation: None, member_id: None }
    }

    fn first(codes: impl IntoIterator<Item = ErrorCode>) -> Self {
        let failed = codes.into_iter().find(|code| code.is_error());
        Outcome::of(failed.unwrap_or(ErrorCode::None))
    }
}

#[inline]
pub fn of(api: ApiKey, version: i16, body: &mut Reader<'_>) -> Outcome {
    if api == ApiKey::Heartbeat {
        let code = api::heartbeat::decode_response(version, body);
        return Outcome::of(code.expect("a body that was just written"));
    }
    let response = api::decode_response(api, version, body).expect("a body that was just written");
    match response {
        ResponseBody::JoinGroup(response) => Outcome {
            error_code: response.error_code,
            generation: Some(response.generation_id).filter(|generation| *generation >= 0),
            member_id: Some(response.member_id).filter(|member_id| !member_id.is_empty()),
        },
        ResponseBody::SyncGroup(response) => Outcome::of(response.error_code),
        ResponseBody::Heartbeat(code) => Outcome::of(code),
        ResponseBody::LeaveGroup(response) => {
            let members = response.members.iter().map(|member| member.error_code);
            Outcome::first([response.error_code].into_iter().chain(members))
        }
        ResponseBody::OffsetCommit(response) => {
            let partitions = response.topics.iter().flat_map(|topic| &topic.partitions);
            Outcome::first(partitions.map(|(_, code)| *code))
        }
        ResponseBody::OffsetFetch(groups) => Outcome::first(groups.iter().flat_map(|group| {
            let partitions = group.topics.iter().flat_map(|topic| &topic.partitions);
            let codes = partitions.map(|partition| partition.error_code);
            [group.error_code].into_iter().chain(codes)
        })),
        ResponseBody::OffsetDelete(response) => {
            let partitions = response.topics.iter().flat_map(|topic| &topic.partitions);
            let codes = partitions.map(|(_, code)| *code);
            Outcome::first([response.error_code].into_iter().chain(codes))
        }
        ResponseBody::DescribeGroups(groups, _) => {
            Outcome::first(groups.iter().map(|group| group.error_code))
        }
        ResponseBody::DeleteGroups(response) => {
            Outcome::first(response.results.iter().map(|(_, code)| *code))
        }
        ResponseBody::ListGroups(response) => Outcome::of(response.error_code),
    }
}
