//! All groups of a shard: id -> group -> members, laid out for cold look-ups.
//!
//! Memory is the cost of a heartbeat at 100,000 groups, so: one table of (hash, row), group ids
//! inside their rows, one cache line per member, and boxes for what only some groups have. Nothing
//! here decides anything, and nothing iterates a table in the order of its hashes.

use ahash::RandomState;
use hashbrown::HashTable;

use super::classic::member::Member;
use super::classic::rebalance::Rebalance;
use super::classic::state::State;
use super::roster::Roster;
use super::text::{GroupId, Interner, Shared};
use crate::offset::{GroupOffsets, GroupScope, OffsetTables};
use crate::slab::{NO_ROW, Slab};

/// What lives under a group id. Only classic groups are served; the ids of others are remembered
/// (states section 4, "a group of another type").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum GroupType {
    #[default]
    Classic,
    Consumer,
    Share,
    Streams,
}

impl GroupType {
    /// As ListGroups names it.
    pub const fn name(self) -> &'static str {
        match self {
            GroupType::Classic => "classic",
            GroupType::Consumer => "consumer",
            GroupType::Share => "share",
            GroupType::Streams => "streams",
        }
    }
}

/// Who assigns a generation. Never logged: found again when a loaded shard hears of the topics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Assigner {
    /// A member: Kafka's way.
    #[default]
    Leader,
    Coordinator,
    /// The same; a client assigned nevertheless, and that was told once.
    CoordinatorDisputed,
}

#[derive(Debug)]
pub struct Group {
    pub id: GroupId,
    pub generation_id: i32,
    pub state: State,
    pub group_type: GroupType,
    /// KIP-134: somebody joined while the initial delay ran. Kafka never resets it otherwise.
    pub new_member_added: bool,
    /// Of the generation that is there.
    pub assigner: Assigner,
    /// Row of the only member, if there is no roster.
    sole: u32,
    /// Row of the leader.
    pub leader: u32,
    pub roster: Option<Box<Roster>>,
    pub offsets: Option<Box<GroupOffsets>>,
    /// Offset after the last record that was written for this group.
    pub last_record_end: i64,
    pub protocol_type: Option<Shared>,
    pub protocol_name: Option<Shared>,
    /// When it entered its state; -1: unknown (records v0 and v1).
    pub state_timestamp_ms: i64,
    /// Soft state of a rebalance and of ids handed out; none in a group at rest.
    pub rebalance: Option<Box<Rebalance>>,
}

const _: () = assert!(size_of::<Group>() <= 104, "a group at rest is small");

impl Default for Group {
    fn default() -> Self {
        Group {
            id: GroupId::default(),
            generation_id: 0,
            state: State::Empty,
            group_type: GroupType::Classic,
            new_member_added: false,
            assigner: Assigner::Leader,
            sole: NO_ROW,
            leader: NO_ROW,
            roster: None,
            offsets: None,
            last_record_end: 0,
            protocol_type: None,
            protocol_name: None,
            state_timestamp_ms: -1,
            rebalance: None,
        }
    }
}

impl Group {
    /// Rows of its members, earliest first.
    pub fn member_rows(&self) -> &[u32] {
        match &self.roster {
            Some(roster) => roster.members.rows(),
            None if self.sole == NO_ROW => &[],
            None => core::slice::from_ref(&self.sole),
        }
    }

    pub fn has_members(&self) -> bool {
        !self.member_rows().is_empty()
    }

    /// `""` where it has none.
    pub fn protocol_type(&self) -> &str {
        self.protocol_type.as_ref().map_or("", |shared| shared)
    }

    pub fn protocol_name(&self) -> Option<&str> {
        self.protocol_name.as_ref().map(|shared| &***shared)
    }

    /// Whether the coordinator has assigned this generation: it has no leader then.
    pub fn is_assigned_here(&self) -> bool {
        self.assigner != Assigner::Leader
    }

    pub fn is_simple(&self) -> bool {
        self.group_type == GroupType::Classic && self.protocol_type.is_none()
    }

    /// Its offsets, to be read or written.
    pub fn offset_scope<'a>(&'a mut self, tables: &'a mut OffsetTables) -> GroupScope<'a> {
        let offsets = self.offsets.get_or_insert_default();
        GroupScope { group_id: self.id.as_str(), offsets, tables }
    }

