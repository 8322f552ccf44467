//! What a response came to, for the columns beside it: said by the response where one is the whole
//! answer, else read from its body, as its client would.

use kcoord_core::ErrorCode;
use kcoord_core::response::{
    JoinGroupResponse, LeaveGroupResponse, OffsetCommitResponse, OffsetDeleteResponse, Response,
};

use crate::api::{self, ResponseBody};
use crate::header::ApiKey;
use crate::reader::Reader;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The first error that the response holds.
    pub error_code: ErrorCode,
    /// `None`: the response tells none.
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
            Response::SyncGroup(response) => Some(Outcome::of(response.error_code)),
            Response::LeaveGroup(response) => Some(left(&response)),
            Response::OffsetCommit(response) => Some(committed(&response)),
            Response::OffsetDelete(response) => Some(deleted(&response)),
            _ => None,
        }
    }

    /// Of a body that was just written.
    #[inline]
    pub fn of_body(api: ApiKey, version: i16, body: &mut Reader<'_>) -> Self {
        let response = api::decode_response(api, version, body);
        match response.expect("a body that was just written") {
            ResponseBody::JoinGroup(response) => joined(response),
            ResponseBody::SyncGroup(response) => Outcome::of(response.error_code),
            ResponseBody::Heartbeat(code) => Outcome::of(code),
            ResponseBody::LeaveGroup(response) => left(&response),
            ResponseBody::OffsetCommit(response) => committed(&response),
            ResponseBody::OffsetFetch(groups) => Outcome::first(groups.iter().flat_map(|group| {
                let partitions = group.topics.iter().flat_map(|topic| &topic.partitions);
                let codes = partitions.map(|partition| partition.error_code);
                [group.error_code].into_iter().chain(codes)
            })),
            ResponseBody::OffsetDelete(response) => deleted(&response),
            ResponseBody::DescribeGroups(groups, _) => {
                Outcome::first(groups.iter().map(|group| group.error_code))
            }
            ResponseBody::DeleteGroups(response) => {
                Outcome::first(response.results.iter().map(|(_, code)| *code))
            }
            ResponseBody::ListGroups(response) => Outcome::of(response.error_code),
        }
    }

    pub fn of(error_code: ErrorCode) -> Self {
        Outcome { error_code, generation: None, member_id: None }
    }

    fn first(codes: impl IntoIterator<Item = ErrorCode>) -> Self {
        let failed = codes.into_iter().find(|code| code.is_error());
        Outcome::of(failed.unwrap_or(ErrorCode::None))
    }
}

fn joined(response: JoinGroupResponse) -> Outcome {
    Outcome {
        error_code: response.error_code,
        generation: Some(response.generation_id).filter(|generation| *generation >= 0),
        member_id: Some(response.member_id).filter(|member_id| !member_id.is_empty()),
    }
}

fn left(response: &LeaveGroupResponse) -> Outcome {
    let members = response.members.iter().map(|member| member.error_code);
    Outcome::first([response.error_code].into_iter().chain(members))
}

fn committed(response: &OffsetCommitResponse) -> Outcome {
    let partitions = response.topics.iter().flat_map(|topic| &topic.partitions);
    Outcome::first(partitions.map(|(_, code)| *code))
}

fn deleted(response: &OffsetDeleteResponse) -> Outcome {
    let partitions = response.topics.iter().flat_map(|topic| &topic.partitions);
    let codes = partitions.map(|(_, code)| *code);
    Outcome::first([response.error_code].into_iter().chain(codes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whichever of the two is asked, the columns are the same.
    #[test]
    fn a_response_and_its_body_come_to_the_same() {
        let topics = vec![kcoord_core::response::OffsetCommitResponseTopic {
            name: "orders".into(),
            topic_id: kcoord_core::request::Uuid::ZERO,
            partitions: vec![(0, ErrorCode::None), (1, ErrorCode::OffsetMetadataTooLarge)],
        }];
        let response = OffsetCommitResponse { topics };
        let mut body = Vec::new();
        api::offset_commit::encode_response(&mut body, 7, &response);
        let read = Outcome::of_body(ApiKey::OffsetCommit, 7, &mut Reader::new(&body, false));
        assert_eq!(read, Outcome::of(ErrorCode::OffsetMetadataTooLarge));
        assert_eq!(Outcome::of_response(Response::OffsetCommit(response)), Some(read));
    }
}
