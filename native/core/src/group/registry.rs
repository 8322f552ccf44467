//! All groups of a shard: id -> group, laid out for cold look-ups.
//!
//! Memory is the cost of a heartbeat at 100,000 groups, so: one table of (hash, row), group ids
//! inside their rows, one cache line per member, and boxes for what only some groups have. Nothing
//! here decides anything, and nothing iterates a table in the order of its hashes.

use core::ops::Range;

use ahash::RandomState;
use hashbrown::HashTable;
use kcoord_timer::slab::Slab;

use super::classic::member::Member;
use super::consumer::{self, client::ClientTable, subscription::SubscriptionTable};
use super::kind::Group;
use super::text::{GroupId, Interner};

#[derive(Debug)]
pub struct Registry {
    pub hasher: RandomState,
    table: HashTable<(u32, u32)>,
    /// The row that will probably be asked for next. Never believed: its id is compared.
    likely: Option<u32>,
    pub groups: Slab<Group>,
    pub members: Slab<Member>,
    pub consumer_members: Slab<consumer::member::Member>,
    /// Lists of topics that members of consumer groups subscribe to.
    pub topic_names: SubscriptionTable,
    /// Who their clients are, and where.
    pub clients: ClientTable,
    pub interner: Interner,
}

impl Registry {
    pub fn new(seed: [u64; 2]) -> Self {
        Registry {
            hasher: RandomState::with_seeds(seed[0], seed[1], !seed[0], !seed[1]),
            table: HashTable::new(),
            likely: None,
            groups: Slab::new(),
            members: Slab::new(),
            consumer_members: Slab::new(),
            topic_names: SubscriptionTable::default(),
            clients: ClientTable::default(),
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

    /// The guess, if its row is this group's still: another group may have the same hash, or the
    /// row by now. (The empty id is that of rows that were given up.)
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
        self.groups.remove(group)
    }

    /// Rows of all groups, in no order that means anything, but the same for the same inputs.
    pub fn rows(&self) -> Vec<u32> {
        let mut rows: Vec<u32> = self.table.iter().map(|entry| entry.1).collect();
        rows.sort_unstable();
        rows
    }

    /// Rows of all groups, sorted by id.
    pub fn sorted_groups(&self) -> Vec<u32> {
        self.sorted(self.rows())
    }

    /// Rows of the groups in a part of the slab, sorted by id.
    pub fn sorted_groups_in(&self, rows: Range<u32>) -> Vec<u32> {
        let rows = rows.start..rows.end.min(self.groups.end());
        self.sorted(rows.filter(|row| self.is_used(*row)).collect())
    }

    /// Whether a group has this row.
    pub fn is_used(&self, row: u32) -> bool {
        let id = self.groups[row].id.as_bytes();
        self.find_hashed(self.hash_bytes(id), id) == Some(row)
    }

    fn sorted(&self, mut rows: Vec<u32>) -> Vec<u32> {
        rows.sort_unstable_by(|a, b| {
            self.groups[*a].id.as_bytes().cmp(self.groups[*b].id.as_bytes())
        });
        rows
    }

    pub fn len(&self) -> usize {
        self.table.len()
    }
}

/// Other bits of the hash than the table looks at itself.
fn tag(hash: u64) -> u32 {
    (hash >> 16) as u32
}
