//! One request that is done in slices: what is left of it, and how its next slice is handed to the
//! shards.

use std::sync::Arc;

use ahash::RandomState;
use hashbrown::HashTable;
use kcoord_core::request::{LeaveGroupRequest, ListGroupsRequest, OffsetFetchRequest};

use super::{Arrival, Arrivals};
use crate::Session;
use crate::gather::Parts;
use crate::slots::Header;
use kcoord_wire::DecodeError;
use kcoord_wire::api::long::{Checking, Long, Unread};

/// What a slice may cost, in entries; it ends with the entry that is as much or more.
const SLICE_ENTRIES: usize = 128;

/// So many bytes of an answer cost as much as an entry.
pub(super) const ENTRY_COST_BYTES: usize = 256;

/// Offsets of a group that cost as much as an entry when all of them are deleted or fetched.
const ENTRY_OFFSETS: usize = 4;

/// Offsets of a group that is deleted: more are deleted in slices of so many.
const SLICE_OFFSETS: usize = SLICE_ENTRIES * ENTRY_OFFSETS;

/// So many names cost as much as an entry when they are checked, and so many bytes.
const ENTRY_NAMES: usize = 8;
const ENTRY_CHECKED_BYTES: usize = 2 << 10;

/// Memory that an entry takes here at most, and a request besides its frame.
const ENTRY_BYTES: usize = 64;

#[derive(Debug)]
pub(super) struct Sliced {
    /// Of its slot.
    pub ticket: u64,
    pub header: Header,
    pub client_id: Box<str>,
    pub session: Arc<Session>,
    /// A copy; names are read from it one after the other.
    pub frame: Box<[u8]>,
    /// That it names.
    pub entries: usize,
    pub rest: Rest,
}

/// What is left to do.
#[derive(Debug)]
pub(super) enum Rest {
    /// It is checked first.
    Check(Unchecked),
    Describe {
        groups: Unread,
        include_authorized_operations: bool,
    },
    Delete(Deleted),
    Leave {
        group_id: Text,
        members: Unread,
    },
    Fetch {
        groups: Unread,
        require_stable: bool,
    },
    List {
        request: ListGroupsRequest<'static>,
        shard: usize,
        row: u32,
    },
}

/// A request whose names are not all checked yet.
#[derive(Debug)]
pub(super) struct Unchecked {
    checking: Checking,
    /// Of a LeaveGroup.
    group_id: Text,
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

/// Groups that are deleted, each once, as in Kafka.
#[derive(Debug)]
pub(super) struct Deleted {
    groups: Unread,
    /// The next one; `None`: there is none, or it was not looked for.
    next: Option<Text>,
    seen: HashTable<Text>,
    /// A part of the next group is deleted.
    has_begun: bool,
}

impl Deleted {
    /// The next that was not deleted yet.
    fn peek<'a>(
        &mut self,
        header: &Header,
        frame: &'a [u8],
        hasher: &RandomState,
    ) -> Option<&'a str> {
        let spec = header.api.spec();
        while self.next.is_none()
            && let Some(name) = self.groups.next_name(spec, header.version, frame)
        {
            let text = Text::of(frame, name);
            let hash = |text: &Text| hasher.hash_one(text.read(frame));
            let is_seen = self.seen.find(hash(&text), |other| other.read(frame) == name).is_some();
            if !is_seen {
                self.seen.insert_unique(hash(&text), text, hash);
                self.next = Some(text);
            }
        }
        self.next.map(|text| text.read(frame))
    }
}

