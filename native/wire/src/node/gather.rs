//! Requests that one core response does not answer: several groups, several shards, or partitions
//! that the API layer refused. Holds the parts until all are there.

use kcoord_core::ErrorCode;
use kcoord_core::response::{
    DescribeGroupResponse, ListGroupsResponse, OffsetCommitResponse, OffsetDeleteResponse,
    OffsetFetchResponse, OffsetFetchResponseTopic, Response,
};

/// One group of an OffsetFetch.
#[derive(Debug, Default)]
pub struct FetchPart {
    pub response: Option<OffsetFetchResponse>,
    /// Topics whose id is unknown: listed after the others.
    pub unknown: Vec<OffsetFetchResponseTopic>,
    /// No topics were named: those that the catalogue does not know are left out.
    pub all: bool,
}

/// What has come so far.
#[derive(Debug)]
pub enum Parts {
    /// Begins with the partitions that do not exist; those of the core go behind.
    OffsetCommit(OffsetCommitResponse),
    OffsetDelete(OffsetDeleteResponse),
    OffsetFetch(Vec<FetchPart>),
    DescribeGroups {
        groups: Vec<Option<DescribeGroupResponse>>,
        authorized_operations: i32,
    },
    /// Results in the order of the request; `asked[part]` are the places that a shard fills.
    DeleteGroups {
        results: Vec<(Box<str>, ErrorCode)>,
        asked: Vec<Vec<usize>>,
    },
    ListGroups(ListGroupsResponse),
}

#[derive(Debug)]
pub struct Gather {
    pub parts: Parts,
    pub count: usize,
    missing: usize,
}

impl Gather {
    pub fn new(parts: Parts, count: usize) -> Box<Self> {
        Box::new(Gather { parts, count, missing: count })
    }

    /// Takes one part; true once the whole answer is there.
    ///
    /// # Panics
    /// If the response is not of the API that was asked: a bug of ours, never a peer's doing.
    pub fn take(&mut self, part: usize, response: Response) -> bool {
        match (&mut self.parts, response) {
            (Parts::OffsetCommit(answer), Response::OffsetCommit(accepted)) => {
                merge_commit(answer, accepted);
            }
            (Parts::OffsetDelete(answer), Response::OffsetDelete(accepted)) => {
                merge_delete(answer, accepted);
            }
            (Parts::OffsetFetch(groups), Response::OffsetFetch(response)) => {
                groups[part].response = Some(response);
            }
            (Parts::DescribeGroups { groups, .. }, Response::DescribeGroup(response)) => {
                groups[part] = Some(*response);
            }
            (Parts::DeleteGroups { results, asked }, Response::DeleteGroups(response)) => {
                assert_eq!(asked[part].len(), response.results.len(), "one result per group");
                for (place, (_, code)) in asked[part].iter().zip(response.results) {
                    results[*place].1 = code;
                }
            }
            (Parts::ListGroups(answer), Response::ListGroups(part)) => {
                if part.error_code.is_error() {
                    answer.error_code = part.error_code;
                }
                answer.groups.extend(part.groups);
            }
            (parts, response) => panic!("{response:?} is no part of {parts:?}"),
        }
        self.missing -= 1;
        self.missing == 0
    }
}

/// Partitions of a topic that is listed already go behind those that it has
/// (Kafka's `OffsetCommitResponse.Builder.merge`).
fn merge_commit(answer: &mut OffsetCommitResponse, accepted: OffsetCommitResponse) {
    for topic in accepted.topics {
        match answer.topics.iter_mut().find(|have| have.name == topic.name) {
            Some(have) => have.partitions.extend(topic.partitions),
            None => answer.topics.push(topic),
        }
    }
}

/// As for commits; a top-level error stands alone (offsets.md section 5).
fn merge_delete(answer: &mut OffsetDeleteResponse, accepted: OffsetDeleteResponse) {
    if accepted.error_code.is_error() {
        *answer = accepted;
        return;
    }
    for topic in accepted.topics {
        match answer.topics.iter_mut().find(|have| have.name == topic.name) {
            Some(have) => have.partitions.extend(topic.partitions),
            None => answer.topics.push(topic),
        }
    }
}
