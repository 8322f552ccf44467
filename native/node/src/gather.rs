//! Requests that one core response does not answer: several groups, several shards, or partitions
//! that the API layer refused. Holds the parts until all are there.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use kcoord_core::ErrorCode;
use kcoord_core::request::Uuid;
use kcoord_core::response::{
    OffsetCommitResponse, OffsetCommitResponseTopic, OffsetDeleteResponse,
    OffsetDeleteResponseTopic, OffsetFetchResponse, OffsetFetchResponseBuilder, Response,
};

use super::pieces::{Piece, Pieces};
use super::topics::Topics;
use super::transactions::told_coordinator;
use super::turn::LONG_REPLY_BYTES;
use kcoord_wire::api::describing::{
    DescribedGroup, GROUP_OPERATIONS, OPERATIONS_OMITTED, encode_group,
};
use kcoord_wire::api::describing_steps::DescribedInSteps;
use kcoord_wire::api::offset_fetch::{self, GroupInSteps};
use kcoord_wire::api::{delete_groups, leave_group, list_groups, write_txn_markers};

/// The offsets of a group that take no more are encoded as they come: what is longer is encoded while
/// it leaves, and takes no further memory until then.
const COPIED_BYTES: usize = 4 << 10;

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
    /// Each part fills its place: marker, topic and partition.
    WriteTxnMarkers {
        response: write_txn_markers::Response,
        places: Vec<(usize, usize, usize)>,
    },
    OffsetFetch {
        version: i16,
        /// By part, for those that are more than what was found.
        asked: BTreeMap<usize, FetchPart>,
        groups: Groups,
    },
    /// Of classic groups, or of consumer groups.
    DescribeGroups {
        version: i16,
        authorized_operations: i32,
        groups: Groups,
    },
    /// Results in the order of the request; `asked` are the places that a part fills.
    DeleteGroups {
        version: i16,
        results: Results,
        asked: BTreeMap<usize, Vec<usize>>,
    },
    /// One part for each slice of the members; an error of one is the answer.
    LeaveGroup {
        version: i16,
        error_code: Option<ErrorCode>,
        count: usize,
        members: Groups,
    },
    /// Groups as they are sent: as many as there may be, they take least memory so.
    ListGroups {
        version: i16,
        error_code: ErrorCode,
        count: usize,
        groups: Pieces,
    },
}

/// Results of groups as they are sent, as far as all before them are there.
#[derive(Debug, Default)]
pub struct Results {
    pieces: Pieces,
    /// How many are in the pieces, or need not be kept.
    encoded: usize,
    waiting: VecDeque<(Box<str>, Option<ErrorCode>)>,
}

impl Results {
    /// A place for a result that will come.
    pub fn push(&mut self, group_id: &str) -> usize {
        self.waiting.push_back((group_id.into(), None));
        self.encoded + self.waiting.len() - 1
    }

    fn fill(&mut self, place: usize, error_code: ErrorCode) {
        self.waiting[place - self.encoded].1 = Some(error_code);
    }

    fn encode(&mut self, version: i16) {
        while let Some((group_id, Some(error_code))) = self.waiting.front() {
            let out = self.pieces.room(delete_groups::result_bytes(group_id));
            delete_groups::encode_result(out, version, group_id, *error_code);
            self.waiting.pop_front();
            self.encoded += 1;
        }
    }

    /// How many there are, and all of them.
    pub fn into_pieces(self) -> (usize, Pieces) {
        debug_assert!(self.waiting.is_empty());
        (self.encoded, self.pieces)
    }
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

    fn describe<G: DescribedGroup + fmt::Debug + Send + Sync + 'static>(
        &mut self,
        part: usize,
        version: i16,
        group: Box<G>,
        authorized_operations: i32,
    ) {
        let bytes = group.bytes();
        let is_long = bytes > LONG_REPLY_BYTES;
        if is_long {
            let steps = DescribedInSteps::new(version, authorized_operations, group);
            return self.push_piece(part, Piece::InSteps(Box::new(steps)));
        }
        self.push(part, bytes, |out| encode_group(out, version, &*group, authorized_operations));
    }

    /// All are there.
    pub fn into_pieces(self) -> Pieces {
        debug_assert!(self.early.is_empty());
        self.pieces
    }
}

impl Parts {
    pub fn fetching(version: i16) -> Self {
        Parts::OffsetFetch { version, asked: BTreeMap::new(), groups: Groups::default() }
    }

    pub fn deleting(version: i16) -> Self {
        Parts::DeleteGroups { version, results: Results::default(), asked: BTreeMap::new() }
    }

    pub fn leaving(version: i16) -> Self {
        Parts::LeaveGroup { version, error_code: None, count: 0, members: Groups::default() }
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
            (Parts::OffsetCommit(answer), Response::TxnOffsetCommit(accepted)) => {
                merge(&mut answer.topics, accepted.topics);
            }
            (Parts::WriteTxnMarkers { response, places }, Response::WriteTxnMarkers(code)) => {
                let (marker, topic, partition) = places[part];
                let (_, partitions) = &mut response.markers[marker].topics[topic];
                partitions[partition].1 = told_coordinator(code);
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
                let group = match asked.remove(&part) {
                    Some(asked) => fetched(asked, response, topics),
                    None => response,
                };
                let bytes = offset_fetch::group_bytes(&group);
                if bytes > COPIED_BYTES {
                    let group = Box::new(GroupInSteps::new(*version, group));
                    groups.push_piece(part, Piece::InSteps(group));
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
            ) => groups.describe(part, *version, group, *authorized_operations),
            (
                Parts::DescribeGroups { version, authorized_operations, groups },
                Response::ConsumerGroupDescribe(group),
            ) => groups.describe(part, *version, group, *authorized_operations),
            (Parts::DeleteGroups { version, results, asked }, Response::DeleteGroups(response)) => {
                let places = asked.remove(&part).expect("each part fills places");
                assert_eq!(places.len(), response.results.len(), "one result per group");
                for (place, (_, code)) in places.into_iter().zip(response.results) {
                    results.fill(place, code);
                }
                results.encode(*version);
            }
            (
                Parts::LeaveGroup { version, error_code, count, members },
                Response::LeaveGroup(slice),
            ) => {
                if slice.error_code.is_error() {
                    error_code.get_or_insert(slice.error_code);
                }
                *count += slice.members.len();
                let bytes = slice.members.iter().map(leave_group::member_bytes).sum();
                members.push(part, bytes, |out| {
                    leave_group::encode_some(out, *version, &slice.members);
                });
            }
            // Its shard went away meanwhile.
            (Parts::LeaveGroup { error_code, members, .. }, Response::Dropped(code)) => {
                error_code.get_or_insert(code);
                members.push(part, 0, |_| ());
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
fn fetched(asked: FetchPart, found: OffsetFetchResponse, topics: &Topics) -> OffsetFetchResponse {
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
