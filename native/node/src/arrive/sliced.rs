//! One request that is done in slices: what is left of it, and how its next slice is handed to the
//! shards.

use std::collections::VecDeque;
use std::sync::Arc;

use kcoord_core::request::{
    LeaveGroupMember, LeaveGroupRequest, ListGroupsRequest, OffsetFetchRequest, OffsetFetchTopic,
    Uuid,
};

use super::{Arrival, Arrivals};
use crate::Session;
use crate::gather::Parts;
use crate::slots::Header;
use kcoord_wire::api::RequestBody;

/// What a slice may cost, in entries; it ends with the entry that is as much or more.
const SLICE_ENTRIES: usize = 128;

/// So many bytes of an answer cost as much as an entry.
pub(super) const ENTRY_COST_BYTES: usize = 256;

/// Offsets of a group that cost as much as an entry when all of them are deleted or fetched.
const ENTRY_OFFSETS: usize = 4;

/// Offsets of a group that is deleted: more are deleted in slices of so many.
const SLICE_OFFSETS: usize = SLICE_ENTRIES * ENTRY_OFFSETS;

/// Memory that an entry takes here at most, and a request besides its frame.
const ENTRY_BYTES: usize = 64;

#[derive(Debug)]
pub(super) struct Sliced {
    /// Of its slot.
    pub ticket: u64,
    pub header: Header,
    pub client_id: Box<str>,
    pub session: Arc<Session>,
    /// A copy; texts point into it.
    pub frame: Box<[u8]>,
    /// That it names.
    pub entries: usize,
    pub rest: Rest,
}

/// What is left to do. Lists are walked from `next` on.
#[derive(Debug)]
pub(super) enum Rest {
    Describe {
        groups: Vec<Text>,
        next: usize,
    },
    /// `has_begun`: a part of the next group is deleted.
    Delete {
        groups: Vec<Text>,
        next: usize,
        has_begun: bool,
    },
    Leave {
        group_id: Text,
        members: Vec<[Option<Text>; 3]>,
        next: usize,
    },
    Fetch {
        groups: VecDeque<FetchedGroup>,
    },
    List {
        request: ListGroupsRequest<'static>,
        shard: usize,
        row: u32,
    },
}

/// A string of the frame: where it begins, and how long it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Text(u32, u32);

impl Text {
    fn of(frame: &[u8], text: &str) -> Text {
        if text.is_empty() {
            return Text(0, 0);
        }
        let at = text.as_ptr().addr() - frame.as_ptr().addr();
        debug_assert!(at + text.len() <= frame.len());
        Text(at as u32, text.len() as u32)
    }

    fn read(self, frame: &[u8]) -> &str {
        let bytes = &frame[self.0 as usize..(self.0 + self.1) as usize];
        std::str::from_utf8(bytes).expect("it was read as a string")
    }
}

#[derive(Debug)]
pub(super) struct FetchedGroup {
    group_id: Text,
    member_id: Option<Text>,
    member_epoch: i32,
    topics: Option<Vec<(Text, Uuid, Vec<i32>)>>,
    require_stable: bool,
}

impl FetchedGroup {
    fn of(frame: &[u8], request: OffsetFetchRequest<'_>) -> FetchedGroup {
        let topic = |topic: OffsetFetchTopic<'_>| {
            (Text::of(frame, topic.name), topic.topic_id, topic.partition_indexes)
        };
        FetchedGroup {
            group_id: Text::of(frame, request.group_id),
            member_id: request.member_id.map(|id| Text::of(frame, id)),
            member_epoch: request.member_epoch,
            topics: request.topics.map(|topics| topics.into_iter().map(topic).collect()),
            require_stable: request.require_stable,
        }
    }

    fn read(self, frame: &[u8]) -> OffsetFetchRequest<'_> {
        let topic = |(name, topic_id, partition_indexes): (Text, Uuid, Vec<i32>)| {
            OffsetFetchTopic { name: name.read(frame), topic_id, partition_indexes }
        };
        OffsetFetchRequest {
            group_id: self.group_id.read(frame),
            member_id: self.member_id.map(|id| id.read(frame)),
            member_epoch: self.member_epoch,
            topics: self.topics.map(|topics| topics.into_iter().map(topic).collect()),
            require_stable: self.require_stable,
        }
    }
}