impl<'a> Arrivals<'a, '_> {
    /// What is left of a request of many entries before its first slice.
    pub(super) fn sliced(
        &mut self,
        arrival: Arrival<'a>,
        frame: &'a [u8],
        rest: Rest,
        entries: usize,
    ) -> Sliced {
        let parts = rest.parts(arrival.header.version);
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
    /// All of a request that names many, of which nothing but the beginning is checked.
    pub fn check(checking: Checking, group_id: &str, frame: &[u8]) -> Self {
        Rest::Check(Unchecked { checking, group_id: Text::of(frame, group_id) })
    }

    /// What the answer begins with; of a request that is not checked yet, it is another later.
    pub fn parts(&self, version: i16) -> Parts {
        match self {
            Rest::Describe { include_authorized_operations, .. } => {
                Parts::describing(version, *include_authorized_operations)
            }
            Rest::Delete(_) => Parts::deleting(version),
            Rest::Leave { .. } => Parts::leaving(version),
            Rest::Fetch { .. } => Parts::fetching(version),
            Rest::List { .. } | Rest::Check(_) => Parts::listing(version),
        }
    }

    /// Checks further names: what that costs in entries, and what is to be done with how many
    /// entries once all are checked.
    ///
    /// # Panics
    /// If there is nothing to check.
    pub fn check_on(
        &mut self,
        frame: &[u8],
    ) -> (usize, Result<Option<(Rest, usize)>, DecodeError>) {
        let Rest::Check(Unchecked { checking, group_id }) = self else { unreachable!() };
        let mut body = checking.body(frame);
        let before = body.position();
        let names = SLICE_ENTRIES * ENTRY_NAMES;
        let checked = checking.go_on(&mut body, names, SLICE_ENTRIES * ENTRY_CHECKED_BYTES);
        let bytes = body.position() - before;
        let cost = checked.unwrap_or_default() / ENTRY_NAMES + bytes / ENTRY_CHECKED_BYTES;
        let whole = checked.and_then(|_| {
            if !checking.is_whole() {
                return Ok(None);
            }
            let long = checking.end(&mut body, group_id.read(frame))?;
            Ok(Some((Rest::of(long, frame), long.entries())))
        });
        (1 + cost, whole)
    }

    /// All of a request that names many.
    pub fn of(long: Long<'_>, frame: &[u8]) -> Self {
        match long {
            Long::Describe { groups, include_authorized_operations } => {
                Rest::Describe { groups, include_authorized_operations }
            }
            Long::Delete { groups } => Rest::Delete(Deleted {
                groups,
                next: None,
                seen: HashTable::new(),
                has_begun: false,
            }),
            Long::Leave { group_id, members } => {
                Rest::Leave { group_id: Text::of(frame, group_id), members }
            }
            Long::Fetch { groups, require_stable, .. } => Rest::Fetch { groups, require_stable },
        }
    }

    /// All groups.
    pub fn list(request: &ListGroupsRequest<'_>) -> Self {
        Rest::List { request: request.clone().of_known_names(), shard: 0, row: 0 }
    }

    /// Hands the next slice to the shards; what it costs in entries, besides what it puts into the
    /// answer. `rows` are those of each shard.
    pub fn hand_on<'a>(
        &mut self,
        arrival: Arrival<'a>,
        frame: &'a [u8],
        rows: &[u32],
        to: &mut Arrivals<'a, '_>,
    ) -> usize {
        let header = arrival.header;
        let mut cost = 0;
        match self {
            Rest::Check(_) => unreachable!("it is checked first"),
            Rest::Describe { groups, .. } => {
                let most = SLICE_ENTRIES * ENTRY_COST_BYTES;
                let mut slice = Vec::new();
                while cost < SLICE_ENTRIES
                    && let Some(group) = groups.next_name(header.api.spec(), header.version, frame)
                {
                    cost += 1 + to.shard(group).description_bytes(group, most) / ENTRY_COST_BYTES;
                    slice.push(group);
                }
                cost = slice.len();
                to.describe_slice(&arrival, slice.into_iter());
            }
            Rest::Delete(deleted) => {
                let hasher = to.topics.hasher();
                let Some(first) = deleted.peek(&header, frame, hasher) else { return 0 };
                let is_asked = to.is_asked(&arrival);
                if to.deletable_offsets_of(first) > SLICE_OFFSETS {
                    deleted.has_begun = true;
                    to.delete_offsets_slice(&arrival, first, SLICE_OFFSETS);
                    return SLICE_ENTRIES;
                }
                if !is_asked {
                    // Its client is gone. What was begun is done, and no more.
                    to.delete_unasked(&arrival, first);
                    (deleted.next, deleted.groups) = (None, Unread::default());
                    return 1;
                }
                deleted.has_begun = false;
                let mut slice = Vec::new();
                // One that is larger waits for a slice of its own.
                while cost < SLICE_ENTRIES
                    && let Some(group) = deleted.peek(&header, frame, hasher)
                    && let offsets = to.deletable_offsets_of(group)
                    && offsets <= SLICE_OFFSETS
                {
                    cost += 1 + offsets / ENTRY_OFFSETS;
                    slice.push(group);
                    deleted.next = None;
                }
                to.delete_slice(&arrival, slice.into_iter());
                // Whether this was the last is known then.
                deleted.peek(&header, frame, hasher);
            }
            Rest::Leave { group_id, members } => {
                let mut slice = Vec::new();
                while slice.len() < SLICE_ENTRIES
                    && let Some(member) = members.next_member(header.version, frame)
                {
                    slice.push(member);
                }
                cost = slice.len();
                let group_id = group_id.read(frame);
                to.leave_slice(&arrival, LeaveGroupRequest { group_id, members: slice });
            }
            Rest::Fetch { groups, require_stable } => {
                let mut requests = Vec::new();
                while cost < SLICE_ENTRIES
                    && let Some(group) = groups.next_fetch(header.version, frame)
                {
                    cost += fetch_entries(&group);
                    if group.topics.is_none() {
                        let group_id = group.group_id;
                        cost += to.shard(group_id).offset_count_of(group_id) / ENTRY_OFFSETS;
                    }
                    requests.push(OffsetFetchRequest { require_stable: *require_stable, ..group });
                }
                to.fetch_slice(&arrival, requests);
            }
            Rest::List { request, shard, row } => {
                while cost < SLICE_ENTRIES && *shard < rows.len() {
                    let end = rows[*shard].min(*row + (SLICE_ENTRIES - cost) as u32);
                    to.list_slice(&arrival, request, *shard, *row..end);
                    cost += 1 + end.saturating_sub(*row) as usize;
                    *row = end;
                    if end >= rows[*shard] {
                        (*shard, *row) = (*shard + 1, 0);
                    }
                }
            }
        }
        cost
    }

    /// A group is half deleted: it is not to stay so.
    pub fn has_begun_to_delete(&self) -> bool {
        matches!(self, Rest::Delete(Deleted { has_begun: true, .. }))
    }

    pub fn is_done(&self, shards: usize) -> bool {
        match self {
            Rest::Check(_) => false,
            Rest::Describe { groups, .. } | Rest::Fetch { groups, .. } => groups.count() == 0,
            Rest::Delete(deleted) => deleted.next.is_none() && deleted.groups.count() == 0,
            Rest::Leave { members, .. } => members.count() == 0,
            Rest::List { shard, .. } => *shard == shards,
        }
    }
}

/// Groups, topics and partitions that a fetch names.
pub(super) fn fetch_entries(request: &OffsetFetchRequest<'_>) -> usize {
    let topics = request.topics.iter().flatten();
    1 + topics.map(|topic| 1 + topic.partition_indexes.len()).sum::<usize>()
}
