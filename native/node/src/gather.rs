//! Requests that one core response does not answer: several groups, several shards, or partitions
//! that the API layer refused. Holds the parts until all are there.

use std::collections::BTreeMap;
use std::mem::take;

use kcoord_core::ErrorCode;
use kcoord_core::request::Uuid;
use kcoord_core::response::{
    LeaveGroupResponse, OffsetCommitResponse, OffsetCommitResponseTopic, OffsetDeleteResponse,
    OffsetDeleteResponseTopic, OffsetFetchResponse, OffsetFetchResponseBuilder, Response,
};

use super::pieces::{Piece, Pieces};
use super::topics::Topics;
use super::turn::LONG_REPLY_BYTES;
use kcoord_wire::api::describing::{
    DescribedGroup, GROUP_OPERATIONS, OPERATIONS_OMITTED, encode_group,
};
use kcoord_wire::api::list_groups;
use kcoord_wire::api::offset_fetch::{self, GroupInSteps};

/// One group of an OffsetFetch that is by id, or whose answer is.
#[derive(Debug, Default)]
pub struct FetchPart {
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
    OffsetFetch {
        version: i16,
        asked: Vec<FetchPart>,
        groups: Groups,
    },
    /// Of classic groups, or of consumer groups.
    DescribeGroups {
        version: i16,
        authorized_operations: i32,
        groups: Groups,
    },
    /// Results in the order of the request; `asked[part]` are the places that a shard fills.
    DeleteGroups {
        results: Vec<(Box<str>, ErrorCode)>,
        asked: Vec<Vec<usize>>,
    },
    /// One for each slice of the members.
    LeaveGroup(Vec<Option<LeaveGroupResponse>>),
    /// Groups as they are sent: as many as there may be, they take least memory so.
    ListGroups {
        version: i16,
        error_code: ErrorCode,
        count: usize,
        groups: Pieces,
    },
}

/// Groups as they are sent, since each may be large; those that wait for another one before them
/// are apart.
#[derive(Debug, Default)]
pub struct Groups {
    pieces: Pieces,
    next: usize,
    early: BTreeMap<usize, Piece>,
}

impl Groups {
    /// Takes the group of one part, which needs so many bytes at most.
    fn push(&mut self, part: usize, bytes: usize, encode: impl FnOnce(&mut Vec<u8>)) {
        if part != self.next {
            let mut apart = Vec::with_capacity(bytes);
            encode(&mut apart);
            self.early.insert(part, Piece::Bytes(apart));
            return;
        }
        encode(self.pieces.room(bytes));
        self.go_on();
    }

    /// The same of a piece.
    fn push_piece(&mut self, part: usize, piece: Piece) {
        if part != self.next {
            self.early.insert(part, piece);
            return;
        }
        self.pieces.push(piece);
        self.go_on();
    }

    fn go_on(&mut self) {
        self.next += 1;
        while let Some(waited) = self.early.remove(&self.next) {
            self.pieces.push(waited);
            self.next += 1;
        }
    }

    fn describe<G: DescribedGroup>(
        &mut self,
        part: usize,
        version: i16,
        group: &G,
        authorized_operations: i32,
    ) {
        self.push(part, group.bytes(), |out| {
            encode_group(out, version, group, authorized_operations);
        });
    }

    /// All are there.
    pub fn into_pieces(self) -> Pieces {
        debug_assert!(self.early.is_empty());
        self.pieces
    }
}

impl Parts {
    pub fn fetching(version: i16) -> Self {
        Parts::OffsetFetch { version, asked: Vec::new(), groups: Groups::default() }
    }

    pub fn describing(version: i16, with_authorized_operations: bool) -> Self {
        let authorized_operations =
            if with_authorized_operations { GROUP_OPERATIONS } else { OPERATIONS_OMITTED };
        Parts::DescribeGroups { version, authorized_operations, groups: Groups::default() }
    }

    pub fn listing(version: i16) -> Self {
        let groups = Pieces::default();
        Parts::ListGroups { version, error_code: ErrorCode::None, count: 0, groups }
    }
}

#[derive(Debug)]
pub struct Gather {
    pub parts: Parts,
    /// The shard of each part.
    pub shards: Vec<u32>,
    missing: usize,
    /// Further parts will be added.
    pub is_growing: bool,
}

