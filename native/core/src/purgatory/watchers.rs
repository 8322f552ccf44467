//! Which operations are watched under a key: a table of four bytes a key, and rows.
//!
//! A key is looked up at a random place of the table, so that is kept small. Its row was mostly used
//! not long ago: rows that become free are taken again first. It never looks at an operation, and
//! nothing that it says depends on its hashes.

use core::hash::Hash;

use ahash::RandomState;
use hashbrown::hash_table::Entry;
use hashbrown::{Equivalent, HashTable};

use super::watch::OperationId;
use crate::slab::Slab;

#[derive(Debug)]
pub(super) struct Watchers<K> {
    hasher: RandomState,
    /// The row of each key.
    table: HashTable<u32>,
    rows: Slab<Option<Watched<K>>>,
}

#[derive(Debug)]
struct Watched<K> {
    key: K,
    ids: Ids,
}

/// Ids in order, oldest first. Most keys have one, which needs no allocation.
#[derive(Debug)]
struct Ids {
    /// `NONE` if it was dropped: it is older than the others.
    first: OperationId,
    others: Vec<OperationId>,
}

impl Ids {
    fn iter(&self) -> impl Iterator<Item = OperationId> {
        let first = (!self.first.is_none()).then_some(self.first);
        first.into_iter().chain(self.others.iter().copied())
    }

    /// How many were dropped.
    fn retain(&mut self, mut keep: impl FnMut(OperationId) -> bool) -> usize {
        let mut dropped = 0;
        if !self.first.is_none() && !keep(self.first) {
            self.first = OperationId::NONE;
            dropped += 1;
        }
        let before = self.others.len();
        self.others.retain(|id| keep(*id));
        dropped + before - self.others.len()
    }

    fn is_empty(&self) -> bool {
        self.first.is_none() && self.others.is_empty()
    }
}

impl<K: Hash + Eq + Clone> Watchers<K> {
    pub fn new(hasher: RandomState) -> Self {
        Watchers { hasher, table: HashTable::new(), rows: Slab::new() }
    }

    /// Keys that have operations.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    pub fn push(&mut self, key: &K, id: OperationId) {
        let Watchers { hasher, table, rows } = self;
        let is_it = |row: &u32| watched(rows, *row).key == *key;
        let rehash = |row: &u32| hasher.hash_one(&watched(rows, *row).key);
        match table.entry(hasher.hash_one(key), is_it, rehash) {
            Entry::Occupied(row) => watched_mut(rows, *row.get()).ids.others.push(id),
            Entry::Vacant(place) => {
                let ids = Ids { first: id, others: Vec::new() };
                place.insert(rows.insert(Some(Watched { key: key.clone(), ids })));
            }
        }
    }

    /// The ids under a key, oldest first.
    pub fn ids<Q>(&self, key: &Q) -> impl Iterator<Item = OperationId>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        let is_it = |row: &u32| key.equivalent(&watched(&self.rows, *row).key);
        let row = self.table.find(self.hasher.hash_one(key), is_it);
        row.into_iter().flat_map(|row| watched(&self.rows, *row).ids.iter())
    }

    /// Keeps those of a key's ids, oldest first, for which `keep` says true, and returns how many
    /// were dropped. A key without ids is forgotten.
    pub fn retain<Q>(&mut self, key: &Q, keep: impl FnMut(OperationId) -> bool) -> usize
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        let Watchers { hasher, table, rows } = self;
        let is_it = |row: &u32| key.equivalent(&watched(rows, *row).key);
        let Ok(entry) = table.find_entry(hasher.hash_one(key), is_it) else { return 0 };
        let row = *entry.get();
        let ids = &mut watched_mut(rows, row).ids;
        let dropped = ids.retain(keep);
        if ids.is_empty() {
            entry.remove();
            rows.remove(row);
        }
        dropped
    }

    /// The same for all keys, in no order that means anything.
    pub fn retain_all(&mut self, mut keep: impl FnMut(OperationId) -> bool) {
        let rows = &mut self.rows;
        self.table.retain(|row| {
            let ids = &mut watched_mut(rows, *row).ids;
            ids.retain(&mut keep);
            let is_left = !ids.is_empty();
            if !is_left {
                rows.remove(*row);
            }
            is_left
        });
    }
}

fn watched<K>(rows: &Slab<Option<Watched<K>>>, row: u32) -> &Watched<K> {
    rows[row].as_ref().expect("it is in the table")
}

fn watched_mut<K>(rows: &mut Slab<Option<Watched<K>>>, row: u32) -> &mut Watched<K> {
    rows[row].as_mut().expect("it is in the table")
}