impl<'a> Arrivals<'a, '_> {
    /// What is left of a request of many entries before its first slice.
    pub(super) fn sliced(
        &mut self,
        arrival: Arrival<'a>,
        frame: &'a [u8],
        body: RequestBody<'a>,
        entries: usize,
    ) -> Sliced {
        let text = |text: &str| Text::of(frame, text);
        let (parts, rest) = match body {
            RequestBody::DescribeGroups(request) | RequestBody::ConsumerGroupDescribe(request) => (
                Parts::describing(arrival.header.version, request.include_authorized_operations),
                Rest::Describe { groups: request.groups.into_iter().map(text).collect(), next: 0 },
            ),
            RequestBody::DeleteGroups(request) => {
                let groups = self.distinct(request.groups_names);
                let groups: Vec<Text> = groups.into_iter().map(text).collect();
                (
                    Parts::DeleteGroups { results: Vec::new(), asked: Vec::new() },
                    Rest::Delete { groups, next: 0, has_begun: false },
                )
            }
            RequestBody::LeaveGroup(request) => {
                let member = |member: LeaveGroupMember<'a>| {
                    let LeaveGroupMember { member_id, group_instance_id, reason } = member;
                    [Some(member_id), group_instance_id, reason].map(|of| of.map(text))
                };
                let members = request.members.into_iter().map(member).collect();
                let group_id = text(request.group_id);
                (Parts::LeaveGroup(Vec::new()), Rest::Leave { group_id, members, next: 0 })
            }
            RequestBody::OffsetFetch(groups) => {
                let groups = groups.into_iter().map(|group| FetchedGroup::of(frame, group));
                (Parts::fetching(arrival.header.version), Rest::Fetch { groups: groups.collect() })
            }
            RequestBody::ListGroups(request) => {
                let request = request.of_known_names();
                let parts = Parts::listing(arrival.header.version);
                (parts, Rest::List { request, shard: 0, row: 0 })
            }
            other => unreachable!("{other:?} is no request of many"),
        };
        let needs_frame = !matches!(rest, Rest::List { .. });
        Sliced {
            ticket: self.slots.open_sliced(arrival.header, parts),
            header: arrival.header,
            client_id: arrival.context.client_id.into(),
            session: Arc::clone(arrival.session.expect("what has a frame has a session")),
            frame: if needs_frame { frame.into() } else { Box::default() },
            entries,
            rest,
        }
    }
}

impl Sliced {
    /// Memory that it takes.
    pub fn bytes(&self) -> usize {
        Sliced::bytes_of(self.frame.len(), self.entries)
    }

    pub fn bytes_of(frame_bytes: usize, entries: usize) -> usize {
        frame_bytes + ENTRY_BYTES * (1 + entries)
    }
}

