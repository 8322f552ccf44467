//! Requests that one core response does not answer: several groups, several shards, or partitions
//! that the API layer refused. Holds the parts until all are there.

use std::collections::BTreeMap;

use kcoord_core::ErrorCode;
use kcoord_core::request::Uuid;
use kcoord_core::response::{
    DescribeGroupResponse, ListGroupsResponse, OffsetCommitResponse, OffsetCommitResponseTopic,
    OffsetDeleteResponse, OffsetDeleteResponseTopic, OffsetFetchResponse, Response,
};

/// One group of an OffsetFetch.
#[derive(Debug, Default)]
pub struct FetchPart {
    pub response: Option<OffsetFetchResponse>,
    /// Topics whose id is unknown, and the partitions asked for: listed after the others.
    pub unknown: Vec<(Uuid, Vec<i32>)>,
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
    /// The shard of each part.
    pub shards: Vec<u32>,
    missing: usize,
}

impl Gather {
    pub fn new(parts: Parts, shards: Vec<u32>) -> Box<Self> {
        Box::new(Gather { parts, missing: shards.len(), shards })
    }

    /// Takes one part; true once the whole answer is there.
    ///
    /// # Panics
    /// If the response is not of the API that was asked: a bug of ours, never a peer's doing.
    pub fn take(&mut self, part: usize, response: Response) -> bool {
        match (&mut self.parts, response) {
            (Parts::OffsetCommit(answer), Response::OffsetCommit(accepted)) => {
                merge(&mut answer.topics, accepted.topics);
            }
            // A top-level error stands alone (offsets.md section 5).
            (Parts::OffsetDelete(answer), Response::OffsetDelete(accepted)) => {
                if accepted.error_code.is_error() {
                    *answer = accepted;
                } else {
                    merge(&mut answer.topics, accepted.topics);
                }
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
                if answer.error_code.is_error() {
                    answer.groups.clear();
                }
            }
            (parts, response) => panic!("{response:?} is no part of {parts:?}"),
        }
        self.missing -= 1;
        self.missing == 0
    }
}

/// One topic of an answer, as far as merging is concerned.
pub trait AnsweredTopic {
    /// Its name, or its id where the id has no name.
    fn key(&self) -> (Box<str>, Uuid);
    fn partitions(&mut self) -> &mut Vec<(i32, ErrorCode)>;
}

impl AnsweredTopic for OffsetCommitResponseTopic {
    fn key(&self) -> (Box<str>, Uuid) {
        let nameless = self.name.is_empty();
        (self.name.clone(), if nameless { self.topic_id } else { Uuid::ZERO })
    }

    fn partitions(&mut self) -> &mut Vec<(i32, ErrorCode)> {
        &mut self.partitions
    }
}

impl AnsweredTopic for OffsetDeleteResponseTopic {
    fn key(&self) -> (Box<str>, Uuid) {
        (self.name.clone(), Uuid::ZERO)
    }

    fn partitions(&mut self) -> &mut Vec<(i32, ErrorCode)> {
        &mut self.partitions
    }
}

/// Puts `more` behind `topics`; partitions of a topic that is listed already go behind those that
/// it has (Kafka's `OffsetCommitResponse.Builder.addPartitions` and `merge`). The peer chooses how
/// many topics there are, so each is looked up, never searched for.
pub fn merge<T: AnsweredTopic>(topics: &mut Vec<T>, more: impl IntoIterator<Item = T>) {
    let mut more = more.into_iter().peekable();
    if more.peek().is_none() {
        return;
    }
    let mut places: BTreeMap<(Box<str>, Uuid), usize> = BTreeMap::new();
    for (place, topic) in topics.iter().enumerate() {
        places.entry(topic.key()).or_insert(place);
    }
    for mut topic in more {
        let place = *places.entry(topic.key()).or_insert(topics.len());
        match topics.get_mut(place) {
            Some(listed) => listed.partitions().append(topic.partitions()),
            None => topics.push(topic),
        }
    }
}