    /// Row of the only member; None if there is none or there are several.
    pub fn sole(&self) -> Option<u32> {
        (self.sole != NO_ROW).then_some(self.sole)
    }
}

#[derive(Debug)]
pub struct Registry {
    pub hasher: RandomState,
    table: HashTable<(u32, u32)>,
    /// The row that will probably be asked for next. Never believed: its id is compared.
    likely: Option<u32>,
    pub groups: Slab<Group>,
    pub members: Slab<Member>,
    interner: Interner,
}

impl Registry {
    pub fn new(seed: [u64; 2]) -> Self {
        Registry {
            hasher: RandomState::with_seeds(seed[0], seed[1], !seed[0], !seed[1]),
            table: HashTable::new(),
            likely: None,
            groups: Slab::new(),
            members: Slab::new(),
            interner: Interner::default(),
        }
    }

    pub fn hash(&self, id: &str) -> u64 {
        self.hash_bytes(id.as_bytes())
    }

    pub fn hash_bytes(&self, id: &[u8]) -> u64 {
        self.hasher.hash_one(id)
    }

    #[inline]
    pub fn find(&self, group_id: &str) -> Option<u32> {
        let likely = self.confirmed(self.likely, group_id.as_bytes());
        likely.or_else(|| self.find_hashed(self.hash(group_id), group_id.as_bytes()))
    }

    /// What [`guess`](Self::guess) said of the group that is asked for next.
    pub fn expect(&mut self, guess: Option<u32>) {
        self.likely = guess;
    }

    /// The guess, if its row is this group's still: another group may have the same hash, or the row
    /// by now. (The empty id is that of rows that were given up.)
    #[inline]
    pub fn confirmed(&self, guess: Option<u32>, group_id: &[u8]) -> Option<u32> {
        guess.filter(|row| !group_id.is_empty() && self.groups[*row].id.as_bytes() == group_id)
    }

    pub fn find_hashed(&self, hash: u64, group_id: &[u8]) -> Option<u32> {
        let tag = tag(hash);
        let is_it =
            |entry: &(u32, u32)| entry.0 == tag && self.groups[entry.1].id.as_bytes() == group_id;
        self.table.find(hash, is_it).map(|entry| entry.1)
    }

    /// The row that probably is this group's: found by its hash alone, its memory not touched.
    pub fn guess(&self, hash: u64) -> Option<u32> {
        self.table.find(hash, |entry| entry.0 == tag(hash)).map(|entry| entry.1)
    }

    /// Adds a group that is not there yet: classic, Empty, without a record.
    pub fn create(&mut self, group_id: &str) -> u32 {
        self.create_hashed(self.hash(group_id), group_id)
    }

    pub fn create_hashed(&mut self, hash: u64, group_id: &str) -> u32 {
        debug_assert!(self.find(group_id).is_none());
        let row = self.groups.insert(Group { id: GroupId::new(group_id), ..Group::default() });
        let (groups, hasher) = (&self.groups, &self.hasher);
        let rehash = |entry: &(u32, u32)| hasher.hash_one(groups[entry.1].id.as_bytes());
        self.table.insert_unique(hash, (tag(hash), row), rehash);
        row
    }

    /// Puts a group into a row of the slab that is free for it.
    pub fn put(&mut self, row: u32, group: Group) {
        let hash = self.hash_bytes(group.id.as_bytes());
        self.groups[row] = group;
        let (groups, hasher) = (&self.groups, &self.hasher);
        let rehash = |entry: &(u32, u32)| hasher.hash_one(groups[entry.1].id.as_bytes());
        self.table.insert_unique(hash, (tag(hash), row), rehash);
    }

    /// Takes the group out. Its members must be gone.
    pub fn remove(&mut self, group: u32) -> Group {
        let hash = self.hasher.hash_one(self.groups[group].id.as_bytes());
        let entry = self.table.find_entry(hash, |entry| entry.1 == group);
        entry.expect("a group is found under its id").remove();
        let removed = self.groups.remove(group);
        debug_assert!(!removed.has_members());
        removed
    }