impl Rest {
    /// Hands the next slice to the shards; what it costs in entries, besides what it puts into the
    /// answer. `rows` are those of each shard.
    pub fn hand_on<'a>(
        &mut self,
        arrival: Arrival<'a>,
        frame: &'a [u8],
        rows: &[u32],
        to: &mut Arrivals<'a, '_>,
    ) -> usize {
        match self {
            Rest::Describe { groups, next } => {
                let most = SLICE_ENTRIES * ENTRY_COST_BYTES;
                let bytes = |group| to.shard(group).description_bytes(group, most);
                let (slice, _) = take(
                    groups,
                    next,
                    |_| true,
                    |group| 1 + bytes(group.read(frame)) / ENTRY_COST_BYTES,
                );
                to.describe_slice(&arrival, slice.iter().map(|group| group.read(frame)));
                slice.len()
            }
            Rest::Delete { groups, next, has_begun } => {
                let is_asked = to.is_asked(&arrival);
                let offsets = |group: &Text| to.deletable_offsets_of(group.read(frame));
                if offsets(&groups[*next]) > SLICE_OFFSETS {
                    *has_begun = true;
                    to.delete_offsets_slice(&arrival, groups[*next].read(frame), SLICE_OFFSETS);
                    return SLICE_ENTRIES;
                }
                if !is_asked {
                    // Its client is gone. What was begun is done, and no more.
                    to.delete_unasked(&arrival, groups[*next].read(frame));
                    *next = groups.len();
                    return 1;
                }
                // One that is larger waits for a slice of its own.
                let fits = |group: &Text| offsets(group) <= SLICE_OFFSETS;
                let (slice, cost) =
                    take(groups, next, fits, |group| 1 + offsets(group) / ENTRY_OFFSETS);
                *has_begun = false;
                to.delete_slice(&arrival, slice.iter().map(|group| group.read(frame)));
                cost
            }
            Rest::Leave { group_id, members, next } => {
                let (slice, cost) = take(members, next, |_| true, |_| 1);
                let member = |member: &[Option<Text>; 3]| {
                    let [member_id, group_instance_id, reason] =
                        member.map(|text| text.map(|text| text.read(frame)));
                    let member_id = member_id.unwrap_or_default();
                    LeaveGroupMember { member_id, group_instance_id, reason }
                };
                let members = slice.iter().map(member).collect();
                let group_id = group_id.read(frame);
                to.leave_slice(&arrival, LeaveGroupRequest { group_id, members });
                cost
            }
            Rest::Fetch { groups } => {
                let mut cost = 0;
                let mut requests = Vec::new();
                while cost < SLICE_ENTRIES
                    && let Some(group) = groups.pop_front()
                {
                    let request = group.read(frame);
                    cost += fetch_entries(&request);
                    if request.topics.is_none() {
                        let group_id = request.group_id;
                        cost += to.shard(group_id).offset_count_of(group_id) / ENTRY_OFFSETS;
                    }
                    requests.push(request);
                }
                to.fetch_slice(&arrival, requests);
                cost
            }
            Rest::List { request, shard, row } => {
                let mut count = 0;
                while count < SLICE_ENTRIES && *shard < rows.len() {
                    let end = rows[*shard].min(*row + (SLICE_ENTRIES - count) as u32);
                    to.list_slice(&arrival, request, *shard, *row..end);
                    count += 1 + end.saturating_sub(*row) as usize;
                    *row = end;
                    if end >= rows[*shard] {
                        (*shard, *row) = (*shard + 1, 0);
                    }
                }
                count
            }
        }
    }

    /// A group is half deleted: it is not to stay so.
    pub fn has_begun_to_delete(&self) -> bool {
        matches!(self, Rest::Delete { has_begun: true, .. })
    }

    pub fn is_done(&self, shards: usize) -> bool {
        match self {
            Rest::Describe { groups, next } | Rest::Delete { groups, next, .. } => {
                *next == groups.len()
            }
            Rest::Leave { members, next, .. } => *next == members.len(),
            Rest::Fetch { groups } => groups.is_empty(),
            Rest::List { shard, .. } => *shard == shards,
        }
    }
}

/// The next of a list, as many as a slice has, and what they cost.
fn take<'a, T>(
    all: &'a [T],
    next: &mut usize,
    fits: impl Fn(&T) -> bool,
    cost_of: impl Fn(&T) -> usize,
) -> (&'a [T], usize) {
    let (first, mut cost) = (*next, 0);
    while cost < SLICE_ENTRIES
        && let Some(one) = all.get(*next)
        && fits(one)
    {
        cost += cost_of(one);
        *next += 1;
    }
    (&all[first..*next], cost)
}

/// Groups, topics and partitions that a fetch names.
pub(super) fn fetch_entries(request: &OffsetFetchRequest<'_>) -> usize {
    let topics = request.topics.iter().flatten();
    1 + topics.map(|topic| 1 + topic.partition_indexes.len()).sum::<usize>()
}
