//! Which operations are watched under a key: a table of four bytes a key, and rows.
//!
//! A key is looked up at a random place of the table, so that is kept small. Its row was mostly used
//! not long ago: rows that become free are taken again first. It never looks at an operation, and
//! nothing that it says depends on its hashes.

use core::hash::Hash;

use ahash::RandomState;
use hashbrown::hash_table::Entry;
use hashbrown::{Equivalent, HashTable};

use super::OperationId;
use crate::slab::Slab;

#[derive(Debug)]
pub(super) struct Watchers<K> {
    hasher: RandomState,
    /// The row of each key.
    table: HashTable<u32>,
    rows: Slab<Watched<K>>,
}

/// A key and its ids in order, oldest first. Most keys have one, which needs no allocation.
#[derive(Debug)]
struct Watched<K> {
    /// `None` in a row that is free.
    key: Option<K>,
    /// `NONE` if it was dropped: it is older than the others.
    first: OperationId,
    others: Vec<OperationId>,
}

impl<K> Default for Watched<K> {
    fn default() -> Self {
        Watched { key: None, first: OperationId::NONE, others: Vec::new() }
    }
}

impl<K> Watched<K> {
    fn key(&self) -> &K {
        self.key.as_ref().expect("a row in the table has a key")
    }

    fn ids(&self) -> impl Iterator<Item = OperationId> {
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

    /// Becomes a free row again. Field by field: a whole row made for this would be stored in small
    /// pieces and at once copied in wider ones, which the processor cannot forward; likewise where a
    /// row is filled.
    fn forget(&mut self) {
        self.key = None;
        self.first = OperationId::NONE;
        self.others = Vec::new();
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
        let is_it = |row: &u32| rows[*row].key() == key;
        let rehash = |row: &u32| hasher.hash_one(rows[*row].key());
        match table.entry(hasher.hash_one(key), is_it, rehash) {
            Entry::Occupied(row) => rows[*row.get()].others.push(id),
            Entry::Vacant(place) => {
                let key = key.clone();
                let row = rows.reuse().unwrap_or_else(|| rows.insert(Watched::default()));
                let watched = &mut rows[row];
                watched.key = Some(key);
                watched.first = id;
                place.insert(row);
            }
        }
    }

    /// The ids under a key, oldest first.
    pub fn ids<Q>(&self, key: &Q) -> impl Iterator<Item = OperationId>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        let is_it = |row: &u32| key.equivalent(self.rows[*row].key());
        let row = self.table.find(self.hasher.hash_one(key), is_it);
        row.into_iter().flat_map(|row| self.rows[*row].ids())
    }

    /// Keeps those of a key's ids, oldest first, for which `keep` says true, and returns how many
    /// were dropped. A key without ids is forgotten.
    pub fn retain<Q>(&mut self, key: &Q, keep: impl FnMut(OperationId) -> bool) -> usize
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        let Watchers { hasher, table, rows } = self;
        let is_it = |row: &u32| key.equivalent(rows[*row].key());
        let Ok(entry) = table.find_entry(hasher.hash_one(key), is_it) else { return 0 };
        let row = *entry.get();
        let watched = &mut rows[row];
        let dropped = watched.retain(keep);
        if watched.is_empty() {
            entry.remove();
            watched.forget();
            rows.release(row);
        }
        dropped
    }

    /// The same for all keys, in no order that means anything.
    pub fn retain_all(&mut self, mut keep: impl FnMut(OperationId) -> bool) {
        let rows = &mut self.rows;
        self.table.retain(|row| {
            let watched = &mut rows[*row];
            watched.retain(&mut keep);
            let is_left = !watched.is_empty();
            if !is_left {
                watched.forget();
                rows.release(*row);
            }
            is_left
        });
    }
}