    /// Rows of all groups, in no order that means anything, but the same for the same inputs.
    pub fn rows(&self) -> Vec<u32> {
        let mut rows: Vec<u32> = self.table.iter().map(|entry| entry.1).collect();
        rows.sort_unstable();
        rows
    }

    /// Rows of all groups, sorted by id.
    pub fn sorted_groups(&self) -> Vec<u32> {
        let mut rows = self.rows();
        rows.sort_unstable_by(|a, b| {
            self.groups[*a].id.as_bytes().cmp(self.groups[*b].id.as_bytes())
        });
        rows
    }

    pub fn len(&self) -> usize {
        self.table.len()
    }

    pub fn find_member(&self, group: u32, member_id: &str) -> Option<u32> {
        let of = &self.groups[group];
        match &of.roster {
            Some(roster) => roster.members.find(&self.members, self.hash(member_id), member_id),
            None => of.sole().filter(|row| self.members[*row].is_member_id(member_id)),
        }
    }

    pub fn find_static_member(&self, group: u32, group_instance_id: &str) -> Option<u32> {
        let of = &self.groups[group];
        match &of.roster {
            Some(roster) => roster.static_members.get(group_instance_id).copied(),
            None => of
                .sole()
                .filter(|row| self.members[*row].group_instance_id() == Some(group_instance_id)),
        }
    }

    /// Lets a row of the member slab join the group, behind those that are there.
    pub fn attach_member(&mut self, group: u32, member: u32) {
        self.members[member].group = group;
        if !self.groups[group].has_members() && self.groups[group].roster.is_none() {
            self.groups[group].sole = member;
            return;
        }
        let mut roster = self.groups[group].roster.take().unwrap_or_default();
        let sole = core::mem::replace(&mut self.groups[group].sole, NO_ROW);
        for row in [sole, member].into_iter().filter(|row| *row != NO_ROW) {
            let added = &self.members[row];
            roster.members.insert(self.hash(added.member_id()), row);
            if let Some(instance_id) = added.group_instance_id() {
                let earlier = roster.static_members.insert(instance_id.into(), row);
                assert!(earlier.is_none(), "an instance id belongs to one member");
            }
        }
        self.groups[group].roster = Some(roster);
    }

    /// Takes a member's row out of its group and out of the slab.
    pub fn detach_member(&mut self, member: u32) -> Member {
        let (group, hash) =
            (self.members[member].group, self.hash(self.members[member].member_id()));
        let of = &mut self.groups[group];
        match &mut of.roster {
            None => of.sole = NO_ROW,
            Some(roster) => {
                roster.members.remove(hash, member);
                if let Some(instance_id) = self.members[member].group_instance_id() {
                    roster.static_members.remove(instance_id);
                }
                if roster.members.len() < 2 {
                    of.sole = roster.members.rows().first().copied().unwrap_or(NO_ROW);
                    of.roster = None;
                }
            }
        }
        if of.leader == member {
            of.leader = of.member_rows().first().copied().unwrap_or(NO_ROW);
        }
        self.members.remove(member)
    }

    /// Gives a member another id.
    pub fn rename_member(&mut self, member: u32, member_id: &str) {
        let old_hash = self.hash(self.members[member].member_id());
        let new_hash = self.hash(member_id);
        let group = self.members[member].group;
        self.members[member].store_member_id(member_id);
        if let Some(roster) = &mut self.groups[group].roster {
            roster.members.rename(old_hash, new_hash, member);
        }
    }

    pub fn set_protocol_type(&mut self, group: u32, protocol_type: &str) {
        if self.groups[group].protocol_type() == protocol_type {
            return;
        }
        let shared = self.intern(protocol_type);
        self.groups[group].protocol_type = shared;
    }

    pub fn set_protocol_name(&mut self, group: u32, protocol_name: Option<&str>) {
        if self.groups[group].protocol_name() == protocol_name {
            return;
        }
        let shared = protocol_name.map(|name| self.interner.intern(&self.hasher, name));
        self.groups[group].protocol_name = shared;
    }

    /// `""` is the same as none (states section 1.1).
    fn intern(&mut self, text: &str) -> Option<Shared> {
        (!text.is_empty()).then(|| self.interner.intern(&self.hasher, text))
    }
}

/// Other bits of the hash than the table looks at itself.
fn tag(hash: u64) -> u32 {
    (hash >> 16) as u32
}