impl Gather {
    pub fn new(parts: Parts, shards: Vec<u32>) -> Box<Self> {
        Box::new(Gather { parts, missing: shards.len(), shards, is_growing: false })
    }

    /// One that has no parts yet.
    pub fn growing(parts: Parts) -> Box<Self> {
        Box::new(Gather { parts, missing: 0, shards: Vec::new(), is_growing: true })
    }

    /// Adds parts, which go to these shards; the number of the first.
    pub fn grow(&mut self, shards: impl IntoIterator<Item = u32>) -> usize {
        let first = self.shards.len();
        self.shards.extend(shards);
        self.missing += self.shards.len() - first;
        first
    }

    /// Takes one part; true once the whole answer is there. `topics` are those of now.
    ///
    /// # Panics
    /// If the response is not of the API that was asked: a bug of ours, never a peer's doing.
    pub fn take(&mut self, part: usize, response: Response, topics: &Topics) -> bool {
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
            (Parts::OffsetFetch { version, asked, groups }, Response::OffsetFetch(response)) => {
                let group = fetched(take(&mut asked[part]), response, *version, topics);
                let bytes = offset_fetch::group_bytes(&group);
                if bytes > LONG_REPLY_BYTES {
                    let group = Box::new(GroupInSteps::new(*version, group));
                    groups.push_piece(part, Piece::Group(group));
                } else {
                    let encode = |out: &mut Vec<u8>| {
                        offset_fetch::encode_group(out, *version, &group);
                    };
                    groups.push(part, bytes, encode);
                }
            }
            (
                Parts::DescribeGroups { version, authorized_operations, groups },
                Response::DescribeGroups(group),
            ) => groups.describe(part, *version, &*group, *authorized_operations),
            (
                Parts::DescribeGroups { version, authorized_operations, groups },
                Response::ConsumerGroupDescribe(group),
            ) => groups.describe(part, *version, &*group, *authorized_operations),
            (Parts::DeleteGroups { results, asked }, Response::DeleteGroups(response)) => {
                assert_eq!(asked[part].len(), response.results.len(), "one result per group");
                for (place, (_, code)) in asked[part].iter().zip(response.results) {
                    results[*place].1 = code;
                }
            }
            (Parts::LeaveGroup(slices), Response::LeaveGroup(response)) => {
                slices[part] = Some(response);
            }
            // Its shard went away meanwhile.
            (Parts::LeaveGroup(slices), Response::Dropped(error_code)) => {
                slices[part] = Some(LeaveGroupResponse { error_code, members: Vec::new() });
            }
            (
                Parts::ListGroups { version, error_code, count, groups },
                Response::ListGroups(part),
            ) => {
                if part.error_code.is_error() {
                    *error_code = part.error_code;
                }
                if error_code.is_error() {
                    *count = 0;
                    groups.clear();
                } else {
                    *count += part.groups.len();
                    let bytes = part.groups.iter().map(list_groups::group_bytes).sum();
                    list_groups::encode_groups(groups.room(bytes), *version, &part.groups);
                }
            }
            (parts, response) => panic!("{response:?} is no part of {parts:?}"),
        }
        self.missing -= 1;
        self.missing == 0 && !self.is_growing
    }
}

/// By id (v10), an answer for all topics leaves out those that the catalogue does not know.
fn fetched(
    asked: FetchPart,
    found: OffsetFetchResponse,
    version: i16,
    topics: &Topics,
) -> OffsetFetchResponse {
    if version < 10 || !asked.all && asked.unknown.is_empty() {
        return found;
    }
    let found = if asked.all {
        match found.with_topic_ids(|name| topics.topic_id(name)) {
            Ok(whole) => return whole,
            Err(partial) => partial,
        }
    } else {
        found
    };
    let (group_id, error_code) = (found.group_id(), found.error_code());
    let mut response =
        OffsetFetchResponseBuilder::with_room(group_id, error_code, found.topics_length());
    for topic in found.topics() {
        let known = if asked.all { topics.topic_id(topic.name()) } else { Some(topic.topic_id) };
        if let Some(topic_id) = known {
            response.push_topic(topic.name(), topic_id, topic.partitions);
        }
    }
    for (topic_id, partitions) in asked.unknown {
        response.push_absent("", topic_id, &partitions, ErrorCode::UnknownTopicId);
    }
    response.finish()
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
